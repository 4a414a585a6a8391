/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/names.h"

#include <stdlib.h>
#include <string.h>

struct frame_name {
	struct frame_name *next;
	uint64_t pc;
	char text[];
};

void frame_names_keep(struct frame_name **names, uint64_t pc, const char *text)
{
	size_t length = strlen(text);
	struct frame_name *name;

	if (frame_names_find(*names, pc))
		return;
	name = malloc(sizeof(*name) + length + 1);
	if (!name)
		return;
	name->next = *names;
	name->pc = pc;
	memcpy(name->text, text, length + 1);
	*names = name;
}

const char *frame_names_find(const struct frame_name *names, uint64_t pc)
{
	for (; names; names = names->next)
		if (names->pc == pc)
			return names->text;
	return NULL;
}

void frame_names_clear(struct frame_name **names)
{
	while (*names) {
		struct frame_name *name = *names;

		*names = name->next;
		free(name);
	}
}
