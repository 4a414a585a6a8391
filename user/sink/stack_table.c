/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/stack_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "record/telling.h"
#include "sink/text.h"
#include "util/arena.h"

#define TEXT_BYTES 8192 /* what is longer is cut */

struct text_node {
	uint32_t index;
	UT_hash_handle hh;
	char text[];
};

struct frame_node {
	uint32_t index;
	struct table_frame key;
	UT_hash_handle hh;
};

#define OF_FRAME UINT32_MAX

/* What makes stacks equal; the frames follow. */
struct stack_key {
	uint32_t process;
	uint32_t class; /* enum block_class, or OF_FRAME */
	uint32_t frames[];
};

struct stack_node {
	struct table_stack stack;
	UT_hash_handle hh;
	struct stack_key key;
};

struct stack_table_index {
	struct text_node *texts;
	struct frame_node *frames;
	struct stack_node *stacks;
	struct arena memory; /* of the nodes */
	size_t used_bytes, limit_bytes;
	size_t text_room, frame_room, stack_room;
	struct stack_key *scratch;
	size_t scratch_frames;
};

struct stack_table *stack_table_new(size_t limit_bytes)
{
	struct stack_table *table = calloc(1, sizeof(*table));
	uint32_t empty;

	if (!table)
		return NULL;
	table->index = calloc(1, sizeof(*table->index));
	if (table->index) {
		table->index->memory.part_bytes = ARENA_KEPT_BYTES;
		table->index->limit_bytes = limit_bytes;
	}
	if (table->index && !stack_table_text(table, "", &empty))
		return table;
	stack_table_free(table);
	return NULL;
}

void stack_table_free(struct stack_table *table)
{
	if (!table)
		return;
	if (table->index) {
		HASH_CLEAR(hh, table->index->texts);
		HASH_CLEAR(hh, table->index->frames);
		HASH_CLEAR(hh, table->index->stacks);
		arena_free(&table->index->memory);
		free(table->index->scratch);
		free(table->index);
	}
	free(table->texts);
	free(table->frames);
	free(table->stacks);
	free(table);
}

/* ---- rows ---- */

/* Memory of a node, zeroed, and a place in the array that names it. */
static int take(struct stack_table_index *index, size_t bytes, void **node, void **array,
		size_t size, size_t count, size_t *room)
{
	/* A node has a place in its array, and about as much in the buckets of its hash table. */
	size_t all = bytes + 2 * size + sizeof(UT_hash_handle);

	if (count >= UINT32_MAX || all > index->limit_bytes - index->used_bytes)
		return -ENOSPC;
	if (count == *room) {
		void *more = reallocarray(*array, *room ? 2 * *room : 64, size);

		if (!more)
			return -ENOMEM;
		*array = more;
		*room = *room ? 2 * *room : 64;
	}
	*node = arena_take(&index->memory, bytes);
	if (!*node)
		return -ENOMEM;
	index->used_bytes += all;
	return 0;
}

int stack_table_text(struct stack_table *table, const char *text, uint32_t *index)
{
	struct stack_table_index *all = table->index;
	char clean[TEXT_BYTES];
	struct text_node *node;
	void *place, *array = table->texts;
	size_t length;
	int err;

	text_clean(clean, sizeof(clean), text ? text : "");
	length = strlen(clean);
	HASH_FIND(hh, all->texts, clean, length, node);
	if (node) {
		*index = node->index;
		return 0;
	}
	err = take(all, sizeof(*node) + length + 1, &place, &array, sizeof(*table->texts),
		   table->text_count, &all->text_room);
	table->texts = array;
	if (err)
		return err;
	node = place;
	memcpy(node->text, clean, length + 1);
	node->index = (uint32_t)table->text_count;
	HASH_ADD_KEYPTR(hh, all->texts, node->text, length, node);
	table->texts[table->text_count++] = node->text;
	*index = node->index;
	return 0;
}

static int add_frame(struct stack_table *table, const struct table_frame *frame, uint32_t *index)
{
	struct stack_table_index *all = table->index;
	void *place, *array = table->frames;
	struct frame_node *node;
	int err;

	HASH_FIND(hh, all->frames, frame, sizeof(*frame), node);
	if (node) {
		*index = node->index;
		return 0;
	}
	err = take(all, sizeof(*node), &place, &array, sizeof(*table->frames), table->frame_count,
		   &all->frame_room);
	table->frames = array;
	if (err)
		return err;
	node = place;
	node->key = *frame;
	node->index = (uint32_t)table->frame_count;
	HASH_ADD(hh, all->frames, key, sizeof(node->key), node);
	table->frames[table->frame_count++] = *frame;
	*index = node->index;
	return 0;
}

static int add_stack(struct stack_table *table, size_t frame_count, uint64_t weight_ns,
		     uint64_t count)
{
	struct stack_table_index *all = table->index;
	size_t frames_bytes = frame_count * sizeof(*all->scratch->frames);
	size_t bytes = sizeof(struct stack_key) + frames_bytes;
	void *place, *array = table->stacks;
	struct stack_node *node;
	int err;

	HASH_FIND(hh, all->stacks, all->scratch, bytes, node);
	if (!node) {
		err = take(all, sizeof(*node) + frames_bytes, &place, &array,
			   sizeof(*table->stacks), table->stack_count, &all->stack_room);
		table->stacks = array;
		if (err)
			return err;
		node = place;
		memcpy(&node->key, all->scratch, bytes);
		node->stack = (struct table_stack){
			.process = node->key.process,
			.of_frame = node->key.class == OF_FRAME,
			.class = node->key.class == OF_FRAME ? BLOCK_SHORT
							     : (enum block_class)node->key.class,
			.frames = node->key.frames,
			.frame_count = frame_count};
		HASH_ADD_KEYPTR(hh, all->stacks, &node->key, bytes, node);
		table->stacks[table->stack_count++] = &node->stack;
	}
	node->stack.weight_ns += weight_ns;
	node->stack.count += count;
	return 0;
}

/* ---- what a block or a late frame has ---- */

static int begin_stack(struct stack_table *table, const char *process, const char *package,
		       uint32_t class, size_t frame_count)
{
	struct stack_table_index *all = table->index;
	struct stack_key *more;

	if (!all->scratch || frame_count > all->scratch_frames) {
		more = realloc(all->scratch, sizeof(*more) + frame_count * sizeof(*more->frames));
		if (!more)
			return -ENOMEM;
		all->scratch = more;
		all->scratch_frames = frame_count;
	}
	all->scratch->class = class;
	process = process ? process : package;
	return stack_table_text(table, process ? process : "unknown", &all->scratch->process);
}

static int take_frame(struct stack_table *table, const struct record_frame *frame, uint32_t *index)
{
	struct table_frame row;
	const char *file = frame->module;
	char name[TEXT_BYTES];
	int err;

	if (!file && frame->kind == FRAME_KERNEL)
		file = "[kernel]";
	memset(&row, 0, sizeof(row)); /* its bytes are a key */
	row.offset = frame->offset;
	row.line = frame->line;
	err = stack_table_text(table, frame_name(name, sizeof(name), frame), &row.name);
	if (!err)
		err = stack_table_text(table, file, &row.file);
	if (!err)
		err = stack_table_text(table, frame->build_id, &row.build_id);
	return err ? err : add_frame(table, &row, index);
}

/* Behind begin_stack(). */
static int take_stack(struct stack_table *table, const struct record_stack *stack, uint64_t count)
{
	int err = 0;

	for (size_t i = 0; i < stack->frame_count && !err; i++)
		err = take_frame(table, &stack->frames[i], &table->index->scratch->frames[i]);
	return err ? err : add_stack(table, stack->frame_count, stack->weight_ns, count);
}

int stack_table_add(struct stack_table *table, const struct record_block *block)
{
	int err = 0, one;

	for (size_t i = 0; i < block->stack_count; i++) {
		const struct record_stack *stack = &block->stacks[i];

		one = begin_stack(table, block->process, block->package, block->class,
				  stack->frame_count);
		if (!one)
			one = take_stack(table, stack, 1);
		if (one)
			table->dropped_ns += stack->weight_ns;
		err = one ? one : err;
	}
	if (!block->unsampled_ns.present || !block->unsampled_ns.value)
		return err;
	one = begin_stack(table, block->process, block->package, block->class, 0);
	if (!one)
		one = add_stack(table, 0, block->unsampled_ns.value, 1);
	if (one)
		table->dropped_ns += block->unsampled_ns.value;
	return one ? one : err;
}

int stack_table_add_frame(struct stack_table *table, const struct record_jank *jank)
{
	int err = 0, one;

	for (size_t i = 0; i < jank->stack_count; i++) {
		const struct record_stack *stack = &jank->stacks[i];

		if (stack->asleep || !stack->frame_count)
			continue;
		one = begin_stack(table, jank->process, jank->package, OF_FRAME,
				  stack->frame_count);
		if (!one)
			one = take_stack(table, stack, stack->samples ? stack->samples : 1);
		err = one ? one : err;
	}
	return err;
}
