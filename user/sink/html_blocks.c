/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/html_blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/telling.h"
#include "sink/stack_table.h"

#define ROWS        400
#define ROW_BYTES   (12u << 10) /* of a row; one that is longer is told without its stacks */
#define ROWS_BYTES  (1200u << 10)
#define STACKS      3 /* of a block, the heaviest */
#define FRAMES      64
#define TABLE_BYTES (16u << 20)
#define FLAME_BYTES (768u << 10)

struct row {
	char *json;
	size_t length;
	uint64_t wall_ns;
};

struct html_blocks {
	struct row rows[ROWS];
	size_t count;
	uint64_t blocks, wall_ns; /* of all */
	struct stack_table *table;
};

struct html_blocks *html_blocks_new(void)
{
	struct html_blocks *blocks = calloc(1, sizeof(*blocks));

	if (!blocks)
		return NULL;
	blocks->table = stack_table_new(TABLE_BYTES);
	if (blocks->table)
		return blocks;
	free(blocks);
	errno = ENOMEM;
	return NULL;
}

void html_blocks_free(struct html_blocks *blocks)
{
	if (!blocks)
		return;
	for (size_t i = 0; i < blocks->count; i++)
		free(blocks->rows[i].json);
	stack_table_free(blocks->table);
	free(blocks);
}

/* ---- a row ---- */

static void put_text(struct json_buffer *to, const char *key, const char *text)
{
	json_put_key(to, key);
	json_put_text(to, text ? text : "", 512);
}

static void put_number(struct json_buffer *to, const char *key, uint64_t value)
{
	json_put_key(to, key);
	json_put_u64(to, value);
}

void html_put_stack(struct json_buffer *to, const struct record_stack *stack)
{
	char name[TELLING_NAME];

	json_put_mark(to, '{');
	put_number(to, "ns", stack->weight_ns);
	json_put_key(to, "complete");
	json_put_token(to, stack->complete ? "true" : "false");
	if (stack->end_reason && !stack->complete)
		put_text(to, "end", stack->end_reason);
	json_put_key(to, "frames");
	json_put_mark(to, '[');
	for (size_t i = 0; i < stack->frame_count && i < FRAMES; i++)
		json_put_text(to, frame_name(name, sizeof(name), &stack->frames[i]), SIZE_MAX);
	json_put_mark(to, ']');
	if (stack->frame_count > FRAMES)
		put_number(to, "more", stack->frame_count - FRAMES);
	json_put_mark(to, '}');
}

/* The heaviest stacks, the heaviest first. */
static void put_stacks(struct json_buffer *to, const struct record_block *block)
{
	const struct record_stack *best[STACKS] = {0};

	for (size_t i = 0; i < block->stack_count; i++) {
		const struct record_stack *stack = &block->stacks[i];

		for (size_t k = 0; k < STACKS; k++) {
			const struct record_stack *moved = best[k];

			if (moved && moved->weight_ns >= stack->weight_ns)
				continue;
			best[k] = stack;
			stack = moved;
			if (!stack)
				break;
		}
	}
	json_put_key(to, "stacks");
	json_put_mark(to, '[');
	for (size_t k = 0; k < STACKS && best[k]; k++)
		html_put_stack(to, best[k]);
	json_put_mark(to, ']');
	put_number(to, "stack_count", block->stack_count);
}

void html_put_link(struct json_buffer *to, const struct block_link *link)
{
	static const char *const hows[] = {"lock", "binder", "futex"};

	json_put_mark(to, '{');
	json_put_key(to, "thread");
	json_put_text(to, link->thread, sizeof(link->thread));
	put_number(to, "tid", (uint64_t)link->tid);
	put_number(to, "pid", (uint64_t)link->pid);
	put_text(to, "process", link->process);
	put_text(to, "how", hows[link->how]);
	put_text(to, "what", link->what);
	if (link->queued_ns.present)
		put_number(to, "queued_ns", link->queued_ns.value);
	if (link->served_ns.present)
		put_number(to, "served_ns", link->served_ns.value);
	if (link->served_cpu_ns.present)
		put_number(to, "served_cpu_ns", link->served_cpu_ns.value);
	if (link->stack) {
		json_put_key(to, "stack");
		html_put_stack(to, link->stack);
	}
	json_put_mark(to, '}');
}

static void put_thread(struct json_buffer *to, const char *key, const char *thread, pid_t tid,
		       const char *process, const struct record_stack *stack)
{
	json_put_key(to, key);
	json_put_mark(to, '{');
	json_put_key(to, "thread");
	json_put_text(to, thread, RECORD_COMM_LEN);
	put_number(to, "tid", (uint64_t)tid);
	put_text(to, "process", process);
	if (stack) {
		json_put_key(to, "stack");
		html_put_stack(to, stack);
	}
	json_put_mark(to, '}');
}

static void put_ledger(struct json_buffer *to, const struct record_block *block)
{
	json_put_key(to, "ledger");
	json_put_mark(to, '{');
	put_number(to, "running_ns", block->ledger.running_ns);
	put_number(to, "runnable_ns", block->ledger.runnable_ns);
	put_number(to, "sleeping_ns", block->ledger.sleeping_ns);
	put_number(to, "uninterruptible_ns", block->ledger.uninterruptible_ns);
	put_number(to, "stopped_ns", block->ledger.stopped_ns);
	json_put_mark(to, '}');
	json_put_key(to, "reasons");
	json_put_mark(to, '[');
	for (size_t i = 0; i < block->reason_count && i < 8; i++) {
		json_put_mark(to, '[');
		json_put_text(to, block->reasons[i].reason, 128);
		json_put_u64(to, block->reasons[i].ns);
		json_put_mark(to, ']');
	}
	json_put_mark(to, ']');
}

static void put_row(struct json_buffer *to, const struct record_block *block, uint64_t x_ns,
		    bool stacks)
{
	static const char *const classes[] = {"short", "long", "ANR"};
	static const char *const states[] = {"open", "closed", "exited"};

	json_put_mark(to, '{');
	put_number(to, "x", x_ns / 1000000);
	put_number(to, "wall_ns", block->wall_ns);
	put_text(to, "process", block->process ? block->process : block->package);
	put_number(to, "pid", (uint64_t)block->pid);
	put_text(to, "class", classes[block->class]);
	put_text(to, "state", states[block->state]);
	put_ledger(to, block);
	if (block->waker.present)
		put_thread(to, "waker", block->waker.thread, block->waker.tid, block->waker.process,
			   stacks ? block->waker.stack : NULL);
	if (block->owner.present)
		put_thread(to, "owner", block->owner.thread, block->owner.tid, block->owner.process,
			   stacks ? block->owner_stack : NULL);
	if (block->deadlock) {
		json_put_key(to, "deadlock");
		json_put_token(to, "true");
	}
	json_put_key(to, "chain");
	json_put_mark(to, '[');
	for (size_t i = 0; i < block->chain_count && i < 8 && stacks; i++)
		html_put_link(to, &block->chain[i]);
	json_put_mark(to, ']');
	if (stacks)
		put_stacks(to, block);
	else
		put_text(to, "without", "its stacks are too long for this file");
	json_put_mark(to, '}');
}

/* ---- the longest ---- */

static int keep(struct html_blocks *blocks, const struct record_block *block, uint64_t x_ns)
{
	struct row *row = &blocks->rows[0];
	struct json_buffer json = {0};

	if (blocks->count < ROWS) {
		row = &blocks->rows[blocks->count];
	} else {
		for (size_t i = 1; i < ROWS; i++)
			if (blocks->rows[i].wall_ns < row->wall_ns)
				row = &blocks->rows[i];
		if (row->wall_ns >= block->wall_ns)
			return 0;
	}
	put_row(&json, block, x_ns, true);
	if (!json.failed && json.length > ROW_BYTES) {
		free(json.text);
		json = (struct json_buffer){0};
		put_row(&json, block, x_ns, false);
	}
	if (json.failed) {
		free(json.text);
		return -ENOMEM;
	}
	blocks->count += blocks->count < ROWS;
	free(row->json);
	*row = (struct row){json.text, json.length, block->wall_ns};
	return 0;
}

int html_blocks_add(struct html_blocks *blocks, const struct record_block *block, uint64_t x_ns)
{
	int err = keep(blocks, block, x_ns);

	blocks->blocks++;
	blocks->wall_ns += block->wall_ns;
	return err ? err : stack_table_add(blocks->table, block);
}

static int longer(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->wall_ns < y->wall_ns ? 1 : x->wall_ns > y->wall_ns ? -1 : 0;
}

static void put_rows(struct html_blocks *blocks, struct json_buffer *to)
{
	size_t bytes = 0, told = 0;

	qsort(blocks->rows, blocks->count, sizeof(*blocks->rows), longer);
	json_put_key(to, "blocks");
	json_put_mark(to, '{');
	put_number(to, "count", blocks->blocks);
	put_number(to, "wall_ns", blocks->wall_ns);
	json_put_key(to, "rows");
	json_put_mark(to, '[');
	for (; told < blocks->count; told++) {
		bytes += blocks->rows[told].length;
		if (bytes > ROWS_BYTES)
			break;
		if (told)
			json_put_raw(to, ",", 1);
		json_put_raw(to, blocks->rows[told].json, blocks->rows[told].length);
	}
	json_put_mark(to, ']');
	json_put_mark(to, '}');
}

/* ---- the tree ---- */

static int heavier(const void *a, const void *b)
{
	const struct table_stack *const *x = a, *const *y = b;

	return (*x)->weight_ns < (*y)->weight_ns ? 1 : (*x)->weight_ns > (*y)->weight_ns ? -1 : 0;
}

/* The number that a text has in the file, which only has those that are used. */
static uint32_t number_of(const struct stack_table *table, uint32_t text, uint32_t *numbers,
			  uint32_t *count, struct json_buffer *names)
{
	if (!numbers[text]) {
		numbers[text] = ++*count;
		json_put_text(names, table->texts[text], 256);
	}
	return numbers[text] - 1;
}

int html_blocks_put(struct html_blocks *blocks, struct json_buffer *to)
{
	const struct stack_table *table = blocks->table;
	struct json_buffer names = {0}, stacks = {0};
	uint32_t *numbers = calloc(table->text_count + 1, sizeof(*numbers)), count = 0;
	uint64_t left_out_ns = table->dropped_ns;
	int err = numbers ? 0 : -ENOMEM;

	put_rows(blocks, to);
	if (table->stack_count)
		qsort(table->stacks, table->stack_count, sizeof(*table->stacks), heavier);
	for (size_t i = 0; i < table->stack_count && !err; i++) {
		const struct table_stack *stack = table->stacks[i];

		if (names.length + stacks.length > FLAME_BYTES) {
			left_out_ns += stack->weight_ns;
			continue;
		}
		/* [ns, process, outermost, ..., innermost] */
		json_put_mark(&stacks, '[');
		json_put_u64(&stacks, stack->weight_ns);
		json_put_u64(&stacks, number_of(table, stack->process, numbers, &count, &names));
		for (size_t k = stack->frame_count; k--;)
			json_put_u64(&stacks, number_of(table, table->frames[stack->frames[k]].name,
							numbers, &count, &names));
		json_put_mark(&stacks, ']');
	}
	json_put_key(to, "flame");
	json_put_mark(to, '{');
	json_put_key(to, "names");
	json_put_mark(to, '[');
	json_put_raw(to, names.text ? names.text : "", names.length);
	json_put_mark(to, ']');
	json_put_key(to, "stacks");
	json_put_mark(to, '[');
	json_put_raw(to, stacks.text ? stacks.text : "", stacks.length);
	json_put_mark(to, ']');
	put_number(to, "left_out_ns", left_out_ns);
	json_put_mark(to, '}');
	if (names.failed || stacks.failed)
		err = -ENOMEM;
	free(names.text);
	free(stacks.text);
	free(numbers);
	return err;
}
