/* SPDX-License-Identifier: BSD-2-Clause */
/* Records as lines of JSON, by the table of fields; what is absent has no key. */
#pragma once
#include "jankscope/field.h"
#include "record/json_buffer.h"

/* Each name of a total's key path ("blocks.count") is shorter. */
#define RECORD_TOTAL_NAME 64

/* The keys of a struct of this type, between the braces that the caller puts. */
void json_put_fields(struct json_buffer *b, const struct field_type *type, const void *object);

/* The record as a line: compact JSON whose last key is crc, and a newline. The caller frees it with
 * free(). NULL with errno ENOMEM. */
char *record_to_line(const struct record *record, size_t *length);
/* The same, in `room` of `size` bytes if they hold it and a NUL: then what is returned is `room`.
 * What is not is to be freed. */
char *record_to_line_in(char *room, size_t size, const struct record *record, size_t *length);
