/* SPDX-License-Identifier: BSD-2-Clause */
/* Code that a runtime made and entered into gdb's JIT interface (ART, LLVM, mono): names and unwind
 * tables from the ELF files that it keeps in memory, asked for through struct stack_files. */
#pragma once
#include "stack/code/code.h"

/* What is kept of all processes. */
#define JIT_KEPT_BYTES (8u << 20)

struct dex_code;
struct jit_code;
extern const struct code_provider jit_code_provider;

/* Both are borrowed. NULL: no memory. */
struct jit_code *jit_code_new(const struct stack_files *files, struct modules *modules);
/* Have inlined methods named by their DEX files from now on; dex is borrowed. */
void jit_code_use_dex(struct jit_code *code, struct dex_code *dex);
/* As unwind_reader.inlined, of a frame that was located. */
size_t jit_code_inlined(struct jit_code *code, const struct module_scope *scope,
			const struct stack_frame *frame, struct stack_frame *to, size_t room);
/* Add what was lost so far. */
void jit_code_losses(const struct jit_code *code, struct stack_unwind_losses *losses);
/* Heap bytes that are kept. */
size_t jit_code_bytes(const struct jit_code *code);
