/* SPDX-License-Identifier: BSD-2-Clause */
/* How a run of a given length is cut into intervals. */
#pragma once
#include <stdint.h>

/* The first intervals end with the periods of the interval timer. */
struct run_plan {
	uint64_t periods;     /* how many */
	uint64_t last_dur_ns; /* of one more interval, which the timer of -d ends; 0: there is none
			       */
};

/* The rest of a run is an interval of its own where it is half an interval or longer, else the last
 * interval takes it up: no interval is shorter than half of interval_ns (above 0), and a multiple
 * of it makes exactly as many. A run shorter than one interval is one. */
struct run_plan run_plan_make(uint64_t interval_ns, uint64_t duration_ns);

/* How long the last interval of a run is so far. If it is too short to tell anything (below 50 ms,
 * the reading itself shows), wait until it is not. */
uint64_t run_plan_wait(uint64_t interval_ns, uint64_t since_mono_ns);
