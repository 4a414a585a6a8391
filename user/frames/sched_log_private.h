/* SPDX-License-Identifier: BSD-2-Clause */
/* What collecting (sched_log.c) and handing out (sched_spells.c) share. */
#pragma once
#include "frames/sched_log.h"
#include <uthash.h>

#define SCHED_CPUS 1024 /* FTRACE_MAX_CPU */

enum sched_kind {
	SCHED_IN,      /* it runs on this CPU */
	SCHED_OUT,     /* it left it, with this state */
	SCHED_VANISH,  /* if it ran on this CPU: it does no more, and since when is not known */
	SCHED_WAKE,    /* other woke it; -1: whoever ran on this CPU */
	SCHED_BLOCKED, /* its sleep was for a disk, or not */
	SCHED_CALL,    /* binder: it waits for the answer of a call from now on */
	SCHED_ANSWER,
	SCHED_KINDS,
};

struct sched_entry {
	int64_t ts_ns;
	uint32_t order; /* in the file */
	uint32_t thread;
	int32_t other;
	int16_t cpu;
	uint8_t kind, state;
};

/* The last entry of each kind before a window; ts_ns INT64_MIN: none. */
struct sched_before {
	struct sched_entry entering, waking, vanished, binder;
	int64_t lost_ns; /* of the first event of the window that found no room; INT64_MAX: none */
};

struct sched_thread {
	int32_t tid;
	const struct sched_window *windows;
	struct sched_before *before; /* one a window; NULL: nothing of it is logged */
	size_t window_count;
	size_t first, count; /* of entries, once they are sorted */
	UT_hash_handle hh;
};

/* A thread ran on a CPU. */
struct sched_run {
	int64_t begin_ns, end_ns;
	int32_t tid, cpu;
};

/* A thread took a call, or its answer. */
struct sched_receipt {
	int64_t id, ts_ns;
	int32_t tid;
};

struct sched_list {
	void *items;
	size_t count, capacity;
};

struct sched_log {
	const struct sched_window *all;
	size_t all_count;
	const struct thread_table *names;
	struct sched_thread *threads; /* hash by tid */
	struct sched_thread **by_index;
	uint32_t thread_count;
	size_t before_count;
	struct sched_list entries, runs, spans, gaps, calls, receipts;
	struct sched_cpu {
		int64_t since_ns;
		int32_t tid; /* who runs; -1: not known */
	} cpus[SCHED_CPUS];
	uint32_t order;
	int64_t first_ns, last_ns; /* of all switches */
	struct sched_log_counts counts;
	int err;
};

/* The window that a time is in or that comes next; count: there is none. */
size_t sched_window_at(const struct sched_window *windows, size_t count, int64_t ts_ns);
