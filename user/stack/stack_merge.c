/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/stack_merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_CYCLE 8 /* functions that call each other in turn */
#define FIRST_NS      100000000ull
#define PERIOD_NS     50000000ull
#define DENSE_SAMPLES 50 /* at PERIOD_NS */
#define STAGE_SAMPLES 10

static bool same_run(const struct stack_frame *a, const struct stack_frame *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (a[i].function != b[i].function || a[i].kind != b[i].kind)
			return false;
	}
	return true;
}

/* Copy frames without repeats of the run just before: f, or f g, called over and over, counts once.
 * The frame kept is the innermost of each function. */
static size_t fold(const struct stack_frame *from, size_t count, struct stack_frame *to)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		to[kept++] = from[i];
		for (size_t cycle = 1; cycle <= LONGEST_CYCLE && cycle * 2 <= kept; cycle++) {
			if (same_run(&to[kept - cycle], &to[kept - cycle * 2], cycle)) {
				kept -= cycle;
				break;
			}
		}
	}
	return kept;
}

static uint64_t hash_path(const struct stack_frame *frames, size_t count)
{
	uint64_t hash = count;

	for (size_t i = 0; i < count; i++) {
		hash = (hash ^ frames[i].function) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash | 1;
}

static void free_path(struct stack_path *path)
{
	for (size_t i = 0; i < path->count; i++)
		free((char *)path->frames[i].text);
	free(path->frames);
}

static int copy_frames(struct stack_path *path, const struct stack_frame *frames, size_t count)
{
	path->frames = calloc(count ? count : 1, sizeof(*frames));
	if (!path->frames)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		path->frames[i] = frames[i];
		path->count = i + 1;
		if (frames[i].text && !(path->frames[i].text = strdup(frames[i].text))) {
			free_path(path);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Room for one more path: an empty slot, or that of the lightest. NULL: no memory. */
static struct stack_path *new_path(struct stack_merge *merge)
{
	struct stack_path *lightest;

	if (!merge->paths) {
		merge->paths = calloc(STACK_MERGE_PATHS, sizeof(*merge->paths));
		if (!merge->paths)
			return NULL;
	}
	if (merge->count < STACK_MERGE_PATHS)
		return &merge->paths[merge->count++];
	lightest = &merge->paths[0];
	for (size_t i = 1; i < merge->count; i++) {
		if (merge->paths[i].weight_ns < lightest->weight_ns)
			lightest = &merge->paths[i];
	}
	merge->thinned_ns += lightest->weight_ns;
	free_path(lightest);
	return lightest;
}

int stack_merge_add(struct stack_merge *merge, const struct stack_trace *trace,
		    enum capture_kind kind, uint64_t t_boot_ns, uint64_t weight_ns)
{
	struct stack_frame *frames = malloc((trace->count ? trace->count : 1) * sizeof(*frames));
	struct stack_path *path, fresh;
	size_t count;
	int err = 0;

	if (!frames)
		return -ENOMEM;
	count = fold(trace->frames, trace->count, frames);
	fresh = (struct stack_path){.hash = hash_path(frames, count),
				    .first_boot_ns = t_boot_ns,
				    .kind = kind,
				    .end = trace->end,
				    .complete = trace->complete};
	for (size_t i = 0; i < merge->count; i++) {
		path = &merge->paths[i];
		if (path->hash == fresh.hash && path->count == count &&
		    same_run(path->frames, frames, count))
			goto found;
	}
	err = copy_frames(&fresh, frames, count);
	if (err)
		goto out;
	path = new_path(merge);
	if (!path) {
		free_path(&fresh);
		err = -ENOMEM;
		goto out;
	}
	*path = fresh;
found:
	path->weight_ns += weight_ns;
	path->samples++;
	merge->weight_ns += weight_ns;
	merge->samples++;
	merge->last = path->hash;
out:
	free(frames);
	return err;
}

void stack_merge_repeat(struct stack_merge *merge, uint64_t weight_ns)
{
	merge->samples++;
	merge->weight_ns += weight_ns;
	for (size_t i = 0; i < merge->count; i++) {
		if (merge->paths[i].hash == merge->last) {
			merge->paths[i].weight_ns += weight_ns;
			merge->paths[i].samples++;
			return;
		}
	}
	merge->thinned_ns += weight_ns;
}

static int heavier(const void *a, const void *b)
{
	const struct stack_path *x = a, *y = b;

	if (x->weight_ns != y->weight_ns)
		return x->weight_ns > y->weight_ns ? -1 : 1;
	return x->first_boot_ns < y->first_boot_ns ? -1 : x->first_boot_ns > y->first_boot_ns;
}

void stack_merge_sort(struct stack_merge *merge)
{
	if (merge->count)
		qsort(merge->paths, merge->count, sizeof(*merge->paths), heavier);
}

void stack_merge_free(struct stack_merge *merge)
{
	for (size_t i = 0; i < merge->count; i++)
		free_path(&merge->paths[i]);
	free(merge->paths);
	*merge = (struct stack_merge){0};
}

int stack_merge_records(struct stack_merge *merge, struct stack_service *service,
			struct record_stack **stacks, size_t *count)
{
	size_t frames = 0, at = 0;
	struct record_frame *frame;

	stack_merge_sort(merge);
	for (size_t i = 0; i < merge->count; i++)
		frames += merge->paths[i].count;
	*count = 0;
	*stacks = calloc(1, merge->count * sizeof(**stacks) + frames * sizeof(*frame) + 1);
	if (!*stacks)
		return -ENOMEM;
	frame = (struct record_frame *)(*stacks + merge->count);
	for (size_t i = 0; i < merge->count; i++) {
		const struct stack_path *path = &merge->paths[i];

		(*stacks)[i] = (struct record_stack){.t_boot_ns = path->first_boot_ns,
						     .weight_ns = path->weight_ns,
						     .capture = path->kind,
						     .complete = path->complete,
						     .end_reason = stack_end_text(path->end),
						     .frames = frame + at,
						     .frame_count = path->count};
		for (size_t f = 0; f < path->count; f++) {
			int err = stack_symbolise(service, &path->frames[f], &frame[at++]);

			if (err) {
				free(*stacks);
				*stacks = NULL;
				return err;
			}
		}
	}
	*count = merge->count;
	return 0;
}

/* A name inside a folded line: ';' separates names and a newline ends the line. */
static void put_name(FILE *out, const char *name)
{
	for (; *name; name++)
		putc(*name == ';' ? ',' : (unsigned char)*name < ' ' ? '?' : *name, out);
}

char *stack_folded_line(const struct record_stack *stack)
{
	char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	if (!out)
		return NULL;
	for (size_t i = stack->frame_count; i--;) {
		const struct record_frame *frame = &stack->frames[i];
		const char *module = frame->module ? strrchr(frame->module, '/') : NULL;

		if (frame->symbol) {
			put_name(out, frame->symbol);
		} else {
			putc('[', out);
			put_name(out, module          ? module + 1
				      : frame->module ? frame->module
						      : "unknown");
			fprintf(out, "+0x%llx]", (unsigned long long)frame->offset);
		}
		if (frame->kind == FRAME_KERNEL)
			fputs("_[k]", out);
		if (i)
			putc(';', out);
	}
	if (!stack->frame_count)
		fputs("[no stack]", out);
	fprintf(out, " %llu\n", (unsigned long long)(stack->weight_ns + 500) / 1000);
	if (fclose(out)) {
		free(line);
		return NULL;
	}
	return line;
}

void stack_schedule_start(struct stack_schedule *schedule, uint64_t threshold_ns, uint64_t start_ns)
{
	uint64_t first = threshold_ns / 5 < FIRST_NS ? threshold_ns / 5 : FIRST_NS;

	*schedule = (struct stack_schedule){
		.first_ns = first, .period_ns = PERIOD_NS, .due_ns = start_ns + first};
}

void stack_schedule_taken(struct stack_schedule *schedule, uint64_t now_ns)
{
	if (++schedule->taken >= DENSE_SAMPLES && schedule->taken % STAGE_SAMPLES == 0 &&
	    schedule->period_ns < UINT64_MAX / 4)
		schedule->period_ns *= 2;
	schedule->due_ns = now_ns + schedule->period_ns;
}
