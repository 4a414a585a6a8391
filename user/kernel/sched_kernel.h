/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel side of CPU accounting: loads bpf/sched.bpf.c in one of its variants and reads its
 * maps. It hands out readings and knows nothing of intervals. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/sched.h"
#include "kernel/load.h"

struct sched_time_layout;

enum cpu_mode { CPU_MODE_AUTO = 0, CPU_MODE_SWITCH = 1, CPU_MODE_ITER = 2 };

struct sched_kernel_options {
	enum cpu_mode mode; /* SWITCH or ITER */
	enum program_variant variant;
	const char *btf_path; /* NULL: the kernel's own */
	bool loopers;         /* watched threads too; SWITCH only */
	uint32_t max_watched; /* of these at a time; 0: LOOPER_DEFAULT_WATCHED */
	bool flight;          /* the spells of threads may be kept; with loopers only */
	bool names;           /* births of processes and their names are told too */
	/* Time by CPU and frequency of watched processes (kernel/sched_time.h); SWITCH only; NULL:
	 * none. It must live until the open returns. */
	const struct sched_time_layout *time_layout;
	bool no_kprobe; /* it does not work here: changes of uid are seen otherwise */
	/* Tests only: maps so small that every loss is reached; 0: the real size. */
	uint32_t test_task_slots, test_hash_slots, test_death_ring_bytes, test_overflow_uids;
	bool test_hash;          /* the hash below pid_max 131072 too */
	bool test_no_uid_hook;   /* a change of uid is seen at the next switch only */
	bool test_plain_atomics; /* the programs of kernels without fetching atomics */
};

struct sched_kernel;

/* CPUs that there may be, and that the kernel side counts; 0: not known. */
unsigned sched_kernel_possible_cpus(void);
/* Load and attach. On failure NULL, with errno and a line in reason. */
struct sched_kernel *sched_kernel_open(const struct sched_kernel_options *options, char *reason,
				       size_t size);
void sched_kernel_close(struct sched_kernel *kernel);

/* "switch/tp_btf/array" and the like; owned by the kernel. */
const char *sched_kernel_variant(const struct sched_kernel *kernel);
bool sched_kernel_has_iterator(const struct sched_kernel *kernel);
/* False: the map had no room for this task, whose slices are in the overflow row. */
bool sched_kernel_has_slot(const struct sched_kernel *kernel, pid_t tid);

typedef int (*task_line_fn)(void *ctx, const struct task_line *line);
/* Every live task, in one walk of iter/task. cpu_ns already has the unfinished slice. The callback
 * may end the walk with a negative value. 0, -ENOTSUP without the iterator, -errno. */
int sched_kernel_iterate(struct sched_kernel *kernel, task_line_fn callback, void *ctx);

/* Begin a read-out: a new epoch, and the running tasks read. mono_ns: the moment it stands for. */
int sched_kernel_begin_read(struct sched_kernel *kernel, uint64_t *mono_ns);
/* The running task of a CPU as of begin_read; NULL if idle or between two switches. */
const struct running_task *sched_kernel_running(const struct sched_kernel *kernel, unsigned cpu);
/* A possible CPU as of begin_read; sums are since the attach. */
struct sched_cpu {
	bool online, idle_known;
	uint64_t idle_ns;    /* the present idle spell included; none of it while offline */
	uint64_t offline_ns; /* the present offline spell included */
	/* Since boot: what interrupts and the host took from tasks and from idle; 0 where no switch
	 * is hooked. */
	uint64_t uncharged_ns;
	/* The kernel's own sums of interrupts and steal to the nanosecond, since boot, and idle
	 * time without the interrupts that came in it. */
	bool irqs_known, idle_without_irqs_known;
	uint64_t irq_ns, softirq_ns, steal_ns, idle_without_irqs_ns;
};
void sched_kernel_cpu(const struct sched_kernel *kernel, unsigned cpu, struct sched_cpu *out);
/* A CPU came up that had never been there: where its idle sum lies is to be found. */
void sched_kernel_find_idle(struct sched_kernel *kernel);
/* True where a change of uid splits a task's time when it happens (kprobe, or the tracepoint
 * cap_capable); else the switch that follows does. */
bool sched_kernel_sees_uids(const struct sched_kernel *kernel);
/* True where the kernel times each interrupt; known from the first read-out on. */
bool sched_kernel_times_irqs(const struct sched_kernel *kernel);
unsigned sched_kernel_cpu_count(const struct sched_kernel *kernel);

/* A whole copy of one task's slot, with its sums as of some switch since the last read-out; false:
 * it has none, or is being written. */
bool sched_kernel_slot(const struct sched_kernel *kernel, pid_t tid, struct task_slot *slot);

typedef int (*task_slot_fn)(void *ctx, pid_t tid, const struct task_slot *slot);
/* Every task that was switched from since the last read-out but one, with its sums of this moment.
 * `skip` (may be NULL) is asked first: what did not change is not handed out. Torn reads that stay
 * torn are counted. */
int sched_kernel_slots(struct sched_kernel *kernel,
		       bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot),
		       task_slot_fn callback, void *ctx);
/* Off-CPU time of a slot that is still going on, at the moment of begin_read. */
uint64_t sched_kernel_open_off_ns(const struct sched_kernel *kernel, const struct task_slot *slot);

/* A note of kind TASK_NOTE_PROGRAM is the begin of a struct task_program. */
typedef int (*task_death_fn)(void *ctx, const struct task_death *death);
int sched_kernel_deaths(struct sched_kernel *kernel, task_death_fn callback, void *ctx);
/* --cpu iter: from now on SCHED_COUNT_BIRTHS counts the tasks that start at or after this moment of
 * CLOCK_BOOTTIME; before the call no birth is counted. */
void sched_kernel_count_births(struct sched_kernel *kernel, uint64_t from_boot_ns);
/* How often a thread took its leader's place by execve: so many deaths with an exec_tid the ring
 * has told, or is about to. A task that iter/task showed under its new identity is among them. */
uint64_t sched_kernel_execs(const struct sched_kernel *kernel);
/* Readable when the ring of deaths is half full. */
int sched_kernel_deaths_fd(const struct sched_kernel *kernel);

/* Have the programs tell of new processes and their names from now on, where the options asked for
 * it. True: they begin only now, so that the caller has to find older processes in /proc. */
bool sched_kernel_want_names(struct sched_kernel *kernel);

typedef int (*overflow_fn)(void *ctx, uid_t uid, uint64_t cpu_ns);
/* The cumulative overflow rows. */
int sched_kernel_overflow(struct sched_kernel *kernel, overflow_fn callback, void *ctx);
/* Cumulative losses by enum sched_loss; missed_runs: programs that the kernel skipped because they
 * would have nested (recursion_misses). */
int sched_kernel_losses(const struct sched_kernel *kernel, uint64_t losses[SCHED_LOSS_MAX],
			uint64_t *missed_runs, uint64_t *torn_reads);

/* The map of task slots. */
int sched_kernel_tasks_fd(const struct sched_kernel *kernel);

/* For the looper room, whose maps (abi/looper.h) live with the switch program. Descriptors are
 * owned by the kernel. */
struct sched_kernel_loopers {
	int slots_fd, stash_fd, watched_fd, events_fd, wakes_fd, losses_fd, cpus_fd, is_frozen_fd;
	int flight_threads_fd, flight_watched_fd;
	enum program_variant variant;
	uint64_t registers_offset; /* of struct pt_regs above task->stack; 0: not found */
};
/* -ENOTSUP where it was opened without loopers. */
int sched_kernel_loopers(const struct sched_kernel *kernel, struct sched_kernel_loopers *out);
/* Let the switch program see this task as the owner of looper slot mark - 1; 0: no more. To be said
 * again now and then: a slot that changes its owner forgets it. */
void sched_kernel_mark(struct sched_kernel *kernel, pid_t tid, uint32_t mark);
/* For kernel/flight_kernel.h; descriptors and `near`, flight_near of the programs, are the
 * kernel's. -ENOTSUP where it was opened without `flight`. */
struct sched_kernel_flight {
	int threads_fd, watched_fd, entries_fd, cpus_fd, turns_fd, changes_fd;
	uint8_t *near;
	/* Where the changes of frequencies are kept: of each CPU, and how many changes there is
	 * room for; else NULL and 0. */
	const struct cpu_frequency *frequencies;
	uint32_t change_count;
};
int sched_kernel_flight(const struct sched_kernel *kernel, struct sched_kernel_flight *out);
/* Let the switch program see that this task's spells are kept, or no more; again as above. */
void sched_kernel_mark_flight(struct sched_kernel *kernel, pid_t tid, bool watched);
/* Idle time of all CPUs until now, on CLOCK_MONOTONIC; rough by what is read while it changes. */
uint64_t sched_kernel_idle_now_ns(const struct sched_kernel *kernel);
