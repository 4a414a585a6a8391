/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/cut.h"

#include <stdlib.h>
#include <string.h>

void why_shares_add(struct why_shares *shares, const struct spell_thread *who, int64_t ns)
{
	size_t i = 0;

	while (who->tid && i < shares->count && shares->items[i].who.tid != who->tid)
		i++;
	if (!who->tid || i == WHY_SHARES) {
		shares->other_ns += ns;
		return;
	}
	if (i == shares->count)
		shares->items[shares->count++] = (struct why_share){.who = *who};
	shares->items[i].ns += ns;
}

static int heavier(const void *a, const void *b)
{
	const struct why_share *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->who.tid < y->who.tid ? -1 : x->who.tid > y->who.tid;
}

void why_shares_sort(struct why_shares *shares)
{
	qsort(shares->items, shares->count, sizeof(shares->items[0]), heavier);
}

struct why_pieces why_pieces(const struct spell *spells, size_t count, int64_t begin_ns,
			     int64_t end_ns)
{
	return (struct why_pieces){spells, count, 0, begin_ns, end_ns};
}

bool why_next_piece(struct why_pieces *pieces, struct why_piece *piece)
{
	const struct spell *spell = NULL;

	if (pieces->at_ns >= pieces->end_ns)
		return false;
	for (; pieces->next < pieces->count; pieces->next++) {
		spell = &pieces->spells[pieces->next];
		if (spell->end_ns > pieces->at_ns && spell->begin_ns < spell->end_ns)
			break;
	}
	*piece = (struct why_piece){.begin_ns = pieces->at_ns,
				    .end_ns = pieces->end_ns,
				    .state = SPELL_UNKNOWN,
				    .reason = SPELL_REASON_UNKNOWN};
	if (pieces->next == pieces->count) {
		pieces->at_ns = pieces->end_ns;
		return true;
	}
	if (spell->begin_ns > pieces->at_ns) {
		if (spell->begin_ns < piece->end_ns)
			piece->end_ns = spell->begin_ns;
	} else {
		piece->spell = spell;
		if (spell->end_ns < piece->end_ns)
			piece->end_ns = spell->end_ns;
		if (spell->state < SPELL_STATES)
			piece->state = spell->state;
		if (spell->reason < SPELL_REASONS)
			piece->reason = spell->reason;
	}
	pieces->at_ns = piece->end_ns;
	return true;
}

bool why_is_throttled(uint8_t state, uint8_t reason)
{
	return state == SPELL_RUNNABLE && reason == LOOPER_REASON_THROTTLED;
}

static bool asleep(uint8_t state)
{
	return state == SPELL_SLEEPING || state == SPELL_UNINTERRUPTIBLE;
}

void why_cut(const struct spell *spells, size_t count, int64_t begin_ns, int64_t end_ns,
	     struct why_ledger *ledger)
{
	struct why_pieces pieces = why_pieces(spells, count, begin_ns, end_ns);
	int64_t sleep_ns = 0;
	struct why_piece piece;

	memset(ledger, 0, sizeof(*ledger));
	while (why_next_piece(&pieces, &piece)) {
		int64_t ns = piece.end_ns - piece.begin_ns;

		ledger->ns[piece.state] += ns;
		sleep_ns = asleep(piece.state) ? sleep_ns + ns : 0;
		if (asleep(piece.state))
			ledger->reason_ns[piece.reason] += ns;
		if (why_is_throttled(piece.state, piece.reason)) {
			ledger->reason_ns[piece.reason] += ns;
			ledger->preemptors.other_ns += ns;
		} else if (piece.state == SPELL_RUNNABLE) {
			why_shares_add(&ledger->preemptors, &piece.spell->other, ns);
		}
		if (piece.state == SPELL_RUNNING && piece.spell->khz > ledger->max_khz)
			ledger->max_khz = piece.spell->khz;
		if (sleep_ns > ledger->longest_sleep_ns) {
			ledger->longest_sleep_ns = sleep_ns;
			/* a sleep that goes on behind the window was ended by nobody in it */
			ledger->waker = piece.spell->end_ns <= end_ns ? piece.spell->other
								      : (struct spell_thread){0};
		}
	}
	why_shares_sort(&ledger->preemptors);
}
