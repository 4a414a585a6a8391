/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What bpf/flight.bpf.h and its reader (user/kernel/flight_kernel.c) share: the last seconds of the
 * threads that make frames. Fixed width, no pointers, sizes asserted. Times are CLOCK_MONOTONIC. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif
#include "abi/sched.h"

#define FLIGHT_COMM_LEN 16
/* How many threads are recorded at a time; and bytes of the table that the programs look a tid up
 * in by its low bits, so that one load tells nearly all other threads apart. Powers of two; an
 * index + 1 fits into a byte. */
#define FLIGHT_THREADS SCHED_FLIGHT_THREADS
#define FLIGHT_NEAR    1024
/* Entries of a block; a watched thread has a run of 1, 2, 4 or 8 blocks. Memory: 120 x 1,024 x 64
 * bytes are 7.5 MiB; the threads take 24 KiB, and the turns 48 KiB for each CPU. */
#define FLIGHT_BLOCKS        120
#define FLIGHT_BLOCK_ENTRIES 1024
#define FLIGHT_MOST_BLOCKS   8
/* Turns that are kept for each CPU; a power of two. Frames at 120 Hz make up to 250 a second, and
 * FrameTimeline comes some three seconds late: with 512, two names of five were gone by then. */
#define FLIGHT_TURNS 1024
/* A shorter turn has no entry: most waits are behind the rest of what a CPU was about when it was
 * asked to switch, and a thousand of those are less than a second of a busy CPU. */
#define FLIGHT_TURN_LEAST_NS 20000
/* Changes of its frequency that are kept for each cluster; a power of two. 32 KiB. */
#define FLIGHT_CHANGES 2048
/* In task_slot.watch: the flight recorder's; the other bits are a looper's index + 1. */
#define FLIGHT_MARK 0x8000u

enum flight_flag {
	/* A switch was not shown: what the thread did between off_ns and in_ns is not known. */
	FLIGHT_GAP = 1,
	/* No wake-up was seen: woken_ns is when the kernel put the thread on its queue. */
	FLIGHT_QUEUED = 2,
	/* The switch-in alone was not shown: in_ns is from what the run behind it was charged. */
	FLIGHT_PLACED = 4,
};

/* One spell of a thread off its CPU, written when the run behind it has ended: from in_ns on until
 * off_ns of the next entry the thread ran on in_cpu, and that is to the nanosecond what the kernel
 * charged it for and what interrupts and the hypervisor took meanwhile (flight_thread tells how
 * much). woken_ns is when somebody began to wake it, as Perfetto has it: some microseconds before
 * the kernel counts it as queued. sequence is odd while the entry is written: the switch program
 * adds 1 before and 1 behind the rest, so that the number of the entry at position p of a ring of N
 * is 2 x (p / N + 1). Reader: load-acquire of that number, copy, acquire fence, the same number
 * again. */
struct flight_entry {
	__u64 off_ns;
	__u64 woken_ns; /* 0: it was preempted, or it is not known */
	__u64 in_ns;
	__u32 sequence;
	__u32 waker_tid, waker_tgid; /* 0: an interrupt, the recorder itself, or not known */
	__s32 syscall_nr;            /* that it slept in; -1: none */
	char waker_comm[FLIGHT_COMM_LEN];
	__u8 state;  /* enum off_cpu_state of abi/sched.h */
	__u8 reason; /* enum looper_reason of abi/looper.h */
	__u8 flags;  /* enum flight_flag */
	__u8 reserved;
	__u16 off_cpu; /* on whose queue it waited for a CPU, as far as is known */
	__u16 in_cpu;
};

enum flight_state {
	FLIGHT_UNSEEN = 0, /* no switch of it was shown yet */
	FLIGHT_ON = 1,
	FLIGHT_OFF = 2,
};

/* One watched thread. Written by the switch program that it leaves or enters, on one CPU at a time:
 * begun + 1, fields and entries, ended + 1. Reader: load-acquire of ended, copy, acquire fence,
 * load of begun: they agree around a whole copy. woken_ns and waker_*: written by the wake-up, read
 * by the switch-in behind it under the kernel's locks; a reader may find them half written, but
 * woken_ns is one whole store. */
struct flight_thread {
	__u32 begun, ended;
	/* set by user space before the thread is watched */
	__u32 tid, tgid;
	__u32 first, mask; /* index of its first entry; how many it has, less 1 */
	/* by the switch program */
	__u64 count;            /* entries written */
	__u64 since_ns;         /* the first switch that was shown; before it nothing is known */
	__u64 task;             /* its kernel address, to be compared only */
	__u64 registers;        /* where its registers of user space are; 0: not asked yet */
	__u64 arrivals;         /* sched_info.pcount as of its last switch-out */
	__u64 cpu_ns, delay_ns; /* sum_exec_runtime and run_delay as of then */
	__u64 in_uncharged_ns;
	/* Over all runs that ended since since_ns, gaps not among them: what was charged, what it
	 * waited on queues before, what interrupts and the hypervisor took. The kernel's sums. */
	__u64 charged_ns, queued_ns, uncharged_ns;
	/* The present spell, or where state is FLIGHT_ON the one before this run: in_ns is when its
	 * switch-in was told. off_ns 0: none was seen to begin yet. */
	__u64 in_ns, off_ns;
	__u64 woken_ns; /* 0: not since it left */
	__u32 state;    /* enum flight_state */
	__u32 missed;   /* gaps */
	__s32 syscall_nr, last_nr;
	__u8 off_state, reason, dead, flags;
	__u16 off_cpu, in_cpu;
	__u32 order, reserved; /* log2 of mask + 1, set by user space */
	char waker_comm[FLIGHT_COMM_LEN];
	__u32 waker_tid, waker_tgid;
	__u32 waiting; /* on the queue of off_cpu; 0: not */
	__u32 placed;  /* switch-ins that were not shown and are no gap: FLIGHT_PLACED */
};

/* Who ran on a CPU while a watched thread waited for it. sequence as that of an entry; how many
 * there were says cpu_slot.flight_turns. */
struct flight_turn {
	__u64 begin_ns, end_ns;
	__u32 sequence;
	__u32 tid, tgid, reserved;
	char comm[FLIGHT_COMM_LEN];
};

/* From since_ns, CLOCK_MONOTONIC, the CPUs of a cluster ran at khz. sequence as that of an entry.
 */
struct flight_change {
	__u64 since_ns;
	__u32 khz, sequence;
};

_Static_assert(sizeof(struct flight_change) == 16, "no holes");
_Static_assert(sizeof(struct flight_entry) == 64, "one cache line");
_Static_assert(sizeof(struct flight_thread) == 200, "no holes");
_Static_assert(sizeof(struct flight_turn) == 48, "no holes");
_Static_assert(FLIGHT_THREADS < 256 && FLIGHT_THREADS % 64 == 0, "an index + 1 is a byte");
