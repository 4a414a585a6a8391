/* SPDX-License-Identifier: BSD-2-Clause */
/* What loads sched.bpf.c (sched_kernel.c) and what reads its maps (sched_read.c) share. */
#pragma once
#include <bpf/libbpf.h>

#include "kernel/sched_kernel.h"
#include "sched.skel.h"

struct sched_kernel {
	struct sched_bpf *skeleton;
	struct bpf_link *switch_link, *free_link, *fork_link, *rename_link, *exec_link,
		*iterator_link;
	struct ring_buffer *ring;
	bool hash, iterator, loopers, fetch;
	enum program_variant program;
	size_t slot_count;
	struct task_slot *slots; /* mapped; NULL with the hash */
	struct cpu_slot *cpus;
	struct running_task *running;
	unsigned cpu_count;
	struct bpf_program *switch_program, *rename_program, *free_program, *exec_program;
	task_death_fn death_callback;
	void *death_ctx;
	uint64_t torn_reads;
	/* keys and values of a batch look-up; hash only */
	uint32_t *batch_keys;
	struct task_slot *batch_slots;
	char variant[32];
};
