/* SPDX-License-Identifier: BSD-2-Clause */
/* --frames FILE: a trace that somebody writes, read to its end again and again. */
#include "source/frames_input.h"
#include "trace/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES (256 * 1024)
#define POLL_NS    200000000ULL
/* Two of perfetto's default flush and write periods. */
#define WINDOW_NS 2000000000ULL

struct follow {
	struct frames_input input;
	struct loop *loop;
	struct trace_reader *reader;
	int fd, timer;
	uint64_t offset;
	bool broken;
	uint8_t buffer[READ_BYTES];
};

static int start_reading(struct follow *follow)
{
	trace_reader_free(follow->reader);
	follow->reader = trace_reader_new(frame_stream_events(), follow->input.stream);
	follow->offset = 0;
	follow->broken = false;
	return follow->reader ? 0 : -ENOMEM;
}

/* The writer began anew: the file is another one, or shorter than what was read. */
static int reopen_if_replaced(struct follow *follow)
{
	struct stat now, then;
	int fd;

	if (stat(follow->input.options->mode, &now) || fstat(follow->fd, &then))
		return 0;
	if (now.st_ino == then.st_ino && now.st_dev == then.st_dev &&
	    (uint64_t)now.st_size >= follow->offset)
		return 0;
	fd = open(follow->input.options->mode, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	close(follow->fd);
	follow->fd = fd;
	follow->input.tell(follow->input.ctx, "gap", "the trace file was begun anew");
	follow->input.lose(follow->input.ctx, "trace_files_restarted", 1);
	return start_reading(follow);
}

static int read_on(struct follow *follow)
{
	int err = reopen_if_replaced(follow);

	while (!err && !follow->broken) {
		ssize_t n = read(follow->fd, follow->buffer, READ_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 || errno == EAGAIN ? 0 : -errno;
		follow->offset += (uint64_t)n;
		err = trace_reader_feed(follow->reader, follow->buffer, (size_t)n);
		if (err && err != -ENOMEM) {
			follow->broken = true;
			follow->input.tell(follow->input.ctx, "degraded",
					   trace_reader_error(follow->reader));
			return 0;
		}
	}
	return err;
}

static int on_timer(void *ctx, uint32_t events)
{
	int err = read_on(ctx);

	return err == -ENOMEM ? err : 0;
}

static int follow_open(struct frames_input *input, struct loop *loop, char *reason, size_t size)
{
	struct follow *follow = (struct follow *)input;
	struct stat st;
	int err;

	follow->fd = open(input->options->mode, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	err = follow->fd < 0 || fstat(follow->fd, &st) ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
	if (err) {
		snprintf(reason, size, "%s: %s", input->options->mode, strerror(-err));
		return err;
	}
	err = start_reading(follow);
	if (!err) {
		follow->timer = loop_add_timer(loop, POLL_NS, POLL_NS, on_timer, follow);
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
	int err = read_on(follow);

	if (!err && last && !follow->broken)
		trace_reader_finish(follow->reader);
	follow->broken |= last;
	return err;
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
