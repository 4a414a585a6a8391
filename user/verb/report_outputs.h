/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that `report` writes from the records of recordings, each by a sink of its own. A file
 * has its name when it is whole, and not before. */
#pragma once
#include "verb/verb.h"

struct report_outputs;

/* Open what the flags ask for. NULL with *code after a line on stderr. Free with
 * report_outputs_free(). */
struct report_outputs *report_outputs_new(const struct options *options, enum exit_code *code);
/* Whether any was asked for: then the summary is not. */
bool report_outputs_any(const struct report_outputs *outputs);
/* A record of a recording, in the order of the file. 0, or -ECANCELED: an output failed, or its
 * reader went away, and report_outputs_end() says which. */
int report_outputs_take(struct report_outputs *outputs, const struct record *record);
/* A block with all its stacks, with the names and frames that report shows: where outputs of stacks
 * come from. As report_outputs_take(). */
int report_outputs_show(struct report_outputs *outputs, const struct record_block *block);
/* All recordings were read: give the files their names. An error is said on stderr. */
enum exit_code report_outputs_end(struct report_outputs *outputs);
/* Free; a file that was not ended goes. */
void report_outputs_free(struct report_outputs *outputs);
