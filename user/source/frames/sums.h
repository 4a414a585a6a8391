/* SPDX-License-Identifier: BSD-2-Clause */
/* What was lost of frames, by reason: totals of streams, of which an interval gets what is new. */
#pragma once
#include "jankscope/record.h"

struct loss_sums {
	struct loss {
		const char *reason; /* lives as long as the run */
		uint64_t ended;     /* of streams that are over */
		uint64_t now;       /* of the stream as of now, and of the input */
		uint64_t reported;
	} items[32];
	size_t count;
};

void loss_sums_add(struct loss_sums *sums, const char *reason, uint64_t count);
/* A total of the stream as of now. */
void loss_sums_set(struct loss_sums *sums, const char *reason, uint64_t count);
/* The stream is over, and another one counts from 0. */
void loss_sums_end(struct loss_sums *sums);
/* Add what is new to the interval, as "frames.REASON". 0 or -ENOMEM. */
int loss_sums_report(struct loss_sums *sums, struct record_interval *interval);
