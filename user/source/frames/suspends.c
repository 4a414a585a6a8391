/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/suspends.h"

#include <string.h>

/* Less than that is not a suspend, but a task that was held up between its looks at two clocks. */
#define LEAST_NS 1000000

void suspends_look(struct suspends *suspends, uint64_t apart_ns, uint64_t boot_ns)
{
	struct suspend *items = suspends->items;

	/* Held up between two looks, a task sees less than there is: the most is nearest. */
	if (!suspends->look_boot_ns || apart_ns <= suspends->apart_ns + LEAST_NS) {
		if (apart_ns > suspends->apart_ns)
			suspends->apart_ns = apart_ns;
		suspends->look_boot_ns = boot_ns;
		return;
	}
	if (suspends->count == SUSPENDS_KEPT) {
		suspends->forgotten_ns += items[1].before_ns - items[0].before_ns;
		suspends->count--;
		memmove(items, items + 1, suspends->count * sizeof(*items));
	}
	items[suspends->count++] = (struct suspend){
		.before_ns = suspends->apart_ns,
		.last_boot_ns = suspends->look_boot_ns,
		.next_boot_ns = boot_ns,
	};
	suspends->apart_ns = apart_ns;
	suspends->look_boot_ns = boot_ns;
}

uint64_t suspends_apart(const struct suspends *suspends, int64_t mono_ns)
{
	uint64_t apart_ns = suspends->apart_ns;

	for (size_t n = suspends->count; n--;) {
		const struct suspend *suspend = &suspends->items[n];

		if (mono_ns > (int64_t)(suspend->last_boot_ns - suspend->before_ns))
			break;
		apart_ns = suspend->before_ns;
	}
	return apart_ns;
}

struct suspends_span suspends_between(const struct suspends *suspends, uint64_t from_ns,
				      uint64_t to_ns)
{
	struct suspends_span span = {.after_ns = suspends->apart_ns};
	size_t n = suspends->count;

	/* Suspends that were surely behind the end. */
	while (n && to_ns <= suspends->items[n - 1].last_boot_ns)
		span.after_ns = suspends->items[--n].before_ns;
	span.before_ns = span.after_ns;
	/* And those that may have been after the begin. */
	while (n && from_ns < suspends->items[n - 1].next_boot_ns) {
		const struct suspend *suspend = &suspends->items[--n];

		span.before_ns = suspend->before_ns;
		span.from_boot_ns = suspend->last_boot_ns;
		if (!span.until_boot_ns)
			span.until_boot_ns = suspend->next_boot_ns;
	}
	if (!n && suspends->forgotten_ns && from_ns < suspends->items[0].next_boot_ns)
		span.error_ns = suspends->forgotten_ns;
	return span;
}
