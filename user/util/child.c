/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/child.h"
#include "util/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FD     65536
#define EXEC_ERROR 127

static void close_span(unsigned from, unsigned to)
{
	if (from > to)
		return;
#ifdef SYS_close_range
	if (!syscall(SYS_close_range, from, to, 0))
		return;
#endif
	/* before Linux 5.9 */
	for (unsigned fd = from; fd <= to && fd < MAX_FD; fd++)
		close((int)fd);
}

void child_keep_only(const int *keep, size_t count)
{
	unsigned from = STDERR_FILENO + 1;

	for (;;) {
		unsigned next = ~0u;

		for (size_t i = 0; i < count; i++) {
			if (keep[i] >= (int)from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		}
		close_span(from, next == ~0u ? next : next - 1);
		if (next == ~0u)
			return;
		from = next + 1;
	}
}

void child_begin(const int *keep, size_t count)
{
	sigset_t none;

	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) < 0 && !errno)
		setpriority(PRIO_PROCESS, 0, 0);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	child_keep_only(keep, count);
}

static void __attribute__((noreturn)) run_tool(char *const argv[], int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0)
		_exit(EXEC_ERROR);
	child_begin(NULL, 0);
	execvp(argv[0], argv);
	_exit(EXEC_ERROR);
}

/* Read to the end of the tool's output; false: it was not there by then. */
static bool read_output(int fd, char *output, size_t size, uint64_t until_ns)
{
	char rest[256] = "";
	size_t used = 0;

	for (;;) {
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		bool room = output && used + 1 < size;
		ssize_t n;

		if (now_ns >= until_ns)
			return false;
		if (poll(&ready, 1, (int)((until_ns - now_ns) / 1000000 + 1)) <= 0)
			continue;
		n = read(fd, room ? output + used : rest, room ? size - 1 - used : sizeof(rest));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += room ? (size_t)n : 0;
	}
	if (output) {
		output[used] = 0;
		output[strcspn(output, "\n")] = 0;
	}
	return true;
}

int child_run(char *const argv[], char *output, size_t size, uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + timeout_ns;
	bool ended;
	int out[2], status, err;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0)
		run_tool(argv, out[1]);
	err = -errno;
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return err;
	}
	ended = read_output(out[0], output, size, until_ns);
	close(out[0]);
	/* the end of its output is the end of the program, but for one that closed its stdout */
	while (ended && waitpid(pid, &status, WNOHANG) == 0) {
		poll(NULL, 0, 1);
		ended = clock_now_ns(CLOCK_MONOTONIC) < until_ns;
	}
	if (!ended) {
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		return -ETIMEDOUT;
	}
	if (!WIFEXITED(status))
		return -EIO;
	return WEXITSTATUS(status) == 0 ? 0 : WEXITSTATUS(status) == EXEC_ERROR ? -ENOENT : -EIO;
}
