/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What bpf/sched.bpf.c and its reader share. Fixed width, no pointers, sizes asserted.
 *
 * Order. The words named `sequence` are written between their fields and in their order: on x86 by
 * plain stores, which other CPUs see in that order; on arm64 by an atomic add that fetches the old
 * value (bpf/order.bpf.h; abi/looper.h says what the JIT makes of it). */
#pragma once
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define SCHED_COMM_LEN  16
#define SCHED_ARGV0_LEN 256
#define SCHED_MAX_CPUS  512
/* Threads of the blocks source that may wait for one CPU with who runs there being told: bits of
 * cpu_slot.looper_waiting. More are counted (LOOPER_LOSS_WAITER_UNPLACED). */
#define SCHED_MAX_WAITERS 32
/* Threads that the flight recorder has room for: bits of cpu_slot.flight_waiting. */
#define SCHED_FLIGHT_THREADS 128

/* Slots are marked in groups with the epoch of their last switch, so that a read-out passes over
 * those where nothing ran. */
#define SCHED_GROUP_SHIFT 5
#define SCHED_GROUPS      (131072 >> SCHED_GROUP_SHIFT)

/* Why a task is off its CPU. */
enum off_cpu_state {
	OFF_CPU_UNKNOWN = 0,
	OFF_CPU_RUNNABLE = 1, /* preempted, or yielded */
	OFF_CPU_SLEEPING = 2,
	OFF_CPU_UNINTERRUPTIBLE = 3,
	OFF_CPU_STOPPED = 4, /* stopped, traced, frozen, parked */
	OFF_CPU_DEAD = 5,
};

enum task_slot_flag {
	TASK_SLOT_DEAD = 1,       /* these are the final values */
	TASK_SLOT_UNREPORTED = 2, /* dead, and the ring had no room to say so */
	TASK_SLOT_FOLLOWED = 4,   /* amid an execve that was told already */
	/* the uid may have changed: the ring has the sum before that, or its loss is counted */
	TASK_SLOT_UID_TOLD = 8,
	/* its time is split by CPU and frequency: it has a row of task_times */
	TASK_SLOT_TIMED = 16,
};

/* What the kernel sums up for each task since its birth. */
struct task_sums {
	__u64 cpu_ns;      /* se.sum_exec_runtime */
	__u64 runnable_ns; /* sched_info.run_delay; of the task that leaves a CPU it is true, of one
			      that comes the kernel adds the present wait later */
	__u64 switches_voluntary, switches_involuntary; /* nvcsw, nivcsw */
};

/* One task; one writer at a time, because a task is on one CPU. Two cache lines; memory: pid_max x
 * 128 bytes. The sums are the kernel's own, as of the task's first switch-out after a read-out, of
 * one that ends a wait which is timed, and of its death; at its other switches nothing is written
 * here, and a read-out asks the kernel for the sums (struct asked_task). A task of the hash, or one
 * that is watched, is copied at each switch-out.
 * Writer: sequence + 1, fields, sequence_end + 1. Reader: load-acquire of sequence_end, fields,
 * acquire fence, load of sequence: they agree around a whole copy. A value of the hash is copied by
 * the kernel in an order of its own: there two copies must be the same. */
struct task_slot {
	/* the line that each switch looks at */
	__u64 task;  /* address of its task_struct, for fault-proof reads only */
	__u32 epoch; /* the read-out before its last switch-out */
	__u32 uid;
	__u16 watch;    /* written by the reader: a watched thread, index + 1 of its row */
	__u8 off_state; /* enum off_cpu_state; a sleep may be told as a preemption, or the reverse
			 */
	__u8 flags;     /* enum task_slot_flag */
	__u32 tgid;
	__u32 sequence, sequence_end;
	struct task_sums sums;
	/* the line that is written at the first switch after a read-out, and by long waits */
	__u64 start_boot_ns; /* identity, together with the index (tid) */
	/* Of these two the kernel has no sum: the switch program adds them up. They are no part of
	 * task_sums, because they belong on this line and not on the one that each switch looks at.
	 */
	__u64 uninterruptible_ns, stopped_ns;
	__u64 off_since_ns; /* run-queue clock of the last switch-out, where off_state is timed */
	__u64 epoch_cpu_ns; /* sums.cpu_ns as of the last read-out, for the overflow row */
	__u64 process_start_boot_ns; /* of the thread group's leader */
	char comm[SCHED_COMM_LEN];
};

/* Tasks that a read-out asks for at once. */
#define SCHED_ASKED 256

/* What a read-out asks of a task that ran since the last one, and the answer of
 * sched_read_tasks. */
struct asked_task {
	__u64 task, start_boot_ns; /* of its slot */
	__u32 tid;
	__u32 valid;           /* it is still that task, and these are its sums */
	struct task_sums sums; /* runnable_ns: with the wait that is not over */
	__u32 uid; /* that the task has now: the sums are its slot's only if the slot has it too */
	__u32 padding;
	/* By the run queue's clock: when it came to its CPU last; since when it waits for one, 0:
	 * it does not. */
	__u64 arrival_ns, queued_ns;
};

/* Who runs on a CPU, and how long it has idled. sequence is odd while the CPU's switch program
 * writes from tid to rq: sequence + 1, fields, sequence + 1. Reader: load-acquire of an even
 * sequence, fields, acquire fence, the same sequence again. What is behind rq is written under the
 * CPU's run-queue lock and read there only, but for flight_turns, which is one whole store. */
struct cpu_slot {
	__u32 sequence;
	__u32 tid;       /* 0: idle */
	__u32 tgid;      /* 0: its slot has it */
	__u32 epoch;     /* read_epoch, written by the reader: see sched_kernel_begin_read */
	__u64 since_ns;  /* run-queue clock of the last switch; 0: none seen */
	__u64 in_cpu_ns; /* sum_exec_runtime of the running task when it came */
	__u64 idle_ns;
	__u64 task, rq; /* kernel addresses, for fault-proof reads only; rq 0: not known */
	/* Watched threads that wait for this CPU, in one word that each switch looks at: the places
	 * of waiters that are taken, and whether flight_waiting has a bit. */
	__u32 looper_waiting, flight_waits;
	/* second line, touched only while somebody waits. CLOCK_MONOTONIC: since when who runs here
	 * runs in their place. */
	__u64 looper_since_ns, flight_since_ns;
	__u64 flight_waiting[SCHED_FLIGHT_THREADS / 64]; /* by the index of flight_thread */
	__u64 flight_turns; /* how many struct flight_turn this CPU has had */
	/* CLOCK_MONOTONIC less the run queue's clock, and when by that clock it was measured */
	__u64 clock_offset_ns, clock_read_ns;
	__u32 clock_held; /* measurements in a row that were not believed */
	__u32 overdue_ns; /* CLOCK_MONOTONIC, its low bits: up to when flight_overdue() has used
			     its looks */
	/* third line */
	__u16 waiters[SCHED_MAX_WAITERS]; /* index of the looper_slot, where looper_waiting says so
					   */
};

/* One live reading of what runs on a CPU now, made by sched_read_running. */
struct running_task {
	__u32 valid;
	__u32 tid, tgid, uid;
	__u64 start_boot_ns, process_start_boot_ns;
	struct task_sums sums; /* cpu_ns: with the slice that is not over yet */
	char comm[SCHED_COMM_LEN];
	__u64 in_cpu_ns;      /* its sum when it came; 0: not shown */
	__u64 unseen_idle_ns; /* idle since a task left unseen, whom the CPU's slot still names */
};

enum task_note_kind {
	TASK_NOTE_DEATH = 0,
	/* The task lives on under a new identity: the thread exec_tid called execve and took the
	 * place of its leader. */
	TASK_NOTE_EXEC_LEADER = 1,
	/* The task runs another program now, under a new name. */
	TASK_NOTE_EXEC = 2,
	/* The uid is about to change, or has changed: the sum so far belongs to the one told here.
	 */
	TASK_NOTE_UID = 3,
	/* The task is about to end: the sum so far, so that it need not wait for the free. */
	TASK_NOTE_EXIT = 4,
	/* Of a CPU, not of a task: end_boot_ns is when, tid is its number. */
	TASK_NOTE_CPU_OFFLINE = 5,
	TASK_NOTE_CPU_ONLINE = 6,
	/* The programs of bpf/sched_names.bpf.h tell the next three notes, where names are
	 * followed. A process was forked, under the names of its parent; process_start_boot_ns is
	 * the parent's. It comes before any other note of the new process. */
	TASK_NOTE_BORN = 7,
	/* The main thread has another comm from here on; the sums are those until here. */
	TASK_NOTE_NAMED = 8,
	/* The process runs another program, with the sums until here; a struct task_program. */
	TASK_NOTE_PROGRAM = 9,
};

/* What the ring tells: that a task died, with its final sums, and the other kinds. */
struct task_death {
	__u64 start_boot_ns, end_boot_ns, process_start_boot_ns;
	struct task_sums sums;
	__u64 uninterruptible_ns, stopped_ns; /* as in task_slot; 0 without the switch program */
	__u32 tid, tgid, uid;
	__u32 exec_tid;
	__u32 kind;       /* enum task_note_kind */
	__u32 parent_pid; /* TASK_NOTE_BORN; else 0 */
	char comm[SCHED_COMM_LEN];
};

/* TASK_NOTE_PROGRAM: what execve made argv[0]. */
struct task_program {
	struct task_death task;
	__s32 argv0_bytes; /* the final NUL included; a negative errno: it could not be read */
	__u32 reserved;
	char argv0[SCHED_ARGV0_LEN]; /* cut */
};

/* Tasks whose time is split at a time, and how many rows are looked at for a task's own: the first
 * is chosen by the tid. A power of two. */
#define TIME_ROWS 1024
#define TIME_WAYS 4
/* Frequencies of a cluster, with 0 for one that is not known. */
#define TIME_MAX_STEPS 64
#define TIME_NO_STEPS  0xffffffffu

/* The place of a slice: bit 31, the step of the frequency, the CPU. With bit 30 the task left the
 * CPU unseen after that. */
#define TIME_PLACED         0x80000000u
#define TIME_LEFT_UNSEEN    0x40000000u
#define TIME_PLACE_CPU(at)  ((at)&0xffffu)
#define TIME_PLACE_STEP(at) ((at) >> 16 & (TIME_MAX_STEPS - 1))

/* Where a task of a watched process ran: time on each CPU, and behind these, for each cluster, time
 * at each of its frequencies. Written by the switch program alone, on one CPU at a time, and only
 * when a slice had another place than the one before, and at the first switch after a read-out: all
 * slices since until_ns were at `place`. Row, tid and words are made ready again by the reader,
 * once `dead` is set. A copy is whole where the words of the CPUs and unseen_ns add up to until_ns
 * - begin_ns, and place and until_ns are the same before and behind. */
struct task_time {
	__u64 start_boot_ns; /* identity, together with tid */
	__u64 begin_ns;      /* the task's sum_exec_runtime when the row was made */
	__u64 until_ns;      /* the same at the end of the last slice that the words have */
	__u64 unseen_ns;     /* of slices that were not shown: on which CPU is not known */
	__u32 tid;           /* 0: a free row */
	__u32 dead;
	__u32 place; /* 0: not known */
	__u32 padding;
	__u64 read_ns; /* sum_exec_runtime as of the last sched_read_tasks that asked for it */
	__u64 left_ns; /* with TIME_LEFT_UNSEEN: the slices from this sum on were not shown */
	__u64 words[]; /* as many as set before load */
};

/* The frequency of a CPU. Written by the program on cpu_frequency, of which the kernel runs one at
 * a time for each cluster; the switch program of the CPU reads it while it may be written: then
 * time of that slice is given to the frequency before or after, and none is lost. */
struct cpu_frequency {
	__u32 base;  /* first word of its cluster, written by the reader; TIME_NO_STEPS: none */
	__u32 step;  /* the present one; 0: not known */
	__u32 slice; /* sequence of the CPU's slot when it changed last: the words below are of that
			slice; odd: of none */
	__u32 first; /* the step that slice began with */
	__u64 changed_ns; /* CLOCK_MONOTONIC of the last change */
	__u64 unlisted;   /* changes to a frequency that no file lists */
	/* Of the CPU that stands for its cluster, where the flight recorder runs: index + 1 of its
	 * ring of struct flight_change, and how many it had; else 0. */
	__u64 changes;
	__u32 log;
	__u32 khz;                     /* since the last of them; 0: there was none */
	__u32 begin_khz, reserved;     /* before the first, by the reader; 0: not known */
	__u64 step_ns[TIME_MAX_STEPS]; /* between the first and the last change of that slice */
};

/* Which step of a cluster a frequency is. */
struct frequency_key {
	__u32 base, khz;
};

/* When a CPU is there, and how long it idled by the kernel's own account (struct tick_sched), which
 * is read where no switch is hooked. Times are CLOCK_MONOTONIC. Written by the hotplug programs, of
 * which the kernel runs one at a time; sequence is odd while they write. */
struct cpu_state {
	__u32 sequence;
	__u32 offline;
	__u64 offline_since_ns, online_since_ns;
	__u64 offline_ns;   /* of the spells that are over */
	__u64 tick;         /* address of its struct tick_sched; 0: not found */
	__u64 idle_ns;      /* of the online spells that are over */
	__u64 idle_base_ns; /* the kernel's sum when the present one began */
	__u64 idle_last_ns; /* the kernel's sum just before it went offline */
};

/* A CPU as of the last sched_read_running. */
struct cpu_reading {
	__u32 online, idle_known;
	__u64 offline_ns, idle_ns; /* since the attach; idle_ns by struct tick_sched */
	/* Run-queue clock - the clock that tasks are charged by: what interrupts (where they are
	 * accounted apart) and the host took. 0 where the run queue is not known. */
	__u64 uncharged_ns;
	/* Since boot, to the nanosecond where the kernel times each interrupt; all 0 where its sums
	 * were not found. */
	__u64 irq_ns, softirq_ns, steal_ns;
	__u64 reserved;
};

/* One line of the task iterator. The running slice, where on_cpu: sums.cpu_ns + (now + offset -
 * rq_clock) + rq_clock_task - exec_start (bpf/README.md, "A task that runs"). */
struct task_line {
	__u64 start_boot_ns, process_start_boot_ns;
	struct task_sums sums;
	__u64 now_ns, rq_clock, rq_clock_task, exec_start;
	__u32 tid, tgid, uid;
	__u32 state; /* enum off_cpu_state */
	__u32 on_cpu;
	__u32 in_execve; /* to be booked by a later read-out */
	char comm[SCHED_COMM_LEN];
};

/* Losses counted by the kernel side; the index into sched's `losses` map. */
enum sched_loss {
	SCHED_LOSS_TASK_MAP_FULL = 0, /* slices booked to the overflow row of their uid */
	SCHED_LOSS_DEATH_RING_FULL = 1,
	SCHED_LOSS_SLOT_REUSED = 2,       /* a dead task's tail went to the overflow row */
	SCHED_LOSS_OVERFLOW_MAP_FULL = 3, /* ns that even the overflow rows could not take */
	SCHED_LOSS_MISSED_SWITCH = 4,
	SCHED_LOSS_UNTOLD_NS =
		5, /* at most: CPU time of dead tasks that no report to --cpu iter covers */
	SCHED_LOSS_UID_UNSPLIT =
		6, /* a change of uid found no room in the ring: the slice is the new uid's */
	SCHED_COUNT_BIRTHS = 7,     /* no loss: tasks forked, to tell how many deaths went untold */
	SCHED_LOSS_EXEC_UNTOLD = 8, /* its process's name is as late as the next look at /proc */
	SCHED_LOSS_BIRTH_UNTOLD = 9,    /* a process of a followed name may have gone unnoticed */
	SCHED_LOSS_NAME_UNTOLD = 10,    /* a new name of a process is as late as the next scan */
	SCHED_LOSS_ARGV_UNREAD = 11,    /* a program's argv[0]; its comm is known */
	SCHED_LOSS_TIME_ROWS_FULL = 12, /* a task whose time is not split, each read-out */
	SCHED_LOSS_MAX = 13,
};

_Static_assert(sizeof(struct task_sums) == 32, "task_sums");
_Static_assert(sizeof(struct task_slot) == 128, "task_slot is two cache lines");
_Static_assert(sizeof(struct asked_task) == 80, "asked_task");
_Static_assert(sizeof(struct cpu_slot) == 192, "cpu_slot is three cache lines");
_Static_assert(sizeof(struct running_task) == 96, "running_task");
_Static_assert(sizeof(struct task_death) == 112, "task_death");
_Static_assert(sizeof(struct task_program) == 376, "task_program");
_Static_assert(sizeof(struct task_line) == 120, "task_line");
_Static_assert(sizeof(struct cpu_state) == 64, "cpu_state is one cache line");
_Static_assert(sizeof(struct cpu_reading) == 64, "cpu_reading");
_Static_assert(sizeof(struct task_time) == 64, "the head of task_time is one cache line");
_Static_assert(sizeof(struct cpu_frequency) == 56 + TIME_MAX_STEPS * 8, "cpu_frequency");
