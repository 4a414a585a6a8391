/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/late_why_private.h"
#include "frames/slice_names.h"

static void on_slice(void *ctx, const struct app_slice *slice)
{
	struct late_why *why = ctx;
	struct sched_span span = {slice->start_ns, slice->end_ns, slice->tid, 0};

	switch (slice->meaning) {
	case MEANS_QUEUE_BUFFER:
		why->queued[(uint32_t)slice->tid % QUEUES].tid = slice->tid;
		why->queued[(uint32_t)slice->tid % QUEUES].end_ns = slice->end_ns;
		return;
	case MEANS_LOCK:
		span.reason = LOOPER_REASON_FUTEX;
		break;
	case MEANS_GPU_WAIT:
		span.reason = SPELL_REASON_GPU;
		break;
	case MEANS_DEQUEUE:
		span.reason = SPELL_REASON_BUFFER;
		break;
	case MEANS_CALL:
		span.reason = LOOPER_REASON_BINDER;
		break;
	default:
		return;
	}
	sched_log_span(why->log, &span);
}

/* The first frame of that process with that key, of several layers; count: there is none. */
static size_t frame_at(const struct late_why *why, int32_t pid, int64_t key)
{
	size_t low = 0, high = why->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct late *late = why->by_key[middle];

		if (late->row.pid < pid || (late->row.pid == pid && late->key < key))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of(const struct late_why *why, size_t at, int32_t pid, int64_t key)
{
	return at < why->count && why->by_key[at]->row.pid == pid && why->by_key[at]->key == key;
}

/* Tokens come again where SurfaceFlinger has started anew. */
static bool is_amid(const struct app_slice *slice, const struct late *late)
{
	return slice->start_ns < late->end_ns && slice->end_ns > late->begin_ns;
}

static void hand_over(struct late_why *why, const struct app_slice *slice, int64_t key)
{
	for (size_t i = frame_at(why, slice->pid, key); is_of(why, i, slice->pid, key); i++)
		if (is_amid(slice, why->by_key[i]))
			why->by_key[i]->handed_ns = slice->end_ns;
}

/* The main thread is done with its frame. */
static void on_do_frame(void *ctx, const struct app_slice *slice)
{
	hand_over(ctx, slice, slice->id);
	hand_over(ctx, slice, slice->start_ns);
}

static void on_draw_frame(void *ctx, const struct app_slice *slice)
{
	struct late_why *why = ctx;
	size_t slot = (uint32_t)slice->tid % QUEUES;

	if (why->queued[slot].tid != slice->tid || why->queued[slot].end_ns < slice->start_ns)
		return;
	for (size_t i = frame_at(why, slice->pid, slice->id); is_of(why, i, slice->pid, slice->id);
	     i++)
		if (is_amid(slice, why->by_key[i]))
			why->by_key[i]->queued_ns = why->queued[slot].end_ns;
}

const struct slices_ops *late_why_slices(void)
{
	static const struct slices_ops ops = {
		.slice = on_slice, .do_frame = on_do_frame, .draw_frame = on_draw_frame};

	return &ops;
}

static void on_mark(void *ctx, const struct trace_mark *mark)
{
	struct late_why *why = ctx;

	if (!why->err)
		why->err = slices_add(why->slices, mark);
}

static void on_switch(void *ctx, const struct trace_switch *event)
{
	sched_log_switch(((struct late_why *)ctx)->log, event);
}

static void on_wakeup(void *ctx, const struct trace_wakeup *event)
{
	sched_log_wakeup(((struct late_why *)ctx)->log, event);
}

static void on_blocked(void *ctx, const struct trace_blocked *event)
{
	sched_log_blocked(((struct late_why *)ctx)->log, event);
}

static void on_binder(void *ctx, const struct trace_binder *event)
{
	sched_log_binder(((struct late_why *)ctx)->log, event);
}

const struct trace_events *late_why_events(void)
{
	static const struct trace_events events = {
		.mark = on_mark,
		.sched_switch = on_switch,
		.wakeup = on_wakeup,
		.blocked = on_blocked,
		.binder = on_binder,
	};

	return &events;
}
