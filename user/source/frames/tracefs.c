/* SPDX-License-Identifier: BSD-2-Clause */
/* --frames live: atrace markers straight from the kernel's trace buffer. Only the top-level buffer
 * gets them (instances do only where the kernel has copy_trace_marker), and reading empties it: so
 * nobody else may be using it. */
#include "source/frames/input.h"
#include "source/frames/tracefs_guard.h"
#include "trace/ring_page.h"
#include "util/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_NS        50000000ULL
#define MAX_CPUS       1024
#define MAX_PAGE       (1U << 20)
#define PAGES_AT_ONCE  4096 /* of one CPU in one round */
#define MIN_BUFFER_KIB 4096
#define DESCRIPTION    8192
#define WINDOW_NS      300000000ULL /* a marker is in the buffer at once */
#define ATRACE_TAGS    "0x6e"       /* gfx input view wm am */

struct tracefs {
	struct frames_input input;
	struct loop *loop;
	struct tracefs_guard *guard;
	struct ring_layout layout;
	int root; /* tracefs */
	int fds[MAX_CPUS];
	unsigned fd_count;
	int timer;
	bool mono; /* the buffer's clock is MONOTONIC: this kernel has no boot clock */
	int64_t boot_minus_mono_ns;
	struct trace_events events; /* ours: shifts the clock, then passes on */
	uint8_t *page;
};

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct tracefs *t = ctx;
	struct trace_mark shifted = *mark;

	shifted.ts_ns += t->mono ? t->boot_minus_mono_ns : 0;
	frame_stream_events()->mark(t->input.stream, &shifted);
}

static void on_loss(void *ctx, const char *reason, uint64_t count)
{
	struct tracefs *t = ctx;

	t->input.lose(t->input.ctx, reason, count);
}

static int take_cpu(struct tracefs *t, int fd)
{
	for (unsigned n = 0; n < PAGES_AT_ONCE; n++) {
		ssize_t size = read(fd, t->page, t->layout.page_size);
		int rc;

		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0)
			return size < 0 && errno != EAGAIN ? -errno : 0;
		rc = ring_page_decode(&t->layout, t->page, (size_t)size, &t->events, t);
		if (rc < 0)
			t->input.lose(t->input.ctx, "malformed_ring_pages", 1);
	}
	return 0;
}

static int take(struct tracefs *t)
{
	int err = 0;

	t->boot_minus_mono_ns = t->mono ? (int64_t)clock_suspended_ns() : 0;
	for (unsigned i = 0; i < t->fd_count; i++) {
		int one = take_cpu(t, t->fds[i]);

		err = err ? err : one;
	}
	return err;
}

static int on_timer(void *ctx, uint32_t events)
{
	take(ctx);
	return 0;
}

/* The whole of a small file, terminated. Bytes read or -errno. */
static int read_text(const struct tracefs *t, const char *name, char *text, size_t size)
{
	int fd = openat(t->root, name, O_RDONLY | O_CLOEXEC);
	size_t used = 0;

	if (fd < 0)
		return -errno;
	while (used < size - 1) {
		ssize_t n = read(fd, text + used, size - 1 - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	close(fd);
	text[used] = 0;
	return (int)used;
}

/* Whether something else traces into the top-level buffer. */
static int refuse_to_share(const struct tracefs *t, char *reason, size_t size)
{
	char text[1024], *rest = text, *line;
	int on, n = read_text(t, "tracing_on", text, sizeof(text));

	if (n < 0) {
		snprintf(reason, size, "tracefs, tracing_on: %s", strerror(-n));
		return -EACCES;
	}
	on = text[0] == '1';
	if (on && read_text(t, "current_tracer", text, sizeof(text)) > 0 && strcmp(text, "nop\n")) {
		text[strcspn(text, "\n")] = 0;
		snprintf(reason, size,
			 "the tracer %.40s runs: --frames-force takes the buffer from it", text);
		return -EBUSY;
	}
	if (!on || read_text(t, "set_event", text, sizeof(text)) < 0)
		return 0;
	while ((line = strsep(&rest, "\n"))) {
		/* the kernel enables this one when any BPF program with bpf_printk is loaded */
		if (!line[0] || !strcmp(line, "bpf_trace:bpf_trace_printk"))
			continue;
		snprintf(reason, size,
			 "a trace runs (event %.60s): --frames-force takes the buffer from it",
			 line);
		return -EBUSY;
	}
	return 0;
}

static int read_layout(struct tracefs *t, char *reason, size_t size)
{
	static const struct {
		const char *name;
		int (*parse)(struct ring_layout *layout, const char *text);
	} descriptions[] = {
		{"events/header_page", ring_layout_page},
		{"events/header_event", ring_layout_event},
		{"events/ftrace/print/format", ring_layout_print},
	};
	char text[DESCRIPTION];

	for (unsigned i = 0; i < 3; i++) {
		int n = read_text(t, descriptions[i].name, text, sizeof(text));

		if (n < 0 || descriptions[i].parse(&t->layout, text)) {
			snprintf(reason, size, "tracefs, %s: %s", descriptions[i].name,
				 n < 0 ? strerror(-n) : "not understood");
			return n < 0 ? n : -EBADMSG;
		}
	}
	if (t->layout.page_size > MAX_PAGE) {
		snprintf(reason, size, "pages of %u bytes", t->layout.page_size);
		return -EBADMSG;
	}
	return 0;
}

static int change_buffer(struct tracefs *t, char *reason, size_t size)
{
	char text[256], old[TRACE_VALUE_BYTES], mode[16];
	uint32_t setting = TRACE_CLOCK;
	int err = read_text(t, "trace_clock", text, sizeof(text));

	t->mono = err > 0 && !strstr(text, "boot");
	if (err >= 0)
		err = tracefs_guard_set(t->guard, setting, t->mono ? "mono" : "boot");
	/* "X" where the CPUs differ has no value to put back, and is left as it is */
	if (!err && !trace_setting_get(t->root, TRACE_BUFFER_SIZE_KB, old, sizeof(old)) &&
	    atoi(old) < MIN_BUFFER_KIB) {
		setting = TRACE_BUFFER_SIZE_KB;
		err = tracefs_guard_set(t->guard, setting, "4096");
	}
	if (!err) {
		setting = TRACE_MARKER_MODE;
		err = trace_setting_get(t->root, setting, old, sizeof(old));
		snprintf(mode, sizeof(mode), "%o",
			 err ? 0 : ((unsigned)strtoul(old, NULL, 8) & 0777) | 0222);
	}
	if (!err)
		err = tracefs_guard_set(t->guard, setting, mode);
	if (!err) {
		setting = TRACE_TRACING_ON;
		err = tracefs_guard_set(t->guard, setting, "1");
	}
	if (err)
		snprintf(reason, size, "tracefs, %s: %s", trace_setting_name(setting),
			 strerror(-err));
	return err;
}

/* Which tags processes write markers for. Where this fails (setprop is not allowed) what is traced
 * anyway is read, and the source says that it is not all. */
static void change_properties(struct tracefs *t)
{
	static const struct {
		uint32_t setting;
		const char *value;
	} wanted[] = {
		{TRACE_PROPERTY_TAGS, ATRACE_TAGS},
		{TRACE_PROPERTY_APP_NUMBER, "1"},
		{TRACE_PROPERTY_APP_0, "*"},
	};
	int err = 0;

	for (unsigned i = 0; i < 3 && !err; i++) {
		err = tracefs_guard_set(t->guard, wanted[i].setting, wanted[i].value);
		/* where this is not Android there are no properties */
		if (err && (i || err != -ENOENT || !access("/system/bin/setprop", F_OK))) {
			char text[120];

			snprintf(text, sizeof(text),
				 "setprop %s: %s; only what is traced already is read",
				 trace_setting_name(wanted[i].setting), strerror(-err));
			t->input.tell(t->input.ctx, "degraded", text);
		}
	}
}

static int open_buffers(struct tracefs *t, char *reason, size_t size)
{
	int up = openat(t->root, "per_cpu", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = -errno;
	DIR *folder = up < 0 ? NULL : fdopendir(up);
	struct dirent *entry;
	char path[64];

	while (folder && (entry = readdir(folder)) && t->fd_count < MAX_CPUS) {
		int fd;

		if (strncmp(entry->d_name, "cpu", 3))
			continue;
		snprintf(path, sizeof(path), "%.16s/trace_pipe_raw", entry->d_name);
		fd = openat(up, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		err = -errno;
		if (fd >= 0)
			t->fds[t->fd_count++] = fd;
	}
	if (folder)
		closedir(folder);
	else if (up >= 0)
		close(up);
	if (!t->fd_count) {
		snprintf(reason, size, "tracefs, trace_pipe_raw: %s", strerror(-err));
		return -EACCES;
	}
	return 0;
}

/* What lies in the buffer from before is not of this run. */
static void empty_buffers(struct tracefs *t)
{
	for (unsigned i = 0; i < t->fd_count; i++) {
		for (unsigned n = 0; n < PAGES_AT_ONCE; n++) {
			if (read(t->fds[i], t->page, t->layout.page_size) <= 0)
				break;
		}
	}
}

static int tracefs_open(struct frames_input *input, struct loop *loop, char *reason, size_t size)
{
	struct tracefs *t = (struct tracefs *)input;
	int err = 0;

	t->root = trace_settings_root();
	if (t->root < 0) {
		snprintf(reason, size,
			 "tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing");
		return t->root;
	}
	err = read_layout(t, reason, size);
	/* first what a dead run left: its own events would look like somebody's trace */
	if (!err)
		err = tracefs_guard_start(&t->guard, input->warden, t->root, reason, size);
	if (!err && reason[0])
		fprintf(stderr, "jankscope: warn: %s\n", reason);
	if (!err && !input->options->force)
		err = refuse_to_share(t, reason, size);
	if (!err)
		err = change_buffer(t, reason, size);
	if (!err)
		change_properties(t);
	if (!err)
		err = open_buffers(t, reason, size);
	if (err)
		return err;
	t->page = malloc(t->layout.page_size);
	if (!t->page)
		return -ENOMEM;
	empty_buffers(t);
	t->timer = loop_add_timer(loop, POLL_NS, POLL_NS, on_timer, t);
	if (t->timer < 0) {
		snprintf(reason, size, "timer: %s", strerror(-t->timer));
		return t->timer;
	}
	t->loop = loop;
	t->events = (struct trace_events){.mark = on_mark, .loss = on_loss};
	input->window_ns = WINDOW_NS;
	return 0;
}

static int tracefs_poll(struct frames_input *input, bool last)
{
	return take((struct tracefs *)input);
}

static void tracefs_close(struct frames_input *input)
{
	struct tracefs *t = (struct tracefs *)input;

	if (t->loop)
		loop_remove_timer(t->loop, t->timer);
	for (unsigned i = 0; i < t->fd_count; i++)
		close(t->fds[i]);
	tracefs_guard_end(t->guard);
	if (t->root >= 0)
		close(t->root);
	free(t->page);
	free(t);
}

static const struct frames_input_ops tracefs_ops = {
	.variant = "tracefs",
	.open = tracefs_open,
	.poll = tracefs_poll,
	.close = tracefs_close,
};

struct frames_input *frames_input_tracefs(void)
{
	struct tracefs *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->input.ops = &tracefs_ops;
	t->timer = t->root = -1;
	return &t->input;
}
