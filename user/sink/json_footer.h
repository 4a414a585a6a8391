/* SPDX-License-Identifier: BSD-2-Clause */
/* The lists of a footer as JSON: who used what, layers, blocks by what they did. */
#pragma once
#include "sink/json_build.h"

/* Put them into the footer's `summary` object, which has its totals already. */
void json_footer_rows(struct builder *b, json_t *summary, const struct record_footer *footer);
