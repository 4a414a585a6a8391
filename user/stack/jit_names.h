/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of code that a JIT compiler made, from /tmp/perf-PID.map of the process (node, java agents;
 * the kernel's tools/perf/Documentation/jit-interface.txt). */
#pragma once
#include "stack/code/code.h"

struct jit_names;

/* files is borrowed. NULL: no memory. */
struct jit_names *jit_names_new(const struct stack_files *files);
void jit_names_free(struct jit_names *names);
/* The name of the code at address, and where it begins; NULL: there is none. The file is read when
 * the process is met, and looked at again once a second: a runtime gives the memory of code that it
 * has dropped to other code, so that a name can be as old as that. Valid until the next call. */
const char *jit_names_find(struct jit_names *names, const struct stack_process *process,
			   uint64_t address, uint64_t *start);
/* Names only: how such code is left is not known. self is a struct jit_names. */
extern const struct code_provider jit_names_provider;
