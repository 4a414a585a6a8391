/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/tracefs_guard.h"
#include "source/frames/child.h"
#include "source/frames/trace_state.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MS 500

struct tracefs_guard {
	struct trace_state *state;
	int root;
	int pipe_fd; /* closed by our death, whatever kills us */
	pid_t helper;
};

struct restore {
	int root;
};

static void restore_one(void *ctx, uint32_t setting, const char *value)
{
	const struct restore *restore = ctx;

	trace_setting_set(restore->root, setting, value);
}

static void restore_all(struct trace_state *state, int root)
{
	struct restore restore = {root};

	trace_state_each(state, restore_one, &restore);
	trace_state_clear(state);
}

static void __attribute__((noreturn)) run_helper(int pipe_fd, struct trace_state *state, int root)
{
	const int keep[] = {pipe_fd, trace_state_fd(state), root};
	sigset_t all;
	char byte;
	int null;

	child_begin(keep, 3);
	/* nothing that ends the parent may end the helper before its work, and nobody who reads
	 * our output may wait for it */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fd != pipe_fd && fd != keep[1] && fd != root)
			dup2(null, fd);
	}
	while (read(pipe_fd, &byte, 1) < 0 && errno == EINTR)
		;
	restore_all(state, root);
	trace_state_unlock(state);
	_exit(0);
}

int tracefs_guard_start(struct tracefs_guard **out, int root, char *reason, size_t size)
{
	struct tracefs_guard *guard = calloc(1, sizeof(*guard));
	int ends[2], err;

	if (!guard)
		return -ENOMEM;
	guard->root = root;
	err = trace_state_open(&guard->state, NULL, reason, size);
	if (err) {
		free(guard);
		return err;
	}
	restore_all(guard->state, root);
	if (pipe2(ends, O_CLOEXEC)) {
		err = -errno;
		goto fail;
	}
	guard->pipe_fd = ends[1];
	guard->helper = fork();
	if (guard->helper == 0) {
		close(ends[1]);
		run_helper(ends[0], guard->state, root);
	}
	err = -errno;
	close(ends[0]);
	if (guard->helper > 0) {
		*out = guard;
		return 0;
	}
	close(ends[1]);
fail:
	snprintf(reason, size, "cannot keep the settings of the trace buffer: %s", strerror(-err));
	trace_state_free(guard->state);
	free(guard);
	return err;
}

int tracefs_guard_set(struct tracefs_guard *guard, uint32_t setting, const char *value)
{
	char old[TRACE_VALUE_BYTES];
	int err = trace_setting_get(guard->root, setting, old, sizeof(old));

	if (err)
		return err;
	if (!strcmp(old, value))
		return 0;
	/* the old value is in the file before the new one reaches the kernel */
	err = trace_state_add(guard->state, setting, old);
	return err ? err : trace_setting_set(guard->root, setting, value);
}

void tracefs_guard_end(struct tracefs_guard *guard)
{
	int waited_ms = 0;

	if (!guard)
		return;
	close(guard->pipe_fd);
	while (waitpid(guard->helper, NULL, WNOHANG) == 0 && waited_ms++ < END_MS)
		poll(NULL, 0, 1);
	trace_state_free(guard->state);
	free(guard);
}
