/* SPDX-License-Identifier: BSD-2-Clause */
/* Which closed segments have to go. Pure. */
#pragma once
#include "store/folder.h"
#include "store/store.h"

struct retain_state {
	uint64_t now_boot_ns;
	const char *boot_id;             /* of this boot */
	uint64_t disk_bytes, free_bytes; /* of the file system */
	uint64_t other_bytes;            /* of the folder beside its closed segments */
};

/* What has to stay free on a disk of this size: max(5 %, 64 MiB), and never more than half of it.
 */
uint64_t retain_reserve(uint64_t disk_bytes);
/* How long ago a closed segment ended, at least. */
uint64_t retain_age_ns(const struct store_list *closed, size_t i, const struct retain_state *state);
/* How many of the oldest segments go, all for one reason (the list's segments are closed ones). */
size_t retain_count(const struct store_list *closed, const struct store_options *options,
		    const struct retain_state *state, enum store_reason *reason);
