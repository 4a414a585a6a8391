/* SPDX-License-Identifier: BSD-2-Clause */
/* --frames live: atrace markers straight from the kernel's trace buffer. Only the top-level buffer
 * gets them (instances do only where the kernel has copy_trace_marker), and reading empties it: so
 * nobody else may be using it. */
#include "source/frames_input.h"
#include "source/tracefs_guard.h"
#include "trace/ring_page.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS         50000000ULL
#define MAX_CPUS        1024
#define MAX_PAGE        (1U << 20)
#define PAGES_AT_ONCE   4096 /* of one CPU in one round */
#define MIN_BUFFER_KIB  4096
#define DESCRIPTION     8192
#define WINDOW_NS       300000000ULL /* a marker is in the buffer at once */
#define ATRACE_TAGS     "0x6e"       /* gfx input view wm am */
#define ANDROID_STATE   "/data/local/tmp/jankscope.tracefs"
#define ELSEWHERE_STATE "/run/jankscope.tracefs"

struct tracefs {
	struct frames_input input;
	struct loop *loop;
	struct tracefs_guard *guard;
	struct ring_layout layout;
	char root[200];
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

static int64_t boot_minus_mono(void)
{
	struct timespec boot, mono;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (boot.tv_sec - mono.tv_sec) * 1000000000LL + (boot.tv_nsec - mono.tv_nsec);
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

	t->boot_minus_mono_ns = t->mono ? boot_minus_mono() : 0;
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

static void path_of(const struct tracefs *t, const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", t->root, name);
}

static int find_tracefs(struct tracefs *t, char *reason, size_t size)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[256];

	if (t->input.options->tracefs) {
		snprintf(t->root, sizeof(t->root), "%s", t->input.options->tracefs);
		return 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/trace_marker", places[i]);
		if (!access(path, F_OK)) {
			snprintf(t->root, sizeof(t->root), "%s", places[i]);
			return 0;
		}
	}
	snprintf(reason, size,
		 "tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing");
	return -ENOENT;
}

/* Whether something else traces into the top-level buffer. */
static int refuse_to_share(const struct tracefs *t, char *reason, size_t size)
{
	char path[256], text[1024], *rest = text, *line;
	int on;

	path_of(t, "tracing_on", path, sizeof(path));
	if (tracefs_read_line(path, text, sizeof(text))) {
		snprintf(reason, size, "%s: %s", path, strerror(errno));
		return -EACCES;
	}
	on = text[0] == '1';
	path_of(t, "current_tracer", path, sizeof(path));
	if (on && !tracefs_read_line(path, text, sizeof(text)) && strcmp(text, "nop")) {
		snprintf(reason, size,
			 "the tracer %.40s runs: --frames-force takes the buffer from it", text);
		return -EBUSY;
	}
	path_of(t, "set_event", path, sizeof(path));
	if (!on || tracefs_read_file(path, text, sizeof(text)) < 0)
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
	char path[256], text[DESCRIPTION];

	for (unsigned i = 0; i < 3; i++) {
		int n;

		path_of(t, descriptions[i].name, path, sizeof(path));
		n = tracefs_read_file(path, text, sizeof(text));
		if (n < 0 || descriptions[i].parse(&t->layout, text)) {
			snprintf(reason, size, "%s: %s", path,
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

static int change_settings(struct tracefs *t, char *reason, size_t size)
{
	char path[256], text[128];
	int err;

	path_of(t, "trace_clock", path, sizeof(path));
	err = tracefs_read_line(path, text, sizeof(text));
	t->mono = !err && !strstr(text, "boot");
	if (!err)
		err = tracefs_guard_write(t->guard, path, t->mono ? "mono" : "boot");
	/* "1408", "7 (expanded: 1408)", or "X" where the CPUs differ */
	path_of(t, "buffer_size_kb", path, sizeof(path));
	if (!err && !tracefs_read_line(path, text, sizeof(text)) && atoi(text) > 0 &&
	    atoi(text) < MIN_BUFFER_KIB)
		err = tracefs_guard_write(t->guard, path, "4096");
	path_of(t, "trace_marker", path, sizeof(path));
	if (!err)
		err = tracefs_guard_allow(t->guard, path, 0222);
	path_of(t, "tracing_on", path, sizeof(path));
	if (!err)
		err = tracefs_guard_write(t->guard, path, "1");
	if (err) {
		snprintf(reason, size, "%s: %s", path, strerror(-err));
		return err;
	}
	/* apps and SurfaceFlinger look at these; there are none where this is not Android */
	if (!access("/system/bin/setprop", X_OK)) {
		err = tracefs_guard_property(t->guard, "debug.atrace.tags.enableflags",
					     ATRACE_TAGS);
		if (!err)
			err = tracefs_guard_property(t->guard, "debug.atrace.app_number", "1");
		if (!err)
			err = tracefs_guard_property(t->guard, "debug.atrace.app_0", "*");
		if (err)
			snprintf(reason, size, "setprop debug.atrace.tags.enableflags failed");
	}
	return err;
}

static int open_buffers(struct tracefs *t, char *reason, size_t size)
{
	char path[300];
	struct dirent *entry;
	DIR *folder;
	int fd;

	path_of(t, "per_cpu", path, sizeof(path));
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) && t->fd_count < MAX_CPUS) {
		if (strncmp(entry->d_name, "cpu", 3))
			continue;
		snprintf(path, sizeof(path), "%s/per_cpu/%.16s/trace_pipe_raw", t->root,
			 entry->d_name);
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0)
			t->fds[t->fd_count++] = fd;
	}
	if (folder)
		closedir(folder);
	if (!t->fd_count) {
		snprintf(reason, size, "%s: %s", path, strerror(errno));
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
	const char *state = input->options->state_path;
	int err = find_tracefs(t, reason, size);

	if (!state)
		state = access("/data/local/tmp", W_OK) ? ELSEWHERE_STATE : ANDROID_STATE;
	if (!err)
		err = read_layout(t, reason, size);
	/* first what a dead run left: its own events would look like somebody's trace */
	if (!err)
		err = tracefs_guard_start(&t->guard, state, reason, size);
	if (!err && !input->options->force)
		err = refuse_to_share(t, reason, size);
	if (!err)
		err = change_settings(t, reason, size);
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
	t->timer = -1;
	return &t->input;
}
