/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "prober/pool.h"

/* 0: it is not over, or was not told. */
static uint64_t slept_ns(const struct block_chain *chain, const struct block_spells *spells)
{
	const struct block_spell *spell = block_spells_find(spells, chain->spell);

	return spell ? spell->end_ns - spell->begin_ns - spell->wait_ns : 0;
}

bool block_chain_outlasts(const struct block_chain *a, const struct block_chain *b,
			  const struct block_spells *spells)
{
	if (!a->walk_ns || !b->walk_ns)
		return a->walk_ns;
	return slept_ns(a, spells) > slept_ns(b, spells);
}

void block_chain_take(struct block_chain *chain, const struct sampler_sample *sample)
{
	struct block_chain_link *link;

	if (sample->owner == 1 && sample->end == CHAIN_NO_OWNER && chain->count &&
	    chain->spell == sample->spell)
		return;
	if (sample->owner == 1)
		*chain = (struct block_chain){.walk_ns = sample->walk_ns, .spell = sample->spell};
	if (sample->walk_ns != chain->walk_ns || sample->owner != chain->count + 1)
		return;
	if (sample->end != CHAIN_GOES_ON) {
		chain->end = (enum sampler_chain_end)sample->end;
		return;
	}
	if (chain->count == SAMPLER_CHAIN)
		return;
	link = &chain->links[chain->count++];
	*link = (struct block_chain_link){
		.pid = sample->pid,
		.tid = sample->tid,
		.how = (enum sampler_link)sample->how,
		.caller_pid = sample->caller_pid,
		.caller_tid = sample->caller_tid,
		.debug_id = sample->debug_id,
		.code = sample->code,
		.threads = sample->threads,
		.at_work = sample->at_work,
		.sent_ns = sample->sent_ns,
		.received_ns = sample->received_ns,
		.until_ns = sample->t_ns,
	};
	link->lock = sample->lock;
	memcpy(link->thread, sample->thread, sizeof(link->thread));
	link->thread[sizeof(link->thread) - 1] = 0;
}

static const char *lock_text(uint32_t lock)
{
	static const char *const texts[LOCK_KINDS] = {
		[LOCK_PI] = "PI futex",
		[LOCK_GLIBC] = "mutex of glibc",
		[LOCK_ART] = "mutex or monitor of ART",
		[LOCK_BIONIC] = "mutex of bionic",
		[LOCK_JOIN] = "its end",
	};

	return lock < LOCK_KINDS ? texts[lock] : NULL;
}

static int fill_stack(struct block_link *link, const struct block_sample *sample,
		      struct stack_merge *merge, struct record_stack **stacks)
{
	struct unwound *copy = unwound_copy(sample->trace);
	size_t count;
	int err = copy ? stack_merge_add(merge, copy, sample->kind, sample->t_boot_ns, 0) : -ENOMEM;

	if (!err)
		err = stack_merge_records(merge, stacks, &count);
	if (!err && count)
		link->stack = *stacks;
	return err;
}

static const struct block_sample *find_sample(struct block_sample *const *samples, size_t count,
					      unsigned owner, uint64_t walk_ns)
{
	for (size_t i = 0; i < count; i++)
		if (samples[i]->state == SAMPLE_UNWOUND && samples[i]->owner == owner &&
		    samples[i]->walk_ns == walk_ns)
			return samples[i];
	return NULL;
}

int block_chain_fill(struct record_block *block, const struct block_chain *chain,
		     const char *const processes[SAMPLER_CHAIN],
		     struct block_sample *const *samples, size_t sample_count,
		     struct block_chain_rows *rows)
{
	int err = 0;

	for (size_t i = 0; i < chain->count; i++) {
		struct block_link *link = &rows->links[i];
		const struct block_sample *sample;

		*link = (struct block_link){.pid = chain->links[i].pid,
					    .tid = chain->links[i].tid,
					    .process = processes[i],
					    .how = LINK_LOCK,
					    .what = lock_text(chain->links[i].lock)};
		if (link->pid == block->pid)
			link->process = block->process;
		if (chain->links[i].lock == LOCK_JOIN)
			link->how = LINK_FUTEX;
		if (chain->links[i].how != LINK_BY_LOCK)
			block_chain_fill_call(block, link, &chain->links[i], rows->what[i]);
		memcpy(link->thread, chain->links[i].thread, sizeof(link->thread));
		sample = find_sample(samples, sample_count, (unsigned)i + 1, chain->walk_ns);
		if (sample && fill_stack(link, sample, &rows->merges[i], &rows->stacks[i]))
			err = -ENOMEM;
	}
	block->chain = rows->links;
	block->chain_count = chain->count;
	block->deadlock = chain->end == CHAIN_DEADLOCK;
	block->chain_cut = chain->end == CHAIN_CUT;
	if (!chain->count && chain->end == CHAIN_NO_OWNER)
		missing_list_set(&block->missing, "chain", BLOCK_CHAIN_NO_OWNER);
	return err;
}

void block_chain_rows_free(struct block_chain_rows *rows)
{
	for (size_t i = 0; i < SAMPLER_CHAIN; i++) {
		stack_merge_free(&rows->merges[i]);
		free(rows->stacks[i]);
	}
}
