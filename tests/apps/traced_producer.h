/* SPDX-License-Identifier: BSD-2-Clause */
/* A producer of Perfetto's tracing service, as small as a test needs it: its pages of the shared
 * memory and what the service asks of it. The facts are those of google/perfetto:
 *   include/perfetto/ext/tracing/core/shared_memory_abi.h   pages, chunks, packets
 *   protos/perfetto/common/commit_data_request.proto        which chunks the service is to take
 *   protos/perfetto/ipc/producer_port.proto                 its commands
 *   src/tracing/core/tracing_service_impl.cc                who makes the memory
 * Each page is one chunk. A chunk is handed over when it is full, when the service asks for it
 * (Flush), and when a session ends. Packets are not cut. */
#pragma once
#include "traced_socket.h"
#include <sys/stat.h>

static inline uint32_t *page_word(const struct producer *p, uint32_t page)
{
	return (uint32_t *)(void *)(p->shm + (size_t)page * p->page_bytes);
}

/* Hand over what is complete, and is not held. flush: the request that this answers, 0: none. */
static inline void producer_commit(struct producer *p, uint64_t flush)
{
	static uint8_t room[IPC_BYTES / 2];
	struct message args = {room, 0, sizeof(room)};
	uint8_t chunk_room[64];
	uint64_t request;

	if (p->fd < 0 || (!p->chunk_count && !flush))
		return;
	for (size_t i = 0; i < p->chunk_count && !p->hold; i++) {
		struct session *session = &p->sessions[p->chunks[i].session];
		struct message chunk = {chunk_room, 0, sizeof(chunk_room)};

		put_number(&chunk, 1, p->chunks[i].page);
		put_number(&chunk, 2, 0);
		put_number(&chunk, 3, session->buffer);
		put_message(&args, 1, &chunk);
		session->committed = session->complete;
	}
	if (!p->hold)
		p->chunk_count = 0;
	if (flush)
		put_number(&args, 3, flush);
	request = p->request + 1;
	for (unsigned i = 0; i < p->session_count; i++) {
		struct session *session = &p->sessions[i];

		if (!session->running || session->committed == session->accepted)
			continue;
		p->commits[p->commit_count % MAX_COMMITS].request = request;
		p->commits[p->commit_count % MAX_COMMITS].session = i;
		p->commits[p->commit_count % MAX_COMMITS].upto = session->committed;
		p->commit_count++;
	}
	invoke(p, COMMIT, &args);
}

static inline void end_chunk(struct producer *p, struct session *session)
{
	if (!session->used)
		return;
	session->used = 0;
	session->complete = session->written;
	__atomic_store_n(page_word(p, session->page), LAYOUT_ONE_CHUNK | STATE_COMPLETE,
			 __ATOMIC_RELEASE);
	if (p->chunk_count == MAX_CHUNKS)
		abort();
	p->chunks[p->chunk_count].page = session->page;
	p->chunks[p->chunk_count++].session = (unsigned)(session - p->sessions);
}

static inline bool begin_chunk(struct producer *p, struct session *session)
{
	for (size_t n = 0; n < p->page_count; n++) {
		uint32_t page = (uint32_t)((p->page_cursor + n) % p->page_count);
		uint32_t *word = page_word(p, page), seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		uint8_t *chunk = (uint8_t *)word + PAGE_HEADER;

		if (seen & STATES ||
		    !__atomic_compare_exchange_n(word, &seen, LAYOUT_ONE_CHUNK | STATE_WRITING,
						 false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		p->page_cursor = page + 1;
		memcpy(chunk, &session->chunk, 4);
		memcpy(chunk + 4, &session->writer, 2);
		memset(chunk + 6, 0, 2);
		session->chunk++;
		session->page = page;
		session->packets = 0;
		session->used = PAGE_HEADER + CHUNK_HEADER;
		return true;
	}
	return false;
}

/* Room that is left in the open chunk for a packet. */
static inline size_t chunk_room(const struct producer *p, const struct session *session)
{
	size_t left = p->page_bytes - session->used;

	return session->used && left > PACKET_HEADER ? left - PACKET_HEADER : 0;
}

/* Write one packet. Where all pages are in use it is dropped, and the next one says so, as
 * TraceWriterImpl does (src/tracing/core/trace_writer_impl.cc). */
static inline void producer_packet(struct producer *p, struct session *session,
				   const uint8_t *bytes, size_t size)
{
	uint8_t extra_room[8], *to;
	struct message extra = {extra_room, 0, sizeof(extra_room)};
	uint16_t count;
	size_t whole;

	if (session->dropping)
		put_number(&extra, 42, 1); /* previous_packet_dropped */
	if (session->first)
		put_number(&extra, 87, 1); /* first_packet_on_sequence */
	whole = size + extra.size;
	if (session->used &&
	    (chunk_room(p, session) < whole || session->packets == CHUNK_PACKETS)) {
		end_chunk(p, session);
		if (!p->hold)
			producer_commit(p, 0);
	}
	/* the commit may have found that the service is gone */
	if (!session->running)
		return;
	if (!session->used && !begin_chunk(p, session)) {
		session->dropped++;
		session->dropping = true;
		return;
	}
	to = (uint8_t *)page_word(p, session->page) + session->used;
	/* a size of always four bytes */
	for (unsigned i = 0; i < PACKET_HEADER; i++)
		*to++ = (uint8_t)((whole >> 7 * i & 0x7f) | (i + 1 < PACKET_HEADER ? 0x80 : 0));
	memcpy(to, bytes, size);
	memcpy(to + size, extra.bytes, extra.size);
	session->used += PACKET_HEADER + whole;
	count = (uint16_t)++session->packets;
	memcpy((uint8_t *)page_word(p, session->page) + PAGE_HEADER + 6, &count, 2);
	session->written++;
	session->first = session->dropping = false;
}

/* Hand over everything, also what was held. */
static inline void producer_release(struct producer *p, uint64_t flush)
{
	p->hold = false;
	for (unsigned i = 0; i < p->session_count; i++) {
		if (p->sessions[i].running)
			end_chunk(p, &p->sessions[i]);
	}
	producer_commit(p, flush);
}

/* ---- what the service says */
static inline uint64_t number_in(const struct wire_field *message, uint32_t number)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field;
	uint64_t value = 0;

	while (wire_next(&wire, &field) > 0) {
		if (field.number == number)
			value = field.value;
	}
	return value;
}

static inline struct wire_field message_in(const struct wire_field *message, uint32_t number)
{
	struct wire wire = wire_of(message->data, message->size);
	struct wire_field field, found = {.number = 0};

	while (wire_next(&wire, &field) > 0) {
		if (field.number == number && field.type == WIRE_BYTES)
			found = field;
	}
	return found;
}

/* SetupTracing: the service sends the memory along. */
static inline void on_memory(struct producer *p, const struct wire_field *command)
{
	struct stat st;

	p->page_bytes = (uint32_t)number_in(command, 1) * 1024;
	if (p->shm || p->shm_fd < 0 || !p->page_bytes || fstat(p->shm_fd, &st)) {
		producer_disconnect(p);
		return;
	}
	p->shm_size = (size_t)st.st_size;
	p->shm = mmap(NULL, p->shm_size, PROT_READ | PROT_WRITE, MAP_SHARED, p->shm_fd, 0);
	if (p->shm == MAP_FAILED) {
		p->shm = NULL;
		producer_disconnect(p);
		return;
	}
	p->page_count = p->shm_size / p->page_bytes;
}

static inline void notify(struct producer *p, enum method method, uint64_t instance)
{
	uint8_t room[16];
	struct message args = {room, 0, sizeof(room)};

	put_number(&args, 1, instance);
	invoke(p, method, &args);
}

/* StartDataSource: new_instance_id 1, config 2 {target_buffer 2}. */
static inline void on_start(struct producer *p, const struct wire_field *command)
{
	struct wire_field config = message_in(command, 2);
	struct session *session;

	if (!p->shm || p->session_count == MAX_SESSIONS)
		return;
	session = &p->sessions[p->session_count++];
	*session = (struct session){
		.instance = number_in(command, 1),
		.buffer = (uint32_t)number_in(&config, 2),
		.connection = p->connection,
		.writer = ++p->writer,
		.running = true,
		.first = true,
		.from_ns = boot_ns(),
		.ended = "running",
	};
	notify(p, STARTED, session->instance);
}

static inline void on_stop(struct producer *p, const struct wire_field *command)
{
	uint64_t instance = number_in(command, 1);

	for (unsigned i = 0; i < p->session_count; i++) {
		struct session *session = &p->sessions[i];

		if (!session->running || session->instance != instance)
			continue;
		producer_release(p, 0);
		session->running = false;
		session->until_ns = boot_ns();
		session->ended = "stopped";
	}
	notify(p, STOPPED, instance);
}

/* GetAsyncCommandResponse. */
static inline void on_command(struct producer *p, const struct wire_field *reply)
{
	struct wire wire = wire_of(reply->data, reply->size);
	struct wire_field field;

	while (wire_next(&wire, &field) > 0 && p->fd >= 0) {
		if (field.number == 1)
			on_start(p, &field);
		else if (field.number == 2)
			on_stop(p, &field);
		else if (field.number == 3)
			on_memory(p, &field);
		else if (field.number == 5 && p->hold)
			producer_commit(p, number_in(&field, 2));
		else if (field.number == 5)
			producer_release(p, number_in(&field, 2));
	}
}

/* BindServiceReply: service_id 2, methods 3 {id 1, name 2}. Then everything is asked for at once.
 */
static inline void on_bound(struct producer *p, const struct wire_field *reply)
{
	struct wire wire = wire_of(reply->data, reply->size);
	struct wire_field field;
	uint8_t rooms[2][256];
	struct message args = {rooms[0], 0, 256}, descriptor = {rooms[1], 0, 256};

	memset(p->methods, 0, sizeof(p->methods));
	p->service = (uint32_t)number_in(reply, 2);
	while (wire_next(&wire, &field) > 0) {
		struct wire_field name = message_in(&field, 2);

		for (unsigned i = 0; field.number == 3 && i < METHODS; i++) {
			if (name.size == strlen(method_names[i]) &&
			    !memcmp(name.data, method_names[i], name.size))
				p->methods[i] = (uint32_t)number_in(&field, 1);
		}
	}
	put_number(&args, 1, p->page_bytes);
	put_number(&args, 2, p->shm_bytes);
	put_bytes(&args, 3, "jankscope.test", 14);
	put_number(&args, 4, 2); /* what was not handed over is not to be taken */
	invoke(p, INITIALIZE, &args);
	args.size = 0;
	p->commands_request = invoke(p, COMMANDS, &args);
	/* DataSourceDescriptor: name 1, will_notify_on_stop 2, will_notify_on_start 3 */
	put_bytes(&descriptor, 1, p->data_source, strlen(p->data_source));
	put_number(&descriptor, 2, 1);
	put_number(&descriptor, 3, 1);
	put_message(&args, 1, &descriptor);
	invoke(p, REGISTER, &args);
}

/* An answer to CommitData: those packets are the service's now. */
static inline void on_accepted(struct producer *p, uint64_t request)
{
	uint64_t first = p->commit_count > MAX_COMMITS ? p->commit_count - MAX_COMMITS : 0;

	for (uint64_t i = first; i < p->commit_count; i++) {
		struct session *session = &p->sessions[p->commits[i % MAX_COMMITS].session];

		if (p->commits[i % MAX_COMMITS].request == request)
			session->accepted = p->commits[i % MAX_COMMITS].upto;
	}
}

/* IPCFrame: request_id 2, msg_bind_service_reply 4, msg_invoke_method_reply 6 {success 1,
 * reply_proto 3}. */
static inline void on_frame(struct producer *p, const uint8_t *bytes, size_t size)
{
	struct wire_field frame = {.data = bytes, .size = size};
	struct wire_field bound = message_in(&frame, 4), answer = message_in(&frame, 6), reply;
	uint64_t request = number_in(&frame, 2);

	if (bound.number) {
		on_bound(p, &bound);
	} else if (answer.number && request == p->commands_request) {
		reply = message_in(&answer, 3);
		on_command(p, &reply);
	} else if (answer.number && number_in(&answer, 1)) {
		on_accepted(p, request);
	}
}

/* Wait for the service's next words for so long, and do what they say. */
static inline void producer_poll(struct producer *p, int timeout_ms)
{
	struct pollfd ready = {.fd = p->fd, .events = POLLIN};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {p->in + p->in_size, sizeof(p->in) - p->in_size};
	struct msghdr head = {.msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control)};
	size_t at = 0;
	ssize_t n;

	if (poll(&ready, 1, timeout_ms) <= 0 || p->fd < 0)
		return;
	n = recvmsg(p->fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		producer_disconnect(p);
		return;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			if (p->shm_fd >= 0)
				close(p->shm_fd);
			memcpy(&p->shm_fd, CMSG_DATA(c), sizeof(int));
		}
	}
	p->in_size += (size_t)n;
	while (p->fd >= 0 && p->in_size - at >= 4) {
		uint32_t size;

		memcpy(&size, p->in + at, 4);
		if (size > IPC_BYTES) {
			producer_disconnect(p);
			return;
		}
		if (p->in_size - at - 4 < size)
			break;
		on_frame(p, p->in + at + 4, size);
		at += 4 + size;
	}
	if (p->fd < 0)
		return;
	p->in_size -= at;
	memmove(p->in, p->in + at, p->in_size);
}
