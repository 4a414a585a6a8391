/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/flow.h"
#include "frames/sort.h"
#include <math.h>
#include <string.h>

void flow_grid_init(struct flow_grid *grid, const int64_t *times_ns, size_t count,
		    int64_t default_ns)
{
	period_window_init(&grid->window, times_ns, count, 0);
	grid->times_ns = times_ns;
	grid->count = count;
	grid->recent_end = 0;
	grid->recent_ns = 0;
	grid->default_ns = default_ns;
}

int64_t flow_grid_period(struct flow_grid *grid, int64_t time_ns)
{
	int64_t period_ns = period_at(&grid->window, time_ns);
	size_t end = grid->window.high, first;

	if (period_ns)
		return period_ns;
	if (end != grid->recent_end) {
		first = end > FLOW_RECENT ? end - FLOW_RECENT : 0;
		grid->recent_ns = period_global(grid->times_ns + first, end - first);
		grid->recent_end = end;
	}
	return grid->recent_ns ? grid->recent_ns : grid->default_ns;
}

/* The median of the last intervals. */
static int64_t cadence(const struct flow *flow)
{
	int64_t sorted[FLOW_CADENCE];
	size_t n = flow->intervals < FLOW_CADENCE ? (size_t)flow->intervals : FLOW_CADENCE;

	if (!n)
		return 0;
	memcpy(sorted, flow->recent, n * sizeof(sorted[0]));
	sort_i64(sorted, n);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static uint64_t rounded_drops(int64_t late_ns, int64_t period_ns)
{
	double drops = floor((double)late_ns / (double)period_ns + 0.5);

	return drops > 0 ? (uint64_t)drops : 0;
}

static int64_t predicted_of(const struct frame *frame)
{
	return frame->flags & FRAME_PERIOD ? TIMELINE_NONE : frame->predicted_ns;
}

/* How long after the frame before this one was due, 0: nobody said. */
static int64_t predicted_gap(const struct flow *flow, const struct frame *frame)
{
	int64_t before_ns = predicted_of(&flow->last), now_ns = predicted_of(frame);

	if (flow->has_missed) {
		/* the screen should have changed when the first of the dropped was due */
		if (before_ns == TIMELINE_NONE)
			before_ns = flow->last.present_ns;
		if (now_ns == TIMELINE_NONE || flow->missed_ns < now_ns)
			now_ns = flow->missed_ns;
	}
	return before_ns == TIMELINE_NONE || now_ns == TIMELINE_NONE ? 0 : now_ns - before_ns;
}

static void fill_step(const struct flow *flow, const struct frame *frame, bool unpredicted,
		      struct flow_step *step)
{
	int64_t interval_ns = frame->present_ns - flow->last.present_ns;
	int64_t gap_ns = predicted_gap(flow, frame), usual_ns = unpredicted ? cadence(flow) : 0;
	int64_t work_ns = frame->work_ns == TIMELINE_NONE ? 0 : frame->work_ns;
	int64_t due_ns;

	/* of the first interval nobody knows whether it was long: a game may draw each second
	 * refresh */
	if (unpredicted && !flow->intervals && interval_ns <= METRICS_IDLE_NS)
		usual_ns = interval_ns;
	due_ns = gap_ns ? gap_ns : usual_ns;
	if (due_ns < step->period_ns)
		due_ns = step->period_ns;
	step->follows = true;
	step->missed = flow->has_missed;
	step->interval_ns = interval_ns;
	step->late_ns = step->interval_ns - due_ns;
	step->idle = due_ns > METRICS_IDLE_NS;
	/* latches and slices do not say when a frame was due: a long gap is idle time unless a
	 * frame of the app began early in it */
	if (unpredicted && !gap_ns && !(frame->flags & FRAME_DUE) &&
	    step->interval_ns - work_ns > METRICS_IDLE_NS && usual_ns <= METRICS_IDLE_NS) {
		step->idle = true;
		step->late_ns = work_ns - step->period_ns;
	}
	step->dropped = rounded_drops(step->late_ns, step->period_ns);
	step->active_ns = step->interval_ns;
	if (step->idle)
		step->active_ns = step->period_ns + (step->late_ns > 0 ? step->late_ns : 0);
}

static int64_t period_of(const struct flow_input *input, const struct frame *frame)
{
	if (frame->flags & FRAME_PERIOD && frame->period_ns)
		return frame->period_ns;
	return flow_grid_period(input->grid, frame->present_ns);
}

/* The frames at input[first, end) were presented together: the first one with a buffer stands for
 * all of them. NULL: they were dropped, all of them. */
static const struct frame *choose(struct flow *flow, const struct flow_input *input, size_t first,
				  size_t end, struct flow_counts *counts)
{
	const struct frame *best = NULL;

	for (size_t i = first; i < end; i++) {
		const struct frame *frame = &input->frames[i];

		if (frame->flags & FRAME_DROPPED) {
			if (!flow->has_missed && flow->has_last) {
				flow->has_missed = true;
				flow->missed_ns = frame->present_ns;
			}
			continue;
		}
		counts->duplicates += best != NULL;
		if (!best || (best->flags & FRAME_NO_BUFFER && !(frame->flags & FRAME_NO_BUFFER)))
			best = frame;
	}
	return best;
}

int flow_feed(struct flow *flow, const struct flow_input *input, size_t *consumed,
	      struct flow_counts *counts, int (*visit)(void *ctx, const struct flow_step *step),
	      void *ctx)
{
	size_t i = 0, end;
	int err = 0;

	for (; i < input->count && !err; i = end) {
		struct flow_step step = {.follows = false};
		const struct frame *chosen;
		struct frame frame;

		if (input->frames[i].present_ns >= input->ready_ns)
			break;
		for (end = i + 1; end < input->count &&
				  input->frames[end].present_ns == input->frames[i].present_ns;)
			end++;
		if (input->frames[i].present_ns >= input->covered_ns)
			continue;
		chosen = choose(flow, input, i, end, counts);
		if (!chosen)
			continue;
		/* visit may use the room of the frames that are done */
		frame = *chosen;
		if (flow->has_last && frame.present_ns <= flow->last.present_ns) {
			if (frame.present_ns == flow->last.present_ns)
				counts->duplicates++;
			else
				counts->late++;
			continue;
		}
		step.frame = &frame;
		step.period_ns = period_of(input, &frame);
		if (flow->has_last) {
			fill_step(flow, &frame, input->unpredicted, &step);
			/* a doFrame tells when its frame began: what was idle is no cadence */
			flow->recent[flow->intervals++ % FLOW_CADENCE] =
				frame.work_ns == TIMELINE_NONE ? step.interval_ns : step.active_ns;
		}
		err = visit(ctx, &step);
		flow->last = frame;
		flow->has_last = true;
		flow->has_missed = false;
	}
	*consumed = i;
	return err;
}
