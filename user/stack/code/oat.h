/* SPDX-License-Identifier: BSD-2-Clause */
/* Code that ART compiled ahead of time, in an oat file without unwind tables: its method by the
 * tables of the file and the DEX file that it was compiled from, its frame by what the compiler
 * keeps of it. */
#pragma once
#include "stack/code/code.h"
#include "stack/code/dex.h"

/* Bytes of the indexes of all oat files. */
#define OAT_CACHE_BYTES (4u << 20)

struct oat_code;
extern const struct code_provider oat_code_provider;

/* Both are borrowed. NULL: no memory. */
struct oat_code *oat_code_new(struct modules *modules, struct dex_code *dex);
/* Fill in what the file's own names and tables do not tell of a frame that they located: the line,
 * the place in the byte code, and the names of methods that share the code. */
void oat_code_tell(struct oat_code *code, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame);
/* As unwind_reader.inlined, of a frame that was located or told of. */
size_t oat_code_inlined(struct oat_code *code, const struct module_scope *scope,
			const struct stack_frame *frame, struct stack_frame *to, size_t room);
/* Heap bytes, those of the indexes and of what is told of places among them. */
size_t oat_code_bytes(const struct oat_code *code);
/* Add what was lost so far. */
void oat_code_losses(const struct oat_code *code, struct stack_unwind_losses *losses);
