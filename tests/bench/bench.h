/* SPDX-License-Identifier: BSD-2-Clause */
/* Paired measurements: A and B alternate in one run, their order swapped every pair, and medians of
 * the pairs are told. Machines are noisy; ratios within a run are what counts. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t bench_now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Quantile of values, which are sorted in place. */
static inline double bench_quantile(double *values, size_t n, double q)
{
	qsort(values, n, sizeof(*values), bench_compare);
	return values[(size_t)(q * (double)(n - 1) + 0.5)];
}

/* One line of the table: what, the figure, its spread, and what was to be reached ("" for none). */
static inline void bench_row(const char *name, const char *value, const char *spread,
			     const char *target)
{
	printf("  %-44s %14s  %-26s %s\n", name, value, spread, target);
	fflush(stdout);
}

/* Start a tool with its output thrown away; it is given settle_ms to be ready. -1: not installed.
 */
static inline pid_t bench_start(char *const argv[], unsigned settle_ms)
{
	pid_t pid = fork();

	if (!pid) {
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(127);
		execvp(argv[0], argv);
		_exit(127);
	}
	usleep(settle_ms * 1000);
	if (waitpid(pid, NULL, WNOHANG) == pid)
		return -1;
	return pid;
}

static inline void bench_stop(pid_t pid)
{
	kill(pid, SIGINT);
	waitpid(pid, NULL, 0);
}

/* ---- many ways, turn by turn ---- */
#define BENCH_MAX_WAYS   24
#define BENCH_MAX_PAIRS  101
#define BENCH_MAX_SLICES 32

/* What is compared in one run. A pair is one value of each way: the median of several short slices
 * that alternate, so that the machine's slow changes meet all ways alike. */
struct bench_ways {
	size_t count, pairs, slices; /* slices: of each way in a pair */
	double values[BENCH_MAX_WAYS][BENCH_MAX_PAIRS];
};

/* Measure all ways: slice(ctx, way) gives the value of one slice. Every other turn goes backwards.
 */
static inline void bench_turns(struct bench_ways *ways, double (*slice)(void *ctx, size_t way),
			       void *ctx)
{
	for (size_t pair = 0; pair < ways->pairs; pair++) {
		double slices[BENCH_MAX_WAYS][BENCH_MAX_SLICES];

		for (size_t turn = 0; turn < ways->slices; turn++) {
			for (size_t i = 0; i < ways->count; i++) {
				size_t way = turn & 1 ? ways->count - 1 - i : i;

				slices[way][turn] = slice(ctx, way);
			}
		}
		for (size_t i = 0; i < ways->count; i++)
			ways->values[i][pair] = bench_quantile(slices[i], ways->slices, 0.5);
	}
}

/* The quantile of a way's values less those of another in the same pair; base < 0: the values. */
static inline double bench_over(const struct bench_ways *ways, size_t way, int base, double q)
{
	double values[BENCH_MAX_PAIRS];

	for (size_t i = 0; i < ways->pairs; i++)
		values[i] = ways->values[way][i] - (base < 0 ? 0 : ways->values[base][i]);
	return bench_quantile(values, ways->pairs, q);
}
