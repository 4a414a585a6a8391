/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/analysis_private.h"
#include "frames/period.h"
#include "frames/sort.h"
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHANGES 10000

static bool is_package(const struct analysis *a, const char *name)
{
	return name && !strcmp(name, a->options.package);
}

/* A name may hold what means something in a glob ("SurfaceView[com.example/...]"): what is it to
 * the letter matches. */
static bool name_matches(const char *glob, const char *name)
{
	return !strcmp(glob, name) || !fnmatch(glob, name, 0);
}

bool analysis_wants(const struct analysis *a, const struct layer *layer)
{
	const char *glob = a->options.layer_glob;
	char package[256];

	if (glob && !name_matches(glob, layer->name) &&
	    !name_matches(glob, layer_bare_name(layer->name)))
		return false;
	return !a->options.package ||
	       is_package(a, analysis_package(a, layer, package, sizeof(package)));
}

bool analysis_wants_row(const struct analysis *a, const struct timeline_row *row)
{
	char package[256];

	if (row->has_layer)
		return analysis_wants(a, analysis_layer(a, row->layer));
	/* a display frame is of no layer, but of SurfaceFlinger's process */
	return !a->options.layer_glob &&
	       (!a->options.package ||
		is_package(a, name_table_package_of(a->names, row->machine ? -1 : row->pid, NULL,
						    package, sizeof(package))));
}

bool analysis_wants_layer(const struct analysis *a, uint32_t index)
{
	size_t count;
	const struct layer *layers = timeline_layers(a->timeline, &count);

	return index < count && analysis_wants(a, &layers[index]);
}

int32_t analysis_renderer(const struct analysis *a, int32_t pid)
{
	for (size_t i = 0; i < a->renderer_count; i++) {
		if (a->renderers[i].pid == pid)
			return a->renderers[i].tid;
	}
	return 0;
}

struct analysis *analysis_new(const struct analysis_options *options)
{
	static const struct slices_ops ops = {.app_frame = analysis_on_app_frame,
					      .draw_frame = analysis_on_draw_frame,
					      .may_draw = analysis_may_draw,
					      .latch = analysis_on_latch};
	struct timeline_options timeline_options = {
		.max_layers = ANALYSIS_MAX_LAYERS,
		.row = options->row,
		.finished = analysis_on_finished,
		.late = options->late ? analysis_on_late : NULL,
	};
	struct analysis *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->options = *options;
	a->first_ns = INT64_MAX;
	timeline_options.ctx = a;
	if (options->row)
		timeline_options.row_ctx = options->row_ctx;
	a->timeline = timeline_new(&timeline_options);
	a->slices = slices_new(&ops, a);
	a->names = name_table_new();
	a->launches = launches_new();
	if (!a->timeline || !a->slices || !a->names || !a->launches) {
		analysis_free(a);
		errno = ENOMEM;
		return NULL;
	}
	return a;
}

void analysis_free(struct analysis *a)
{
	if (!a)
		return;
	timeline_free(a->timeline);
	slices_free(a->slices);
	name_table_free(a->names);
	launches_free(a->launches);
	free(a->launched);
	free(a->changes);
	free(a->views);
	free(a);
}

static int find_changes(struct analysis *a, const int64_t *vsyncs, size_t count)
{
	struct period_steady steady;
	struct period_window window;
	size_t capacity = 0;

	period_window_init(&window, vsyncs, count, a->period_ns);
	period_steady_init(&steady, vsyncs, count);
	for (size_t i = 0; i < count && a->change_count < MAX_CHANGES; i++) {
		int64_t period_ns, last_ns = 0;

		if (a->change_count)
			last_ns = a->changes[a->change_count - 1].period_ns;
		if (last_ns && period_is_steady(&steady, vsyncs[i], last_ns))
			continue;
		period_ns = period_at(&window, vsyncs[i]);
		if (last_ns && llabs(period_ns - last_ns) <= last_ns / 10)
			continue;
		if (a->change_count == capacity) {
			struct refresh_change *changes;

			capacity = capacity ? capacity * 2 : 16;
			changes = realloc(a->changes, capacity * sizeof(*changes));
			if (!changes)
				return -ENOMEM;
			a->changes = changes;
		}
		a->changes[a->change_count++] = (struct refresh_change){vsyncs[i], period_ns};
	}
	return 0;
}

/* The period of the whole trace, from the best source that there is. */
static int find_period(struct analysis *a)
{
	size_t count, distinct;
	int64_t *vsyncs = timeline_vsyncs(a->timeline, &count);

	distinct = vsyncs ? period_sort(vsyncs, count) : 0;
	if (distinct > 1) {
		a->period_ns = period_global(vsyncs, distinct);
		a->period_source = "expected timeline";
	}
	if (!a->period_ns && slices_period(a->slices)) {
		a->period_ns = slices_period(a->slices);
		a->period_source = "vsync counters";
	}
	if (!a->period_ns && a->stated_period_ns) {
		a->period_ns = a->stated_period_ns;
		a->period_source = "stated";
	}
	if (!a->period_ns && slices_predicted_period(a->slices)) {
		a->period_ns = slices_predicted_period(a->slices);
		a->period_source = "intended vsyncs";
	}
	if (!a->period_ns) {
		a->period_ns = PERIOD_ASSUMED_NS;
		a->period_source = "assumed";
	}
	timeline_keep_vsyncs(a->timeline, distinct);
	return find_changes(a, vsyncs, distinct);
}

static int compare_views(const void *a, const void *b)
{
	const struct layer_view *x = a, *y = b;

	if (x->layer->source != y->layer->source)
		return x->layer->source < y->layer->source ? -1 : 1;
	/* what an app drew: a container's rows are transactions that hold no buffer */
	if (x->drawn != y->drawn)
		return x->drawn > y->drawn ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* Whether a frame of a layer comes before FrameTimeline has them too. */
static bool not_covered(const struct frame *frames, size_t count, int64_t covered_ns)
{
	return count && frames[0].present_ns < covered_ns;
}

/* Frames of one layer, by present: is one of them the first that a launch of its package showed?
 * From covered_ns on FrameTimeline has them, and knows when they were on the screen. */
static void find_first_frames(struct analysis *a, const struct layer *layer,
			      const struct frame *frames, size_t count, int64_t covered_ns)
{
	char buffer[256];
	const char *package =
		a->launched_count ? analysis_package(a, layer, buffer, sizeof(buffer)) : NULL;

	for (size_t n = 0; package && n < a->launched_count; n++) {
		struct launch *launch = &a->launched[n];
		int64_t until_ns = launch->first_frame_ns ?: covered_ns;

		if (strcmp(package, launch->package))
			continue;
		for (size_t i = 0; i < count && frames[i].present_ns < until_ns; i++) {
			if (frames[i].present_ns < launch->start_ns ||
			    frames[i].flags & (FRAME_DROPPED | FRAME_NO_BUFFER))
				continue;
			if (frames[i].present_ns < covered_ns)
				launch->first_frame_ns = frames[i].present_ns;
			break;
		}
	}
}

static int make_views(struct analysis *a)
{
	size_t layer_count, frame_count, at = 0;
	struct layer *layers = timeline_layers(a->timeline, &layer_count);
	struct frame *frames = timeline_frames(a->timeline, &frame_count);
	struct layer_covers covers = {NULL};

	a->views = calloc(layer_count ? layer_count : 1, sizeof(*a->views));
	if (!a->views || layer_covers_add(&covers, layers, layer_count)) {
		layer_covers_free(&covers);
		return -ENOMEM;
	}
	sort_frames(frames, frame_count);
	for (size_t i = 0; i < layer_count; i++) {
		size_t first = at;
		int64_t covered_ns;

		while (at < frame_count && frames[at].layer == i)
			at++;
		covered_ns = layer_covered_from(&covers, &layers[i]);
		find_first_frames(a, &layers[i], frames ? frames + first : NULL, at - first,
				  covered_ns);
		if (!layers[i].rows &&
		    !not_covered(frames ? frames + first : NULL, at - first, covered_ns))
			continue;
		if (!analysis_wants(a, &layers[i])) {
			a->left_out++;
			continue;
		}
		a->views[a->view_count++] = (struct layer_view){
			.layer = &layers[i],
			.frames = frames ? frames + first : NULL,
			.count = at - first,
			.drawn =
				layers[i].source == LAYER_TIMELINE ? layers[i].buffers : at - first,
			.covered_ns = covered_ns,
			.sm = slices_sm(a->slices, layers[i].pid),
		};
	}
	layer_covers_free(&covers);
	qsort(a->views, a->view_count, sizeof(a->views[0]), compare_views);
	return 0;
}

static const char *process_name(void *ctx, int32_t pid)
{
	return analysis_process(ctx, pid);
}

static int take_launches(struct analysis *a)
{
	struct launch launch, *grown;
	size_t at = 0;

	while (launches_next(a->launches, process_name, a, &at, &launch)) {
		if (a->options.package && strcmp(a->options.package, launch.package))
			continue;
		grown = realloc(a->launched, (a->launched_count + 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		a->launched = grown;
		a->launched[a->launched_count++] = launch;
	}
	analysis_events()->loss(a, "launches_over_limit", launches_lost(a->launches));
	return 0;
}

int analysis_finish(struct analysis *a)
{
	int err = a->err;

	if (!err)
		err = timeline_finish(a->timeline);
	if (!err)
		err = slices_finish(a->slices);
	if (!err)
		err = a->err;
	if (!err)
		err = find_period(a);
	/* half a refresh late is still on time */
	while (a->worst_count && a->worst[a->worst_count - 1].late_ns < a->period_ns / 2)
		a->worst_count--;
	for (size_t i = 0; i < a->worst_count; i++)
		a->worst[i].late.render_tid = analysis_renderer(a, a->worst[i].late.pid);
	if (!err)
		err = take_launches(a);
	return err ? err : make_views(a);
}

const struct layer_view *analysis_layers(const struct analysis *a, size_t *count)
{
	*count = a->view_count;
	return a->views;
}

size_t analysis_left_out(const struct analysis *a)
{
	return a->left_out;
}

static int take_sm(struct layer_metrics *m, const struct sm *sm)
{
	struct sm_low *lows = NULL;

	if (sm->low_count) {
		lows = malloc(sm->low_count * sizeof(*lows));
		if (!lows)
			return -ENOMEM;
		memcpy(lows, sm->lows, sm->low_count * sizeof(*lows));
	}
	free(m->sm_lows);
	m->sm_lows = lows;
	m->sm_low_count = sm->low_count;
	m->has_sm = true;
	m->sm_estimated = false;
	m->sm_mean = sm->sum / (double)sm->evaluations;
	m->sm_min = sm->min;
	m->sm_big_janks = sm->big_janks;
	return 0;
}

int analysis_metrics(struct analysis *a, const struct layer_view *view,
		     struct layer_metrics *metrics)
{
	struct metrics_input input = {
		.frames = view->frames,
		.count = view->count,
		.period_ns = a->period_ns,
		.default_ns = a->stated_period_ns ? a->stated_period_ns : PERIOD_ASSUMED_NS,
		.covered_ns = view->covered_ns,
		.unpredicted = view->layer->source != LAYER_TIMELINE,
	};
	int err;

	/* a dump has no times of its own for it; record reads none */
	if (view->layer->source == LAYER_DUMP)
		input.default_ns = a->period_ns;
	input.vsyncs_ns = timeline_vsyncs(a->timeline, &input.vsync_count);
	err = layer_metrics_compute(metrics, &input);
	a->duplicates += metrics->duplicates;
	if (!err && view->sm)
		err = take_sm(metrics, view->sm);
	return err;
}

const struct gfx_summary *analysis_gfx(const struct analysis *a, size_t *count)
{
	*count = a->gfx_count;
	return a->gfx;
}

const struct launch *analysis_launches(const struct analysis *a, size_t *count)
{
	*count = a->launched_count;
	return a->launched;
}

bool analysis_focus(const struct analysis *a, struct focus *focus)
{
	return launches_focus(a->launches, process_name, (void *)a, focus);
}

int64_t analysis_first_ns(const struct analysis *a)
{
	return a->first_ns;
}

uint64_t analysis_duplicates(const struct analysis *a)
{
	return a->duplicates;
}

struct worst_frame *analysis_worst(struct analysis *a, size_t *count)
{
	*count = a->worst_count;
	return a->worst;
}

const struct refresh_change *analysis_refresh(const struct analysis *a, size_t *count)
{
	*count = a->change_count;
	return a->changes;
}

int64_t analysis_period(const struct analysis *a, const char **source)
{
	*source = a->period_source;
	return a->period_ns;
}

const struct loss_counter *analysis_losses(const struct analysis *a, size_t *count)
{
	*count = a->loss_count;
	return a->losses;
}

const struct timeline_counts *analysis_counts(const struct analysis *a)
{
	return timeline_counts(a->timeline);
}

const struct slices_counts *analysis_slices(const struct analysis *a)
{
	return slices_counts(a->slices);
}

const struct layer *analysis_layer(const struct analysis *a, uint32_t index)
{
	size_t count;

	return &timeline_layers(a->timeline, &count)[index];
}

const char *analysis_package(const struct analysis *a, const struct layer *layer, char *buffer,
			     size_t size)
{
	return name_table_package_of(a->names, layer->machine ? -1 : layer->pid, layer->name,
				     buffer, size);
}

const char *analysis_process(const struct analysis *a, int32_t pid)
{
	return name_table_process_name(a->names, pid);
}
