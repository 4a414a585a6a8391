/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"

const struct source_declaration *const source_declarations[] = {
	&cpu_declaration,    &blocks_declaration,  &net_declaration,    &tcp_declaration,
	&frames_declaration, &power_declaration,   &memory_declaration, &context_declaration,
	&disk_declaration,   &startup_declaration, &flight_declaration,
};
const size_t source_declaration_count = sizeof(source_declarations) / sizeof(*source_declarations);

_Static_assert(sizeof(source_declarations) / sizeof(*source_declarations) <= MAX_SOURCES,
	       "MAX_SOURCES");
