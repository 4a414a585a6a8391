/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/json_double.h"
#include "util/hash.h"

/* A shape is in one of a few slots. */
#define SLOTS     256
#define WAYS      4
#define KEY_BYTES 1024
#define MOST_ROWS (SHAPE_KEYS + 16) /* some have no key */

struct shapes {
	struct shape *slots[SLOTS];
	unsigned turn; /* which of the ways is given up next */
	struct json_tree tree;
};

struct shapes *shapes_new(void)
{
	return calloc(1, sizeof(struct shapes));
}

void shapes_free(struct shapes *shapes)
{
	for (size_t i = 0; shapes && i < SLOTS; i++)
		free(shapes->slots[i]);
	if (shapes)
		json_tree_free(&shapes->tree);
	free(shapes);
}

struct json_tree *shapes_tree(struct shapes *shapes)
{
	return &shapes->tree;
}

/* ---- a new one ---- */

struct making {
	const struct json_tree *tree;
	uint32_t object, hint;
	const uint32_t *values;
	uint32_t value_count;
	struct shape_row rows[MOST_ROWS];
	size_t row_count;
};

static bool add_row(struct making *making, const struct field_type *type, const struct field *field,
		    size_t base, uint32_t key)
{
	if (making->row_count == MOST_ROWS)
		return false;
	making->rows[making->row_count++] = (struct shape_row){type, field, (uint32_t)base, key};
	return true;
}

static bool add_type(struct making *making, const struct field_type *type, size_t base);

/* False: the object is read without a shape. */
static bool add_field(struct making *making, const struct field_type *type,
		      const struct field *field, size_t base)
{
	const struct field *part;
	uint32_t value, key = 0;
	bool ok = true;

	if (field->kind == FIELD_INLINE)
		return add_type(making, field->of, base + field->offset);
	if (field->kind == FIELD_PARTS) {
		for (size_t i = 0; ok && (part = record_next_part(&i));)
			ok = add_field(making, type, part, base);
		return ok;
	}
	if (!field->key)
		return add_row(making, type, field, base, UINT32_MAX);
	value = json_tree_get(making->tree, making->object, field->key, &making->hint);
	if (!value)
		return field->need != FIELD_REQUIRED;
	while (key < making->value_count && making->values[key] != value)
		key++;
	return key < making->value_count && add_row(making, type, field, base, key);
}

static bool add_type(struct making *making, const struct field_type *type, size_t base)
{
	bool ok = true;

	for (size_t i = 0; i < type->count && ok; i++)
		ok = add_field(making, type, &type->fields[i], base);
	return ok;
}

static struct shape *make(const struct field_type *type, const struct json_tree *tree,
			  uint32_t object, uint32_t *values)
{
	struct json_walk walk = json_tree_walk(tree, object);
	struct making making = {.tree = tree, .object = object, .values = values};
	uint16_t lengths[SHAPE_KEYS];
	size_t bytes = 0, rows_bytes, count = 0;
	struct shape *shape;
	const char *key;
	uint32_t twice;
	char *text;

	for (; json_walk_next(tree, &walk); count++) {
		if (count == SHAPE_KEYS)
			return NULL;
		key = json_tree_key(tree, walk.key, &lengths[count]);
		if (!key || lengths[count] > KEY_BYTES - bytes)
			return NULL;
		bytes += lengths[count];
		values[count] = walk.value;
	}
	making.value_count = (uint32_t)count;
	/* The reader without a shape says what is wrong with it. */
	if (json_double_key(tree, object, &twice) || twice)
		return NULL;
	if (!add_type(&making, type, 0))
		return NULL;
	rows_bytes = making.row_count * sizeof(*making.rows);
	shape = malloc(sizeof(*shape) + rows_bytes + count * sizeof(*lengths) + bytes);
	if (!shape)
		return NULL;
	shape->type = type;
	shape->row_count = making.row_count;
	memcpy(shape->rows, making.rows, rows_bytes);
	shape->keys.count = (uint32_t)count;
	shape->keys.lengths = (uint16_t *)&shape->rows[making.row_count];
	shape->keys.text = text = (char *)(shape->keys.lengths + count);
	memcpy(shape->keys.lengths, lengths, count * sizeof(*lengths));
	for (walk = json_tree_walk(tree, object); json_walk_next(tree, &walk); text += *lengths) {
		key = json_tree_key(tree, walk.key, lengths);
		memcpy(text, key, *lengths);
	}
	return shape;
}

struct shape *shape_of(struct shapes *shapes, const struct field_type *type,
		       const struct json_tree *tree, uint32_t object, uint32_t *values)
{
	uint64_t hash = hash_u64((uint64_t)(uintptr_t)type ^ json_tree_keys_hash(tree, object));
	struct shape **ways = &shapes->slots[hash % (SLOTS / WAYS) * WAYS], **given_up, *made;

	for (size_t i = 0; i < WAYS; i++)
		if (ways[i] && ways[i]->type == type &&
		    json_tree_has_keys(tree, object, &ways[i]->keys, values)) {
			ways[i]->busy++;
			return ways[i];
		}
	given_up = &ways[shapes->turn++ % WAYS];
	for (size_t i = WAYS; i--;)
		if (!ways[i])
			given_up = &ways[i];
	/* A busy one is that of an object around this one. */
	made = *given_up && (*given_up)->busy ? NULL : make(type, tree, object, values);
	if (made) {
		made->busy = 1;
		free(*given_up);
		*given_up = made;
	}
	return made;
}

void shape_end(struct shape *shape)
{
	shape->busy--;
}
