/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/retain.h"

#include <string.h>

#define RESERVE_BYTES (64ull << 20)

uint64_t retain_reserve(uint64_t disk_bytes)
{
	uint64_t reserve = disk_bytes / 20;

	if (reserve < RESERVE_BYTES)
		reserve = RESERVE_BYTES;
	return reserve < disk_bytes / 2 ? reserve : disk_bytes / 2;
}

/* Of a segment of another boot it is only known that it is older than this boot; of one that cannot
 * be read, that it is older than the next. */
uint64_t retain_age_ns(const struct store_list *closed, size_t i, const struct retain_state *state)
{
	const struct segment_facts *facts;

	while (i < closed->count && !closed->items[i].facts.boot_id[0])
		i++;
	if (i == closed->count)
		return 0;
	facts = &closed->items[i].facts;
	if (strcmp(facts->boot_id, state->boot_id))
		return state->now_boot_ns;
	return state->now_boot_ns > facts->last_boot_ns ? state->now_boot_ns - facts->last_boot_ns
							: 0;
}

size_t retain_count(const struct store_list *closed, const struct store_options *options,
		    const struct retain_state *state, enum store_reason *reason)
{
	uint64_t sum = state->other_bytes, free_bytes = state->free_bytes;
	uint64_t reserve = retain_reserve(state->disk_bytes);
	enum store_reason first = 0;
	size_t count = 0;

	for (size_t i = 0; i < closed->count; i++)
		sum += closed->items[i].file_bytes;
	for (; count < closed->count; count++) {
		const struct store_segment *oldest = &closed->items[count];
		enum store_reason why = 0;

		if (options->max_disk_bytes && sum > options->max_disk_bytes)
			why = STORE_FOR_MAX_DISK;
		else if (options->retain_ns &&
			 retain_age_ns(closed, count, state) > options->retain_ns)
			why = STORE_FOR_RETAIN;
		else if (free_bytes < reserve)
			why = STORE_FOR_FREE_SPACE;
		if (!why || (first && why != first))
			break;
		first = why;
		sum -= oldest->file_bytes;
		free_bytes += oldest->file_bytes;
	}
	*reason = first;
	return count;
}
