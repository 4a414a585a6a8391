/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/sched_log_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BACK 4096 /* entries before a window in which its state is looked for */

struct build {
	const struct sched_log *log;
	const struct sched_thread *thread;
	struct sched_spells *out;
	int64_t begin_ns, end_ns;
	/* the state that goes on */
	bool seen; /* there was one before */
	uint8_t state;
	int64_t since_ns;
	int16_t cpu;     /* of a wait: not told until it runs */
	int64_t call_ns; /* it waits for an answer since then; INT64_MIN: it does not */
	const struct sched_entry *early_wake; /* the last that woke it for nothing */
	bool io_wait;                         /* told of the sleep that goes on */
	size_t last_sleep; /* index of the newest spell of a sleep; SIZE_MAX: none */
};

static int put(struct build *build, const struct spell *spell)
{
	struct sched_spells *out = build->out;

	if (spell->begin_ns >= spell->end_ns)
		return 0;
	if (out->count == out->capacity) {
		size_t capacity = out->capacity ? out->capacity * 2 : 64;
		struct spell *items = realloc(out->items, capacity * sizeof(*items));

		if (!items)
			return -ENOMEM;
		out->items = items;
		out->capacity = capacity;
	}
	out->items[out->count++] = *spell;
	return 0;
}

static void name(const struct build *build, struct spell_thread *to, int32_t tid, int64_t ts_ns)
{
	if (tid > 0 && !thread_table_at(build->log->names, tid, ts_ns, to))
		to->tid = tid;
}

/* The run on a CPU that goes on at a time, or else the next one; the count of runs: none. */
static size_t run_at(const struct sched_log *log, int32_t cpu, int64_t ts_ns)
{
	const struct sched_run *runs = log->runs.items;
	size_t low = 0, high = log->runs.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (runs[middle].cpu < cpu ||
		    (runs[middle].cpu == cpu && runs[middle].end_ns <= ts_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low < log->runs.count && runs[low].cpu == cpu ? low : log->runs.count;
}

/* A wait for a CPU: one spell for each thread that ran there meanwhile. */
static int put_wait(struct build *build, struct spell spell)
{
	const struct sched_log *log = build->log;
	const struct sched_run *runs = log->runs.items;
	int64_t end_ns = spell.end_ns;
	int err = 0;

	/* only what is asked for is divided */
	if (spell.begin_ns < build->begin_ns)
		spell.begin_ns = build->begin_ns;
	for (size_t i = spell.cpu < 0 ? log->runs.count : run_at(log, spell.cpu, spell.begin_ns);
	     i < log->runs.count && runs[i].cpu == spell.cpu && runs[i].begin_ns < end_ns && !err;
	     i++) {
		spell.end_ns = runs[i].begin_ns;
		err = put(build, &spell);
		if (runs[i].begin_ns > spell.begin_ns)
			spell.begin_ns = runs[i].begin_ns;
		spell.end_ns = runs[i].end_ns < end_ns ? runs[i].end_ns : end_ns;
		name(build, &spell.other, runs[i].tid, spell.begin_ns);
		if (!err)
			err = put(build, &spell);
		spell.other = (struct spell_thread){0};
		if (spell.end_ns > spell.begin_ns)
			spell.begin_ns = spell.end_ns;
	}
	spell.end_ns = end_ns;
	return err ? err : put(build, &spell);
}

/* What its slices say about a sleep: the innermost one that it began in. */
static uint8_t reason_of(const struct build *build, int64_t ts_ns)
{
	const struct sched_span *spans = build->log->spans.items;
	size_t low = 0, high = build->log->spans.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spans[middle].tid < build->thread->tid ||
		    (spans[middle].tid == build->thread->tid && spans[middle].begin_ns <= ts_ns))
			low = middle + 1;
		else
			high = middle;
	}
	/* what encloses it began before it, at a distance of a few nested slices */
	for (size_t back = 0; low-- > 0 && back < 32 && spans[low].tid == build->thread->tid;
	     back++) {
		/* a call that began in a slice is the inner one */
		if (spans[low].begin_ns < build->call_ns)
			break;
		if (spans[low].end_ns > ts_ns)
			return spans[low].reason;
	}
	return build->call_ns != INT64_MIN ? LOOPER_REASON_BINDER : SPELL_REASON_UNKNOWN;
}

/* The state that went on ends. cpu: where it runs from then on, -1: it does not. */
static int end_state(struct build *build, int64_t ts_ns, int16_t cpu,
		     const struct sched_entry *wake)
{
	struct spell spell = {.begin_ns = build->since_ns,
			      .end_ns = ts_ns,
			      .state = build->state,
			      .reason = SPELL_REASON_UNKNOWN,
			      .cpu = build->cpu};

	if (build->state == SPELL_UNKNOWN || build->since_ns >= ts_ns)
		return 0;
	if (build->state == SPELL_RUNNABLE) {
		spell.cpu = cpu >= 0 ? cpu : build->cpu;
		return put_wait(build, spell);
	}
	if (build->state == SPELL_SLEEPING || build->state == SPELL_UNINTERRUPTIBLE) {
		spell.reason =
			build->io_wait ? LOOPER_REASON_IO : reason_of(build, build->since_ns);
		build->io_wait = false;
		build->last_sleep = build->out->count;
		if (wake && wake->other >= 0) {
			name(build, &spell.other, wake->other, ts_ns);
		} else if (wake) {
			const struct sched_run *runs = build->log->runs.items;
			size_t run = run_at(build->log, wake->cpu, ts_ns);

			if (run < build->log->runs.count && runs[run].begin_ns <= ts_ns)
				name(build, &spell.other, runs[run].tid, ts_ns);
		}
	}
	return put(build, &spell);
}

static bool blocked(uint8_t state)
{
	return state == SPELL_SLEEPING || state == SPELL_UNINTERRUPTIBLE || state == SPELL_STOPPED;
}

static void begin_state(struct build *build, const struct sched_entry *entry, uint8_t state)
{
	build->seen = true;
	build->state = state;
	build->since_ns = entry->ts_ns;
	build->cpu = entry->cpu;
}

static int take(struct build *build, const struct sched_entry *entry)
{
	int err = 0;

	switch ((enum sched_kind)entry->kind) {
	case SCHED_IN:
		err = end_state(build, entry->ts_ns, entry->cpu, NULL);
		begin_state(build, entry, SPELL_RUNNING);
		break;
	case SCHED_OUT:
		/* it left a CPU without having come there: what it did before was lost */
		if (build->state == SPELL_RUNNING)
			err = end_state(build, entry->ts_ns, -1, NULL);
		begin_state(build, entry, entry->state);
		/* woken by another CPU in the same nanosecond: behind it, whatever the file says */
		if (!err && blocked(build->state) && build->early_wake &&
		    build->early_wake->ts_ns == entry->ts_ns)
			build->state = SPELL_RUNNABLE;
		break;
	case SCHED_VANISH:
		if (build->state != SPELL_RUNNING || build->cpu != entry->cpu)
			break;
		/* For how long it ran is not known either. */
		begin_state(build, entry, SPELL_UNKNOWN);
		build->seen = false;
		break;
	case SCHED_WAKE:
		/* one that runs, or was woken before, is woken for nothing; one of which nothing
		 * was seen before was asleep */
		if (build->seen && !blocked(build->state)) {
			build->early_wake = entry;
			break;
		}
		err = end_state(build, entry->ts_ns, -1, entry);
		/* on which CPU it waits is only told when it runs */
		begin_state(build, entry, SPELL_RUNNABLE);
		build->cpu = -1;
		break;
	case SCHED_BLOCKED:
		/* it is told when the sleep ends, right before or behind its end */
		if (blocked(build->state))
			build->io_wait = entry->state;
		else if (entry->state && build->last_sleep < build->out->count)
			build->out->items[build->last_sleep].reason = LOOPER_REASON_IO;
		break;
	case SCHED_CALL:
		build->call_ns = entry->ts_ns;
		break;
	case SCHED_ANSWER:
		build->call_ns = INT64_MIN;
		break;
	case SCHED_KINDS:
		break;
	}
	return err;
}

/* The state at the beginning: from what was last before the window, and the entries of the window
 * that stand before `at`. */
static int begin(struct build *build, const struct sched_entry *entries, size_t at,
		 const struct sched_before *before, int64_t window_ns)
{
	bool entering = false, call = false;
	size_t first = at;
	int err = 0;

	while (first > build->thread->first && at - first < MAX_BACK &&
	       entries[first - 1].ts_ns >= window_ns && !(entering && call)) {
		uint8_t kind = entries[--first].kind;

		entering |= kind == SCHED_IN || kind == SCHED_OUT;
		call |= kind == SCHED_CALL || kind == SCHED_ANSWER;
	}
	if (!entering && at - first < MAX_BACK) {
		const struct sched_entry *waking = &before->waking, *vanished = &before->vanished;

		if (before->entering.ts_ns != INT64_MIN)
			err = take(build, &before->entering);
		if (!err && vanished->ts_ns > before->entering.ts_ns)
			err = take(build, vanished);
		if (!err && waking->ts_ns != INT64_MIN && waking->ts_ns >= vanished->ts_ns &&
		    waking->ts_ns >= before->entering.ts_ns)
			err = take(build, waking);
	}
	if (!err && !call && before->binder.ts_ns != INT64_MIN)
		err = take(build, &before->binder);
	for (; first < at && !err; first++)
		err = take(build, &entries[first]);
	return err;
}

int sched_log_spells(struct sched_log *log, int32_t tid, int64_t begin_ns, int64_t end_ns,
		     struct sched_spells *out)
{
	struct build build = {.log = log,
			      .out = out,
			      .begin_ns = begin_ns,
			      .end_ns = end_ns,
			      .call_ns = INT64_MIN,
			      .last_sleep = SIZE_MAX};
	const struct sched_entry *entries = log->entries.items;
	struct sched_thread *thread;
	size_t low, high, end, window;
	int64_t last_ns;
	int err;

	out->count = 0;
	HASH_FIND_INT(log->threads, &tid, thread);
	if (!thread || !thread->before || begin_ns >= end_ns)
		return 0;
	build.thread = thread;
	window = sched_window_at(thread->windows, thread->window_count, begin_ns);
	if (window == thread->window_count || thread->windows[window].begin_ns > begin_ns ||
	    thread->before[window].lost_ns <= begin_ns)
		return 0;
	last_ns = thread->windows[window].end_ns;
	if (last_ns > log->last_ns)
		last_ns = log->last_ns;
	if (last_ns > thread->before[window].lost_ns)
		last_ns = thread->before[window].lost_ns;
	low = thread->first;
	end = high = thread->first + thread->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entries[middle].ts_ns <= begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	err = begin(&build, entries, low, &thread->before[window],
		    thread->windows[window].begin_ns);
	for (; low < end && !err && entries[low].ts_ns <= last_ns; low++) {
		/* behind the end only until it is known what the last state was */
		if (entries[low].ts_ns >= end_ns && build.since_ns >= end_ns)
			break;
		err = take(&build, &entries[low]);
	}
	/* nothing more came until there: the state goes on */
	if (!err && build.since_ns < end_ns)
		err = end_state(&build, last_ns, -1, NULL);
	return err;
}

bool sched_log_call(const struct sched_log *log, int32_t tid, int64_t ts_ns,
		    struct sched_call *call)
{
	const struct sched_call *calls = log->calls.items;
	const struct sched_receipt *receipts = log->receipts.items;
	size_t low = 0, high = log->calls.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (calls[middle].tid < tid ||
		    (calls[middle].tid == tid && calls[middle].sent_ns <= ts_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || calls[low - 1].tid != tid)
		return false;
	*call = calls[low - 1];
	low = 0;
	high = log->receipts.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (receipts[middle].id < call->id ||
		    (receipts[middle].id == call->id && receipts[middle].ts_ns < call->sent_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < log->receipts.count && receipts[low].id == call->id) {
		call->taken_ns = receipts[low].ts_ns;
		call->server = receipts[low].tid;
	}
	return true;
}
