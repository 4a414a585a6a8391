/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/read_ahead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "record/json_read.h"
#include "record/shapes.h"
#include "source/line_reader.h"

/* Lines come in batches, so that both threads seldom wait for each other, or for the lock. */
#define BATCHES     4
#define BATCH_LINES 32
/* A batch has no more lines once it has so many bytes. A record takes some times the bytes of its
 * line. */
#define BATCH_BYTES (512u << 10)
/* A longer line's memory is given back. */
#define KEPT_BYTES (64u << 10)

struct batch {
	struct read_line lines[BATCH_LINES];
	size_t count, bytes;
	int end; /* what read_ahead_next() returns behind its lines; 1: another batch follows */
};

struct read_ahead {
	struct line_reader lines;
	struct shapes *shapes; /* of who parses */
	struct batch batches[BATCHES];
	bool threaded;
	pthread_t thread;
	/* Of the caller: the batch that it is at, and the line in it that is next. */
	size_t at, next;
	bool begun;
	/* Guarded by the lock. From `at` on so many batches are the caller's; the others are the
	 * second thread's. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t ready;
	bool stop;
};

/* The buffer of the line changes hands: the reader goes on with that of an older one. */
static int parse_next(struct read_ahead *ahead, struct read_line *line)
{
	struct line_reader *lines = &ahead->lines;
	char *old = line->line;
	size_t old_room = line->room;
	int more = line_reader_next(lines);

	if (more <= 0)
		return more;
	line->line = lines->line;
	line->room = lines->room;
	line->length = lines->length;
	line->torn = lines->torn;
	line->too_long = lines->too_long;
	lines->line = old;
	lines->room = old_room;
	line->parsed = NULL;
	line->err = 0;
	if (!line->torn && !line->too_long)
		line->err = record_parse_shaped(ahead->shapes, line->line, line->length,
						&line->parsed, line->why, sizeof(line->why));
	return 1;
}

static void end_line(struct read_line *line)
{
	parsed_record_free(line->parsed);
	line->parsed = NULL;
	if (line->room <= KEPT_BYTES)
		return;
	free(line->line);
	line->line = NULL;
	line->room = 0;
}

static void empty_batch(struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		end_line(&batch->lines[i]);
	batch->count = batch->bytes = 0;
}

/* A line may have 64 MiB, and its record more: nothing is read ahead of such a one. */
static bool is_large(const struct batch *batch)
{
	return batch->bytes > 2 * BATCH_BYTES;
}

static void fill_batch(struct read_ahead *ahead, struct batch *batch)
{
	/* Records are freed by the thread that made them. */
	empty_batch(batch);
	do {
		struct read_line *line = &batch->lines[batch->count];

		batch->end = parse_next(ahead, line);
		if (batch->end <= 0)
			return;
		batch->bytes += line->length;
		batch->count++;
	} while (batch->count < BATCH_LINES && batch->bytes < BATCH_BYTES);
}

static void *parse_all(void *ctx)
{
	struct read_ahead *ahead = ctx;
	bool stop = false, large = false;

	for (size_t at = 0; !stop; at = (at + 1) % BATCHES) {
		struct batch *batch = &ahead->batches[at];

		pthread_mutex_lock(&ahead->lock);
		while (!ahead->stop && (ahead->ready == BATCHES || (large && ahead->ready)))
			pthread_cond_wait(&ahead->changed, &ahead->lock);
		stop = ahead->stop;
		pthread_mutex_unlock(&ahead->lock);
		if (stop)
			break;
		fill_batch(ahead, batch);
		stop = batch->end <= 0;
		large = is_large(batch);
		pthread_mutex_lock(&ahead->lock);
		ahead->ready++;
		pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
	}
	return NULL;
}

/* A pipe may have nothing to read for ever, and the caller may want to end meanwhile. */
static bool is_file(FILE *in)
{
	struct stat status;
	int fd = fileno(in);

	/* A compressed file has no descriptor. */
	return fd < 0 || (!fstat(fd, &status) && S_ISREG(status.st_mode));
}

struct read_ahead *read_ahead_new(FILE *in)
{
	struct read_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return NULL;
	ahead->lines.in = in;
	ahead->shapes = shapes_new();
	if (!ahead->shapes) {
		free(ahead);
		return NULL;
	}
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	/* Without a thread the caller parses for itself. */
	ahead->threaded = is_file(in) && !pthread_create(&ahead->thread, NULL, parse_all, ahead);
	return ahead;
}

void read_ahead_free(struct read_ahead *ahead)
{
	if (!ahead)
		return;
	if (ahead->threaded) {
		pthread_mutex_lock(&ahead->lock);
		ahead->stop = true;
		pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
		pthread_join(ahead->thread, NULL);
	}
	for (size_t i = 0; i < BATCHES; i++)
		for (size_t k = 0; k < BATCH_LINES; k++) {
			parsed_record_free(ahead->batches[i].lines[k].parsed);
			free(ahead->batches[i].lines[k].line);
		}
	shapes_free(ahead->shapes);
	free(ahead->lines.line);
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->lock);
	free(ahead);
}

/* The batch behind the one that the caller is at, which it gives back. */
static void turn_batch(struct read_ahead *ahead)
{
	if (ahead->begun && is_large(&ahead->batches[ahead->at]))
		empty_batch(&ahead->batches[ahead->at]);
	pthread_mutex_lock(&ahead->lock);
	if (ahead->begun) {
		ahead->at = (ahead->at + 1) % BATCHES;
		ahead->ready--;
		pthread_cond_signal(&ahead->changed);
	}
	while (!ahead->ready)
		pthread_cond_wait(&ahead->changed, &ahead->lock);
	pthread_mutex_unlock(&ahead->lock);
	ahead->begun = true;
	ahead->next = 0;
}

int read_ahead_next(struct read_ahead *ahead, struct read_line **line)
{
	if (!ahead->threaded) {
		*line = &ahead->batches[0].lines[0];
		end_line(*line);
		return parse_next(ahead, *line);
	}
	/* A batch may have nothing but the end. */
	while (!ahead->begun || ahead->next == ahead->batches[ahead->at].count) {
		if (ahead->begun && ahead->batches[ahead->at].end <= 0)
			return ahead->batches[ahead->at].end;
		turn_batch(ahead);
	}
	*line = &ahead->batches[ahead->at].lines[ahead->next++];
	return 1;
}
