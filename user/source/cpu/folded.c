/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/folded.h"

#include <stdlib.h>

#define MAX_PROCESSES 1024

/* NULL: no room for one more process. */
static struct folded_process *find_or_make(struct cpu_folded *folded, const struct record_task *did)
{
	const struct folded_key key = {did->process_start_boot_ns, (uint64_t)did->pid};
	struct folded_process *process;

	HASH_FIND(hh, folded->processes, &key, sizeof(key), process);
	if (process || HASH_COUNT(folded->processes) == MAX_PROCESSES)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->key = key;
	process->sum.pid = did->pid;
	process->sum.uid = did->uid;
	process->sum.process_start_boot_ns = did->process_start_boot_ns;
	HASH_ADD(hh, folded->processes, key, sizeof(process->key), process);
	return process;
}

void cpu_folded_add(struct cpu_folded *folded, const struct record_task *did, bool first)
{
	struct folded_process *process = find_or_make(folded, did);

	folded->cpu_ns += did->cpu_ns;
	folded->tasks += first;
	if (!process)
		return;
	process->sum.cpu_ns += did->cpu_ns;
	/* Only tasks that end are folded, and a process ends with its main thread. */
	if (did->tid == did->pid) {
		process->sum.tid = did->pid;
		process->sum.exited = true;
	}
	process->threads += first;
	if (did->runnable_ns.present) {
		process->sum.runnable_ns.present = true;
		process->sum.runnable_ns.value += did->runnable_ns.value;
	}
}

const struct folded_process *cpu_folded_next(const struct cpu_folded *folded,
					     const struct folded_process *before)
{
	return before ? before->hh.next : folded->processes;
}

void cpu_folded_clear(struct cpu_folded *folded)
{
	struct folded_process *process, *next;

	HASH_ITER (hh, folded->processes, process, next) {
		HASH_DEL(folded->processes, process);
		free(process);
	}
	folded->cpu_ns = 0;
}
