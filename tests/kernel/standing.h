/* SPDX-License-Identifier: BSD-2-Clause */
/* What a prober tells of a thread, read here from /proc by the test itself. */
#pragma once
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "prober/pool.h"

static inline uint64_t standing_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline int standing_file(int pid, int tid, const char *name, char *text, size_t size)
{
	char path[64];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	file = fopen(path, "re");
	if (!file)
		return -1;
	n = fread(text, 1, size - 1, file);
	fclose(file);
	text[n] = 0;
	return n ? 0 : -1;
}

static inline int standing_read(int pid, int tid, struct probe_standing *out)
{
	unsigned long long minor = 0, major = 0, voluntary = 0, involuntary = 0;
	char text[4096], *p;

	memset(out, 0, sizeof(*out));
	out->syscall_nr = -1;
	out->before_mono_ns = standing_now_ns();
	if (standing_file(pid, tid, "syscall", text, sizeof(text)))
		return -1;
	if (!strncmp(text, "running", 7))
		out->syscall_nr = -2;
	else
		sscanf(text,
		       "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		       " %" SCNx64 " %" SCNx64 " %" SCNx64,
		       &out->syscall_nr, &out->arguments[0], &out->arguments[1], &out->arguments[2],
		       &out->arguments[3], &out->arguments[4], &out->arguments[5],
		       &out->stack_pointer, &out->program_counter);
	if (standing_file(pid, tid, "schedstat", text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &out->cpu_ns, &out->delay_ns,
		   &out->arrivals) != 3)
		return -1;
	if (standing_file(pid, tid, "stat", text, sizeof(text)) || !(p = strrchr(text, ')')) ||
	    sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &out->state, &minor,
		   &major) != 3)
		return -1;
	out->faults_minor = minor;
	out->faults_major = major;
	if (standing_file(pid, tid, "status", text, sizeof(text)))
		return -1;
	if ((p = strstr(text, "\nvoluntary_ctxt_switches:")))
		sscanf(p, "\nvoluntary_ctxt_switches: %llu", &voluntary);
	if ((p = strstr(text, "\nnonvoluntary_ctxt_switches:")))
		sscanf(p, "\nnonvoluntary_ctxt_switches: %llu", &involuntary);
	out->switches = voluntary + involuntary;
	out->after_mono_ns = standing_now_ns();
	return 0;
}
