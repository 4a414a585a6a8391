/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/metrics.h"
#include "frames/flow.h"
#include "frames/sort.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000LL

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

static void count_visible(struct layer_metrics *m, uint32_t jank, bool missed)
{
	m->visible++;
	m->visible_none += !missed && !(jank & ~(uint32_t)JANK_NONE);
	m->visible_app += (jank & (JANK_APP_DEADLINE | JANK_APP_RESYNC)) != 0;
	m->visible_sf +=
		(jank & (JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING)) != 0;
	m->visible_hw += (jank & (JANK_PREDICTION_ERROR | JANK_DISPLAY_HAL)) != 0;
	m->visible_stuffing += jank == JANK_BUFFER_STUFFING;
	m->visible_dropped += missed || jank & JANK_DROPPED;
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
	double shown_ns, refreshes; /* of the second: its rate is the display's then */
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
	unsigned sm;
	int64_t start_ns = m->first_ns + e->second * SECOND_NS;
	int err = 0;

	if (e->shown_ns > 0)
		e->rate = (unsigned)lround(1e9 * e->refreshes / e->shown_ns);
	sm = e->dropped >= e->rate ? 0 : e->rate - (unsigned)e->dropped;
	e->shown_ns = e->refreshes = 0;
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

static int estimate_sm(struct layer_metrics *m, struct sm_estimate *e, const struct flow_step *step)
{
	int64_t second = (step->frame->present_ns - m->first_ns) / SECOND_NS;

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
	e->dropped += step->dropped;
	e->shown_ns += (double)step->interval_ns;
	e->refreshes += (double)step->interval_ns / (double)step->period_ns;
	return 0;
}

/* What is counted of a layer while its frames go by. */
struct count {
	struct layer_metrics *m;
	struct frame *frames; /* those that were looked at make room for intervals */
	struct sm_estimate sm;
	int64_t global_ns, period_ns, other_period_ns, min_ns, max_ns;
	uint64_t switched;
	double matrix_sum, sum;
	size_t n;
};

static void count_period(struct count *c, int64_t period_ns)
{
	if (c->period_ns && llabs(period_ns - c->period_ns) > c->period_ns / 10) {
		c->m->switches++;
		c->period_ns = period_ns;
	} else if (!c->period_ns) {
		c->period_ns = period_ns;
	}
	if (llabs(period_ns - c->global_ns) > c->global_ns / 10) {
		c->switched++;
		c->other_period_ns = period_ns;
	}
}

static int count_step(void *ctx, const struct flow_step *step)
{
	struct count *c = ctx;
	struct layer_metrics *m = c->m;
	const struct frame *frame = step->frame;
	double late_drops;

	m->shown++;
	m->last_ns = frame->present_ns;
	count_period(c, step->period_ns);
	if (frame->work_ns != TIMELINE_NONE)
		count_work(m, frame->work_ns, step->period_ns, &c->matrix_sum);
	if (!step->follows) {
		m->first_ns = frame->present_ns;
		m->segments = 1;
		return 0;
	}
	m->raw_ns += step->interval_ns;
	m->active_ns += step->active_ns;
	m->segments += step->idle;
	m->dropped += step->dropped;
	late_drops = floor((double)(step->interval_ns - step->period_ns) / (double)step->period_ns +
			   0.5);
	m->dropped_interval += late_drops > 0 ? (uint64_t)late_drops : 0;
	if (step->dropped)
		count_visible(m, frame->flags & FRAME_JANK_MASK, step->missed);
	m->sm_big_janks += step->late_ns > 0 && step->period_ns + step->late_ns > SM_BIG_JANK_NS;
	perfdog_add(&m->perfdog, step->interval_ns);
	perfdog_add(&m->perfdog_active, step->active_ns);
	keep_interval(c->frames, c->n++, step->active_ns);
	c->min_ns = step->active_ns < c->min_ns ? step->active_ns : c->min_ns;
	c->max_ns = step->active_ns > c->max_ns ? step->active_ns : c->max_ns;
	c->sum += (double)step->active_ns;
	return estimate_sm(m, &c->sm, step);
}

int layer_metrics_compute(struct layer_metrics *m, const struct metrics_input *input)
{
	struct count c = {
		.m = m,
		.frames = input->frames,
		.sm = {.min = UINT32_MAX},
		.global_ns = input->period_ns,
		.min_ns = INT64_MAX,
		.max_ns = INT64_MIN,
	};
	struct flow flow = {.has_last = false};
	struct flow_counts counts = {0};
	struct flow_grid *grid = malloc(sizeof(*grid));
	struct flow_input in = {
		.frames = input->frames,
		.count = input->count,
		.grid = grid,
		.ready_ns = INT64_MAX,
		.covered_ns = input->covered_ns,
		.unpredicted = input->unpredicted,
	};
	size_t consumed, n, from = 0;
	int64_t *intervals;
	int err;

	memset(m, 0, sizeof(*m));
	if (!grid)
		return -ENOMEM;
	flow_grid_init(grid, input->vsyncs_ns, input->vsync_count,
		       input->default_ns ? input->default_ns : input->period_ns);
	m->period_ns = input->period_ns;
	c.sm.rate = (unsigned)llround(1e9 / (double)input->period_ns);
	err = flow_feed(&flow, &in, &consumed, &counts, count_step, &c);
	free(grid);
	m->duplicates = counts.duplicates;
	if (err || !m->shown)
		return err;
	n = c.n;
	if (c.switched * 2 > m->shown)
		m->period_ns = c.other_period_ns;
	if (m->worked)
		m->matrix_fps = 1e9 * (double)m->worked / c.matrix_sum;
	if (!n)
		return 0;
	err = end_second(m, &c.sm);
	if (err)
		return err;
	m->has_sm = true;
	m->sm_estimated = true;
	m->sm_mean = c.sm.sum / (double)c.sm.seconds;
	m->sm_min = c.sm.min;
	m->has_fps = m->raw_ns > 0 && m->active_ns > 0;
	if (m->has_fps) {
		m->fps_raw = 1e9 * (double)n / (double)m->raw_ns;
		m->fps_active = 1e9 * (double)n / (double)m->active_ns;
	}
	m->intervals = (struct distribution){
		.n = n, .min = c.min_ns, .max = c.max_ns, .mean = c.sum / (double)n};
	intervals = (int64_t *)input->frames;
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
