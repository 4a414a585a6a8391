/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of sources, in the order in which they are opened and stand in an interval. A source is
 * added by its line here; flags, fields and losses come from its own folder. */
#pragma once
#include "jankscope/source.h"

extern const struct source_declaration *const source_declarations[];
extern const size_t source_declaration_count;

/* One a source: in its declaration.c. */
extern const struct source_declaration cpu_declaration, blocks_declaration, net_declaration,
	frames_declaration;
/* Their rows of struct record_interval: in fields.c. */
extern const struct field cpu_part, net_part, frames_part;
