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

struct hashed_task {
	pid_t tid;
	struct known_task known;
	/* When a look found it dead, and which task of this tid; 0: it was not. */
	uint64_t dead_since_ns, dead_start_boot_ns;
	UT_hash_handle hh;
};

static struct hashed_task *find_hashed(const struct known_tasks *tasks, pid_t tid)
{
	struct hashed_task *task;

	HASH_FIND_INT(tasks->hashed, &tid, task);
	return task;
}

struct known_task *known_tasks_find(const struct known_tasks *tasks, pid_t tid)
{
	size_t page = (size_t)tid / KNOWN_PAGE_TIDS;
	struct hashed_task *task;

	if (tid >= KNOWN_HASHED) {
		task = find_hashed(tasks, tid);
		return task ? &task->known : NULL;
	}
	if (tid < 0 || !tasks->pages[page])
		return NULL;
	return &tasks->pages[page][tid % KNOWN_PAGE_TIDS];
}

struct known_task *known_tasks_make(struct known_tasks *tasks, pid_t tid)
{
	size_t page = (size_t)tid / KNOWN_PAGE_TIDS;
	struct hashed_task *task;

	if (tid >= KNOWN_HASHED && tid < KNOWN_MAX_TIDS && !find_hashed(tasks, tid) &&
	    (task = calloc(1, sizeof(*task)))) {
		task->tid = tid;
		HASH_ADD_INT(tasks->hashed, tid, task);
	}
	if (tid >= 0 && tid < KNOWN_HASHED && !tasks->pages[page])
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

/* Whether the task was found dead FORGET_NS ago, and its tid had no new owner since. */
static bool is_long_dead(struct hashed_task *task, uint64_t now_ns)
{
	if (!task->known.dead) {
		task->dead_since_ns = 0;
		return false;
	}
	if (!task->dead_since_ns || task->dead_start_boot_ns != task->known.start_boot_ns) {
		task->dead_since_ns = now_ns;
		task->dead_start_boot_ns = task->known.start_boot_ns;
	}
	return now_ns - task->dead_since_ns > FORGET_NS;
}

static void forget_hashed(struct known_tasks *tasks, uint64_t now_ns)
{
	struct hashed_task *task, *next;

	if (now_ns - tasks->swept_ns < FORGET_NS)
		return;
	tasks->swept_ns = now_ns;
	HASH_ITER (hh, tasks->hashed, task, next) {
		if (is_long_dead(task, now_ns)) {
			HASH_DEL(tasks->hashed, task);
			free(task);
		}
	}
}

size_t known_tasks_hashed(const struct known_tasks *tasks)
{
	return HASH_COUNT(tasks->hashed);
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
	forget_hashed(tasks, now_ns);
}

void known_tasks_free(struct known_tasks *tasks)
{
	struct departed_task *task, *next;
	struct hashed_task *hashed, *next_hashed;

	HASH_ITER (hh, tasks->hashed, hashed, next_hashed) {
		HASH_DEL(tasks->hashed, hashed);
		free(hashed);
	}
	HASH_ITER (hh, tasks->departed, task, next) {
		HASH_DEL(tasks->departed, task);
		free(task);
	}
	for (size_t i = 0; i < KNOWN_MAX_PAGES; i++)
		free(tasks->pages[i]);
}
