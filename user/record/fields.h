/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of fields: which rows each type of record has. */
#pragma once
#include "jankscope/field.h"

#define RECORD_TYPES 7

/* By enum record_type: the text of the key "type", and the struct that the union points to. */
extern const char *const record_type_names[RECORD_TYPES + 1];
extern const struct field_type *const record_types[RECORD_TYPES];

/* The next row of struct record_interval that a source declares (source/declarations.c); *index
 * begins as 0. NULL: there are no more. */
const struct field *record_next_part(size_t *index);

/* A row by its key path below a type of record, "cpu.tasks.runnable_ns" of "interval"; rows of
 * lists count like those of objects. NULL: there is none. */
const struct field *field_find(const char *record, const char *path);
/* What a field means, in one sentence without a full stop; NULL: there is no such field. */
const char *field_meaning(const char *record, const char *path);
/* The unit that the end of a key says, as in "power.current_ua"; an empty text: none. */
const char *key_unit_name(const char *key);
/* "ns", "bytes" ...; an empty text for texts, flags and objects. */
const char *field_unit_name(const struct field *field);

struct field_visit {
	const char *record, *path; /* path: valid during the call */
	const struct field *field;
	unsigned depth; /* 0: a key of the record itself */
};
/* Every field of a type of record in the order of its keys, objects and lists before what is in
 * them. A visit that does not return 0 ends it, and is returned. */
int field_each(enum record_type type, int (*visit)(void *ctx, const struct field_visit *visit),
	       void *ctx);

/* The words of `role` and `cause` of a jank, by their enums; end in NULL. */
extern const char *const record_jank_roles[], *const record_jank_causes[];
/* The word of a cause in the totals frames.causes.WORD and frames.causes.WORD_ns. Two words have
 * been FrameTimeline's for as long as there are records, and keep their meaning: the same words of
 * a jank are told as others. */
const char *record_jank_total(enum jank_cause cause);
