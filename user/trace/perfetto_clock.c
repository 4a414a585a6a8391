/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/perfetto_clock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLOCKS    256
#define MAX_SNAPSHOTS 8192 /* of one clock; the oldest but the first are dropped beyond */

struct snapshot {
	int64_t clock_ns, boot_ns;
};

struct clock_line {
	uint32_t machine, sequence, clock_id;
	struct snapshot *items;
	size_t count, capacity;
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

static struct clock_line *find(const struct trace_clocks *clocks, uint32_t machine,
			       uint32_t sequence, uint32_t clock_id)
{
	for (size_t i = 0; i < clocks->count; i++) {
		const struct clock_line *line = &clocks->lines[i];

		if (line->machine == machine && line->sequence == sequence &&
		    line->clock_id == clock_id)
			return (struct clock_line *)line;
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
	return 0;
}

bool trace_clocks_convert(const struct trace_clocks *clocks, uint32_t machine, uint32_t sequence,
			  uint32_t clock_id, int64_t clock_ns, int64_t *boot_ns)
{
	const struct clock_line *line;
	size_t low = 0, high;
	int64_t offset;

	if (clock_id == CLOCK_ID_BOOTTIME) {
		*boot_ns = clock_ns;
		return true;
	}
	line = find(clocks, machine, sequence, clock_id);
	if (!line)
		return false;
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
