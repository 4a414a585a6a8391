/* SPDX-License-Identifier: BSD-2-Clause */
/* What a prober reads of /proc and of the memory of a process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"
#include "util/clock.h"

#define STANDING_TRIES 3

int probe_open_process(const struct probe_request *request)
{
	struct proc_stat stat;
	int dir, err;

	if (request->pid <= 0 || request->tid < 0)
		return -EINVAL;
	dir = proc_open("", request->pid);
	if (dir < 0)
		return dir == -ENOENT ? -ESRCH : dir;
	if (!request->start_ticks)
		return dir;
	err = proc_stat(dir, &stat);
	if (!err && stat.start_ticks != request->start_ticks)
		err = -ESRCH;
	if (err)
		close(dir);
	return err ? err : dir;
}

int probe_still_there(int dir)
{
	struct proc_stat stat;

	return proc_stat(dir, &stat) ? -ESRCH : 0;
}

/* The name of a file below a process's folder; nothing that leaves it by its text. */
static int file_name(const struct probe_request *request, char *name, size_t size)
{
	int n;

	if (!request->name[0] || request->name[0] == '/' || strstr(request->name, ".."))
		return -EINVAL;
	if (request->tid)
		n = snprintf(name, size, "task/%d/%s", request->tid, request->name);
	else
		n = snprintf(name, size, "%s", request->name);
	return (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int open_file(const struct probe_request *request)
{
	char name[320];
	int err = file_name(request, name, sizeof(name)), dir, fd;

	if (err)
		return err;
	dir = probe_open_process(request);
	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		fd = -errno;
	close(dir);
	return fd;
}

ssize_t probe_read_once(int fd, void *to, size_t room)
{
	ssize_t n;

	do
		n = read(fd, to, room);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int probe_read_file(const struct probe_request *request, struct reply *reply)
{
	uint32_t room =
		request->length && request->length < PROBE_BYTES ? request->length : PROBE_BYTES;
	int fd = open_file(request);
	ssize_t n = 0;

	if (fd < 0)
		return fd;
	while (reply->length < room) {
		n = probe_read_once(fd, reply->data + reply->length, room - reply->length);
		if (n <= 0)
			break;
		reply->length += (uint32_t)n;
	}
	close(fd);
	reply->value = reply->length;
	return n < 0 ? (int)n : 0;
}

/* One read of many processes: a request and its answer cost more than the reading. */
int probe_read_names(const struct probe_named *names, size_t count, struct reply *reply)
{
	if (count > PROBE_MAX_NAMES)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		const struct probe_request one = {.pid = names[i].pid,
						  .start_ticks = names[i].start_ticks};
		char name[PROBE_NAME_BYTES + 1];
		int dir = probe_open_process(&one), n = dir;
		int16_t length;

		if (dir >= 0) {
			n = proc_argv0(dir, name, sizeof(name));
			close(dir);
		}
		length = (int16_t)n;
		memcpy(reply->data + reply->length, &length, sizeof(length));
		reply->length += sizeof(length);
		if (n > 0) {
			memcpy(reply->data + reply->length, name, (size_t)n);
			reply->length += (uint32_t)n;
		}
	}
	return 0;
}

int probe_read_link(const struct probe_request *request, struct reply *reply)
{
	char name[320];
	int err = file_name(request, name, sizeof(name)), dir;
	ssize_t n;

	if (err)
		return err;
	dir = probe_open_process(request);
	if (dir < 0)
		return dir;
	n = readlinkat(dir, name, (char *)reply->data, PROBE_BYTES);
	if (n < 0)
		err = -errno;
	close(dir);
	if (!err)
		reply->value = reply->length = (uint32_t)n;
	return err;
}

/* Bytes copied, up to the first page that is not there, or -errno. */
static ssize_t copy_memory(pid_t pid, uint64_t address, void *to, size_t length)
{
	struct iovec local = {to, length}, remote = {(void *)(uintptr_t)address, length};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

int probe_read_memory(const struct probe_request *request, struct reply *reply)
{
	int dir = probe_open_process(request), err;
	ssize_t n;

	if (dir < 0)
		return dir;
	n = request->length <= PROBE_BYTES
		    ? copy_memory(request->pid, request->address, reply->data, request->length)
		    : -EINVAL;
	/* The pid may have become another's before the copy. */
	err = n < 0 ? (int)n : probe_still_there(dir);
	close(dir);
	if (!err)
		reply->value = reply->length = (uint32_t)n;
	return err;
}

/* ---- what a thread does ---- */

static bool read_text(int dir, pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	return proc_read(dir, path, text, size) > 0;
}

static int read_syscall(int dir, pid_t tid, struct probe_standing *standing)
{
	char path[64], text[256];
	uint64_t *a = standing->arguments;
	ssize_t n;

	standing->syscall_nr = -1;
	snprintf(path, sizeof(path), "task/%d/syscall", tid);
	n = proc_read(dir, path, text, sizeof(text));
	if (n <= 0)
		return n ? (int)n : -ESRCH;
	if (!strncmp(text, "running", 7)) {
		standing->syscall_nr = -2;
		return 0;
	}
	if (sscanf(text,
		   "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		   " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &standing->syscall_nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
		   &standing->stack_pointer, &standing->program_counter) < 1)
		return -EINVAL;
	return 0;
}

static int read_past(int dir, pid_t tid, struct probe_standing *standing)
{
	struct proc_schedstat schedstat;
	struct proc_status status;
	struct proc_stat stat;
	char text[4096];

	if (!read_text(dir, tid, "schedstat", text, sizeof(text)) ||
	    proc_parse_schedstat(text, &schedstat))
		return -ESRCH;
	if (!read_text(dir, tid, "stat", text, sizeof(text)) ||
	    proc_parse_stat(text, strlen(text), &stat))
		return -ESRCH;
	read_text(dir, tid, "status", text, sizeof(text));
	proc_parse_status(text, &status);
	standing->cpu_ns = schedstat.cpu_ns;
	standing->delay_ns = schedstat.runnable_ns;
	standing->arrivals = schedstat.arrivals;
	standing->state = stat.state;
	standing->faults_minor = stat.faults_minor;
	standing->faults_major = stat.faults_major;
	standing->switches = status.switches_voluntary.value + status.switches_involuntary.value;
	return 0;
}

/* Read again where that took long, because what the thread did meanwhile is in some of the numbers
 * only. */
int probe_read_standing(const struct probe_request *request, struct reply *reply)
{
	struct probe_standing standing = {0};
	pid_t tid = request->tid ? request->tid : request->pid;
	int dir = probe_open_process(request), err = 0;

	if (dir < 0)
		return dir;
	for (int i = 0; i <= STANDING_TRIES && !err; i++) {
		memset(&standing, 0, sizeof(standing));
		standing.before_mono_ns = clock_now_ns(CLOCK_MONOTONIC);
		err = read_syscall(dir, tid, &standing);
		if (!err)
			err = read_past(dir, tid, &standing);
		standing.after_mono_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (standing.after_mono_ns - standing.before_mono_ns < NSEC_PER_MSEC)
			break;
	}
	standing.is_32_bit = proc_is_32_bit(dir);
	close(dir);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	memcpy(reply->data, &standing, sizeof(standing));
	reply->length = sizeof(standing);
	return 0;
}

/* ---- who waits in an epoll ---- */

/* A process may have any number of threads, and each is a file to read. */
#define WAITERS_LOOKED_AT 512
#define NR_EPOLL_PWAIT2   441

static bool waits_in(const struct probe_standing *standing, uint64_t epoll)
{
	switch (standing->syscall_nr) {
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
	case NR_EPOLL_PWAIT2:
		return (uint32_t)standing->arguments[0] == (uint32_t)epoll;
	}
	return false;
}

int probe_count_waiters(const struct probe_request *request, struct reply *reply)
{
	pid_t asked = request->tid ? request->tid : request->pid;
	int dir = probe_open_process(request), folder, left = WAITERS_LOOKED_AT;
	struct probe_standing standing;
	struct dirent *entry;
	DIR *threads;

	if (dir < 0)
		return dir;
	folder = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	threads = folder < 0 ? NULL : fdopendir(folder);
	while (threads && !reply->value && left-- && (entry = readdir(threads))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && tid != asked && !read_syscall(dir, tid, &standing))
			reply->value = waits_in(&standing, request->argument);
	}
	if (threads)
		closedir(threads);
	else if (folder >= 0)
		close(folder);
	close(dir);
	return threads ? 0 : -ESRCH;
}
