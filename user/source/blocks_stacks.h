/* SPDX-License-Identifier: BSD-2-Clause */
/* The stacks of blocks: captures in the loop's thread, unwinding and names in a thread of its own
 * at low priority, weights by time. */
#pragma once
#include <stdbool.h>

#include "jankscope/stack.h"
#include "stack/stack_merge.h"
#include "kernel/looper_kernel.h"
#include "source/blocks_ledger.h"

/* One capture of a period. The list belongs to the samples struct. */
struct block_sample {
	struct block_sample *next;
	uint64_t t_ns;  /* CLOCK_MONOTONIC */
	uint64_t spell; /* off the CPU in this spell; 0: it ran */
	bool owner;     /* of another thread: who holds the lock */
	uint64_t t_boot_ns;
	enum capture_kind kind;
	struct unwound *trace; /* NULL: not unwound, or merged */
};

struct block_samples {
	struct block_sample *first, *last;
	size_t count;
	struct stack_schedule schedule;
};

struct blocks_stacks;

/* A report on its way through the unwinding thread and back. */
struct block_report {
	struct block_report *next;
	struct record_block block;
	char *process, *package; /* owned copies that block points to */
	/* stacks: the samples as of now with their weights */
	struct block_sample *first;
	size_t sample_count;
	uint64_t *weights;
	bool last; /* the samples are freed with it */
	bool drop; /* nothing to tell: only free the samples */
	struct stack_merge *merge;
	struct record_stack *stacks, *owner_stack;
	size_t owner_count;
	char *names; /* process names of the record, owned */
};

/* Find the slot of a thread: its index, or -1. */
typedef int (*block_index_fn)(void *ctx, pid_t tid);

struct bounded_calls;
/* request: STACK_AUTO and so on; calls: how targets are read, borrowed. NULL with errno. */
struct blocks_stacks *blocks_stacks_new(struct looper_kernel *kernel, enum stack_request request,
					struct bounded_calls *calls, block_index_fn index,
					void *ctx);
void blocks_stacks_free(struct blocks_stacks *stacks);

/* Capture a thread now and append it. spell: what it is in, 0 while it runs. 0; -EBUSY: too much
 * waits to be unwound; other: no capture. */
int blocks_stacks_sample(struct blocks_stacks *stacks, const struct stack_thread *thread,
			 uint64_t spell, bool owner, struct block_samples *samples);

/* Weights of the samples of a period that ends (or is looked at) at end_ns: a spell's own time for
 * what was caught off the CPU, and of the rest of the time what is nearest. Returns what is in no
 * stack. weights has room for samples->count. */
uint64_t block_sample_weights(const struct block_samples *samples,
			      const struct block_spells *spells, uint64_t begin_ns, uint64_t end_ns,
			      uint64_t open_spell, uint64_t open_since_ns, uint64_t *weights);

/* Hand a report to the unwinding thread; it comes back by blocks_stacks_take. */
void blocks_stacks_push(struct blocks_stacks *stacks, struct block_report *report);
/* The next finished report, NULL when there is none yet. */
struct block_report *blocks_stacks_take(struct blocks_stacks *stacks);
/* Readable when there is one. */
int blocks_stacks_fd(const struct blocks_stacks *stacks);
/* Wait until everything pushed has come back, at most timeout_ns. */
void blocks_stacks_drain(struct blocks_stacks *stacks, uint64_t timeout_ns);
void block_report_free(struct block_report *report);

void blocks_stacks_stats(const struct blocks_stacks *stacks, struct stack_stats *stats);
/* Captures given up because too many waited to be unwound. */
uint64_t blocks_stacks_busy(const struct blocks_stacks *stacks);
int blocks_stacks_losses(struct blocks_stacks *stacks, struct counter_list *lost);
