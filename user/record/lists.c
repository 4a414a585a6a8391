/* SPDX-License-Identifier: BSD-2-Clause */
#include "jankscope/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int counter_list_add(struct counter_list *list, const char *name, uint64_t value)
{
	struct counter *items;

	if (!value)
		return 0;
	for (size_t i = 0; i < list->count; i++) {
		if (!strcmp(list->items[i].name, name)) {
			list->items[i].value += value;
			return 0;
		}
	}
	items = realloc(list->items, (list->count + 1) * sizeof(*items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	items[list->count].name = strdup(name);
	if (!items[list->count].name)
		return -ENOMEM;
	items[list->count++].value = value;
	return 0;
}

uint64_t counter_list_get(const struct counter_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].name, name))
			return list->items[i].value;
	return 0;
}

int counter_list_merge(struct counter_list *to, const struct counter_list *from)
{
	int err = 0;

	for (size_t i = 0; i < from->count && !err; i++)
		err = counter_list_add(to, from->items[i].name, from->items[i].value);
	return err;
}

void counter_list_free(struct counter_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i].name);
	free(list->items);
	*list = (struct counter_list){0};
}

int missing_list_set(struct missing_list *list, const char *key, const char *reason)
{
	struct missing *items;
	char *copy = strdup(reason);

	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		if (!strcmp(list->items[i].key, key)) {
			free(list->items[i].reason);
			list->items[i].reason = copy;
			return 0;
		}
	}
	items = realloc(list->items, (list->count + 1) * sizeof(*items));
	if (!items)
		goto fail;
	list->items = items;
	items[list->count].key = strdup(key);
	if (!items[list->count].key)
		goto fail;
	items[list->count++].reason = copy;
	return 0;
fail:
	free(copy);
	return -ENOMEM;
}

const char *missing_reason(const struct missing_list *list, const char *key)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].key, key))
			return list->items[i].reason;
	return NULL;
}

void missing_list_free(struct missing_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].key);
		free(list->items[i].reason);
	}
	free(list->items);
	*list = (struct missing_list){0};
}
