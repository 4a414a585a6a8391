/* SPDX-License-Identifier: BSD-2-Clause */
/* What json_read.c (rows of the table of fields), json_read_line.c (lines) and json_read_names.c
 * (objects whose keys no table declares) share. Every function here returns 0, -ENOMEM, or -EBADMSG
 * with the reason in reading.why. */
#pragma once
#include <stddef.h>

#include "jankscope/record.h"
#include "record/fields.h"
#include "record/json_tree.h"
#include "record/shapes.h"
#include "util/arena.h"

/* A histogram takes 30 KiB however short its text is. */
#define MAX_HISTOGRAMS 1024

struct parsed_memory {
	struct arena arena;
	struct histogram **histograms; /* room for all, once there is one: few records have any */
	size_t histogram_count;
};

/* Where the reader is, from the outermost key to this one; only an error makes a text of it. */
struct place {
	const struct place *outer;
	const char *key; /* NULL: an element of the list that is `outer` */
	size_t index;
};

struct reading {
	struct json_tree tree;
	struct shapes *shapes; /* may be NULL */
	struct parsed_memory *memory;
	char *why;
	size_t why_size;
};

/* Write the place and what is wrong there into r->why; -EBADMSG. */
int record_refuse(struct reading *r, const struct place *place, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A text of the line, in the record's own memory. */
int record_text(struct reading *r, uint32_t value, const char **text, const struct place *place);
/* Refuse an object that has a key twice. */
int record_refuse_double(struct reading *r, uint32_t object, const struct place *place);
/* The row of this key; NULL: none is declared. */
const struct field *record_declared(const struct field_type *type, const char *key);
/* Room for one row more behind `count` of them, which begin with none; NULL: no memory. */
void *record_grow(struct reading *r, const void *rows, size_t count, size_t size);
/* Fill a zeroed struct of this type from an object. */
int record_fill_struct(struct reading *r, const struct field_type *type, uint32_t object, void *out,
		       const struct place *place);
/* Fill one field of it. *hint: where the key is looked for first (json_tree_get). */
int record_fill_field(struct reading *r, const struct field_type *type, const struct field *row,
		      uint32_t object, uint32_t *hint, char *out, const struct place *place);
/* Give back what a record points to, and not the memory's own struct. */
void record_memory_empty(struct parsed_memory *memory);
/* Counters by name, reasons by name, buckets of a histogram: into the record's own memory. */
int record_fill_counters(struct reading *r, uint32_t value, struct counter_list *list,
			 const struct place *place);
int record_fill_missing(struct reading *r, uint32_t value, struct missing_list *list,
			const struct place *place);
int record_fill_histogram(struct reading *r, uint32_t value, const struct histogram **out,
			  const struct place *place);
/* Totals and distributions of a summary by their key paths. */
int record_fill_totals(struct reading *r, const struct field_type *type, uint32_t object,
		       struct record_footer *footer, const struct place *place);
/* The keys that an event has beside those of every record. */
int record_fill_event_keys(struct reading *r, const struct field_type *type, uint32_t object,
			   struct record_event *event, const struct place *place);
