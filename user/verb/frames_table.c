/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/line.h"
#include "verb/frames_print.h"
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAX_ROWS  24
#define MIN_WIDTH 80
#define NUMBERS   53 /* columns before the layer's name */
#define DETAILS   15 /* and before its details */

int frames_print_width(FILE *out)
{
	struct winsize size;

	if (isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) &&
	    size.ws_col > MIN_WIDTH)
		return size.ws_col;
	return MIN_WIDTH;
}

static bool continues(char c)
{
	return (c & 0xc0) == 0x80;
}

/* A name cut in its middle, where it says least: packages begin alike, activities end apart. */
static void put_name(FILE *out, const char *name, size_t width)
{
	char buffer[1024];
	size_t size, head, rest;

	text_clean(buffer, sizeof(buffer), name);
	size = strlen(buffer);
	if (size <= width) {
		fputs(buffer, out);
		return;
	}
	head = (width - 2) / 3;
	rest = size - (width - 2 - head);
	while (head && continues(buffer[head]))
		head--;
	while (continues(buffer[rest]))
		rest++;
	fprintf(out, "%.*s..%s", (int)head, buffer, buffer + rest);
}

/* A name with nothing left out, on as many lines as it takes; those break behind a slash. */
static void put_whole_name(FILE *out, const char *name, size_t width)
{
	char buffer[1024];
	const char *rest = text_clean(buffer, sizeof(buffer), name);

	while (strlen(rest) > width) {
		size_t size = width;

		while (size && rest[size - 1] != '/')
			size--;
		if (!size)
			for (size = width; size > 1 && continues(rest[size]); size--)
				;
		fprintf(out, "%.*s\n%*s", (int)size, rest, DETAILS, "");
		rest += size;
	}
	fprintf(out, "%s\n", rest);
}

static void put_ms(FILE *out, double ns)
{
	double ms = ns / 1e6;

	fprintf(out, ms < 100 ? " %5.1f" : " %5.0f", ms);
}

/* A layer as it is told from others: that of an app's own slices is called alike in all apps. */
static const char *layer_name(const struct frames_report *report, const struct layer *layer,
			      char *buffer, size_t size)
{
	char package_buffer[256];
	const char *package =
		analysis_package(report->analysis, layer, package_buffer, sizeof(package_buffer));

	if (layer->source != LAYER_CHOREOGRAPHER)
		return layer_bare_name(layer->name);
	if (package)
		snprintf(buffer, size, "%s of %s", layer->name, package);
	else
		snprintf(buffer, size, "%s of pid %d", layer->name, layer->pid);
	return buffer;
}

static void put_row(FILE *out, const struct frames_report *report, const struct layer_view *view,
		    const struct layer_metrics *m, int width)
{
	char name[1400];

	if (view->layer->pid >= 0)
		fprintf(out, "%6d", view->layer->pid);
	else
		fprintf(out, "%6s", "-");
	fprintf(out, " %5" PRIu64, m->shown);
	if (m->has_fps)
		fprintf(out, " %5.1f %5.1f", m->fps_raw, m->fps_active);
	else
		fprintf(out, " %5s %5s", "-", "-");
	if (m->intervals.n) {
		put_ms(out, m->intervals.p50);
		put_ms(out, m->intervals.p99);
		fprintf(out, " %4" PRIu64, m->dropped);
	} else {
		fprintf(out, " %5s %5s %4s", "-", "-", "-");
	}
	if (m->worked)
		fprintf(out, " %4" PRIu64 " %4" PRIu64, m->slow, m->frozen);
	else
		fprintf(out, " %4s %4s", "-", "-");
	fputs("  ", out);
	put_name(out, layer_name(report, view->layer, name, sizeof(name)),
		 (size_t)(width - NUMBERS));
	putc('\n', out);
}

/* What frames are late against, by source. */
static const char *const due_names[] = {
	[LAYER_TIMELINE] = "the expected timeline",
	[LAYER_BUFFER] = "its cadence",
	[LAYER_CHOREOGRAPHER] = "its cadence",
	[LAYER_DUMP] = "what was due",
};

static void put_details(FILE *out, const struct frames_report *report,
			const struct layer_view *view, const struct layer_metrics *m, int width)
{
	const struct layer *layer = view->layer;
	char buffer[256], clean[1024];
	const char *package = analysis_package(report->analysis, layer, buffer, sizeof(buffer));

	fputs("\nbusiest layer: ", out);
	put_whole_name(out, layer_bare_name(layer->name), (size_t)(width - DETAILS));
	fprintf(out, "  of             %s",
		text_clean(clean, sizeof(clean), package ? package : "unknown process"));
	if (layer->pid >= 0)
		fprintf(out, " (pid %d)", layer->pid);
	putc('\n', out);
	if (m->has_fps)
		fprintf(out,
			"  fps            %.1f raw, %.1f active in %" PRIu64 " stretches\n"
			"  dropped        %" PRIu64 " against %s, %" PRIu64 " counting idle\n",
			m->fps_raw, m->fps_active, m->segments, m->dropped,
			due_names[layer->source], m->dropped_interval);
	if (m->intervals.n)
		fprintf(out,
			"  interval       p50 %.1f  p90 %.1f  p95 %.1f  p99 %.1f  max %.1f ms\n",
			m->intervals.p50 / 1e6, m->intervals.p90 / 1e6, m->intervals.p95 / 1e6,
			m->intervals.p99 / 1e6, (double)m->intervals.max / 1e6);
	if (m->worked)
		fprintf(out,
			"  work           slow %" PRIu64 " (%" PRIu64
			" above 16.7 ms), frozen %" PRIu64 " (above 700 ms)\n"
			"  Matrix         best %" PRIu64 ", normal %" PRIu64 ", middle %" PRIu64
			", high %" PRIu64 ", frozen %" PRIu64 "; fps %.1f\n",
			m->slow, m->slow_60, m->frozen, m->matrix[0], m->matrix[1], m->matrix[2],
			m->matrix[3], m->matrix[4], m->matrix_fps);
	if (m->has_sm)
		fprintf(out, "  GT SM%s mean %.1f, min %u, low %zu times, big janks %" PRIu64 "\n",
			m->sm_estimated ? " (est.)  " : "         ", m->sm_mean, m->sm_min,
			m->sm_low_count, m->sm_big_janks);
	if (m->intervals.n > 3)
		fprintf(out,
			"  PerfDog        jank %" PRIu64 ", big %" PRIu64
			", stutter %.1f %%; without idle %" PRIu64 ", %" PRIu64 ", %.1f %%\n",
			m->perfdog.jank, m->perfdog.big_jank, perfdog_stutter_pct(&m->perfdog),
			m->perfdog_active.jank, m->perfdog_active.big_jank,
			perfdog_stutter_pct(&m->perfdog_active));
	if (layer->source == LAYER_TIMELINE)
		fprintf(out,
			"  FrameTimeline  janky %u of %u: app %u, sf %u, hw %u, stuffing %u,\n"
			"                 dropped %u, unknown %u; not perceivable %u\n"
			"  visible        %" PRIu64 ": app %" PRIu64 ", sf %" PRIu64 ", hw %" PRIu64
			", stuffing %" PRIu64 ", dropped %" PRIu64 ", unknown %" PRIu64 ",\n"
			"                 none that FrameTimeline names %" PRIu64 "\n",
			layer->janky, layer->rows, layer->cause_app, layer->cause_sf,
			layer->cause_hw, layer->cause_stuffing, layer->cause_dropped,
			layer->cause_unknown, layer->cause_non_perceivable, m->visible,
			m->visible_app, m->visible_sf, m->visible_hw, m->visible_stuffing,
			m->visible_dropped, m->visible_unknown, m->visible_none);
	if (layer->dropped || layer->no_display || layer->unfinished)
		fprintf(out,
			"  not shown      dropped %u, no display frame %u, "
			"display frame without end %u\n",
			layer->dropped, layer->no_display, layer->unfinished);
}

static void put_thread(FILE *out, const char *name, const struct thread_time *time)
{
	if (!time->known)
		return;
	fprintf(out, "           %-6s running %.1f, runnable %.1f, sleeping %.1f", name,
		(double)time->running_ns / 1e6, (double)time->runnable_ns / 1e6,
		(double)time->sleeping_ns / 1e6);
	if (time->uninterruptible_ns)
		fprintf(out, ", in D %.1f", (double)time->uninterruptible_ns / 1e6);
	fputs(" ms\n", out);
}

/* Where it is in Perfetto's UI: the time since the start of the trace, the row's ts, and the token
 * that its slice in the Actual Timeline is called by. */
static void put_place(FILE *out, const struct frames_report *report,
		      const struct worst_frame *frame)
{
	int64_t first_ns = report->first_ns;

	fputs("\n           at", out);
	if (frame->ts_ns >= first_ns)
		fprintf(out, " %.6f s,", (double)(frame->ts_ns - first_ns) / 1e9);
	fprintf(out, " ts %" PRId64, frame->ts_ns);
	if (frame->late.token >= 0)
		fprintf(out, ", token %" PRId64, frame->late.token);
	fprintf(out, ", pid %d\n", frame->late.pid);
}

static void put_launches(FILE *out, const struct frames_report *report, int width)
{
	size_t count;
	const struct launch *launches = analysis_launches(report->analysis, &count);

	if (count)
		fputs("\nlaunches\n  KIND        FRAME     DRAWN  ms  at s, PACKAGE\n", out);
	for (size_t i = 0; i < count && i < MAX_ROWS; i++) {
		const struct launch *launch = &launches[i];

		fprintf(out, "  %-7s", launch_kind_name(launch->kind));
		if (launch->first_frame_ns)
			fprintf(out, "%10.1f",
				(double)(launch->first_frame_ns - launch->start_ns) / 1e6);
		else
			fprintf(out, "%10s", "-");
		fprintf(out, "%10.1f      %.3f ", (double)(launch->end_ns - launch->start_ns) / 1e6,
			(double)(launch->start_ns - report->first_ns) / 1e9);
		put_name(out, launch->package, (size_t)(width - 46));
		putc('\n', out);
	}
	if (count > MAX_ROWS)
		fprintf(out, "       and %zu launches more (--json has them all)\n",
			count - MAX_ROWS);
}

static void put_worst(FILE *out, const struct frames_report *report, int width)
{
	size_t count;
	const struct worst_frame *worst = analysis_worst(report->analysis, &count);
	char buffer[1400];

	if (!count)
		return;
	fputs("\nworst frames\n  LATE  WORK doFrm  Draw  ms   CAUSE, LAYER, PLACE\n", out);
	for (size_t i = 0; i < count; i++) {
		const struct worst_frame *frame = &worst[i];

		put_ms(out, (double)frame->late_ns);
		if (frame->work_ns != TIMELINE_NONE)
			put_ms(out, (double)frame->work_ns);
		else
			fprintf(out, " %5s", "-");
		if (frame->late.has_do_frame)
			fprintf(out, " %5.1f", (double)frame->late.do_frame_ns / 1e6);
		else
			fprintf(out, " %5s", "-");
		if (frame->late.has_draw_frame)
			fprintf(out, " %5.1f", (double)frame->late.draw_frame_ns / 1e6);
		else
			fprintf(out, " %5s", "-");
		fputs("       ", out);
		put_name(out,
			 frame->jank ? timeline_jank_text(frame->jank, buffer, sizeof(buffer))
				     : "not classified",
			 (size_t)(width - 34));
		fputs("\n           ", out);
		put_name(out,
			 layer_name(report, analysis_layer(report->analysis, frame->layer), buffer,
				    sizeof(buffer)),
			 (size_t)(width - 12));
		put_place(out, report, frame);
		put_thread(out, "main", &frame->late.main);
		put_thread(out, "render", &frame->late.render);
	}
}

static void put_head(FILE *out, const struct frames_report *report)
{
	const struct timeline_counts *counts = analysis_counts(report->analysis);
	const struct refresh_change *changes;
	const struct loss_counter *losses;
	const char *source;
	char clean[4096];
	double period_ns = (double)analysis_period(report->analysis, &source);
	size_t count;

	fprintf(out, "trace    %s\n", text_clean(clean, sizeof(clean), report->trace));
	fprintf(out, "refresh  %.3f ms, %.1f Hz (%s)\n", period_ns / 1e6, 1e9 / period_ns, source);
	changes = analysis_refresh(report->analysis, &count);
	if (count > 1) {
		fputs("changes ", out);
		for (size_t i = 0; i < count && i < 8; i++)
			fprintf(out, " %.1f", 1e9 / (double)changes[i].period_ns);
		fprintf(out, " Hz%s (%zu in all)\n", count > 8 ? " ..." : "", count - 1);
	}
	if (counts->actual || counts->rejected)
		fprintf(out,
			"timeline %" PRIu64 " expected, %" PRIu64 " actual, %" PRIu64
			" unpaired, %" PRIu64 " rejected\n",
			counts->expected, counts->actual, counts->unpaired + counts->unpaired_ends,
			counts->rejected);
	losses = analysis_losses(report->analysis, &count);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s %" PRIu64 " %s\n", i ? "        " : "lost    ", losses[i].count,
			losses[i].reason);
}

static void put_counter(FILE *out, const char *words, int64_t value)
{
	if (value >= 0)
		fprintf(out, "%s%" PRId64, words, value);
}

/* What gfxinfo itself counted. */
static void put_gfx(FILE *out, const struct frames_report *report)
{
	size_t count;
	const struct gfx_summary *gfx = analysis_gfx(report->analysis, &count);
	char clean[256];

	for (size_t i = 0; i < count; i++) {
		const int64_t *c = gfx[i].counters;

		fprintf(out, "\ngfxinfo of %s (pid %d)\n",
			text_clean(clean, sizeof(clean),
				   gfx[i].package[0] ? gfx[i].package : "unknown process"),
			gfx[i].pid);
		fprintf(out, "  frames         %" PRId64 " drawn", c[GFX_TOTAL]);
		put_counter(out, ", janky ", c[GFX_JANKY]);
		if (c[GFX_JANKY] >= 0 && c[GFX_TOTAL] > 0)
			fprintf(out, " (%.2f %%)",
				100.0 * (double)c[GFX_JANKY] / (double)c[GFX_TOTAL]);
		put_counter(out, ", by the older rule ", c[GFX_JANKY_LEGACY]);
		put_counter(out, "\n  work, ms       p50 ", c[GFX_P50_MS]);
		put_counter(out, "  p90 ", c[GFX_P90_MS]);
		put_counter(out, "  p95 ", c[GFX_P95_MS]);
		put_counter(out, "  p99 ", c[GFX_P99_MS]);
		put_counter(out, "\n  causes         deadline missed ", c[GFX_DEADLINE_MISSED]);
		put_counter(out, ", vsync missed ", c[GFX_MISSED_VSYNC]);
		put_counter(out, ", slow UI thread ", c[GFX_SLOW_UI]);
		put_counter(out, ",\n                 slow bitmaps ", c[GFX_SLOW_BITMAPS]);
		put_counter(out, ", slow draw ", c[GFX_SLOW_DRAW]);
		put_counter(out, ", input late ", c[GFX_HIGH_INPUT_LATENCY]);
		putc('\n', out);
	}
}

int frames_print_table(FILE *out, const struct frames_report *report)
{
	int width = frames_print_width(out), err = 0;
	size_t count;
	const struct layer_view *views = analysis_layers(report->analysis, &count);
	struct layer_metrics first = {.shown = 0};

	put_head(out, report);
	put_gfx(out, report);
	if (!count) {
		fputs(analysis_left_out(report->analysis) ? "\nno layer that was asked for\n"
							  : "\nno frames one by one\n",
		      out);
		return 0;
	}
	fputs("\n             --- fps ---  --- ms --\n"
	      "   PID SHOWN   raw activ   p50   p99 DROP SLOW FROZ  LAYER\n",
	      out);
	for (size_t i = 0; i < count && !err; i++) {
		struct layer_metrics m;

		if (i == MAX_ROWS) {
			fprintf(out, "       and %zu layers more (--json has them all)\n",
				count - i);
			break;
		}
		err = analysis_metrics(report->analysis, &views[i], &m);
		if (!err)
			put_row(out, report, &views[i], &m, width);
		if (i == 0)
			first = m;
		else
			layer_metrics_free(&m);
	}
	if (!err)
		put_details(out, report, &views[0], &first, width);
	layer_metrics_free(&first);
	if (!err) {
		put_launches(out, report, width);
		put_worst(out, report, width);
	}
	return err;
}
