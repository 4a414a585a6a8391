/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target: any bytes as a trace, through everything from the container to the metrics.
 * Built once for each way in (FUZZ_CONTAINER, FUZZ_PROTO, FUZZ_TEXT, FUZZ_HTML), so that each gets
 * its share of the time. */
#include "frames/analysis.h"
#include "frames/late.h"
#include "frames/late_why.h"
#include "frames/stream.h"
#include "trace/ftrace_text.h"
#include "trace/perfetto.h"
#include "trace/reader.h"
#include "trace/systrace_html.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_row(void *ctx, const struct timeline_row *row)
{
	char buffer[512];
	size_t *sum = ctx;

	*sum += timeline_jank_text(row->jank, buffer, sizeof(buffer))[0];
}

static void feed(const struct trace_events *events, void *ctx, const uint8_t *data, size_t size,
		 size_t piece);

static int text_piece(void *ctx, const char *data, size_t size)
{
	return trace_text_feed(ctx, data, size);
}

static void feed(const struct trace_events *events, void *ctx, const uint8_t *data, size_t size,
		 size_t piece)
{
#ifdef FUZZ_CONTAINER
	struct trace_reader *reader = trace_reader_new(events, ctx);
	int err = 0;

	for (size_t at = 0; at < size && !err; at += piece)
		err = trace_reader_feed(reader, data + at, size - at < piece ? size - at : piece);
	trace_reader_finish(reader);
	trace_reader_free(reader);
#elif defined(FUZZ_PROTO)
	struct perfetto *perfetto = perfetto_new(events, ctx);

	for (size_t at = 0; at < size; at += piece)
		perfetto_feed(perfetto, data + at, size - at < piece ? size - at : piece);
	perfetto_finish(perfetto);
	if (perfetto_clock_error(perfetto, 0, INT64_MAX) < 0)
		abort();
	perfetto_free(perfetto);
#else
	struct trace_text *text = trace_text_new(events, ctx);
#ifdef FUZZ_HTML
	struct systrace_html *html = systrace_html_new(text_piece, text);

	for (size_t at = 0; at < size; at += piece)
		systrace_html_feed(html, data + at, size - at < piece ? size - at : piece);
	systrace_html_free(html);
#else
	for (size_t at = 0; at < size; at += piece)
		text_piece(text, (const char *)data + at, size - at < piece ? size - at : piece);
#endif
	trace_text_finish(text);
	trace_text_free(text);
#endif
}

/* Whatever the trace says: a ledger is of its window, and a cause of a thread that is there. */
static int check_jank(void *ctx, const struct record_jank *jank)
{
	size_t *sum = ctx;

	if (jank->window_end_ns < jank->window_start_ns || jank->cause >= JANK_CAUSES ||
	    (jank->cause_thread.present && jank->cause_thread.value >= jank->thread_count))
		abort();
	for (size_t i = 0; i < jank->thread_count; i++) {
		const struct jank_ledger *l = &jank->threads[i].ledger;
		uint64_t waits = 0;

		for (size_t k = 0; k < jank->threads[i].preemptor_count; k++)
			waits += jank->threads[i].preemptors[k].ns;
		if (waits != l->runnable_ns)
			abort();
		/* times below 0 are told as 0 */
		if (jank->window_start_ns && l->running_ns + l->runnable_ns + l->sleeping_ns +
							     l->uninterruptible_ns + l->stopped_ns +
							     l->unknown_ns !=
						     jank->window_end_ns - jank->window_start_ns)
			abort();
		*sum += strlen(jank->threads[i].thread);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t sum = 0, count, worst_count, piece = size ? 1 + data[size - 1] * 16 : 1;
	struct late_why *why = late_why_new();
	struct analysis_options options = {.worst = 4,
					   .row = on_row,
					   .row_ctx = &sum,
					   .late = late_why_frame,
					   .late_ctx = why,
					   .threads = late_why_threads(why)};
	struct analysis *analysis = analysis_new(&options);
	const struct layer_view *views;
	struct worst_frame *worst;
	struct late_frame frames[4];
	struct late *late;

	struct frame_stream *stream = frame_stream_new();
	const struct stream_layer *layers;

	(void)text_piece;
	feed(analysis_thread_events(), analysis, data, size, piece);
	if (!analysis_finish(analysis)) {
		views = analysis_layers(analysis, &count);
		for (size_t i = 0; i < count; i++) {
			struct layer_metrics metrics;

			analysis_metrics(analysis, &views[i], &metrics);
			layer_metrics_free(&metrics);
		}
		worst = analysis_worst(analysis, &worst_count);
		for (size_t i = 0; i < worst_count; i++)
			frames[i] = worst[i].late;
		late = late_new(frames, worst_count);
		feed(late_events(), late, data, size, piece);
		late_finish(late);
		late_free(late);
		if (!late_why_plan(why, analysis, NULL)) {
			feed(late_why_events(), why, data, size, piece);
			late_why_finish(why);
			late_why_each(why, check_jank, &sum);
		}
	}
	late_why_free(why);
	analysis_free(analysis);
	/* the same as a stream, in two intervals */
	feed(frame_stream_events(), stream, data, size / 2, piece);
	frame_stream_settle(stream, 1000, 0, false);
	frame_stream_take(stream, &layers, &count);
	feed(frame_stream_events(), stream, data + size / 2, size - size / 2, piece);
	frame_stream_settle(stream, 2000, 0, true);
	frame_stream_take(stream, &layers, &count);
	frame_stream_free(stream);
	return 0;
}
