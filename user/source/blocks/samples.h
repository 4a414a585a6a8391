/* SPDX-License-Identifier: BSD-2-Clause */
/* The samples of a busy period, and how much of its time each stands for. */
#pragma once
#include "source/blocks/ledger.h"
#include "stack/unwinder.h"

struct blocks_source;

enum sample_state {
	SAMPLE_WAITS = 0,   /* to be unwound */
	SAMPLE_UNWOUND = 1, /* trace is there */
	SAMPLE_LOST = 2,
};

/* As owner: the stack is that of the thread that ended the spell. */
#define BLOCK_SAMPLE_WAKER (~0u)

/* One capture. Counted: the period and each report of it hold it. */
struct block_sample {
	struct block_sample *next;
	unsigned references;
	uint64_t t_ns;  /* CLOCK_MONOTONIC */
	uint64_t spell; /* the main thread was off the CPU in this spell; 0: it ran */
	/* 0: the stack is the main thread's; 1: of the thread that owns its lock; 2 and more: of
	 * the next thread of the chain. Samples of one look at a chain have the same walk_ns. */
	unsigned owner;
	uint64_t walk_ns;
	enum sample_state state;
	const char *why_lost; /* SAMPLE_LOST: static text */
	uint64_t t_boot_ns;
	enum capture_kind kind;
	struct unwound *trace;        /* owned */
	struct blocks_source *blocks; /* to be told when it is unwound; NULL: nobody */
	bool many; /* others are unwound with it: told of all of them at a time */
	/* It waits, and nobody but the job that unwinds it refers to it any more. May be NULL. */
	void (*forsaken)(struct block_sample *sample);
};

struct block_samples {
	struct block_sample *first, *last;
	size_t count;
};

struct block_sample *block_sample_new(void);
struct block_sample *block_sample_hold(struct block_sample *sample);
void block_sample_put(struct block_sample *sample);
/* Append a sample; the list takes over the caller's reference. */
void block_samples_add(struct block_samples *samples, struct block_sample *sample);
/* Give back all references. */
void block_samples_clear(struct block_samples *samples);

/* Weights of the samples of a period that ends (or is looked at) at end_ns: a spell's own time for
 * what was caught off the CPU, and of the rest of the time what is nearest. Returns what is in no
 * stack. weights has room for samples->count. open_spell, open_since_ns: the sleep that the period
 * is in at end_ns, 0: none. */
uint64_t block_sample_weights(const struct block_samples *samples,
			      const struct block_spells *spells, uint64_t begin_ns, uint64_t end_ns,
			      uint64_t open_spell, uint64_t open_since_ns, uint64_t *weights);
