/* SPDX-License-Identifier: BSD-2-Clause */
/* What frame_samples.c and frame_story.c share: the samples of one late frame. */
#pragma once
#include "source/blocks/frame_samples.h"
#include "source/blocks/source.h"

#define STORY_SAMPLES 48 /* stacks of the frame's threads */
#define STORY_ROWS    80 /* with those that they waited for */
#define STORY_GROUPS  6  /* threads, asleep and not */

struct frame_samples;

/* Counted: what is kept has one reference, and each story. */
struct frame_sample {
	unsigned references;
	pid_t pid, tid; /* of the thread that makes frames, also where the stack is another's */
	uint64_t at_ns; /* CLOCK_BOOTTIME */
	size_t bytes;
	struct sampler_sample from;
	struct block_sample *stack;    /* NULL: only whom it waits for was told */
	struct stack_capture *capture; /* NULL: the unwinder has it, or had it */
};

struct frame_story {
	struct frame_story *next;
	struct frame_samples *frames;
	struct blocks_source *blocks;
	uint64_t step_ns;
	struct frame_sample *samples[STORY_ROWS];
	size_t count, pushed; /* pushed: how many were given to the unwinder */
	size_t left_out;      /* samples for which there is no room */
	/* of the record */
	struct stack_merge merges[STORY_GROUPS];
	struct record_stack *texts[STORY_GROUPS], *stacks;
	struct block_chain_rows rows;
	char processes[SAMPLER_CHAIN][128];
};

/* Free what frame_story_tell() made. */
void frame_story_clear(struct frame_story *story);
