/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/store.h"

bool store_notice_take(struct store_notices *notices, struct store_notice *notice)
{
	uint32_t tail = atomic_load_explicit(&notices->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&notices->head, memory_order_acquire))
		return false;
	*notice = notices->items[tail % STORE_NOTICES];
	atomic_store_explicit(&notices->tail, tail + 1, memory_order_release);
	return true;
}

bool store_notice_put(struct store_notices *notices, const struct store_notice *notice)
{
	uint32_t head = atomic_load_explicit(&notices->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&notices->tail, memory_order_acquire) == STORE_NOTICES)
		return false;
	notices->items[head % STORE_NOTICES] = *notice;
	atomic_store_explicit(&notices->head, head + 1, memory_order_release);
	return true;
}
