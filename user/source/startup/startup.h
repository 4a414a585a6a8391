/* SPDX-License-Identifier: BSD-2-Clause */
/* How targets start: from the birth of a process to its first presented frame and to its first
 * idle. */
#pragma once
#include "jankscope/source.h"

/* Both sources are added to the session before this one, and borrowed; frames: NULL where there is
 * none. NULL with errno ENOMEM. */
struct source *startup_source_new(struct source *cpu, struct source *blocks, struct source *frames);
