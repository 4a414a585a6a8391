/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_TICK_NS 10000000ull /* USER_HZ is 100 on every architecture that Android has */
#define START_FIELD  22

static ssize_t read_file(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buffer, size - 1);
	if (n < 0)
		n = -errno;
	else
		buffer[n] = 0;
	close(fd);
	return n;
}

int cpu_proc_parse_stat(const char *text, size_t length, char *comm, uint64_t *start_ticks)
{
	const char *open = memchr(text, '(', length);
	const char *close = open ? memrchr(text, ')', length) : NULL;
	const char *p, *end = text + length;
	uint64_t ticks = 0;
	size_t comm_length;

	if (!close || close < open)
		return -EBADMSG;
	comm_length = (size_t)(close - open - 1);
	if (comm_length >= RECORD_COMM_LEN)
		comm_length = RECORD_COMM_LEN - 1;
	memset(comm, 0, RECORD_COMM_LEN);
	memcpy(comm, open + 1, comm_length);
	p = close + 1;
	/* After the name come fields 3, 4, ... */
	for (int field = 2; field < START_FIELD; field++) {
		while (p < end && *p != ' ')
			p++;
		while (p < end && *p == ' ')
			p++;
	}
	if (p >= end || !isdigit((unsigned char)*p))
		return -EBADMSG;
	for (; p < end && isdigit((unsigned char)*p); p++)
		if (__builtin_mul_overflow(ticks, 10, &ticks) ||
		    __builtin_add_overflow(ticks, (uint64_t)(*p - '0'), &ticks))
			return -EBADMSG;
	/* Digits at the very end may be the begin of a longer number. */
	if (p >= end || !isspace((unsigned char)*p))
		return -EBADMSG;
	*start_ticks = ticks;
	return 0;
}

int cpu_proc_read_task(pid_t pid, pid_t tid, struct task_reading *reading, char *comm)
{
	char path[64], text[1024];
	unsigned long long cpu_ns, runnable_ns, slices;
	uint64_t start_ticks;
	struct stat status;
	ssize_t n;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	n = read_file(path, text, sizeof(text));
	if (n <= 0)
		return n == 0 ? -ESRCH : (int)n;
	err = cpu_proc_parse_stat(text, (size_t)n, comm, &start_ticks);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	n = read_file(path, text, sizeof(text));
	if (n <= 0)
		return n == 0 ? -ESRCH : (int)n;
	if (sscanf(text, "%llu %llu %llu", &cpu_ns, &runnable_ns, &slices) != 3)
		return -EBADMSG;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	if (stat(path, &status))
		return -errno;
	*reading = (struct task_reading){
		.tid = tid,
		.tgid = pid,
		.uid = status.st_uid,
		.start_boot_ns = start_ticks * USER_TICK_NS,
		.start_is_coarse = true,
		.cpu_ns = cpu_ns,
		.runnable_ns = SOME_U64(runnable_ns),
		.comm = comm,
	};
	return 0;
}

static pid_t numeric_name(const struct dirent *entry)
{
	char *end;
	long value;

	if (!isdigit((unsigned char)entry->d_name[0]))
		return 0;
	value = strtol(entry->d_name, &end, 10);
	return *end || value <= 0 ? 0 : (pid_t)value;
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
		pid_t tid = numeric_name(entry);

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
		pid_t pid = numeric_name(entry);

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
	ssize_t n = read_file("/proc/stat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	if (sscanf(text, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait) !=
	    5)
		return -EBADMSG;
	*idle_ns = (idle + iowait) * USER_TICK_NS;
	return 0;
}
