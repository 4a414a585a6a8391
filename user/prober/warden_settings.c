/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/warden_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/read.h"
#include "proc/stat.h"

#define PROPERTY_MS 2000 /* setprop talks to init */

enum kind { KIND_NONE = 0, KIND_FILE, KIND_MODE, KIND_PROPERTY, KIND_CHILD };

static const struct {
	enum kind kind;
	const char *name;
	const char *allowed; /* characters that a value consists of */
} settings[SETTING_COUNT] = {
	[SETTING_TRACING_ON] = {KIND_FILE, "tracing_on", "01"},
	[SETTING_TRACE_CLOCK] = {KIND_FILE, "trace_clock",
				 "abcdefghijklmnopqrstuvwxyz0123456789_-"},
	[SETTING_BUFFER_SIZE_KB] = {KIND_FILE, "buffer_size_kb", "0123456789"},
	[SETTING_TRACE_MARKER_MODE] = {KIND_MODE, "trace_marker", "01234567"},
	[SETTING_SWITCH_ENABLE] = {KIND_FILE, "events/sched/sched_switch/enable", "01"},
	[SETTING_PRINT_ENABLE] = {KIND_FILE, "events/ftrace/print/enable", "01"},
	[SETTING_ATRACE_FLAGS] = {KIND_PROPERTY, "debug.atrace.tags.enableflags",
				  "0123456789abcdefx"},
	[SETTING_ATRACE_APP_NUMBER] = {KIND_PROPERTY, "debug.atrace.app_number", "0123456789"},
	[SETTING_ATRACE_APP_0] = {KIND_PROPERTY, "debug.atrace.app_0", NULL},
	[SETTING_CHILD] = {KIND_CHILD, "", "0123456789 "},
};

extern char **environ;

static const char *tracefs_mount(void)
{
	static const char *const mounts[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/trace_clock", mounts[i]);
		if (!access(path, F_OK))
			return mounts[i];
	}
	return NULL;
}

static int write_file(const char *path, const char *value)
{
	size_t length = strlen(value);
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, length) != (ssize_t)length)
		err = -errno;
	close(fd);
	return err;
}

static int change_mode(const char *path, const char *value)
{
	char link[40];
	int fd = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW), err = 0;

	if (fd < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (chmod(link, (mode_t)strtoul(value, NULL, 8) & 0777))
		err = -errno;
	close(fd);
	return err;
}

static int set_property(const char *name, const char *value)
{
	char *argv[] = {"setprop", (char *)name, (char *)value, NULL};
	int status = -1, err;
	pid_t pid;

	err = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (err)
		return -err;
	for (int waited_ms = 0; waitpid(pid, &status, WNOHANG) == 0; waited_ms++) {
		if (waited_ms == PROPERTY_MS)
			kill(pid, SIGKILL);
		poll(NULL, 0, 1);
	}
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

/* A pid that another process has by now is left alone. */
static int end_child(const char *value)
{
	struct proc_stat stat;
	unsigned long long ticks;
	int pid, dir, pidfd = -1, err;

	if (sscanf(value, "%d %llu", &pid, &ticks) != 2 || pid <= 1)
		return -EINVAL;
#ifdef SYS_pidfd_open
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
	dir = proc_open("", pid);
	err = dir < 0 ? dir : proc_stat(dir, &stat);
	if (!err && stat.start_ticks != ticks)
		err = -ESRCH;
	if (!err && (pidfd >= 0 ? syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0)
				: kill(pid, SIGTERM)))
		err = -errno;
	if (pidfd >= 0)
		close(pidfd);
	if (dir >= 0)
		close(dir);
	return err;
}

int setting_restore(uint32_t setting, const char *value, const char *tracefs)
{
	char path[512];

	if (setting >= SETTING_COUNT || settings[setting].kind == KIND_NONE)
		return -EINVAL;
	if (settings[setting].allowed &&
	    (!value[0] || value[strspn(value, settings[setting].allowed)]) &&
	    settings[setting].kind != KIND_PROPERTY)
		return -EINVAL;
	switch (settings[setting].kind) {
	case KIND_FILE:
	case KIND_MODE:
		if (!tracefs)
			tracefs = tracefs_mount();
		if (!tracefs)
			return -ENOENT;
		snprintf(path, sizeof(path), "%s/%s", tracefs, settings[setting].name);
		return settings[setting].kind == KIND_MODE ? change_mode(path, value)
							   : write_file(path, value);
	case KIND_PROPERTY:
		if (settings[setting].allowed && value[strspn(value, settings[setting].allowed)])
			return -EINVAL;
		return set_property(settings[setting].name, value);
	case KIND_CHILD:
		return end_child(value);
	case KIND_NONE:
		break;
	}
	return -EINVAL;
}
