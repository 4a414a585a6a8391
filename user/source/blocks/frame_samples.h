/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of the threads that make frames. The sampler takes them while a frame lasts; they are kept
 * for seconds, and only those of frames that turn out late are unwound. */
#pragma once
#include "jankscope/source.h"

struct flight_fds;
struct frame_story;

/* The threads are those of the flight recorder's table, by their index in it. */
struct frame_thread {
	uint32_t index;
	pid_t pid, tid;
	bool is_main;
};

/* Begin to take samples: each step_ns, of frames that last period_ns until another one is told.
 * news is called when a story may have come further. False: the run has no
 * sampler, or with errno ENOMEM. */
bool frame_samples_begin(struct source *blocks, const struct flight_fds *fds, uint64_t step_ns,
			 uint64_t period_ns);
void frame_samples_call(struct source *blocks, void (*news)(void *ctx), void *ctx);
void frame_samples_set_period(struct source *blocks, uint64_t period_ns);
void frame_samples_watch(struct source *blocks, const struct frame_thread *thread);
void frame_samples_unwatch(struct source *blocks, uint32_t index);

/* So far. */
struct frame_samples_counts {
	uint64_t taken;
	uint64_t thinned; /* would have cost too much */
	uint64_t gone;    /* frames whose samples, or some of them, had made room for later ones */
	uint64_t unkept;  /* for want of memory */
};
struct frame_samples_counts frame_samples_counts(struct source *blocks);

/* What a frame's threads did: the samples of a process in [from_ns, to_ns) of CLOCK_BOOTTIME, which
 * are unwound from now on. NULL with errno ENOMEM, or with errno 0: there is none. */
struct frame_story *frame_story_begin(struct source *blocks, pid_t pid, uint64_t from_ns,
				      uint64_t to_ns);
/* All its samples are unwound, or will not be. */
bool frame_story_is_ready(const struct frame_story *story);
/* Fill the record's stacks, top and chain; they stay the story's, which must outlive the record. */
int frame_story_tell(struct frame_story *story, struct record_jank *jank);
void frame_story_free(struct frame_story *story);
/* Why there are no samples of the process in that time: a text that lives as long as the run. */
const char *frame_samples_missing(struct source *blocks, pid_t pid, uint64_t from_ns,
				  uint64_t to_ns);
