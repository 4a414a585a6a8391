/* SPDX-License-Identifier: BSD-2-Clause */
/* late_app's state, and what it does to be late: one function for each way, so that stacks have
 * something to name. */
#pragma once
#include <poll.h>

#include "late_binder.h"
#include "late_disk.h"
#include "late_display.h"

struct app {
	unsigned main_cpu, render_cpu;
	struct disk disk;
	bool has_disk, has_fault, has_binder;
	int fault_fd;
	char *fault_page;
	int64_t fault_ns;
	struct client binder;
	int marker, timer, timer_epoll;
	int hog_main, hog_render, peer, loader[2], display, display_epoll;
	pthread_mutex_t lock; /* the loader holds it for a while */
	/* to the RenderThread and back */
	int render_event, render_epoll;
	struct frame *drawing;
	pthread_mutex_t sync_lock;
	pthread_cond_t synced_cond, drawn_cond;
	bool synced, drawn;
	unsigned calm;
	int share;
	bool pipelined;
	int64_t shown; /* so many frames have come back from the display */
};

static struct app app;

static void mark(const char *format, const char *name, int number)
{
	char text[128];
	int n = snprintf(text, sizeof(text), format, getpid(), name, number);

	put_mark(app.marker, text, n);
}

/* The names of these functions are what stacks are asked for. */
static __attribute__((noinline)) void decode_bitmap(int64_t ns)
{
	burn(ns);
	__asm__ volatile(""); /* no jump in place of the call */
}

static __attribute__((noinline)) void draw_shadows(int64_t ns)
{
	burn(ns);
	__asm__ volatile("");
}

static __attribute__((noinline)) void wait_for_loader(int64_t ns)
{
	send_number(app.loader[0], ns);
	pthread_mutex_lock(&app.lock);
	pthread_mutex_unlock(&app.lock);
}

static __attribute__((noinline)) void ask_peer(int64_t ns, bool poll_first)
{
	struct pollfd ready = {.fd = app.peer, .events = POLLIN};

	send_number(app.peer, ns);
	if (poll_first)
		poll(&ready, 1, -1);
	get_number(app.peer);
}

static __attribute__((noinline)) void touch_heap(int64_t ns)
{
	app.fault_ns = ns;
	*(volatile char *)app.fault_page;
	madvise(app.fault_page, 4096, MADV_DONTNEED);
}

static bool is_of_render(enum way way)
{
	return way == WAY_FENCE || way == WAY_RENDER_CPU || way == WAY_HOG_RENDER ||
	       way == WAY_LOCK_RENDER || way == WAY_DISK_RENDER;
}

static void be_late(enum way way, int64_t ns)
{
	switch (way) {
	case WAY_MAIN_CPU:
		decode_bitmap(ns);
		break;
	case WAY_RENDER_CPU:
		draw_shadows(ns);
		break;
	case WAY_HOG_MAIN:
		send_number(app.hog_main, ns);
		break;
	case WAY_HOG_RENDER:
		send_number(app.hog_render, ns);
		break;
	case WAY_LOCK_MAIN:
	case WAY_LOCK_RENDER:
		wait_for_loader(ns);
		break;
	case WAY_PEER_RECEIVE:
	case WAY_PEER_POLL:
	case WAY_FENCE:
		ask_peer(ns, way != WAY_PEER_RECEIVE);
		break;
	case WAY_DISK:
	case WAY_DISK_RENDER:
		load_thumbnail(&app.disk, ns);
		break;
	case WAY_FAULT_DISK:
		touch_mapped_font(&app.disk, ns);
		break;
	case WAY_FAULT_USER:
		touch_heap(ns);
		break;
	case WAY_BINDER:
		call_server(&app.binder, ns);
		break;
	default:
		break;
	}
}

/* What Android's own markers say of such a wait. */
static const char *slice_of(enum way way)
{
	return way == WAY_LOCK_MAIN || way == WAY_LOCK_RENDER ? "Lock contention on a lock of frame"
	       : way == WAY_FENCE                             ? "waiting for GPU completion"
							      : NULL;
}

static void be_late_for(struct frame *f, bool render)
{
	for (int i = 0; i < CAUSES; i++) {
		enum way way = f->ways[i];
		int64_t began_ns = boot_ns(), ran = ran_ns();

		if (!way || way == WAY_MESSAGE || way == WAY_RENDER_SYNC || way == WAY_HOG_EARLY ||
		    way >= WAY_GPU || is_of_render(way) != render)
			continue;
		if (slice_of(way))
			mark("B|%d|%s %d", slice_of(way), f->token);
		be_late(way, f->planned_ns[i]);
		if (slice_of(way))
			mark("E|%d", "", 0);
		if (way == WAY_HOG_MAIN || way == WAY_HOG_RENDER)
			burn(MS_NS / 20);
		f->took_ns[i] = boot_ns() - began_ns;
		f->off_ns[i] = f->took_ns[i] - (ran_ns() - ran);
	}
}
