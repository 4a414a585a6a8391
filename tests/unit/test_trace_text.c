/* SPDX-License-Identifier: BSD-2-Clause */
/* Text grammars: ftrace lines, atrace markers, dumps, systrace pages. */
#include "frames/analysis.h"
#include "trace/atrace.h"
#include "trace/ftrace_text.h"
#include "trace/reader.h"
#include "trace/systrace_html.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct trace_mark mark_of(const char *text)
{
	struct trace_mark mark = {.kind = 0};

	cr_assert(atrace_parse(text, strlen(text), &mark), "%s", text);
	return mark;
}

static void expect_name(const struct trace_mark *mark, const char *name)
{
	cr_assert(mark->name_size == strlen(name) &&
			  (!mark->name_size || !memcmp(mark->name, name, mark->name_size)),
		  "%.*s", (int)mark->name_size, mark->name);
}

Test(atrace, markers)
{
	struct trace_mark mark = mark_of("B|12|a|b c\n");

	cr_assert_eq(mark.kind, MARK_BEGIN);
	cr_assert_eq(mark.pid, 12);
	expect_name(&mark, "a|b c");
	mark = mark_of("B|12|");
	expect_name(&mark, "");
	cr_assert_eq(mark_of("E|12").kind, MARK_END);
	cr_assert_eq(mark_of("E|").kind, MARK_END);
	cr_assert_eq(mark_of("E").kind, MARK_END);
	mark = mark_of("C|7|a|b|-5");
	cr_assert_eq(mark.value, -5);
	expect_name(&mark, "a|b");
	mark = mark_of("C|7|name|9|category");
	cr_assert_eq(mark.value, 9);
	expect_name(&mark, "name");
	mark = mark_of("S|7|deliverInputEvent|263");
	cr_assert_eq(mark.kind, MARK_ASYNC_BEGIN);
	cr_assert_eq(mark.value, 263);
	expect_name(&mark, "deliverInputEvent");
	mark = mark_of("G|7|track|name|3");
	cr_assert(mark.track_size == 5 && !memcmp(mark.track, "track", 5));
	expect_name(&mark, "name");
	cr_assert_eq(mark_of("H|7|track|3").value, 3);
	cr_assert_eq(mark_of("H|7|track|name|3").value, 3);
	expect_name(&(struct trace_mark){0}, "");
	mark = mark_of("N|7|track|name");
	expect_name(&mark, "name");
	mark = mark_of("trace_event_clock_sync: parent_ts=683201.375000");
	cr_assert_eq(mark.kind, MARK_CLOCK_SYNC);
	cr_assert_eq(mark.value, 683201375000000);
	cr_assert_eq(mark_of("trace_event_clock_sync: realtime_ts=3720325137").value,
		     3720325137000000);
}

Test(atrace, not_markers)
{
	static const char *const bad[] = {
		"",      "\n",    "B",         "X|1|a", "S|1|name", "C|1|name",         "C|1|a|x",
		"B12|a", "S|1||", "N|1|track", "hello", "B|x|a",    "C|99999999999|a|1"};
	struct trace_mark mark;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert(!atrace_parse(bad[i], strlen(bad[i]), &mark), "%s", bad[i]);
}

Test(atrace, vsync_ids)
{
	int64_t id = 0;

	cr_assert(atrace_slice_id("DrawFrames 123", 14, 10, &id) && id == 123);
	cr_assert(atrace_slice_id("DrawFrames -1 x", 15, 10, &id) && id == -1);
	cr_assert(!atrace_slice_id("DrawFrames", 10, 10, &id));
	cr_assert(!atrace_slice_id("DrawFrames abc", 14, 10, &id));
}

static struct ftrace_line line_of(const char *text)
{
	struct ftrace_line line;

	cr_assert(ftrace_line_parse(text, strlen(text), &line), "%s", text);
	return line;
}

Test(ftrace_text, lines)
{
	struct ftrace_line line = line_of(
		" ndroid.systemui-13580 (13580) [001] ...1 683202.104223: tracing_mark_write: E|1");

	cr_assert_eq(line.tid, 13580);
	cr_assert_eq(line.tgid, 13580);
	cr_assert_eq(line.cpu, 1);
	cr_assert_eq(line.ts_ns, 683202104223000);
	cr_assert(line.payload_size == 3 && !memcmp(line.payload, "E|1", 3));
	line = line_of("           <...>-882   (-----) [003] .... 10852.771186: event: x");
	cr_assert_eq(line.tgid, -1);
	line = line_of("SurfaceFlinger-236   [000] 50265.647620: 0: B|124|onMessageReceived");
	cr_assert_eq(line.tid, 236);
	cr_assert(line.event_size == 1 && line.event[0] == '0');
	/* comms with everything in them */
	line = line_of("  a-1 (b) [0] c-77 (  66) [002] d..2. 1.5: sched_waking: comm=x pid=1");
	cr_assert_eq(line.tid, 77);
	cr_assert_eq(line.tgid, 66);
	cr_assert_eq(line.ts_ns, 1500000000);
	cr_assert(line.comm_size == 13 && !memcmp(line.comm, "a-1 (b) [0] c", 13), "%.*s",
		  (int)line.comm_size, line.comm);
	line = line_of("<idle>-0 [000] d.h112345.000001: print: x");
	cr_assert_eq(line.ts_ns, 12345000001000);
	line = line_of("x-1 [000] .... 1.123456789: print: x");
	cr_assert_eq(line.ts_ns, 1123456789);
}

Test(ftrace_text, not_lines)
{
	static const char *const bad[] = {"",
					  "x",
					  "some = 000, other = 0x4",
					  "a-b [000] 1.0: e: p",
					  "a-1 [] 1.0: e: p",
					  "a-1 [000] 1: e: p",
					  "a-1 [000] 1.0 e p",
					  "[000]",
					  "-1 [000",
					  "a-1 [000] 99999999999999999999.0: e: p"};
	struct ftrace_line line;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert(!ftrace_line_parse(bad[i], strlen(bad[i]), &line), "%s", bad[i]);
}

/* Feed a text in pieces of every size and report on the analysis. */
static struct analysis *analyse(const char *text, size_t piece)
{
	struct analysis_options options = {.worst = 4};
	struct analysis *analysis = analysis_new(&options);
	struct trace_reader *reader = trace_reader_new(analysis_events(), analysis);
	size_t size = strlen(text);

	for (size_t at = 0; at < size; at += piece)
		cr_assert_eq(trace_reader_feed(reader, (const uint8_t *)text + at,
					       size - at < piece ? size - at : piece),
			     0);
	cr_assert_eq(trace_reader_finish(reader), 0, "%s", trace_reader_error(reader));
	cr_assert_eq(analysis_finish(analysis), 0);
	trace_reader_free(reader);
	return analysis;
}

static struct layer_metrics only_layer(struct analysis *analysis)
{
	size_t count;
	const struct layer_view *views = analysis_layers(analysis, &count);
	struct layer_metrics m;

	cr_assert_eq(count, 1, "%zu layers", count);
	cr_assert_eq(analysis_metrics(analysis, views, &m), 0);
	return m;
}

Test(dumpsys, latency)
{
	static const char text[] = "16666667\n"
				   "0\t0\t0\n"
				   "1000000000\t1016666667\t1001000000\n"
				   "1016666667\t1033333334\t1018000000\n"
				   "1016666667\t1033333334\t1018000000\n"
				   "1033333334\t1083333335\t1035000000\n"
				   "1050000001\t9223372036854775807\t9223372036854775807\n";

	for (size_t piece = 1; piece < sizeof(text); piece += 7) {
		struct analysis *analysis = analyse(text, piece);
		struct layer_metrics m = only_layer(analysis);
		size_t count;

		cr_assert_eq(m.shown, 3);
		cr_assert_eq(m.duplicates, 1);
		cr_assert_eq(m.period_ns, 16666667);
		cr_assert_eq(m.dropped, 2);
		analysis_losses(analysis, &count);
		cr_assert_eq(count, 2);
		layer_metrics_free(&m);
		analysis_free(analysis);
	}
}

Test(dumpsys, framestats_by_column_names)
{
	static const char old[] =
		"** Graphics info for pid 2599 [com.example] **\n"
		"---PROFILEDATA---\n"
		"Flags,IntendedVsync,Vsync,OldestInputEvent,NewestInputEvent,HandleInputStart,"
		"AnimationStart,PerformTraversalsStart,DrawStart,SyncQueued,SyncStart,"
		"IssueDrawCommandsStart,SwapBuffers,FrameCompleted,DequeueBufferDuration,"
		"QueueBufferDuration,\n"
		"1,100000000,0,0,0,0,0,0,0,0,0,0,0,110000000,0,0,\n"
		"0,100000000,0,0,0,0,0,0,0,0,0,0,0,110000000,0,0,\n"
		"0,116666667,0,0,0,0,0,0,0,0,0,0,0,156666667,0,0,\n"
		"0,116666667,0,0,0,0,0,0,0,0,0,0,0,9223372036854775807,0,0,\n"
		"---PROFILEDATA---\n";
	static const char today[] =
		"** Graphics info for pid 2599 [com.example] **\n"
		"---PROFILEDATA---\n"
		"Flags,FrameTimelineVsyncId,IntendedVsync,FrameDeadline,FrameInterval,"
		"FrameCompleted,DisplayPresentTime\n"
		"0,7,100000000,120000000,8333333,110000000,118000000\n"
		"0,8,108333333,128333333,8333333,150000000,0\n"
		"---PROFILEDATA---\n";
	struct analysis *analysis = analyse(old, 16);
	struct layer_metrics m = only_layer(analysis);
	size_t count;

	cr_assert_eq(m.shown, 2);
	cr_assert_eq(m.slow, 1);
	layer_metrics_free(&m);
	analysis_free(analysis);
	analysis = analyse(today, 1000);
	m = only_layer(analysis);
	cr_assert_eq(m.shown, 2);
	cr_assert_eq(m.period_ns, 8333333);
	cr_assert_eq(analysis_layers(analysis, &count)->layer->cause_app, 1);
	cr_assert_str_eq(analysis_process(analysis, 2599), "com.example");
	layer_metrics_free(&m);
	analysis_free(analysis);
}

Test(dumpsys, windows_apart_and_idle_is_no_drop)
{
	char text[8192];
	size_t used, count;
	struct analysis *analysis;
	const struct layer_view *views;
	struct layer_metrics m;
	const long v = 8333333;

	used = (size_t)snprintf(text, sizeof(text),
				"** Graphics info for pid 2599 [com.example] **\n"
				"\tcom.example/com.example.Main/android.view.ViewRootImpl@66ac8b1 "
				"(visibility=0)\nWindow: com.example/com.example.Main\n"
				"---PROFILEDATA---\nFlags,IntendedVsync,FrameCompleted,\n");
	/* nothing was asked for during 200 refreshes; from the 30th on all are 4 late */
	for (long i = 0; i < 40; i++) {
		long intended = 1000000000 + (i + (i >= 20 ? 200 : 0)) * v;

		used += (size_t)snprintf(text + used, sizeof(text) - used, "0,%ld,%ld,\n", intended,
					 intended + (i >= 30 ? 5 * v : v));
	}
	used += (size_t)snprintf(text + used, sizeof(text) - used,
				 "---PROFILEDATA---\n---PROFILEDATA---\n"
				 "Flags,IntendedVsync,FrameCompleted,\n");
	for (long i = 0; i < 10; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "0,%ld,%ld,\n",
					 1000000000 + i * v, 1002000000 + i * v);
	snprintf(text + used, sizeof(text) - used, "---PROFILEDATA---\n");
	analysis = analyse(text, 50);
	views = analysis_layers(analysis, &count);
	cr_assert_eq(count, 2);
	cr_assert_str_eq(views[0].layer->name, "com.example/com.example.Main@66ac8b1");
	cr_assert_str_eq(views[1].layer->name, "gfxinfo framestats #2");
	cr_assert_eq(analysis_metrics(analysis, &views[0], &m), 0);
	cr_assert_eq(m.shown, 40);
	cr_assert_eq(m.period_ns, v, "no dump before 12 states it");
	cr_assert_eq(m.segments, 2);
	cr_assert_eq(m.dropped, 4);
	layer_metrics_free(&m);
	analysis_free(analysis);
}

/* Where WindowManager says nothing, HWUI's own line has the window's title. */
Test(dumpsys, the_window_of_hwui)
{
	struct analysis *analysis =
		analyse("** Graphics info for pid 2599 [com.example] **\n"
			"Window: com.example/com.example.Main\n"
			"---PROFILEDATA---\nFlags,IntendedVsync,FrameCompleted,\n"
			"0,1000000000,1008000000,\n0,1016000000,1024000000,\n"
			"---PROFILEDATA---\n",
			50);
	const struct layer_view *views;
	size_t count;

	views = analysis_layers(analysis, &count);
	cr_assert_eq(count, 1);
	cr_assert_str_eq(views[0].layer->name, "com.example/com.example.Main");
	analysis_free(analysis);
}

/* What stands first is when the buffer was queued, and 0 where nobody asked for a time. */
Test(dumpsys, latency_of_buffers_that_asked_for_no_time)
{
	static const char text[] = "16666667\n"
				   "0\t1016666667\t1001000000\n"
				   "1032000000\t1033333334\t1032500000\n"
				   "1099000000\t1100000002\t1099500000\n"
				   "1100000000\t1300000006\t1100500000\n"
				   "3300000000\t3316666673\t3301000000\n";
	struct analysis *analysis = analyse(text, 1000);
	struct layer_metrics m = only_layer(analysis);

	cr_assert_eq(m.shown, 5);
	cr_assert_eq(m.dropped, 3 + 10, "queued late, and shown late; %lu",
		     (unsigned long)m.dropped);
	cr_assert_eq(m.segments, 2);
	layer_metrics_free(&m);
	analysis_free(analysis);
}

Test(dumpsys, frames_by_latches)
{
	char text[8192];
	size_t used = 0;
	struct analysis *analysis;
	struct layer_metrics m;

	used += (size_t)snprintf(text, sizeof(text), "# tracer: nop\n");
	for (unsigned i = 0; i < 40; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used,
			"  surfaceflinger-598 (598) [000] .... 10.%06u: tracing_mark_write: "
			"C|598|BufferTX - com.x/com.x.Main#5|%u\n",
			i * 16667 / 2, 1 - i % 2);
	analysis = analyse(text, 100);
	m = only_layer(analysis);
	cr_assert_eq(m.shown, 20);
	cr_assert_float_eq(m.fps_raw, 60, 0.1);
	cr_assert_eq(m.dropped, 0);
	layer_metrics_free(&m);
	analysis_free(analysis);
}

struct sink {
	char text[256];
	size_t size;
};

static int put(void *ctx, const char *data, size_t size)
{
	struct sink *sink = ctx;

	cr_assert(sink->size + size < sizeof(sink->text));
	memcpy(sink->text + sink->size, data, size);
	sink->size += size;
	sink->text[sink->size] = 0;
	return 0;
}

static void expect_html(const char *page, const char *text)
{
	for (size_t piece = 1; piece <= strlen(page); piece++) {
		struct sink sink = {.size = 0};
		struct systrace_html *html = systrace_html_new(put, &sink);

		for (size_t at = 0; at < strlen(page); at += piece)
			systrace_html_feed(html, (const uint8_t *)page + at,
					   strlen(page) - at < piece ? strlen(page) - at : piece);
		cr_assert_str_eq(sink.text, text, "in pieces of %zu", piece);
		systrace_html_free(html);
	}
}

Test(systrace_html, both_forms)
{
	expect_html("<html><script class=\"trace-data\" type=\"application/text\">\na < b </s\n"
		    "</script><script class=\"trace-data\">c</script>",
		    "\na < b </s\n\nc\n");
	expect_html("<html><script>f([linuxPerfData]); var linuxPerfData = \"\\\nx\\n\\\n"
		    "y \\\"q\\\" \\x41\\u0042\\\\\\n\"; other(\"no\")",
		    "x\ny \"q\" AB\\\n\n");
	expect_html("<html>querySelectorAll('.trace-data'); nothing", "");
}

/* A header alone is a trace in which nothing happened; what only looks like one is none. */
Test(trace_text, an_empty_trace_is_a_trace)
{
	static const struct {
		const char *text;
		uint64_t understood;
	} texts[] = {{"# tracer: nop\n", 1}, {"# tracer\n", 0}, {"# tracing\n", 0}, {"#\n", 0}};
	static const struct trace_events none = {NULL};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct trace_text *text = trace_text_new(&none, NULL);

		trace_text_feed(text, texts[i].text, strlen(texts[i].text));
		trace_text_finish(text);
		cr_assert_eq(trace_text_understood(text), texts[i].understood, "%s", texts[i].text);
		trace_text_free(text);
	}
}

Test(ftrace_line, the_payload_begins_behind_the_colon)
{
	static const char *const lines[] = {
		"app-7 (    7) [001] ...1 12.000005: print:B|7|a: b",
		"app-7 (    7) [001] ...1 12.000005: print: B|7|a: b",
		"app-7 (    7) [001] ...1 12.000005:   print: B|7|a: b"};

	for (size_t i = 0; i < 3; i++) {
		struct ftrace_line line;

		cr_assert(ftrace_line_parse(lines[i], strlen(lines[i]), &line), "%s", lines[i]);
		cr_assert_eq(line.ts_ns, 12000005000);
		cr_assert(line.event_size == 5 && !memcmp(line.event, "print", 5));
		cr_assert(line.payload_size == 8 && !memcmp(line.payload, "B|7|a: b", 8));
	}
}
