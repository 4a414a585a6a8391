/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's side of the sampler process: tells it which threads to watch, takes its samples,
 * and replaces it when it died, was stopped, or waits for its targets with all its hands. */
#pragma once
#include <stdbool.h>

#include "jankscope/source.h"
#include "prober/sampler.h"

struct blocks_sampler;
struct binder_kernel;
struct looper_kernel;

/* A sample, or the reason why there is none; the bytes are valid during the call. */
typedef void (*blocks_sample_fn)(void *ctx, const struct sampler_sample *sample,
				 const uint8_t *stack, const char *text);

struct blocks_sampler_config {
	const struct source_context *context; /* its warden and loop */
	struct looper_kernel *kernel;         /* its descriptors go to the process */
	struct binder_kernel *binder;         /* so do these; NULL: none */
	enum stack_request request;
	uint64_t block_ns;
	blocks_sample_fn on_sample;
	blocks_sample_fn on_frame; /* samples of threads that make frames */
	void *ctx;
};

/* Everything in the configuration is borrowed. NULL with errno. */
struct blocks_sampler *blocks_sampler_new(const struct blocks_sampler_config *config);
void blocks_sampler_free(struct blocks_sampler *sampler);

/* pidfd is borrowed. A new process is told of all that is watched. */
int blocks_sampler_watch(struct blocks_sampler *sampler, const struct sampler_watch *watch,
			 int pidfd);
void blocks_sampler_unwatch(struct blocks_sampler *sampler, uint32_t index, uint64_t slot_id);
/* Have threads that make frames sampled; again to change how. fds: the flight recorder's threads
 * and entries, which stay valid. */
void blocks_sampler_frames(struct blocks_sampler *sampler, const struct sampler_frames *frames,
			   const int fds[2]);
/* type and slot_id are set here; index < FLIGHT_THREADS. */
void blocks_sampler_watch_frame(struct blocks_sampler *sampler,
				const struct sampler_frame_watch *watch);
void blocks_sampler_unwatch_frame(struct blocks_sampler *sampler, uint32_t index);
/* The watch that a sample is of; NULL: it is over. */
const struct sampler_frame_watch *blocks_sampler_frame_of(const struct blocks_sampler *sampler,
							  const struct sampler_sample *sample);
/* Take what has come. */
int blocks_sampler_take(struct blocks_sampler *sampler);
/* Look whether the process still answers; called every 200 ms or so. rests: there is nothing that
 * it could sample. */
void blocks_sampler_check(struct blocks_sampler *sampler, bool rests, uint64_t now_ns);
/* At the end of a run: ask for what the process counted since it answered last. */
void blocks_sampler_ask(struct blocks_sampler *sampler);
/* Whether the process has answered blocks_sampler_ask, with all samples before that; also true
 * where there is no process. */
bool blocks_sampler_answered(const struct blocks_sampler *sampler);

/* Samples taken, by kind; failures; stops of targets. Percentiles stay 0. */
void blocks_sampler_stats(const struct blocks_sampler *sampler, struct stack_stats *stats);
/* Fill in the percentiles of *stats, by sorting: for the end of a run. */
void blocks_sampler_percentiles(const struct blocks_sampler *sampler, struct stack_stats *stats);
/* The processes that stop threads for it; returns how many, at most room. */
size_t blocks_sampler_workers(const struct blocks_sampler *sampler, pid_t *pids, size_t room);
struct blocks_sampler_losses {
	uint64_t replaced;       /* processes that died or hung; their samples in flight are gone */
	uint64_t not_taken;      /* samples that the recorder was too slow to take */
	uint64_t resynced;       /* slots that the process made agree again */
	uint64_t targets_stuck;  /* times that a target held up a capture for 1 s */
	uint64_t frames_thinned; /* samples of frames that would have cost too much */
};
struct blocks_sampler_losses blocks_sampler_losses(const struct blocks_sampler *sampler);
