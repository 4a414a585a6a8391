/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/row_order.h"
#include <stdlib.h>

#define MAX_ROWS 32768 /* that may be out of order */

struct row_order {
	void (*emit)(void *ctx, const struct timeline_row *row);
	void *ctx;
	struct timeline_row *heap; /* the earliest first */
	size_t count;
};

struct row_order *row_order_new(void (*emit)(void *ctx, const struct timeline_row *row), void *ctx)
{
	struct row_order *order = calloc(1, sizeof(*order));

	if (!order)
		return NULL;
	order->emit = emit;
	order->ctx = ctx;
	order->heap = malloc(MAX_ROWS * sizeof(*order->heap));
	if (!order->heap) {
		free(order);
		return NULL;
	}
	return order;
}

void row_order_free(struct row_order *order)
{
	if (!order)
		return;
	free(order->heap);
	free(order);
}

static bool before(const struct timeline_row *a, const struct timeline_row *b)
{
	return a->ts_ns != b->ts_ns ? a->ts_ns < b->ts_ns : a->order < b->order;
}

static void emit_first(struct row_order *order)
{
	struct timeline_row last;
	size_t at = 0;

	order->emit(order->ctx, &order->heap[0]);
	last = order->heap[--order->count];
	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= order->count)
			break;
		if (child + 1 < order->count &&
		    before(&order->heap[child + 1], &order->heap[child]))
			child++;
		if (!before(&order->heap[child], &last))
			break;
		order->heap[at] = order->heap[child];
		at = child;
	}
	order->heap[at] = last;
}

void row_order_add(struct row_order *order, const struct timeline_row *row)
{
	size_t at;

	if (order->count == MAX_ROWS)
		emit_first(order);
	at = order->count++;
	while (at && before(row, &order->heap[(at - 1) / 2])) {
		order->heap[at] = order->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	order->heap[at] = *row;
}

void row_order_flush(struct row_order *order)
{
	while (order->count)
		emit_first(order);
}
