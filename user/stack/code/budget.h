/* SPDX-License-Identifier: BSD-2-Clause */
/* One budget over what all providers keep, of all processes. */
#pragma once
#include "stack/code/code.h"

struct code_user {
	const struct code_provider *is;
	void *self;
};

/* Heap bytes that they keep. */
size_t code_kept_bytes(const struct code_user *users, size_t count);
/* Have them keep at most so many bytes: who used a piece for longest ago frees it. How many pieces
 * were freed. */
uint64_t code_keep_within(const struct code_user *users, size_t count, size_t most);
