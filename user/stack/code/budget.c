/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/budget.h"

size_t code_kept_bytes(const struct code_user *users, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		if (users[i].is->bytes)
			bytes += users[i].is->bytes(users[i].self);
	return bytes;
}

uint64_t code_keep_within(const struct code_user *users, size_t count, size_t most)
{
	uint64_t freed = 0;

	while (code_kept_bytes(users, count) > most) {
		uint64_t first = UINT64_MAX;
		size_t which = 0;

		for (size_t i = 0; i < count; i++) {
			uint64_t used = users[i].is->oldest ? users[i].is->oldest(users[i].self)
							    : UINT64_MAX;

			which = used < first ? i : which;
			first = used < first ? used : first;
		}
		if (first == UINT64_MAX || !users[which].is->give_back(users[which].self))
			break;
		freed++;
	}
	return freed;
}
