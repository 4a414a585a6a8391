/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/asker.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "prober/warden.h"
#include "util/channel.h"
#include "util/clock.h"

#define ANSWER_NS (10 * NSEC_PER_SEC)
#define REST      9 /* times what the dump took */

struct net_asker {
	struct warden *warden; /* NULL: the process is a child of this one */
	struct helper helper;  /* the warden's child; socket -1: there is none */
	pid_t pid;             /* a child of this process; 0: none */
	int socket;            /* of either; -1: none */
	bool due;
	uint64_t asked_ns, rest_until_ns;
	uint64_t replaced;
};

struct answer {
	int32_t err;
	uint32_t took_us; /* CPU time */
};

/* ---- the process that dumps ---- */
static int send_answer(int socket, struct answer answer, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {&answer, sizeof(answer)};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *cmsg;

	if (!answer.err) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	return sendmsg(socket, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Until the other end is gone. */
static void __attribute__((noreturn)) serve(int socket)
{
	static struct net_diag_request_wire request;
	int fds[CHANNEL_FDS];
	size_t count;
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	ssize_t got;

	for (;;) {
		uint64_t begin_ns, took_us;
		int fd = -1, err;

		got = channel_receive(socket, &request, sizeof(request), fds, &count);
		if (got == -EAGAIN) {
			poll(&wait, 1, -1);
			continue;
		}
		if (got == 0)
			_exit(0);
		/* What comes with a descriptor is no request for a dump. */
		if (got > 0 && count) {
			helper_fork_warden(fds[0]);
			while (count)
				close(fds[--count]);
			continue;
		}
		begin_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		err = got < 0 ? (int)got : net_diag_serve(&request, (size_t)got, &fd);
		took_us = (clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns) / NSEC_PER_USEC;
		if (send_answer(socket, (struct answer){err, (uint32_t)took_us}, fd))
			_exit(0);
		if (fd >= 0)
			close(fd);
	}
}

void asker_main(int socket)
{
	helper_begin(HELPER_ASKER, &socket);
	serve(socket);
}

static int spawn(struct net_asker *asker)
{
	pid_t parent = getpid();
	int ends[2], err;

	if (asker->warden) {
		err = warden_spawn(asker->warden, HELPER_ASKER, &asker->helper);
		asker->socket = asker->helper.socket;
		return err;
	}
	err = channel_pair(ends);
	if (err)
		return err;
	asker->pid = fork();
	if (asker->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		asker_main(ends[1]);
	}
	close(ends[1]);
	if (asker->pid < 0) {
		asker->pid = 0;
		close(ends[0]);
		return -errno;
	}
	asker->socket = ends[0];
	return 0;
}

static void end(struct net_asker *asker, bool hung)
{
	if (asker->warden && asker->helper.serial)
		warden_drop(asker->warden, &asker->helper, hung);
	else if (asker->socket >= 0)
		close(asker->socket);
	asker->socket = -1;
	if (!asker->pid)
		return;
	kill(asker->pid, SIGKILL);
	/* It may hang in the kernel: then it is not waited for, and goes when it can. */
	for (int i = 0; i < 20 && waitpid(asker->pid, NULL, WNOHANG) == 0; i++)
		usleep(500);
	asker->pid = 0;
}

/* ---- the recorder's side ---- */
static int make_warden(void *ctx, int socket)
{
	struct net_asker *asker = ctx;
	uint32_t word = 0;
	struct iovec part = {&word, sizeof(word)};

	return asker->socket < 0 ? -EPIPE : channel_send(asker->socket, &part, 1, &socket, 1);
}

struct net_asker *net_asker_new(struct warden *warden)
{
	struct net_asker *asker = calloc(1, sizeof(*asker));
	int err;

	if (!asker)
		return NULL;
	asker->warden = warden;
	asker->helper = (struct helper){.kind = HELPER_ASKER, .socket = -1, .pidfd = -1};
	asker->socket = -1;
	err = spawn(asker);
	if (err) {
		free(asker);
		errno = -err;
		return NULL;
	}
	/* A run can do without one more who can make a warden. */
	if (warden)
		warden_add_maker(warden, make_warden, asker);
	return asker;
}

void net_asker_free(struct net_asker *asker)
{
	if (!asker)
		return;
	if (asker->warden)
		warden_remove_maker(asker->warden, asker);
	/* A dump that is under way is of no use to anybody. */
	end(asker, asker->due);
	free(asker);
}

static int lose(struct net_asker *asker)
{
	end(asker, true);
	asker->due = false;
	asker->replaced++;
	return -EPIPE;
}

int net_asker_ask(struct net_asker *asker, const struct net_diag_request_wire *request)
{
	struct iovec part = {(void *)request, net_diag_request_bytes(request->namespace_count)};
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (asker->due || now_ns < asker->rest_until_ns)
		return -EBUSY;
	if (asker->socket < 0 && spawn(asker))
		return -EPIPE;
	if (channel_send(asker->socket, &part, 1, NULL, 0))
		return lose(asker);
	asker->due = true;
	asker->asked_ns = now_ns;
	return 0;
}

/* One message that is no hello. */
static ssize_t hear(struct net_asker *asker, void *message, size_t room, int *fds, size_t *count)
{
	ssize_t got;

	do
		got = channel_receive(asker->socket, message, room, fds, count);
	while (got == -EMSGSIZE ||
	       (got > 0 && helper_take_hello(&asker->helper, message, (size_t)got, fds, *count)));
	return got;
}

static int receive(struct net_asker *asker, struct answer *answer, int *fd)
{
	uint8_t message[sizeof(struct helper_hello)];
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t got = hear(asker, message, sizeof(message), fds, &count);

	*fd = -1;
	if (got == -EAGAIN)
		return -EAGAIN;
	if (got > 0 && count)
		*fd = fds[--count];
	while (got > 0 && count)
		close(fds[--count]);
	if (got == sizeof(*answer))
		memcpy(answer, message, sizeof(*answer));
	if (got == sizeof(*answer) && (answer->err < 0 || *fd >= 0))
		return 0;
	if (*fd >= 0)
		close(*fd);
	return -EPIPE;
}

/* Nothing is asked: the hello, or the end of a process that died. */
static void look_after(struct net_asker *asker)
{
	uint8_t message[sizeof(struct helper_hello)];
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t got;

	if (asker->socket < 0) {
		spawn(asker);
		return;
	}
	while ((got = hear(asker, message, sizeof(message), fds, &count)) > 0)
		while (count)
			close(fds[--count]);
	if (got == 0) {
		lose(asker);
		spawn(asker);
	}
}

int net_asker_take(struct net_asker *asker, uint64_t timeout_ns, struct net_diag *diag)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), until_ns = now_ns + timeout_ns;
	struct answer answer = {0};
	int fd, err;

	memset(diag, 0, sizeof(*diag));
	if (!asker->due) {
		look_after(asker);
		return -EAGAIN;
	}
	do {
		if (now_ns < until_ns)
			channel_wait(asker->socket, until_ns - now_ns);
		err = receive(asker, &answer, &fd);
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
	} while (err == -EAGAIN && now_ns < until_ns);
	if (err == -EAGAIN && now_ns - asker->asked_ns < ANSWER_NS)
		return -EAGAIN;
	if (err)
		return lose(asker);
	asker->due = false;
	/* It rests since the dump was made, however late the answer is heard. */
	asker->rest_until_ns =
		asker->asked_ns + (1 + REST) * NSEC_PER_USEC * (uint64_t)answer.took_us;
	if (answer.err) {
		if (fd >= 0)
			close(fd);
		/* -EAGAIN is kept for an answer that has not come yet. */
		return answer.err == -EAGAIN ? -EBUSY : answer.err;
	}
	return net_diag_map(diag, fd);
}

void net_asker_hurry(struct net_asker *asker)
{
	asker->rest_until_ns = 0;
}

uint64_t net_asker_replaced(const struct net_asker *asker)
{
	return asker->replaced;
}
