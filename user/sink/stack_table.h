/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of blocks, and of threads that ran in late frames, as tables of texts, frames and
 * stacks, each of which is there once: what formats of profiles are made of. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jankscope/record.h"

/* Texts are indices into texts; 0 is the empty one. */
struct table_frame {
	uint32_t name; /* of the function, or its file and place */
	uint32_t file, build_id;
	uint32_t line; /* 0: not known */
	uint64_t offset;
};

struct table_stack {
	uint32_t process;
	bool of_frame;             /* of a thread that ran in a late frame, else of a block */
	enum block_class class;    /* of a block */
	uint64_t weight_ns, count; /* the sum of all stacks that are equal, and how many they are */
	const uint32_t *frames;    /* indices, innermost first; none: no stack was taken then */
	size_t frame_count;
};

struct stack_table {
	const char **texts; /* UTF-8 without control characters */
	struct table_frame *frames;
	struct table_stack **stacks; /* in the order in which they came */
	size_t text_count, frame_count, stack_count;
	uint64_t dropped_ns; /* block time for which there was no room */
	struct stack_table_index *index;
};

/* A table that takes limit_bytes of memory at the most. NULL: no memory. */
struct stack_table *stack_table_new(size_t limit_bytes);
void stack_table_free(struct stack_table *table);
/* The index of a text. 0, -ENOMEM, -ENOSPC. */
int stack_table_text(struct stack_table *table, const char *text, uint32_t *index);
/* Take the stacks of a block, and what passed of it without any. 0, -ENOMEM; -ENOSPC: a part of it
 * is in dropped_ns. */
int stack_table_add(struct stack_table *table, const struct record_block *block);
/* Take the stacks of a late frame that met a thread while it ran (a path of --frame-samples; its
 * weight is the time for which it stands). 0, -ENOMEM; -ENOSPC: some are left out. */
int stack_table_add_frame(struct stack_table *table, const struct record_jank *jank);
