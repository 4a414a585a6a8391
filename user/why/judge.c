/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/judge.h"

#include <string.h>

#include "jankscope/timeline.h"
#include "why/cast.h"
#include "why/handover.h"

#define MAX_TIME_NS (1ll << 61) /* differences of two of them fit */

#define SF_JANK                                                                                 \
	(JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING | JANK_DISPLAY_HAL | \
	 JANK_PREDICTION_ERROR)

/* What speaks for one cause. */
struct evidence {
	int64_t ns;            /* on the critical path */
	int64_t thread_ns;     /* of the thread that gave most of it */
	size_t thread;         /* WHY_NONE: no thread did */
	struct why_shares who; /* whom it points to */
	int64_t nobody_ns;     /* for which nobody is to blame: throttled */
};

struct trial {
	struct why_frame *frame;
	struct evidence of[JANK_CAUSES]; /* [JANK_CAUSE_UNKNOWN]: waits for nobody knows what */
	int64_t unseen_ns;               /* critical time of which nothing was recorded */
	size_t main, render;
	/* a thread's share of one cause, while its pieces are walked */
	int64_t own_ns[JANK_CAUSES];
};

static int64_t clamp(int64_t ns)
{
	return ns > MAX_TIME_NS ? MAX_TIME_NS : ns < -MAX_TIME_NS ? -MAX_TIME_NS : ns;
}

static bool known(int64_t ns)
{
	return ns != WHY_NO_TIME;
}

int64_t why_late(const struct why_frame *frame)
{
	int64_t late_ns = 0;

	if (known(frame->present_ns) && known(frame->predicted_ns) && !frame->dropped)
		late_ns = clamp(frame->present_ns) - clamp(frame->predicted_ns);
	else if (known(frame->expected_end_ns))
		late_ns = clamp(frame->actual_end_ns) - clamp(frame->expected_end_ns);
	return late_ns > 0 ? late_ns : 0;
}

/* Which cause the wait of a thread of the app stands for. began: it is at work on the frame, so
 * that a poll is no longer that of its idle loop. What a RenderThread polls is a fence (sync_wait).
 */
static enum jank_cause cause_of_wait(uint8_t state, uint8_t reason, bool began, bool render)
{
	if (state == SPELL_RUNNABLE)
		return JANK_CAUSE_NO_CPU;
	if (state != SPELL_SLEEPING && state != SPELL_UNINTERRUPTIBLE)
		return JANK_CAUSE_UNKNOWN;
	switch (reason) {
	case LOOPER_REASON_FUTEX:
		return JANK_CAUSE_LOCK;
	case LOOPER_REASON_BINDER:
		return JANK_CAUSE_BINDER;
	case LOOPER_REASON_POLL:
		if (render)
			return JANK_CAUSE_GPU;
		/* fall through */
	case SPELL_REASON_LOOPER:
		return began ? JANK_CAUSE_IO : JANK_CAUSE_UNKNOWN;
	case LOOPER_REASON_READ:
	case LOOPER_REASON_IO:
		return JANK_CAUSE_IO;
	case LOOPER_REASON_PAGE_FAULT:
		return JANK_CAUSE_PAGE_FAULT;
	case LOOPER_REASON_THROTTLED:
		return JANK_CAUSE_NO_CPU;
	case SPELL_REASON_GPU:
		return JANK_CAUSE_GPU;
	case SPELL_REASON_BUFFER:
		return JANK_CAUSE_STUFFING;
	}
	return JANK_CAUSE_UNKNOWN;
}

static void add(struct trial *trial, enum jank_cause cause, int64_t ns,
		const struct spell_thread *who)
{
	trial->of[cause].ns += ns;
	trial->own_ns[cause] += ns;
	if (who)
		why_shares_add(&trial->of[cause].who, who, ns);
}

/* Whom of the frame the main thread waits for in this sleep, which was ended by that thread: a
 * RenderThread. *unseen: for one of which nothing was recorded. */
static size_t drawer_of(const struct trial *trial, const struct spell_thread *waker, bool *unseen)
{
	const struct why_frame *frame = trial->frame;

	*unseen = false;
	for (size_t i = 0; waker->tid && i < frame->thread_count; i++)
		if (frame->threads[i].role == JANK_ROLE_RENDER &&
		    frame->threads[i].tid == waker->tid)
			return i;
	*unseen = waker->tid && waker->tgid == frame->threads[trial->main].pid &&
		  !strcmp(waker->comm, "RenderThread") &&
		  (trial->render == WHY_NONE || !why_is_known(&frame->threads[trial->render]));
	return WHY_NONE;
}

/* The frame waited for this thread in [from_ns, to_ns). While the main thread sleeps until a
 * RenderThread wakes it (it hands over its drawing, syncFrameState), it is that one's time. */
static void walk(struct trial *trial, size_t index, int64_t from_ns, int64_t to_ns, bool follow)
{
	struct why_thread *thread = &trial->frame->threads[index];
	struct why_pieces pieces = why_pieces(thread->spells, thread->spell_count, from_ns, to_ns);
	bool began = thread->role != JANK_ROLE_MAIN || from_ns >= trial->frame->actual_start_ns;
	struct why_piece piece;

	while (why_next_piece(&pieces, &piece)) {
		int64_t ns = piece.end_ns - piece.begin_ns;
		const struct spell_thread *other = piece.spell ? &piece.spell->other : NULL;
		size_t drawer = WHY_NONE;
		bool unseen = false;

		if (follow && piece.state == SPELL_SLEEPING)
			drawer = drawer_of(trial, other, &unseen);
		if (drawer != WHY_NONE) {
			walk(trial, drawer, piece.begin_ns, piece.end_ns, false);
			continue;
		}
		thread->critical_ns += ns;
		if (piece.state == SPELL_UNKNOWN || unseen)
			trial->unseen_ns += ns;
		else if (piece.state == SPELL_RUNNING)
			add(trial,
			    thread->role == JANK_ROLE_MAIN ? JANK_CAUSE_MAIN_CPU
							   : JANK_CAUSE_RENDER_CPU,
			    ns, NULL);
		else
			add(trial,
			    cause_of_wait(piece.state, piece.reason, began,
					  thread->role == JANK_ROLE_RENDER),
			    ns, why_is_throttled(piece.state, piece.reason) ? NULL : other);
		if (why_is_throttled(piece.state, piece.reason))
			trial->of[JANK_CAUSE_NO_CPU].nobody_ns += ns;
	}
}

/* The same, and for each cause remember which thread gave most. */
static void blame(struct trial *trial, size_t index, int64_t from_ns, int64_t to_ns, bool follow)
{
	if (index == WHY_NONE || from_ns >= to_ns)
		return;
	memset(trial->own_ns, 0, sizeof(trial->own_ns));
	walk(trial, index, from_ns, to_ns, follow);
	for (int cause = 0; cause < JANK_CAUSES; cause++) {
		struct evidence *evidence = &trial->of[cause];
		size_t thread = cause == JANK_CAUSE_RENDER_CPU ? trial->render : index;

		if (trial->own_ns[cause] > evidence->thread_ns) {
			evidence->thread_ns = trial->own_ns[cause];
			evidence->thread = thread;
		}
	}
}

/* Behind the buffer was queued. Where only the spells say that it was, one that ended there, or of
 * which nothing is known from there on, may have queued none. */
static void blame_gpu(struct trial *trial, int64_t from_ns, int64_t to_ns)
{
	const struct why_frame *frame = trial->frame;
	struct evidence *gpu = &trial->of[JANK_CAUSE_GPU];
	int64_t unseen_ns = 0;

	if (!known(frame->queued_ns) && trial->render != WHY_NONE)
		unseen_ns = why_unseen(&frame->threads[trial->render], from_ns, to_ns);
	trial->unseen_ns += unseen_ns;
	gpu->ns += to_ns - from_ns - unseen_ns;
	if (gpu->thread == WHY_NONE)
		gpu->thread = trial->render;
}

/* The app's part: main thread, RenderThread, GPU, one behind the other. */
static void try_app(struct trial *trial, int64_t from_ns, int64_t to_ns)
{
	const struct why_frame *frame = trial->frame;
	int64_t handed_ns, queued_ns, start_ns = frame->actual_start_ns;

	if (trial->main == WHY_NONE) {
		trial->unseen_ns += to_ns - from_ns;
		return;
	}
	start_ns = start_ns < from_ns ? from_ns : start_ns > to_ns ? to_ns : start_ns;
	handed_ns = why_handed(frame, trial->main, trial->render, start_ns, to_ns);
	queued_ns = why_queued(frame, trial->render, handed_ns, to_ns);
	blame(trial, trial->main, from_ns, start_ns, false);
	blame(trial, trial->main, start_ns, handed_ns, true);
	if (trial->render != WHY_NONE)
		blame(trial, trial->render, handed_ns, queued_ns, false);
	else
		trial->unseen_ns += queued_ns - handed_ns;
	if (queued_ns < to_ns)
		blame_gpu(trial, queued_ns, to_ns);
}

/* Weights of the app's causes: a wait counts in full, work only beyond half of what the frame was
 * given, and each kind of work by its part of all. */
static void weigh_app(const struct trial *trial, double weights[JANK_CAUSES])
{
	static const enum jank_cause work[] = {JANK_CAUSE_MAIN_CPU, JANK_CAUSE_RENDER_CPU,
					       JANK_CAUSE_GPU};
	const struct why_frame *frame = trial->frame;
	double sum = 0, half = 0, beyond;

	for (int cause = 0; cause < JANK_CAUSES; cause++)
		weights[cause] = (double)trial->of[cause].ns;
	weights[JANK_CAUSE_UNKNOWN] += (double)trial->unseen_ns;
	for (size_t i = 0; i < 3; i++)
		sum += weights[work[i]];
	if (known(frame->expected_start_ns) && known(frame->expected_end_ns) &&
	    frame->expected_end_ns > frame->expected_start_ns)
		half = (double)(clamp(frame->expected_end_ns) - clamp(frame->expected_start_ns)) /
		       2;
	beyond = sum > half ? (sum - half) / sum : 0;
	for (size_t i = 0; i < 3; i++)
		weights[work[i]] *= beyond;
}

/* Which of the display's threads had most to do from when the display's frame was begun. */
static void try_display(struct trial *trial, int64_t from_ns, int64_t to_ns)
{
	struct why_frame *frame = trial->frame;
	int64_t most_ns[2] = {0, 0};

	for (size_t i = 0; i < frame->thread_count; i++) {
		struct why_thread *thread = &frame->threads[i];
		bool hwc = thread->role == JANK_ROLE_HWC;
		struct evidence *evidence =
			&trial->of[hwc ? JANK_CAUSE_HWC : JANK_CAUSE_SURFACEFLINGER];
		struct why_ledger ledger;
		int64_t ns;

		if (!hwc && thread->role != JANK_ROLE_SF_MAIN &&
		    thread->role != JANK_ROLE_RENDER_ENGINE)
			continue;
		why_cut(thread->spells, thread->spell_count, from_ns, to_ns, &ledger);
		ns = ledger.ns[SPELL_RUNNING] + ledger.ns[SPELL_RUNNABLE] +
		     ledger.ns[SPELL_UNINTERRUPTIBLE];
		thread->critical_ns += ns;
		evidence->ns += ns;
		if (ns > most_ns[hwc]) {
			most_ns[hwc] = ns;
			evidence->thread = i;
			evidence->who = ledger.preemptors;
		}
	}
}

/* The display's part goes to one of the two as a whole: who SurfaceFlinger says, else who had more
 * to do. */
static enum jank_cause display_cause(const struct trial *trial)
{
	uint32_t jank = trial->frame->jank;
	int64_t sf_ns = trial->of[JANK_CAUSE_SURFACEFLINGER].ns;
	int64_t hwc_ns = trial->of[JANK_CAUSE_HWC].ns;

	if (jank & (JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING))
		return JANK_CAUSE_SURFACEFLINGER;
	if (jank & (JANK_DISPLAY_HAL | JANK_PREDICTION_ERROR))
		return JANK_CAUSE_HWC;
	if (hwc_ns > sf_ns)
		return JANK_CAUSE_HWC;
	return sf_ns ? JANK_CAUSE_SURFACEFLINGER : JANK_CAUSE_UNKNOWN;
}

/* left_ns: of the delay; beyond 2^53 a double tells it to some 100 ns only. */
static struct why_part part_of(const struct trial *trial, int cause, double ns, int64_t left_ns)
{
	const struct evidence *evidence = &trial->of[cause];
	struct why_part part = {.cause = (enum jank_cause)cause,
				.ns = (int64_t)ns < left_ns ? (int64_t)ns : left_ns,
				.thread = evidence->thread};
	int64_t most_ns = evidence->nobody_ns;

	for (size_t i = 0; i < evidence->who.count; i++) {
		if (evidence->who.items[i].ns <= most_ns)
			continue;
		most_ns = evidence->who.items[i].ns;
		part.culprit = evidence->who.items[i].who;
	}
	return part;
}

/* The two causes with most weight; the second one only with over a third. */
static void choose(const struct trial *trial, const double weights[JANK_CAUSES],
		   struct why_verdict *verdict)
{
	int first = JANK_CAUSE_UNKNOWN, second = JANK_CAUSE_UNKNOWN;
	double sum = weights[JANK_CAUSE_UNKNOWN], late = (double)verdict->late_ns;

	for (int cause = 1; cause < JANK_CAUSES; cause++) {
		sum += weights[cause];
		if (weights[cause] > (first ? weights[first] : 0)) {
			second = first;
			first = cause;
		} else if (weights[cause] > (second ? weights[second] : 0)) {
			second = cause;
		}
	}
	/* what is not known outweighs all that is */
	if (!first || weights[JANK_CAUSE_UNKNOWN] > weights[first])
		return;
	verdict->confidence = weights[first] / sum;
	verdict->first = part_of(trial, first, late * weights[first] / sum, verdict->late_ns);
	if (second && weights[second] * 3 > sum) {
		verdict->second = part_of(trial, second, late * weights[second] / sum,
					  verdict->late_ns - verdict->first.ns);
		verdict->confidence += weights[second] / sum;
	}
	if (verdict->confidence > 1)
		verdict->confidence = 1;
}

/* What the app overran has cost the time until the display's frame that took its buffer was to be
 * begun: it goes to the app's causes. The rest of the delay is the display's. */
static void share_with_display(struct trial *trial, int64_t over_ns, double weights[JANK_CAUSES],
			       const struct why_verdict *verdict)
{
	const struct why_frame *frame = trial->frame;
	int64_t from_ns = frame->actual_end_ns, to_ns = verdict->window_end_ns, cost_ns = over_ns;
	int64_t rest_ns;
	double sum = 0;

	if (over_ns > 0 && known(frame->compose_due_ns))
		cost_ns = clamp(frame->compose_due_ns) - clamp(frame->expected_end_ns);
	if (cost_ns < over_ns)
		cost_ns = over_ns;
	for (int cause = 0; cause < JANK_CAUSES; cause++)
		sum += weights[cause];
	for (int cause = 0; cause < JANK_CAUSES && sum > 0; cause++)
		weights[cause] *= (double)cost_ns / sum;
	if (known(frame->compose_start_ns))
		from_ns = clamp(frame->compose_start_ns);
	if (!frame->dropped && known(frame->present_ns) && clamp(frame->present_ns) > to_ns)
		to_ns = clamp(frame->present_ns);
	try_display(trial, from_ns < verdict->window_start_ns ? verdict->window_start_ns : from_ns,
		    to_ns);
	rest_ns = verdict->late_ns - cost_ns;
	/* One that the display dropped, and for which the app was in time, is late by no time. */
	if (frame->dropped && !over_ns && known(frame->expected_end_ns))
		rest_ns = 1;
	if (rest_ns > 0)
		weights[display_cause(trial)] += (double)rest_ns;
}

static void judge(struct trial *trial, struct why_verdict *verdict)
{
	const struct why_frame *frame = trial->frame;
	double weights[JANK_CAUSES] = {0};
	int64_t end_ns = frame->actual_end_ns, over_ns = 0;
	bool app = !known(frame->expected_end_ns), display;

	if (!app && end_ns > clamp(frame->expected_end_ns))
		over_ns = clamp(end_ns) - clamp(frame->expected_end_ns);
	app |= over_ns > 0 || (frame->dropped && (frame->jank & JANK_APP_DEADLINE));
	display = (frame->jank & SF_JANK) || !app;
	/* its buffers wait one behind the other since an earlier frame was late */
	if ((frame->jank & JANK_BUFFER_STUFFING) && !(frame->jank & JANK_APP_DEADLINE)) {
		weights[JANK_CAUSE_STUFFING] = 1;
		choose(trial, weights, verdict);
		return;
	}
	if (app)
		try_app(trial, verdict->window_start_ns, end_ns);
	if (app)
		weigh_app(trial, weights);
	if (!display || (app && !(frame->jank & SF_JANK)))
		goto out;
	share_with_display(trial, over_ns, weights, verdict);
out:
	choose(trial, weights, verdict);
}

void why_judge(struct why_frame *frame, struct why_verdict *verdict)
{
	struct trial trial = {.frame = frame};
	int64_t start_ns =
		known(frame->expected_start_ns) ? frame->expected_start_ns : frame->actual_start_ns;

	memset(verdict, 0, sizeof(*verdict));
	verdict->first.thread = verdict->second.thread = WHY_NONE;
	frame->actual_start_ns = clamp(frame->actual_start_ns);
	frame->actual_end_ns = clamp(frame->actual_end_ns);
	verdict->late_ns = why_late(frame);
	verdict->window_start_ns = clamp(start_ns);
	verdict->window_end_ns = frame->actual_end_ns;
	/* the app was in time: what was late comes behind */
	if (!frame->dropped && known(frame->present_ns) && known(frame->expected_end_ns) &&
	    frame->actual_end_ns <= frame->expected_end_ns &&
	    clamp(frame->present_ns) > verdict->window_end_ns)
		verdict->window_end_ns = clamp(frame->present_ns);
	if (verdict->window_start_ns > verdict->window_end_ns)
		verdict->window_start_ns = verdict->window_end_ns;
	for (size_t i = 0; i < frame->thread_count; i++) {
		struct why_thread *thread = &frame->threads[i];

		thread->critical_ns = 0;
		why_cut(thread->spells, thread->spell_count, verdict->window_start_ns,
			verdict->window_end_ns, &thread->ledger);
	}
	for (int cause = 0; cause < JANK_CAUSES; cause++)
		trial.of[cause].thread = WHY_NONE;
	trial.main = why_thread_of(frame, JANK_ROLE_MAIN);
	trial.render = why_renderer_of(frame, trial.main, verdict->window_start_ns,
				       verdict->window_end_ns);
	judge(&trial, verdict);
}
