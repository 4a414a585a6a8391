/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ledger knows of each task: by tid of the one that has it now, and by start time of those
 * whose tid has a new owner while their death is still to be told. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/sched.h"

/* Tids are dense below the pid_max of phones: pages of entries, made when first touched, beat a
 * hash. Memory: 72 bytes a tid that was ever seen, 2.3 MiB for a pid_max of 32,768 and 9 MiB at
 * most. The dead stay there, because the kernel side shows their slots until the tid has a new
 * owner. Where pid_max is larger (4,194,304 with systemd) that would be 300 MiB in the end, and the
 * kernel side keeps tids from here on in a hash, without the dead: so does this one. */
#define KNOWN_PAGE_TIDS 512
#define KNOWN_HASHED    131072 /* as ARRAY_MAX_TIDS of kernel/sched_kernel.c */
#define KNOWN_MAX_PAGES (KNOWN_HASHED / KNOWN_PAGE_TIDS)
#define KNOWN_MAX_TIDS  (4 << 20) /* PID_MAX_LIMIT of 64-bit kernels */

#define KNOWN_MAX_ROW ((1u << 29) - 1) /* PID_MAX_LIMIT is 2^22 */

struct known_task {
	uint64_t start_boot_ns; /* 0: no task seen under this tid */
	struct task_sums sums;  /* the highest that were read so far */
	uint64_t uninterruptible_ns, stopped_ns;
	uint64_t process_start_boot_ns;
	uint32_t interval; /* it has a row if this is the present one: */
	uint32_t row : 29;
	bool exited : 1, dead : 1, coarse : 1; /* exited: told already; dead: with final sums */
};

struct departed_task;
struct hashed_task;

struct known_tasks {
	struct known_task *pages[KNOWN_MAX_PAGES];
	struct hashed_task *hashed;
	struct departed_task *departed;
	uint64_t swept_ns; /* when the dead of the hash were last looked for */
};

/* NULL: nothing is known of a task of this tid. */
struct known_task *known_tasks_find(const struct known_tasks *tasks, pid_t tid);
/* The same, with room made for it, valid until known_tasks_forget; NULL: no memory, or no tid. */
struct known_task *known_tasks_make(struct known_tasks *tasks, pid_t tid);
/* A task whose tid was seen under a new owner before its death was told; NULL: not known. */
struct known_task *known_tasks_find_departed(const struct known_tasks *tasks, pid_t tid,
					     uint64_t start_boot_ns);
/* Its tid has a new owner since the interval that ended at since_ns. 0, -ENOMEM. */
int known_tasks_depart(struct known_tasks *tasks, pid_t tid, const struct known_task *known,
		       uint64_t since_ns);
/* Of those that departed 10 s before now_ns no death will be told any more: the ring was full. Nor
 * is anything told of a hashed task that has been dead for so long. */
void known_tasks_forget(struct known_tasks *tasks, uint64_t now_ns);
/* How many are in the hash. */
size_t known_tasks_hashed(const struct known_tasks *tasks);
void known_tasks_free(struct known_tasks *tasks);
