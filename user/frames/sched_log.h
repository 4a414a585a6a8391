/* SPDX-License-Identifier: BSD-2-Clause */
/* What the scheduler did to some threads in some windows of a trace: collected from a pass over
 * it, and handed out as spells. The states are those of trace_processor's table thread_state
 * (thread_state_tracker.cc). Events may come in any order between CPUs; memory is bounded, and from
 * the first event that finds no room its thread is unknown for the rest of its window. */
#pragma once
#include "frames/threads.h"
#include "jankscope/spell.h"
#include "jankscope/timeline.h"

/* Windows are sorted and do not touch. */
struct sched_window {
	int64_t begin_ns, end_ns;
};

/* Why a thread slept in this time: what its slices or its calls tell. */
struct sched_span {
	int64_t begin_ns, end_ns;
	int32_t tid;
	uint8_t reason; /* enum looper_reason or spell_reason */
};

struct sched_log;

/* all: every window of every thread, in which those are noted who run; the array must outlive the
 * log, and so must the table of names. NULL with errno ENOMEM. */
struct sched_log *sched_log_new(const struct sched_window *all, size_t count,
				const struct thread_table *threads);
void sched_log_free(struct sched_log *log);
/* Log this thread in these windows, which must outlive the log. Once for each thread, before the
 * first event; further threads than 4096 are not watched. 0 or -ENOMEM. */
int sched_log_watch(struct sched_log *log, int32_t tid, const struct sched_window *windows,
		    size_t count);
/* Take one event of the trace. */
void sched_log_switch(struct sched_log *log, const struct trace_switch *event);
void sched_log_wakeup(struct sched_log *log, const struct trace_wakeup *event);
void sched_log_blocked(struct sched_log *log, const struct trace_blocked *event);
void sched_log_binder(struct sched_log *log, const struct trace_binder *event);
void sched_log_span(struct sched_log *log, const struct sched_span *span);
/* All events were taken. 0 or -ENOMEM, of any of them. */
int sched_log_finish(struct sched_log *log);

struct sched_spells {
	struct spell *items; /* of the caller: zero at first, free() at last; used again */
	size_t count, capacity;
};

/* What this thread did between these times, which lie in one of its windows; what is not known has
 * no spell. A spell may begin before and end behind. 0, or -ENOMEM. */
int sched_log_spells(struct sched_log *log, int32_t tid, int64_t begin_ns, int64_t end_ns,
		     struct sched_spells *out);

/* A call of binder that a watched thread made. */
struct sched_call {
	int64_t id, sent_ns;
	int64_t taken_ns;            /* INT64_MAX: by nobody, as far as is known */
	int32_t tid, to_pid, server; /* server: the thread that took it; 0: not known */
};

/* The last call that waits for an answer which this thread sent in a window, up to a time. False:
 * none is known. */
bool sched_log_call(const struct sched_log *log, int32_t tid, int64_t ts_ns,
		    struct sched_call *call);

struct sched_log_counts {
	uint64_t switches; /* of the whole trace */
	uint64_t lost;     /* events that found no room */
	uint64_t gaps;     /* stretches of a CPU before which its events were lost, in a window */
};
const struct sched_log_counts *sched_log_counts(const struct sched_log *log);
/* Whether events of a CPU were lost between these times. */
bool sched_log_has_gap(const struct sched_log *log, int64_t begin_ns, int64_t end_ns);
