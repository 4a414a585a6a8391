/* SPDX-License-Identifier: BSD-2-Clause */
/* The header and the footer of a recording, out of their JSON. Every text is the file's: hostile.
 */
#pragma once
#include <jansson.h>

#include "jankscope/record.h"

/* Call `tell` with the record of a header's or a footer's line; it borrows the texts of object and
 * is valid during the call. What the line lacks is absent. Returns what `tell` does, or -ENOMEM. */
int recording_tell_header(const json_t *object, int (*tell)(void *ctx, const struct record *),
			  void *ctx);
int recording_tell_footer(const json_t *object, int (*tell)(void *ctx, const struct record *),
			  void *ctx);
