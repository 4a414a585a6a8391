/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/folded.h"
#include "util/arena.h"

/* Some hundred paths of a deep stack, thousands of a flat one. */
#define DEFAULT_BYTES (1u << 20)
/* With fewer than these nothing is dropped. A program that makes code all the time has ever new
 * paths: from then on those with at most 1 of SLIGHT_PARTS of all time go before there are
 * more. */
#define FEW_BYTES    (64u << 10)
#define SLIGHT_PARTS 200

struct path_row {
	uint64_t weight_ns, blocks, last_block;
	UT_hash_handle hh;
	char path[];
};

struct paths {
	struct path_row *rows;
	struct arena memory; /* of the rows; those that gave way too, until pack() */
	size_t bytes, room_bytes, limit_bytes;
	uint64_t block, total_ns, dropped_ns;
	struct footer_path *top;
};

struct paths *paths_new(void)
{
	struct paths *paths = calloc(1, sizeof(*paths));

	if (!paths)
		return NULL;
	paths->memory.part_bytes = ARENA_KEPT_BYTES;
	paths_limit(paths, DEFAULT_BYTES);
	return paths;
}

void paths_limit(struct paths *paths, size_t bytes)
{
	paths->limit_bytes = bytes;
	paths->room_bytes = bytes < FEW_BYTES ? bytes : FEW_BYTES;
}

static size_t row_bytes(size_t path_length)
{
	return sizeof(struct path_row) + path_length + 1;
}

static struct path_row *add_row(struct paths *paths, const char *path, size_t length)
{
	struct path_row *row = arena_take(&paths->memory, row_bytes(length));

	if (!row)
		return NULL;
	memcpy(row->path, path, length + 1);
	paths->bytes += row_bytes(length);
	HASH_ADD_KEYPTR(hh, paths->rows, row->path, length, row);
	return row;
}

static void drop(struct paths *paths, struct path_row *row)
{
	paths->dropped_ns += row->weight_ns;
	paths->bytes -= row_bytes(row->hh.keylen);
	HASH_DEL(paths->rows, row);
}

/* Move all rows together, and free what those that gave way took. */
static void pack(struct paths *paths)
{
	struct path_row *all = paths->rows, *row, *copy;
	struct arena old = paths->memory;

	paths->rows = NULL;
	paths->bytes = 0;
	paths->memory = (struct arena){.part_bytes = old.part_bytes};
	for (row = all; row; row = row->hh.next) {
		copy = add_row(paths, row->path, row->hh.keylen);
		if (!copy) {
			paths->dropped_ns += row->weight_ns;
			continue;
		}
		copy->weight_ns = row->weight_ns;
		copy->blocks = row->blocks;
		copy->last_block = row->last_block;
	}
	HASH_CLEAR(hh, all);
	arena_free(&old);
}

void paths_free(struct paths *paths)
{
	if (!paths)
		return;
	HASH_CLEAR(hh, paths->rows);
	arena_free(&paths->memory);
	free(paths->top);
	free(paths);
}

static int lighter(const struct path_row *a, const struct path_row *b)
{
	return a->weight_ns < b->weight_ns ? -1 : a->weight_ns > b->weight_ns;
}

/* The lightest paths go, down to three quarters of the room; of several that weigh the same, the
 * oldest. So what a long run spent its time in stays, however many paths were met once, and memory
 * is about the same before and behind. Below the limit only slight ones go; where that makes little
 * room there may be more. */
static void make_room(struct paths *paths)
{
	bool at_limit = paths->room_bytes == paths->limit_bytes;
	uint64_t slight_ns = at_limit ? UINT64_MAX : paths->total_ns / SLIGHT_PARTS;
	struct path_row *row, *next;

	HASH_SORT(paths->rows, lighter);
	HASH_ITER (hh, paths->rows, row, next) {
		if (paths->bytes <= paths->room_bytes / 4 * 3 || row->weight_ns > slight_ns)
			break;
		drop(paths, row);
	}
	pack(paths);
	if (at_limit || paths->bytes <= paths->room_bytes / 8 * 7)
		return;
	paths->room_bytes = paths->room_bytes < paths->limit_bytes / 2 ? 2 * paths->room_bytes
								       : paths->limit_bytes;
}

static int add_stack(struct paths *paths, const struct record_stack *stack)
{
	char *line = stack_folded_line(stack), *end;
	struct path_row *row;
	size_t length;

	if (!line)
		return -ENOMEM;
	/* Without the weight behind the last blank. */
	end = strrchr(line, ' ');
	if (end)
		*end = 0;
	length = strlen(line);
	HASH_FIND(hh, paths->rows, line, length, row);
	if (!row) {
		if (paths->bytes + row_bytes(length) > paths->room_bytes)
			make_room(paths);
		row = add_row(paths, line, length);
	}
	free(line);
	if (!row)
		return -ENOMEM;
	row->weight_ns += stack->weight_ns;
	paths->total_ns += stack->weight_ns;
	row->blocks += row->last_block != paths->block;
	row->last_block = paths->block;
	return 0;
}

int paths_add(struct paths *paths, const struct record_block *block)
{
	int err = 0;

	paths->block++;
	for (size_t i = 0; i < block->stack_count && !err; i++)
		err = add_stack(paths, &block->stacks[i]);
	return err;
}

static int heavier(const struct path_row *a, const struct path_row *b)
{
	if (a->weight_ns != b->weight_ns)
		return a->weight_ns < b->weight_ns ? 1 : -1;
	return strcmp(a->path, b->path);
}

size_t paths_top(struct paths *paths, size_t count, const struct footer_path **top)
{
	struct path_row *row = NULL;
	size_t n = 0;

	HASH_SORT(paths->rows, heavier);
	free(paths->top);
	paths->top = calloc(count + 1, sizeof(*paths->top));
	*top = paths->top;
	if (!paths->top)
		return 0;
	for (row = paths->rows; row && n < count; row = row->hh.next)
		paths->top[n++] = (struct footer_path){row->path, row->weight_ns, row->blocks};
	return n;
}

int paths_each(struct paths *paths, int (*take)(void *ctx, const char *path, uint64_t weight_ns),
	       void *ctx)
{
	struct path_row *row;
	int err = 0;

	HASH_SORT(paths->rows, heavier);
	for (row = paths->rows; row && !err; row = row->hh.next)
		err = take(ctx, row->path, row->weight_ns);
	return err;
}

bool paths_find(const struct paths *paths, const char *path, uint64_t *weight_ns)
{
	struct path_row *row;

	HASH_FIND(hh, paths->rows, path, strlen(path), row);
	*weight_ns = row ? row->weight_ns : 0;
	return row;
}

uint64_t paths_dropped_ns(const struct paths *paths)
{
	return paths->dropped_ns;
}
