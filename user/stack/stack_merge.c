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

static bool same_run(const struct unwound_frame *a, const struct unwound_frame *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (a[i].function != b[i].function || a[i].kind != b[i].kind)
			return false;
	}
	return true;
}

/* Copy frames without repeats of the run just before: f, or f g, called over and over, counts once.
 * The frame kept is the innermost of each function. */
static size_t fold(const struct unwound_frame *from, size_t count, struct unwound_frame *to)
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

static uint64_t hash_path(const struct unwound_frame *frames, size_t count)
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
	free(path->trace);
	free(path->frames);
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

int stack_merge_add(struct stack_merge *merge, struct unwound *trace, enum capture_kind kind,
		    uint64_t t_boot_ns, uint64_t weight_ns)
{
	struct unwound_frame *frames = malloc((trace->count ? trace->count : 1) * sizeof(*frames));
	struct stack_path *path, fresh;
	size_t count;

	if (!frames) {
		free(trace);
		return -ENOMEM;
	}
	count = fold(trace->frames, trace->count, frames);
	fresh = (struct stack_path){.hash = hash_path(frames, count),
				    .first_boot_ns = t_boot_ns,
				    .kind = kind,
				    .end = trace->end,
				    .complete = trace->complete,
				    .count = count,
				    .frames = frames,
				    .trace = trace};
	for (size_t i = 0; i < merge->count; i++) {
		path = &merge->paths[i];
		if (path->hash == fresh.hash && path->count == count &&
		    same_run(path->frames, frames, count)) {
			free_path(&fresh);
			goto found;
		}
	}
	path = new_path(merge);
	if (!path) {
		free_path(&fresh);
		return -ENOMEM;
	}
	*path = fresh;
found:
	path->weight_ns += weight_ns;
	path->samples++;
	merge->weight_ns += weight_ns;
	merge->samples++;
	merge->last = path->hash;
	return 0;
}

static bool is_wait_name(const char *symbol)
{
	static const char *const names[] = {"epoll_wait", "epoll_pwait",    "epoll_pwait2",
					    "poll",       "ppoll",          "select",
					    "pselect",    "io_uring_enter", "epoll_pwait64"};

	symbol += symbol ? strspn(symbol, "_") : 0;
	for (size_t i = 0; symbol && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(symbol, names[i]))
			return true;
	return false;
}

/* A wait for events as the innermost frame is the loop's own if its callers are the outer end of
 * another path: that other one came from the same call of the loop and went elsewhere. */
static void mark_waits(struct stack_merge *merge)
{
	for (size_t i = 0; i < merge->count; i++) {
		struct stack_path *path = &merge->paths[i];
		size_t callers = path->count ? path->count - 1 : 0;

		path->at_wait = false;
		path->in_wait = path->count && is_wait_name(path->frames[0].symbol);
		if (!path->in_wait || !callers)
			continue;
		for (size_t k = 0; k < merge->count && !path->at_wait; k++) {
			const struct stack_path *other = &merge->paths[k];

			path->at_wait = k != i && other->count > callers &&
					same_run(path->frames + 1,
						 other->frames + other->count - callers, callers) &&
					!same_run(path->frames,
						  other->frames + other->count - callers - 1, 1);
		}
	}
}

static int heavier(const void *a, const void *b)
{
	const struct stack_path *x = a, *y = b;

	if (x->at_wait != y->at_wait)
		return x->at_wait ? 1 : -1;
	if (x->weight_ns != y->weight_ns)
		return x->weight_ns > y->weight_ns ? -1 : 1;
	return x->first_boot_ns < y->first_boot_ns ? -1 : x->first_boot_ns > y->first_boot_ns;
}

void stack_merge_sort(struct stack_merge *merge)
{
	mark_waits(merge);
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

static enum frame_by by_of(enum stack_method method)
{
	switch (method) {
	case METHOD_FRAME_POINTER:
		return FRAME_BY_FP;
	case METHOD_LINK_REGISTER:
		return FRAME_BY_LR;
	case METHOD_SCAN:
		return FRAME_BY_SCAN;
	case METHOD_QUICK:
		return FRAME_BY_QUICK;
	default:
		return FRAME_BY_CFI;
	}
}

int stack_merge_records(struct stack_merge *merge, struct record_stack **stacks, size_t *count)
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
						     .in_wait = path->in_wait,
						     .end_reason = stack_end_text(path->end),
						     .frames = frame + at,
						     .frame_count = path->count};
		for (size_t f = 0; f < path->count; f++) {
			const struct unwound_frame *from = &path->frames[f];

			frame[at++] = (struct record_frame){
				.module = from->module,
				.build_id = from->build_id,
				.offset = from->offset,
				.symbol = from->symbol,
				.kind = from->kind,
				.by = by_of(from->method),
				.shared = from->shared,
				.inlined = from->inlined,
				.dex_pc = {from->dex_place, from->dex_place - 1ull},
				.line = from->line};
		}
	}
	*count = merge->count;
	return 0;
}

uint64_t stack_schedule_first_ns(uint64_t threshold_ns)
{
	return threshold_ns / 5 < FIRST_NS ? threshold_ns / 5 : FIRST_NS;
}

void stack_schedule_start(struct stack_schedule *schedule, uint64_t threshold_ns, uint64_t start_ns)
{
	uint64_t first = stack_schedule_first_ns(threshold_ns);

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
