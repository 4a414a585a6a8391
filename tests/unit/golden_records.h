/* SPDX-License-Identifier: BSD-2-Clause */
/* Made-up records with every part of the contract, and with nothing but what must be there. */
#pragma once
#include "jankscope/record.h"

struct golden {
	const char *name; /* of its files in tests/unit/golden */
	const struct record *records;
	size_t count;
};

/* Two runs: "full" and "bare". Made at the first call. */
const struct golden *golden_runs(size_t *count);

/* Compare with tests/unit/golden/FILE, or write that file if JANKSCOPE_GOLDEN=write is set. True if
 * they are the same; else the place of the first difference was printed on stderr. */
bool golden_equal(const char *file, const char *text, size_t length);
