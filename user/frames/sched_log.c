/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/sched_log_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 4096
#ifdef FRAMES_SMALL_WINDOWS /* as in timeline.c */
#define MAX_ITEMS  64
#define MAX_SPANS  16
#define MAX_GAPS   4
#define MAX_BEFORE 64
#else
#define MAX_ITEMS  524288 /* of each list: 12 MiB */
#define MAX_SPANS  131072
#define MAX_GAPS   4096
#define MAX_BEFORE 393216 /* windows of all threads: 40 MiB */
#endif

static const struct sched_before nothing = {.entering.ts_ns = INT64_MIN,
					    .waking.ts_ns = INT64_MIN,
					    .vanished.ts_ns = INT64_MIN,
					    .binder.ts_ns = INT64_MIN,
					    .lost_ns = INT64_MAX};

struct sched_log *sched_log_new(const struct sched_window *all, size_t count,
				const struct thread_table *threads)
{
	struct sched_log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->all = all;
	log->all_count = count;
	log->names = threads;
	log->first_ns = INT64_MAX;
	log->last_ns = INT64_MIN;
	for (size_t i = 0; i < SCHED_CPUS; i++)
		log->cpus[i].tid = -1;
	return log;
}

void sched_log_free(struct sched_log *log)
{
	struct sched_thread *thread, *next;

	if (!log)
		return;
	HASH_ITER (hh, log->threads, thread, next) {
		HASH_DEL(log->threads, thread);
		free(thread->before);
		free(thread);
	}
	free(log->by_index);
	free(log->entries.items);
	free(log->runs.items);
	free(log->spans.items);
	free(log->gaps.items);
	free(log->calls.items);
	free(log->receipts.items);
	free(log);
}

int sched_log_watch(struct sched_log *log, int32_t tid, const struct sched_window *windows,
		    size_t count)
{
	struct sched_thread *thread, **grown;

	if (log->thread_count == MAX_THREADS || tid <= 0) {
		log->counts.lost += tid > 0;
		return 0;
	}
	thread = calloc(1, sizeof(*thread));
	grown = realloc(log->by_index, (log->thread_count + 1) * sizeof(struct sched_thread *));
	if (grown)
		log->by_index = grown;
	if (!thread || !grown) {
		free(thread);
		return -ENOMEM;
	}
	thread->tid = tid;
	thread->windows = windows;
	thread->window_count = count;
	thread->first = log->thread_count; /* its number, until the entries are sorted */
	log->by_index[log->thread_count++] = thread;
	HASH_ADD_INT(log->threads, tid, thread);
	return 0;
}

size_t sched_window_at(const struct sched_window *windows, size_t count, int64_t ts_ns)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (windows[middle].end_ns <= ts_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* False: there is no room, or no memory (log->err). */
static bool append(struct sched_log *log, struct sched_list *list, const void *item, size_t size,
		   size_t max)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 64;
		void *items;

		if (list->count >= max)
			return false;
		items = realloc(list->items, capacity * size);
		if (!items) {
			log->err = -ENOMEM;
			return false;
		}
		list->items = items;
		list->capacity = capacity;
	}
	memcpy((char *)list->items + list->count++ * size, item, size);
	return true;
}

static bool newer(const struct sched_entry *entry, const struct sched_entry *than)
{
	return entry->ts_ns > than->ts_ns ||
	       (entry->ts_ns == than->ts_ns && entry->order > than->order);
}

/* The place of the last entry of such a kind; NULL: nobody asks for it. */
static struct sched_entry *last_of(struct sched_before *before, uint8_t kind)
{
	switch ((enum sched_kind)kind) {
	case SCHED_IN:
	case SCHED_OUT:
		return &before->entering;
	case SCHED_WAKE:
		return &before->waking;
	case SCHED_CALL:
	case SCHED_ANSWER:
		return &before->binder;
	case SCHED_VANISH:
		return &before->vanished;
	case SCHED_BLOCKED:
	case SCHED_KINDS:
		break;
	}
	return NULL;
}

/* Differences of such times fit. */
static bool possible(int64_t ts_ns)
{
	return ts_ns >= 0 && ts_ns < 1LL << 61;
}

/* With its first event. False: there is no room, or no memory (log->err). */
static bool has_before(struct sched_log *log, struct sched_thread *thread)
{
	if (thread->before)
		return true;
	if (thread->window_count > MAX_BEFORE - log->before_count)
		return false;
	thread->before = calloc(thread->window_count, sizeof(*thread->before));
	if (!thread->before) {
		log->err = -ENOMEM;
		return false;
	}
	for (size_t i = 0; i < thread->window_count; i++)
		thread->before[i] = nothing;
	log->before_count += thread->window_count;
	return true;
}

/* An event of a thread: into its window, or it is what was last before the next one. */
static void note(struct sched_log *log, int32_t tid, struct sched_entry entry)
{
	struct sched_thread *thread;
	struct sched_before *before;
	struct sched_entry *last;
	size_t at;

	HASH_FIND_INT(log->threads, &tid, thread);
	if (!thread || !possible(entry.ts_ns))
		return;
	at = sched_window_at(thread->windows, thread->window_count, entry.ts_ns);
	if (at == thread->window_count)
		return;
	if (!has_before(log, thread)) {
		log->counts.lost += entry.ts_ns >= thread->windows[at].begin_ns;
		return;
	}
	before = &thread->before[at];
	entry.order = log->order++;
	entry.thread = (uint32_t)thread->first;
	if (entry.ts_ns >= thread->windows[at].begin_ns) {
		if (append(log, &log->entries, &entry, sizeof(entry), MAX_ITEMS))
			return;
		if (entry.ts_ns < before->lost_ns)
			before->lost_ns = entry.ts_ns;
		log->counts.lost++;
		return;
	}
	last = last_of(before, entry.kind);
	if (last && newer(&entry, last))
		*last = entry;
}

static void note_run(struct sched_log *log, int32_t cpu, int64_t begin_ns, int64_t end_ns,
		     int32_t tid)
{
	struct sched_run run = {begin_ns, end_ns, tid, cpu};
	size_t at;

	if (tid <= 0 || begin_ns >= end_ns)
		return;
	at = sched_window_at(log->all, log->all_count, begin_ns);
	if (at < log->all_count && log->all[at].begin_ns < end_ns &&
	    !append(log, &log->runs, &run, sizeof(run), MAX_ITEMS))
		log->counts.lost++;
}

/* Bits of the kernel's prev_state (TASK_REPORT, since 4.14), or the letter of a text. What is dead
 * is in no state. */
static uint8_t state_of(int64_t prev_state)
{
	if (prev_state < 0)
		return SPELL_UNKNOWN;
	if (prev_state >= 'A' && prev_state <= 'z') {
		if (strchr("DKI", (int)prev_state))
			return SPELL_UNINTERRUPTIBLE;
		if (strchr("Tt", (int)prev_state))
			return SPELL_STOPPED;
		return strchr("XZx", (int)prev_state) ? SPELL_UNKNOWN : SPELL_SLEEPING;
	}
	if (!(prev_state & 0xff))
		return SPELL_RUNNABLE;
	if (prev_state & 0x30)
		return SPELL_UNKNOWN;
	if (prev_state & 0x0c)
		return SPELL_STOPPED;
	return prev_state & 0x82 ? SPELL_UNINTERRUPTIBLE : SPELL_SLEEPING;
}

void sched_log_switch(struct sched_log *log, const struct trace_switch *event)
{
	struct sched_entry entry = {.ts_ns = event->ts_ns, .cpu = (int16_t)event->cpu};
	struct sched_cpu *cpu;
	int64_t since_ns;

	if (event->cpu < 0 || event->cpu >= SCHED_CPUS || !possible(event->ts_ns))
		return;
	cpu = &log->cpus[event->cpu];
	log->counts.switches++;
	if (event->ts_ns < log->first_ns)
		log->first_ns = event->ts_ns;
	if (event->ts_ns > log->last_ns)
		log->last_ns = event->ts_ns;
	/* The gap of a CPU that had no event yet begins with the first event of another CPU. */
	since_ns = cpu->tid >= 0 ? cpu->since_ns : log->first_ns;
	if (event->lost && event->ts_ns > since_ns) {
		struct sched_window gap = {since_ns, event->ts_ns};
		size_t at = sched_window_at(log->all, log->all_count, gap.begin_ns);

		if (at < log->all_count && log->all[at].begin_ns < gap.end_ns) {
			log->counts.gaps++;
			append(log, &log->gaps, &gap, sizeof(gap), MAX_GAPS);
		}
	} else if (cpu->tid >= 0 && (event->prev_tid < 0 || event->prev_tid == cpu->tid)) {
		note_run(log, event->cpu, cpu->since_ns, event->ts_ns, cpu->tid);
	}
	/* Without a word some kernels hide switches too. */
	if (cpu->tid > 0 && event->prev_tid != cpu->tid && (event->lost || event->prev_tid >= 0)) {
		entry.kind = SCHED_VANISH;
		note(log, cpu->tid, entry);
	}
	cpu->since_ns = event->ts_ns;
	cpu->tid = event->next_tid;
	if (event->prev_tid > 0) {
		entry.kind = SCHED_OUT;
		entry.state = state_of(event->prev_state);
		note(log, event->prev_tid, entry);
	}
	if (event->next_tid > 0) {
		entry.kind = SCHED_IN;
		note(log, event->next_tid, entry);
	}
}

void sched_log_wakeup(struct sched_log *log, const struct trace_wakeup *event)
{
	note(log, event->tid,
	     (struct sched_entry){.ts_ns = event->ts_ns,
				  .kind = SCHED_WAKE,
				  .other = event->interrupt ? 0 : event->waker_tid,
				  .cpu = (int16_t)event->cpu});
}

void sched_log_blocked(struct sched_log *log, const struct trace_blocked *event)
{
	note(log, event->tid,
	     (struct sched_entry){
		     .ts_ns = event->ts_ns, .kind = SCHED_BLOCKED, .state = event->io_wait});
}

/* Who sent a call, or who took one: in any order, they meet by its id. */
static void note_call(struct sched_log *log, const struct trace_binder *event)
{
	struct sched_call call = {event->id, event->ts_ns, INT64_MAX, event->tid, event->to_pid, 0};
	struct sched_receipt receipt = {event->id, event->ts_ns, event->tid};
	struct sched_thread *thread;
	size_t at = sched_window_at(log->all, log->all_count, event->ts_ns);
	bool room = true;

	if (!event->id || !possible(event->ts_ns) || at == log->all_count ||
	    log->all[at].begin_ns > event->ts_ns)
		return;
	HASH_FIND_INT(log->threads, &event->tid, thread);
	if (event->received)
		room = append(log, &log->receipts, &receipt, sizeof(receipt), MAX_SPANS);
	else if (thread)
		room = append(log, &log->calls, &call, sizeof(call), MAX_SPANS);
	if (!room)
		log->counts.lost++;
}

void sched_log_binder(struct sched_log *log, const struct trace_binder *event)
{
	/* an answer that it sends and a call that nobody answers are no waits */
	if (!event->received && (event->reply || event->one_way))
		return;
	note_call(log, event);
	note(log, event->tid,
	     (struct sched_entry){.ts_ns = event->ts_ns,
				  .kind = event->received ? SCHED_ANSWER : SCHED_CALL});
}

void sched_log_span(struct sched_log *log, const struct sched_span *span)
{
	struct sched_thread *thread;
	size_t at;

	HASH_FIND_INT(log->threads, &span->tid, thread);
	if (!thread || span->begin_ns >= span->end_ns)
		return;
	at = sched_window_at(thread->windows, thread->window_count, span->begin_ns);
	if (at < thread->window_count && thread->windows[at].begin_ns < span->end_ns &&
	    !append(log, &log->spans, span, sizeof(*span), MAX_SPANS))
		log->counts.lost++;
}

static int by_thread(const void *a, const void *b)
{
	const struct sched_entry *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int by_cpu(const void *a, const void *b)
{
	const struct sched_run *x = a, *y = b;

	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static int by_tid(const void *a, const void *b)
{
	const struct sched_span *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* What was last before a window may lie in the windows before it, or before those. */
static void carry_on(struct sched_thread *thread, const struct sched_entry *entries)
{
	struct sched_before last = nothing;
	size_t at = thread->first, end = thread->first + thread->count;

	for (size_t i = 0; thread->before && i < thread->window_count; i++) {
		struct sched_before *before = &thread->before[i];

		if (newer(&before->entering, &last.entering))
			last.entering = before->entering;
		if (newer(&before->waking, &last.waking))
			last.waking = before->waking;
		if (newer(&before->vanished, &last.vanished))
			last.vanished = before->vanished;
		if (newer(&before->binder, &last.binder))
			last.binder = before->binder;
		last.lost_ns = before->lost_ns;
		*before = last;
		for (; at < end && entries[at].ts_ns < thread->windows[i].end_ns; at++) {
			struct sched_entry *place = last_of(&last, entries[at].kind);

			if (place)
				*place = entries[at];
		}
		if (before->lost_ns != INT64_MAX)
			last = nothing;
	}
}

static int by_caller(const void *a, const void *b)
{
	const struct sched_call *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->sent_ns < y->sent_ns ? -1 : x->sent_ns > y->sent_ns;
}

static int by_id(const void *a, const void *b)
{
	const struct sched_receipt *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

int sched_log_finish(struct sched_log *log)
{
	const struct sched_entry *entries;
	size_t at = 0;

	/* who ran when the trace ended */
	for (int32_t i = 0; i < SCHED_CPUS; i++)
		note_run(log, i, log->cpus[i].since_ns, log->last_ns, log->cpus[i].tid);
	if (log->entries.count)
		qsort(log->entries.items, log->entries.count, sizeof(struct sched_entry),
		      by_thread);
	if (log->runs.count)
		qsort(log->runs.items, log->runs.count, sizeof(struct sched_run), by_cpu);
	if (log->spans.count)
		qsort(log->spans.items, log->spans.count, sizeof(struct sched_span), by_tid);
	if (log->calls.count)
		qsort(log->calls.items, log->calls.count, sizeof(struct sched_call), by_caller);
	if (log->receipts.count)
		qsort(log->receipts.items, log->receipts.count, sizeof(struct sched_receipt),
		      by_id);
	entries = log->entries.items;
	for (uint32_t i = 0; i < log->thread_count; i++) {
		struct sched_thread *thread = log->by_index[i];

		thread->first = at;
		while (at < log->entries.count && entries[at].thread == i)
			at++;
		thread->count = at - thread->first;
		carry_on(thread, entries);
	}
	return log->err;
}

const struct sched_log_counts *sched_log_counts(const struct sched_log *log)
{
	return &log->counts;
}

bool sched_log_has_gap(const struct sched_log *log, int64_t begin_ns, int64_t end_ns)
{
	const struct sched_window *gaps = log->gaps.items;

	/* more than are kept: it may be in any of them */
	if (log->counts.gaps > log->gaps.count)
		return true;
	for (size_t i = 0; i < log->gaps.count; i++)
		if (gaps[i].begin_ns < end_ns && gaps[i].end_ns > begin_ns)
			return true;
	return false;
}
