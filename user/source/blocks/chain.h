/* SPDX-License-Identifier: BSD-2-Clause */
/* The chain of a block: the thread that owns the lock that the main thread sleeps for, then the
 * thread that this owner waits for, and so on, as the sampler told them last. */
#pragma once
#include "prober/sampler.h"
#include "source/blocks/samples.h"
#include "stack/stack_merge.h"

struct block_chain {
	uint64_t walk_ns; /* of the look that it is of; samples of that look have it too */
	enum sampler_chain_end end;
	size_t count;
	struct block_chain_link {
		pid_t tid;
		uint32_t lock; /* enum probe_lock */
		char thread[RECORD_COMM_LEN];
	} links[SAMPLER_CHAIN];
};

/* What one message of the sampler says of an owner. Each look at the owners begins with the first
 * one, and forgets the look before. */
void block_chain_take(struct block_chain *chain, const struct sampler_sample *sample);

/* The rows of a record, with the stacks that are there. */
struct block_chain_rows {
	struct block_link links[SAMPLER_CHAIN];
	struct stack_merge merges[SAMPLER_CHAIN];
	struct record_stack *stacks[SAMPLER_CHAIN];
};

/* Fill block->chain from the chain and the samples that belong to it. rows (zeroed) must stay until
 * the record is out, then block_chain_rows_free. 0 or -ENOMEM: a stack is left out. */
int block_chain_fill(struct record_block *block, const struct block_chain *chain,
		     struct block_sample *const *samples, size_t sample_count,
		     struct block_chain_rows *rows);
void block_chain_rows_free(struct block_chain_rows *rows);
