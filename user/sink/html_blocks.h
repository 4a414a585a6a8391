/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of an HTML report: the longest ones with their stacks and chains, and a tree of where
 * the time of all went. */
#pragma once
#include <stdint.h>

#include "jankscope/record.h"
#include "record/json_buffer.h"

struct html_blocks;

/* NULL with ENOMEM. */
struct html_blocks *html_blocks_new(void);
void html_blocks_free(struct html_blocks *blocks);
/* x_ns: its begin on the x axis. 0, -ENOMEM; -ENOSPC: not all of its stacks are in the tree. */
int html_blocks_add(struct html_blocks *blocks, const struct record_block *block, uint64_t x_ns);
/* "blocks": {...}, "flame": {...}. 0 or -ENOMEM. */
int html_blocks_put(struct html_blocks *blocks, struct json_buffer *to);
/* A stack, a link of a chain, as the page takes them. */
void html_put_stack(struct json_buffer *to, const struct record_stack *stack);
void html_put_link(struct json_buffer *to, const struct block_link *link);
