/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread did in a window, out of its spells. Pure. */
#pragma once
#include <stddef.h>

#include "jankscope/spell.h"

#define WHY_SHARES     64
#define WHY_PREEMPTORS 8 /* of them in a record */

/* Time by thread. The first 64 threads are told apart, and all others are one. */
struct why_shares {
	struct why_share {
		struct spell_thread who;
		int64_t ns;
	} items[WHY_SHARES];
	size_t count;
	int64_t other_ns; /* of the others, and where it is not known who (tid 0) */
};

void why_shares_add(struct why_shares *shares, const struct spell_thread *who, int64_t ns);
/* Heaviest first. */
void why_shares_sort(struct why_shares *shares);

/* It has no CPU because its cgroup's quota was used up, whoever runs meanwhile. */
bool why_is_throttled(uint8_t state, uint8_t reason);

struct why_ledger {
	int64_t ns[SPELL_STATES]; /* sums to the window, to the nanosecond */
	/* Sums to SLEEPING and UNINTERRUPTIBLE, and what of RUNNABLE the cgroup had no quota for.
	 */
	int64_t reason_ns[SPELL_REASONS];
	/* Who ran while it waited for a CPU, heaviest first; with the others they sum to RUNNABLE.
	 */
	struct why_shares preemptors;
	/* Its longest time asleep in the window, in one piece where its reason changed. */
	int64_t longest_sleep_ns;
	struct spell_thread waker; /* who ended it; tid 0: not known, or not in the window */
	uint32_t max_khz;          /* 0: not known */
};

/* A piece of a window: one spell, or the part of it that is inside, or a part that no spell covers
 * (SPELL_UNKNOWN). */
struct why_piece {
	int64_t begin_ns, end_ns;
	const struct spell *spell; /* NULL: none covers it */
	uint8_t state, reason;     /* of the spell; what is none of the enum is unknown */
};

/* The pieces of a window one by one; they cover it without a gap and without an overlap. Where
 * spells overlap, the first of the array counts. */
struct why_pieces {
	const struct spell *spells;
	size_t count, next;
	int64_t at_ns, end_ns;
};

/* A window that ends before it begins is empty. */
struct why_pieces why_pieces(const struct spell *spells, size_t count, int64_t begin_ns,
			     int64_t end_ns);
/* False: there are no more. */
bool why_next_piece(struct why_pieces *pieces, struct why_piece *piece);

/* Sum up [begin_ns, end_ns) of a thread's spells. */
void why_cut(const struct spell *spells, size_t count, int64_t begin_ns, int64_t end_ns,
	     struct why_ledger *ledger);
