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
