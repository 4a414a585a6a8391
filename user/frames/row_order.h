/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts rows that come almost in the order of their times into that order, in bounded memory. */
#pragma once
#include "frames/timeline.h"

struct row_order;

/* NULL with errno on failure. emit gets the rows by (ts, order). */
struct row_order *row_order_new(void (*emit)(void *ctx, const struct timeline_row *row), void *ctx);
/* Does not emit what is left: row_order_flush does. */
void row_order_free(struct row_order *order);
void row_order_add(struct row_order *order, const struct timeline_row *row);
void row_order_flush(struct row_order *order);
