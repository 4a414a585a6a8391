/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of several figures differ by more than chance when all of them are looked at: each figure
 * by its own interval seems to once in 20 times, and of a dozen one does in every other comparison.
 * Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979): of 20 comparisons without
 * a difference one has any, however the figures depend on each other. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* chances: how often chance alone parts a figure so far (struct difference); NAN: it is not judged,
 * and does not differ. */
void family_judge(const double *chances, size_t count, bool *differ);
