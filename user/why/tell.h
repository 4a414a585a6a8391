/* SPDX-License-Identifier: BSD-2-Clause */
/* A judged frame as a record, and the lines that tell of it. Pure. */
#pragma once
#include "why/judge.h"

/* Fill times, lateness, causes, culprit, confidence and threads of a record. pid, names, tokens,
 * jank_type, chain, stacks and lost are the caller's, who may set them before or after. The arrays
 * of the threads are malloc'ed and owned by the record until why_record_free(); texts are those of
 * the frame's threads. Threads of which nothing is known are in `missing` under "threads" with
 * this reason (NULL: "not recorded"). Times below 0 are told as 0. 0, -ENOMEM. */
int why_record_fill(struct record_jank *record, const struct why_frame *frame,
		    const struct why_verdict *verdict, const char *missing);
/* Free what why_record_fill() allocated, and the record's lists. */
void why_record_free(struct record_jank *record);
