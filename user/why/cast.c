/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/cast.h"

static bool woke(const struct why_thread *thread, int32_t by, int64_t from_ns, int64_t to_ns)
{
	for (size_t i = 0; i < thread->spell_count; i++) {
		const struct spell *spell = &thread->spells[i];

		if (spell->state == SPELL_SLEEPING && spell->other.tid == by && by &&
		    spell->end_ns >= from_ns && spell->end_ns < to_ns)
			return true;
	}
	return false;
}

bool why_is_known(const struct why_thread *thread)
{
	for (int state = 0; state < SPELL_STATES; state++)
		if (state != SPELL_UNKNOWN && thread->ledger.ns[state])
			return true;
	return false;
}

size_t why_thread_of(const struct why_frame *frame, enum jank_role role)
{
	size_t first = WHY_NONE;

	for (size_t i = 0; i < frame->thread_count; i++) {
		if (frame->threads[i].role != role)
			continue;
		if (why_is_known(&frame->threads[i]))
			return i;
		if (first == WHY_NONE)
			first = i;
	}
	return first;
}

size_t why_renderer_of(const struct why_frame *frame, size_t main, int64_t from_ns, int64_t to_ns)
{
	size_t best = WHY_NONE;
	int64_t best_ns = -2;
	bool best_meets = false;

	for (size_t i = 0; i < frame->thread_count; i++) {
		const struct why_thread *thread = &frame->threads[i];
		int64_t ns = thread->ledger.ns[SPELL_RUNNING] + thread->ledger.ns[SPELL_RUNNABLE];
		bool meets;

		if (thread->role != JANK_ROLE_RENDER)
			continue;
		/* One that ended before, or was not there yet. */
		if (!why_is_known(thread))
			ns = -1;
		meets = main != WHY_NONE &&
			(woke(thread, frame->threads[main].tid, from_ns, to_ns) ||
			 woke(&frame->threads[main], thread->tid, from_ns, to_ns));
		if (meets < best_meets || (meets == best_meets && ns <= best_ns))
			continue;
		best = i;
		best_ns = ns;
		best_meets = meets;
	}
	return best;
}
