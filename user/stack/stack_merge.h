/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of one block as paths with weights: equal paths add up, recursion is folded, and a
 * stack that did not change costs one addition. */
#pragma once
#include "jankscope/stack.h"

#define STACK_MERGE_PATHS 100

struct stack_path {
	uint64_t weight_ns, first_boot_ns;
	uint32_t samples;
	enum capture_kind kind; /* of its first sample */
	enum stack_end end;
	bool complete;
	uint64_t hash;
	size_t count;
	/* Another path of this merge shows that it is the loop's own wait, met when the thread was
	 * about to enter it or had just left it. */
	bool at_wait;
	bool in_wait; /* the innermost frame waits for events, in whatever loop */
	struct unwound_frame
		*frames;       /* innermost first, recursion folded; texts are those of trace */
	struct unwound *trace; /* owned */
};

/* Zero-initialised is empty. Paths are in order of first appearance until sorted. */
struct stack_merge {
	struct stack_path *paths;
	size_t count;
	uint64_t samples, weight_ns; /* of all, thinned ones included */
	/* Beyond STACK_MERGE_PATHS the lightest path gives way; its weight is kept here. */
	uint64_t thinned_ns;
	uint64_t last; /* hash of the path of the last sample; 0: none, or it gave way */
};

/* Count weight_ns of trace's path. The trace is taken over, also on failure. 0 or -ENOMEM. */
int stack_merge_add(struct stack_merge *merge, struct unwound *trace, enum capture_kind kind,
		    uint64_t t_boot_ns, uint64_t weight_ns);
/* Heaviest first; a wait of the loop itself (at_wait) comes behind the others. */
void stack_merge_sort(struct stack_merge *merge);
void stack_merge_free(struct stack_merge *merge);

/* All paths, sorted, for a block record. *stacks is one malloc'ed block (frames included) for the
 * caller to free; its strings are the merge's. 0 or -ENOMEM. */
int stack_merge_records(struct stack_merge *merge, struct record_stack **stacks, size_t *count);

/* ---- when to sample ---- */

/* First at min(100 ms, threshold / 5) of the busy period, then every 50 ms for 50 samples; from
 * then on the distance doubles after every 10: 100 samples last for 33 s, 150 for 17 minutes,
 * evenly spread within each stage. A sample's weight is the time that it stands for, so that wider
 * distances keep the sum. */
struct stack_schedule {
	uint64_t first_ns, period_ns, due_ns;
	unsigned taken;
};

/* How long after its begin the first sample of a period is due. */
uint64_t stack_schedule_first_ns(uint64_t threshold_ns);
void stack_schedule_start(struct stack_schedule *schedule, uint64_t threshold_ns,
			  uint64_t start_ns);
/* After a sample at now_ns: plan the next one. */
void stack_schedule_taken(struct stack_schedule *schedule, uint64_t now_ns);
