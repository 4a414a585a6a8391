/* SPDX-License-Identifier: BSD-2-Clause */
/* The metrics that have an owner: Tencent Matrix, Tencent GT (SM), PerfDog. Their numbers are what
 * their users compare with, so their rules are kept to the letter. */
#include "frames/metrics.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS        1000000000LL
#define PERFDOG_PAUSE_NS (60 * SECOND_NS)

enum matrix_level matrix_level(int64_t work_ns, int64_t period_ns)
{
	double over = (double)(work_ns - period_ns) / (double)period_ns;
	double dropped = floor((over > 0 ? over : 0) + 0.5);

	if (dropped >= 42)
		return MATRIX_FROZEN;
	if (dropped >= 24)
		return MATRIX_HIGH;
	if (dropped >= 9)
		return MATRIX_MIDDLE;
	return dropped >= 3 ? MATRIX_NORMAL : MATRIX_BEST;
}

/* Seconds follow each other from the first frame on; an idle one has 0 frames. A pause of more than
 * a minute is none of the game's. */
static void count_seconds(struct perfdog *perfdog, int64_t interval_ns)
{
	if (interval_ns > PERFDOG_PAUSE_NS || interval_ns < 0) {
		compat_drop_fps_gap(&perfdog->drop);
		perfdog->second_ns = 0;
		perfdog->second_frames = 0;
		return;
	}
	perfdog->second_ns += interval_ns;
	for (; perfdog->second_ns >= SECOND_NS; perfdog->second_ns -= SECOND_NS) {
		compat_drop_fps_add(&perfdog->drop, perfdog->second_frames);
		perfdog->second_frames = 0;
	}
	perfdog->second_frames++;
}

void perfdog_add(struct perfdog *perfdog, int64_t interval_ns)
{
	if (perfdog->seen >= 3) {
		/* twice the mean of three, in integers; a film frame is 1/24 s */
		double before = (double)perfdog->last[0] + (double)perfdog->last[1] +
				(double)perfdog->last[2];

		if (3.0 * (double)interval_ns > 2.0 * before && interval_ns > 83333333) {
			perfdog->jank++;
			perfdog->janky_ns += interval_ns;
			perfdog->big_jank += interval_ns > 125000000;
		}
	}
	perfdog->seen++;
	perfdog->total_ns += interval_ns;
	perfdog->last[0] = perfdog->last[1];
	perfdog->last[1] = perfdog->last[2];
	perfdog->last[2] = interval_ns;
	compat_delta_ftime_add(&perfdog->delta, interval_ns);
	count_seconds(perfdog, interval_ns);
}

double perfdog_stutter_pct(const struct perfdog *perfdog)
{
	if (perfdog->total_ns <= 0)
		return 0;
	return 100.0 * (double)perfdog->janky_ns / (double)perfdog->total_ns;
}

static int sm_close_low(struct sm *sm, int64_t end_ns)
{
	struct sm_low *low = &sm->lows[sm->low_count];

	low->end_ns = end_ns;
	low->mean = sm->low_sum / (double)sm->low_evaluations;
	sm->low_count++;
	sm->low = false;
	return 0;
}

static int sm_open_low(struct sm *sm, int64_t start_ns)
{
	if (sm->low_count == METRICS_MAX_LOW) {
		sm->low_lost++;
		return 0;
	}
	if (sm->low_count == sm->low_capacity) {
		size_t capacity = sm->low_capacity ? sm->low_capacity * 2 : 8;
		struct sm_low *lows = realloc(sm->lows, capacity * sizeof(*lows));

		if (!lows)
			return -ENOMEM;
		sm->lows = lows;
		sm->low_capacity = capacity;
	}
	sm->lows[sm->low_count] = (struct sm_low){.start_ns = start_ns, .min = SM_LOW};
	sm->low = true;
	sm->low_sum = 0;
	sm->low_evaluations = 0;
	return 0;
}

int sm_add(struct sm *sm, int64_t time_ns)
{
	const unsigned size = SM_RING;

	if (!sm->started) {
		sm->started = true;
		sm->start_ns = time_ns;
		sm->min = UINT32_MAX;
	} else if (time_ns - sm->last_ns > SM_BIG_JANK_NS) {
		sm->big_janks++;
	}
	sm->last_ns = time_ns;
	while (sm->recent_count &&
	       (sm->recent[sm->first] <= time_ns - SECOND_NS || sm->recent_count == size)) {
		sm->first = (sm->first + 1) % size;
		sm->recent_count--;
	}
	sm->recent[(sm->first + sm->recent_count++) % size] = time_ns;
	if (time_ns - sm->start_ns < SECOND_NS)
		return 0; /* the window is not full yet */
	sm->evaluations++;
	sm->sum += sm->recent_count;
	if (sm->recent_count < sm->min)
		sm->min = sm->recent_count;
	if (sm->recent_count < SM_LOW) {
		int err = sm->low ? 0 : sm_open_low(sm, time_ns);

		if (err)
			return err;
		if (sm->low) {
			struct sm_low *low = &sm->lows[sm->low_count];

			if (sm->recent_count < low->min)
				low->min = sm->recent_count;
			sm->low_sum += sm->recent_count;
			sm->low_evaluations++;
		}
	} else if (sm->low) {
		return sm_close_low(sm, time_ns);
	}
	return 0;
}

int sm_idle(struct sm *sm, int64_t time_ns, uint64_t refreshes, unsigned rate)
{
	int err = sm->low ? sm_close_low(sm, time_ns) : 0;

	sm->evaluations += refreshes;
	sm->sum += (double)refreshes * rate;
	if (rate < sm->min)
		sm->min = rate;
	/* the window fills anew from here */
	sm->recent_count = 0;
	sm->start_ns = time_ns;
	sm->last_ns = time_ns;
	return err;
}

int sm_finish(struct sm *sm)
{
	return sm->low ? sm_close_low(sm, sm->last_ns) : 0;
}

void sm_free(struct sm *sm)
{
	free(sm->lows);
	memset(sm, 0, sizeof(*sm));
}
