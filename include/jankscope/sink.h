/* SPDX-License-Identifier: BSD-2-Clause */
/* The seam to the outputs. A sink sees records only, in order, header first, footer last. */
#pragma once
#include "jankscope/record.h"

struct sink;

struct sink_ops {
	const char *name;
	/* 0; -EPIPE: the reader went away, the run goes on without this sink; other: I/O error. */
	int (*write)(struct sink *sink, const struct record *record);
	/* Flush what is buffered and free the sink. 0 or the first error that was not reported. */
	int (*close)(struct sink *sink);
};

struct sink {
	const struct sink_ops *ops;
	bool done; /* closed by its reader; skipped */
};
