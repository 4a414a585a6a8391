/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that took the place of their leader by execve while a read-out was made. What was read of
 * such a process before the reader heard of the execve names its tasks as they were called then. */
#pragma once
#include "abi/sched.h"
#include "source/cpu/ledger.h"

struct moved_task {
	pid_t old_tid, tid;     /* of the thread, before and since */
	uint64_t start_boot_ns; /* the leader's, and the thread's since */
	uint64_t at_boot_ns;
};

struct moved_tasks {
	struct moved_task *items;
	size_t count, room;
};

/* Keep what a note of the kind TASK_NOTE_EXEC_LEADER says. 0, -ENOMEM. */
int moved_tasks_add(struct moved_tasks *moved, const struct task_death *note);
void moved_tasks_free(struct moved_tasks *moved);

/* Give the reading the name that its task has in the ledger now. begin_boot_ns: when the read-out
 * began. False: it cannot be told which of two tasks the reading is of, so that it must not be
 * booked; the next read-out has those sums and more. */
bool moved_tasks_rename(const struct moved_tasks *moved, uint64_t begin_boot_ns,
			struct task_reading *reading);
