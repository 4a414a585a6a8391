/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/files_remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prober/jit_list.h"
#include "util/channel.h"

#define MAPS_MAX_BYTES (64u << 20)

static void send_or_end(struct files_remote *remote, void *message, size_t length)
{
	struct iovec part = {message, length};

	if (channel_send(remote->socket, &part, 1, NULL, 0))
		_exit(1);
}

static ssize_t receive(struct files_remote *remote, void *to, size_t room, int *fd)
{
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n;

	/* The next question is often there already. */
	while ((n = channel_receive(remote->socket, to, room, fds, &count)) == -EAGAIN)
		channel_wait(remote->socket, UINT64_MAX / 4);
	if (n < (ssize_t)sizeof(struct wire_header) || count > 1)
		_exit(n ? 1 : 0);
	*fd = count ? fds[0] : -1;
	return n;
}

/* A question that came in place of an answer: it is for later. */
static void put_off(struct files_remote *remote, size_t length, int fd)
{
	struct put_off *last = &remote->queue[remote->queued];

	if (remote->queued == WIRE_WINDOW || length > sizeof(union wire_question))
		_exit(1);
	last->question = malloc(length);
	if (!last->question)
		_exit(1);
	memcpy(last->question, remote->bytes, length);
	last->length = length;
	last->fd = fd;
	remote->queued++;
}

void files_remote_next(struct files_remote *remote, struct remote_question *next)
{
	if (!remote->queued) {
		next->length =
			(size_t)receive(remote, &next->question, sizeof(next->question), &next->fd);
		return;
	}
	memcpy(&next->question, remote->queue[0].question, remote->queue[0].length);
	next->length = remote->queue[0].length;
	next->fd = remote->queue[0].fd;
	free(remote->queue[0].question);
	remote->queued--;
	memmove(remote->queue, remote->queue + 1, remote->queued * sizeof(remote->queue[0]));
}

/* Ask and wait. The answer's value; *fd (where not NULL) is its descriptor or -1, and *length the
 * number of the bytes behind the header. */
static int64_t ask(struct files_remote *remote, struct wire_need *need, int *fd, size_t *length)
{
	struct wire_answer answer;
	int given;
	ssize_t n;

	need->header = (struct wire_header){WIRE_NEED, sizeof(*need), remote->job};
	need->number = ++remote->number;
	send_or_end(remote, need, sizeof(*need));
	for (;;) {
		n = receive(remote, remote->bytes, sizeof(remote->bytes), &given);
		memcpy(&answer.header, remote->bytes, sizeof(answer.header));
		if (answer.header.type == WIRE_ANSWER)
			break;
		put_off(remote, (size_t)n, given);
	}
	if (n < (ssize_t)sizeof(answer))
		_exit(1);
	memcpy(&answer, remote->bytes, sizeof(answer));
	if (answer.header.bytes != n || answer.header.job != remote->job ||
	    answer.number != need->number || answer.length != (uint64_t)n - sizeof(answer))
		_exit(1);
	if (fd)
		*fd = given;
	else if (given >= 0)
		close(given);
	*length = (size_t)answer.length;
	return answer.value;
}

/* A need that is answered with a descriptor. */
static int ask_fd(struct files_remote *remote, struct wire_need *need, int *fd, int64_t *value,
		  size_t *length)
{
	*value = ask(remote, need, fd, length);
	if (*value >= 0 && *fd >= 0)
		return 0;
	if (*fd >= 0)
		close(*fd);
	return *value < 0 ? (int)*value : -EIO;
}

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	struct files_remote *remote = ctx;
	struct wire_need need = {.kind = NEED_FILE,
				 .start = mapping->start,
				 .end = mapping->end,
				 .offset = mapping->offset,
				 .inode = mapping->inode};
	size_t len = mapping->path_len < WIRE_PATH - 1 ? mapping->path_len : WIRE_PATH - 1, length;
	struct wire_file known;
	int64_t value;
	int fd, err;

	memcpy(need.path, mapping->path, len);
	err = ask_fd(remote, &need, &fd, &value, &length);
	if (err)
		return err;
	if (length != sizeof(known)) {
		close(fd);
		return -EIO;
	}
	memcpy(&known, remote->bytes + sizeof(struct wire_answer), sizeof(known));
	*file = (struct stack_file){
		fd, known.device, known.inode, known.size_bytes, known.mtime_ns, known.ctime_ns};
	return 0;
}

static int open_jit_names(void *ctx, const struct stack_process *process)
{
	struct wire_need need = {.kind = NEED_JIT_NAMES};
	int64_t value;
	size_t length;
	int fd, err;

	err = ask_fd(ctx, &need, &fd, &value, &length);
	return err ? err : fd;
}

/* All `length` bytes of a file, malloc'ed. 0 or -errno. */
static int read_whole(int fd, uint64_t length, uint64_t limit, char **bytes)
{
	char *to = length > limit ? NULL : malloc(length ? (size_t)length : 1);
	int err = length > limit ? -EFBIG : to ? 0 : -ENOMEM;
	size_t done = 0;

	while (!err && done < length) {
		ssize_t n = pread(fd, to + done, (size_t)length - done, (off_t)done);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			err = -EIO;
		else if (errno != EINTR)
			err = -errno;
	}
	if (err)
		free(to);
	else
		*bytes = to;
	return err;
}

static int read_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		     size_t *length)
{
	struct wire_need need = {.kind = NEED_MAPS, .fresh = fresh};
	size_t ignored;
	int64_t value;
	int fd, err;

	err = ask_fd(ctx, &need, &fd, &value, &ignored);
	if (err)
		return err;
	err = read_whole(fd, (uint64_t)value, MAPS_MAX_BYTES, text);
	close(fd);
	*length = (size_t)value;
	return err;
}

static int read_jit_list(void *ctx, const struct stack_process *process,
			 const struct jit_list_request *request, uint8_t **message, size_t *length)
{
	struct wire_need need = {.kind = NEED_JIT_LIST,
				 .start = request->descriptor,
				 .known = request->known,
				 .since = request->since,
				 .symfiles = request->symfiles};
	size_t ignored;
	int64_t value;
	int fd, err;

	value = ask(ctx, &need, &fd, &ignored);
	if (value <= 0 || fd < 0) {
		if (fd >= 0)
			close(fd);
		return value <= 0 ? (int)value : -EIO;
	}
	err = read_whole(fd, (uint64_t)value, JIT_MESSAGE_BYTES, (char **)message);
	close(fd);
	*length = (size_t)value;
	return err ?: 1;
}

static ssize_t read_memory(void *ctx, const struct stack_process *process, uint64_t address,
			   void *to, size_t length)
{
	struct files_remote *remote = ctx;
	struct wire_need need = {.kind = NEED_MEMORY, .start = address};
	int64_t value;
	size_t got;

	need.length = length < WIRE_MEMORY_BYTES ? (uint32_t)length : WIRE_MEMORY_BYTES;
	value = ask(remote, &need, NULL, &got);
	if (value < 0)
		return (ssize_t)value;
	if (got > need.length)
		_exit(1);
	memcpy(to, remote->bytes + sizeof(struct wire_answer), got);
	return (ssize_t)got;
}

static void tell_reading(void *ctx, const struct stack_file_version *file)
{
	struct files_remote *remote = ctx;
	struct wire_reading reading = {{WIRE_READING, sizeof(reading), remote->job}, *file};

	if (!memcmp(file, &remote->reading, sizeof(*file)))
		return;
	remote->reading = *file;
	send_or_end(remote, &reading, sizeof(reading));
}

int files_remote_may_read(struct files_remote *remote, const struct stack_file_version *file)
{
	struct wire_need need = {.kind = NEED_LEAVE, .file = *file};
	size_t length;
	int64_t value = ask(remote, &need, NULL, &length);

	return value < 0 ? (int)value : 0;
}

void files_remote_begin(struct files_remote *remote, uint64_t job)
{
	remote->job = job;
	remote->reading = (struct stack_file_version){0};
}

struct stack_files files_remote(struct files_remote *remote)
{
	return (struct stack_files){.open = open_mapping,
				    .open_jit_names = open_jit_names,
				    .maps = read_maps,
				    .memory = read_memory,
				    .jit_list = read_jit_list,
				    .reading = tell_reading,
				    .ctx = remote};
}
