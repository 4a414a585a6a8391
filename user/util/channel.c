/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

/* The kernel counts its own headers and pages that are not full. */
#define SOCKET_BYTES (2 * CHANNEL_BYTES)

int channel_pair(int ends[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -errno;
	channel_widen(ends[0]);
	channel_widen(ends[1]);
	return 0;
}

void channel_widen(int socket)
{
	int bytes = SOCKET_BYTES;

	/* SO_SNDBUFFORCE (CAP_NET_ADMIN) passes the limit of net.core.wmem_max; without the right
	 * the limit holds, and long messages fail with EMSGSIZE. */
	if (setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int channel_send(int socket, const struct iovec *parts, size_t part_count, const int *fds,
		 size_t fd_count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(CHANNEL_FDS * sizeof(int))];
	} control;
	struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count};

	if (fd_count > CHANNEL_FDS)
		return -EINVAL;
	if (fd_count) {
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
	}
	while (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		if (errno == EINTR)
			continue;
		return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
	}
	return 0;
}

/* The descriptors of a message; those beyond room for them are closed. */
static size_t take_fds(struct msghdr *message, int *fds)
{
	size_t count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
	     header = CMSG_NXTHDR(message, header)) {
		size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (fds && count < CHANNEL_FDS)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

ssize_t channel_receive(int socket, void *to, size_t room, int *fds, size_t *fd_count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(CHANNEL_FDS * sizeof(int))];
	} control;
	struct iovec part = {to, room};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	size_t count;
	ssize_t n;

	if (fd_count)
		*fd_count = 0;
	do
		n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? 0 : -errno;
	count = take_fds(&message, fds);
	if (fd_count)
		*fd_count = count;
	if (!(message.msg_flags & MSG_TRUNC))
		return n;
	while (count)
		close(fds[--count]);
	if (fd_count)
		*fd_count = 0;
	return -EMSGSIZE;
}

bool channel_wait(int socket, uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + timeout_ns, now_ns;
	struct pollfd pollfd = {.fd = socket, .events = POLLIN};

	while ((now_ns = clock_now_ns(CLOCK_MONOTONIC)) < until_ns) {
		struct timespec left = {(time_t)((until_ns - now_ns) / NSEC_PER_SEC),
					(long)((until_ns - now_ns) % NSEC_PER_SEC)};
		int n = ppoll(&pollfd, 1, &left, NULL);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
	return ppoll(&pollfd, 1, &(struct timespec){0}, NULL) > 0;
}
