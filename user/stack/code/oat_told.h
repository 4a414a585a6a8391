/* SPDX-License-Identifier: BSD-2-Clause */
/* What is told of a place in code that ART compiled ahead of time: the method, its line, and the
 * methods that the compiler inlined there. */
#pragma once
#include "stack/code/code_info.h"
#include "stack/code/dex.h"
#include "stack/code/oat_file.h"

struct oat_told {
	char *name; /* of the method, or of those that share the code; NULL: no DEX file is there */
	bool shared;
	uint32_t line, dex_place; /* as in struct stack_frame */
	unsigned inlined_count;
	struct oat_inlined { /* the outermost first */
		char *name;  /* NULL: not known */
		uint64_t function;
		uint32_t line, dex_place;
	} * inlined;
	bool partial; /* something may be known later, when its DEX file is there */
};

struct oat_asked {
	const struct module_scope *scope;
	const struct map_entry *entry; /* the mapping of the oat file */
	const struct oat_file *oat;
	const struct oat_index *index;
	const struct oat_method *methods; /* that have this code: count of them */
	size_t count;
	const struct code_place *place; /* NULL: the compiler kept none */
};

/* Owned by the caller: oat_told_free. What there is no memory for is not told. */
void oat_tell(struct dex_code *dex, const struct oat_asked *asked, struct oat_told *told);
void oat_told_free(struct oat_told *told);
/* Heap bytes that it holds. */
size_t oat_told_bytes(const struct oat_told *told);
