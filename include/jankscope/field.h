/* SPDX-License-Identifier: BSD-2-Clause */
/* What a record says, as data: one row a field, with its key, its type, its unit, its place in the
 * struct, when it is absent, and what it means. The JSON writer, the JSON reader, the JSON schema,
 * the man page and the legend of the table come from these rows (user/record/), so that a new field
 * is a member of a struct and one row. A source declares the rows of its own part of an interval in
 * its folder (struct source_declaration of source.h). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "jankscope/record.h"

enum field_kind {
	FIELD_U64,
	FIELD_U32,
	FIELD_I32, /* not below 0: pids */
	FIELD_I64,
	FIELD_ADDRESS, /* uint64_t; written with a sign, because JSON readers stop at 2^63 */
	FIELD_DOUBLE,
	FIELD_BOOL,
	FIELD_TEXT,   /* const char *; NULL: absent */
	FIELD_CHARS,  /* char[n], ends in NUL unless it is full */
	FIELD_CHOICE, /* an enum; `words` are its names from 0 on */
	FIELD_OPT_U64,
	FIELD_OPT_I64,
	FIELD_FIXED,   /* the same in each record: words[0]; not stored when it is read */
	FIELD_OBJECT,  /* an object of type `of` at `offset` */
	FIELD_POINTER, /* the same through a pointer; NULL: absent */
	FIELD_LIST,    /* an array of `of`: a pointer at `offset`, a size_t at `more_offset` */
	/* The same as an object: a row's key is the text that its type has at `name_offset`. */
	FIELD_NAMED,
	FIELD_INLINE, /* the fields of `of`, without an object around them */
	FIELD_COUNTERS,
	FIELD_MISSING,
	FIELD_HISTOGRAM,  /* const struct histogram *; NULL: absent */
	FIELD_TOTALS,     /* of a struct record_footer: totals and distributions by key path */
	FIELD_EVENT_KEYS, /* of a struct record_event: its own keys */
	FIELD_PARTS,      /* of a struct record_interval: what each source declares */
};

/* FIELD_NAME: text; FIELD_ID: pids, uids and other numbers that are not counted with. */
enum field_unit {
	UNIT_NONE,
	UNIT_NS,
	UNIT_BYTES,
	UNIT_COUNT,
	UNIT_ID,
	UNIT_PER_SECOND,
	UNIT_NAME,
	UNIT_UUID,
	UNIT_HEX,
};

/* A row without a value has no key in the record: what is absent is never 0 or null. */
enum field_need {
	FIELD_REQUIRED, /* always written; a record without it is damaged */
	FIELD_ALWAYS,   /* always written by this version; older ones did not know it */
	/* Written when there is a value: an option that is present, a text or pointer that is not
	 * NULL, an object or list whose flag (`more_offset` of `more_size` bytes) is set. */
	FIELD_OPTIONAL,
	FIELD_NONZERO, /* written unless it is 0, false, empty or the first choice */
};

/* What a value is in the interval that `--keep` makes of several (record/merge.h). A number of an
 * interval that is no id declares one; of the others the newest counts (texts, ids, choices), a
 * flag is set where any was, and counters, reasons and histograms are added up. */
enum field_merge {
	MERGE_DEFAULT,
	MERGE_KEY, /* rows of a list with the same keys are one row */
	MERGE_SUM,
	MERGE_MIN,
	MERGE_MAX,
	MERGE_LAST,   /* the newest reading that there is; a list: the newest one whole */
	MERGE_MEAN,   /* weighted by dur_ns, rounded to its unit */
	MERGE_ABSENT, /* nothing exact can be told of several: absent */
};

/* What a text may tell of the device's owner. `--redact` (record/redact.h) hashes each text that no
 * row calls anything else, so that a new field cannot forget it. */
enum field_text {
	TEXT_NAME,     /* of an app, a thread, a function, a file ... */
	TEXT_WORD,     /* a word of ours, of the kernel or of the vendor's hardware */
	TEXT_SENTENCE, /* words of ours with names in between */
	TEXT_FOLDED,   /* names with ';' between them */
};

struct field_type;

struct field {
	const char *key; /* NULL: FIELD_INLINE and what else has no key of its own */
	const char *meaning;
	union {
		const struct field_type *of;
		const char *const *words; /* ends in NULL */
	};
	uint16_t offset, size, more_offset, more_size;
	uint8_t kind, unit, need, merge, text; /* the enums above */
};

/* A struct whose rows these are. The name is that of its definition in the schema. */
struct field_type {
	const char *name, *meaning;
	const struct field *fields;
	size_t count, size;
	bool some;          /* at least one of the rows has a value */
	size_t name_offset; /* of FIELD_NAMED: a const char * */
};

#define FIELD_TYPE(name_, struct_, rows_, ...)                                                 \
	{                                                                                      \
		.name = (name_), .fields = (rows_), .count = sizeof(rows_) / sizeof(*(rows_)), \
		.size = sizeof(struct_), __VA_ARGS__                                           \
	}

/* Last in a row: `.merge` and `.text` without their prefixes. */
#define MERGED(rule_)  .merge = MERGE_##rule_
#define TEXT_IS(what_) .text = TEXT_##what_

#define FIELD_PLACE(struct_, member) \
	.offset = offsetof(struct_, member), .size = sizeof(((struct_ *)0)->member)

/* The kind follows from the member's type, so that no row can disagree with its struct. */
#define FIELD_KIND(struct_, member) \
	_Generic(&((struct_ *)0)->member, uint64_t *: FIELD_U64, uint32_t *: FIELD_U32,            \
		 int32_t *: FIELD_I32, int64_t *: FIELD_I64, double *: FIELD_DOUBLE,               \
		 bool *: FIELD_BOOL, const char **: FIELD_TEXT, char(*)[16]: FIELD_CHARS,          \
		 char(*)[37]: FIELD_CHARS, struct opt_u64 *: FIELD_OPT_U64,                        \
		 struct opt_i64 *: FIELD_OPT_I64, struct counter_list *: FIELD_COUNTERS,           \
		 struct missing_list *: FIELD_MISSING,                                             \
		 const struct histogram **: FIELD_HISTOGRAM)

/* A number, a text, a flag, counters. `need` and `unit` without their prefixes. */
#define FIELD_AS(key_, struct_, member, need_, unit_, meaning_, ...)                              \
	{                                                                                         \
		.key = (key_), .kind = FIELD_KIND(struct_, member), FIELD_PLACE(struct_, member), \
		.need = FIELD_##need_, .unit = UNIT_##unit_, .meaning = (meaning_), __VA_ARGS__   \
	}
#define FIELD(struct_, member, need_, unit_, meaning_, ...) \
	FIELD_AS(#member, struct_, member, need_, unit_, meaning_, __VA_ARGS__)
#define FIELD_WORDS(struct_, member, need_, words_, meaning_, ...)                  \
	{                                                                           \
		.key = #member, .kind = FIELD_CHOICE, FIELD_PLACE(struct_, member), \
		.need = FIELD_##need_, .unit = UNIT_NAME, .words = (words_),        \
		.meaning = (meaning_), __VA_ARGS__                                  \
	}
#define FIELD_ROWS(key_, struct_, pointer, count_, need_, type_, meaning_, ...)                 \
	{                                                                                       \
		.key = (key_), .kind = FIELD_LIST, FIELD_PLACE(struct_, pointer),               \
		.more_offset = offsetof(struct_, count_), .need = FIELD_##need_, .of = (type_), \
		.meaning = (meaning_), __VA_ARGS__                                              \
	}
/* An object of a struct that is a member. */
#define FIELD_STRUCT(key_, struct_, member, type_, meaning_)                       \
	{                                                                          \
		.key = (key_), .kind = FIELD_OBJECT, FIELD_PLACE(struct_, member), \
		.need = FIELD_REQUIRED, .of = (type_), .meaning = (meaning_)       \
	}
/* The same, absent while `flag` is 0. */
#define FIELD_STRUCT_IF(key_, struct_, member, flag, type_, meaning_)                              \
	{                                                                                          \
		.key = (key_), .kind = FIELD_OBJECT, FIELD_PLACE(struct_, member),                 \
		.more_offset = offsetof(struct_, flag), .more_size = sizeof(((struct_ *)0)->flag), \
		.need = FIELD_OPTIONAL, .of = (type_), .meaning = (meaning_)                       \
	}
/* An object of rows that are members of the same struct. */
#define FIELD_GROUP(key_, type_, meaning_) FIELD_GROUP_AS(key_, REQUIRED, type_, meaning_)
/* The same with a need: NONZERO leaves it out while it is empty. */
#define FIELD_GROUP_AS(key_, need_, type_, meaning_)                                       \
	{                                                                                  \
		.key = (key_), .kind = FIELD_OBJECT, .need = FIELD_##need_, .of = (type_), \
		.meaning = (meaning_)                                                      \
	}
#define FIELD_SAME_LEVEL(struct_, member, type_)                                  \
	{                                                                         \
		.kind = FIELD_INLINE, FIELD_PLACE(struct_, member), .of = (type_) \
	}
