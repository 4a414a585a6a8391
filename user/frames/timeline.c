/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/timeline.h"
#include "util/hash.h"
#include <errno.h>
#include <stdlib.h>

#ifdef FRAMES_SMALL_WINDOWS /* fuzzing: reach the ends of the rings, and start fast */
#define WINDOW 64
#else
#define WINDOW 16384 /* rows that may still change: a quarter of a minute at 120 Hz */
#endif
#define HEADS                                                                                \
	(4 * WINDOW)  /* so many that most chains have one entry: each further one is a miss \
		       */
#define MAX_TANGLE 64 /* events of one cookie that are sorted out together */
#define MAX_CHAIN  64
#define MAX_NAME   1024
#define MAX_TS     (INT64_MAX - 10000000000LL)
#define SAME_TOKEN 5000000000LL /* a token comes again when SurfaceFlinger restarts */
#define KIND_FREE  0

/* A row that may still change, or an end without a start. */
struct slot {
	int64_t ts_ns, end_ns, cookie, token, display_token;
	uint64_t order, end_order; /* of the start and the end in the trace */
	uint64_t older;            /* the next older slot in the chain of this cookie's hash */
	uint64_t mark;             /* the entry of this row in the index of its kind */
	int32_t pid;
	uint32_t machine, layer, jank;
	uint8_t kind, present_type, prediction_type, severity;
	int8_t is_buffer;
	bool on_time, gpu, has_severity, tangled;
};

/* Times of a row by its token; outlives the slot. */
struct mark {
	int64_t token, ts_ns, end_ns;
	uint64_t slot, older;
	int32_t pid;
	uint32_t machine;
	uint8_t present_type;
};

/* Rings: entry n lies at n % WINDOW and is gone when the ring went round. Numbers start at 1. */
struct index {
	struct mark *ring;
	uint64_t *heads;
	uint64_t last;
};

struct timeline {
	struct timeline_options options;
	struct slot *ring;
	uint64_t *heads;
	uint64_t last, settled; /* number of the newest slot, and of the newest settled one */
	uint64_t order;
	struct index expected_display, actual_display, expected_surface;
	struct layer *layers;
	uint32_t *layer_table;
	size_t layer_count, layer_capacity, layer_table_size, last_layer;
	struct frame *frames;
	size_t frame_count, frame_capacity;
	int64_t *vsyncs;
	size_t vsync_count, vsync_capacity;
	struct timeline_counts counts;
};

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

static uint64_t *index_head(const struct index *index, uint32_t machine, int32_t pid, int64_t token)
{
	/* tokens count up: neighbours stay neighbours, which the caches like */
	uint64_t block = hash_u64((uint64_t)token >> 10 ^ (uint64_t)(uint32_t)pid << 32 ^ machine);

	return &index->heads[((uint64_t)token + block) % HEADS];
}

static struct mark *index_at(const struct index *index, uint64_t number)
{
	if (!number || number + WINDOW <= index->last)
		return NULL;
	return &index->ring[number % WINDOW];
}

static uint64_t index_add(struct index *index, const struct slot *slot, uint64_t slot_number,
			  int32_t pid)
{
	uint64_t *head = index_head(index, slot->machine, pid, slot->token);
	uint64_t number = ++index->last;

	index->ring[number % WINDOW] = (struct mark){
		.token = slot->token,
		.ts_ns = slot->ts_ns,
		.end_ns = TIMELINE_NONE,
		.slot = slot_number,
		.older = *head,
		.pid = pid,
		.machine = slot->machine,
		.present_type = slot->present_type,
	};
	*head = number;
	return number;
}

struct timeline *timeline_new(const struct timeline_options *options)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->options = *options;
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
	for (size_t i = 0; i < t->layer_count; i++)
		free(t->layers[i].name);
	index_free(&t->expected_display);
	index_free(&t->actual_display);
	index_free(&t->expected_surface);
	free(t->ring);
	free(t->heads);
	free(t->layers);
	free(t->layer_table);
	free(t->frames);
	free(t->vsyncs);
	free(t);
}

/* ---- layers ---- */

static bool is_layer(const struct layer *layer, uint32_t machine, int32_t pid, const char *name,
		     size_t size)
{
	return layer->pid == pid && layer->machine == machine && layer->name_size == size &&
	       !memcmp(layer->name, name, size);
}

static int layers_grow(struct timeline *t)
{
	size_t table_size = t->layer_table_size ? t->layer_table_size * 2 : 64;
	size_t capacity = table_size / 2;
	struct layer *layers = realloc(t->layers, capacity * sizeof(*layers));
	uint32_t *table;

	if (!layers)
		return -ENOMEM;
	t->layers = layers;
	table = calloc(table_size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < t->layer_count; i++) {
		size_t at = t->layers[i].hash % table_size;

		while (table[at])
			at = (at + 1) % table_size;
		table[at] = (uint32_t)i + 1;
	}
	free(t->layer_table);
	t->layer_table = table;
	t->layer_table_size = table_size;
	t->layer_capacity = capacity;
	return 0;
}

uint32_t timeline_layer(struct timeline *t, uint32_t machine, int32_t pid, const char *name,
			size_t size)
{
	struct layer *layer;
	uint32_t hash;
	size_t at;

	size = size < MAX_NAME ? size : MAX_NAME;
	if (!name)
		name = "";
	if (t->layer_count && is_layer(&t->layers[t->last_layer], machine, pid, name, size))
		return (uint32_t)t->last_layer;
	hash = (uint32_t)hash_bytes(name, size, (uint64_t)machine << 32 | (uint32_t)pid);
	for (at = t->layer_table_size ? hash % t->layer_table_size : 0;
	     t->layer_table_size && t->layer_table[at]; at = (at + 1) % t->layer_table_size) {
		size_t found = t->layer_table[at] - 1;

		if (t->layers[found].hash == hash &&
		    is_layer(&t->layers[found], machine, pid, name, size)) {
			t->last_layer = found;
			return (uint32_t)found;
		}
	}
	if (t->layer_count >= t->options.max_layers) {
		t->counts.layers_lost++;
		return UINT32_MAX;
	}
	if (t->layer_count == t->layer_capacity) {
		if (layers_grow(t))
			return UINT32_MAX;
		for (at = hash % t->layer_table_size; t->layer_table[at];
		     at = (at + 1) % t->layer_table_size)
			;
	}
	layer = &t->layers[t->layer_count];
	memset(layer, 0, sizeof(*layer));
	layer->name = malloc(size + 1);
	if (!layer->name)
		return UINT32_MAX;
	memcpy(layer->name, name, size);
	layer->name[size] = 0;
	layer->name_size = (uint32_t)size;
	layer->machine = machine;
	layer->pid = pid;
	layer->hash = hash;
	t->layer_table[at] = (uint32_t)++t->layer_count;
	t->last_layer = t->layer_count - 1;
	return (uint32_t)t->last_layer;
}

void layer_count_causes(struct layer *layer, uint32_t jank, bool dropped)
{
	const uint32_t app = JANK_APP_DEADLINE | JANK_APP_RESYNC;
	const uint32_t sf = JANK_SF_SCHEDULING | JANK_SF_CPU | JANK_SF_GPU | JANK_SF_STUFFING;
	const uint32_t hw = JANK_PREDICTION_ERROR | JANK_DISPLAY_HAL;
	const uint32_t hidden =
		JANK_NON_ANIMATING | JANK_DISPLAY_OFF | JANK_MODE_CHANGE | JANK_POWER_MODE;

	layer->rows++;
	for (unsigned bit = 0; bit < 16; bit++)
		layer->jank_rows[bit] += jank >> bit & 1;
	if (jank & FRAME_JANK_MASK & ~(uint32_t)JANK_NONE)
		layer->janky++;
	if (jank & hidden)
		layer->cause_non_perceivable++;
	layer->cause_app += (jank & app) != 0;
	layer->cause_sf += (jank & sf) != 0;
	layer->cause_hw += (jank & hw) != 0;
	layer->cause_sf_perfetto += (jank & ((sf & ~(uint32_t)JANK_SF_STUFFING) | hw)) != 0;
	layer->cause_stuffing += jank == JANK_BUFFER_STUFFING;
	layer->cause_dropped += jank & JANK_DROPPED || dropped;
	layer->cause_unknown += (jank & JANK_UNKNOWN) != 0;
}

/* ---- settled rows ---- */

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

/* The slot with this number, or NULL when it was settled. */
static struct slot *slot_at(const struct timeline *t, uint64_t number)
{
	return number > t->settled ? &t->ring[number % WINDOW] : NULL;
}

static int64_t mark_end(const struct timeline *t, const struct mark *mark)
{
	const struct slot *slot = slot_at(t, mark->slot);

	return slot ? slot->end_ns : mark->end_ns;
}

/* The best entry of a token near a time: one close by before one far away, then one that was
 * presented and has an end, then the first in the trace. */
static struct mark *find_mark(const struct timeline *t, const struct index *index, uint32_t machine,
			      int32_t pid, int64_t token, int64_t near_ns)
{
	uint64_t number = *index_head(index, machine, pid, token);
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
			bool shown = mark->present_type != PRESENT_DROPPED &&
				     mark_end(t, mark) != TIMELINE_NONE;
			int rank = (near ? 2 : 0) + (shown ? 1 : 0);

			if (rank >= best_rank) {
				best_rank = rank;
				best = mark;
			}
		}
	}
	return best;
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
	layer = &t->layers[slot->layer];
	layer_count_causes(layer, slot->jank, slot->present_type == PRESENT_DROPPED);
	if (slot->has_severity)
		layer->severity[slot->severity & 3]++;
	if (slot->present_type == PRESENT_DROPPED) {
		layer->dropped++;
		return 0;
	}
	shown = find_mark(t, &t->actual_display, slot->machine, 0, slot->display_token,
			  slot->ts_ns);
	if (!shown) {
		layer->no_display++;
		return 0;
	}
	frame.present_ns = mark_end(t, shown);
	if (frame.present_ns == TIMELINE_NONE) {
		layer->unfinished++;
		return 0;
	}
	due = find_mark(t, &t->expected_display, slot->machine, 0, slot->display_token,
			slot->ts_ns);
	expected = find_mark(t, &t->expected_surface, slot->machine, slot->pid, slot->token,
			     slot->ts_ns);
	due_end = due ? mark_end(t, due) : TIMELINE_NONE;
	expected_end = expected ? mark_end(t, expected) : TIMELINE_NONE;
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
		.order = slot->order,
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
	};

	t->options.row(t->options.row_ctx, &row);
}

static struct index *index_of(struct timeline *t, uint8_t kind)
{
	switch (kind) {
	case TIMELINE_EXPECTED_DISPLAY:
		return &t->expected_display;
	case TIMELINE_ACTUAL_DISPLAY:
		return &t->actual_display;
	case TIMELINE_EXPECTED_SURFACE:
		return &t->expected_surface;
	}
	return NULL;
}

/* The oldest slot leaves the window. */
static int settle_oldest(struct timeline *t)
{
	uint64_t number = t->settled + 1;
	struct slot *slot = &t->ring[number % WINDOW];
	struct index *index = index_of(t, slot->kind);
	int err = 0;

	if (slot->kind == TIMELINE_END)
		t->counts.unpaired_ends++;
	else if (slot->kind != KIND_FREE && slot->end_ns == TIMELINE_NONE)
		t->counts.unpaired++;
	if (index) {
		struct mark *mark = index_at(index, slot->mark);

		if (mark)
			mark->end_ns = slot->end_ns;
	}
	if (slot->kind == TIMELINE_EXPECTED_DISPLAY && slot->end_ns != TIMELINE_NONE)
		err = add_vsync(t, slot->end_ns);
	if (slot->kind == TIMELINE_ACTUAL_SURFACE)
		err = settle_surface(t, slot);
	if (t->options.row &&
	    (slot->kind == TIMELINE_ACTUAL_SURFACE || slot->kind == TIMELINE_ACTUAL_DISPLAY))
		hand_out_row(t, slot);
	t->settled = number;
	return err;
}

/* ---- pairing ---- */

static uint64_t *slot_head(const struct timeline *t, uint32_t machine, int64_t cookie)
{
	/* as above */
	uint64_t block = hash_u64((uint64_t)cookie >> 10 ^ (uint64_t)machine << 32);

	return &t->heads[((uint64_t)cookie + block) % HEADS];
}

/* The newest slot of that cookie, from this number back. */
static struct slot *find_slot(const struct timeline *t, uint64_t number, uint32_t machine,
			      int64_t cookie, uint64_t *found)
{
	struct slot *slot;

	for (unsigned n = 0; n < MAX_CHAIN && (slot = slot_at(t, number)); n++) {
		if (slot->cookie == cookie && slot->machine == machine && slot->kind != KIND_FREE) {
			*found = number;
			return slot;
		}
		number = slot->older;
	}
	return NULL;
}

static int new_slot(struct timeline *t, uint32_t machine, int64_t cookie, struct slot **slot,
		    uint64_t *number)
{
	uint64_t *head = slot_head(t, machine, cookie);
	int err = 0;

	if (t->last - t->settled == WINDOW - 1)
		err = settle_oldest(t);
	if (err)
		return err;
	*number = ++t->last;
	*slot = &t->ring[*number % WINDOW];
	**slot = (struct slot){
		.cookie = cookie,
		.machine = machine,
		.older = *head,
		.end_ns = TIMELINE_NONE,
		.layer = UINT32_MAX,
	};
	*head = *number;
	return 0;
}

struct tangle {
	int64_t ts_ns;
	uint64_t order;
	struct slot *slot;
	bool end;
};

static int tangle_compare(const void *a, const void *b)
{
	const struct tangle *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* One cookie's events came out of the order of their times, or the cookie was used again: pair
 * them anew. In the sorted sequence an end closes the start right before it, nothing else. */
static int untangle(struct timeline *t, uint32_t machine, int64_t cookie)
{
	struct tangle events[2 * MAX_TANGLE] = {{0}};
	uint64_t number = *slot_head(t, machine, cookie);
	struct slot *slot, *spare[MAX_TANGLE];
	size_t count = 0, spares = 0;

	while (count < 2 * MAX_TANGLE - 1 &&
	       (slot = find_slot(t, number, machine, cookie, &number))) {
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
			slot->end_ns = TIMELINE_NONE;
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
			events[i - 1].slot->end_ns = events[i].ts_ns;
			events[i - 1].slot->end_order = events[i].order;
			continue;
		}
		if (spares) {
			slot = spare[--spares];
		} else {
			uint64_t unused;
			int err = new_slot(t, machine, cookie, &slot, &unused);

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
	uint64_t found, number;
	struct slot *slot = find_slot(t, *slot_head(t, event->machine, event->cookie),
				      event->machine, event->cookie, &found);
	bool tangled = false;
	int err;

	if (slot && !slot->tangled && slot->kind != TIMELINE_END && slot->ts_ns <= event->ts_ns &&
	    slot->end_ns == TIMELINE_NONE) {
		slot->end_ns = event->ts_ns;
		slot->end_order = t->order;
		return 0;
	}
	if (slot)
		tangled = true;
	err = new_slot(t, event->machine, event->cookie, &slot, &number);
	if (err)
		return err;
	slot->kind = TIMELINE_END;
	slot->end_ns = event->ts_ns;
	slot->end_order = t->order;
	return tangled ? untangle(t, event->machine, event->cookie) : 0;
}

static int add_start(struct timeline *t, const struct timeline_event *event)
{
	struct slot *older, *slot;
	uint64_t found, number;
	bool surface = event->kind >= TIMELINE_EXPECTED_SURFACE, tangled = false;
	struct index *index = index_of(t, (uint8_t)event->kind);
	int32_t key_pid = event->kind == TIMELINE_EXPECTED_SURFACE ? event->pid : 0;
	int err;

	older = find_slot(t, *slot_head(t, event->machine, event->cookie), event->machine,
			  event->cookie, &found);
	if (older) {
		int64_t last_ns = older->kind == TIMELINE_END || older->end_ns != TIMELINE_NONE
					  ? older->end_ns
					  : older->ts_ns;

		tangled = older->tangled || last_ns > event->ts_ns;
	}
	err = new_slot(t, event->machine, event->cookie, &slot, &number);
	if (err)
		return err;
	slot->kind = (uint8_t)event->kind;
	slot->ts_ns = event->ts_ns;
	slot->token = event->token;
	slot->display_token = surface ? event->display_token : event->token;
	slot->order = t->order;
	slot->pid = event->pid;
	slot->jank = event->jank;
	slot->is_buffer = event->is_buffer;
	slot->on_time = event->on_time;
	slot->gpu = event->gpu;
	slot->has_severity = event->has_severity;
	slot->present_type =
		event->present_type <= PRESENT_UNKNOWN ? (uint8_t)event->present_type : 0;
	slot->prediction_type =
		event->prediction_type <= PREDICTION_UNKNOWN ? (uint8_t)event->prediction_type : 0;
	slot->severity = event->severity < 4 ? (uint8_t)event->severity : 0;
	t->counts.unknown_enums += event->present_type > PRESENT_UNKNOWN ||
				   event->prediction_type > PREDICTION_UNKNOWN ||
				   event->severity > 3;
	if (event->kind == TIMELINE_ACTUAL_SURFACE)
		slot->layer = timeline_layer(t, event->machine, event->pid, event->layer,
					     event->layer_size);
	if (event->kind == TIMELINE_ACTUAL_DISPLAY || event->kind == TIMELINE_ACTUAL_SURFACE)
		t->counts.actual++;
	else if (event->kind == TIMELINE_EXPECTED_DISPLAY ||
		 !find_mark(t, index, event->machine, key_pid, event->token, event->ts_ns))
		t->counts.expected++; /* one a token and process, as trace_processor keeps them */
	if (index)
		slot->mark = index_add(index, slot, number, key_pid);
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
		return 0;
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
		err = settle_oldest(t);
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
		err = settle_oldest(t);
	return err;
}

int timeline_finish(struct timeline *t)
{
	return timeline_settle(t, INT64_MAX);
}

struct layer *timeline_layers(const struct timeline *t, size_t *count)
{
	*count = t->layer_count;
	return t->layers;
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

void timeline_take(struct timeline *t, int64_t keep_ns)
{
	size_t kept = 0;

	t->frame_count = 0;
	for (size_t i = 0; i < t->vsync_count; i++) {
		if (t->vsyncs[i] >= keep_ns)
			t->vsyncs[kept++] = t->vsyncs[i];
	}
	t->vsync_count = kept;
}

const struct timeline_counts *timeline_counts(const struct timeline *t)
{
	return &t->counts;
}
