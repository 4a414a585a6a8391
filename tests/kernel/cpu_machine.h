/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tasks of a load ran, as the kernel's own control group "cpuacct" counts it: each slice
 * to the nanosecond, those of the dead too, by code that shares nothing with ours. */
#pragma once
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.h"

struct cpu_group {
	char root[64], dir[96];
	bool mounted, ok;
};

static inline bool read_group_ns(const struct cpu_group *group, uint64_t *ns)
{
	char path[128];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/cpuacct.usage", group->dir);
	file = fopen(path, "re");
	ok = file && fscanf(file, "%" SCNu64, ns) == 1;
	if (file)
		fclose(file);
	return ok;
}

/* A group of this test. .ok is false where the kernel has no such controller, or another program
 * has it in a tree of cgroup2. */
static inline struct cpu_group make_cpu_group(void)
{
	struct cpu_group group = {.root = "/sys/fs/cgroup/cpuacct"};

	if (access("/sys/fs/cgroup/cpuacct/cpuacct.usage", R_OK)) {
		snprintf(group.root, sizeof(group.root), "/tmp/cpuacct-XXXXXX");
		if (!mkdtemp(group.root))
			return group;
		group.mounted = !mount("cpuacct", group.root, "cgroup", 0, "cpuacct");
		if (!group.mounted)
			rmdir(group.root);
	}
	snprintf(group.dir, sizeof(group.dir), "%s/test_cpu-%d", group.root, (int)getpid());
	group.ok = !mkdir(group.dir, 0700);
	return group;
}

/* The calling process, and its children from now on. What a task ran since the kernel's last
 * update_curr() is charged to the group that it is in at the next one, and a move into "cpuacct"
 * alone makes none (kernel/sched/cpuacct.c): without the sleep up to a tick of the time before the
 * move would be the group's. */
static inline bool join_cpu_group(const struct cpu_group *group)
{
	char path[128], text[16];
	int fd, n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	bool ok;

	snprintf(path, sizeof(path), "%s/tasks", group->dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	usleep(1000);
	ok = fd >= 0 && write(fd, text, (size_t)n) == n;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* What the group has counted so far of the calling task, its only one, and that task's CPU clock at
 * that moment. A read of the clock makes the kernel charge both up to now (task_sched_runtime());
 * of several pairs the quickest is taken, as a tick between the two reads puts them apart. The join
 * itself takes milliseconds where another program holds the lock on all groups or the host has
 * something else to do: nobody but the group knows how much of that it counted. */
static inline uint64_t joined_ns(const struct cpu_group *group, uint64_t *clock_ns)
{
	uint64_t best_ns = UINT64_MAX, group_ns = 0;
	char path[128], text[32];
	int fd;

	snprintf(path, sizeof(path), "%s/cpuacct.usage", group->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 20 && best_ns > 20 * NSEC_PER_USEC; i++) {
		uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID), took_ns;
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

		took_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		if (n <= 0 || took_ns >= best_ns)
			continue;
		text[n] = '\0';
		best_ns = took_ns;
		group_ns = strtoull(text, NULL, 10);
		*clock_ns = begin_ns;
	}
	if (fd >= 0)
		close(fd);
	return group_ns;
}

/* After the last of its tasks was reaped. */
static inline void remove_cpu_group(const struct cpu_group *group)
{
	if (group->ok)
		rmdir(group->dir);
	if (group->mounted) {
		umount2(group->root, MNT_DETACH);
		rmdir(group->root);
	}
}

/* The longest time in which this thread neither ran nor rested of its own will: it waited for a
 * CPU, or for a page of its file that the machine had taken away. */
struct starved {
	uint64_t wall_ns, ran_ns, longest_ns;
};

static inline struct starved begin_to_look(void)
{
	return (struct starved){.wall_ns = clock_now_ns(CLOCK_MONOTONIC),
				.ran_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID)};
}

/* rested_ns: how long it meant to, since the last look. */
static inline void look_whether_starved(struct starved *starved, uint64_t rested_ns)
{
	struct starved now = begin_to_look();
	int64_t away_ns = (int64_t)(now.wall_ns - starved->wall_ns) -
			  (int64_t)(now.ran_ns - starved->ran_ns) - (int64_t)rested_ns;

	starved->wall_ns = now.wall_ns;
	starved->ran_ns = now.ran_ns;
	if (away_ns > (int64_t)starved->longest_ns)
		starved->longest_ns = (uint64_t)away_ns;
}
