/* SPDX-License-Identifier: BSD-2-Clause */
/* The chain of a block: the thread that owns the lock that the main thread sleeps for, then the
 * thread that this owner waits for, and so on, as the sampler told them in the longest sleep. */
#pragma once
#include "prober/sampler.h"
#include "source/blocks/samples.h"
#include "stack/stack_merge.h"

#define BLOCK_WHAT_LEN 32
/* A condition variable, a semaphore, a plain mutex of bionic, a lock of Rust or Go ... */
#define BLOCK_CHAIN_NO_OWNER "the words of the futex that it waited for do not say who has it"

struct block_chain {
	uint64_t walk_ns; /* of the look that it is of, 0: none; its samples have it too */
	uint64_t spell;   /* in which the main thread slept then */
	enum sampler_chain_end end;
	size_t count;
	struct block_chain_link {
		pid_t pid, tid; /* tid 0: the call was not taken yet */
		enum sampler_link how;
		uint32_t lock; /* enum probe_lock */
		/* LINK_BY_BINDER, as in struct sampler_sample; until_ns: when it stood last */
		pid_t caller_pid, caller_tid;
		uint32_t debug_id, code, threads, at_work;
		uint64_t sent_ns, received_ns, until_ns;
		struct opt_u64 served_cpu_ns; /* up to until_ns */
		char thread[RECORD_COMM_LEN];
	} links[SAMPLER_CHAIN];
};

/* Whether the main thread slept longer in the spell of a than in that of b, by the spells that are
 * over; a look is more than none. */
bool block_chain_outlasts(const struct block_chain *a, const struct block_chain *b,
			  const struct block_spells *spells);
/* What one message of the sampler says of an owner. Each look at the owners begins with the first
 * one, and forgets the look before; but one that finds no owner says nothing against an owner that
 * was found before in the same sleep. */
void block_chain_take(struct block_chain *chain, const struct sampler_sample *sample);

/* The rows of a record, with the stacks that are there. */
struct block_chain_rows {
	char what[SAMPLER_CHAIN][BLOCK_WHAT_LEN];
	struct block_link links[SAMPLER_CHAIN];
	struct stack_merge merges[SAMPLER_CHAIN];
	struct record_stack *stacks[SAMPLER_CHAIN];
};

/* Fill block->chain from the chain, the names of its processes (NULL: not known) and the samples
 * that belong to it. rows (zeroed) must stay until
 * the record is out, then block_chain_rows_free. 0 or -ENOMEM: a stack is left out. */
int block_chain_fill(struct record_block *block, const struct block_chain *chain,
		     const char *const processes[SAMPLER_CHAIN],
		     struct block_sample *const *samples, size_t sample_count,
		     struct block_chain_rows *rows);
/* chain_binder.c: what the row says of a binder call. */
void block_chain_fill_call(struct record_block *block, struct block_link *link,
			   const struct block_chain_link *from, char what[BLOCK_WHAT_LEN]);
void block_chain_rows_free(struct block_chain_rows *rows);
