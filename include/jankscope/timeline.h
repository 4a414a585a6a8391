/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam between trace readers and frame timing: what a reader found, event by event. Whoever
 * consumes events implements struct trace_events; a reader calls it in file order, and nothing
 * that an event points to outlives the call. Times are nanoseconds of CLOCK_BOOTTIME unless the
 * trace says nothing about its clock. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of the oneof in Perfetto's FrameTimelineEvent. */
enum timeline_kind {
	TIMELINE_EXPECTED_DISPLAY = 1,
	TIMELINE_ACTUAL_DISPLAY = 2,
	TIMELINE_EXPECTED_SURFACE = 3,
	TIMELINE_ACTUAL_SURFACE = 4,
	TIMELINE_END = 5,
};

/* Bits of jank_type as they travel in a trace; SurfaceFlinger's own JankInfo.h has others. */
enum jank_bit {
	JANK_NONE = 1,
	JANK_SF_SCHEDULING = 2,
	JANK_PREDICTION_ERROR = 4,
	JANK_DISPLAY_HAL = 8,
	JANK_SF_CPU = 16,
	JANK_SF_GPU = 32,
	JANK_APP_DEADLINE = 64,
	JANK_BUFFER_STUFFING = 128,
	JANK_UNKNOWN = 256,
	JANK_SF_STUFFING = 512,
	JANK_DROPPED = 1024,
	JANK_NON_ANIMATING = 2048,
	JANK_APP_RESYNC = 4096,
	JANK_DISPLAY_OFF = 8192,
	JANK_MODE_CHANGE = 16384,
	JANK_POWER_MODE = 32768,
};

enum present_type {
	PRESENT_UNSPECIFIED = 0,
	PRESENT_ON_TIME = 1,
	PRESENT_LATE = 2,
	PRESENT_EARLY = 3,
	PRESENT_DROPPED = 4,
	PRESENT_UNKNOWN = 5,
};

enum prediction_type {
	PREDICTION_UNSPECIFIED = 0,
	PREDICTION_VALID = 1,
	PREDICTION_EXPIRED = 2,
	PREDICTION_UNKNOWN = 3,
};

struct timeline_event {
	enum timeline_kind kind;
	bool has_cookie, has_token, has_display_token, has_pid, has_severity;
	bool on_time, gpu;
	int8_t is_buffer; /* -1: the trace does not say */
	int32_t pid;
	uint32_t machine; /* 0: the device itself */
	int64_t ts_ns, cookie, token, display_token;
	uint32_t present_type, prediction_type, severity, jank;
	const char *layer; /* not terminated; NULL: none */
	size_t layer_size;
};

/* An atrace marker's letter. */
enum mark_kind {
	MARK_BEGIN = 'B',
	MARK_END = 'E',
	MARK_ASYNC_BEGIN = 'S',
	MARK_ASYNC_END = 'F',
	MARK_TRACK_BEGIN = 'G',
	MARK_TRACK_END = 'H',
	MARK_INSTANT = 'I',
	MARK_TRACK_INSTANT = 'N',
	MARK_COUNTER = 'C',
	MARK_CLOCK_SYNC = 'T', /* trace_event_clock_sync: track says which, value is in ns */
};

struct trace_mark {
	enum mark_kind kind;
	bool has_pid;
	int32_t tid, pid;     /* tid from the ring buffer, pid as the writer states its process */
	int64_t ts_ns, value; /* value: of a counter, or the cookie */
	const char *name;     /* not terminated */
	size_t name_size;
	const char *track;
	size_t track_size;
};

struct trace_switch {
	int64_t ts_ns;
	int32_t cpu, prev_tid, next_tid;   /* prev_tid -1: not known */
	int64_t prev_state;                /* 0: runnable (preempted); -1: not known */
	bool lost;                         /* events of this CPU before it were lost */
	const char *prev_comm, *next_comm; /* NULL: not known */
	size_t prev_comm_size, next_comm_size;
};

struct trace_wakeup {
	int64_t ts_ns;
	int32_t tid;
	int32_t cpu;        /* where the event was written */
	int32_t waker_tid;  /* -1: the thread that ran on that CPU then */
	int32_t target_cpu; /* on whose run queue it was put; -1: not known (sched_waking: not yet)
			     */
	bool interrupt;     /* an interrupt woke it, and not the thread that ran */
};

/* sched_blocked_reason: of the sleep in state D that was just ended. */
struct trace_blocked {
	int64_t ts_ns;
	int32_t tid;
	bool io_wait;
};

struct trace_binder {
	int64_t ts_ns, id;      /* id: the same of who sends and who gets it; 0: not told */
	int32_t tid;            /* who wrote it */
	bool received;          /* the thread got a call or an answer; else it sends one */
	bool reply, one_way;    /* of what it sends */
	int32_t to_pid, to_tid; /* of what it sends; to_tid 0: whichever thread is free */
};

/* One row of `gfxinfo framestats`. A time that the dump does not have is 0. */
struct trace_frame_stats {
	int32_t pid;
	const char *package, *window; /* not terminated; size 0: not known */
	size_t package_size, window_size;
	unsigned section; /* of this process, from 0: rows of two windows are never one sequence */
	int64_t intended_ns, completed_ns, deadline_ns, interval_ns, present_ns;
};

/* The counters that `gfxinfo` prints of a process since its statistics were reset. */
enum gfx_counter {
	GFX_TOTAL = 0,
	GFX_JANKY,
	GFX_JANKY_LEGACY,
	GFX_P50_MS,
	GFX_P90_MS,
	GFX_P95_MS,
	GFX_P99_MS,
	GFX_MISSED_VSYNC,
	GFX_HIGH_INPUT_LATENCY,
	GFX_SLOW_UI,
	GFX_SLOW_BITMAPS,
	GFX_SLOW_DRAW,
	GFX_DEADLINE_MISSED,
	GFX_COUNTERS,
};

struct trace_gfx_summary {
	int32_t pid;
	const char *package; /* not terminated */
	size_t package_size;
	int64_t counters[GFX_COUNTERS]; /* -1: the dump does not have it */
};

/* Every member may be NULL: then nobody wants these events and the reader may skip them. */
struct trace_events {
	/* False: it cannot be used, and is counted by whom it was told. */
	bool (*timeline)(void *ctx, const struct timeline_event *event);
	/* CLOCK_BOOTTIME of a time of the trace's own machine in CLOCK_MONOTONIC, by who knows it
	 * better than the snapshots of the trace. False, or NULL: nobody does. */
	bool (*boot_of)(void *ctx, int64_t mono_ns, int64_t *boot_ns);
	void (*mark)(void *ctx, const struct trace_mark *mark);
	void (*sched_switch)(void *ctx, const struct trace_switch *event);
	void (*wakeup)(void *ctx, const struct trace_wakeup *event);
	void (*blocked)(void *ctx, const struct trace_blocked *event);
	void (*binder)(void *ctx, const struct trace_binder *event);
	/* name: cmdline[0]; uid -1: not known. */
	void (*process)(void *ctx, int32_t pid, int64_t uid, const char *name, size_t size);
	void (*thread)(void *ctx, int32_t tid, int32_t tgid, const char *name, size_t size);
	void (*package)(void *ctx, uint32_t uid, const char *name, size_t size);
	/* Something is missing from the trace or was ignored; the reason is a fixed lower-case
	 * word. */
	void (*loss)(void *ctx, const char *reason, uint64_t count);
	/* One buffer of `dumpsys --latency` or of framestats, already in present order. */
	void (*present)(void *ctx, int64_t desired_ns, int64_t present_ns, int64_t ready_ns);
	void (*period)(void *ctx, int64_t period_ns);
	void (*frame_stats)(void *ctx, const struct trace_frame_stats *row);
	void (*gfx_summary)(void *ctx, const struct trace_gfx_summary *summary);
};
