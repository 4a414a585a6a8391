/* SPDX-License-Identifier: BSD-2-Clause */
/* Who used most CPU time over a run, in bounded memory: one table for threads, one for processes.
 * A thread or process is its id and its start time. Those that lived shortly and ended are summed
 * up by their name, so that a storm of them is one row and takes no room. */
#pragma once
#include "jankscope/record.h"

struct top;

/* What a thread or a process used in one interval. Texts are copied. */
struct top_entry {
	pid_t pid, tid; /* tid 0: a process */
	uid_t uid;
	uint64_t start_boot_ns; /* 0: not known */
	const char *thread, *process, *package;
	uint64_t cpu_ns;
	struct opt_u64 runnable_ns;
	unsigned threads;
	bool exited; /* in this interval */
};

/* NULL with ENOMEM. */
struct top *top_new(void);
void top_free(struct top *top);
/* Add what was used in the interval that ended at end_boot_ns. 0 or -ENOMEM. */
int top_add(struct top *top, const struct top_entry *entry, uint64_t end_boot_ns);
/* Add time that belongs to no entry: it is in other_ns of the result. */
void top_add_other(struct top *top, uint64_t cpu_ns);
/* The heaviest `count` rows. Owned by the top, valid until its next call. 0 or -ENOMEM. */
int top_take(struct top *top, size_t count, struct footer_top *result);
