/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/json_text.h"
#include "verb/frames_print.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *const source_names[] = {"frametimeline", "buffer", "choreographer", "dump"};

static void put_text(FILE *out, const char *key, const char *text)
{
	fprintf(out, "\"%s\":", key);
	json_put_string(out, text, strlen(text));
}

static void put_perfdog(FILE *out, const char *key, const struct perfdog *perfdog)
{
	double drop = compat_drop_fps_per_hour(&perfdog->drop);
	double delta = compat_delta_ftime_per_hour(&perfdog->delta);

	fprintf(out, ",\"%s\":{\"jank\":%" PRIu64 ",\"big_jank\":%" PRIu64 ",\"stutter_pct\":%.3f",
		key, perfdog->jank, perfdog->big_jank, perfdog_stutter_pct(perfdog));
	if (isfinite(drop))
		fprintf(out, ",\"drop_fps_per_h\":%.3f", drop);
	if (isfinite(delta))
		fprintf(out, ",\"delta_ftime_per_h\":%.3f", delta);
	fputc('}', out);
}

static void put_sm(FILE *out, const struct layer_metrics *m)
{
	fprintf(out, ",\"sm\":{\"estimated\":%s,\"mean\":%.3f,\"min\":%u,\"low_intervals\":[",
		m->sm_estimated ? "true" : "false", m->sm_mean, m->sm_min);
	for (size_t i = 0; i < m->sm_low_count; i++) {
		const struct sm_low *low = &m->sm_lows[i];

		fprintf(out,
			"%s{\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64
			",\"min\":%u,\"mean\":%.3f}",
			i ? "," : "", low->start_ns, low->end_ns, low->min, low->mean);
	}
	fprintf(out, "],\"big_janks\":%" PRIu64 "}", m->sm_big_janks);
}

static void put_intervals(FILE *out, const struct distribution *d)
{
	fprintf(out,
		",\"interval_ns\":{\"n\":%" PRIu64 ",\"min\":%" PRId64 ",\"max\":%" PRId64
		",\"mean\":%.3f,\"p50\":%.3f,\"p90\":%.3f,\"p95\":%.3f,\"p99\":%.3f}",
		d->n, d->min, d->max, d->mean, d->p50, d->p90, d->p95, d->p99);
}

/* Numbers that only FrameTimeline knows. */
static void put_causes(FILE *out, const struct layer *layer, const struct layer_metrics *m)
{
	fprintf(out,
		",\"janky\":%u,\"jank\":{\"app\":%u,\"sf\":%u,\"hw\":%u,\"stuffing\":%u,"
		"\"dropped\":%u,\"unknown\":%u,\"non_perceivable\":%u}",
		layer->janky, layer->cause_app, layer->cause_sf, layer->cause_hw,
		layer->cause_stuffing, layer->cause_dropped, layer->cause_unknown,
		layer->cause_non_perceivable);
	/* Perfetto's stdlib: prediction errors and the HAL are SurfaceFlinger's, stuffing nobody's
	 */
	fprintf(out, ",\"jank_perfetto\":{\"app\":%u,\"sf\":%u,\"dropped\":%u}", layer->cause_app,
		layer->cause_sf_perfetto, layer->cause_dropped);
	fprintf(out,
		",\"visible_jank\":{\"total\":%" PRIu64 ",\"app\":%" PRIu64 ",\"sf\":%" PRIu64
		",\"hw\":%" PRIu64 ",\"stuffing\":%" PRIu64 ",\"dropped\":%" PRIu64
		",\"unknown\":%" PRIu64 ",\"none\":%" PRIu64 "}",
		m->visible, m->visible_app, m->visible_sf, m->visible_hw, m->visible_stuffing,
		m->visible_dropped, m->visible_unknown, m->visible_none);
	if (layer->rows)
		fprintf(out, ",\"jank_pct\":%.3f",
			100.0 * (double)layer->janky / (double)layer->rows);
	fprintf(out,
		",\"rows\":%u,\"not_shown\":{\"dropped\":%u,\"no_display\":%u,\"unfinished\":%u},"
		"\"no_buffer\":%u",
		layer->rows, layer->dropped, layer->no_display, layer->unfinished,
		layer->no_buffer);
	if (layer->severity[2] || layer->severity[3])
		fprintf(out, ",\"severity\":{\"partial\":%u,\"full\":%u}", layer->severity[2],
			layer->severity[3]);
}

static void put_layer(FILE *out, const struct frames_report *report, const struct layer_view *view,
		      const struct layer_metrics *m)
{
	const struct layer *layer = view->layer;
	char buffer[256];
	const char *package = analysis_package(report->analysis, layer, buffer, sizeof(buffer));

	putc('{', out);
	if (layer->pid >= 0)
		fprintf(out, "\"pid\":%d,", layer->pid);
	if (layer->machine)
		fprintf(out, "\"machine_id\":%u,", layer->machine);
	if (package) {
		put_text(out, "package", package);
		putc(',', out);
	}
	put_text(out, "layer", layer->name);
	fprintf(out, ",\"source\":\"%s\",\"period_ns\":%" PRId64 ",\"shown\":%" PRIu64,
		source_names[layer->source], m->period_ns, m->shown);
	if (m->shown)
		fprintf(out, ",\"segments\":%" PRIu64 ",\"duplicates\":%" PRIu64, m->segments,
			m->duplicates);
	if (m->has_fps)
		fprintf(out, ",\"fps_raw\":%.3f,\"fps_active\":%.3f", m->fps_raw, m->fps_active);
	if (m->intervals.n) {
		put_intervals(out, &m->intervals);
		fprintf(out, ",\"dropped\":%" PRIu64 ",\"dropped_interval\":%" PRIu64, m->dropped,
			m->dropped_interval);
		put_perfdog(out, "perfdog", &m->perfdog);
		put_perfdog(out, "perfdog_active", &m->perfdog_active);
	}
	if (m->worked)
		fprintf(out,
			",\"slow\":%" PRIu64 ",\"slow_60hz\":%" PRIu64 ",\"frozen\":%" PRIu64
			",\"matrix\":{\"best\":%" PRIu64 ",\"normal\":%" PRIu64
			",\"middle\":%" PRIu64 ",\"high\":%" PRIu64 ",\"frozen\":%" PRIu64
			",\"fps\":%.3f}",
			m->slow, m->slow_60, m->frozen, m->matrix[0], m->matrix[1], m->matrix[2],
			m->matrix[3], m->matrix[4], m->matrix_fps);
	if (m->has_sm)
		put_sm(out, m);
	if (layer->rows)
		put_causes(out, layer, m);
	putc('}', out);
}

static int put_layers(FILE *out, const struct frames_report *report)
{
	size_t count;
	const struct layer_view *views = analysis_layers(report->analysis, &count);

	fputs(",\"layers\":[", out);
	for (size_t i = 0; i < count; i++) {
		struct layer_metrics m;
		int err = analysis_metrics(report->analysis, &views[i], &m);

		if (err) {
			layer_metrics_free(&m);
			return err;
		}
		if (i)
			putc(',', out);
		put_layer(out, report, &views[i], &m);
		layer_metrics_free(&m);
	}
	putc(']', out);
	return 0;
}

static void put_thread(FILE *out, const char *key, const struct thread_time *time)
{
	if (time->known)
		fprintf(out,
			",\"%s\":{\"tid\":%d,\"running_ns\":%" PRId64 ",\"runnable_ns\":%" PRId64
			",\"sleeping_ns\":%" PRId64 ",\"uninterruptible_ns\":%" PRId64 "}",
			key, time->tid, time->running_ns, time->runnable_ns, time->sleeping_ns,
			time->uninterruptible_ns);
}

static void put_worst(FILE *out, const struct frames_report *report)
{
	size_t count;
	const struct worst_frame *worst = analysis_worst(report->analysis, &count);
	const char *package;
	char buffer[512];

	fputs(",\"worst\":[", out);
	for (size_t i = 0; i < count; i++) {
		const struct worst_frame *frame = &worst[i];

		fprintf(out, "%s{\"pid\":%d,", i ? "," : "", frame->late.pid);
		package = analysis_package(report->analysis,
					   analysis_layer(report->analysis, frame->layer), buffer,
					   sizeof(buffer));
		if (package) {
			put_text(out, "package", package);
			putc(',', out);
		}
		put_text(out, "layer", analysis_layer(report->analysis, frame->layer)->name);
		if (frame->late.token >= 0)
			fprintf(out, ",\"surface_frame_token\":%" PRId64, frame->late.token);
		fprintf(out,
			",\"ts_ns\":%" PRId64 ",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64
			",\"present_ns\":%" PRId64 ",\"late_ns\":%" PRId64,
			frame->ts_ns, frame->late.start_ns, frame->late.end_ns, frame->present_ns,
			frame->late_ns);
		if (frame->work_ns != TIMELINE_NONE)
			fprintf(out, ",\"work_ns\":%" PRId64, frame->work_ns);
		if (frame->jank) {
			putc(',', out);
			put_text(out, "jank_type",
				 timeline_jank_text(frame->jank, buffer, sizeof(buffer)));
		}
		if (frame->late.has_do_frame)
			fprintf(out, ",\"do_frame_ns\":%" PRId64, frame->late.do_frame_ns);
		if (frame->late.has_draw_frame)
			fprintf(out, ",\"draw_frame_ns\":%" PRId64, frame->late.draw_frame_ns);
		put_thread(out, "main", &frame->late.main);
		put_thread(out, "render", &frame->late.render);
		putc('}', out);
	}
	putc(']', out);
}

static void put_launches(FILE *out, const struct frames_report *report)
{
	size_t count;
	const struct launch *launches = analysis_launches(report->analysis, &count);
	struct focus focus;

	if (count)
		fputs(",\"launches\":[", out);
	for (size_t i = 0; i < count; i++) {
		const struct launch *launch = &launches[i];

		fprintf(out, "%s{\"number\":%" PRIu64 ",", i ? "," : "", launch->number);
		put_text(out, "package", launch->package);
		putc(',', out);
		put_text(out, "kind", launch_kind_name(launch->kind));
		fprintf(out, ",\"start_boot_ns\":%" PRId64 ",\"drawn_ns\":%" PRId64,
			launch->start_ns, launch->end_ns - launch->start_ns);
		if (launch->first_frame_ns)
			fprintf(out, ",\"first_frame_ns\":%" PRId64,
				launch->first_frame_ns - launch->start_ns);
		putc('}', out);
	}
	if (count)
		putc(']', out);
	if (analysis_focus(report->analysis, &focus)) {
		fputs(",\"focus\":{", out);
		put_text(out, "activity", focus.activity);
		fprintf(out, ",\"since_boot_ns\":%" PRId64 "}", focus.since_ns);
	}
}

/* What gfxinfo itself counted, under its own words; times are in ms. */
static void put_gfx(FILE *out, const struct frames_report *report)
{
	static const char *const keys[GFX_COUNTERS] = {
		"total",        "janky",     "janky_legacy",    "p50_ms",     "p90_ms",
		"p95_ms",       "p99_ms",    "missed_vsync",    "high_input", "slow_ui",
		"slow_bitmaps", "slow_draw", "deadline_missed",
	};
	size_t count;
	const struct gfx_summary *gfx = analysis_gfx(report->analysis, &count);

	if (!count)
		return;
	fputs(",\"gfxinfo\":[", out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%s{\"pid\":%d", i ? "," : "", gfx[i].pid);
		if (gfx[i].package[0]) {
			putc(',', out);
			put_text(out, "package", gfx[i].package);
		}
		for (unsigned k = 0; k < GFX_COUNTERS; k++) {
			if (gfx[i].counters[k] >= 0)
				fprintf(out, ",\"%s\":%" PRId64, keys[k], gfx[i].counters[k]);
		}
		putc('}', out);
	}
	putc(']', out);
}

static void put_losses(FILE *out, const struct frames_report *report)
{
	size_t count;
	const struct loss_counter *losses = analysis_losses(report->analysis, &count);

	fputs(",\"lost\":{", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", losses[i].reason, losses[i].count);
	putc('}', out);
}

int frames_print_json(FILE *out, const struct frames_report *report)
{
	const struct timeline_counts *counts = analysis_counts(report->analysis);
	const struct slices_counts *slices = analysis_slices(report->analysis);
	const struct refresh_change *changes;
	const char *source;
	int64_t period_ns = analysis_period(report->analysis, &source);
	uint64_t duplicates = 0;
	size_t count;
	int err;

	put_text(out, "trace", report->trace);
	if (report->error) {
		fprintf(out, ",\"complete\":false,");
		put_text(out, "error", report->error);
	} else {
		fprintf(out, ",\"complete\":true");
	}
	fprintf(out, ",\"period_ns\":%" PRId64 ",\"period_source\":\"%s\",\"refresh\":[", period_ns,
		source);
	changes = analysis_refresh(report->analysis, &count);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s{\"t_boot_ns\":%" PRId64 ",\"period_ns\":%" PRId64 "}",
			i ? "," : "", changes[i].t_ns, changes[i].period_ns);
	putc(']', out);
	err = put_layers(out, report);
	if (err)
		return err;
	put_worst(out, report);
	if (report->why)
		err = frames_print_janks(out, report);
	if (err)
		return err;
	put_launches(out, report);
	duplicates = analysis_duplicates(report->analysis);
	fprintf(out,
		",\"timeline\":{\"expected\":%" PRIu64 ",\"actual\":%" PRIu64
		",\"unpaired\":%" PRIu64 ",\"unpaired_ends\":%" PRIu64 ",\"rejected\":%" PRIu64
		",\"duplicates\":%" PRIu64 ",\"unknown_enums\":%" PRIu64 ",\"layers_lost\":%" PRIu64
		"}",
		counts->expected, counts->actual, counts->unpaired, counts->unpaired_ends,
		counts->rejected, duplicates, counts->unknown_enums, counts->layers_lost);
	if (slices->marks)
		fprintf(out,
			",\"slices\":{\"markers\":%" PRIu64 ",\"do_frames\":%" PRIu64
			",\"draw_frames\":%" PRIu64 ",\"latches\":%" PRIu64
			",\"dropped_buffers\":%" PRIu64 ",\"ends_without_begin\":%" PRIu64 "}",
			slices->marks, slices->do_frames, slices->draw_frames, slices->latches,
			slices->dropped_buffers, slices->ends_without_begin);
	put_gfx(out, report);
	put_losses(out, report);
	return 0;
}
