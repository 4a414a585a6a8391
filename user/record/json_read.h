/* SPDX-License-Identifier: BSD-2-Clause */
/* Records from lines of JSON, by the table of fields. A line is hostile: what is not as the table
 * says is refused with the path of the key, and what is absent stays absent. */
#pragma once
#include <jansson.h>

#include "jankscope/field.h"

/* A record that was read, with the memory that it points to. */
struct parsed_record {
	struct record record; /* valid where known is set */
	bool known;           /* false: of a type that this version does not know */
	bool has_seq;
	int64_t schema; /* of a header; 0: of another record */
};

/* Read a line without its newline. 0, and a record to be freed with parsed_record_free(); -EBADMSG
 * with the reason in why ("the checksum is wrong", "cpu.tasks[3].cpu_ns is no whole number of at
 * least 0"); -EPROTONOSUPPORT: a header of a schema that is newer than RECORD_SCHEMA, and a parsed
 * record with nothing but `schema`; -ENOMEM. */
int record_parse(const char *line, size_t length, struct parsed_record **out, char *why,
		 size_t why_size);
/* The same, faster for many lines, by what was met in those before (record/shapes.h). */
struct shapes;
int record_parse_shaped(struct shapes *shapes, const char *line, size_t length,
			struct parsed_record **out, char *why, size_t why_size);
void parsed_record_free(struct parsed_record *parsed);

struct parsed_memory;

/* Fill a zeroed struct of this type from an object; what it points to lives in memory. 0; -EBADMSG
 * with the reason in why; -ENOMEM. */
int record_fill(const struct field_type *type, const json_t *object, void *out,
		struct parsed_memory *memory, char *why, size_t why_size);
struct parsed_memory *record_memory_new(void);
void record_memory_free(struct parsed_memory *memory);
