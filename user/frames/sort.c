/* SPDX-License-Identifier: BSD-2-Clause */
#include "frames/sort.h"
#include <stdbool.h>

#define SHORT_RUN 24

/* Halvings after which the pivots were bad ones. */
static unsigned max_depth(size_t count)
{
	unsigned depth = 0;

	for (; count; count /= 2)
		depth += 2;
	return depth;
}

/* What sorting and selecting share, for each element type: insertion sort for short runs, heap sort
 * where the halving gets too deep, and a partition by the median of three. */
#define DEFINE_PARTS(name, type, less)                                                           \
	static void name##_sift(type *items, size_t root, size_t count)                          \
	{                                                                                        \
		for (;;) {                                                                       \
			size_t child = 2 * root + 1;                                             \
			type swap;                                                               \
                                                                                                 \
			if (child >= count)                                                      \
				return;                                                          \
			if (child + 1 < count && less(&items[child], &items[child + 1]))         \
				child++;                                                         \
			if (!less(&items[root], &items[child]))                                  \
				return;                                                          \
			swap = items[root];                                                      \
			items[root] = items[child];                                              \
			items[child] = swap;                                                     \
			root = child;                                                            \
		}                                                                                \
	}                                                                                        \
	static void name##_heap(type *items, size_t count)                                       \
	{                                                                                        \
		for (size_t i = count / 2; i-- > 0;)                                             \
			name##_sift(items, i, count);                                            \
		for (size_t end = count; end-- > 1;) {                                           \
			type swap = items[0];                                                    \
                                                                                                 \
			items[0] = items[end];                                                   \
			items[end] = swap;                                                       \
			name##_sift(items, 0, end);                                              \
		}                                                                                \
	}                                                                                        \
	static void name##_insertion(type *items, size_t count)                                  \
	{                                                                                        \
		for (size_t i = 1; i < count; i++) {                                             \
			type item = items[i];                                                    \
			size_t at = i;                                                           \
                                                                                                 \
			for (; at && less(&item, &items[at - 1]); at--)                          \
				items[at] = items[at - 1];                                       \
			items[at] = item;                                                        \
		}                                                                                \
	}                                                                                        \
	/* Neither part is empty; nothing in the first is larger than anything in the second. */ \
	static size_t name##_partition(type *items, size_t count)                                \
	{                                                                                        \
		size_t i = 0, j = count - 1;                                                     \
		const type *a = &items[0], *b = &items[count / 2], *c = &items[count - 1];       \
		const type *median = less(a, b) ? (less(b, c)   ? b                              \
						   : less(a, c) ? c                              \
								: a)                             \
						: (less(a, c)   ? a                              \
						   : less(b, c) ? c                              \
								: b);                            \
		type pivot = *median, swap;                                                      \
                                                                                                 \
		for (;;) {                                                                       \
			while (less(&items[i], &pivot))                                          \
				i++;                                                             \
			while (less(&pivot, &items[j]))                                          \
				j--;                                                             \
			if (i >= j)                                                              \
				return j + 1;                                                    \
			swap = items[i];                                                         \
			items[i++] = items[j];                                                   \
			items[j--] = swap;                                                       \
		}                                                                                \
	}

#define DEFINE_SORT(name, type, less)                                              \
	static void name##_quick(type *items, size_t count, unsigned depth)        \
	{                                                                          \
		while (count > SHORT_RUN) {                                        \
			size_t first;                                              \
                                                                                   \
			if (!depth--) {                                            \
				name##_heap(items, count);                         \
				return;                                            \
			}                                                          \
			first = name##_partition(items, count);                    \
			/* recurse into the shorter part */                        \
			if (first < count - first) {                               \
				name##_quick(items, first, depth);                 \
				items += first;                                    \
				count -= first;                                    \
			} else {                                                   \
				name##_quick(items + first, count - first, depth); \
				count = first;                                     \
			}                                                          \
		}                                                                  \
		name##_insertion(items, count);                                    \
	}                                                                          \
	static bool name##_sorted(const type *items, size_t count)                 \
	{                                                                          \
		for (size_t i = 1; i < count; i++) {                               \
			if (less(&items[i], &items[i - 1]))                        \
				return false;                                      \
		}                                                                  \
		return true;                                                       \
	}                                                                          \
	static void name##_sort(type *items, size_t count)                         \
	{                                                                          \
		if (!name##_sorted(items, count))                                  \
			name##_quick(items, count, max_depth(count));              \
	}

/* Quick select. */
#define DEFINE_SELECT(name, type)                                         \
	static type name##_select(type *items, size_t count, size_t rank) \
	{                                                                 \
		unsigned depth = max_depth(count);                        \
                                                                          \
		while (count > SHORT_RUN) {                               \
			size_t first;                                     \
                                                                          \
			if (!depth--) {                                   \
				name##_heap(items, count);                \
				return items[rank];                       \
			}                                                 \
			first = name##_partition(items, count);           \
			if (rank < first) {                               \
				count = first;                            \
			} else {                                          \
				items += first;                           \
				count -= first;                           \
				rank -= first;                            \
			}                                                 \
		}                                                         \
		name##_insertion(items, count);                           \
		return items[rank];                                       \
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

static inline bool double_less(const double *a, const double *b)
{
	return *a < *b;
}

DEFINE_PARTS(i64, int64_t, i64_less)
DEFINE_SORT(i64, int64_t, i64_less)
DEFINE_SELECT(i64, int64_t)
DEFINE_PARTS(frame, struct frame, frame_less)
DEFINE_SORT(frame, struct frame, frame_less)
DEFINE_PARTS(double, double, double_less)
DEFINE_SELECT(double, double)

void sort_i64(int64_t *values, size_t count)
{
	i64_sort(values, count);
}

void sort_frames(struct frame *frames, size_t count)
{
	frame_sort(frames, count);
}

int64_t select_i64(int64_t *values, size_t count, size_t rank)
{
	return i64_select(values, count, rank);
}

double select_double(double *values, size_t count, size_t rank)
{
	return double_select(values, count, rank);
}
