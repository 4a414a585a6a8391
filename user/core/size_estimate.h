/* SPDX-License-Identifier: BSD-2-Clause */
/* How much a recording of the whole device will take, before it is begun. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct size_estimate {
	uint64_t bytes_per_day;
	uint64_t processes, threads;
	uint64_t active_threads; /* that run in an interval, on average */
};

/* From what each thread did since it began (a sample of them where there are many): a thread that
 * ran so often in its life is taken to run in an interval with the probability of a Poisson
 * process. packed: closed segments are compressed. 0 or -errno. */
int size_estimate_make(const char *root, uint64_t interval_ns, bool packed,
		       struct size_estimate *estimate);
