/* SPDX-License-Identifier: BSD-2-Clause */
/* Code providers: each explains one kind of code that a stack leads through and that no ELF file of
 * a mapping does (modules.h has those). The unwinder asks one after the other and knows no runtime;
 * where ART or V8 keeps what it knows of its code is known to the provider alone. */
#pragma once
#include "stack/cfi.h"
#include "stack/modules.h"

struct code_provider {
	/* As unwind_reader.locate, for an address in an executable mapping without an ELF file.
	 * -ENOENT: the code is of another kind. -ENODEV: it is known by name only, and the stack
	 * ends there. */
	int (*locate)(void *self, const struct module_scope *scope, uint64_t address,
		      struct stack_frame *frame, const struct cfi_row **row);
	/* The frame of the method whose byte code at pc an interpreter runs; NULL: the provider
	 * knows no byte code. 0; -ENOENT: in no file that is known; another -errno. */
	int (*locate_dex)(void *self, const struct module_scope *scope, uint64_t pc,
			  struct stack_frame *frame);
	/* The name of a frame that this provider located in the unwinding under way. Valid until
	 * the next begin. NULL: none. */
	const char *(*name)(void *self, const struct stack_frame *frame);
	/* A new unwinding begins: names of the last one may go, and so may what was not used for
	 * long when the budget is spent. NULL: nothing to do. */
	void (*begin)(void *self);
	void (*free)(void *self);

	/* Heap bytes of what is kept from one unwinding to the next. All providers together keep
	 * CODE_KEPT_BYTES; when a new unwinding begins they give back what was not used for
	 * longest, whose it is. NULL: it has a budget of its own. */
	size_t (*bytes)(const void *self);
	/* CODE_USE of the unwinding in which the piece was used that give_back would free. */
	uint64_t (*oldest)(const void *self);
	/* False: there is nothing to free. */
	bool (*give_back)(void *self);
};

#define CODE_KEPT_BYTES (16u << 20)
/* What is used in an unwinding has numbers from this on, so that uses of all providers compare. */
#define CODE_USE(unwinding) ((unwinding) << 20)
