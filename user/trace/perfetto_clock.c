/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto_clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLOCKS    256
#define MAX_SNAPSHOTS 8192 /* of one clock; the oldest but the first are dropped beyond */
#define BLOCK         128  /* snapshots that are looked at together */
/* By less CLOCK_BOOTTIME does not leave another clock behind in a suspend: a task was held up
 * between its looks at the two. */
#define JITTER_NS 10000000

struct snapshot {
	int64_t clock_ns, boot_ns;
};

struct clock_line {
	uint32_t machine, sequence, clock_id;
	struct snapshot *items;
	size_t count, capacity;
	bool used; /* something was converted by it */
	/* Of 128 snapshots each, what no one of them exceeds; as of so many snapshots. */
	struct block {
		int64_t first_ns, last_ns, error_ns;
	} blocks[MAX_SNAPSHOTS / BLOCK];
	size_t blocked;
};

struct trace_clocks {
	struct clock_line lines[MAX_CLOCKS];
	size_t count;
};

struct trace_clocks *trace_clocks_new(void)
{
	return calloc(1, sizeof(struct trace_clocks));
}

void trace_clocks_free(struct trace_clocks *clocks)
{
	if (!clocks)
		return;
	for (size_t i = 0; i < clocks->count; i++)
		free(clocks->lines[i].items);
	free(clocks);
}

static struct clock_line *find(struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
			       uint32_t clock_id)
{
	for (size_t i = 0; i < clocks->count; i++) {
		struct clock_line *line = &clocks->lines[i];

		if (line->machine == machine && line->sequence == sequence &&
		    line->clock_id == clock_id)
			return line;
	}
	return NULL;
}

int trace_clocks_add(struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
		     uint32_t clock_id, int64_t clock_ns, int64_t boot_ns)
{
	struct clock_line *line = find(clocks, machine, sequence, clock_id);
	size_t at;

	if (!line) {
		if (clocks->count == MAX_CLOCKS)
			return 0;
		line = &clocks->lines[clocks->count++];
		*line = (struct clock_line){machine, sequence, clock_id};
	}
	if (line->count == MAX_SNAPSHOTS) {
		/* keep the first (it stands for everything before it) and the newer half */
		size_t half = MAX_SNAPSHOTS / 2;

		memmove(line->items + 1, line->items + half,
			(line->count - half) * sizeof(*line->items));
		line->count -= half - 1;
	}
	if (line->count == line->capacity) {
		size_t capacity = line->capacity ? line->capacity * 2 : 8;
		struct snapshot *items = realloc(line->items, capacity * sizeof(*items));

		if (!items)
			return -ENOMEM;
		line->items = items;
		line->capacity = capacity;
	}
	for (at = line->count; at && line->items[at - 1].clock_ns > clock_ns; at--)
		line->items[at] = line->items[at - 1];
	line->items[at] = (struct snapshot){clock_ns, boot_ns};
	line->count++;
	line->blocked = 0;
	return 0;
}

bool trace_clocks_convert(struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
			  uint32_t clock_id, int64_t clock_ns, int64_t *boot_ns)
{
	struct clock_line *line;
	size_t low = 0, high;
	int64_t offset;

	if (clock_id == CLOCK_ID_BOOTTIME) {
		*boot_ns = clock_ns;
		return true;
	}
	line = find(clocks, machine, sequence, clock_id);
	if (!line)
		return false;
	line->used = true;
	high = line->count;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (line->items[middle].clock_ns <= clock_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		low--;
	if (__builtin_sub_overflow(line->items[low].boot_ns, line->items[low].clock_ns, &offset))
		return false;
	return !__builtin_add_overflow(clock_ns, offset, boot_ns);
}

/* By how much the offset of the clock changed from a to b; INT64_MAX: out of range. */
static int64_t change(const struct snapshot *a, const struct snapshot *b)
{
	int64_t x, y, ns;

	if (__builtin_sub_overflow(a->boot_ns, a->clock_ns, &x) ||
	    __builtin_sub_overflow(b->boot_ns, b->clock_ns, &y) ||
	    __builtin_sub_overflow(y, x, &ns) || ns == INT64_MIN)
		return INT64_MAX;
	return ns;
}

/* A time that snapshot n gave may have been given by the one behind it as well as by n, and n
 * itself may err by what it differs from the one before. A jump ahead from that one was a suspend.
 */
static int64_t error_of(const struct clock_line *line, size_t n)
{
	const struct snapshot *item = &line->items[n];
	int64_t next_ns = n + 1 < line->count ? change(item, item + 1) : 0;
	int64_t last_ns = n ? change(item - 1, item) : 0, sum_ns;

	if (last_ns >= JITTER_NS)
		last_ns = 0;
	if (__builtin_add_overflow(next_ns < 0 ? -next_ns : next_ns,
				   last_ns < 0 ? -last_ns : last_ns, &sum_ns))
		return INT64_MAX;
	return sum_ns;
}

/* The last time that snapshot n may have given. */
static int64_t end_of(const struct clock_line *line, size_t n)
{
	int64_t end_ns, span_ns;

	if (n + 1 == line->count ||
	    __builtin_sub_overflow(line->items[n + 1].clock_ns, line->items[n].clock_ns,
				   &span_ns) ||
	    __builtin_add_overflow(line->items[n].boot_ns, span_ns, &end_ns))
		return INT64_MAX;
	return end_ns > line->items[n + 1].boot_ns ? end_ns : line->items[n + 1].boot_ns;
}

/* Times before the first snapshot were given by that one. */
static int64_t begin_of(const struct clock_line *line, size_t n)
{
	return n ? line->items[n].boot_ns : INT64_MIN;
}

static void make_blocks(struct clock_line *line)
{
	for (size_t n = 0; n < line->count; n++) {
		struct block *block = &line->blocks[n / BLOCK];
		int64_t begin_ns = begin_of(line, n), end_ns = end_of(line, n);
		int64_t error_ns = error_of(line, n);

		if (n % BLOCK == 0)
			*block = (struct block){begin_ns, end_ns, error_ns};
		if (begin_ns < block->first_ns)
			block->first_ns = begin_ns;
		if (end_ns > block->last_ns)
			block->last_ns = end_ns;
		if (error_ns > block->error_ns)
			block->error_ns = error_ns;
	}
	line->blocked = line->count;
}

/* Tens of thousands of frames ask for this: where the clocks were the same all the time, no
 * snapshot is looked at. */
static int64_t error_of_line(struct clock_line *line, int64_t from_ns, int64_t to_ns)
{
	int64_t worst_ns = 0;

	if (line->blocked != line->count)
		make_blocks(line);
	for (size_t first = 0; first < line->count; first += BLOCK) {
		const struct block *block = &line->blocks[first / BLOCK];

		if (block->error_ns <= worst_ns || block->first_ns > to_ns ||
		    block->last_ns < from_ns)
			continue;
		for (size_t n = first; n < line->count && n < first + BLOCK; n++) {
			if (begin_of(line, n) <= to_ns && end_of(line, n) >= from_ns &&
			    error_of(line, n) > worst_ns)
				worst_ns = error_of(line, n);
		}
	}
	return worst_ns;
}

int64_t trace_clocks_error(struct trace_clocks *clocks, int64_t from_ns, int64_t to_ns)
{
	int64_t sum_ns = 0;

	for (size_t i = 0; i < clocks->count; i++) {
		struct clock_line *line = &clocks->lines[i];
		bool asked = line->clock_id == CLOCK_ID_MONOTONIC ||
			     line->clock_id == CLOCK_ID_MONOTONIC_RAW;

		if (asked && line->used && !line->machine && !line->sequence &&
		    __builtin_add_overflow(sum_ns, error_of_line(line, from_ns, to_ns), &sum_ns))
			return INT64_MAX;
	}
	return sum_ns;
}
