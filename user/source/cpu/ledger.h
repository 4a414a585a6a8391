/* SPDX-License-Identifier: BSD-2-Clause */
/* From cumulative readings of tasks to what each did in an interval. Pure: no I/O, no BPF, so that
 * tid reuse, deaths out of order and counters that step back are tested with made-up readings. */
#pragma once
#include "abi/sched.h"
#include "jankscope/record.h"

struct cpu_ledger;

/* What is known of a task at one moment; sums are since its birth. (A row of the record, struct
 * record_task, has the same numbers for an interval, each present or absent by itself.) */
struct task_reading {
	pid_t tid, tgid;
	uid_t uid;
	uint64_t start_boot_ns;
	uint64_t process_start_boot_ns; /* of the thread group's leader; 0: not known */
	struct task_sums sums;
	bool has_runnable, has_switches; /* else those numbers of sums were not read, and are 0 */
	struct opt_u64 uninterruptible_ns, stopped_ns;
	const char *comm;     /* up to RECORD_COMM_LEN bytes, need not end in NUL */
	bool exited;          /* final sums */
	bool ending;          /* it ends now; its last microseconds are told with `exited` */
	uint64_t end_boot_ns; /* when exited or ending */
	bool start_is_coarse; /* start_boot_ns comes from /proc: truncated to 10 ms ticks */
};

/* A ledger of tasks since attach_boot_ns: a task that started later is booked from zero, an older
 * one from its seed. NULL with errno ENOMEM. */
struct cpu_ledger *cpu_ledger_new(uint64_t attach_boot_ns);
void cpu_ledger_free(struct cpu_ledger *ledger);

/* From how many rows of an interval on tasks that ended in it are folded; 2,048 if not set. */
void cpu_ledger_set_fold_rows(struct cpu_ledger *ledger, size_t rows);

/* The baseline of a task that was alive at the start. 0, -ENOMEM. */
int cpu_ledger_seed(struct cpu_ledger *ledger, const struct task_reading *reading);

/* Book what the task did since it was last seen, to the uid of this reading, whatever the task's
 * uid is when the interval is closed. Readings of one task may come in any order: a sum below the
 * last one adds nothing. 0, -ENOMEM. */
int cpu_ledger_update(struct cpu_ledger *ledger, const struct task_reading *reading);

/* Book the reading, and end what the task's time so far in this interval counts as: it is listed
 * under that name, or is not, whatever is decided when the interval is closed. The name is not
 * copied; it must live as long as the interval's record. 0, -ENOMEM. */
int cpu_ledger_split(struct cpu_ledger *ledger, const struct task_reading *reading, bool listed,
		     const char *process);

/* The thread old_tid called execve and goes on as tid, with the start time of the leader whose
 * place it took and with its own sums (de_thread in fs/exec.c). 0, -ENOMEM. */
int cpu_ledger_exec(struct cpu_ledger *ledger, pid_t old_tid, pid_t tid, uint64_t start_boot_ns);

/* True if a task of that identity is booked with at least these sums of time and switches (the
 * copy in a slot may be older than the last reading of the task): nothing to do. */
bool cpu_ledger_unchanged(const struct cpu_ledger *ledger, pid_t tid, uint64_t start_boot_ns,
			  const struct task_sums *sums);

/* False: nothing is known of the task. */
bool cpu_ledger_knows(const struct cpu_ledger *ledger, const struct task_reading *reading);

struct cpu_ledger_names {
	void *ctx;
	/* Both may return NULL. */
	const char *(*process)(void *ctx, pid_t pid, uint64_t start_boot_ns);
	const char *(*package)(void *ctx, uid_t uid);
	/* Whether the record should list this row of a task, which ended at end_boot_ns (0: it
	 * lives). */
	bool (*listed)(void *ctx, const struct record_task *task, uint64_t end_boot_ns);
};

/* Close the interval that ended at end_boot_ns and lasted dur_ns: fill tasks (by CPU time, at most
 * `top` of them, 0: all), processes, uids, busy_ns and other_ns of `cpu`, whose overflow the caller
 * has booked with cpu_ledger_overflow. The arrays belong to the ledger until the next call. */
int cpu_ledger_close(struct cpu_ledger *ledger, uint64_t end_boot_ns, uint64_t dur_ns, size_t top,
		     const struct cpu_ledger_names *names, struct record_cpu *cpu);

/* Where an interval has too many tasks that end, those that names->listed knows have their rows
 * first, and the others none. names must live as long as the ledger; NULL: all are listed. */
void cpu_ledger_want(struct cpu_ledger *ledger, const struct cpu_ledger_names *names);

/* CPU time of tasks of this uid that found no room in a map. 0, -ENOMEM. */
int cpu_ledger_overflow(struct cpu_ledger *ledger, uid_t uid, uint64_t cpu_ns);

/* Tasks older than the attach that no seed told of: their first sight is their baseline. */
uint64_t cpu_ledger_missed_seeds(const struct cpu_ledger *ledger);

/* CPU time that was told of tasks as they ran, and that the kernel's final sums of them lack: it
 * took that time for an interrupt's or for the host's (bpf/README.md, "A task that runs"). */
uint64_t cpu_ledger_told_ahead_ns(const struct cpu_ledger *ledger);

/* Tasks that ended and have no row, because their interval had so many: the time of each is in
 * other_ns, with its uid and, for the first 1,024 processes, in the row of its process. */
uint64_t cpu_ledger_folded(const struct cpu_ledger *ledger);
