/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/known.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

/* RCU frees a task late, under load by seconds. */
#define FORGET_NS 10000000000ull

struct departed_task {
	struct departed_key {
		uint64_t start_boot_ns;
		uint64_t tid;
	} key;
	struct known_task known;
	uint64_t since_ns; /* end of the interval before its tid had a new owner */
	UT_hash_handle hh;
};

struct known_task *known_tasks_find(const struct known_tasks *tasks, pid_t tid)
{
	size_t page = (size_t)tid / KNOWN_PAGE_TIDS;

	if (tid < 0 || page >= KNOWN_MAX_PAGES || !tasks->pages[page])
		return NULL;
	return &tasks->pages[page][tid % KNOWN_PAGE_TIDS];
}

struct known_task *known_tasks_make(struct known_tasks *tasks, pid_t tid)
{
	size_t page = (size_t)tid / KNOWN_PAGE_TIDS;

	if (tid >= 0 && page < KNOWN_MAX_PAGES && !tasks->pages[page])
		tasks->pages[page] = calloc(KNOWN_PAGE_TIDS, sizeof(struct known_task));
	return known_tasks_find(tasks, tid);
}

struct known_task *known_tasks_find_departed(const struct known_tasks *tasks, pid_t tid,
					     uint64_t start_boot_ns)
{
	struct departed_key key = {.start_boot_ns = start_boot_ns, .tid = (uint64_t)tid};
	struct departed_task *task;

	HASH_FIND(hh, tasks->departed, &key, sizeof(key), task);
	return task ? &task->known : NULL;
}

int known_tasks_depart(struct known_tasks *tasks, pid_t tid, const struct known_task *known,
		       uint64_t since_ns)
{
	struct departed_task *task = calloc(1, sizeof(*task));

	if (!task)
		return -ENOMEM;
	task->key = (struct departed_key){known->start_boot_ns, (uint64_t)tid};
	task->known = *known;
	task->since_ns = since_ns;
	HASH_ADD(hh, tasks->departed, key, sizeof(task->key), task);
	return 0;
}

void known_tasks_forget(struct known_tasks *tasks, uint64_t now_ns)
{
	struct departed_task *task, *next;

	HASH_ITER (hh, tasks->departed, task, next) {
		if (now_ns - task->since_ns > FORGET_NS) {
			HASH_DEL(tasks->departed, task);
			free(task);
		}
	}
}

void known_tasks_free(struct known_tasks *tasks)
{
	struct departed_task *task, *next;

	HASH_ITER (hh, tasks->departed, task, next) {
		HASH_DEL(tasks->departed, task);
		free(task);
	}
	for (size_t i = 0; i < KNOWN_MAX_PAGES; i++)
		free(tasks->pages[i]);
}
