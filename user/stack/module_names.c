/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of functions, demangled once. They are part of what their module costs, and go with it: a
 * program that maps new code all the time would fill any cache of its own with names of code that
 * is gone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/demangle.h"
#include "stack/module_table.h"

struct module_name {
	struct name_key {
		uint64_t module, function;
	} key;
	UT_hash_handle hh;
	struct module_name *next; /* of the same module */
	char text[];              /* empty: the function has no name */
};

/* Neighbours in a hash table of pointers. */
#define HASH_BYTES (2 * sizeof(void *))

void module_names_free(struct modules *m, struct module *module)
{
	struct module_name *name;

	while ((name = module->names)) {
		module->names = name->next;
		HASH_DEL(m->names, name);
		free(name);
	}
}

const char *modules_name(struct modules *m, uint32_t number, uint64_t function, uint64_t offset)
{
	char raw[ELF_INDEX_NAME_BYTES], *text = NULL;
	struct module *module = number && number < m->count ? m->table[number] : NULL;
	struct name_key key;
	struct module_name *name;
	size_t len;

	if (!module)
		return NULL;
	key = (struct name_key){module->serial, function};
	HASH_FIND(hh, m->names, &key, sizeof(key), name);
	if (name)
		return name->text[0] ? name->text : NULL;
	if (!modules_symbol(m, number, offset, raw))
		text = demangle(raw);
	len = text ? strlen(text) : 0;
	name = malloc(sizeof(*name) + len + 1);
	if (!name) {
		m->losses.names_dropped++;
		free(text);
		return NULL;
	}
	name->key = key;
	memcpy(name->text, text ? text : "", len + 1);
	free(text);
	name->next = module->names;
	module->names = name;
	HASH_ADD(hh, m->names, key, sizeof(name->key), name);
	module_count_bytes(m, module, sizeof(*name) + len + HASH_BYTES);
	module->kept_bytes += sizeof(*name) + len + HASH_BYTES;
	return len ? name->text : NULL;
}
