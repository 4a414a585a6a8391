/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"

int cpu_proc_read_task(pid_t pid, pid_t tid, struct task_reading *reading, char *comm)
{
	struct proc_schedstat schedstat;
	struct proc_stat stat;
	char path[64], text[1024];
	struct stat status;
	ssize_t n = proc_read_of_thread("", pid, tid, "stat", text, sizeof(text));
	int err;

	if (n <= 0)
		return n == 0 ? -ESRCH : (int)n;
	err = proc_parse_stat(text, (size_t)n, &stat);
	if (!err)
		err = proc_schedstat_of_thread("", pid, tid, &schedstat);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	if (lstat(path, &status))
		return -errno;
	memcpy(comm, stat.comm, PROC_COMM_LEN);
	*reading = (struct task_reading){
		.tid = tid,
		.tgid = pid,
		.uid = status.st_uid,
		.start_boot_ns = stat.start_ticks * PROC_TICK_NS,
		.start_is_coarse = true,
		.sums = {.cpu_ns = schedstat.cpu_ns, .runnable_ns = schedstat.runnable_ns},
		.has_runnable = true,
		.comm = comm,
	};
	return 0;
}

static int walk_threads(pid_t pid, task_reading_fn callback, void *ctx, uint64_t *unreadable)
{
	char path[64], comm[RECORD_COMM_LEN];
	struct task_reading reading;
	struct dirent *entry;
	DIR *directory;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	directory = opendir(path);
	if (!directory) {
		*unreadable += errno != ENOENT && errno != ESRCH;
		return 0;
	}
	while (!err && (entry = readdir(directory))) {
		pid_t tid = proc_number(entry->d_name);

		if (!tid)
			continue;
		err = cpu_proc_read_task(pid, tid, &reading, comm);
		if (!err) {
			err = callback(ctx, &reading);
		} else {
			/* A task that died meanwhile is no loss of ours. */
			*unreadable += err != -ENOENT && err != -ESRCH;
			err = 0;
		}
	}
	closedir(directory);
	return err;
}

int cpu_proc_walk(task_reading_fn callback, void *ctx, uint64_t *unreadable)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!directory)
		return -errno;
	while (!err && (entry = readdir(directory))) {
		pid_t pid = proc_number(entry->d_name);

		if (pid)
			err = walk_threads(pid, callback, ctx, unreadable);
	}
	closedir(directory);
	return err;
}

int cpu_proc_idle_ns(uint64_t *idle_ns)
{
	unsigned long long user, nice, system, idle, iowait;
	char text[256];
	ssize_t n = proc_read(AT_FDCWD, "/proc/stat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait) !=
	    5)
		return -EBADMSG;
	*idle_ns = (idle + iowait) * PROC_TICK_NS;
	return 0;
}
