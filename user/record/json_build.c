/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_build.h"

#include <stdlib.h>

#include "util/json_text.h"

void json_set(struct builder *b, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		b->failed = true;
}

void json_set_int(struct builder *b, json_t *object, const char *key, uint64_t value)
{
	json_set(b, object, key, json_integer((json_int_t)value));
}

void json_set_text(struct builder *b, json_t *object, const char *key, const char *value)
{
	json_t *text;

	if (!value)
		return;
	text = json_string(value);
	/* A thread may be named with any bytes; JSON wants UTF-8. */
	if (!text) {
		char *copy = json_clean_text(value);

		text = copy ? json_string(copy) : NULL;
		free(copy);
	}
	json_set(b, object, key, text);
}

void json_set_opt(struct builder *b, json_t *object, const char *key, struct opt_u64 value)
{
	if (value.present)
		json_set_int(b, object, key, value.value);
}

json_t *json_add_object(struct builder *b, json_t *array)
{
	json_t *object = json_object();

	if (json_array_append_new(array, object))
		b->failed = true;
	return object;
}

json_t *json_set_array(struct builder *b, json_t *object, const char *key)
{
	json_t *array = json_array();

	json_set(b, object, key, array);
	return array;
}

json_t *json_set_object(struct builder *b, json_t *object, const char *key)
{
	json_t *child = json_object();

	json_set(b, object, key, child);
	return child;
}

void json_set_counters(struct builder *b, json_t *object, const char *key,
		       const struct counter_list *list)
{
	json_t *child = json_set_object(b, object, key);

	for (size_t i = 0; i < list->count; i++)
		json_set_int(b, child, list->items[i].name, list->items[i].value);
}

void json_set_losses(struct builder *b, json_t *object, const struct counter_list *lost,
		     const struct counter_list *late, const struct counter_list *repaired)
{
	json_set_counters(b, object, "lost", lost);
	json_set_counters(b, object, "late", late);
	json_set_counters(b, object, "repaired", repaired);
}

void json_set_missing(struct builder *b, json_t *object, const struct missing_list *list)
{
	json_t *child = json_set_object(b, object, "missing");

	for (size_t i = 0; i < list->count; i++)
		json_set_text(b, child, list->items[i].key, list->items[i].reason);
}
