/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of JSON as places in its text: no copy, and no memory for each value. A place is the index
 * of a token; 0 is the root. jansson, which builds values, took four fifths of the time of a
 * report; of what Debian has jsmn takes texts that are no JSON, and squares of the time for deep
 * ones. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json_token;

struct json_tree {
	struct json_token *tokens;
	uint32_t count;
	size_t room; /* tokens */
};

/* What a walk over the members of an object, or the elements of a list, is at. */
struct json_walk {
	uint32_t at, end;
	uint32_t key, value; /* key: of an object's member */
};

/* Read a text, which must live as long as the tree. Free the tree with json_tree_free() in any
 * case. 0; -EBADMSG: it is no object; -EMSGSIZE: more than 4 million values, or more than 64 of
 * them in each other; -ENOMEM. */
int json_tree_read(struct json_tree *tree, const char *text, size_t length);
/* The same into the memory of a tree that was read before, or is zeroed. */
int json_tree_read_again(struct json_tree *tree, const char *text, size_t length);
void json_tree_free(struct json_tree *tree);

bool json_tree_is_object(const struct json_tree *tree, uint32_t place);
bool json_tree_is_list(const struct json_tree *tree, uint32_t place);
bool json_tree_is_text(const struct json_tree *tree, uint32_t place);
/* How many members or elements it has. */
uint32_t json_tree_size(const struct json_tree *tree, uint32_t place);
/* The next member or element; false: there is none. Begin with json_tree_walk(). */
struct json_walk json_tree_walk(const struct json_tree *tree, uint32_t place);
bool json_walk_next(const struct json_tree *tree, struct json_walk *walk);
/* The bytes of a member's key as they stand in the text; NULL: there are more than 65,535. */
const char *json_tree_key(const struct json_tree *tree, uint32_t key, uint16_t *length);
/* The keys of an object in their order, as they stand in the text. */
struct json_keys {
	uint32_t count;
	uint16_t *lengths;
	char *text; /* of all of them, nothing in between */
};
/* Whether an object has just these keys in this order; its values then, in the same order. */
bool json_tree_has_keys(const struct json_tree *tree, uint32_t object, const struct json_keys *keys,
			uint32_t *values);
/* The same for objects with the same keys. */
uint64_t json_tree_keys_hash(const struct json_tree *tree, uint32_t object);
/* The value of a key of an object, 0: it has none. It is looked for from *hint on, and then from
 * the begin: keys that are asked for in the order of the text are found at once. */
uint32_t json_tree_get(const struct json_tree *tree, uint32_t object, const char *key,
		       uint32_t *hint);
/* False: it is no such value. A whole number has neither '.' nor exponent and fits. */
bool json_tree_integer(const struct json_tree *tree, uint32_t place, int64_t *value);
bool json_tree_number(const struct json_tree *tree, uint32_t place, double *value);
bool json_tree_bool(const struct json_tree *tree, uint32_t place, bool *value);
/* A text without its escapes, in memory of the arena. 0; -EBADMSG: it is none, or no UTF-8, or has
 * a NUL in it; -ENOMEM. */
int json_tree_text(const struct json_tree *tree, uint32_t place, struct arena *arena,
		   const char **text);
/* Whether it is this text, which has nothing that JSON escapes. */
bool json_tree_equals(const struct json_tree *tree, uint32_t place, const char *text);
