/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/tracefs_guard.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SETTINGS 64
#define MAX_LINE     512
#define MAX_VALUE    128

struct tracefs_guard {
	char state_path[256];
	int pipe_fd; /* closed by our death, whatever kills us */
	pid_t helper;
	unsigned count;
};

extern char **environ;

int tracefs_read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;

	if (fd < 0)
		return -errno;
	while (used < size - 1) {
		ssize_t n = read(fd, text + used, size - 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	text[used] = 0;
	return (int)used;
}

int tracefs_read_line(const char *path, char *line, size_t size)
{
	int n = tracefs_read_file(path, line, size);

	if (n < 0)
		return n;
	line[strcspn(line, "\n")] = 0;
	return 0;
}

static int write_value(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
	ssize_t n;
	int err = 0;

	if (fd < 0)
		return -errno;
	n = write(fd, value, strlen(value));
	if (n < 0)
		err = -errno;
	close(fd);
	return err;
}

/* Run setprop or getprop; output, if wanted, is its first line. */
static int run_property_tool(char *const argv[], char *output, size_t size)
{
	posix_spawn_file_actions_t actions;
	int out[2], status, err;
	ssize_t n;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(out[1]);
	if (err) {
		close(out[0]);
		return -err;
	}
	if (output) {
		n = read(out[0], output, size - 1);
		output[n > 0 ? n : 0] = 0;
		output[strcspn(output, "\n")] = 0;
	}
	close(out[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0     ? 0
	       : WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT
								 : -EIO;
}

static int set_property(const char *name, const char *value)
{
	char *argv[] = {"setprop", (char *)name, (char *)value, NULL};

	return run_property_tool(argv, NULL, 0);
}

/* Put back one saved line: "kind TAB name TAB value". */
static void restore_line(char *line)
{
	char *kind = strsep(&line, "\t"), *name = strsep(&line, "\t"), *value = line;

	if (!name || !value)
		return;
	if (!strcmp(kind, "file"))
		write_value(name, value);
	else if (!strcmp(kind, "mode"))
		chmod(name, (mode_t)strtoul(value, NULL, 8));
	else if (!strcmp(kind, "property"))
		set_property(name, value);
}

/* Put back what the file says, the last change first, and remove it. */
static void restore_all(const char *state_path)
{
	char *lines[MAX_SETTINGS + 1], *text = malloc(MAX_SETTINGS * MAX_LINE), *rest, *line;
	unsigned count = 0;

	if (!text)
		return;
	if (tracefs_read_file(state_path, text, MAX_SETTINGS * MAX_LINE) > 0) {
		rest = text;
		strsep(&rest, "\n"); /* whose they are */
		while ((line = strsep(&rest, "\n")) && count <= MAX_SETTINGS) {
			if (rest) /* a line without its end was not applied yet */
				lines[count++] = line;
		}
		while (count)
			restore_line(lines[--count]);
		unlink(state_path);
	}
	free(text);
}

/* Start time of a process in clock ticks, which tells it from a later one of its pid; 0: gone. */
static unsigned long long start_time(int pid)
{
	char path[40], text[1024], *end;
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (tracefs_read_file(path, text, sizeof(text)) <= 0)
		return 0;
	end = strrchr(text, ')');
	/* field 22; the name is field 2 */
	if (!end || sscanf(end + 1,
			   " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			   "%*s %*s %llu",
			   &start) != 1)
		return 0;
	return start;
}

static bool owner_lives(const char *state_path)
{
	unsigned long long start;
	char line[80];
	int pid;

	if (tracefs_read_line(state_path, line, sizeof(line)) ||
	    sscanf(line, "jankscope %d %llu", &pid, &start) != 2)
		return false;
	return start && start_time(pid) == start;
}

static void __attribute__((noreturn)) run_helper(int pipe_fd, const char *state_path)
{
	char byte;
	sigset_t all;

	/* nothing that ends the parent may end the helper before its work */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	while (read(pipe_fd, &byte, 1) < 0 && errno == EINTR)
		;
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	restore_all(state_path);
	_exit(0);
}

static void close_all_but(int keep)
{
	long max = sysconf(_SC_OPEN_MAX);

	for (int fd = 0; fd < (max > 0 && max < 65536 ? max : 65536); fd++) {
		if (fd != keep)
			close(fd);
	}
}

int tracefs_guard_start(struct tracefs_guard **out, const char *state_path, char *reason,
			size_t size)
{
	struct tracefs_guard *guard;
	char head[80];
	int ends[2], fd, n;

	if (owner_lives(state_path)) {
		snprintf(reason, size, "another jankscope reads the trace buffer (%s)", state_path);
		return -EBUSY;
	}
	restore_all(state_path);
	fd = open(state_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		n = -errno;
		snprintf(reason, size, "%s: %s", state_path, strerror(-n));
		return n;
	}
	n = snprintf(head, sizeof(head), "jankscope %d %llu\n", (int)getpid(),
		     start_time(getpid()));
	n = write(fd, head, (size_t)n) == n && !fsync(fd) ? 0 : -EIO;
	close(fd);
	guard = n ? NULL : calloc(1, sizeof(*guard));
	if (!guard || pipe2(ends, O_CLOEXEC)) {
		free(guard);
		unlink(state_path);
		snprintf(reason, size, "cannot keep the settings of the trace buffer in %s",
			 state_path);
		return n ? n : -ENOMEM;
	}
	snprintf(guard->state_path, sizeof(guard->state_path), "%s", state_path);
	guard->helper = fork();
	if (guard->helper == 0) {
		close_all_but(ends[0]);
		run_helper(ends[0], guard->state_path);
	}
	close(ends[0]);
	guard->pipe_fd = ends[1];
	if (guard->helper < 0) {
		n = -errno;
		close(ends[1]);
		unlink(state_path);
		free(guard);
		snprintf(reason, size, "fork: %s", strerror(-n));
		return n;
	}
	*out = guard;
	return 0;
}

/* The old value reaches the disk before the new one reaches the kernel. */
static int save(struct tracefs_guard *guard, const char *kind, const char *name, const char *value)
{
	char line[MAX_LINE];
	int n, fd, err = 0;

	n = snprintf(line, sizeof(line), "%s\t%s\t%s\n", kind, name, value);
	if (n < 0 || (size_t)n >= sizeof(line) || guard->count == MAX_SETTINGS)
		return -E2BIG;
	fd = open(guard->state_path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	if (write(fd, line, (size_t)n) != n || fsync(fd))
		err = -EIO;
	close(fd);
	guard->count += !err;
	return err;
}

int tracefs_guard_write(struct tracefs_guard *guard, const char *path, const char *value)
{
	char old[MAX_VALUE * 2], *from = old, *chosen;
	int err = tracefs_read_line(path, old, sizeof(old));

	if (err)
		return err;
	/* "[local] global mono boot" */
	chosen = strchr(old, '[');
	if (chosen && strchr(chosen, ']')) {
		from = chosen + 1;
		from[strcspn(from, "]")] = 0;
	}
	from[strcspn(from, " ")] = 0;
	if (!strcmp(from, value))
		return 0;
	err = save(guard, "file", path, from);
	return err ? err : write_value(path, value);
}

int tracefs_guard_allow(struct tracefs_guard *guard, const char *path, unsigned mode)
{
	char old[16];
	struct stat st;
	int err;

	if (stat(path, &st))
		return -errno;
	if ((st.st_mode & mode) == mode)
		return 0;
	snprintf(old, sizeof(old), "%o", st.st_mode & 07777);
	err = save(guard, "mode", path, old);
	if (err)
		return err;
	return chmod(path, (st.st_mode & 07777) | mode) ? -errno : 0;
}

int tracefs_guard_property(struct tracefs_guard *guard, const char *name, const char *value)
{
	char *argv[] = {"getprop", (char *)name, NULL};
	char old[MAX_VALUE];
	int err = run_property_tool(argv, old, sizeof(old));

	if (err)
		return err;
	if (!strcmp(old, value))
		return 0;
	err = save(guard, "property", name, old);
	return err ? err : set_property(name, value);
}

void tracefs_guard_end(struct tracefs_guard *guard)
{
	if (!guard)
		return;
	close(guard->pipe_fd);
	while (waitpid(guard->helper, NULL, 0) < 0 && errno == EINTR)
		;
	free(guard);
}
