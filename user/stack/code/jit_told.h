/* SPDX-License-Identifier: BSD-2-Clause */
/* What is told of a place in code that ART's JIT compiler made: where in the byte code it is, and
 * the methods that were inlined there. The compiler keeps the same of it as of code that is
 * compiled ahead (code_info.h), in the memory of the process, and names inlined methods by their
 * ArtMethod.
 */
#pragma once
#include "stack/code/oat_told.h"

/* The version of the oat files that ART in this process takes, which says how it keeps what it
 * knows of code: that of one which is mapped, because ART refuses others. 0: none is. */
struct jit_oat {
	unsigned version;
	uint64_t serial; /* version 0: none was, in this picture of mappings */
};
unsigned jit_oat_version(struct jit_oat *oat, struct modules *modules,
			 const struct module_scope *scope);

struct jit_asked {
	const struct stack_files *files;
	const struct module_scope *scope;
	struct dex_code *dex;
	unsigned version;
	uint64_t code;   /* where the method's begins */
	uint32_t offset; /* of a place behind a call in it */
	/* What the frame has where compiled methods have their own ArtMethod, and the name by which
	 * it is known whether that is it. */
	uint64_t art_method;
	const char *name;
};

/* As oat_tell, but for the name of the method itself. 0, also where nothing is kept of the
 * place; -errno: what is kept could not be read. */
int jit_tell(const struct jit_asked *asked, struct oat_told *told);
