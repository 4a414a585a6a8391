/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/size_estimate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"
#include "util/clock.h"

/* Reading one costs some 15 us. */
#define MAX_SAMPLED 2000

/* Bytes of an interval that has no row, and for each thread that ran, with its share of the rows of
 * processes and uids. Of recordings of a phone's image and of a Linux machine; tests/fault/keep.py
 * compares them with a run. */
static const struct {
	double interval, thread;
} plain_bytes = {2200, 330}, packed_bytes = {300, 22};

struct count {
	const char *root;
	uint64_t now_ns, interval_ns, stride, sampled;
	double active;
};

static double activity(const struct count *count, pid_t pid, pid_t tid)
{
	struct proc_schedstat schedstat;
	struct proc_stat stat;
	char text[1024];
	ssize_t n = proc_read_of_thread(count->root, pid, tid, "stat", text, sizeof(text));
	uint64_t start_ns, age_ns;

	if (n <= 0 || proc_parse_stat(text, (size_t)n, &stat) ||
	    proc_schedstat_of_thread(count->root, pid, tid, &schedstat))
		return 0;
	start_ns = stat.start_ticks * PROC_TICK_NS;
	age_ns = count->now_ns > start_ns ? count->now_ns - start_ns : 0;
	if (age_ns < count->interval_ns)
		age_ns = count->interval_ns;
	return -expm1(-(double)schedstat.arrivals * (double)count->interval_ns / (double)age_ns);
}

static void count_process(struct count *count, struct size_estimate *estimate, pid_t pid)
{
	char path[4096];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "%s/proc/%d/task", count->root, pid);
	tasks = opendir(path);
	if (!tasks)
		return;
	estimate->processes++;
	while ((entry = readdir(tasks))) {
		pid_t tid = proc_number(entry->d_name);

		if (!tid || estimate->threads++ % count->stride)
			continue;
		count->sampled++;
		count->active += activity(count, pid, tid);
	}
	closedir(tasks);
}

/* "0.31 0.22 0.18 1/412 9131": all tasks behind the slash. */
static uint64_t tasks_of(const char *root)
{
	char path[4096], text[128];
	unsigned long long tasks;

	snprintf(path, sizeof(path), "%s/proc/loadavg", root);
	if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
	    sscanf(text, "%*s %*s %*s %*u/%llu", &tasks) != 1)
		return 0;
	return tasks;
}

int size_estimate_make(const char *root, uint64_t interval_ns, bool packed,
		       struct size_estimate *estimate)
{
	struct count count = {.root = root,
			      .now_ns = clock_now_ns(CLOCK_BOOTTIME),
			      .interval_ns = interval_ns,
			      .stride = tasks_of(root) / MAX_SAMPLED + 1};
	double each = packed ? packed_bytes.thread : plain_bytes.thread;
	double base = packed ? packed_bytes.interval : plain_bytes.interval;
	char path[4096];
	struct dirent *entry;
	DIR *processes;

	*estimate = (struct size_estimate){0};
	snprintf(path, sizeof(path), "%s/proc", root);
	processes = opendir(path);
	if (!processes)
		return -errno;
	while ((entry = readdir(processes)))
		if (proc_number(entry->d_name))
			count_process(&count, estimate, proc_number(entry->d_name));
	closedir(processes);
	if (!count.sampled)
		return -ENOENT;
	count.active *= (double)estimate->threads / (double)count.sampled;
	estimate->active_threads = (uint64_t)(count.active + 0.5);
	estimate->bytes_per_day =
		(uint64_t)((base + each * count.active) * 86400e9 / (double)interval_ns);
	return 0;
}
