/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/folder_socket.h"
#include "control/control.h"
#include "control/request.h"
#include "core/loop.h"
#include "util/clock.h"

#define SOON_NS (5 * NSEC_PER_SEC)

static int say(void *ctx, const char *argument, char *reply, size_t room)
{
	snprintf(reply, room, "said %s", argument);
	return 0;
}

static int say_end(void *ctx, const char *argument, char *reply, size_t room)
{
	snprintf(reply, room, "ended %s", argument);
	return 0;
}

static int refuse(void *ctx, const char *argument, char *reply, size_t room)
{
	return -EBUSY;
}

static int fill(void *ctx, const char *argument, char *reply, size_t room)
{
	memset(reply, 'x', room - 1);
	return 0;
}

static int stop(void *ctx, const char *argument, char *reply, size_t room)
{
	loop_stop(ctx);
	return 0;
}

static const struct control_row rows[] = {
	{"mark --end", true, say_end}, {"mark", true, say},   {"refuse", false, refuse},
	{"fill", false, fill},         {"stop", false, stop},
};
#define ROWS (sizeof(rows) / sizeof(*rows))

/* A folder whose path is longer than sun_path. */
static int make_folder(char path[512])
{
	memset(path, 0, 512);
	strcpy(path, "/tmp/jankscope-control-XXXXXX");
	cr_assert_not_null(mkdtemp(path));
	for (int i = 0; i < 2; i++) {
		strcat(path, "/");
		memset(path + strlen(path), 'd', 100);
		cr_assert_eq(mkdir(path, 0755), 0);
	}
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void remove_folder(char path[512], int dir_fd)
{
	unlinkat(dir_fd, CONTROL_NAME, 0);
	close(dir_fd);
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(rmdir(path), 0, "%s: %s", path, strerror(errno));
		*strrchr(path, '/') = 0;
	}
}

/* A recorder that does nothing but answer. */
static pid_t serve(int dir_fd)
{
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct control *control = control_new(dir_fd);
		struct loop *loop = loop_new();
		int err = control_join_loop(control, loop, rows, ROWS, loop);

		if (err || write(ready[1], "", 1) != 1)
			_exit(2);
		err = loop_run(loop);
		/* the answer to "stop" is on its way already */
		control_free(control);
		loop_free(loop);
		_exit(err ? 1 : 0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static int ask(int dir_fd, const char *request, char *reply)
{
	return control_ask(dir_fd, request, reply, CONTROL_REPLY_BYTES, SOON_NS);
}

static char reply[CONTROL_REPLY_BYTES];

Test(control, answers_refuses_and_ends, .timeout = 30)
{
	char path[512], line[CONTROL_REQUEST_BYTES + 1];
	int folder = make_folder(path), status;
	struct stat st;
	pid_t pid;

	cr_expect_eq(ask(folder, "mark a", reply), -ENOENT);
	pid = serve(folder);
	cr_assert_eq(fstatat(folder, CONTROL_NAME, &st, AT_SYMLINK_NOFOLLOW), 0);
	cr_expect_eq(st.st_mode, S_IFSOCK | 0600, "%o", st.st_mode);
	cr_expect_eq(ask(folder, "mark  a b", reply), 0);
	cr_expect_str_eq(reply, "said a b");
	cr_expect_eq(ask(folder, "mark --end ä", reply), 0);
	cr_expect_str_eq(reply, "ended ä");
	cr_expect_eq(ask(folder, "refuse", reply), -EBUSY);
	cr_expect_str_eq(reply, strerror(EBUSY));
	cr_expect_eq(ask(folder, "refuse it", reply), -ENOSYS);
	cr_expect_eq(ask(folder, "mark", reply), -ENOSYS);
	cr_expect_eq(ask(folder, "marks a", reply), -ENOSYS);
	cr_expect_eq(ask(folder, "", reply), -EINVAL);
	cr_expect_eq(ask(folder, "mark a\nstop", reply), -EINVAL);
	cr_expect_eq(ask(folder, "mark \x1b[2J", reply), -EINVAL);
	cr_expect_eq(ask(folder, "mark \xc2\x9b", reply), -EINVAL);
	cr_expect_eq(ask(folder, "mark \xff", reply), -EINVAL);
	cr_expect_eq(ask(folder, "mark \xe2\x82", reply), -EINVAL);
	cr_expect_eq(ask(folder, "fill", reply), 0);
	cr_expect_eq(strlen(reply), CONTROL_REPLY_BYTES - 1);
	cr_expect_eq(control_ask(folder, "fill", reply, 16, SOON_NS), -EMSGSIZE);
	memset(line, 'a', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	cr_expect_eq(ask(folder, line, reply), -EINVAL, "longer than a request");
	memcpy(line, "mark ", 5);
	line[CONTROL_REQUEST_BYTES - 1] = 0;
	cr_expect_eq(ask(folder, line, reply), 0, "as long as a request");
	cr_expect_eq(ask(folder, "stop", reply), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
	cr_expect_eq(ask(folder, "mark a", reply), -ENOENT, "the name goes with the recorder");
	remove_folder(path, folder);
}

Test(control, one_recorder_a_folder, .timeout = 30)
{
	char path[512];
	int folder = make_folder(path), file;
	pid_t pid = serve(folder);

	cr_expect_null(control_new(folder));
	cr_expect_eq(errno, EADDRINUSE);
	cr_expect_eq(ask(folder, "mark a", reply), 0, "the other one still listens");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_expect_eq(ask(folder, "mark a", reply), -ECONNREFUSED);
	pid = serve(folder);
	cr_expect_eq(ask(folder, "mark a", reply), 0, "in the place of the dead one's socket");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlinkat(folder, CONTROL_NAME, 0);
	file = openat(folder, CONTROL_NAME, O_CREAT | O_WRONLY, 0600);
	close(file);
	cr_expect_null(control_new(folder));
	cr_expect_eq(errno, EEXIST);
	cr_expect_eq(ask(folder, "mark a", reply), -EPERM, "a file is no recorder");
	cr_expect_eq(faccessat(folder, CONTROL_NAME, F_OK, 0), 0, "it is not removed");
	unlinkat(folder, CONTROL_NAME, 0);
	cr_assert_eq(symlinkat("/tmp/elsewhere", folder, CONTROL_NAME), 0);
	cr_expect_eq(ask(folder, "mark a", reply), -EPERM, "nor is a link");
	remove_folder(path, folder);
}

static int raw(int folder)
{
	struct sockaddr_un address;
	socklen_t length = folder_socket_address(&address, folder, CONTROL_NAME);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&address, length), 0, "%s", strerror(errno));
	return fd;
}

/* What comes back for these bytes. */
static const char *send_raw(int folder, const char *bytes, size_t length)
{
	static char answer[256];
	struct pollfd pollfd = {.fd = raw(folder), .events = POLLIN};
	size_t used = 0;
	ssize_t n;

	send(pollfd.fd, bytes, length, MSG_NOSIGNAL);
	while (poll(&pollfd, 1, 5000) > 0 &&
	       (n = read(pollfd.fd, answer + used, sizeof(answer) - 1 - used)) > 0)
		used += (size_t)n;
	answer[used] = 0;
	close(pollfd.fd);
	return answer;
}

Test(control, hostile_clients, .timeout = 60)
{
	char path[512], many[2 * CONTROL_REQUEST_BYTES];
	int folder = make_folder(path), held[2 * CONTROL_CONNECTIONS];
	pid_t pid = serve(folder);
	uint64_t begin_ns;

	cr_expect_eq(strncmp(send_raw(folder, "mark a\0b\n", 9), "error 22\n", 9), 0);
	cr_expect_eq(strncmp(send_raw(folder, "mark a\nmark b\n", 14), "error 22\n", 9), 0);
	cr_expect_eq(strncmp(send_raw(folder, "\n", 1), "error 38\n", 9), 0);
	memset(many, 'a', sizeof(many));
	cr_expect_eq(strncmp(send_raw(folder, many, sizeof(many)), "error 90\n", 9), 0);
	/* Those that say nothing, and those that do not read: two seconds, then others have their
	 * turn. */
	for (int i = 0; i < 2 * CONTROL_CONNECTIONS; i++) {
		held[i] = raw(folder);
		if (i % 2)
			cr_expect_eq(send(held[i], "mark", 4, MSG_NOSIGNAL), 4);
	}
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	cr_expect_eq(control_ask(folder, "mark a", reply, sizeof(reply), 10 * NSEC_PER_SEC), 0);
	cr_expect_geq(clock_now_ns(CLOCK_MONOTONIC) - begin_ns, NSEC_PER_SEC);
	for (int i = 0; i < 2 * CONTROL_CONNECTIONS; i++)
		close(held[i]);
	/* A client that leaves in the middle. */
	for (int i = 0; i < 200; i++) {
		int fd = raw(folder);

		send(fd, "fill\n", i % 6, MSG_NOSIGNAL);
		close(fd);
	}
	cr_expect_eq(ask(folder, "mark a", reply), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_folder(path, folder);
}

Test(control, another_user_is_refused, .timeout = 30)
{
	char path[512];
	int folder = make_folder(path), status;
	pid_t pid = serve(folder), child;

	if (geteuid())
		cr_skip("needs root");
	cr_assert_eq(fchmodat(folder, CONTROL_NAME, 0666, 0), 0);
	child = fork();
	if (!child) {
		int err;

		if (setgid(65534) || setuid(65534))
			_exit(3);
		/* or its own /proc/self/fd is closed to it, and the folder with that */
		prctl(PR_SET_DUMPABLE, 1);
		err = ask(folder, "mark a", reply);
		/* EPERM of the folder itself would come without a text */
		_exit(err == -EPERM && strstr(reply, "another user") ? 0 : 1);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0, "%d", status);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	remove_folder(path, folder);
}

/* What listens is no recorder. */
Test(control, hostile_recorders, .timeout = 30)
{
	static const struct {
		const char *says;
		int err;
	} cases[] = {
		{"", -ECONNRESET},        {"hello", -EPROTO},        {"error 0\n", -EPROTO},
		{"error x\n", -EPROTO},   {"error 5000\n", -EPROTO}, {"error 16", -EPROTO},
		{"error 16\nno", -EBUSY}, {"ok", -EPROTO},           {"ok\n", 0},
	};
	char path[512];
	int folder = make_folder(path), listener, fd;
	struct sockaddr_un address;
	socklen_t length = folder_socket_address(&address, folder, CONTROL_NAME);
	static char flood[2 * CONTROL_REPLY_BYTES];
	uint64_t begin_ns;

	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, length), 0);
	cr_assert_eq(listen(listener, 4), 0);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	cr_expect_eq(control_ask(folder, "mark a", reply, sizeof(reply), 300 * NSEC_PER_MSEC),
		     -ETIMEDOUT);
	cr_expect_lt(clock_now_ns(CLOCK_MONOTONIC) - begin_ns, 5 * NSEC_PER_SEC);
	close(accept(listener, NULL, NULL));
	memset(flood, 'x', sizeof(flood));
	for (size_t i = 0; i <= sizeof(cases) / sizeof(*cases); i++) {
		bool last = i == sizeof(cases) / sizeof(*cases);
		const char *says = last ? flood : cases[i].says;
		size_t bytes = last ? sizeof(flood) : strlen(says);
		pid_t child = fork();

		if (!child) {
			char line[CONTROL_REQUEST_BYTES];

			fd = accept(listener, NULL, NULL);
			_exit(read(fd, line, sizeof(line)) > 0 && write(fd, says, bytes) < -1);
		}
		cr_expect_eq(ask(folder, "mark a", reply), last ? -EPROTO : cases[i].err, "%s",
			     last ? "a flood" : says);
		waitpid(child, NULL, 0);
	}
	close(listener);
	remove_folder(path, folder);
}
