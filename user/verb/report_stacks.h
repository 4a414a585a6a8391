/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of a recording as report shows them: with the names of a mapping, and without the frames
 * that lead from one Java method to the next. */
#pragma once
#include "cli/options.h"
#include "core/session.h"
#include "jankscope/record.h"

struct report_stacks;

/* Loads the mapping of the options. NULL with *code, after a line on stderr. */
struct report_stacks *report_stacks_new(const struct options *options, enum exit_code *code);
void report_stacks_free(struct report_stacks *stacks);
/* A recording begins. 0, -ENOMEM. */
int report_stacks_begin(struct report_stacks *stacks);
/* Take a block: *shown is what is to be shown of it, valid until the next call. 0, -ENOMEM. */
int report_stacks_take(struct report_stacks *stacks, const struct record_block *block,
		       struct record_block *shown);
/* The summary's blocks by what they did, anew from the recording's blocks that were taken, where
 * other names or frames were asked for than its own summary has. The lists are valid until the next
 * recording begins. 0, -ENOMEM. */
int report_stacks_regroup(struct report_stacks *stacks, struct record_footer *footer);
/* Say on stderr what was left out, and a mapping that fits nothing. */
void report_stacks_tell(const struct report_stacks *stacks, const struct options *options);
