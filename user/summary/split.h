/* SPDX-License-Identifier: BSD-2-Clause */
/* What the targets used in the foreground and in the background. A process, or the uid of
 * processes, is in one of them for an interval when it was so at both of its ends; else the
 * interval counts as `mixed`, and as `unknown` where nobody could read its state. In bounded
 * memory. */
#pragma once
#include "jankscope/record.h"

struct split;

/* Hands on a total: "foreground.cpu_ns". 0 or -ENOMEM. */
typedef int (*split_add_fn)(void *ctx, const char *key, double value);

/* NULL with ENOMEM. */
struct split *split_new(split_add_fn add, void *ctx);
void split_free(struct split *split);
/* An interval that began and ended then; nothing where it has no context. 0 or -ENOMEM. */
int split_interval(struct split *split, const struct record_interval *interval,
		   uint64_t begin_boot_ns, uint64_t end_boot_ns);
/* A block that is over: it is counted with the interval that it ended in, whose context says what
 * its process was. */
int split_block(struct split *split, const struct record_block *block);
/* Blocks that no interval followed are of an unknown state. 0 or -ENOMEM. */
int split_finish(struct split *split);
