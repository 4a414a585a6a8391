/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes on CPU 1 that hand a byte to and fro through two pipes: each hand-over is a switch,
 * and the CPU time of both is immune to what else runs. */
#pragma once
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "bench.h"

struct pingpong {
	pid_t children[2];
	int pipes[2][2];
	struct pingpong_board {
		atomic_uint go, done, round_trips;
		uint64_t cpu_ns[2];
	} * board;
};

static inline void bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static inline void pingpong_play(struct pingpong *game, int side)
{
	unsigned round = 0;
	char ball = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(1);
	for (;;) {
		uint64_t begin_ns;

		while (atomic_load(&game->board->go) == round)
			usleep(500);
		round = atomic_load(&game->board->go);
		begin_ns = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		for (unsigned i = atomic_load(&game->board->round_trips); i; i--) {
			if (side == 0) {
				if (write(game->pipes[0][1], &ball, 1) != 1 ||
				    read(game->pipes[1][0], &ball, 1) != 1)
					_exit(1);
			} else if (read(game->pipes[0][0], &ball, 1) != 1 ||
				   write(game->pipes[1][1], &ball, 1) != 1) {
				_exit(1);
			}
		}
		game->board->cpu_ns[side] = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
		atomic_fetch_add(&game->board->done, 1);
	}
}

static inline void pingpong_start(struct pingpong *game)
{
	game->board = mmap(NULL, sizeof(*game->board), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
		if (pipe(game->pipes[i]))
			exit(1);
	for (int i = 0; i < 2; i++) {
		game->children[i] = fork();
		if (!game->children[i])
			pingpong_play(game, i);
	}
}

static inline void pingpong_end(struct pingpong *game)
{
	for (int i = 0; i < 2; i++) {
		kill(game->children[i], SIGKILL);
		waitpid(game->children[i], NULL, 0);
	}
}

/* CPU time of both players per switch, in ns, over 2 x round_trips switches. */
static inline double pingpong_slice(struct pingpong *game, unsigned round_trips)
{
	unsigned done = atomic_load(&game->board->done);

	atomic_store(&game->board->round_trips, round_trips);
	atomic_fetch_add(&game->board->go, 1);
	while (atomic_load(&game->board->done) != done + 2)
		usleep(500);
	return (double)(game->board->cpu_ns[0] + game->board->cpu_ns[1]) / (2.0 * round_trips);
}
