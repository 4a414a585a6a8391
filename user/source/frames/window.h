/* SPDX-License-Identifier: BSD-2-Clause */
/* What the flight recorder has of a thread in a window of CLOCK_BOOTTIME, in which the machine may
 * have been suspended. */
#pragma once
#include <stddef.h>

#include "jankscope/spell.h"
#include "source/frames/suspends.h"

struct source;

struct frames_window {
	uint64_t from_ns, to_ns;
	struct suspends_span suspends; /* of that window */
};

/* Zeroed at first; its spells are to be freed. */
struct frames_room {
	struct spell *spells;
	size_t size, count;
};

/* The spells of the n-th recorded thread in the window, in order, told in CLOCK_BOOTTIME. What
 * cannot be had is in none of them. A suspend is in the spell of a thread that was frozen in it;
 * where none was seen to be, nothing is told of the time in which it may have been. 0 or -ENOMEM.
 */
int frames_window_read(const struct frames_window *window, struct source *flight, size_t n,
		       struct frames_room *room);
