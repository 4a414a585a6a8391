/* SPDX-License-Identifier: BSD-2-Clause */
/* --frames FILE: a trace that somebody writes, or - for stdin. A regular file may grow, be
 * replaced, truncated or written anew; from a pipe comes one trace, whoever writes into it. */
#include "source/frames/input.h"
#include "trace/reader.h"
#include "util/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES   ((size_t)64 * 1024)
#define POLL_FILE_NS 200000000ULL
#define POLL_PIPE_NS 20000000ULL
#define AGAIN_NS     1000000ULL /* more is there than a turn of the loop may take */
#define TURN_BYTES   ((size_t)4 << 20)
#define TURN_NS      5000000ULL
#define END_NS       400000000ULL
#define PIPE_BYTES   (1 << 20)
/* Two of perfetto's default flush and write periods. */
#define WINDOW_NS  2000000000ULL
#define MARK_BYTES 64

/* What stood at a place of the file, to see that it still does. */
struct mark {
	uint64_t offset;
	size_t size;
	uint8_t bytes[MARK_BYTES];
};

struct follow {
	struct frames_input input;
	struct loop *loop;
	struct trace_reader *reader;
	int fd, timer;
	uint64_t offset, history_bytes;
	struct mark head, tail; /* its beginning, and what was read last */
	bool regular, is_stdin, broken, replaced;
	uint8_t buffer[READ_BYTES];
};

static int start_reading(struct follow *follow)
{
	trace_reader_free(follow->reader);
	follow->reader = trace_reader_new(frame_stream_events(), follow->input.stream);
	follow->offset = 0;
	follow->broken = false;
	follow->head.size = follow->tail.size = 0;
	return follow->reader ? 0 : -ENOMEM;
}

/* The trace is over and another one begins: what is known of the old one is complete. */
static int begin_anew(struct follow *follow, const char *text)
{
	int err;

	trace_reader_finish(follow->reader);
	follow->input.tell(follow->input.ctx, "gap", text);
	follow->input.lose(follow->input.ctx, "trace_files_restarted", 1);
	if (follow->broken)
		follow->input.tell(follow->input.ctx, "recovered", text);
	follow->input.past = false;
	err = follow->input.restart(follow->input.ctx);
	return err ? err : start_reading(follow);
}

static bool still_stands(const struct follow *follow, const struct mark *mark)
{
	uint8_t now[MARK_BYTES];

	return !mark->size ||
	       (pread(follow->fd, now, mark->size, (off_t)mark->offset) == (ssize_t)mark->size &&
		!memcmp(now, mark->bytes, mark->size));
}

/* Whether the path names another file by now. */
static bool is_replaced(const struct follow *follow)
{
	struct stat now, then;

	return !follow->is_stdin && !stat(follow->input.options->mode, &now) &&
	       !fstat(follow->fd, &then) &&
	       (now.st_ino != then.st_ino || now.st_dev != then.st_dev);
}

static int open_new(struct follow *follow)
{
	int fd = open(follow->input.options->mode, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	follow->replaced = false;
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return 0;
	}
	close(follow->fd);
	follow->fd = fd;
	return begin_anew(follow, "the trace file was replaced");
}

/* The same file, but not what was read of it: it was truncated or written anew. */
static int check_generation(struct follow *follow)
{
	struct stat st;

	if (!follow->offset || fstat(follow->fd, &st))
		return 0;
	if ((uint64_t)st.st_size >= follow->offset && still_stands(follow, &follow->head) &&
	    still_stands(follow, &follow->tail))
		return 0;
	return begin_anew(follow, "the trace file was begun anew");
}

static void set_mark(struct mark *mark, uint64_t offset, const uint8_t *bytes, size_t size)
{
	mark->offset = offset;
	mark->size = size;
	memcpy(mark->bytes, bytes, size);
}

static int feed(struct follow *follow, size_t size)
{
	size_t marked = size < MARK_BYTES ? size : MARK_BYTES;
	int err;

	if (!follow->offset)
		set_mark(&follow->head, 0, follow->buffer, marked);
	follow->offset += size;
	follow->input.past &= follow->offset <= follow->history_bytes;
	set_mark(&follow->tail, follow->offset - marked, follow->buffer + size - marked, marked);
	if (follow->broken)
		return 0;
	err = trace_reader_feed(follow->reader, follow->buffer, size);
	if (err && err != -ENOMEM) {
		follow->broken = true;
		follow->input.tell(follow->input.ctx, "degraded",
				   trace_reader_error(follow->reader));
		return 0;
	}
	return err;
}

/* Bytes that were read, 0: none are there now, or a negative errno. */
static ssize_t read_some(struct follow *follow)
{
	struct pollfd ready = {.fd = follow->fd, .events = POLLIN};
	ssize_t n;

	if (follow->regular) {
		n = pread(follow->fd, follow->buffer, READ_BYTES, (off_t)follow->offset);
	} else {
		/* stdin may be shared: it is not made non-blocking */
		if (poll(&ready, 1, 0) <= 0 || !(ready.revents & POLLIN))
			return 0;
		n = read(follow->fd, follow->buffer, READ_BYTES);
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return n;
}

/* Take what is there within a budget. 1: more may be there; 0: that was all; negative errno. */
static int read_on(struct follow *follow, uint64_t budget_ns, size_t budget_bytes)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + budget_ns;
	size_t taken = 0;
	int err = 0;

	if (follow->regular && !follow->replaced) {
		follow->replaced = is_replaced(follow);
		if (!follow->replaced)
			err = check_generation(follow);
	}
	while (!err) {
		ssize_t n;

		/* nobody reads on in what is no trace; a pipe's writer is not to be held up */
		if (follow->broken && follow->regular && !follow->replaced)
			return 0;
		n = follow->broken && follow->regular ? 0 : read_some(follow);
		if (n < 0)
			return (int)n;
		if (n == 0 && follow->replaced) {
			err = open_new(follow);
			continue;
		}
		if (n == 0)
			return 0;
		err = feed(follow, (size_t)n);
		taken += (size_t)n;
		if (!err && (taken >= budget_bytes || clock_now_ns(CLOCK_MONOTONIC) >= until_ns))
			return 1;
	}
	return err;
}

static int on_timer(void *ctx, uint32_t events)
{
	struct follow *follow = ctx;
	uint64_t poll_ns = follow->regular ? POLL_FILE_NS : POLL_PIPE_NS;
	int rc = read_on(follow, TURN_NS, TURN_BYTES);

	if (rc <= 0 || follow->offset >= follow->history_bytes)
		follow->input.in_history = false;
	/* What is there already is not paced; others have their turns in between. */
	if (rc > 0)
		loop_hurry(follow->loop);
	loop_set_timer(follow->loop, follow->timer, rc > 0 ? AGAIN_NS : poll_ns, poll_ns);
	return rc == -ENOMEM ? rc : 0;
}

static int open_source(struct follow *follow, const char *path)
{
	struct stat st;

	follow->is_stdin = !strcmp(path, "-");
	follow->fd = follow->is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				      : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (follow->fd < 0 || fstat(follow->fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	follow->regular = S_ISREG(st.st_mode);
	if (follow->regular)
		follow->history_bytes = (uint64_t)st.st_size;
	else
		fcntl(follow->fd, F_SETPIPE_SZ, PIPE_BYTES); /* best effort */
	follow->input.in_history = follow->input.past = follow->history_bytes > 0;
	return 0;
}

static int follow_open(struct frames_input *input, struct loop *loop, char *reason, size_t size)
{
	struct follow *follow = (struct follow *)input;
	int err = open_source(follow, input->options->mode);

	if (err) {
		snprintf(reason, size, "%s: %s", input->options->mode, strerror(-err));
		return err;
	}
	err = start_reading(follow);
	if (!err) {
		follow->timer = loop_add_timer(loop, AGAIN_NS, POLL_FILE_NS, on_timer, follow);
		err = follow->timer < 0 ? follow->timer : 0;
	}
	if (err) {
		snprintf(reason, size, "%s", strerror(-err));
		return err;
	}
	follow->loop = loop;
	input->window_ns = WINDOW_NS;
	return 0;
}

static int follow_poll(struct frames_input *input, bool last)
{
	struct follow *follow = (struct follow *)input;
	int rc = read_on(follow, last ? END_NS : TURN_NS, last ? SIZE_MAX : TURN_BYTES);
	struct stat st;

	if (rc <= 0 || follow->offset >= follow->history_bytes)
		input->in_history = false;
	if (!last)
		return rc < 0 ? rc : 0;
	input->in_history = false;
	if (rc > 0 && !fstat(follow->fd, &st) && follow->regular &&
	    (uint64_t)st.st_size > follow->offset)
		input->lose(input->ctx, "trace_bytes_unread",
			    (uint64_t)st.st_size - follow->offset);
	if (!follow->broken)
		trace_reader_finish(follow->reader);
	follow->broken = true;
	return rc < 0 ? rc : 0;
}

static void follow_close(struct frames_input *input)
{
	struct follow *follow = (struct follow *)input;

	if (follow->loop)
		loop_remove_timer(follow->loop, follow->timer);
	trace_reader_free(follow->reader);
	if (follow->fd >= 0)
		close(follow->fd);
	free(follow);
}

static const struct frames_input_ops follow_ops = {
	.variant = "file",
	.open = follow_open,
	.poll = follow_poll,
	.close = follow_close,
};

struct frames_input *frames_input_follow(void)
{
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return NULL;
	follow->input.ops = &follow_ops;
	follow->fd = -1;
	return &follow->input;
}
