/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a segment, with its intervals merged to a coarser resolution (record/merge.h). All
 * other records stay as they are, byte by byte. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct thinner;

/* Each line goes to put, with its newline; what that returns, if not 0, ends the work. NULL with
 * errno ENOMEM. */
struct thinner *thinner_new(uint64_t resolution_ns,
			    int (*put)(void *ctx, const char *line, size_t length), void *ctx);
void thinner_free(struct thinner *thinner);
/* The next line of the segment with its newline, its header first. 0, -ENOMEM, -EBADMSG: it is no
 * whole record; or what put returned. */
int thinner_line(struct thinner *thinner, const char *line, size_t length);
/* No line follows: what is held back goes to put. As thinner_line(). */
int thinner_end(struct thinner *thinner);
/* How many intervals went into others. */
uint64_t thinner_merged(const struct thinner *thinner);
