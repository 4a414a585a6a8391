/* SPDX-License-Identifier: BSD-2-Clause */
/* How a producer of Perfetto's tracing service speaks with it. Frames on the socket are a size and
 * an IPCFrame: protos/perfetto/ipc/wire_protocol.proto, producer_port.proto of google/perfetto. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "trace/wire.h"

#define IPC_BYTES     (128 * 1024) /* the service takes no longer frame */
#define MAX_SESSIONS  32
#define MAX_CHUNKS    4096 /* that are handed over at once */
#define MAX_COMMITS   4096 /* that the service did not answer yet */
#define CHUNK_PACKETS 1023
#define PAGE_HEADER   8
#define CHUNK_HEADER  8
#define PACKET_HEADER 4

/* The page's first word: its layout, and two bits of state for each chunk. */
#define LAYOUT_ONE_CHUNK (1U << 28)
#define STATE_WRITING    1U
#define STATE_COMPLETE   3U
#define STATES           0x0fffffffU

enum method { INITIALIZE, REGISTER, COMMIT, COMMANDS, STARTED, STOPPED, METHODS };

static const char *const method_names[METHODS] = {
	"InitializeConnection", "RegisterDataSource",      "CommitData",
	"GetAsyncCommand",      "NotifyDataSourceStarted", "NotifyDataSourceStopped"};

struct message {
	uint8_t *bytes;
	size_t size, room;
};

/* One tracing session that wants our data source. */
struct session {
	uint64_t instance;
	uint64_t written, complete, committed, accepted, dropped; /* packets */
	uint32_t buffer, chunk, page;
	size_t used; /* bytes of the page, 0: none is open */
	unsigned connection, packets;
	uint16_t writer;
	bool running, first, dropping;
	int64_t from_ns, until_ns;
	const char *ended;
};

struct producer {
	const char *path, *data_source;
	bool hold; /* nothing is handed over until producer_release */
	uint32_t page_bytes, shm_bytes, service, methods[METHODS];
	int fd, shm_fd;
	uint8_t *shm;
	size_t shm_size, page_count, page_cursor;
	uint64_t request, commands_request;
	unsigned connection, refused;
	uint16_t writer;
	struct session sessions[MAX_SESSIONS];
	unsigned session_count;
	struct {
		uint32_t page;
		unsigned session;
	} chunks[MAX_CHUNKS];
	size_t chunk_count;
	struct {
		uint64_t request, upto;
		unsigned session;
	} commits[MAX_COMMITS];
	uint64_t commit_count;
	uint8_t in[4 + IPC_BYTES];
	size_t in_size;
};

static inline int64_t boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- protobuf */
static inline void put_byte(struct message *m, uint8_t byte)
{
	if (m->size == m->room)
		abort(); /* the room was chosen too small */
	m->bytes[m->size++] = byte;
}

static inline void put_varint(struct message *m, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(m, (uint8_t)(value | 0x80));
	put_byte(m, (uint8_t)value);
}

static inline void put_number(struct message *m, unsigned field, uint64_t value)
{
	put_varint(m, field << 3 | WIRE_VARINT);
	put_varint(m, value);
}

static inline void put_bytes(struct message *m, unsigned field, const void *bytes, size_t size)
{
	put_varint(m, field << 3 | WIRE_BYTES);
	put_varint(m, size);
	if (size > m->room - m->size)
		abort();
	memcpy(m->bytes + m->size, bytes, size);
	m->size += size;
}

static inline void put_message(struct message *m, unsigned field, const struct message *inner)
{
	put_bytes(m, field, inner->bytes, inner->size);
}

/* ---- the socket */
static inline void producer_disconnect(struct producer *p)
{
	for (unsigned i = 0; i < p->session_count; i++) {
		struct session *session = &p->sessions[i];

		if (!session->running)
			continue;
		session->running = false;
		session->used = 0;
		session->until_ns = boot_ns();
		session->ended = "disconnected";
	}
	if (p->shm)
		munmap(p->shm, p->shm_size);
	if (p->shm_fd >= 0)
		close(p->shm_fd);
	if (p->fd >= 0)
		close(p->fd);
	p->shm = NULL;
	p->fd = p->shm_fd = -1;
	p->in_size = p->chunk_count = p->page_count = 0;
}

static inline void send_frame(struct producer *p, const struct message *payload)
{
	uint32_t size = (uint32_t)payload->size;
	struct iovec parts[2] = {{&size, sizeof(size)}, {payload->bytes, payload->size}};
	struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};

	/* a service that takes nothing for seconds is as good as gone (SO_SNDTIMEO) */
	if (p->fd >= 0 &&
	    sendmsg(p->fd, &head, MSG_NOSIGNAL) != (ssize_t)(sizeof(size) + payload->size))
		producer_disconnect(p);
}

/* IPCFrame: request_id 2, msg_bind_service 3, msg_invoke_method 5. */
static inline uint64_t invoke(struct producer *p, enum method method, const struct message *args)
{
	static uint8_t room[2][IPC_BYTES];
	struct message call = {room[0], 0, IPC_BYTES}, frame = {room[1], 0, IPC_BYTES};

	put_number(&call, 1, p->service);
	put_number(&call, 2, p->methods[method]);
	put_message(&call, 3, args);
	put_number(&frame, 2, ++p->request);
	put_message(&frame, 5, &call);
	send_frame(p, &frame);
	return p->request;
}

static inline bool producer_connect(struct producer *p)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = 3};
	uint8_t rooms[2][64];
	struct message bind_service = {rooms[0], 0, 64}, frame = {rooms[1], 0, 64};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", p->path);
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&address, sizeof(address))) {
		p->refused++;
		producer_disconnect(p);
		return false;
	}
	setsockopt(p->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	p->connection++;
	p->writer = 0;
	p->service = 0;
	p->commands_request = 0;
	put_bytes(&bind_service, 1, "ProducerPort", 12);
	put_number(&frame, 2, ++p->request);
	put_message(&frame, 3, &bind_service);
	send_frame(p, &frame);
	return p->fd >= 0;
}
