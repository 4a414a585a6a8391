/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

struct uid_sum {
	uid_t uid;
	uint64_t cpu_ns;
	UT_hash_handle hh;
};

struct process_sum {
	struct process_key {
		uint64_t start_boot_ns;
		uint64_t pid;
	} key;
	struct record_process_cpu row;
	UT_hash_handle hh;
};

static void forget_uids(struct cpu_sums *sums)
{
	struct uid_sum *sum, *next;

	HASH_ITER (hh, sums->uids, sum, next) {
		HASH_DEL(sums->uids, sum);
		free(sum);
	}
}

int cpu_sums_add_uid(struct cpu_sums *sums, uid_t uid, uint64_t cpu_ns)
{
	struct uid_sum *sum;

	HASH_FIND(hh, sums->uids, &uid, sizeof(uid), sum);
	if (!sum) {
		sum = calloc(1, sizeof(*sum));
		if (!sum)
			return -ENOMEM;
		sum->uid = uid;
		HASH_ADD(hh, sums->uids, uid, sizeof(uid), sum);
	}
	sum->cpu_ns += cpu_ns;
	return 0;
}

static int by_process_cpu_desc(const void *a, const void *b)
{
	const struct record_process_cpu *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int by_uid(const void *a, const void *b)
{
	const struct record_uid_cpu *x = a, *y = b;

	return x->uid < y->uid ? -1 : x->uid > y->uid;
}

int cpu_sums_add_process(struct cpu_sums *sums, const struct record_task *task, unsigned threads)
{
	const struct process_key key = {task->process_start_boot_ns, (uint64_t)task->pid};
	struct process_sum *sum;

	HASH_FIND(hh, sums->processes, &key, sizeof(key), sum);
	if (!sum) {
		sum = calloc(1, sizeof(*sum));
		if (!sum)
			return -ENOMEM;
		sum->key = key;
		sum->row.pid = task->pid;
		sum->row.uid = task->uid;
		sum->row.start_boot_ns = key.start_boot_ns;
		HASH_ADD(hh, sums->processes, key, sizeof(key), sum);
	}
	if (task->process)
		sum->row.process = task->process;
	if (task->package)
		sum->row.package = task->package;
	sum->row.cpu_ns += task->cpu_ns;
	if (task->runnable_ns.present) {
		sum->row.runnable_ns.present = true;
		sum->row.runnable_ns.value += task->runnable_ns.value;
	}
	sum->row.exited |= task->exited && task->tid == task->pid;
	sum->row.threads += threads;
	return 0;
}

/* Empty the table; into the rows, where they are given. */
static size_t take_processes(struct cpu_sums *sums, struct record_process_cpu *rows)
{
	struct process_sum *sum, *next;
	size_t n = 0;

	HASH_ITER (hh, sums->processes, sum, next) {
		if (rows)
			rows[n++] = sum->row;
		HASH_DEL(sums->processes, sum);
		free(sum);
	}
	return n;
}

int cpu_sums_processes(struct cpu_sums *sums, struct record_cpu *cpu)
{
	int err = 0;
	size_t n;

	for (size_t i = 0; i < cpu->task_count && !err; i++)
		err = cpu_sums_add_process(sums, &cpu->tasks[i], 1);
	free(sums->out_processes);
	sums->out_processes = calloc(HASH_COUNT(sums->processes) + 1, sizeof(*sums->out_processes));
	n = take_processes(sums, sums->out_processes);
	if (!sums->out_processes)
		return -ENOMEM;
	qsort(sums->out_processes, n, sizeof(*sums->out_processes), by_process_cpu_desc);
	cpu->processes = sums->out_processes;
	cpu->process_count = n;
	return err;
}

int cpu_sums_uids(struct cpu_sums *sums, struct record_cpu *cpu)
{
	struct uid_sum *sum, *next;
	size_t n = 0;

	free(sums->out_uids);
	sums->out_uids = calloc(HASH_COUNT(sums->uids) + 1, sizeof(*sums->out_uids));
	if (!sums->out_uids)
		return -ENOMEM;
	HASH_ITER (hh, sums->uids, sum, next) {
		if (sum->cpu_ns)
			sums->out_uids[n++] = (struct record_uid_cpu){sum->uid, sum->cpu_ns};
	}
	forget_uids(sums);
	qsort(sums->out_uids, n, sizeof(*sums->out_uids), by_uid);
	cpu->uids = sums->out_uids;
	cpu->uid_count = n;
	return 0;
}

void cpu_sums_free(struct cpu_sums *sums)
{
	forget_uids(sums);
	take_processes(sums, NULL);
	free(sums->out_uids);
	free(sums->out_processes);
}
