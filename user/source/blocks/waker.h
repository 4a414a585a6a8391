/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that ended the longest sleep of a block: what it was doing, and its stack at that
 * moment, which the kernel side copied in the wake-up (bpf/looper_waker.bpf.h). */
#pragma once
#include "source/blocks/samples.h"
#include "stack/stack_merge.h"

#define BLOCK_WAKE_WHAT 24

/* Of the longest sleep so far that was half of the threshold or longer. */
struct block_wake {
	uint64_t spell; /* 0: none */
	uint64_t slept_ns;
	pid_t tid;
	char what[BLOCK_WAKE_WHAT]; /* "": not known */
	const char *why;            /* why it has no stack; NULL: a sample of the period has it */
};

/* The trace of a stack, with what it points to; zeroed, it is empty. */
struct block_wake_stack {
	struct stack_merge merge;
	struct record_stack *stack;
};

struct block_report;

/* Put the waker's stack into the report's record, or say why there is none. to must stay until the
 * record is out, then block_wake_stack_free. 0 or -ENOMEM: the stack is left out. */
int block_waker_fill(struct block_report *report, struct block_wake_stack *to);
void block_wake_stack_free(struct block_wake_stack *stack);
