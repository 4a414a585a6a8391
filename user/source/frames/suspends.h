/* SPDX-License-Identifier: BSD-2-Clause */
/* A struct suspends knows by how much CLOCK_BOOTTIME was ahead of CLOCK_MONOTONIC at a time of the
 * past. The frames source needs it: the trace tells of a frame seconds late, and the machine may
 * have been suspended since. These functions read no clock: their caller does. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SUSPENDS_KEPT 8

/* Zeroed before the first look. */
struct suspends {
	struct suspend {
		uint64_t before_ns;    /* what the clocks were apart until then */
		uint64_t last_boot_ns; /* CLOCK_BOOTTIME at which they were seen to be so */
		uint64_t next_boot_ns; /* and when they first were no more */
	} items[SUSPENDS_KEPT];        /* oldest first */
	size_t count;
	uint64_t apart_ns; /* as of the last look */
	uint64_t look_boot_ns;
	uint64_t forgotten_ns; /* of suspends that found no room any more */
};

/* What the clocks are apart at boot_ns, CLOCK_BOOTTIME; times never go back. */
void suspends_look(struct suspends *suspends, uint64_t apart_ns, uint64_t boot_ns);
/* What the clocks were apart at a time of CLOCK_MONOTONIC; within a second before a suspend it may
 * be what they were behind it. */
uint64_t suspends_apart(const struct suspends *suspends, int64_t mono_ns);
/* What is to be taken off the times of a window of CLOCK_BOOTTIME: before_ns of those up to
 * from_boot_ns, after_ns of those from until_boot_ns on; those between lie on either side of a
 * suspend, or in it. Both are 0 where before_ns and after_ns are the same. */
struct suspends_span {
	uint64_t before_ns, after_ns;
	uint64_t from_boot_ns, until_boot_ns;
	uint64_t error_ns; /* by how much that may be wrong: suspends that are forgotten */
};
struct suspends_span suspends_between(const struct suspends *suspends, uint64_t from_ns,
				      uint64_t to_ns);
