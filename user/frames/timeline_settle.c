/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows that can no longer change: joined with what they belong to, and handed out. */
#include "frames/timeline_private.h"
#include <errno.h>
#include <stdlib.h>

#define SAME_TOKEN 5000000000LL /* a token comes again when SurfaceFlinger restarts */

int timeline_add_frame(struct timeline *t, const struct frame *frame)
{
	if (t->frame_count == t->frame_capacity) {
		/* large blocks of realloc are moved by their page tables and only touched pages
		 * count, so doubling costs no memory */
		size_t capacity = t->frame_capacity ? t->frame_capacity * 2 : 4096;
		struct frame *frames = realloc(t->frames, capacity * sizeof(*frames));

		if (!frames)
			return -ENOMEM;
		t->frames = frames;
		t->frame_capacity = capacity;
	}
	t->frames[t->frame_count++] = *frame;
	return 0;
}

static int add_vsync(struct timeline *t, int64_t present_ns)
{
	if (t->vsync_count == t->vsync_capacity) {
		size_t capacity = t->vsync_capacity ? t->vsync_capacity * 2 : 4096;
		int64_t *vsyncs = realloc(t->vsyncs, capacity * sizeof(*vsyncs));

		if (!vsyncs)
			return -ENOMEM;
		t->vsyncs = vsyncs;
		t->vsync_capacity = capacity;
	}
	t->vsyncs[t->vsync_count++] = present_ns;
	return 0;
}

struct mark *timeline_find_mark(const struct index *index, uint32_t machine, int32_t pid,
				int64_t token, int64_t near_ns)
{
	uint32_t number = *index_head(index, machine, pid, token);
	struct mark *best = NULL, *mark;
	int best_rank = -1;

	for (unsigned n = 0; n < MAX_CHAIN && (mark = index_at(index, number)); n++) {
		bool near =
			mark->ts_ns > near_ns - SAME_TOKEN && mark->ts_ns < near_ns + SAME_TOKEN;

		number = mark->older;
		if (mark->token != token || mark->pid != pid || mark->machine != machine)
			continue;
		if (best && !near)
			break; /* the chain goes back in time */
		{
			bool shown = !mark->dropped && mark->end_ns != TIMELINE_NONE;
			int rank = (near ? 2 : 0) + (shown ? 1 : 0);

			if (rank >= best_rank) {
				best_rank = rank;
				best = mark;
			}
		}
	}
	return best;
}

/* What timeline_find_mark finds, at once where the entry that was there first is the only one. */
static const struct mark *join(const struct index *index, uint32_t number, const struct slot *slot,
			       int32_t pid, int64_t token)
{
	const struct mark *mark = index_at(index, number);

	if (mark && !mark->repeated)
		return mark;
	return timeline_find_mark(index, slot->machine, pid, token, slot->ts_ns);
}

/* A frame that was never shown: a refresh at which the app wanted to show something. Without it a
 * row of dropped frames would look like idle time. */
static int add_dropped(struct timeline *t, const struct slot *slot)
{
	const struct mark *due, *expected;
	struct frame frame = {
		.predicted_ns = TIMELINE_NONE,
		.work_ns = TIMELINE_NONE,
		.cookie = slot->cookie,
		.layer = slot->layer,
		.flags = (slot->jank & FRAME_JANK_MASK) | FRAME_DROPPED,
	};
	int64_t compose_ns = t->compose_ns;

	/* a property that nobody animates asks for no refresh of its own */
	if (slot->is_buffer == 0)
		return 0;
	due = join(&t->expected_display, slot->due, slot, 0, slot->display_token);
	expected = join(&t->expected_surface, slot->expected, slot, slot->pid, slot->token);
	if (due && due->end_ns != TIMELINE_NONE)
		compose_ns = due->end_ns - due->ts_ns;
	if (!expected || expected->end_ns == TIMELINE_NONE ||
	    __builtin_add_overflow(expected->end_ns, compose_ns, &frame.present_ns))
		return 0;
	frame.predicted_ns = frame.present_ns;
	return timeline_add_frame(t, &frame);
}

static void tell_late(struct timeline *t, const struct slot *slot)
{
	const struct mark *shown, *due, *expected;
	struct timeline_late late = {
		.start_ns = slot->ts_ns,
		.end_ns = slot->end_ns,
		.token = slot->token,
		.display_token = slot->display_token,
		.expected_start_ns = TIMELINE_NONE,
		.expected_end_ns = TIMELINE_NONE,
		.present_ns = TIMELINE_NONE,
		.predicted_ns = TIMELINE_NONE,
		.compose_start_ns = TIMELINE_NONE,
		.compose_due_ns = TIMELINE_NONE,
		.pid = slot->pid,
		.machine = slot->machine,
		.layer = slot->layer,
		.jank = slot->jank,
		.dropped = slot->present_type == PRESENT_DROPPED,
		.is_row = true,
	};

	shown = join(&t->actual_display, slot->shown, slot, 0, slot->display_token);
	due = join(&t->expected_display, slot->due, slot, 0, slot->display_token);
	expected = join(&t->expected_surface, slot->expected, slot, slot->pid, slot->token);
	if (expected) {
		late.expected_start_ns = expected->ts_ns;
		late.expected_end_ns = expected->end_ns;
	}
	if (shown) {
		late.compose_start_ns = shown->ts_ns;
		late.present_ns = shown->end_ns;
	}
	if (due)
		late.compose_due_ns = due->ts_ns;
	if (due && due->end_ns != TIMELINE_NONE && late.expected_end_ns != TIMELINE_NONE &&
	    __builtin_add_overflow(late.expected_end_ns, due->end_ns - due->ts_ns,
				   &late.predicted_ns))
		late.predicted_ns = TIMELINE_NONE;
	t->options.late(t->options.ctx, &late);
}

static int settle_surface(struct timeline *t, const struct slot *slot)
{
	const struct mark *shown, *due, *expected;
	struct timeline_finished finished;
	struct layer *layer;
	struct frame frame;
	int64_t due_end, expected_end;
	int err;

	if (slot->layer == UINT32_MAX)
		return 0;
	layer = &t->layers.items[slot->layer];
	layer_count_causes(layer, slot->jank, slot->present_type == PRESENT_DROPPED);
	if (slot->has_severity)
		layer->severity[slot->severity & 3]++;
	if (t->options.late && slot->end_ns != TIMELINE_NONE &&
	    (slot->present_type == PRESENT_DROPPED || slot->present_type == PRESENT_LATE))
		tell_late(t, slot);
	if (slot->present_type == PRESENT_DROPPED) {
		layer->dropped++;
		return add_dropped(t, slot);
	}
	shown = join(&t->actual_display, slot->shown, slot, 0, slot->display_token);
	if (!shown) {
		layer->no_display++;
		return 0;
	}
	frame.present_ns = shown->end_ns;
	if (frame.present_ns == TIMELINE_NONE) {
		layer->unfinished++;
		return 0;
	}
	due = join(&t->expected_display, slot->due, slot, 0, slot->display_token);
	expected = join(&t->expected_surface, slot->expected, slot, slot->pid, slot->token);
	due_end = due ? due->end_ns : TIMELINE_NONE;
	expected_end = expected ? expected->end_ns : TIMELINE_NONE;
	frame.predicted_ns = TIMELINE_NONE;
	frame.work_ns = TIMELINE_NONE;
	if (expected_end != TIMELINE_NONE && due_end != TIMELINE_NONE &&
	    __builtin_add_overflow(expected_end, due_end - due->ts_ns, &frame.predicted_ns))
		frame.predicted_ns = TIMELINE_NONE;
	if (expected && slot->end_ns != TIMELINE_NONE)
		frame.work_ns = slot->end_ns - expected->ts_ns;
	frame.cookie = slot->cookie;
	frame.layer = slot->layer;
	frame.flags = slot->jank & FRAME_JANK_MASK;
	if (slot->is_buffer == 0) {
		frame.flags |= FRAME_NO_BUFFER;
		layer->no_buffer++;
	}
	layer->buffers += slot->is_buffer != 0;
	if (slot->present_type == PRESENT_LATE)
		frame.flags |= FRAME_LATE;
	err = timeline_add_frame(t, &frame);
	if (err || !t->options.finished || slot->end_ns == TIMELINE_NONE)
		return err;
	finished = (struct timeline_finished){
		.frame = &frame,
		.start_ns = slot->ts_ns,
		.end_ns = slot->end_ns,
		.token = slot->token,
		.expected_start_ns = expected ? expected->ts_ns : TIMELINE_NONE,
		.expected_end_ns = expected_end,
		.pid = slot->pid,
		.machine = slot->machine,
	};
	t->options.finished(t->options.ctx, &finished);
	return 0;
}

static void hand_out_row(struct timeline *t, const struct slot *slot)
{
	struct timeline_row row = {
		.ts_ns = slot->ts_ns,
		.dur_ns = slot->end_ns == TIMELINE_NONE ? -1 : slot->end_ns - slot->ts_ns,
		.token = slot->token,
		.display_token = slot->display_token,
		.order = t->order - (uint32_t)((uint32_t)t->order - slot->order),
		.pid = slot->pid,
		.machine = slot->machine,
		.layer = slot->layer,
		.jank = slot->jank,
		.present_type = slot->present_type,
		.prediction_type = slot->prediction_type,
		.severity = slot->severity,
		.surface = slot->kind == TIMELINE_ACTUAL_SURFACE,
		.on_time = slot->on_time,
		.gpu = slot->gpu,
		.has_severity = slot->has_severity,
		.has_layer = slot->layer != UINT32_MAX,
		.has_name = slot->has_name,
	};

	t->options.row(t->options.row_ctx, &row);
}

/* The rings are larger than the nearer caches: ask for what one of the next rows is joined with. */
static void prefetch_joins(const struct timeline *t, uint64_t number)
{
	const struct slot *slot = &t->ring[number % WINDOW];

	if (number > t->last || slot->kind != TIMELINE_ACTUAL_SURFACE)
		return;
	__builtin_prefetch(&t->actual_display.ring[slot->shown % WINDOW]);
	__builtin_prefetch(&t->expected_display.ring[slot->due % WINDOW]);
	__builtin_prefetch(&t->expected_surface.ring[slot->expected % WINDOW]);
}

int timeline_settle_oldest(struct timeline *t)
{
	uint64_t number = t->settled + 1;
	struct slot *slot = &t->ring[number % WINDOW];
	int err = 0;

	if (slot->kind == TIMELINE_END)
		t->counts.unpaired_ends++;
	else if (slot->kind != KIND_FREE && slot->end_ns == TIMELINE_NONE)
		t->counts.unpaired++;
	prefetch_joins(t, number + 8);
	if (slot->kind == TIMELINE_EXPECTED_DISPLAY && slot->end_ns != TIMELINE_NONE) {
		t->compose_ns = slot->end_ns - slot->ts_ns;
		err = add_vsync(t, slot->end_ns);
	}
	if (slot->kind == TIMELINE_ACTUAL_SURFACE)
		err = settle_surface(t, slot);
	if (t->options.row &&
	    (slot->kind == TIMELINE_ACTUAL_SURFACE || slot->kind == TIMELINE_ACTUAL_DISPLAY))
		hand_out_row(t, slot);
	t->settled = number;
	return err;
}
