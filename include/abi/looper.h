/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/looper.bpf.c and user space both read. Fixed width, sizes asserted, no pointers. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* User registers of a watched thread as they lay in pt_regs when it left its CPU, in the kernel's
 * own order:
 *   x86_64: the 21 words of struct pt_regs (r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di
 *           orig_ax ip cs flags sp ss)
 *   arm64:  the 34 words of struct user_pt_regs (x0..x30 sp pc pstate), then orig_x0 and
 *           syscallno (as a signed number) of struct pt_regs
 * sequence: 0 never written; odd: the thread is on a CPU or the words are being written; even:
 * the words are those of the thread as it waits now. The switch program adds 1 (atomically, with
 * the old value fetched: that orders the words before it) when the thread is switched in and again
 * after it stored the words at switch-out; so sequence / 2 counts the switch-outs, and an unchanged
 * sequence means an unchanged stack. One writer at a time: a thread is switched out on one CPU. */
#define LOOPER_REGISTER_WORDS 36

struct looper_registers {
	__u64 sequence;
	__u64 switched_out_mono_ns;
	__u32 tid, tgid;
	__u64 words[LOOPER_REGISTER_WORDS];
};

_Static_assert(sizeof(struct looper_registers) == 24 + 8 * LOOPER_REGISTER_WORDS,
	       "struct looper_registers has no holes");

/* ---- the busy periods of watched main threads ---- */

#define LOOPER_MAX_WATCHED 256
#define LOOPER_COMM_LEN    16
#define LOOPER_PREEMPTORS  16 /* a power of two */
/* A spell off the CPU that is told by itself; shorter ones only count in the sums. */
#define LOOPER_SPELL_NS 1000000ull

/* What the thread did in the kernel when it went off its CPU, by syscall number. */
enum looper_reason {
	LOOPER_REASON_OTHER = 0,
	LOOPER_REASON_FUTEX = 1,
	LOOPER_REASON_BINDER = 2,
	LOOPER_REASON_POLL = 3, /* poll, select, and epoll on another fd */
	LOOPER_REASON_READ =
		4,            /* read, write, recv ... in interruptible sleep: pipe, socket, tty */
	LOOPER_REASON_IO = 5, /* the same and others, uninterruptible: a disk */
	LOOPER_REASON_PAGE_FAULT = 6,
	LOOPER_REASON_SLEEP = 7,
	LOOPER_REASON_CHILD = 8,     /* wait4, waitid, vfork */
	LOOPER_REASON_THROTTLED = 9, /* runnable, but its cgroup had no quota left */
	LOOPER_REASON_STOPPED = 10,  /* SIGSTOP, a tracer */
	LOOPER_REASON_FROZEN = 11,
	LOOPER_REASON_UNSEEN = 12, /* it slept, but its switch was not shown */
	LOOPER_REASON_MAX = 16
};

/* Since the period began. */
struct looper_sums {
	__u64 runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns;
	__u64 reason_ns[LOOPER_REASON_MAX];
};

struct looper_preemptor {
	__u64 ns;
	__u32 tid, tgid;
	char comm[LOOPER_COMM_LEN];
};

enum looper_slot_flag {
	LOOPER_SLOT_DISCARD = 1, /* set by the reader: the present period is not one */
	LOOPER_SLOT_PARKED = 2,  /* set by the reader: wake it when the next period begins */
	LOOPER_SLOT_DEAD = 4,
	LOOPER_SLOT_BY_SWITCH = 8, /* only the switch program saw it begin the present wait */
	LOOPER_SLOT_MERGED = 16,   /* only the switch program saw the present period begin */
};

enum looper_detector { LOOPER_BY_UPROBE = 1, LOOPER_BY_SYSCALL = 2, LOOPER_BY_SWITCH = 3 };

/* One watched main thread. Times are CLOCK_MONOTONIC. Written by programs that run for the thread
 * (or for what runs in its place), read by user space: a copy is consistent when begun == ended
 * and both stayed the same around it. */
struct looper_slot {
	__u32 begun, ended;
	/* set by the reader before the thread is watched */
	__u32 tid, detector; /* enum looper_detector */
	__u64 block_ns;
	__u64 start_boot_ns;
	/* the state machine */
	__u64 busy_since_ns; /* 0: waits in its own epoll, or not known yet */
	__u64 periods;
	__s32 epfd;    /* the looper's own; -1: not known */
	__s32 polling; /* the epfd it waits on now; -1: none */
	__u32 flags;   /* enum looper_slot_flag */
	__s32 other_epfd;
	__u64 other_waits; /* waits on another epfd */
	/* on and off the CPU */
	__u32 on_cpu, off_state; /* enum off_cpu_state of abi/sched.h */
	__u32 reason;            /* enum looper_reason of the spell */
	__s32 syscall_nr;        /* that it sleeps in; -1: none */
	__u64 arguments[2];
	__u64 program_counter;
	__u64 in_ns, in_cpu_ns;   /* when it came, and its CPU time then */
	__u64 off_ns, out_cpu_ns; /* when it left, and its CPU time then */
	__u64 out_delay_ns, out_switches, out_arrivals;
	__u64 task;     /* its kernel address, for fault-proof reads only; 0: not known */
	__u64 spell;    /* counts the switch-outs */
	__u64 woken_ns; /* 0: not since it left */
	__u32 waiting_cpu, waiting; /* runnable on that CPU's queue; waiting 0: not */
	__u64 waiting_since_ns;
	/* the present period */
	__u64 begin_cpu_ns, begin_faults_minor, begin_faults_major;
	struct looper_sums sums;
	__u64 preempted_other_ns;
	struct looper_preemptor preemptors[LOOPER_PREEMPTORS];
	/* who woke it last */
	__u32 waker_tid, waker_tgid;
	char waker_comm[LOOPER_COMM_LEN];
};

enum looper_event_type {
	LOOPER_EVENT_PERIOD = 1, /* one at or above the threshold ended */
	LOOPER_EVENT_SPELL = 2,  /* off the CPU for LOOPER_SPELL_NS or more in a period */
	LOOPER_EVENT_BUSY = 3,   /* a parked thread works again */
};

enum looper_event_flag {
	LOOPER_EVENT_EXITED = 1,
	LOOPER_EVENT_MERGED = 2, /* several messages may be in it */
};

struct looper_event {
	__u32 type, index;
	__u64 start_boot_ns; /* of the thread, so that a slot's new owner is not blamed */
	__u64 period;
	__u64 begin_ns, end_ns;
};

struct looper_period_event {
	struct looper_event head;
	__u32 flags;
	__s32 epfd;
	__u64 cpu_ns, faults_minor, faults_major;
	struct looper_sums sums;
	__u64 preempted_other_ns;
	struct looper_preemptor preemptors[LOOPER_PREEMPTORS];
};

struct looper_spell_event {
	struct looper_event head;
	__u64 spell;
	__u64 wait_ns; /* the runnable part, at its end */
	__u32 state, reason;
	__s32 syscall_nr;
	__u32 waker_tid, waker_tgid, reserved;
	__u64 arguments[2];
	char waker_comm[LOOPER_COMM_LEN];
};

enum looper_loss {
	LOOPER_LOSS_EVENT_RING_FULL = 0,
	LOOPER_LOSS_MISSED_ENTRY = 1,  /* a uprobe did not see the wait that the switch saw */
	LOOPER_LOSS_MISSED_SWITCH = 2, /* of a watched thread; made good from the kernel's sums */
	LOOPER_LOSS_MAX = 4,
};

_Static_assert(sizeof(struct looper_sums) == 160, "struct looper_sums");
_Static_assert(sizeof(struct looper_preemptor) == 32, "struct looper_preemptor");
_Static_assert(sizeof(struct looper_slot) % 8 == 0, "struct looper_slot has no tail");
_Static_assert(sizeof(struct looper_period_event) == 40 + 32 + 160 + 8 + 512, "no holes");
_Static_assert(sizeof(struct looper_spell_event) == 40 + 16 + 24 + 16 + 16, "no holes");
