/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder of `record --frames`: the last seconds of the threads that make frames, kept
 * by the switch program, for who asks why a frame was late. It emits no records. */
#pragma once
#include "jankscope/source.h"
#include "jankscope/spell.h"

/* What a thread does for a frame. */
enum flight_role {
	FLIGHT_ROLE_OTHER = 0, /* --thread */
	FLIGHT_ROLE_MAIN = 1,
	FLIGHT_ROLE_RENDER = 2, /* RenderThread */
	FLIGHT_ROLE_HWUI = 3,   /* hwuiTask* */
	FLIGHT_ROLE_SURFACEFLINGER = 4,
	FLIGHT_ROLE_RENDER_ENGINE = 5,
	FLIGHT_ROLE_COMPOSER = 6, /* the HAL's main thread and those that serve binder */
};

/* A thread that is, or was until half a minute ago, recorded. */
struct flight_watched {
	pid_t pid, tid;
	enum flight_role role;
	char comm[RECORD_COMM_LEN]; /* when it was found */
	bool dead;
	uint64_t from_ns; /* since when all that it did is there, CLOCK_MONOTONIC; 0: nothing is */
};

/* cpu, blocks: those sources, made before this one and not open yet; borrowed. step_ns: the threads
 * that draw are sampled so often while a frame lasts; 0: they are not. NULL with errno ENOMEM. */
struct source *flight_source_new(struct source *cpu, struct source *blocks, uint64_t step_ns);
/* How long a frame may take, as soon as that is known; of several the shortest counts. */
void flight_source_set_period(struct source *source, uint64_t period_ns);
/* The source that has the samples (source/blocks/frame_samples.h). */
struct source *flight_source_sampler(struct source *source);

/* The n-th recorded thread; false past the end. They change their numbers between two turns of the
 * loop. */
bool flight_source_thread(struct source *source, size_t n, struct flight_watched *out);
/* What the n-th did in [from_ns, to_ns), CLOCK_MONOTONIC: flight_kernel_spells() says how. What the
 * ring does not have (any more) is SPELL_UNKNOWN. 0; -ENOENT; -E2BIG; -EAGAIN; -ENOMEM. */
int flight_source_spells(struct source *source, size_t n, uint64_t from_ns, uint64_t to_ns,
			 struct spell *spells, size_t size, size_t *count);
