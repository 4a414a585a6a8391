/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/handover.h"

static bool is_told(int64_t ns)
{
	return ns != WHY_NO_TIME;
}

static bool sleeps_in_looper(const struct spell *spell)
{
	return spell->state == SPELL_SLEEPING && spell->reason == SPELL_REASON_LOOPER;
}

/* When the thread has nothing more to do, behind from_ns; INT64_MAX: that is not seen. */
static int64_t idle_at(const struct why_thread *thread, int64_t from_ns)
{
	for (size_t i = 0; i < thread->spell_count; i++)
		if (sleeps_in_looper(&thread->spells[i]) && thread->spells[i].begin_ns > from_ns)
			return thread->spells[i].begin_ns;
	return INT64_MAX;
}

/* The end of a sleep of this thread in [from_ns, to_ns) that the other one ended: the last that is
 * not behind limit_ns, else the first. INT64_MAX: none. */
static int64_t woken_at(const struct why_thread *thread, int32_t by, int64_t from_ns, int64_t to_ns,
			int64_t limit_ns)
{
	int64_t at_ns = INT64_MAX;

	for (size_t i = 0; i < thread->spell_count; i++) {
		const struct spell *spell = &thread->spells[i];

		if (spell->state != SPELL_SLEEPING || spell->end_ns < from_ns ||
		    spell->end_ns >= to_ns || !by || spell->other.tid != by)
			continue;
		if (at_ns != INT64_MAX && spell->end_ns > limit_ns)
			break;
		at_ns = spell->end_ns;
	}
	return at_ns;
}

int64_t why_handed(const struct why_frame *frame, size_t main_at, size_t render_at, int64_t from_ns,
		   int64_t to_ns)
{
	const struct why_thread *render, *main = &frame->threads[main_at];
	int64_t run_ns = to_ns, idle_ns, limit_ns, woken_ns, synced_ns;

	if (is_told(frame->handed_ns))
		return frame->handed_ns < from_ns ? from_ns
		       : frame->handed_ns > to_ns ? to_ns
						  : frame->handed_ns;
	if (render_at == WHY_NONE)
		return to_ns;
	render = &frame->threads[render_at];
	idle_ns = idle_at(main, from_ns);
	limit_ns = idle_ns < to_ns ? idle_ns : from_ns;
	woken_ns = woken_at(render, main->tid, from_ns, to_ns, limit_ns);
	synced_ns = woken_at(main, render->tid, from_ns, to_ns, limit_ns);
	if (woken_ns > idle_ns && synced_ns < idle_ns)
		return synced_ns;
	if (woken_ns != INT64_MAX)
		return woken_ns;
	if (synced_ns != INT64_MAX)
		return synced_ns;
	for (size_t i = 0; i < render->spell_count; i++) {
		const struct spell *spell = &render->spells[i];

		if (spell->state == SPELL_RUNNING && spell->begin_ns >= from_ns &&
		    spell->begin_ns < run_ns)
			run_ns = spell->begin_ns;
	}
	return run_ns;
}

int64_t why_queued(const struct why_frame *frame, size_t render_at, int64_t handed_ns,
		   int64_t to_ns)
{
	const struct why_thread *render;
	int64_t last_ns = to_ns, idle_ns;

	if (is_told(frame->queued_ns))
		return frame->queued_ns < handed_ns ? handed_ns
		       : frame->queued_ns > to_ns   ? to_ns
						    : frame->queued_ns;
	if (render_at == WHY_NONE)
		return to_ns;
	render = &frame->threads[render_at];
	idle_ns = idle_at(render, handed_ns);
	if (idle_ns != INT64_MAX || idle_at(render, INT64_MIN) != INT64_MAX)
		return idle_ns < to_ns ? idle_ns : to_ns;
	for (size_t i = 0; i < render->spell_count; i++) {
		const struct spell *spell = &render->spells[i];

		if (spell->state == SPELL_RUNNING && spell->begin_ns < to_ns &&
		    spell->end_ns > handed_ns)
			last_ns = spell->end_ns < to_ns ? spell->end_ns : to_ns;
	}
	return last_ns;
}

int64_t why_unseen(const struct why_thread *thread, int64_t from_ns, int64_t to_ns)
{
	struct why_pieces pieces = why_pieces(thread->spells, thread->spell_count, from_ns, to_ns);
	struct why_piece piece;
	int64_t ns = 0;

	while (why_next_piece(&pieces, &piece))
		if (piece.state == SPELL_UNKNOWN)
			ns += piece.end_ns - piece.begin_ns;
	return ns;
}
