/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SUMS (sizeof(struct record_disk_sums) / sizeof(uint64_t))

struct disk_run {
	struct run_key {
		uint64_t start_boot_ns;
		uint64_t tid;
	} key;
	struct footer_disk row; /* its texts are below */
	char thread[RECORD_COMM_LEN + 1];
	char *process, *package; /* owned */
	uint64_t turn;
	UT_hash_handle hh;
};

struct disk_runs {
	struct disk_run *runs;
	uint64_t turn;
	bool any, dropped;
	struct record_disk_sums other;
	struct footer_disk *result;
};

struct disk_runs *disk_runs_new(void)
{
	return calloc(1, sizeof(struct disk_runs));
}

static void drop(struct disk_runs *runs, struct disk_run *run)
{
	HASH_DEL(runs->runs, run);
	free(run->process);
	free(run->package);
	free(run);
}

void disk_runs_free(struct disk_runs *runs)
{
	struct disk_run *run, *next;

	if (!runs)
		return;
	HASH_ITER (hh, runs->runs, run, next)
		drop(runs, run);
	free(runs->result);
	free(runs);
}

static void add_sums(struct record_disk_sums *to, const struct record_disk_sums *from)
{
	uint64_t sums[SUMS], more[SUMS];

	memcpy(sums, to, sizeof(sums));
	memcpy(more, from, sizeof(more));
	for (size_t i = 0; i < SUMS; i++)
		sums[i] += more[i];
	memcpy(to, sums, sizeof(sums));
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int heavier(const struct disk_run *a, const struct disk_run *b)
{
	const struct record_disk_sums *x = &a->row.sums, *y = &b->row.sums;

	return compare(y->read_bytes + y->write_bytes, x->read_bytes + x->write_bytes)
		       ?: compare(y->rchar_bytes + y->wchar_bytes, x->rchar_bytes + x->wchar_bytes)
		       ?: compare(a->key.tid, b->key.tid)
		       ?: compare(a->key.start_boot_ns, b->key.start_boot_ns);
}

static bool make_room(struct disk_runs *runs)
{
	struct disk_run *lightest = NULL;

	if (HASH_COUNT(runs->runs) < DISK_RUNS)
		return true;
	for (struct disk_run *run = runs->runs; run; run = run->hh.next)
		if (run->turn < runs->turn && (!lightest || heavier(lightest, run) < 0))
			lightest = run;
	if (!lightest)
		return false;
	add_sums(&runs->other, &lightest->row.sums);
	runs->dropped = true;
	drop(runs, lightest);
	return true;
}

static void name_it(char **name, const char *text)
{
	if (!text || (*name && !strcmp(*name, text)))
		return;
	free(*name);
	*name = strdup(text);
}

static int add_task(struct disk_runs *runs, const struct record_disk_task *task)
{
	struct run_key key = {task->start_boot_ns, (uint64_t)task->tid};
	struct disk_run *run;

	HASH_FIND(hh, runs->runs, &key, sizeof(key), run);
	if (!run && !make_room(runs)) {
		add_sums(&runs->other, &task->sums);
		runs->dropped = true;
		return 0;
	}
	if (!run) {
		run = calloc(1, sizeof(*run));
		if (!run)
			return -ENOMEM;
		run->key = key;
		run->row.partial = runs->dropped;
		HASH_ADD(hh, runs->runs, key, sizeof(run->key), run);
	}
	run->turn = runs->turn;
	run->row.tid = task->tid;
	run->row.pid = task->pid;
	run->row.uid = task->uid;
	run->row.start_boot_ns = task->start_boot_ns;
	memcpy(run->thread, task->thread, RECORD_COMM_LEN);
	name_it(&run->process, task->process);
	name_it(&run->package, task->package);
	add_sums(&run->row.sums, &task->sums);
	return 0;
}

int disk_runs_add(struct disk_runs *runs, const struct record_disk *disk)
{
	int err = 0;

	runs->turn++;
	runs->any = true;
	add_sums(&runs->other, &disk->other);
	for (size_t i = 0; i < disk->task_count && !err; i++)
		err = add_task(runs, &disk->tasks[i]);
	return err;
}

int disk_runs_take(struct disk_runs *runs, size_t count, struct record_footer *footer)
{
	struct disk_run *run;
	size_t n = 0;

	free(runs->result);
	runs->result = calloc(count + 1, sizeof(*runs->result));
	if (!runs->result)
		return -ENOMEM;
	footer->any_disk = runs->any;
	footer->other_disk = runs->other;
	HASH_SORT(runs->runs, heavier);
	for (run = runs->runs; run; run = run->hh.next) {
		if (n == count) {
			add_sums(&footer->other_disk, &run->row.sums);
			continue;
		}
		runs->result[n] = run->row;
		runs->result[n].thread = run->thread;
		runs->result[n].process = run->process;
		runs->result[n++].package = run->package;
	}
	footer->disks = runs->result;
	footer->disk_count = n;
	return 0;
}
