/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <uthash.h>

#include "jankscope/record.h"
#include "jankscope/target.h"

/* Execs of an interval that are remembered; half a MiB. */
#define MAX_NAMES 4096

struct renamed_process {
	struct renamed_key {
		uint64_t start_boot_ns;
		uint64_t pid;
	} key;
	char comm[RECORD_COMM_LEN + 1];
	UT_hash_handle hh;
};

static void free_list(struct renamed_process **list)
{
	struct renamed_process *process, *next;

	HASH_ITER (hh, *list, process, next) {
		HASH_DEL(*list, process);
		free(process);
	}
}

int cpu_names_add(struct cpu_names *names, pid_t pid, uint64_t start_boot_ns, const char *comm)
{
	const struct renamed_key key = {start_boot_ns, (uint64_t)pid};
	struct renamed_process *process;

	HASH_FIND(hh, names->renamed, &key, sizeof(key), process);
	if (!process && HASH_COUNT(names->renamed) == MAX_NAMES) {
		names->dropped++;
		return 0;
	}
	if (!process) {
		process = calloc(1, sizeof(*process));
		if (!process)
			return -ENOMEM;
		process->key = key;
		HASH_ADD(hh, names->renamed, key, sizeof(process->key), process);
	}
	snprintf(process->comm, sizeof(process->comm), "%s", comm);
	return 0;
}

void cpu_names_apply(struct cpu_names *names, struct target_set *targets)
{
	for (struct renamed_process *process = names->renamed; process; process = process->hh.next)
		target_process_renamed(targets, (pid_t)process->key.pid, process->key.start_boot_ns,
				       process->comm);
}

const char *cpu_names_find(struct cpu_names *names, struct target_set *targets, pid_t pid,
			   uint64_t start_boot_ns)
{
	const struct renamed_key key = {start_boot_ns, (uint64_t)pid};
	const char *name = target_process_name(targets, pid, start_boot_ns);
	struct renamed_process *process;

	if (name)
		return name;
	HASH_FIND(hh, names->renamed, &key, sizeof(key), process);
	if (!process)
		HASH_FIND(hh, names->shown, &key, sizeof(key), process);
	return process ? process->comm : NULL;
}

void cpu_names_turn(struct cpu_names *names)
{
	free_list(&names->older);
	names->older = names->shown;
	names->shown = names->renamed;
	names->renamed = NULL;
}

void cpu_names_free(struct cpu_names *names)
{
	free_list(&names->older);
	free_list(&names->shown);
	free_list(&names->renamed);
}
