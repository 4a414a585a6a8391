/* SPDX-License-Identifier: BSD-2-Clause */
/* The first state of a watched thread's slot, from what it does when the watch begins. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "abi/looper.h"
#include "prober/pool.h"

struct looper_slot_start {
	uint32_t tid, tgid;
	uint32_t detector; /* enum looper_detector */
	uint64_t block_ns;
	uint64_t slot_id;              /* of this use of the slot */
	uint64_t thread_start_ns;      /* when the thread began, CLOCK_MONOTONIC */
	uint64_t watching_since_ns;    /* when the recorder began to look for processes */
	const uint64_t *probed_return; /* LOOPER_PROBED_RETURNS addresses, or NULL */
};

/* The wait of a loop's kind that a thread stands in, by its system call's number and arguments;
 * LOOPER_WAIT_NONE: another call, or a sleep. fd: -1 for poll and select. */
enum looper_wait looper_wait_of(int64_t syscall_nr, const uint64_t arguments[6], int32_t *fd);

/* Fill a new slot. A thread that sleeps in such a wait starts as a candidate that waited there
 * once. Any other is in a period: since its start if it began after watching_since_ns and less than
 * 2 s ago, else since standing->after_mono_ns. */
void looper_slot_fill(struct looper_slot *slot, const struct looper_slot_start *start,
		      const struct probe_standing *standing);

/* Between the reading of `first` and the moment when the programs saw the slot the thread may have
 * begun or ended a wait that nobody told of. `second` was read after that moment, and `now` is a
 * copy of the slot as it is. True: the slot is to be corrected, and `now` says how; the caller
 * stores it with looper_kernel_correct(). */
bool looper_slot_settle(struct looper_slot *now, const struct looper_slot *filled,
			const struct probe_standing *first, const struct probe_standing *second);
