/* SPDX-License-Identifier: BSD-2-Clause */
/* A recording in a folder: segments of JSON Lines, oldest first by their number (README.md). What
 * the writer process needs to know, and what it tells the recorder. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_SEGMENT_BYTES     (8u << 20)
#define STORE_MIN_SEGMENT_BYTES (64u << 10)
#define STORE_MIN_DISK_BYTES    (1u << 20)

/* Intervals that ended less than age_ns ago are at least so fine. */
struct store_keep {
	uint64_t resolution_ns, age_ns;
};
#define STORE_KEEP_MAX 8

struct store_options {
	uint64_t max_disk_bytes; /* of all that is in the folder by us; 0: no limit */
	uint64_t retain_ns;      /* of CLOCK_BOOTTIME; 0: for ever */
	uint64_t segment_bytes;  /* a segment that is so long is closed; 0: as max_disk_bytes has it
				  */
	bool plain;              /* closed segments are not compressed */
	struct store_keep keep[STORE_KEEP_MAX]; /* both grow; none: all stays as it was written */
	size_t keep_count;
};

enum store_notice_kind {
	STORE_RESUMED = 1,     /* the folder holds a run that was not written to its end */
	STORE_FULL = 2,        /* nothing can be written now: what comes is held back */
	STORE_WRITABLE = 3,    /* it can again */
	STORE_DROPPED = 4,     /* records that were held back and found no room */
	STORE_REMOVED = 5,     /* closed segments, oldest first, to keep a limit */
	STORE_TAKEN = 6,       /* a segment that somebody else removed or renamed */
	STORE_SYNC_FAILED = 7, /* what was written may not be on the disk */
	STORE_BEHIND = 8,      /* old intervals wait for their merge, for dur_ns by now */
	STORE_CAUGHT_UP = 9,
};

enum store_reason {
	STORE_FOR_MAX_DISK = 1,
	STORE_FOR_RETAIN = 2,
	STORE_FOR_FREE_SPACE = 3,
};

struct store_notice {
	enum store_notice_kind kind;
	enum store_reason reason;
	int error; /* negative errno */
	bool has_seq;
	uint64_t first_segment, last_segment, first_seq, last_seq, records, bytes;
	uint64_t boot_ns, dur_ns; /* of the last record of a run that ended; of a stall,
				   * of a gap that ended before this run; 0: not known */
	char session[37];
};

#define STORE_NOTICES 64

/* From the writer process to the recorder: written by one, read by one. `head` is released behind
 * the notice; the recorder releases `tail` when it has copied it. */
struct store_notices {
	_Atomic uint32_t head, tail;
	struct store_notice items[STORE_NOTICES];
};

/* The oldest notice that was not taken. False: there is none. */
bool store_notice_take(struct store_notices *notices, struct store_notice *notice);
/* False: no room, the recorder has not taken what is there. */
bool store_notice_put(struct store_notices *notices, const struct store_notice *notice);
