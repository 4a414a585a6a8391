/* SPDX-License-Identifier: BSD-2-Clause */
/* late_app's SurfaceFlinger: takes the app's buffers at its vsyncs, has them on the screen a vsync
 * later or when it is done, and tells FrameTimeline's rows of that as Android 13 and later do. */
#pragma once
#include <sys/eventfd.h>

#include "late_rig.h"

#define LAYER "com.example.late/com.example.late.Main#7"
enum { EXPECTED_DISPLAY = 1, ACTUAL_DISPLAY, EXPECTED_SURFACE, ACTUAL_SURFACE, FRAME_END };
enum { PRESENT_ON_TIME = 1, PRESENT_LATE = 2 };
enum {
	JANK_NONE = 1,
	JANK_HAL = 8,
	JANK_SF_CPU = 16,
	JANK_SF_GPU = 32,
	JANK_APP = 64,
	JANK_STUFFING = 128
};

struct buffer {
	uint8_t bytes[8192];
	size_t size;
};

static void put_varint(struct buffer *to, uint64_t n)
{
	for (; n >= 128; n >>= 7)
		to->bytes[to->size++] = (uint8_t)(n | 128);
	to->bytes[to->size++] = (uint8_t)n;
}

static void put_number(struct buffer *to, unsigned field, int64_t n)
{
	put_varint(to, field << 3);
	put_varint(to, (uint64_t)n);
}

static void put_bytes(struct buffer *to, unsigned field, const void *bytes, size_t size)
{
	put_varint(to, field << 3 | 2);
	put_varint(to, size);
	memcpy(to->bytes + to->size, bytes, size);
	to->size += size;
}

static void put_event(struct buffer *out, int64_t ts_ns, unsigned kind, const struct buffer *body)
{
	struct buffer event = {.size = 0}, packet = {.size = 0};

	put_bytes(&event, kind, body->bytes, body->size);
	put_number(&packet, 58, 6);
	put_number(&packet, 8, ts_ns);
	put_bytes(&packet, 76, event.bytes, event.size);
	put_number(&packet, 10, 3);
	put_bytes(out, 1, packet.bytes, packet.size);
}

struct display {
	int trace, marker, engine_ask, engine_done, composer;
	int64_t cookie, token, latched_ns; /* the vsync of the last buffer that it took */
	pid_t app;
	struct {
		struct buffer packets;
		int64_t present_ns;
	} waiting[2];
	unsigned waiting_count;
};

static void put_span(struct display *d, struct buffer *out, unsigned kind, int64_t start_ns,
		     int64_t end_ns, const struct buffer *fields)
{
	struct buffer body = {.size = 0}, end = {.size = 0};

	put_number(&body, 1, ++d->cookie);
	memcpy(body.bytes + body.size, fields->bytes, fields->size);
	body.size += fields->size;
	put_event(out, start_ns, kind, &body);
	put_number(&end, 1, d->cookie);
	put_event(out, end_ns, FRAME_END, &end);
}

/* The four rows of a frame. */
static void tell_frame(struct display *d, struct buffer *out, const struct frame *f,
		       int64_t vsync_ns)
{
	int64_t due_ns = vsync_ns + f->period_ns, token = ++d->token;
	/* A buffer that waited for another one has until the vsync behind that one's. */
	int64_t deadline_ns = f->stuffed_ns ? f->stuffed_ns : f->expected_end_ns;
	bool app_late = f->ready_ns > deadline_ns, sf_late = f->present_ns > due_ns;
	int jank = (app_late ? JANK_APP : 0) | (f->stuffed_ns ? JANK_STUFFING : 0);
	bool late = f->present_ns > f->predicted_ns;
	int display_jank = JANK_NONE;
	struct buffer b = {.size = 0};

	for (int i = 0; i < CAUSES && sf_late; i++)
		display_jank = f->ways[i] == WAY_HWC         ? JANK_HAL
			       : f->ways[i] == WAY_SF_ENGINE ? JANK_SF_GPU
			       : f->ways[i] == WAY_SF_CPU    ? JANK_SF_CPU
							     : display_jank;
	if (sf_late && display_jank == JANK_NONE)
		display_jank = JANK_SF_CPU;
	put_number(&b, 2, token);
	put_number(&b, 3, getpid());
	put_span(d, out, EXPECTED_DISPLAY, vsync_ns, due_ns, &b);
	put_number(&b, 4, sf_late ? PRESENT_LATE : PRESENT_ON_TIME);
	put_number(&b, 5, !sf_late || display_jank == JANK_HAL);
	put_number(&b, 6, display_jank == JANK_SF_GPU);
	put_number(&b, 7, display_jank);
	put_number(&b, 8, 1);
	put_span(d, out, ACTUAL_DISPLAY, f->wake_ns, f->present_ns, &b);
	b.size = 0;
	put_number(&b, 2, f->token);
	put_number(&b, 3, token);
	put_number(&b, 4, d->app);
	put_bytes(&b, 5, "TX - " LAYER, strlen("TX - " LAYER));
	put_span(d, out, EXPECTED_SURFACE, f->expected_start_ns, f->expected_end_ns, &b);
	put_number(&b, 6, late ? PRESENT_LATE : PRESENT_ON_TIME);
	put_number(&b, 7, !app_late);
	put_number(&b, 8, display_jank == JANK_SF_GPU);
	if (display_jank != JANK_NONE || !jank)
		jank |= display_jank;
	put_number(&b, 9, late ? jank : JANK_NONE);
	put_number(&b, 10, 1);
	put_number(&b, 11, 1);
	put_span(d, out, ACTUAL_SURFACE, f->begin_ns, f->ready_ns, &b);
}

/* The rows of a frame are told when it is on the screen. */
static void flush(struct display *d, int64_t until_ns)
{
	while (d->waiting_count && d->waiting[0].present_ns <= until_ns) {
		const struct buffer *b = &d->waiting[0].packets;

		must(d->trace < 0 || write(d->trace, b->bytes, b->size) == (ssize_t)b->size,
		     "trace");
		memmove(d->waiting, d->waiting + 1, sizeof(d->waiting[0]));
		d->waiting_count--;
	}
}

static void mark_buffers(const struct display *d, int count)
{
	char text[160];
	int n = snprintf(text, sizeof(text), "C|%d|BufferTX - " LAYER "|%d", getpid(), count);

	put_mark(d->marker, text, n);
}

static __attribute__((noinline)) void compose_layers(int64_t ns)
{
	burn(ns);
}

static void *run_engine(void *arg)
{
	struct display *d = arg;

	prctl(PR_SET_NAME, "RenderEngine");
	be_urgent(7);
	for (;;) {
		uint64_t ns, one = 1;

		must(read(d->engine_ask, &ns, sizeof(ns)) == sizeof(ns), "RenderEngine");
		compose_layers((int64_t)ns);
		must(write(d->engine_done, &one, sizeof(one)) == sizeof(one), "RenderEngine");
	}
	return NULL;
}

static void *run_vsync(void *arg)
{
	struct display *d = arg;
	char text[64];
	bool up = false;
	int64_t told_ns = 0;

	prctl(PR_SET_NAME, "app");
	be_urgent(8);
	for (;;) {
		int64_t period_ns = shared->period_ns, now_ns = boot_ns(), n;

		if (!period_ns) {
			nap_ns(10 * MS_NS);
			continue;
		}
		/* The model of vsync says its period when it changes. */
		if (period_ns != told_ns) {
			told_ns = period_ns;
			n = snprintf(text, sizeof(text), "C|%d|VSP-period|%lld", getpid(),
				     (long long)period_ns);
			put_mark(d->marker, text, (int)n);
		}
		n = (now_ns - shared->grid_ns) / period_ns + 1;
		sleep_until(shared->grid_ns + n * period_ns);
		up = !up;
		n = snprintf(text, sizeof(text), "C|%d|VSYNC-app|%d", getpid(), up);
		put_mark(d->marker, text, (int)n);
	}
	return NULL;
}

static void show(struct display *d, struct frame *f)
{
	int64_t vsync_ns, ran, waited;
	uint64_t engine_ns = MS_NS / 5, done;

	/* the first of its vsyncs at which the buffer is ready and due */
	vsync_ns = f->expected_end_ns;
	if (vsync_ns <= d->latched_ns)
		f->stuffed_ns = d->latched_ns + f->period_ns;
	while (vsync_ns < f->ready_ns || vsync_ns <= d->latched_ns)
		vsync_ns += f->period_ns;
	waited = waited_ns();
	ran = ran_ns();
	sleep_until(vsync_ns);
	f->wake_ns = boot_ns();
	d->latched_ns = vsync_ns;
	flush(d, f->wake_ns);
	mark_buffers(d, 0);
	compose_layers(3 * MS_NS / 10);
	for (int i = 0; i < CAUSES; i++) {
		int64_t began_ns = boot_ns();

		if (f->ways[i] == WAY_SF_CPU)
			compose_layers(f->planned_ns[i]);
		else if (f->ways[i] == WAY_SF_ENGINE)
			engine_ns += (uint64_t)f->planned_ns[i];
		else if (f->ways[i] == WAY_HWC)
			send_number(d->composer, f->planned_ns[i]), get_number(d->composer);
		if (f->ways[i] >= WAY_SF_CPU)
			f->took_ns[i] = boot_ns() - began_ns;
	}
	must(write(d->engine_ask, &engine_ns, sizeof(engine_ns)) == sizeof(engine_ns), "engine");
	must(read(d->engine_done, &done, sizeof(done)) == sizeof(done), "engine");
	f->finish_ns = boot_ns();
	f->sf_ran_ns = ran_ns() - ran;
	f->sf_waited_ns = waited_ns() - waited;
	f->present_ns = vsync_ns + f->period_ns;
	while (f->present_ns < f->finish_ns)
		f->present_ns += f->period_ns;
	if (d->waiting_count == 2)
		flush(d, INT64_MAX);
	d->waiting[d->waiting_count].present_ns = f->present_ns;
	d->waiting[d->waiting_count].packets.size = 0;
	tell_frame(d, &d->waiting[d->waiting_count++].packets, f, vsync_ns);
}

/* SurfaceFlinger's process: an index of a frame comes for each buffer, and goes back when the frame
 * is composed; below 0: all that waits is told. trace, marker: NULL for none; composer: the HAL's
 * socket. Returns the app's end. */
static int display_start(unsigned cpu, const char *package, const char *trace, const char *marker,
			 int composer)
{
	static struct display d;
	struct buffer tree = {.size = 0}, list = {.size = 0}, row = {.size = 0}, all = {.size = 0};
	pthread_t thread;
	int fds[2];

	pair(fds);
	d.app = getpid();
	d.composer = composer;
	if (child("surfaceflinger")) {
		close(fds[1]);
		return fds[0];
	}
	close(fds[0]);
	d.trace =
		trace ? open(trace, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600) : -1;
	d.marker = marker ? open(marker, O_WRONLY | O_CLOEXEC) : -1;
	must(!(trace && d.trace < 0) && !(marker && d.marker < 0), "trace or marker");
	put_number(&row, 1, d.app);
	put_bytes(&row, 3, package, strlen(package));
	put_bytes(&list, 1, row.bytes, row.size);
	put_bytes(&tree, 2, list.bytes, list.size);
	put_bytes(&all, 1, tree.bytes, tree.size);
	must(d.trace < 0 || write(d.trace, all.bytes, all.size) == (ssize_t)all.size, "trace");
	d.engine_ask = eventfd(0, EFD_CLOEXEC);
	d.engine_done = eventfd(0, EFD_CLOEXEC);
	must(!pthread_create(&thread, NULL, run_engine, &d), "thread");
	if (marker)
		must(!pthread_create(&thread, NULL, run_vsync, &d), "thread");
	pin(cpu);
	be_urgent(7);
	for (;;) {
		int64_t index = get_number(fds[1]);

		if (index >= 0)
			show(&d, &shared->frames[index]);
		else
			flush(&d, INT64_MAX);
		send_number(fds[1], index);
	}
}
