/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/blocks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/telling.h"
#include "util/arena.h"

/* A program that makes code all the time has blocks of ever new paths, of which no footer will
 * tell. When all groups are taken, those with at most 1 of SLIGHT_PARTS of all time are summed up
 * as one, the lightest first, until a quarter of the groups is free: memory is about the same
 * before and behind. Fewer than SLIGHT_PARTS have more. */
#define MAX_GROUPS   256
#define KEPT_GROUPS  (MAX_GROUPS / 4 * 3)
#define SLIGHT_PARTS 200
_Static_assert(SLIGHT_PARTS <= MAX_GROUPS, "some group can always be given up");

struct block_group {
	struct footer_block_path sums;
	UT_hash_handle hh;
	char path[]; /* "" for blocks without a stack */
};

struct block_groups {
	struct block_group *groups;
	struct arena memory; /* of the groups; those that were given up too, until pack() */
	uint64_t total_ns;
	bool native, dropped;
	struct footer_block_path rest; /* that found no room, or lost it */
	struct footer_block_path *result;
};

struct block_groups *block_groups_new(bool native)
{
	struct block_groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		return NULL;
	groups->memory.part_bytes = ARENA_KEPT_BYTES;
	groups->native = native;
	return groups;
}

void block_groups_free(struct block_groups *groups)
{
	if (!groups)
		return;
	HASH_CLEAR(hh, groups->groups);
	arena_free(&groups->memory);
	free(groups->result);
	free(groups);
}

static void add_block(struct footer_block_path *sums, uint64_t wall_ns)
{
	sums->count++;
	sums->total_ns += wall_ns;
	if (wall_ns > sums->longest_ns)
		sums->longest_ns = wall_ns;
}

/* "caller;...;function": the folded form, in which ';' separates. */
static void write_path(char *text, size_t size, const struct record_stack *stack, bool native)
{
	size_t frames[TELLING_FRAMES], n = 0;
	size_t count = telling_path(stack, native, frames, TELLING_FRAMES);
	char name[2 * TELLING_NAME];

	*text = 0;
	while (count && n + 1 < size) {
		frame_name(name, sizeof(name), &stack->frames[frames[--count]]);
		for (char *p = name; *p; p++)
			if (*p == ';')
				*p = ',';
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ";" : "", name);
	}
}

static void merge(struct footer_block_path *to, struct footer_block_path from)
{
	to->count += from.count;
	to->total_ns += from.total_ns;
	if (from.longest_ns > to->longest_ns)
		to->longest_ns = from.longest_ns;
}

static int heavier(const struct block_group *a, const struct block_group *b)
{
	return a->sums.total_ns < b->sums.total_ns ? -1 : a->sums.total_ns > b->sums.total_ns;
}

static struct block_group *add_group(struct block_groups *groups, const char *path)
{
	size_t length = strlen(path);
	struct block_group *group = arena_take(&groups->memory, sizeof(*group) + length + 1);

	if (!group)
		return NULL;
	memcpy(group->path, path, length + 1);
	HASH_ADD_KEYPTR(hh, groups->groups, group->path, length, group);
	return group;
}

/* Move all groups together, and free what those that were given up took. */
static void pack(struct block_groups *groups)
{
	struct block_group *all = groups->groups, *group, *copy;
	struct arena old = groups->memory;

	groups->groups = NULL;
	groups->memory = (struct arena){.part_bytes = old.part_bytes};
	for (group = all; group; group = group->hh.next) {
		copy = add_group(groups, group->path);
		if (copy)
			copy->sums = group->sums;
		else
			merge(&groups->rest, group->sums);
	}
	HASH_CLEAR(hh, all);
	arena_free(&old);
}

/* Of several that are as slight, the oldest go first. */
static void make_room(struct block_groups *groups)
{
	struct block_group *group, *next;

	HASH_SORT(groups->groups, heavier);
	HASH_ITER (hh, groups->groups, group, next) {
		if (HASH_COUNT(groups->groups) <= KEPT_GROUPS ||
		    group->sums.total_ns > groups->total_ns / SLIGHT_PARTS)
			break;
		merge(&groups->rest, group->sums);
		groups->dropped = true;
		HASH_DEL(groups->groups, group);
	}
	pack(groups);
}

static struct block_group *find(struct block_groups *groups, const struct record_stack *stack)
{
	char text[TELLING_FRAMES * 2 * TELLING_NAME] = "";
	struct block_group *group;

	if (stack)
		write_path(text, sizeof(text), stack, groups->native);
	HASH_FIND_STR(groups->groups, text, group);
	if (group)
		return group;
	if (HASH_COUNT(groups->groups) == MAX_GROUPS)
		make_room(groups);
	group = add_group(groups, text);
	if (group)
		group->sums.partial = groups->dropped;
	return group;
}

void block_groups_add(struct block_groups *groups, uint64_t wall_ns,
		      const struct record_stack *stack)
{
	struct block_group *group = find(groups, stack);

	groups->total_ns += wall_ns;
	add_block(group ? &group->sums : &groups->rest, wall_ns);
}

static int lighter(const struct block_group *a, const struct block_group *b)
{
	if (a->sums.total_ns != b->sums.total_ns)
		return a->sums.total_ns < b->sums.total_ns ? 1 : -1;
	return strcmp(a->path, b->path);
}

int block_groups_take(struct block_groups *groups, size_t count, struct record_footer *footer)
{
	struct block_group *group;
	size_t n = 0;

	free(groups->result);
	groups->result = calloc(count + 1, sizeof(*groups->result));
	if (!groups->result)
		return -ENOMEM;
	HASH_SORT(groups->groups, lighter);
	footer->other_block_paths = groups->rest;
	for (group = groups->groups; group; group = group->hh.next) {
		if (!group->sums.count)
			continue;
		if (n == count) {
			merge(&footer->other_block_paths, group->sums);
			continue;
		}
		groups->result[n] = group->sums;
		groups->result[n++].path = group->path[0] ? group->path : NULL;
	}
	footer->block_paths = groups->result;
	footer->block_path_count = n;
	footer->any_block = n > 0;
	return 0;
}
