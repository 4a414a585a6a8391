/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/interfaces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last row is of those that have none. */
struct interface_sums {
	struct interface_sum {
		char name[64];
		uint32_t ifindex;
		uint64_t netns;
		struct record_bytes bytes;
	} rows[INTERFACE_SUMS + 1];
	size_t count;
	struct record_interface_net told[INTERFACE_SUMS + 1];
};

struct interface_sums *interface_sums_new(void)
{
	return calloc(1, sizeof(struct interface_sums));
}

void interface_sums_free(struct interface_sums *sums)
{
	free(sums);
}

static struct interface_sum *find(struct interface_sums *sums,
				  const struct record_interface_net *row)
{
	struct interface_sum *found;

	if (!row->ifindex)
		return &sums->rows[INTERFACE_SUMS];
	for (size_t i = 0; i < sums->count; i++)
		if (sums->rows[i].ifindex == row->ifindex && sums->rows[i].netns == row->netns)
			return &sums->rows[i];
	if (sums->count == INTERFACE_SUMS)
		return &sums->rows[INTERFACE_SUMS];
	found = &sums->rows[sums->count++];
	found->ifindex = row->ifindex;
	found->netns = row->netns;
	return found;
}

int interface_sums_add(struct interface_sums *sums, const struct record_net *net)
{
	for (size_t i = 0; i < net->uid_count; i++)
		for (size_t j = 0; j < net->uids[i].interface_count; j++) {
			const struct record_interface_net *row = &net->uids[i].interfaces[j];
			struct interface_sum *sum = find(sums, row);

			/* As it was called last. */
			if (row->interface && sum->ifindex)
				snprintf(sum->name, sizeof(sum->name), "%s", row->interface);
			sum->bytes.rx_bytes += row->bytes.rx_bytes;
			sum->bytes.rx_packets += row->bytes.rx_packets;
			sum->bytes.tx_bytes += row->bytes.tx_bytes;
			sum->bytes.tx_packets += row->bytes.tx_packets;
		}
	return 0;
}

static int more_bytes(const void *a, const void *b)
{
	const struct record_interface_net *left = a, *right = b;
	uint64_t one = left->bytes.rx_bytes + left->bytes.tx_bytes,
		 other = right->bytes.rx_bytes + right->bytes.tx_bytes;

	if (one != other)
		return one < other ? 1 : -1;
	return left->ifindex < right->ifindex ? -1 : left->ifindex > right->ifindex;
}

int interface_sums_take(struct interface_sums *sums, struct record_footer *footer)
{
	footer->interfaces = sums->told;
	footer->interface_count = 0;
	for (size_t i = 0; i <= INTERFACE_SUMS; i++) {
		const struct interface_sum *sum = &sums->rows[i];

		if (i >= sums->count && !sum->bytes.rx_packets && !sum->bytes.tx_packets)
			continue;
		sums->told[footer->interface_count++] =
			(struct record_interface_net){.interface = sum->name[0] ? sum->name : NULL,
						      .ifindex = sum->ifindex,
						      .netns = sum->netns,
						      .bytes = sum->bytes};
	}
	if (footer->interface_count)
		qsort(sums->told, footer->interface_count, sizeof(*sums->told), more_bytes);
	return 0;
}
