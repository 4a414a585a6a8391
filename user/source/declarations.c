/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"

#include <string.h>

const struct source_declaration *const source_declarations[] = {
	&cpu_declaration,    &blocks_declaration,  &net_declaration,    &tcp_declaration,
	&frames_declaration, &power_declaration,   &memory_declaration, &context_declaration,
	&disk_declaration,   &startup_declaration, &flight_declaration,
};
const size_t source_declaration_count = sizeof(source_declarations) / sizeof(*source_declarations);

_Static_assert(sizeof(source_declarations) / sizeof(*source_declarations) <= MAX_SOURCES,
	       "MAX_SOURCES");

struct source *source_made(const struct source_wishes *wishes, const char *name)
{
	for (size_t i = 0; i < wishes->made_count; i++)
		if (!strcmp(wishes->made[i]->ops->name, name))
			return wishes->made[i];
	return NULL;
}
