/* SPDX-License-Identifier: BSD-2-Clause */
/* What loads sched.bpf.c (sched_kernel.c) and what reads its maps (sched_read.c) share. */
#pragma once
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "kernel/sched_kernel.h"
#include "kernel/sched_time.h"
#include "sched.skel.h"

struct sched_kernel {
	struct sched_bpf *skeleton;
	struct bpf_link *switch_link, *free_link, *fork_link, *rename_link, *exec_link,
		*iterator_link, *exit_link, *uid_link, *cpu_enter_link, *cpu_exit_link,
		*frequency_link;
	struct bpf_link *names_links[3]; /* fork, rename, exec */
	struct ring_buffer *ring;
	bool hash, iterator, loopers, iterating, names, fetch, flight;
	enum program_variant program;
	size_t slot_count; /* of the array; with the hash 0 */
	size_t hash_count;
	struct task_slot *slots; /* mapped; NULL with the hash */
	/* Array only: tasks that a read-out asks for (mapped), and copies of their slots. */
	struct asked_task *asked;
	struct task_slot *asked_slots;
	struct cpu_slot *cpus;
	struct running_task *running;
	struct cpu_state *cpu_states;
	struct cpu_reading *cpu_readings;
	unsigned cpu_count;
	struct task_time *times; /* TIME_ROWS of them; NULL: no time is split */
	uint32_t time_words;
	uint32_t change_count; /* of flight_changes; 0: none are kept */
	struct cpu_frequency *frequencies;
	struct bpf_program *switch_program, *rename_program, *free_program, *exec_program,
		*uid_program;
	bool has_kprobe;
	bool uids_by_hook; /* the switch program does not look at uids */
	task_death_fn death_callback;
	void *death_ctx;
	uint64_t torn_reads;
	/* keys and values of a batch look-up; hash only */
	uint32_t *batch_keys;
	struct task_slot *batch_slots;
	char variant[32];
};

/* sched_read.c: tell each CPU's switch program which read-out is the next. */
void sched_kernel_spread_epoch(struct sched_kernel *kernel);
/* sched_names.c: births and names of processes. */
void sched_names_configure(struct sched_kernel *kernel);
int sched_names_attach(struct sched_kernel *kernel);
void sched_names_release(struct sched_kernel *kernel);

/* sched_uids.c: changes of uid. direct: the programs read fields directly (tp_btf). Attaching fails
 * where a kprobe was chosen and cannot be set (-errno) or does not run (-ENODATA). */
void sched_uids_configure(struct sched_kernel *kernel, const struct sched_kernel_options *options,
			  const struct btf *btf, bool direct);
int sched_uids_attach(struct sched_kernel *kernel);

/* sched_flight.c: room for the spells of watched threads, where loopers are watched. */
void sched_flight_configure(struct sched_kernel *kernel, bool wanted);

/* sched_time.c: time by CPU and frequency; layout NULL: it is not split. */
void sched_time_configure(struct sched_kernel *kernel, const struct sched_time_layout *layout);
int sched_time_attach(struct sched_kernel *kernel, const struct sched_time_layout *layout);
void sched_time_release(struct sched_kernel *kernel);

/* sched_cpus.c: which CPUs are there, and where the kernel keeps their idle sums. */
void sched_cpus_configure(struct sched_kernel *kernel, const struct btf *btf);
int sched_cpus_attach(struct sched_kernel *kernel);
