/* SPDX-License-Identifier: BSD-2-Clause */
/* The first record: which device, which kernel, which clocks, what is recorded and by what means.
 */
#pragma once
#include <stddef.h>

#include "core/session.h"

/* Emit the header of a run with these options and opened sources. 0 or -ENOMEM. Device: the device
 * tree's model, else the name that DMI tells; absent where neither is there. */
int header_emit(const struct session_options *options, struct source *const *sources, size_t count,
		void (*emit)(void *emit_ctx, struct record *record), void *emit_ctx);
