/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs that tell of births and names of processes: only where a target is a name. */
#include <errno.h>

#include "kernel/sched_private.h"

#define NAMES_PROGRAMS 3

static void find_programs(const struct sched_kernel *kernel,
			  struct bpf_program *programs[NAMES_PROGRAMS])
{
	programs[0] = kernel->skeleton->progs.sched_names_fork;
	programs[1] = kernel->skeleton->progs.sched_names_rename;
	programs[2] = kernel->skeleton->progs.sched_names_exec;
}

void sched_names_configure(struct sched_kernel *kernel)
{
	struct bpf_program *programs[NAMES_PROGRAMS];

	find_programs(kernel, programs);
	for (size_t i = 0; i < NAMES_PROGRAMS; i++)
		bpf_program__set_autoload(programs[i], kernel->names);
}

/* Behind the program of execve: see sched_names_exec. */
int sched_names_attach(struct sched_kernel *kernel)
{
	struct bpf_program *programs[NAMES_PROGRAMS];

	if (!kernel->names)
		return 0;
	find_programs(kernel, programs);
	for (size_t i = 0; i < NAMES_PROGRAMS; i++) {
		kernel->names_links[i] = bpf_program__attach(programs[i]);
		if (!kernel->names_links[i])
			return -errno;
	}
	return 0;
}

bool sched_kernel_want_names(struct sched_kernel *kernel)
{
	if (!kernel->names || kernel->skeleton->bss->names_wanted)
		return false;
	kernel->skeleton->bss->names_wanted = 1;
	return true;
}

void sched_names_release(struct sched_kernel *kernel)
{
	for (size_t i = 0; i < NAMES_PROGRAMS; i++)
		bpf_link__destroy(kernel->names_links[i]);
}
