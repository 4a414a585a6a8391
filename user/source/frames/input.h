/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the frames source and the three ways to get at events. */
#pragma once
#include "core/loop.h"
#include "frames/stream.h"
#include "source/frames/frames.h"

struct frames_input;
struct warden;

struct frames_input_ops {
	const char *variant;
	/* Begin. 0, or a negative errno after reason[] was filled. */
	int (*open)(struct frames_input *input, struct loop *loop, char *reason, size_t size);
	/* Take what is there; before each sample. last: end the writer and take the rest, within
	 * half a second. 0 or a negative errno. */
	int (*poll)(struct frames_input *input, bool last);
	/* End and free; also after a failed open. */
	void (*close)(struct frames_input *input);
};

struct frames_input {
	const struct frames_input_ops *ops;
	const struct frames_options *options;
	struct warden *warden; /* NULL: there is none */
	struct frame_stream *stream;
	uint64_t window_ns; /* how long events may be on their way */
	bool in_history;    /* what was there before the run began is being read */
	bool past;          /* nothing came that was not there before */
	/* Something went wrong but may come back: word is the event, text the reason. */
	void (*tell)(void *ctx, const char *word, const char *text);
	/* The frames that were shown between these two (CLOCK_BOOTTIME) are not known; until_ns 0:
	 * none came since. */
	void (*tell_gap)(void *ctx, int64_t from_ns, int64_t until_ns, const char *text);
	void (*lose)(void *ctx, const char *reason, uint64_t count);
	/* Another trace begins, perhaps of another clock: `stream` is a new one afterwards. 0 or
	 * -ENOMEM. */
	int (*restart)(void *ctx);
	void *ctx;
};

/* NULL with errno. */
struct frames_input *frames_input_perfetto(void);
struct frames_input *frames_input_follow(void);
struct frames_input *frames_input_tracefs(void);
