/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_double.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

/* With more keys than these they are sorted; with fewer each is compared with those before it. */
#define FEW_KEYS 64

struct key {
	const char *text;
	uint64_t hash;
	uint32_t place;
	uint16_t length;
};

static bool is_same(const struct key *a, const struct key *b)
{
	return a->length == b->length && !memcmp(a->text, b->text, a->length);
}

static int by_hash(const void *a, const void *b)
{
	const struct key *one = a, *two = b;

	if (one->hash != two->hash)
		return one->hash < two->hash ? -1 : 1;
	return (one->place > two->place) - (one->place < two->place);
}

/* Longer keys than json_tree_key gives are left out. */
static size_t list_keys(const struct json_tree *tree, uint32_t object, struct key *keys)
{
	struct json_walk walk = json_tree_walk(tree, object);
	size_t count = 0;

	while (json_walk_next(tree, &walk)) {
		keys[count].text = json_tree_key(tree, walk.key, &keys[count].length);
		keys[count].place = walk.key;
		count += keys[count].text != NULL;
	}
	return count;
}

static uint32_t find_among_few(const struct key *keys, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t k = 0; k < i; k++)
			if (is_same(&keys[i], &keys[k]))
				return keys[i].place;
	return 0;
}

/* Keys of the same hash that differ may stand between two that do not. */
static uint32_t find_among_many(struct key *keys, size_t count)
{
	uint32_t found = 0;

	for (size_t i = 0; i < count; i++)
		keys[i].hash = hash_bytes(keys[i].text, keys[i].length, 0);
	qsort(keys, count, sizeof(*keys), by_hash);
	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k-- && keys[k].hash == keys[i].hash && i - k <= FEW_KEYS;)
			if (is_same(&keys[i], &keys[k]) && (!found || keys[i].place < found))
				found = keys[i].place;
	return found;
}

int json_double_key(const struct json_tree *tree, uint32_t object, uint32_t *key)
{
	uint32_t size = json_tree_size(tree, object);
	struct key few[FEW_KEYS], *many;

	*key = 0;
	if (size <= FEW_KEYS) {
		*key = find_among_few(few, list_keys(tree, object, few));
		return 0;
	}
	many = calloc(size, sizeof(*many));
	if (!many)
		return -ENOMEM;
	*key = find_among_many(many, list_keys(tree, object, many));
	free(many);
	return 0;
}
