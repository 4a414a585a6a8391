/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/metrics.h"
#include "frames/period.h"
#include "frames/sort.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000LL
#define CADENCE   8 /* intervals whose median is the cadence where nothing is predicted */

size_t frames_dedupe(struct frame *frames, size_t count, uint64_t *duplicates)
{
	size_t kept = 0;

	for (size_t i = 0; i < count;) {
		size_t best = i, j;

		/* sorted by cookie: the first buffer frame stands for all that came with it */
		for (j = i; j < count && frames[j].present_ns == frames[i].present_ns; j++) {
			if (frames[best].flags & FRAME_NO_BUFFER &&
			    !(frames[j].flags & FRAME_NO_BUFFER))
				best = j;
		}
		*duplicates += j - i - 1;
		frames[kept++] = frames[best];
		i = j;
	}
	return kept;
}

double percentile_i64(const int64_t *values, size_t count, double p)
{
	double rank = p * (double)(count - 1);
	size_t low = (size_t)rank;

	if (low + 1 >= count)
		return (double)values[count - 1];
	return (double)values[low] +
	       (rank - (double)low) * ((double)values[low + 1] - (double)values[low]);
}

/* The same of values that are not sorted; they are sorted as far as that takes. from: nothing
 * before it is larger than anything behind it, and the rank is not before it. */
static double select_percentile(int64_t *values, size_t count, size_t *from, double p)
{
	size_t low = (size_t)(p * (double)(count - 1));

	select_i64(values + *from, count - *from, low - *from);
	if (low + 1 < count)
		select_i64(values + low + 1, count - low - 1, 0);
	*from = low;
	return percentile_i64(values, count, p);
}

/* Frames that were looked at make room for what is kept of each. By memcpy: it was another type. */
static void keep_interval(struct frame *frames, size_t index, int64_t interval_ns)
{
	memcpy((char *)frames + index * sizeof(interval_ns), &interval_ns, sizeof(interval_ns));
}

/* The median of the last intervals. */
static int64_t cadence(const int64_t *last, unsigned seen)
{
	int64_t sorted[CADENCE];
	unsigned n = seen < CADENCE ? seen : CADENCE;

	if (!n)
		return 0;
	memcpy(sorted, last, n * sizeof(last[0]));
	sort_i64(sorted, n);
	return (int64_t)percentile_i64(sorted, n, 0.5);
}

static void count_visible(struct layer_metrics *m, uint32_t jank)
{
	m->visible++;
	m->visible_app += (jank & (JANK_APP_DEADLINE | JANK_APP_RESYNC)) != 0;
	m->visible_sf +=
		(jank & (JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING)) != 0;
	m->visible_hw += (jank & (JANK_PREDICTION_ERROR | JANK_DISPLAY_HAL)) != 0;
	m->visible_stuffing += jank == JANK_BUFFER_STUFFING;
	m->visible_dropped += (jank & JANK_DROPPED) != 0;
	m->visible_unknown += (jank & JANK_UNKNOWN) != 0;
}

static void count_work(struct layer_metrics *m, int64_t work_ns, int64_t period_ns,
		       double *matrix_sum)
{
	m->worked++;
	m->slow += work_ns > period_ns;
	m->slow_60 += work_ns > METRICS_SLOW_60_NS;
	m->frozen += work_ns > METRICS_FROZEN_NS;
	m->matrix[matrix_level(work_ns, period_ns)]++;
	*matrix_sum += (double)(work_ns > period_ns ? work_ns : period_ns);
}

/* SM without callbacks in the trace: the refresh rate less what was dropped, second by second. */
struct sm_estimate {
	int64_t second; /* that is being counted */
	uint64_t seconds, dropped;
	double sum, low_sum;
	unsigned rate, min, low_seconds;
	bool low;
};

static int add_low(struct layer_metrics *m, int64_t start_ns, int64_t end_ns, unsigned sm)
{
	struct sm_low *lows;

	if (m->sm_low_count == METRICS_MAX_LOW)
		return 0;
	if (!(m->sm_low_count & (m->sm_low_count - 1))) {
		size_t capacity = m->sm_low_count ? m->sm_low_count * 2 : 1;

		lows = realloc(m->sm_lows, capacity * sizeof(*lows));
		if (!lows)
			return -ENOMEM;
		m->sm_lows = lows;
	}
	m->sm_lows[m->sm_low_count++] = (struct sm_low){start_ns, end_ns, sm, sm};
	return 0;
}

/* The second is over: its value counts, and a low one opens or extends a stretch. */
static int end_second(struct layer_metrics *m, struct sm_estimate *e)
{
	unsigned sm = e->dropped >= e->rate ? 0 : e->rate - (unsigned)e->dropped;
	int64_t start_ns = m->first_ns + e->second * SECOND_NS;
	int err = 0;

	e->seconds++;
	e->sum += sm;
	if (sm < e->min)
		e->min = sm;
	if (sm < SM_LOW && e->rate >= SM_LOW) {
		struct sm_low *last = m->sm_low_count ? &m->sm_lows[m->sm_low_count - 1] : NULL;

		if (e->low && last && last->end_ns == start_ns) {
			last->end_ns = start_ns + SECOND_NS;
			last->min = sm < last->min ? sm : last->min;
			e->low_sum += sm;
			last->mean = e->low_sum / ++e->low_seconds;
		} else {
			err = add_low(m, start_ns, start_ns + SECOND_NS, sm);
			e->low_sum = sm;
			e->low_seconds = 1;
		}
		e->low = true;
	} else {
		e->low = false;
	}
	e->dropped = 0;
	return err;
}

static int estimate_sm(struct layer_metrics *m, struct sm_estimate *e, int64_t present_ns,
		       uint64_t dropped)
{
	int64_t second = (present_ns - m->first_ns) / SECOND_NS;

	if (second != e->second) {
		int64_t idle = second - e->second - 1;
		int err = end_second(m, e);

		if (err)
			return err;
		if (idle > 0) {
			/* nothing was due: GT's own callback would have run at every refresh */
			e->seconds += (uint64_t)idle;
			e->sum += (double)e->rate * (double)idle;
			e->low = false;
		}
		e->second = second;
	}
	e->dropped += dropped;
	return 0;
}

static uint64_t rounded_drops(int64_t late_ns, int64_t period_ns)
{
	double drops = floor((double)late_ns / (double)period_ns + 0.5);

	return drops > 0 ? (uint64_t)drops : 0;
}

static struct frame_step step_of(const struct frame *before, const struct frame *frame,
				 int64_t period_ns, int64_t cadence_ns)
{
	struct frame_step step = {.interval_ns = frame->present_ns - before->present_ns};
	int64_t due_ns = period_ns;

	if (before->predicted_ns != TIMELINE_NONE && frame->predicted_ns != TIMELINE_NONE) {
		int64_t predicted = frame->predicted_ns - before->predicted_ns;

		due_ns = predicted > due_ns ? predicted : due_ns;
	} else if (cadence_ns > due_ns) {
		due_ns = cadence_ns;
	}
	step.late_ns = step.interval_ns - due_ns;
	step.dropped = rounded_drops(step.late_ns, period_ns);
	step.idle = due_ns > METRICS_IDLE_NS;
	step.active_ns = step.interval_ns;
	if (step.idle)
		step.active_ns = period_ns + (step.late_ns > 0 ? step.late_ns : 0);
	return step;
}

/* Latches and slices say nothing about when a frame was due: a long gap is idle time unless a frame
 * of the app began early in it. */
static struct frame_step unpredicted_step(const struct frame *before, const struct frame *frame,
					  int64_t period_ns, int64_t cadence_ns)
{
	struct frame_step step = step_of(before, frame, period_ns, cadence_ns);
	int64_t work_ns = frame->work_ns == TIMELINE_NONE ? 0 : frame->work_ns;

	if (before->predicted_ns != TIMELINE_NONE && frame->predicted_ns != TIMELINE_NONE)
		return step;
	if (!(frame->flags & FRAME_DUE) && step.interval_ns - work_ns > METRICS_IDLE_NS &&
	    cadence_ns <= METRICS_IDLE_NS) {
		step.idle = true;
		step.late_ns = work_ns - period_ns;
		step.dropped = rounded_drops(step.late_ns, period_ns);
		step.active_ns = period_ns + (step.late_ns > 0 ? step.late_ns : 0);
	}
	return step;
}

struct frame_step frame_step_of(const struct frame *before, const struct frame *frame,
				int64_t period_ns, bool unpredicted, int64_t cadence_ns)
{
	return unpredicted ? unpredicted_step(before, frame, period_ns, cadence_ns)
			   : step_of(before, frame, period_ns, 0);
}

int layer_metrics_compute(struct layer_metrics *m, const struct metrics_input *input)
{
	struct frame *frames = input->frames;
	struct period_window window;
	struct sm_estimate sm = {.min = UINT32_MAX};
	int64_t last[CADENCE], period_ns = 0, other_period_ns = 0, *intervals;
	int64_t min_ns = INT64_MAX, max_ns = INT64_MIN;
	uint64_t switched = 0;
	double matrix_sum = 0, sum = 0;
	size_t count, n = 0, from = 0;
	int err;

	memset(m, 0, sizeof(*m));
	count = frames_dedupe(frames, input->count, &m->duplicates);
	m->shown = count;
	m->period_ns = input->period_ns;
	if (!count)
		return 0;
	m->first_ns = frames[0].present_ns;
	m->last_ns = frames[count - 1].present_ns;
	m->segments = 1;
	sm.rate = (unsigned)llround(1e9 / (double)input->period_ns);
	period_window_init(&window, input->vsyncs_ns, input->vsync_count, input->period_ns);
	for (size_t i = 0; i < count; i++) {
		int64_t now_ns = period_at(&window, frames[i].present_ns);
		struct frame_step step;

		if (period_ns && llabs(now_ns - period_ns) > period_ns / 10) {
			m->switches++;
			period_ns = now_ns;
		} else if (!period_ns) {
			period_ns = now_ns;
		}
		if (llabs(now_ns - input->period_ns) > input->period_ns / 10) {
			switched++;
			other_period_ns = now_ns;
		}
		if (frames[i].work_ns != TIMELINE_NONE)
			count_work(m, frames[i].work_ns, now_ns, &matrix_sum);
		if (i == 0)
			continue;
		step = frame_step_of(&frames[i - 1], &frames[i], now_ns, input->unpredicted,
				     input->unpredicted ? cadence(last, (unsigned)n) : 0);
		/* a doFrame tells when its frame began: what was idle is no cadence */
		last[n++ % CADENCE] =
			frames[i].work_ns == TIMELINE_NONE ? step.interval_ns : step.active_ns;
		m->raw_ns += step.interval_ns;
		m->active_ns += step.active_ns;
		m->segments += step.idle;
		m->dropped += step.dropped;
		m->dropped_interval += rounded_drops(step.interval_ns - now_ns, now_ns);
		if (step.dropped)
			count_visible(m, frames[i].flags & FRAME_JANK_MASK);
		m->sm_big_janks +=
			now_ns + (step.late_ns > 0 ? step.late_ns : 0) > SM_BIG_JANK_NS &&
			step.late_ns > 0;
		perfdog_add(&m->perfdog, step.interval_ns);
		perfdog_add(&m->perfdog_active, step.active_ns);
		err = estimate_sm(m, &sm, frames[i].present_ns, step.dropped);
		if (err)
			return err;
		keep_interval(frames, i - 1, step.active_ns);
		min_ns = step.active_ns < min_ns ? step.active_ns : min_ns;
		max_ns = step.active_ns > max_ns ? step.active_ns : max_ns;
		sum += (double)step.active_ns;
	}
	if (switched * 2 > count)
		m->period_ns = other_period_ns;
	if (m->worked)
		m->matrix_fps = 1e9 * (double)m->worked / matrix_sum;
	if (!n)
		return 0;
	err = end_second(m, &sm);
	if (err)
		return err;
	m->has_sm = true;
	m->sm_estimated = true;
	m->sm_mean = sm.sum / (double)sm.seconds;
	m->sm_min = sm.min;
	m->has_fps = m->raw_ns > 0 && m->active_ns > 0;
	if (m->has_fps) {
		m->fps_raw = 1e9 * (double)n / (double)m->raw_ns;
		m->fps_active = 1e9 * (double)n / (double)m->active_ns;
	}
	m->intervals = (struct distribution){
		.n = n, .min = min_ns, .max = max_ns, .mean = sum / (double)n};
	intervals = (int64_t *)frames;
	m->intervals.p50 = select_percentile(intervals, n, &from, 0.50);
	m->intervals.p90 = select_percentile(intervals, n, &from, 0.90);
	m->intervals.p95 = select_percentile(intervals, n, &from, 0.95);
	m->intervals.p99 = select_percentile(intervals, n, &from, 0.99);
	return 0;
}

void layer_metrics_free(struct layer_metrics *m)
{
	free(m->sm_lows);
	m->sm_lows = NULL;
	m->sm_low_count = 0;
}
