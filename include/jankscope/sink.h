/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam to the outputs. A sink sees records only, in order, header first, footer last. No sink
 * waits: one that cannot get rid of a record drops it whole and counts it. */
#pragma once
#include "jankscope/record.h"

struct sink;

struct sink_ops {
	const char *name;
	/* Take a record, which is only read during the call; after the footer none comes. 0;
	 * -EPIPE: the reader went away, the run goes on without this sink; other: I/O error, which
	 * was said on stderr. */
	int (*write)(struct sink *sink, const struct record *record);
	/* A descriptor that is readable when check() has something to say. NULL: there is none. */
	int (*fd)(const struct sink *sink);
	/* An error of what was taken before; as that of write(). NULL: there are none. */
	int (*check)(struct sink *sink);
	/* More records come at once, until it is let go: what was taken is written then. NULL:
	 * there is nothing to hold. */
	void (*hold)(struct sink *sink, bool held);
	/* What happened to the recording since the last call, each as an event. NULL: nothing is
	 * told. */
	void (*events)(struct sink *sink, void (*emit)(void *ctx, const struct record_event *event),
		       void *ctx);
	/* Nothing more comes: write out what is held back, at the longest until the deadline
	 * (CLOCK_MONOTONIC). 0; -ETIMEDOUT: not all was, which was said on stderr; as write(). May
	 * be NULL. */
	int (*finish)(struct sink *sink, uint64_t deadline_mono_ns);
	/* Free the sink; waits for nothing. */
	void (*close)(struct sink *sink);
};

struct sink {
	const struct sink_ops *ops;
	bool done;        /* closed by its reader or an error; skipped */
	bool keeps;       /* a recording: what it drops is lost */
	uint64_t dropped; /* records, so far */
	pid_t helper;     /* the process that works for it, whose CPU time is ours; 0: none */
};
