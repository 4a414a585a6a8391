/* SPDX-License-Identifier: BSD-2-Clause */
/* What report shows of a recording: --since, --until, --scene, --target. An interval or a block
 * that is in only in part is left out, because what it says cannot be divided. */
#pragma once
#include "jankscope/record.h"
#include "verb/verb.h"

struct report_selection;

/* What comes out of a selection, in the order of the recording. */
struct selection_output {
	int (*record)(void *ctx, const struct record *record);
	/* An interval that ended then was left out. */
	int (*skip)(void *ctx, uint64_t end_boot_ns);
	void *ctx;
};

/* NULL with *code after a line on stderr. */
struct report_selection *report_selection_new(const struct options *options, enum exit_code *code);
void report_selection_free(struct report_selection *selection);
/* Whether anything is selected: without a flag all is, and the rest here is not to be called. */
bool report_selection_any(const struct report_selection *selection);
/* A recording begins. */
void report_selection_begin(struct report_selection *selection);
/* Hand on the record if it is in; first the header of a run that has anything in, and the marks of
 * scenes that were open already. Footers are not handed on. 0, -ENOMEM, or what the output
 * returned; -ENODATA: --since or --until means wall time, and the run's header has none. */
int report_selection_take(struct report_selection *selection, const struct record *record,
			  const struct selection_output *output);
/* The last record of a block: *in tells whether it is to be shown. As report_selection_take(). */
int report_selection_take_block(struct report_selection *selection,
				const struct record_block *block, bool *in,
				const struct selection_output *output);
/* The recording was read: say on stderr what was left out. EXIT_NO_TARGET, after a line on stderr:
 * nothing of it is in. */
enum exit_code report_selection_end(struct report_selection *selection, const char *file);
