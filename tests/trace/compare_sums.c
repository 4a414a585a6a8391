/* SPDX-License-Identifier: BSD-2-Clause */
/* Feeds a trace to what `frames` computes with, at once, and to what `record --frames` computes
 * with, in pieces over ten made-up seconds. Every sum of every layer must be the same. usage:
 * compare_sums TRACE [PIECE_BYTES] [at-once|disorder]
 * PIECE_BYTES 0: of any size. at-once: the file did not grow. disorder: a frame, or the display
 * frame that showed it, may come later than a reader waits that follows the trace; then that is
 * counted (frames_too_late, timeline_unpaired), and no more is missing than was counted. */
#include "record/histogram.h"
#include "frames/analysis.h"
#include "frames/stream.h"
#include "trace/reader.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SECONDS   10
#define TURNS     200 /* that many intervals, whatever the pieces are */
#define WINDOW_NS 2000000000ull

struct sums {
	char *name;
	uint64_t name_hash;
	int32_t pid;
	enum layer_source source;
	uint64_t shown, dropped, janky, rows, intervals, counted;
	int64_t active_ns;
	struct sums *next;
};

static struct sums *sums_of(struct sums **head, const struct layer *layer)
{
	struct sums *sums;

	for (sums = *head; sums; sums = sums->next) {
		if (sums->pid == layer->pid && sums->name_hash == layer->name_hash &&
		    !strcmp(sums->name, layer->name))
			return sums;
	}
	sums = calloc(1, sizeof(*sums));
	sums->name = strdup(layer->name);
	sums->pid = layer->pid;
	sums->name_hash = layer->name_hash;
	sums->source = layer->source;
	sums->next = *head;
	*head = sums;
	return sums;
}

static void take(struct frame_stream *stream, struct sums **head)
{
	const struct stream_layer *layers;
	size_t count;

	if (frame_stream_take(stream, &layers, &count))
		exit(2);
	for (size_t i = 0; i < count; i++) {
		struct sums *sums = sums_of(head, layers[i].layer);

		sums->shown += layers[i].shown;
		sums->dropped += layers[i].dropped;
		sums->janky += layers[i].janky;
		sums->rows += layers[i].rows;
		sums->intervals += (uint64_t)layers[i].intervals;
		sums->counted += histogram_count(layers[i].hist);
		sums->active_ns += layers[i].active_ns;
	}
}

static void count_told(void *ctx, const char *reason, uint64_t count)
{
	uint64_t *told = ctx;

	if (!strcmp(reason, "frames_too_late") || !strcmp(reason, "timeline_unpaired"))
		*told += count;
}

static struct sums *in_pieces(const uint8_t *data, size_t size, size_t piece, bool grows,
			      uint64_t *told)
{
	struct frame_stream *stream = frame_stream_new();
	struct trace_reader *reader = trace_reader_new(frame_stream_events(), stream);
	struct sums *head = NULL;
	size_t at = 0, turn = 0;

	srand((unsigned)size);
	while (at < size) {
		size_t now = piece ? piece : 1 + (size_t)rand() % 200000;

		now = now < size - at ? now : size - at;
		if (trace_reader_feed(reader, data + at, now))
			break;
		at += now;
		if (!grows || at * TURNS / size == turn)
			continue;
		turn = at * TURNS / size;
		if (frame_stream_settle(stream, (uint64_t)at * SECONDS * 1000000000ull / size + 1,
					WINDOW_NS, false))
			exit(2);
		take(stream, &head);
	}
	trace_reader_finish(reader);
	if (frame_stream_settle(stream, (SECONDS + 1) * 1000000000ull, WINDOW_NS, true))
		exit(2);
	take(stream, &head);
	frame_stream_each_loss(stream, count_told, told);
	trace_reader_free(reader);
	frame_stream_free(stream);
	return head;
}

static struct sums *at_once(const uint8_t *data, size_t size)
{
	const struct analysis_options options = {.worst = 0};
	struct analysis *analysis = analysis_new(&options);
	struct trace_reader *reader = trace_reader_new(analysis_events(), analysis);
	const struct layer_view *views;
	struct sums *head = NULL;
	size_t count;

	trace_reader_feed(reader, data, size);
	trace_reader_finish(reader);
	if (analysis_finish(analysis))
		exit(2);
	views = analysis_layers(analysis, &count);
	for (size_t i = 0; i < count; i++) {
		struct sums *sums = sums_of(&head, views[i].layer);
		struct layer_metrics m;

		if (analysis_metrics(analysis, &views[i], &m))
			exit(2);
		sums->shown = m.shown;
		sums->dropped = m.dropped;
		sums->janky = views[i].layer->janky;
		sums->rows = views[i].layer->rows;
		sums->intervals = sums->counted = m.intervals.n;
		sums->active_ns = m.active_ns;
		layer_metrics_free(&m);
	}
	trace_reader_free(reader);
	analysis_free(analysis);
	return head;
}

static void print(const char *what, const struct sums *s)
{
	printf("# %s %d %s: shown %" PRIu64 " dropped %" PRIu64 " janky %" PRIu64 " rows %" PRIu64
	       " intervals %" PRIu64 " %" PRIu64 " active %" PRId64 "\n",
	       what, s->pid, s->name, s->shown, s->dropped, s->janky, s->rows, s->intervals,
	       s->counted, s->active_ns);
}

static bool is_same(const struct sums *a, const struct sums *b)
{
	return a->pid == b->pid && a->name_hash == b->name_hash && !strcmp(a->name, b->name);
}

int main(int argc, char **argv)
{
	size_t piece = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, differ = 0, layers = 0;
	bool at_once_too = argc > 3 && !strcmp(argv[3], "at-once");
	bool disorder = argc > 3 && !strcmp(argv[3], "disorder");
	struct sums *once, *pieces, *other;
	uint64_t shown = 0, told = 0, told_whole = 0, missing = 0;
	struct stat st;
	uint8_t *data;
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;

	if (!file || fstat(fileno(file), &st) || !(data = malloc((size_t)st.st_size + 1)) ||
	    fread(data, 1, (size_t)st.st_size, file) != (size_t)st.st_size)
		return 2;
	fclose(file);
	once = at_once(data, (size_t)st.st_size);
	pieces = in_pieces(data, (size_t)st.st_size, piece, !at_once_too, &told);
	if (disorder)
		in_pieces(data, (size_t)st.st_size, (size_t)st.st_size, false, &told_whole);
	for (struct sums *s = once; s; s = s->next) {
		if (s->source == LAYER_DUMP)
			continue; /* a dump is a file for `frames` alone */
		for (other = pieces; other; other = other->next) {
			if (is_same(other, s))
				break;
		}
		layers++;
		shown += s->shown;
		if (other && s->shown == other->shown && s->dropped == other->dropped &&
		    s->janky == other->janky && s->rows == other->rows &&
		    s->intervals == other->intervals && s->counted == other->counted &&
		    s->active_ns == other->active_ns)
			continue;
		if (disorder && other && s->shown >= other->shown && s->janky == other->janky &&
		    s->rows == other->rows) {
			missing += s->shown - other->shown;
			continue;
		}
		differ++;
		print("frames", s);
		if (other)
			print("record", other);
	}
	for (other = pieces; other; other = other->next) {
		struct sums *s = once;

		while (s && !is_same(other, s))
			s = s->next;
		if (!s && (other->shown || other->rows)) {
			differ++;
			print("record only", other);
		}
	}
	printf("%zu layers, %" PRIu64 " shown, %zu differ", layers, shown, differ);
	if (disorder)
		printf(", %" PRIu64 " missing, %" PRIu64 " more counted as lost", missing,
		       told - told_whole);
	putchar('\n');
	return differ != 0 || (disorder && (told < told_whole || missing > told - told_whole));
}
