/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/speedscope.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/stack_table.h"
#include "util/json_text.h"

#define TABLE_BYTES (64u << 20)

struct speedscope {
	struct sink base;
	FILE *to;
	struct stack_table *table;
};

/* The stacks of a process, which stand together. */
struct profile {
	uint32_t process;
	struct table_stack **stacks;
	size_t count;
	uint64_t weight_ns;
};

static int speedscope_write(struct sink *sink, const struct record *record)
{
	struct speedscope *speedscope = (struct speedscope *)sink;
	int err;

	if (record->type != RECORD_BLOCK)
		return 0;
	err = stack_table_add(speedscope->table, record->block);
	sink->dropped += err == -ENOSPC;
	return err == -ENOSPC ? 0 : err;
}

static int by_process(const void *a, const void *b)
{
	const struct table_stack *const *x = a, *const *y = b;

	if ((*x)->process != (*y)->process)
		return (*x)->process < (*y)->process ? -1 : 1;
	return (*x)->weight_ns < (*y)->weight_ns ? 1 : (*x)->weight_ns > (*y)->weight_ns ? -1 : 0;
}

static int by_weight(const void *a, const void *b)
{
	const struct profile *x = a, *y = b;

	return x->weight_ns < y->weight_ns ? 1 : x->weight_ns > y->weight_ns ? -1 : 0;
}

/* The stacks sorted, and where each process begins in them. NULL: no memory. */
static struct profile *group(const struct stack_table *table, size_t *count)
{
	struct profile *profiles = calloc(table->stack_count + 1, sizeof(*profiles)), *one;

	*count = 0;
	if (!profiles)
		return NULL;
	if (table->stack_count)
		qsort(table->stacks, table->stack_count, sizeof(*table->stacks), by_process);
	for (size_t i = 0; i < table->stack_count; i++) {
		if (!*count || profiles[*count - 1].process != table->stacks[i]->process) {
			profiles[*count].process = table->stacks[i]->process;
			profiles[(*count)++].stacks = &table->stacks[i];
		}
		one = &profiles[*count - 1];
		one->count++;
		one->weight_ns += table->stacks[i]->weight_ns;
	}
	qsort(profiles, *count, sizeof(*profiles), by_weight);
	return profiles;
}

static void put_text(FILE *to, const char *key, const char *text)
{
	fprintf(to, "\"%s\":", key);
	json_put_string(to, text, strlen(text));
}

static void put_frames(FILE *to, const struct stack_table *table)
{
	for (size_t i = 0; i < table->frame_count; i++) {
		const struct table_frame *frame = &table->frames[i];

		putc('{', to);
		put_text(to, "name", table->texts[frame->name]);
		if (frame->file) {
			putc(',', to);
			put_text(to, "file", table->texts[frame->file]);
		}
		if (frame->line)
			fprintf(to, ",\"line\":%" PRIu32, frame->line);
		fputs("},\n", to);
	}
	/* The frame of time without a stack is the last. */
	fputs("{\"name\":\"[not sampled]\"}\n", to);
}

static void put_profile(FILE *to, const struct stack_table *table, const struct profile *profile)
{
	fputs("{\"type\":\"sampled\",", to);
	put_text(to, "name", table->texts[profile->process]);
	fprintf(to,
		",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64
		",\n\"samples\":[",
		profile->weight_ns);
	for (size_t i = 0; i < profile->count; i++) {
		const struct table_stack *stack = profile->stacks[i];

		fputs(i ? ",\n[" : "[", to);
		for (size_t k = stack->frame_count; k--;)
			fprintf(to, k ? "%" PRIu32 "," : "%" PRIu32, stack->frames[k]);
		if (!stack->frame_count)
			fprintf(to, "%zu", table->frame_count);
		putc(']', to);
	}
	fputs("],\n\"weights\":[", to);
	for (size_t i = 0; i < profile->count; i++)
		fprintf(to, i ? ",%" PRIu64 : "%" PRIu64, profile->stacks[i]->weight_ns);
	fputs("]}", to);
}

static int speedscope_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct speedscope *speedscope = (struct speedscope *)sink;
	FILE *to = speedscope->to;
	struct profile *profiles;
	size_t count;

	profiles = group(speedscope->table, &count);
	if (!profiles)
		return -ENOMEM;
	errno = 0;
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
	      "\"exporter\":\"jankscope@" JANKSCOPE_VERSION
	      "\",\"name\":\"blocked main threads\",\n"
	      "\"shared\":{\"frames\":[\n",
	      to);
	put_frames(to, speedscope->table);
	fputs("]},\n\"profiles\":[\n", to);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "", to);
		put_profile(to, speedscope->table, &profiles[i]);
	}
	fputs("]}\n", to);
	free(profiles);
	if (!ferror(to))
		return 0;
	return errno ? -errno : -EIO;
}

static void speedscope_close(struct sink *sink)
{
	stack_table_free(((struct speedscope *)sink)->table);
	free(sink);
}

struct sink *speedscope_sink_new(FILE *to)
{
	static const struct sink_ops ops = {.name = "speedscope",
					    .write = speedscope_write,
					    .finish = speedscope_finish,
					    .close = speedscope_close};
	struct speedscope *speedscope = calloc(1, sizeof(*speedscope));

	if (!speedscope)
		return NULL;
	speedscope->base.ops = &ops;
	speedscope->to = to;
	speedscope->table = stack_table_new(TABLE_BYTES);
	if (speedscope->table)
		return &speedscope->base;
	free(speedscope);
	errno = ENOMEM;
	return NULL;
}
