/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading what the programs of bpf/looper.bpf.c write while they write it: slots and stashes, whose
 * order stands in abi/looper.h. For any process that has the maps' descriptors. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/looper.h"
#include "proc/read.h"

struct looper_torn;

/* The maps as one process sees them. Not for two threads at a time, except looper_read_stash and
 * looper_stash_sequence. */
struct looper_view {
	struct looper_slot *slots;
	struct looper_registers *stash;
	uint32_t count;
	bool plain;        /* the programs' atomics do not order (kernel_has_fetch() is false) */
	uint64_t resynced; /* slots whose begun and ended were made to agree again */
	struct looper_torn *torn;
};

/* Map them; how many slots there are is read from the map. The descriptors stay the caller's. 0 or
 * -errno. */
int looper_view_open(struct looper_view *view, int slots_fd, int stash_fd, bool plain);
void looper_view_close(struct looper_view *view);

/* A whole copy of a slot. False: it changed all the time, or a program is amid it; try again later.
 * A slot whose begun and ended stay apart for longer than any program takes is believed as it is,
 * made to agree, and counted in view->resynced. */
bool looper_read_slot(struct looper_view *view, uint32_t index, struct looper_slot *to);

/* The registers of a watched thread that is off its CPU; schedstat is the thread's, or NULL:
 * whether it has run without a switch that was shown is left to looper_stash_sequence, behind what
 * the caller copies. 0; -ENOENT: none were written, or they are another thread's; -EAGAIN: it runs,
 * or they were being written. */
int looper_read_stash(const struct looper_view *view, uint32_t index, pid_t tid,
		      struct proc_kept *schedstat, struct looper_registers *to);
/* As long as this is even and the same as a read stash's, the thread has not run since, and its
 * stack is what it was. 0: nothing is known. Odd: it runs. Before it an acquire fence stands: what
 * was copied before the call was copied before the sequence was read. */
uint64_t looper_stash_sequence(const struct looper_view *view, uint32_t index,
			       struct proc_kept *schedstat);
