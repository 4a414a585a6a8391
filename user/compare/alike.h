/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether recordings that are compared were made in the same way, as their headers tell. Pure. */
#pragma once
#include <stdbool.h>

#include "jankscope/record.h"

enum alike_what { ALIKE_DEVICE, ALIKE_TARGETS, ALIKE_BLOCK, ALIKE_WHATS };
extern const char *const alike_names[ALIKE_WHATS];

/* Zero it before the first header. */
struct alike {
	struct alike_text {
		char first[128], other[128]; /* other: the first that is not as the first; or "" */
		bool known;
	} of[ALIKE_WHATS];
};

/* A device that is not known is like any. Packages are what targets are compared by; pids differ
 * from run to run. */
void alike_header(struct alike *alike, const struct record_header *header);
