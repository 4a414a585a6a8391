/* SPDX-License-Identifier: BSD-2-Clause */
/* One read-out: everything that the kernel side (or /proc) knows, booked into the ledger in an
 * order in which nothing counts twice. */
#pragma once
#include "kernel/sched_kernel.h"
#include "source/cpu/ledger.h"

struct cpu_reader;

/* What the ring tells beside sums. Called amid a read-out; must not call back. 0 or -ENOMEM. */
struct cpu_reader_events {
	void *ctx;
	/* The process runs another program now. */
	int (*renamed)(void *ctx, pid_t pid, uint64_t start_boot_ns, const char *comm);
	int (*cpu_changed)(void *ctx, unsigned cpu, bool online, uint64_t boot_ns);
	/* TASK_NOTE_BORN, _NAMED and _PROGRAM (with the task's sums so far, not booked yet), and
	 * the death of a main thread. */
	int (*told)(void *ctx, const struct task_death *note, const struct task_reading *reading);
};

/* `kernel` NULL: /proc is walked. Both stay the caller's; events are copied. NULL with errno
 * ENOMEM. */
struct cpu_reader *cpu_reader_new(struct sched_kernel *kernel, bool iterating,
				  struct cpu_ledger *ledger,
				  const struct cpu_reader_events *events);
void cpu_reader_free(struct cpu_reader *reader);

/* Seed the ledger with who lives, and read out once. *mono_ns is the moment it is true for. */
int cpu_reader_baseline(struct cpu_reader *reader, uint64_t *mono_ns);
/* Everything since the last call goes to the ledger; *mono_ns is the moment it is true for. */
int cpu_reader_read_out(struct cpu_reader *reader, uint64_t *mono_ns);
/* Only what the ring holds, so that it does not run full between two read-outs. */
int cpu_reader_deaths(struct cpu_reader *reader);

/* Cumulative. */
struct cpu_reader_counts {
	uint64_t unreadable;      /* tasks of /proc */
	uint64_t walks_skipped;   /* left to the next read-out, see settle_execs */
	uint64_t deaths_untold;   /* never shown by the kernel; --cpu iter */
	int64_t deaths_in_flight; /* not freed yet, as of the last read-out; --cpu iter */
};
const struct cpu_reader_counts *cpu_reader_counts(const struct cpu_reader *reader);
