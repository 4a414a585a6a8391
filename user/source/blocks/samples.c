/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/samples.h"

#include <stdlib.h>

#include "abi/sched.h"

struct block_sample *block_sample_new(void)
{
	struct block_sample *sample = calloc(1, sizeof(*sample));

	if (sample)
		sample->references = 1;
	return sample;
}

struct block_sample *block_sample_hold(struct block_sample *sample)
{
	sample->references++;
	return sample;
}

static void free_sample(struct block_sample *sample)
{
	free(sample->trace);
	free(sample);
}

void block_sample_put(struct block_sample *sample)
{
	if (!sample)
		return;
	if (--sample->references == 1 && sample->state == SAMPLE_WAITS && sample->forsaken)
		sample->forsaken(sample);
	else if (!sample->references)
		free_sample(sample);
}

void block_samples_add(struct block_samples *samples, struct block_sample *sample)
{
	sample->next = NULL;
	if (samples->last)
		samples->last->next = sample;
	else
		samples->first = sample;
	samples->last = sample;
	samples->count++;
}

void block_samples_clear(struct block_samples *samples)
{
	while (samples->first) {
		struct block_sample *next = samples->first->next;

		/* A report that holds the sample does not use the list's link. */
		block_sample_put(samples->first);
		samples->first = next;
	}
	*samples = (struct block_samples){0};
}

/* What of [from, to) lies outside of sleeps of their own. */
static uint64_t rest_between(const struct block_spells *spells, uint64_t from, uint64_t to,
			     uint64_t open_since_ns)
{
	uint64_t rest = to > from ? to - from : 0;

	for (size_t i = 0; i < spells->count; i++) {
		const struct block_spell *spell = &spells->items[i];
		uint64_t end_ns = spell->end_ns - spell->wait_ns;
		uint64_t low = spell->begin_ns > from ? spell->begin_ns : from;
		uint64_t high = end_ns < to ? end_ns : to;

		/* Waiting for a CPU is the code's time too: it would have run. */
		if (spell->state != OFF_CPU_RUNNABLE && high > low)
			rest -= high - low < rest ? high - low : rest;
	}
	if (open_since_ns && to > open_since_ns) {
		uint64_t low = open_since_ns > from ? open_since_ns : from;

		rest -= to - low < rest ? to - low : rest;
	}
	return rest;
}

/* When the stack of a sample is known to have stood: at one moment, or as long as a spell. */
struct standing {
	uint64_t from_ns, until_ns;
};

uint64_t block_sample_weights(const struct block_samples *samples,
			      const struct block_spells *spells, uint64_t begin_ns, uint64_t end_ns,
			      uint64_t open_spell, uint64_t open_since_ns, uint64_t *weights)
{
	const struct block_sample *sample = samples->first;
	uint64_t covered_ns = 0, from_ns = begin_ns;
	struct standing last = {0};
	bool have_last = false;
	size_t last_at = 0, i;

	for (i = 0; i < samples->count; i++, sample = sample->next) {
		struct standing now = {sample->t_ns, sample->t_ns};
		const struct block_spell *spell;

		weights[i] = 0;
		if (sample->owner)
			continue;
		spell = sample->spell ? block_spells_find(spells, sample->spell) : NULL;
		if (spell && spell->state != OFF_CPU_RUNNABLE) {
			weights[i] = spell->end_ns - spell->begin_ns - spell->wait_ns;
			covered_ns += weights[i];
			continue;
		}
		if (sample->spell && sample->spell == open_spell && open_since_ns) {
			weights[i] = end_ns > open_since_ns ? end_ns - open_since_ns : 0;
			covered_ns += weights[i];
			continue;
		}
		/* It ran, or waited for a CPU in the middle of it: its time reaches half way to
		 * what is known before and after. */
		if (spell)
			now = (struct standing){spell->begin_ns, spell->end_ns};
		if (have_last) {
			uint64_t middle_ns = last.until_ns;

			if (now.from_ns > middle_ns)
				middle_ns += (now.from_ns - middle_ns) / 2;
			weights[last_at] = rest_between(spells, from_ns, middle_ns, open_since_ns);
			covered_ns += weights[last_at];
			from_ns = middle_ns;
		}
		last = now;
		last_at = i;
		have_last = true;
	}
	if (have_last) {
		weights[last_at] = rest_between(spells, from_ns, end_ns, open_since_ns);
		covered_ns += weights[last_at];
	}
	return end_ns - begin_ns > covered_ns ? end_ns - begin_ns - covered_ns : 0;
}
