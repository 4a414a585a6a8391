/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/sort.h"
#include <stdbool.h>

/* One introsort for each element type: quick sort with the median of three, insertion sort for
 * short runs, heap sort where the recursion gets too deep. */
#define DEFINE_SORT(name, type, less)                                                              \
	static void name##_sift(type *items, size_t root, size_t count)                            \
	{                                                                                          \
		for (;;) {                                                                         \
			size_t child = 2 * root + 1;                                               \
			type swap;                                                                 \
                                                                                                   \
			if (child >= count)                                                        \
				return;                                                            \
			if (child + 1 < count && less(&items[child], &items[child + 1]))           \
				child++;                                                           \
			if (!less(&items[root], &items[child]))                                    \
				return;                                                            \
			swap = items[root];                                                        \
			items[root] = items[child];                                                \
			items[child] = swap;                                                       \
			root = child;                                                              \
		}                                                                                  \
	}                                                                                          \
	static void name##_heap(type *items, size_t count)                                         \
	{                                                                                          \
		for (size_t i = count / 2; i-- > 0;)                                               \
			name##_sift(items, i, count);                                              \
		for (size_t end = count; end-- > 1;) {                                             \
			type swap = items[0];                                                      \
                                                                                                   \
			items[0] = items[end];                                                     \
			items[end] = swap;                                                         \
			name##_sift(items, 0, end);                                                \
		}                                                                                  \
	}                                                                                          \
	static void name##_insertion(type *items, size_t count)                                    \
	{                                                                                          \
		for (size_t i = 1; i < count; i++) {                                               \
			type item = items[i];                                                      \
			size_t at = i;                                                             \
                                                                                                   \
			for (; at && less(&item, &items[at - 1]); at--)                            \
				items[at] = items[at - 1];                                         \
			items[at] = item;                                                          \
		}                                                                                  \
	}                                                                                          \
	static void name##_quick(type *items, size_t count, unsigned depth)                        \
	{                                                                                          \
		while (count > 24) {                                                               \
			size_t i = 0, j = count - 1;                                               \
			const type *a = &items[0], *b = &items[count / 2], *c = &items[count - 1]; \
			const type *median = less(a, b) ? (less(b, c)   ? b                        \
							   : less(a, c) ? c                        \
									: a)                       \
							: (less(a, c)   ? a                        \
							   : less(b, c) ? c                        \
									: b);                      \
			type pivot = *median, swap;                                                \
                                                                                                   \
			if (!depth--) {                                                            \
				name##_heap(items, count);                                         \
				return;                                                            \
			}                                                                          \
			for (;;) {                                                                 \
				while (less(&items[i], &pivot))                                    \
					i++;                                                       \
				while (less(&pivot, &items[j]))                                    \
					j--;                                                       \
				if (i >= j)                                                        \
					break;                                                     \
				swap = items[i];                                                   \
				items[i++] = items[j];                                             \
				items[j--] = swap;                                                 \
			}                                                                          \
			/* recurse into the shorter part */                                        \
			if (j + 1 < count - (j + 1)) {                                             \
				name##_quick(items, j + 1, depth);                                 \
				items += j + 1;                                                    \
				count -= j + 1;                                                    \
			} else {                                                                   \
				name##_quick(items + j + 1, count - (j + 1), depth);               \
				count = j + 1;                                                     \
			}                                                                          \
		}                                                                                  \
		name##_insertion(items, count);                                                    \
	}                                                                                          \
	static bool name##_sorted(const type *items, size_t count)                                 \
	{                                                                                          \
		for (size_t i = 1; i < count; i++) {                                               \
			if (less(&items[i], &items[i - 1]))                                        \
				return false;                                                      \
		}                                                                                  \
		return true;                                                                       \
	}                                                                                          \
	static void name##_all(type *items, size_t count)                                          \
	{                                                                                          \
		unsigned depth = 0;                                                                \
                                                                                                   \
		if (name##_sorted(items, count))                                                   \
			return;                                                                    \
		for (size_t n = count; n; n /= 2)                                                  \
			depth += 2;                                                                \
		name##_quick(items, count, depth);                                                 \
	}

static inline bool i64_less(const int64_t *a, const int64_t *b)
{
	return *a < *b;
}

static inline bool frame_less(const struct frame *a, const struct frame *b)
{
	if (a->layer != b->layer)
		return a->layer < b->layer;
	if (a->present_ns != b->present_ns)
		return a->present_ns < b->present_ns;
	return a->cookie < b->cookie;
}

static inline bool cookie_less(const struct frame *a, const struct frame *b)
{
	return a->cookie < b->cookie;
}

DEFINE_SORT(i64, int64_t, i64_less)
DEFINE_SORT(frame, struct frame, frame_less)
DEFINE_SORT(cookie, struct frame, cookie_less)

void sort_i64(int64_t *values, size_t count)
{
	i64_all(values, count);
}

void sort_frames(struct frame *frames, size_t count)
{
	frame_all(frames, count);
}

void sort_frames_by_cookie(struct frame *frames, size_t count)
{
	cookie_all(frames, count);
}
