/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of objects that were met, and which row of the table each of them is. Nearly all objects
 * of a recording have the keys of one before: their rows are not looked for again. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "jankscope/field.h"
#include "record/json_tree.h"

/* An object with more keys, or longer ones, is read without a shape. */
#define SHAPE_KEYS 64

/* A row that has a key in the object, or that takes what it needs of the whole object. */
struct shape_row {
	const struct field_type
		*type; /* whose row it is: that of the object, or one inline in it */
	const struct field *field;
	uint32_t base; /* where the type's struct begins in that of the object */
	uint32_t key;  /* which key of the object, from 0; UINT32_MAX: none */
};

struct shape {
	const struct field_type *type;
	unsigned busy; /* how many times it is in use */
	struct json_keys keys;
	size_t row_count;
	struct shape_row rows[]; /* in the order of the table */
};

/* Takes less than 1 MiB, however many different objects there are. One thread at a time. */
struct shapes;

/* NULL: no memory. */
struct shapes *shapes_new(void);
/* The memory of the tree of the line before, for the next one. */
struct json_tree *shapes_tree(struct shapes *shapes);
void shapes_free(struct shapes *shapes);
/* The shape of an object, to be given back with shape_end(), and the values of its keys in
 * values[SHAPE_KEYS]. NULL: it has none, because it is large, a required key is absent or there is
 * no memory. */
struct shape *shape_of(struct shapes *shapes, const struct field_type *type,
		       const struct json_tree *tree, uint32_t object, uint32_t *values);
void shape_end(struct shape *shape);
