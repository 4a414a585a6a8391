/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two files of the reader share: read_out.c books what the kernel side knows, and
 * read_out_walk.c what a walk over all tasks met (--cpu iter). */
#pragma once
#include <stdbool.h>
#include <uthash.h>

#include "source/cpu/moved.h"
#include "source/cpu/read_out.h"

#define UNTOLD_WINDOW 32 /* looks, at least UNTOLD_AFTER_NS / UNTOLD_WINDOW apart */
#define EXEC_TRIES    50
#define EXEC_WAIT_US  200

/* Cumulative overflow of a uid as of the last read-out. */
struct overflow_seen {
	uid_t uid;
	uint64_t cpu_ns;
	UT_hash_handle hh;
};

/* One walk of --cpu iter: what changed, and what the ring told before that could be booked. */
struct walk {
	struct task_line *lines;
	size_t line_count, line_room;
	struct task_program *deaths; /* of any kind */
	size_t death_count, death_room;
	uint64_t execs; /* of deaths */
	uint64_t alive;
};

struct cpu_reader {
	struct sched_kernel *kernel; /* NULL: /proc only */
	bool iterating;
	struct cpu_ledger *ledger;
	struct cpu_reader_events events;
	struct overflow_seen *overflow;
	struct walk walk;
	struct moved_tasks moved;
	uint64_t read_boot_ns; /* when the present read-out began */
	bool execs_untold;     /* in the present read-out: their slots are left to the next one */
	struct cpu_reader_counts counts;
	/* --cpu iter: tasks alive at the start, and told dead, to know how many deaths went untold
	 */
	uint64_t deaths_told, execs_told, begin_boot_ns;
	int64_t alive_at_begin;
	struct death_count {
		uint64_t at_ns;
		int64_t died;
	} looks[UNTOLD_WINDOW];
	unsigned look_count;
};

/* A note of the ring: task_death_fn, whose ctx is the reader. */
int cpu_reader_book_note(void *ctx, const struct task_death *note);

struct task_reading cpu_reading_of_line(const struct task_line *line);

/* Walk over all tasks and book what changed. 0, or what the kernel side says. */
int cpu_reader_walk(struct cpu_reader *reader);
