/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks that are kept for long and are as large as chance has it (the tables of a file): from a
 * page on each has a mapping of its own. In the heap they and what comes and goes beside them would
 * leave holes that the next ones do not fit in: a quarter of the unwinder's heap in the end, and
 * more with each file that its full cache took for another one. */
#pragma once
#include <stddef.h>

/* Zeroed memory, for pages_free() only. NULL with errno ENOMEM. */
void *pages_new(size_t bytes);
void pages_free(void *block);

/* What a block of so many bytes holds, its pages filled up. */
size_t pages_held_bytes(size_t bytes);
