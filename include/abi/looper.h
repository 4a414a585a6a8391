/* SPDX-License-Identifier: BSD-2-Clause */
/* What bpf/looper.bpf.c and user space both read. Fixed width, sizes asserted, no pointers.
 *
 * Order. Words that a program and a reader share without a lock are ordered by the writer with an
 * atomic add that fetches the old value (BPF_ADD | BPF_FETCH): x86 makes "lock xadd" of it, arm64
 * "ldaddal" or "ldxr, stlxr, dmb ish" (arch/arm64/net/bpf_jit_comp.c; 1902472b4fa9, 5.18). Without
 * the fetch arm64 makes "stadd" or "ldxr, stxr" of it, which order nothing. Kernels that refuse the
 * fetch get the same programs without it (kernel/atomics.h), and their readers read twice. */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#include <stdbool.h>
#endif

/* User registers of a watched thread as they lay in pt_regs when it left its CPU, in the kernel's
 * own order:
 *   x86_64: the 21 words of struct pt_regs (r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di
 *           orig_ax ip cs flags sp ss)
 *   arm64:  the 34 words of struct user_pt_regs (x0..x30 sp pc pstate), then orig_x0 and
 *           syscallno (as a signed number) of struct pt_regs
 * sequence: 0 never written; odd: the thread is on a CPU or the words are being written; even:
 * the words are those of the thread as it waits now. The switch program alone writes it: it adds 1
 * when the thread is switched in, and 1 after it stored the words at switch-out; so sequence / 2
 * counts the switch-outs, and an unchanged sequence means an unchanged stack. One writer at a time:
 * a thread is switched out on one CPU.
 * Writer: words, fetch-add of sequence to even. Reader: load-acquire of sequence, words, acquire
 * fence, load of sequence. A reader that also copied the thread's stack in between loads sequence
 * once more behind an acquire fence: what the thread stored after its switch-in is behind the
 * fetch-add to odd (and behind the full barrier of the kernel's __switch_to). */
#define LOOPER_REGISTER_WORDS 36

struct looper_registers {
	__u64 sequence;
	__u64 switched_out_mono_ns;
	__u32 tid, tgid;
	__u64 words[LOOPER_REGISTER_WORDS];
};

_Static_assert(sizeof(struct looper_registers) == 24 + 8 * LOOPER_REGISTER_WORDS,
	       "struct looper_registers has no holes");

/* One reading of a task by the iterator looper_task_registers: its registers without a stop. They
 * are those of the thread as it waits if `whole` is set: it was off its CPU before and after the
 * words were read, and its switch counts did not change. */
struct looper_task {
	struct looper_registers registers; /* sequence: 0 */
	__u64 voluntary, involuntary;      /* nvcsw, nivcsw */
	__u64 cpu_ns;                      /* se.sum_exec_runtime */
	__u64 start_boot_ns;
	__u32 on_cpu, state; /* state: enum off_cpu_state of abi/sched.h */
	__u32 whole;
	__u32 reserved;
};

/* A process whose mmap_lock somebody holds at this moment, for reading or for writing, as the
 * iterator looper_mm_locks tells it. pid 0: this kernel's lock cannot be read (PREEMPT_RT). */
struct looper_mm_lock {
	__u32 pid, reserved;
	__u64 mm; /* tells two that had the pid one after the other apart */
};

/* ---- the busy periods of watched main threads ---- */

/* The maps are made for as many as looper_kernel_options.max_watched says, at most for these. */
#define LOOPER_MAX_WATCHED     4096
#define LOOPER_DEFAULT_WATCHED 256
#define LOOPER_COMM_LEN        16
#define LOOPER_PREEMPTORS      16 /* a power of two */
#define LOOPER_PROBED_RETURNS  16
#define LOOPER_OWN_PROCESSES   16
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

enum looper_detector { LOOPER_BY_UPROBE = 1, LOOPER_BY_SYSCALL = 2, LOOPER_BY_SWITCH = 3 };

/* What a loop waits in: epoll_wait, epoll_pwait, epoll_pwait2; poll, ppoll with descriptors;
 * select, pselect6 with descriptors; io_uring_enter with GETEVENTS and min_complete > 0. poll and
 * select without descriptors are sleeps. */
enum looper_wait {
	LOOPER_WAIT_NONE = 0,
	LOOPER_WAIT_EPOLL = 1,
	LOOPER_WAIT_POLL = 2,
	LOOPER_WAIT_SELECT = 3,
	LOOPER_WAIT_URING = 4,
};

/* The stack pointer of a wait is another one at the probed function's entry than at its system call
 * instruction, so each wait has one for each way of reading it; 0: not read in that way. */
enum looper_way {
	LOOPER_WAY_PROBE = 0, /* at the uprobe */
	LOOPER_WAY_CALL = 1,  /* at the system call: sys_enter, switch, /proc/PID/syscall */
	LOOPER_WAYS = 2,
};

/* Who saw the present wait begin; that program sees its end too. */
enum looper_seen_by {
	LOOPER_SEEN_NOT = 0,
	LOOPER_SEEN_BY_PROBE = 1,  /* its end is the probe behind the system call */
	LOOPER_SEEN_BY_SWITCH = 2, /* its end is the switch-in */
};

/* A nested loop takes the place of the outer one when it was waited in so often, over so long. */
#define LOOPER_ADOPT_WAITS 8
#define LOOPER_ADOPT_NS    5000000000ull

/* One watched thread. Times are CLOCK_MONOTONIC. Written by programs that run for the thread (or
 * for what runs in its place), read by user space.
 *
 * begun, ended: each writer adds 1 to begun before and 1 to ended behind what it writes, both by
 * fetch-add. Reader: load-acquire of ended, copy, acquire fence, load of begun: the copy is whole
 * when the two agree. A uprobe program may be preempted in the middle (since 6.0): the switch
 * program then finds begun != ended and leaves the slot alone; what it would have booked is made
 * good from the kernel's sums at the next switch-out. looper_read_slot() is the reader; where begun
 * and ended stay apart it makes them agree again and counts that.
 * parked, discarded, loop_closed, shared: whole stores, read by the other side with no other word;
 * each has one writer, but for shared, whose writers all say the same of the loop. parked: the
 * reader stores periods + 1, full fence, loads periods; the program stores periods and
 * busy_since_ns, fetch-add, loads parked. waker_*, woken_ns, waiting*: written by the waker, in the
 * wake-up, read by the switch-in that follows under the kernel's run-queue lock; user space does
 * not read them. */
struct looper_slot {
	__u32 begun, ended;
	/* set by user space before the thread is watched (looper_slot_fill) */
	__u32 tid, tgid;
	__u32 detector; /* enum looper_detector */
	/* Set at any time, by user space, or by the programs when another thread of the process
	 * waits in the loop's epoll: descriptor + 1 of an epoll that is not this thread's alone, so
	 * that it is no loop of the thread's; 0: none. exec sets it to 0. */
	__u32 shared;
	__u64 block_ns;
	__u64 slot_id; /* serial number of the slot's use, repeated in its events */
	/* behind the system call instructions that the probes are around, absolute; 0: none. A wait
	 * at another place passes no probe. */
	__u64 probed_return[LOOPER_PROBED_RETURNS];
	/* set by user space at any time */
	__u32 parked;      /* periods + 1: tell (LOOPER_EVENT_BUSY) when the next one begins */
	__u32 loop_closed; /* loop_changes + 1: that loop's descriptor is closed */
	__u64 discarded;   /* the period with this number is none */
	/* the state machine */
	__u64 busy_since_ns; /* 0: waits in its own loop */
	__u64 periods;       /* counts them, the present one too */
	__u32 merged;        /* only the switch program saw the present period begin */
	__u32 dead;
	__u32 loop_kind; /* enum looper_wait; NONE: it has waited in none so far */
	__s32 loop_fd;   /* -1 for poll and select */
	__u64 loop_stack[LOOPER_WAYS];
	__u64 loop_counter; /* program counter behind its system call; 0: not seen by a switch */
	__u64 loop_waits;   /* how often it waited there: looper_is_loop() */
	__u64 loop_waited_ns, loop_told_ns; /* when it did last; when an event told of it */
	__u32 loop_changes;                 /* how often the loop became another one */
	__u32 loop_how;                     /* enum looper_loop_how, the last time */
	/* what it waits in now; kind NONE: in no such wait */
	__u32 waiting_kind;
	__s32 waiting_fd;
	__u64 waiting_stack[LOOPER_WAYS];
	__u32 waiting_seen_by; /* enum looper_seen_by */
	__u32 waiting_own;     /* it is the loop's own wait */
	/* a wait inside the loop's messages, deeper than the loop's own */
	__u32 nested_kind;
	__s32 nested_fd;
	__u64 nested_stack[LOOPER_WAYS];
	__u64 nested_waits; /* since the loop's own wait was left */
	__u64 nested_since_ns;
	/* sys_enter told of the last wait, and whether it was the loop's own */
	__u32 called, called_own;
	/* on and off the CPU */
	__u32 on_cpu, off_state; /* enum off_cpu_state of abi/sched.h */
	__u32 reason;            /* enum looper_reason of the spell */
	__s32 syscall_nr; /* that it sleeps in, the restarted one for restart_syscall; -1: none */
	__s32 last_nr;    /* the last one that it was switched out in */
	__u32 estimated;  /* the begin of the period is by the kernel's sums: no switch was shown */
	__u64 arguments[4];
	__u64 program_counter, stack_pointer;
	__u64 in_ns, in_cpu_ns;   /* when it came, and its CPU time then */
	__u64 off_ns, out_cpu_ns; /* when it left, and its CPU time then */
	__u64 out_delay_ns, out_switches, out_arrivals;
	__u64 task;     /* its kernel address, for fault-proof reads only; 0: not known */
	__u64 spell;    /* counts the switch-outs */
	__u64 woken_ns; /* 0: not since it left */
	__u32 waiting_cpu, waiting; /* runnable on that CPU's queue; waiting 0: not */
	__u32 waiting_row;          /* its place in waiters of the cpu_slot, if it has one */
	__u32 reserved;
	__u64 waiting_since_ns;
	/* the present period */
	__u64 begin_cpu_ns, begin_delay_ns, begin_faults_minor, begin_faults_major;
	__u64 spells_told; /* spell events of it */
	struct looper_sums sums;
	__u64 preempted_other_ns;
	struct looper_preemptor preemptors[LOOPER_PREEMPTORS];
	/* who woke it last */
	__u32 waker_tid, waker_tgid;
	char waker_comm[LOOPER_COMM_LEN];
};

/* What stands as the thread's loop is a poller that it shares with others. */
static inline bool looper_is_shared(const struct looper_slot *slot)
{
	return slot->shared && slot->loop_kind == LOOPER_WAIT_EPOLL &&
	       (__u32)slot->loop_fd + 1 == slot->shared;
}

/* User space found the descriptor of the loop closed, and the thread has not waited in it since. */
static inline bool looper_is_closed(const struct looper_slot *slot)
{
	return slot->loop_closed == slot->loop_changes + 1;
}

/* The thread is known to run a loop: it came back to one place to wait. */
static inline bool looper_is_loop(const struct looper_slot *slot)
{
	return slot->loop_kind != LOOPER_WAIT_NONE && slot->loop_waits >= 2 &&
	       !looper_is_shared(slot);
}

/* The thread waits in its own loop, or has none, so it has no period now. */
static inline bool looper_is_idle(const struct looper_slot *slot)
{
	return !slot->busy_since_ns || looper_is_shared(slot) || looper_is_closed(slot);
}

enum looper_event_type {
	LOOPER_EVENT_PERIOD = 1, /* one at or above the threshold ended */
	LOOPER_EVENT_SPELL = 2,  /* off the CPU for LOOPER_SPELL_NS or more in a period */
	LOOPER_EVENT_BUSY = 3,   /* a parked thread works again; in the ring looper_wakes */
	LOOPER_EVENT_LOOP = 4,   /* its loop was found, or is another one now */
	LOOPER_EVENT_WAKER = 5,  /* who ended a long sleep of a period; in the ring looper_wakers */
};

enum looper_event_flag {
	LOOPER_EVENT_EXITED = 1,
	LOOPER_EVENT_MERGED = 2,       /* several messages may be in it */
	LOOPER_EVENT_UNKNOWN_LOOP = 4, /* it ended before the thread was known to be a loop */
	LOOPER_EVENT_ESTIMATED =
		8, /* a switch was not shown: begin or end is by the kernel's sums */
};

/* A BPF program reports at most this many spells of one period of a thread that is not known to be
 * a loop. */
#define LOOPER_UNKNOWN_SPELLS 64

struct looper_event {
	__u32 type, index;
	__u64 slot_id; /* of the slot, so that its new owner is not blamed */
	__u64 period;
	__u64 begin_ns, end_ns;
};

/* Of a period that lasts: user space cannot read the sum of the moment. */
#define LOOPER_DELAY_UNKNOWN (~0ull)

struct looper_period_event {
	struct looper_event head;
	__u32 flags;
	__u32 loop_kind; /* enum looper_wait, as of the period's end */
	__s32 loop_fd;
	__u32 reserved;
	__u64 cpu_ns, faults_minor, faults_major;
	__u64 delay_ns; /* sched_info.run_delay: its waits for a CPU by the kernel's own sum */
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

enum looper_loop_how {
	LOOPER_LOOP_CANDIDATE = 0, /* waited in once */
	LOOPER_LOOP_FOUND = 1,     /* waited in again */
	LOOPER_LOOP_OUTER = 2,     /* waited in at the same or a lesser depth than the one before */
	LOOPER_LOOP_ADOPTED = 3,   /* was nested, and the outer one was not waited in any more */
	LOOPER_LOOP_CLOSED = 4,    /* the same, because the outer one's descriptor was closed */
	LOOPER_LOOP_EXEC = 5,      /* none: the process runs another program now */
};

/* For ADOPTED and CLOSED the head names a period that is none: it began before the nested loop and
 * gets no LOOPER_EVENT_PERIOD. For EXEC the head names a period that a LOOPER_EVENT_PERIOD reported
 * before, as exited, if that period was a block. */
struct looper_loop_event {
	struct looper_event head;
	__u32 loop_kind; /* enum looper_wait */
	__s32 loop_fd;
	__u32 how; /* enum looper_loop_how */
	__u32 changes;
};

/* The user stack of a waker, as whole pages: the first one is that of the stack pointer, and of it
 * only what lies from there on is there. */
#define LOOPER_WAKER_PAGES      4
#define LOOPER_WAKER_PAGE_BYTES 4096

enum looper_waker_failure {
	LOOPER_WAKER_TAKEN = 0,
	LOOPER_WAKER_IS_KERNEL = 1,  /* a kernel thread */
	LOOPER_WAKER_ENDED = 2,      /* it had given its memory back: the end of a process */
	LOOPER_WAKER_UNREADABLE = 3, /* the page of its stack pointer was not in memory */
};

/* Who ended a sleep of half of block_ns or more, as it was in the wake-up. head: begin_ns when the
 * thread fell asleep, end_ns when it was woken. */
struct looper_waker_event {
	struct looper_event head;
	__u64 spell;
	__u64 process_start_boot_ns; /* of tgid */
	__u32 tid, tgid;
	__u32 failure;     /* enum looper_waker_failure */
	__u32 stack_bytes; /* from the stack pointer on */
	__u32 exiting;     /* the thread was about to end */
	__u32 reserved;
	__u64 words[LOOPER_REGISTER_WORDS]; /* as struct looper_registers; 0 without a stack */
};

struct looper_waker_stack {
	struct looper_waker_event event;
	__u8 stack[LOOPER_WAKER_PAGES * LOOPER_WAKER_PAGE_BYTES];
};

/* Processes that are never named as wakers: the recorder's own. 0: free. */
struct looper_own {
	__u32 tgids[LOOPER_OWN_PROCESSES];
};

enum looper_loss {
	LOOPER_LOSS_EVENT_RING_FULL = 0,
	LOOPER_LOSS_MISSED_ENTRY = 1,    /* a uprobe did not see the wait that the switch saw */
	LOOPER_LOSS_MISSED_SWITCH = 2,   /* of a watched thread; made good from the kernel's sums */
	LOOPER_LOSS_MISSED_EXIT = 3,     /* a uprobe did not see a wait's end that the switch saw */
	LOOPER_LOSS_WAKER_RING_FULL = 4, /* a waker that is told without its stack */
	LOOPER_LOSS_WAITER_UNPLACED =
		5, /* a wait for a CPU of which is not told who ran: too many waited there */
	LOOPER_LOSS_MAX = 6,
};

_Static_assert(sizeof(struct looper_sums) == 160, "struct looper_sums");
_Static_assert(sizeof(struct looper_preemptor) == 32, "struct looper_preemptor");
_Static_assert(sizeof(struct looper_slot) % 8 == 0, "struct looper_slot has no tail");
_Static_assert(sizeof(struct looper_period_event) == 40 + 48 + 160 + 8 + 512, "no holes");
_Static_assert(sizeof(struct looper_spell_event) == 40 + 16 + 24 + 16 + 16, "no holes");
_Static_assert(sizeof(struct looper_loop_event) == 40 + 16, "no holes");
_Static_assert(sizeof(struct looper_waker_event) == 40 + 40 + 8 * LOOPER_REGISTER_WORDS,
	       "no holes");
_Static_assert(sizeof(struct looper_waker_stack) ==
		       sizeof(struct looper_waker_event) +
			       LOOPER_WAKER_PAGES * LOOPER_WAKER_PAGE_BYTES,
	       "no holes");
_Static_assert(sizeof(struct looper_task) == sizeof(struct looper_registers) + 48, "no holes");
_Static_assert(sizeof(struct looper_mm_lock) == 16, "no holes");
