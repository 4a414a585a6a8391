/* SPDX-License-Identifier: BSD-2-Clause */
/* What flight_kernel.c, flight_read.c and flight_view.c share. */
#pragma once
#include "kernel/flight_kernel.h"

#define FLIGHT_ENTRIES_BYTES \
	((size_t)FLIGHT_BLOCKS * FLIGHT_BLOCK_ENTRIES * sizeof(struct flight_entry))
#define FLIGHT_THREADS_BYTES (FLIGHT_THREADS * sizeof(struct flight_thread))

enum flight_row_state { ROW_FREE = 0, ROW_WATCHED = 1, ROW_LEFT = 2 };

struct flight_kernel {
	struct sched_kernel *sched;
	int watched_fd;
	bool plain; /* the programs' atomics do not order (kernel/atomics.h) */
	unsigned cpu_count;
	uint8_t *near[2]; /* flight_near of both programs */
	struct flight_thread *threads;
	struct flight_entry *entries;
	const struct cpu_slot *cpus;
	struct flight_turn *turns;
	/* NULL: the kernel does not tell of frequencies. The first is sched's. */
	const struct cpu_frequency *frequencies;
	const struct flight_change *changes;
	uint32_t change_count;
	struct flight_row {
#define FLIGHT_ENTRIES_BYTES \
	((size_t)FLIGHT_BLOCKS * FLIGHT_BLOCK_ENTRIES * sizeof(struct flight_entry))
#define FLIGHT_THREADS_BYTES (FLIGHT_THREADS * sizeof(struct flight_thread))

		enum flight_row_state state;
		uint32_t block, blocks;
	} rows[FLIGHT_THREADS];
	bool taken[FLIGHT_BLOCKS];
	/* two copies of a ring; the second where the programs do not order */
	struct flight_entry *copies[2];
	uint64_t overrun, turns_gone;
	struct flight_turn *few_turns;     /* of one wait: FLIGHT_TURNS */
	uint64_t missed_gone, placed_gone; /* of rows that are free again */
};

/* At what frequency the CPU ran at at_ns, CLOCK_MONOTONIC, in kHz, and until when: UINT64_MAX, up
 * to now. 0: not known. */
uint32_t flight_kernel_khz(const struct flight_kernel *kernel, unsigned cpu, uint64_t at_ns,
			   uint64_t *until_ns);
