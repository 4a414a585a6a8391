/* SPDX-License-Identifier: BSD-2-Clause */
/* What SurfaceFlinger counts: the edges of vsync, and the buffers that wait on each layer. */
#include "frames/slices_private.h"
#include "util/hash.h"
#include <stdlib.h>
#include <string.h>

#define SNAP_NS 100000000LL /* an edge further back says nothing about the grid */

/* The period of the last edges, in times that need not be regular. */
static int64_t period_of_edges(const int64_t *ring, uint64_t count)
{
	int64_t times[EDGES];
	size_t n = count < EDGES ? (size_t)count : EDGES;

	memcpy(times, ring, n * sizeof(times[0]));
	n = period_sort(times, n);
	return period_global(times, n);
}

/* The same of the last few of them, at most so many; 0: none. Among so few, two edges that were
 * written down late make up a period that no two edges have between them. */
static int64_t period_of_last(const struct edges *edges, uint64_t most)
{
	uint64_t n = edges->count < RECENT_EDGES ? edges->count : RECENT_EDGES;
	int64_t times[RECENT_EDGES], period_ns;
	unsigned alike = 0;

	if (n > most)
		n = most;
	for (uint64_t i = 0; i < n; i++)
		times[i] = edges->times[(edges->count - n + i) % EDGES];
	period_ns = period_of_edges(times, n);
	for (uint64_t i = 1; i < n; i++)
		alike += llabs(times[i] - times[i - 1] - period_ns) <= period_ns / 16;
	return alike < 3 ? 0 : period_ns;
}

/* The first kind that has at least so many edges. */
static const struct edges *best_edges(const struct slices *s, uint64_t least)
{
	for (unsigned kind = 0; kind < EDGE_KINDS; kind++) {
		if (s->edges[kind].count >= least)
			return &s->edges[kind];
	}
	return NULL;
}

/* Another rate shows at once where it is no part of the old one: three intervals of one length,
 * which is none of the old period and no multiple of it, as vsyncs that nobody asked for make. */
static void follow_rate(struct slices *s, const struct edges *edges)
{
	int64_t steps[3], rate_ns = s->rate_period_ns, times;

	if (!rate_ns || edges->count < 4)
		return;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t at = edges->count - 1 - i;

		steps[i] = edges->times[at % EDGES] - edges->times[(at - 1) % EDGES];
		if (steps[i] < PERIOD_SHORTEST_NS || steps[i] > PERIOD_LONGEST_NS ||
		    llabs(steps[i] - steps[0]) > steps[0] / 32)
			return;
	}
	times = (steps[0] + rate_ns / 2) / rate_ns;
	if (times && llabs(steps[0] - times * rate_ns) <= times * rate_ns / 16)
		return;
	s->rate_period_ns = (steps[0] + steps[1] + steps[2]) / 3;
	s->rate_since = edges->count - 4;
}

void slices_state_period(struct slices *s, int64_t period_ns)
{
	bool other = llabs(period_ns - s->stated_period_ns) > period_ns / 16;

	if (s->stated_period_ns && other)
		s->coming_period_ns = period_ns;
	s->stated_period_ns = period_ns;
}

/* A display that becomes slower says so before its edges are further apart. Edges that are nearer
 * to each other need no such word. */
static bool slow_down(struct slices *s, const struct edges *edges)
{
	int64_t coming_ns = s->coming_period_ns, step_ns;

	if (!s->rate_period_ns || coming_ns <= s->rate_period_ns + s->rate_period_ns / 16 ||
	    edges->count < 2)
		return false;
	step_ns =
		edges->times[(edges->count - 1) % EDGES] - edges->times[(edges->count - 2) % EDGES];
	if (llabs(step_ns - coming_ns) > coming_ns / 16)
		return false;
	s->rate_period_ns = coming_ns;
	s->rate_since = edges->count - 2;
	s->coming_period_ns = 0;
	return true;
}

bool slices_is_display(const struct slices *s, int32_t pid)
{
	for (uint64_t i = 0; i < DISPLAYS && i < s->display_count; i++) {
		if (s->displays[i] == pid)
			return true;
	}
	return false;
}

void slices_note_display(struct slices *s, int32_t pid)
{
	if (pid > 0 && !slices_is_display(s, pid))
		s->displays[s->display_count++ % DISPLAYS] = pid;
}

void slices_add_edge(struct slices *s, int64_t ts_ns, enum edge_kind kind)
{
	struct edges *edges = &s->edges[kind];
	const struct edges *best;

	edges->times[edges->count++ % EDGES] = ts_ns;
	/* frames are snapped to what SurfaceFlinger wakes up by, if that is there */
	if (kind == EDGE_SF || (kind == EDGE_APP && !s->edges[EDGE_SF].count))
		s->last_edge_ns = ts_ns;
	best = best_edges(s, 8);
	if (best != s->rate_edges) {
		s->rate_edges = best;
		s->rate_since = 0;
	}
	if (edges == best && !slow_down(s, best) && best->count >= s->rate_since + 4)
		follow_rate(s, best);
	if (edges->count >= 8 && edges->count % 16 == 8) {
		uint64_t since = best->count - s->rate_since;

		s->period_ns = period_of_edges(best->times, best->count);
		if (since >= 8)
			s->rate_period_ns = period_of_last(best, since) ?: s->rate_period_ns;
	}
	if (kind != EDGE_HW && s->ops->vsync)
		s->ops->vsync(s->ctx, ts_ns);
}

void slices_add_predicted(struct slices *s, int64_t ts_ns)
{
	s->predicted[s->predicted_count++ % EDGES] = ts_ns;
}

int64_t slices_predicted_period(struct slices *s)
{
	/* looked at only where a period is asked for: most traces with predictions never do */
	if (s->predicted_count >= 8 &&
	    (!s->predicted_looked_at || s->predicted_count - s->predicted_looked_at >= EDGES / 2)) {
		s->predicted_looked_at = s->predicted_count;
		s->predicted_period_ns = period_of_edges(s->predicted, s->predicted_count);
	}
	return s->predicted_period_ns;
}

int64_t slices_period_or_default(struct slices *s)
{
	int64_t period_ns = slices_period(s);

	if (!period_ns)
		period_ns = slices_predicted_period(s);
	return period_ns ? period_ns : PERIOD_ASSUMED_NS;
}

int64_t slices_rate_period(struct slices *s)
{
	return s->rate_period_ns ? s->rate_period_ns : slices_period_or_default(s);
}

void slices_finish_edges(struct slices *s)
{
	const struct edges *most = &s->edges[0];

	for (unsigned kind = 1; kind < EDGE_KINDS; kind++) {
		if (s->edges[kind].count > most->count)
			most = &s->edges[kind];
	}
	if (!s->period_ns && most->count > 2)
		s->period_ns = period_of_edges(most->times, most->count);
}

void slices_forget_counters(struct slices *s)
{
	for (size_t i = 0; i < s->counter_count; i++)
		free(s->counters[i].name);
	memset(s->counters, 0, s->counter_count * sizeof(*s->counters));
	memset(s->counter_table, 0, COUNTER_SLOTS * sizeof(*s->counter_table));
	s->counter_count = 0;
}

int slices_counter(struct slices *s, int32_t pid, const char *name, size_t size)
{
	uint64_t hash = hash_bytes(name, size, (uint32_t)pid);
	size_t at = hash % COUNTER_SLOTS;
	struct counter *counter;

	for (; s->counter_table[at]; at = (at + 1) % COUNTER_SLOTS) {
		counter = &s->counters[s->counter_table[at] - 1];
		if (counter->hash == hash && counter->pid == pid)
			return s->counter_table[at] - 1;
	}
	if (s->counter_count == MAX_COUNTERS)
		return -2;
	counter = &s->counters[s->counter_count];
	counter->name = strndup(name, size);
	if (!counter->name)
		return -1;
	counter->hash = hash;
	counter->pid = pid;
	s->counter_table[at] = (uint16_t)++s->counter_count;
	return (int)s->counter_count - 1;
}

/* Whether the frame that is latched now began right after the latch before: it took long then. One
 * of another app says nothing (a clock that ticks), nor does a doFrame that drew nothing. */
static bool was_due(const struct slices *s, const struct counter *counter, int64_t now_ns,
		    int64_t period_ns)
{
	uint64_t n = s->drawn_count < DRAWN ? s->drawn_count : DRAWN;

	if (!counter->last_ns || now_ns - counter->last_ns < METRICS_IDLE_NS / 2)
		return false; /* no gap */
	for (uint64_t i = 0; i < n; i++) {
		const struct drawn *frame = &s->drawn[(s->drawn_count - 1 - i) % DRAWN];

		if (frame->end_ns <= counter->last_ns)
			break;
		if (frame->end_ns <= now_ns &&
		    (!s->ops->may_draw || s->ops->may_draw(s->ctx, frame->pid, counter->name)))
			return frame->start_ns < counter->last_ns + 2 * period_ns;
	}
	return false;
}

void slices_buffer_counter(struct slices *s, const struct item *item)
{
	struct counter *counter = &s->counters[item->pid];
	int64_t taken = counter->value - item->value, present_ns = item->ts_ns;
	/* by the markers alone: predictions come in other packets, earlier or later */
	int64_t period_ns = slices_period(s) ? slices_period(s) : PERIOD_ASSUMED_NS;
	bool due;

	if (!counter->seen || taken <= 0) {
		counter->seen = true;
		counter->value = item->value;
		return;
	}
	counter->value = item->value;
	s->counts.latches++;
	s->counts.dropped_buffers += (uint64_t)taken - 1;
	/* shown at the refresh after the latch */
	if (s->last_edge_ns && present_ns >= s->last_edge_ns &&
	    present_ns - s->last_edge_ns < SNAP_NS)
		present_ns = s->last_edge_ns +
			     ((present_ns - s->last_edge_ns) / period_ns + 1) * period_ns;
	due = was_due(s, counter, item->ts_ns, period_ns);
	counter->last_ns = item->ts_ns;
	if (s->ops->latch)
		s->ops->latch(s->ctx, counter->pid, counter->name, present_ns, due);
}
