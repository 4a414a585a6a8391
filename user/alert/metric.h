/* SPDX-License-Identifier: BSD-2-Clause */
/* A metric by its key path in the records: found in the table of fields, and read from a record,
 * one value for each row of the lists on its way. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jankscope/field.h"

#define METRIC_DEPTH 12
#define METRIC_PATH  160

struct metric {
	char path[METRIC_PATH]; /* in full, of a block with "block." before it */
	enum record_type type;  /* RECORD_INTERVAL or RECORD_BLOCK */
	/* From the record to the number, objects without a key of their own among them. */
	const struct field *steps[METRIC_DEPTH];
	size_t depth;
	const struct field *leaf; /* the last of them */
	/* Rows of this list that are not there had 0: the source leaves out who did nothing. */
	bool sums;
};

/* Whose value it is. */
struct metric_subject {
	uint64_t identity; /* of rows; 0: of the device */
	pid_t pid;         /* 0: of no process */
	char text[96];     /* "com.example.app (pid 123)"; printable; empty: the device */
};

/* Find a metric: "cpu.busy_ns", "memory.processes.pss_bytes", or shorter without the names of lists
 * where that is only one metric in so few lists ("memory.pss_bytes"), "block.wall_ns". 0, or
 * -EINVAL with a sentence in why: it is none, and which ones have nearly that name. */
int metric_find(const char *path, struct metric *metric, char *why, size_t size);

typedef void (*metric_value_fn)(void *ctx, double value, const struct metric_subject *subject);
/* Call fn for each value that the record has; what is absent is not told. False: the record has
 * none of its list or object, so that nothing is known about anybody. */
bool metric_read(const struct metric *metric, const struct record *record, metric_value_fn fn,
		 void *ctx);
