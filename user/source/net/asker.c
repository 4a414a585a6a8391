/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/asker.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "util/clock.h"

#define ANSWER_NS (10 * NSEC_PER_SEC)
#define REST      9 /* times what the dump took */

struct net_asker {
	pid_t pid; /* 0: none */
	int socket;
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

static void serve(int socket, pid_t parent)
{
	static struct net_diag_request_wire request;
	sigset_t none;
	ssize_t got;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "jankscope-diag");
	signal(SIGINT, SIG_IGN); /* it ends with the recorder, after its last answer */
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getppid() != parent || dup2(socket, 3) != 3)
		_exit(1);
	/* No map and no link of the recorder's is kept alive by this process. */
	if (syscall(SYS_close_range, 4, ~0u, 0))
		for (int fd = 4; fd < 1024; fd++)
			close(fd);
	while ((got = recv(3, &request, sizeof(request), 0)) > 0) {
		uint64_t begin_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		int fd = -1, err = net_diag_serve(&request, (size_t)got, &fd);
		uint64_t took_us =
			(clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns) / NSEC_PER_USEC;

		if (send_answer(3, (struct answer){err, (uint32_t)took_us}, fd))
			break;
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

static int spawn(struct net_asker *asker)
{
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	asker->pid = fork();
	if (asker->pid == 0)
		serve(ends[1], parent);
	close(ends[1]);
	if (asker->pid < 0) {
		asker->pid = 0;
		close(ends[0]);
		return -errno;
	}
	asker->socket = ends[0];
	return 0;
}

static void end(struct net_asker *asker)
{
	if (!asker->pid)
		return;
	close(asker->socket);
	kill(asker->pid, SIGKILL);
	/* It may hang in the kernel: then it is not waited for, and goes when it can. */
	for (int i = 0; i < 20 && waitpid(asker->pid, NULL, WNOHANG) == 0; i++)
		usleep(500);
	asker->pid = 0;
	asker->socket = -1;
}

/* ---- the recorder's side ---- */
struct net_asker *net_asker_new(void)
{
	struct net_asker *asker = calloc(1, sizeof(*asker));
	int err;

	if (!asker)
		return NULL;
	asker->socket = -1;
	err = spawn(asker);
	if (err) {
		free(asker);
		errno = -err;
		return NULL;
	}
	return asker;
}

void net_asker_free(struct net_asker *asker)
{
	if (!asker)
		return;
	end(asker);
	free(asker);
}

static int lose(struct net_asker *asker)
{
	end(asker);
	asker->due = false;
	asker->replaced++;
	return -EPIPE;
}

int net_asker_ask(struct net_asker *asker, const struct net_diag_request_wire *request)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (asker->due || now_ns < asker->rest_until_ns)
		return -EBUSY;
	if (!asker->pid && spawn(asker))
		return -EPIPE;
	if (send(asker->socket, request, net_diag_request_bytes(request->namespace_count),
		 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return lose(asker);
	asker->due = true;
	asker->asked_ns = now_ns;
	return 0;
}

static int receive(struct net_asker *asker, struct answer *answer, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {answer, sizeof(*answer)};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(asker->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg;

	*fd = -1;
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
	    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(cmsg), sizeof(int));
	if (got == sizeof(*answer) && (answer->err < 0 || *fd >= 0))
		return 0;
	if (*fd >= 0)
		close(*fd);
	return -EPIPE;
}

int net_asker_take(struct net_asker *asker, uint64_t timeout_ns, struct net_diag *diag)
{
	struct pollfd poll_fd = {.fd = asker->socket, .events = POLLIN};
	uint64_t now_ns;
	struct answer answer = {0};
	int fd, err;

	memset(diag, 0, sizeof(*diag));
	if (!asker->due)
		return -EAGAIN;
	if (timeout_ns)
		poll(&poll_fd, 1, (int)(timeout_ns / NSEC_PER_MSEC));
	err = receive(asker, &answer, &fd);
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (err == -EAGAIN && now_ns - asker->asked_ns < ANSWER_NS)
		return -EAGAIN;
	if (err)
		return lose(asker);
	asker->due = false;
	asker->rest_until_ns = now_ns + REST * NSEC_PER_USEC * (uint64_t)answer.took_us;
	if (answer.err) {
		if (fd >= 0)
			close(fd);
		return answer.err;
	}
	return net_diag_map(diag, fd);
}

uint64_t net_asker_replaced(const struct net_asker *asker)
{
	return asker->replaced;
}
