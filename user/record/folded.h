/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of records as text. */
#pragma once
#include "jankscope/record.h"

/* One line of folded stacks for flame graphs: names from the outermost to the innermost, joined by
 * ';', then a blank and the weight in microseconds, and a newline. Kernel frames end in "_[k]",
 * functions that were inlined into the next one in "_[i]"; frames without a name, or with a name
 * that stands for several functions, read [module+0xoffset], and a guessed one ends in '?'.
 * malloc'ed; NULL: no memory. */
char *stack_folded_line(const struct record_stack *stack);
