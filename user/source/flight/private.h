/* SPDX-License-Identifier: BSD-2-Clause */
/* What flight.c and threads.c share. */
#pragma once
#include "abi/flight.h"
#include "source/flight/flight.h"

#define FLIGHT_ASKED   128
#define FLIGHT_GLANCED 256
#define FLIGHT_IDLE    8192

struct flight_kernel;

struct followed {
	pid_t pid, tid;
	enum flight_role role;
	uint32_t index; /* in the kernel's table */
	char comm[RECORD_COMM_LEN];
	unsigned seen;    /* at which look it was there */
	uint64_t dead_ns; /* when it was first seen to be dead; 0: it lives */
};

struct flight_source {
	struct source base;
	struct source *cpu, *blocks;
	struct source_context context;
	struct flight_kernel *kernel;
	struct followed threads[FLIGHT_THREADS];
	size_t count;
	pid_t asked[FLIGHT_ASKED]; /* services that are not the composer */
	size_t asked_count;
	/* How many threads a target had when they were counted last, by the low bits of its pid. */
	struct glance {
		pid_t pid;
		unsigned looks; /* so many more since the number changed */
		uint64_t threads;
	} glances[FLIGHT_GLANCED];
	size_t next_glance;     /* target */
	unsigned display_looks; /* so many more ticks look for the display: one of it has ended */
	const char *glob;       /* --thread; NULL: none */
	uint64_t step_ns;       /* between two samples of a frame; 0: none is taken */
	uint64_t period_ns;     /* of the shortest frame; 0: not known yet */
	char variant[32];
	int timer;
	unsigned ticks, looks;
	/* Threads of crowded targets that did not run since the start and whose names say nothing,
	 * by the low bits of their tids: they are not asked for their names at each look. */
	pid_t idle[FLIGHT_IDLE];
	/* Threads that found no room at the last look through all of them; the most ever. */
	uint64_t crowded_now, crowded;
	uint64_t gaps_told, placed_told, overrun_told, turns_told, crowded_told;
	uint64_t thinned_told, gone_told, unkept_told;
};

/* Look for threads that make frames and are not followed yet: of one target, and of
 * SurfaceFlinger and the composer HAL. */
void flight_find_threads(struct flight_source *flight, pid_t pid);
/* The same in targets that have more or fewer threads than before: some targets at each call. */
void flight_find_born(struct flight_source *flight);
void flight_find_display(struct flight_source *flight);
/* Ask threads that never ran for their names again: another thread may have named them. */
void flight_forget_idle(struct flight_source *flight);
/* End a thread that seems to run for long, and of which there is nothing any more. */
void flight_check_runner(struct flight_source *flight, const struct followed *followed);
/* Let those go that died half a minute ago, and mark the others again. */
void flight_tidy_threads(struct flight_source *flight, uint64_t now_ns);
