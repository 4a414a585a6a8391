/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/timeline_private.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TANGLE 64 /* events of one cookie that are sorted out together */
#define MAX_TS     (INT64_MAX - 10000000000LL)

static int index_init(struct index *index)
{
	index->ring = calloc(WINDOW, sizeof(*index->ring));
	index->heads = calloc(HEADS, sizeof(*index->heads));
	return index->ring && index->heads ? 0 : -ENOMEM;
}

static void index_free(struct index *index)
{
	free(index->ring);
	free(index->heads);
}

/* The newest entry of a token, or NULL. */
static struct mark *index_find(const struct index *index, uint32_t machine, int32_t pid,
			       int64_t token)
{
	struct mark *mark = index_at(index, *index_head(index, machine, pid, token));

	for (unsigned n = 0; n < MAX_CHAIN && mark; n++, mark = index_at(index, mark->older)) {
		if (mark->token == token && mark->pid == pid && mark->machine == machine)
			return mark;
	}
	return NULL;
}

static uint32_t index_number(const struct index *index, int32_t pid, const struct slot *slot,
			     int64_t token)
{
	const struct mark *mark = index_find(index, slot->machine, pid, token);
	uint32_t place = mark ? (uint32_t)(mark - index->ring) : 0;

	/* the number at this place that is not above the last */
	return mark ? (uint32_t)index->last - (((uint32_t)index->last - place) % WINDOW) : 0;
}

static uint32_t index_add(struct index *index, const struct slot *slot, int32_t pid)
{
	uint32_t *head = index_head(index, slot->machine, pid, slot->token);
	struct mark *same = index_find(index, slot->machine, pid, slot->token);
	uint64_t number = ++index->last;

	if (same)
		same->repeated = true;
	index->ring[number % WINDOW] = (struct mark){
		.token = slot->token,
		.ts_ns = slot->ts_ns,
		.end_ns = TIMELINE_NONE,
		.older = *head,
		.pid = pid,
		.machine = slot->machine,
		.dropped = slot->present_type == PRESENT_DROPPED,
		.repeated = same != NULL,
	};
	*head = (uint32_t)number;
	return (uint32_t)number;
}

/* The end of a row, or TIMELINE_NONE; what is joined with it sees the same. */
static void set_end(struct timeline *t, struct slot *slot, int64_t end_ns, uint32_t order)
{
	struct index *index = timeline_index(t, slot->kind);
	struct mark *mark = index ? index_at(index, slot->mark) : NULL;

	slot->end_ns = end_ns;
	slot->end_order = order;
	if (mark)
		mark->end_ns = end_ns;
	if (slot->kind != TIMELINE_ACTUAL_DISPLAY || slot->present_type == PRESENT_DROPPED ||
	    end_ns == TIMELINE_NONE)
		return;
	if (!t->first_shown_ns || end_ns < t->first_shown_ns)
		t->first_shown_ns = end_ns;
	if (end_ns > t->last_shown_ns)
		t->last_shown_ns = end_ns;
}

struct timeline *timeline_new(const struct timeline_options *options)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->options = *options;
	t->layers.max = options->max_layers;
	t->ring = calloc(WINDOW, sizeof(*t->ring));
	t->heads = calloc(HEADS, sizeof(*t->heads));
	if (!t->ring || !t->heads || index_init(&t->expected_display) ||
	    index_init(&t->actual_display) || index_init(&t->expected_surface)) {
		timeline_free(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

void timeline_free(struct timeline *t)
{
	if (!t)
		return;
	layer_table_free(&t->layers);
	index_free(&t->expected_display);
	index_free(&t->actual_display);
	index_free(&t->expected_surface);
	free(t->ring);
	free(t->heads);
	free(t->frames);
	free(t->vsyncs);
	free(t);
}

static uint32_t *slot_head(const struct timeline *t, uint32_t machine, int64_t cookie)
{
	/* as index_head */
	return &t->heads[((uint64_t)cookie + hash_u64(machine)) % HEADS];
}

/* The newest slot of that cookie, from this number back. */
static struct slot *find_slot(const struct timeline *t, uint32_t number, uint32_t machine,
			      int64_t cookie)
{
	struct slot *slot;

	for (unsigned n = 0; n < MAX_CHAIN && (slot = slot_at(t, number)); n++) {
		if (slot->cookie == cookie && slot->machine == machine && slot->kind != KIND_FREE)
			return slot;
		number = slot->older;
	}
	return NULL;
}

static int new_slot(struct timeline *t, uint32_t machine, int64_t cookie, struct slot **slot)
{
	uint32_t *head = slot_head(t, machine, cookie);
	uint64_t number;
	int err = 0;

	if (t->last - t->settled == WINDOW - 1)
		err = timeline_settle_oldest(t);
	if (err)
		return err;
	number = ++t->last;
	*slot = &t->ring[number % WINDOW];
	**slot = (struct slot){
		.cookie = cookie,
		.machine = machine,
		.older = *head,
		.end_ns = TIMELINE_NONE,
		.layer = UINT32_MAX,
	};
	*head = (uint32_t)number;
	return 0;
}

struct tangle {
	int64_t ts_ns;
	uint32_t order;
	struct slot *slot;
	bool end;
};

static int tangle_compare(const void *a, const void *b)
{
	const struct tangle *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	/* both are in the window: far less than half of the numbers lies between them */
	return x->order == y->order ? 0 : (int32_t)(x->order - y->order) < 0 ? -1 : 1;
}

/* One cookie's events came out of the order of their times, or the cookie was used again: pair
 * them anew. In the sorted sequence an end closes the start right before it, nothing else. */
static int untangle(struct timeline *t, uint32_t machine, int64_t cookie)
{
	struct tangle events[2 * MAX_TANGLE] = {{0}};
	uint32_t number = *slot_head(t, machine, cookie);
	struct slot *slot, *spare[MAX_TANGLE];
	size_t count = 0, spares = 0;

	while (count < 2 * MAX_TANGLE - 1 && (slot = find_slot(t, number, machine, cookie))) {
		slot->tangled = true;
		if (slot->kind == TIMELINE_END) {
			events[count++] =
				(struct tangle){slot->end_ns, slot->end_order, slot, true};
			if (spares < MAX_TANGLE)
				spare[spares++] = slot;
		} else {
			events[count++] = (struct tangle){slot->ts_ns, slot->order, slot, false};
			if (slot->end_ns != TIMELINE_NONE)
				events[count++] =
					(struct tangle){slot->end_ns, slot->end_order, slot, true};
			set_end(t, slot, TIMELINE_NONE, 0);
		}
		number = slot->older;
	}
	for (size_t i = 0; i < spares; i++)
		spare[i]->kind = KIND_FREE;
	qsort(events, count, sizeof(events[0]), tangle_compare);
	for (size_t i = 0; i < count; i++) {
		if (!events[i].end)
			continue;
		if (i && !events[i - 1].end) {
			set_end(t, events[i - 1].slot, events[i].ts_ns, events[i].order);
			continue;
		}
		if (spares) {
			slot = spare[--spares];
		} else {
			int err = new_slot(t, machine, cookie, &slot);

			if (err)
				return err;
		}
		slot->kind = TIMELINE_END;
		slot->tangled = true;
		slot->end_ns = events[i].ts_ns;
		slot->end_order = events[i].order;
	}
	return 0;
}

static int add_end(struct timeline *t, const struct timeline_event *event)
{
	struct slot *slot = find_slot(t, *slot_head(t, event->machine, event->cookie),
				      event->machine, event->cookie);
	bool tangled = false;
	int err;

	if (slot && !slot->tangled && slot->kind != TIMELINE_END && slot->ts_ns <= event->ts_ns &&
	    slot->end_ns == TIMELINE_NONE) {
		set_end(t, slot, event->ts_ns, (uint32_t)t->order);
		return 0;
	}
	if (slot)
		tangled = true;
	err = new_slot(t, event->machine, event->cookie, &slot);
	if (err)
		return err;
	slot->kind = TIMELINE_END;
	slot->end_ns = event->ts_ns;
	slot->end_order = (uint32_t)t->order;
	return tangled ? untangle(t, event->machine, event->cookie) : 0;
}

static int add_start(struct timeline *t, const struct timeline_event *event)
{
	struct slot *older, *slot;
	bool surface = event->kind >= TIMELINE_EXPECTED_SURFACE, tangled = false;
	struct index *index = timeline_index(t, (uint8_t)event->kind);
	int32_t key_pid = event->kind == TIMELINE_EXPECTED_SURFACE ? event->pid : 0;
	int err;

	older = find_slot(t, *slot_head(t, event->machine, event->cookie), event->machine,
			  event->cookie);
	if (older) {
		int64_t last_ns = older->kind == TIMELINE_END || older->end_ns != TIMELINE_NONE
					  ? older->end_ns
					  : older->ts_ns;

		tangled = older->tangled || last_ns > event->ts_ns;
	}
	err = new_slot(t, event->machine, event->cookie, &slot);
	if (err)
		return err;
	slot->kind = (uint8_t)event->kind;
	slot->ts_ns = event->ts_ns;
	slot->token = event->token;
	slot->display_token = surface ? event->display_token : event->token;
	slot->order = (uint32_t)t->order;
	slot->pid = event->pid;
	slot->jank = event->jank;
	slot->is_buffer = event->is_buffer;
	slot->on_time = event->on_time;
	slot->gpu = event->gpu;
	slot->has_severity = event->has_severity;
	slot->has_name = event->layer != NULL;
	slot->present_type =
		event->present_type <= PRESENT_UNKNOWN ? (uint8_t)event->present_type : 0;
	slot->prediction_type =
		event->prediction_type <= PREDICTION_UNKNOWN ? (uint8_t)event->prediction_type : 0;
	slot->severity = event->severity < 4 ? (uint8_t)event->severity : 0;
	t->counts.unknown_enums += event->present_type > PRESENT_UNKNOWN ||
				   event->prediction_type > PREDICTION_UNKNOWN ||
				   event->severity > 3;
	if (event->kind == TIMELINE_ACTUAL_SURFACE) {
		slot->layer = timeline_layer(t, event->machine, event->pid, event->layer,
					     event->layer_size);
		if (slot->layer != UINT32_MAX &&
		    event->ts_ns < t->layers.items[slot->layer].first_row_ns)
			t->layers.items[slot->layer].first_row_ns = event->ts_ns;
		/* they mostly came right before, and are still in the nearest cache */
		slot->shown = index_number(&t->actual_display, 0, slot, slot->display_token);
		slot->due = index_number(&t->expected_display, 0, slot, slot->display_token);
		slot->expected = index_number(&t->expected_surface, slot->pid, slot, slot->token);
	}
	if (event->kind == TIMELINE_ACTUAL_DISPLAY || event->kind == TIMELINE_ACTUAL_SURFACE)
		t->counts.actual++;
	else if (event->kind == TIMELINE_EXPECTED_DISPLAY ||
		 !timeline_find_mark(index, event->machine, key_pid, event->token, event->ts_ns))
		t->counts.expected++; /* one a token and process, as trace_processor keeps them */
	if (index)
		slot->mark = index_add(index, slot, key_pid);
	return tangled ? untangle(t, event->machine, event->cookie) : 0;
}

int timeline_add(struct timeline *t, const struct timeline_event *event)
{
	bool surface =
		event->kind == TIMELINE_EXPECTED_SURFACE || event->kind == TIMELINE_ACTUAL_SURFACE;

	t->order++;
	/* an invalid present fence was written as -1 by Android 12 and 13 */
	if (!event->has_cookie || event->ts_ns < 0 || event->ts_ns >= MAX_TS ||
	    (event->kind != TIMELINE_END && (!event->has_token || !event->has_pid)) ||
	    (surface && !event->has_display_token)) {
		t->counts.rejected++;
		return TIMELINE_REJECTED;
	}
	return event->kind == TIMELINE_END ? add_end(t, event) : add_start(t, event);
}

int timeline_settle(struct timeline *t, int64_t before_ns)
{
	int err = 0;

	while (!err && t->settled < t->last) {
		const struct slot *slot = &t->ring[(t->settled + 1) % WINDOW];
		int64_t ts_ns = slot->kind == TIMELINE_END ? slot->end_ns : slot->ts_ns;

		if (slot->kind != KIND_FREE && ts_ns >= before_ns)
			break;
		err = timeline_settle_oldest(t);
	}
	return err;
}

uint64_t timeline_newest(const struct timeline *t)
{
	return t->last;
}

int timeline_settle_to(struct timeline *t, uint64_t number)
{
	int err = 0;

	while (!err && t->settled < number && t->settled < t->last)
		err = timeline_settle_oldest(t);
	return err;
}

int timeline_finish(struct timeline *t)
{
	return timeline_settle(t, INT64_MAX);
}

uint32_t timeline_layer(struct timeline *t, uint32_t machine, int32_t pid, const char *name,
			size_t size)
{
	uint32_t layer = layer_table_get(&t->layers, machine, pid, name, size);

	t->counts.layers_lost = t->layers.lost;
	return layer;
}

struct layer *timeline_layers(const struct timeline *t, size_t *count)
{
	*count = t->layers.count;
	return t->layers.items;
}

struct frame *timeline_frames(const struct timeline *t, size_t *count)
{
	*count = t->frame_count;
	return t->frames;
}

int64_t *timeline_vsyncs(const struct timeline *t, size_t *count)
{
	*count = t->vsync_count;
	return t->vsyncs;
}

void timeline_keep_vsyncs(struct timeline *t, size_t count)
{
	t->vsync_count = count < t->vsync_count ? count : t->vsync_count;
}

void timeline_take(struct timeline *t, size_t keep_frames, size_t first_vsync)
{
	if (keep_frames < t->frame_count)
		t->frame_count = keep_frames;
	if (first_vsync > t->vsync_count)
		first_vsync = t->vsync_count;
	t->vsync_count -= first_vsync;
	if (first_vsync)
		memmove(t->vsyncs, t->vsyncs + first_vsync, t->vsync_count * sizeof(t->vsyncs[0]));
}

bool timeline_shown(const struct timeline *t, int64_t *first_ns, int64_t *last_ns)
{
	*first_ns = t->first_shown_ns;
	*last_ns = t->last_shown_ns;
	return t->first_shown_ns != 0;
}

const struct timeline_counts *timeline_counts(const struct timeline *t)
{
	return &t->counts;
}

struct timeline_late timeline_late_doframe(int64_t start_ns, int64_t end_ns, int64_t period_ns,
					   int32_t pid, uint32_t layer)
{
	return (struct timeline_late){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.token = -1,
		.display_token = -1,
		.expected_start_ns = start_ns,
		.expected_end_ns = start_ns + period_ns,
		.present_ns = TIMELINE_NONE,
		.predicted_ns = TIMELINE_NONE,
		.compose_start_ns = TIMELINE_NONE,
		.compose_due_ns = TIMELINE_NONE,
		.pid = pid,
		.layer = layer,
	};
}
