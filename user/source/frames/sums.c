/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/sums.h"

#include <stdio.h>
#include <string.h>

/* NULL: nothing was lost, or there is no room. */
static struct loss *obtain(struct loss_sums *sums, const char *reason, uint64_t count)
{
	for (size_t i = 0; i < sums->count; i++)
		if (!strcmp(sums->items[i].reason, reason))
			return &sums->items[i];
	if (!count || sums->count == sizeof(sums->items) / sizeof(*sums->items))
		return NULL;
	sums->items[sums->count] = (struct loss){.reason = reason};
	return &sums->items[sums->count++];
}

void loss_sums_add(struct loss_sums *sums, const char *reason, uint64_t count)
{
	struct loss *loss = obtain(sums, reason, count);

	if (loss)
		loss->ended += count;
}

void loss_sums_set(struct loss_sums *sums, const char *reason, uint64_t count)
{
	struct loss *loss = obtain(sums, reason, count);

	if (loss)
		loss->now = count;
}

void loss_sums_end(struct loss_sums *sums)
{
	for (size_t i = 0; i < sums->count; i++) {
		sums->items[i].ended += sums->items[i].now;
		sums->items[i].now = 0;
	}
}

int loss_sums_report(struct loss_sums *sums, struct record_interval *interval)
{
	int err = 0;

	for (size_t i = 0; i < sums->count && !err; i++) {
		struct loss *loss = &sums->items[i];
		uint64_t total = loss->ended + loss->now;
		char name[80];

		if (total <= loss->reported)
			continue;
		snprintf(name, sizeof(name), "frames.%s", loss->reason);
		err = counter_list_add(&interval->lost, name, total - loss->reported);
		loss->reported = total;
	}
	return err;
}
