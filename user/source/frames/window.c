/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/window.h"

#include <errno.h>
#include <stdlib.h>

#include "source/flight/flight.h"

#define FEW_SPELLS  256        /* room of a thread at first */
#define MOST_SPELLS (1u << 14) /* and at last: 1 MiB */

/* Add what lies in [from_ns, to_ns), of which that is to be taken off. */
static int read_part(struct source *flight, size_t n, uint64_t from_ns, uint64_t to_ns,
		     uint64_t apart_ns, struct frames_room *room)
{
	size_t size = room->size ? room->size : FEW_SPELLS, first = room->count, count = 0;
	int err;

	if (to_ns <= from_ns || from_ns <= apart_ns)
		return 0;
	for (;; size *= 4) {
		if (size > room->size) {
			struct spell *more =
				reallocarray(room->spells, size, sizeof(*room->spells));

			if (!more)
				return -ENOMEM;
			room->spells = more;
			room->size = size;
		}
		err = flight_source_spells(flight, n, from_ns - apart_ns, to_ns - apart_ns,
					   room->spells + first, room->size - first, &count);
		if (err != -E2BIG || size >= MOST_SPELLS)
			break;
	}
	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t i = first; i < first + count; i++) {
		room->spells[i].begin_ns += (int64_t)apart_ns;
		room->spells[i].end_ns += (int64_t)apart_ns;
	}
	room->count += count;
	return 0;
}

static bool is_frozen(const struct spell *spell)
{
	return spell->state == SPELL_STOPPED && spell->reason == LOOPER_REASON_FROZEN;
}

/* The only spell in which the thread was frozen where the suspend may have been: threads are frozen
 * before a suspend, and go on behind it. Its begin is of the time before, its end of that behind.
 */
static int find_frozen(const struct suspends_span *suspends, struct source *flight, size_t n,
		       struct frames_room *room, struct spell *frozen)
{
	/* One clock goes on while the other one stands still. */
	uint64_t until_ns = suspends->until_boot_ns - suspends->after_ns + suspends->before_ns;
	size_t found = 0;
	int err;

	room->count = 0;
	err = read_part(flight, n, suspends->from_boot_ns, until_ns, suspends->before_ns, room);
	for (size_t i = 0; i < room->count; i++)
		if (is_frozen(&room->spells[i]) && !found++)
			*frozen = room->spells[i];
	frozen->end_ns += (int64_t)(suspends->after_ns - suspends->before_ns);
	if (found != 1)
		*frozen = (struct spell){0};
	room->count = 0;
	return err;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

int frames_window_read(const struct frames_window *window, struct source *flight, size_t n,
		       struct frames_room *room)
{
	const struct suspends_span *suspends = &window->suspends;
	uint64_t from_ns = suspends->from_boot_ns, until_ns = suspends->until_boot_ns;
	struct spell frozen = {0};
	int err;

	room->count = 0;
	if (suspends->before_ns == suspends->after_ns)
		return read_part(flight, n, window->from_ns, window->to_ns, suspends->after_ns,
				 room);
	err = find_frozen(suspends, flight, n, room, &frozen);
	if (!err && is_frozen(&frozen)) {
		from_ns = (uint64_t)frozen.begin_ns;
		until_ns = (uint64_t)frozen.end_ns;
	}
	if (!err)
		err = read_part(flight, n, window->from_ns, less(window->to_ns, from_ns),
				suspends->before_ns, room);
	/* In front of the window, behind it and in it. */
	frozen.begin_ns = (int64_t)more(window->from_ns, from_ns);
	frozen.end_ns = (int64_t)less(window->to_ns, until_ns);
	if (!err && is_frozen(&frozen) && frozen.begin_ns < frozen.end_ns &&
	    room->count < room->size)
		room->spells[room->count++] = frozen;
	if (!err)
		err = read_part(flight, n, more(window->from_ns, until_ns), window->to_ns,
				suspends->after_ns, room);
	return err;
}
