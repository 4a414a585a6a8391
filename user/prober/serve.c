/* SPDX-License-Identifier: BSD-2-Clause */
/* A prober process: the first thread only watches the socket and ends the process when the recorder
 * is gone, whatever the second one hangs in; that one takes a request at a time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "prober/warden.h"
#include "util/channel.h"

#ifdef __SANITIZE_ADDRESS__
#define WORKER_STACK_BYTES (1u << 20)
#else
#define WORKER_STACK_BYTES (256u << 10)
#endif

#define REAP_POLL_MS 100

struct worker {
	int socket;
	struct {
		struct probe_call_header header;
		uint8_t payload[PROBE_PAYLOAD_BYTES];
	} call;
	uint8_t data[PROBE_BYTES];
};

/* Reap processes that set probes. True: there are more of them. */
static bool reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		;
	return pid == 0;
}

static int serve(struct worker *worker, int *fds, size_t fd_count, struct reply *reply)
{
	const struct probe_request *request = &worker->call.header.request;
	struct probe_places places;

	switch (request->operation) {
	case PROBE_READ:
		return probe_read_file(request, reply);
	case PROBE_READ_LINK:
		return probe_read_link(request, reply);
	case PROBE_MAPS:
		return probe_read_maps(request, reply);
	case PROBE_MEMORY:
		return probe_read_memory(request, reply);
	case PROBE_OPEN:
		return probe_open_mapping(request, reply);
	case PROBE_OPEN_AT:
		return probe_open_at(request, reply);
	case PROBE_OPEN_EXE:
		return probe_open_exe(request, reply);
	case PROBE_OPEN_JIT_NAMES:
		return probe_open_jit_names(request, reply);
	case PROBE_JIT_LIST:
		return probe_read_jit_list(request, reply);
	case PROBE_STANDING:
		return probe_read_standing(request, reply);
	case PROBE_COUNT_WAITERS:
		return probe_count_waiters(request, reply);
	case PROBE_LOCK_OWNER:
		return probe_read_lock_owner(request, reply);
	case PROBE_ATTACH:
		if (worker->call.header.payload_length != sizeof(places))
			return -EINVAL;
		memcpy(&places, worker->call.payload, sizeof(places));
		return probe_attach(request, &places, fds, fd_count, reply);
	case PROBE_NAMES:
		if (worker->call.header.payload_length % sizeof(struct probe_named))
			return -EINVAL;
		return probe_read_names(
			(const struct probe_named *)worker->call.payload,
			worker->call.header.payload_length / sizeof(struct probe_named), reply);
	case PROBE_MEMORY_USE:
		return probe_read_memory_use(request, reply);
	case PROBE_WARDEN:
		return fd_count == 1 ? helper_fork_warden(fds[0]) : -EINVAL;
	}
	return -ENOSYS;
}

static void answer(struct worker *worker, int *fds, size_t fd_count)
{
	int reply_fds[CHANNEL_FDS];
	struct reply reply = {.data = worker->data, .fds = reply_fds, .attacher = -1};
	struct probe_answer_header header = {.id = worker->call.header.id};
	struct iovec parts[] = {{&header, sizeof(header)}, {worker->data, 0}};
	struct probe_request *request = &worker->call.header.request;
	bool sent;

	request->name[sizeof(request->name) - 1] = 0;
	header.err = serve(worker, fds, fd_count, &reply);
	if (header.err) {
		reply.length = 0;
		reply.fd_count = 0;
	}
	header.value = reply.value;
	header.length = reply.length;
	header.fd_count = (uint32_t)reply.fd_count;
	parts[1].iov_len = reply.length;
	sent = !channel_send(worker->socket, parts, 2, reply_fds, reply.fd_count);
	/* Of a probe this is not the last close, even if nobody takes what was sent: the process
	 * that set it has copies until it hears of this, and this process may be killed at any
	 * time. */
	while (reply.fd_count)
		close(reply_fds[--reply.fd_count]);
	probe_attach_handed_on(&reply, sent);
	while (fd_count)
		close(fds[--fd_count]);
}

static void *work(void *ctx)
{
	struct worker *worker = ctx;
	struct pollfd wait = {.fd = worker->socket, .events = POLLIN};
	int fds[CHANNEL_FDS];
	size_t fd_count;
	ssize_t n;

	for (;;) {
		bool more = reap();

		n = channel_receive(worker->socket, &worker->call, sizeof(worker->call), fds,
				    &fd_count);
		if (n == -EAGAIN) {
			poll(&wait, 1, more ? REAP_POLL_MS : -1);
			continue;
		}
		if (n == 0)
			_exit(0);
		if (n >= (ssize_t)sizeof(worker->call.header) &&
		    (size_t)n == sizeof(worker->call.header) + worker->call.header.payload_length)
			answer(worker, fds, fd_count);
		else
			while (n > 0 && fd_count)
				close(fds[--fd_count]);
	}
	return NULL;
}

void prober_main(int socket)
{
	struct worker *worker;
	struct pollfd wait = {.events = 0};
	pthread_attr_t attributes;
	pthread_t thread;

	helper_begin(HELPER_PROBER, &socket);
	worker = calloc(1, sizeof(*worker));
	if (!worker)
		_exit(1);
	worker->socket = wait.fd = socket;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
	if (pthread_create(&thread, &attributes, work, worker))
		_exit(1);
	/* Only the end wakes this thread. */
	for (;;)
		if (poll(&wait, 1, -1) > 0 && wait.revents)
			_exit(0);
}
