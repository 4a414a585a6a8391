/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as JSON objects, keys and units as record.schema.json has them; what is absent has no
 * key. */
#pragma once
#include <jansson.h>

#include "jankscope/record.h"

/* A new reference, NULL when out of memory. Keys come in the order of the schema, without crc.
 */
json_t *record_to_json(const struct record *record);

/* The record as a line: compact JSON whose last key is crc, and a newline. The caller frees it with
 * free(). NULL with errno ENOMEM. */
char *record_to_line(const struct record *record, size_t *length);
