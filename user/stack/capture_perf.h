/* SPDX-License-Identifier: BSD-2-Clause */
/* Perf events that stay open with their rings for a while: mapping a ring costs more than the
 * sample. A disabled event costs its thread a few ns at each switch, so that it must not stay for
 * ever. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PERF_RINGS        4
#define PERF_RING_KEEP_NS 2000000000ull

struct perf_rings {
	struct perf_ring {
		pid_t tid; /* 0: the slot is free */
		int fd;
		uint64_t start_boot_ns; /* of the thread, as it was asked for */
		uint64_t used_ns;       /* CLOCK_MONOTONIC */
		uint8_t *pages;
	} rings[PERF_RINGS];
};

/* An event of this thread is open. */
bool perf_rings_have(const struct perf_rings *rings, const struct stack_thread *thread);
/* Close what was not used for PERF_RING_KEEP_NS. */
void perf_rings_expire(struct perf_rings *rings, uint64_t now_ns);
void perf_rings_free(struct perf_rings *rings);
