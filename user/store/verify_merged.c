/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that went into merged intervals (--keep): a seq that such an interval names is there. */
#include "store/verify_private.h"

#include <string.h>

/* A line may name a million ranges, and each is looked for among a hundred thousand gaps. */
#define MAX_STEPS (1u << 30)

/* The gap is kept as the finding that it becomes when nothing tells of it; each damaged line in it
 * was a record. */
void verifier_add_pending(struct verifier *v, uint64_t first, uint64_t last)
{
	struct finding *gap = verifier_add_row(&v->pending, sizeof(*gap), VERIFY_MAX_FINDINGS);

	if (!gap) {
		verifier_add_gap(v, first, last, false);
		return;
	}
	*gap = (struct finding){.kind = FINDING_MISSING,
				.segment = v->segment,
				.line = v->line,
				.offset = v->offset,
				.run = v->run,
				.first = first,
				.last = last,
				.before = v->last_segment,
				.bytes = v->damaged};
}

void verifier_end_pending(struct verifier *v)
{
	const struct finding *gaps = (const struct finding *)(const void *)v->pending.items;

	for (size_t i = 0; i < v->pending.count; i++) {
		uint64_t count = gaps[i].last - gaps[i].first + 1;
		struct finding *finding;

		if (count <= gaps[i].bytes)
			continue;
		v->counts.missing += count - gaps[i].bytes;
		finding = verifier_add_finding(v, FINDING_MISSING);
		*finding = gaps[i];
		finding->bytes = 0;
	}
	v->pending.count = 0;
	v->merged = false;
}

/* The records first..last are in a merged interval. How many of them were missing until now. */
static uint64_t take_out(struct verifier *v, uint64_t first, uint64_t last)
{
	struct finding *gaps = (struct finding *)(void *)v->pending.items;
	uint64_t found = 0;

	v->steps += v->pending.count;
	if (v->steps > MAX_STEPS) {
		v->counts.not_kept++;
		return last - first + 1;
	}
	for (size_t i = 0; i < v->pending.count; i++) {
		struct finding gap = gaps[i];
		uint64_t from = gap.first > first ? gap.first : first;
		uint64_t to = gap.last < last ? gap.last : last;

		if (from > to)
			continue;
		found += to - from + 1;
		gaps[i].last = from - 1; /* what is left before it */
		if (gap.last > to) {
			struct finding *behind =
				from > gap.first ? verifier_add_row(&v->pending, sizeof(*behind),
								    VERIFY_MAX_FINDINGS)
						 : &gaps[i];

			gaps = (struct finding *)(void *)v->pending.items;
			if (behind) {
				*behind = gap;
				behind->first = to + 1;
			}
		} else if (from == gap.first) {
			gaps[i--] = gaps[--v->pending.count];
		}
	}
	return found;
}

/* Past `"key":N`, or NULL. */
static const char *take_number(const char *p, const char *end, const char *key, uint64_t *value)
{
	size_t length = strlen(key);
	const char *begin;

	if (!p || (size_t)(end - p) < length || memcmp(p, key, length))
		return NULL;
	*value = 0;
	for (begin = p += length; p < end && *p >= '0' && *p <= '9' && p - begin < 19; p++)
		*value = *value * 10 + (uint64_t)(*p - '0');
	return p == begin ? NULL : p;
}

/* The ranges of a merged interval, as record/fields.c has them. What it names and is there as well
 * is there twice. */
void verifier_take_merged(struct verifier *v, const char *line, size_t length, uint64_t seq)
{
	static const char key[] = ",\"merged\":{", list[] = "\"seqs\":[";
	const char *end = line + length;
	const char *p = memmem(line, length < 256 ? length : 256, key, sizeof(key) - 1);
	uint64_t first, last;

	p = p ? memmem(p, (size_t)(end - p), list, sizeof(list) - 1) : NULL;
	for (p = p ? p + sizeof(list) - 1 : NULL; p; p = p && p < end && *p == ',' ? p + 1 : NULL) {
		p = take_number(p, end, "{\"first\":", &first);
		p = take_number(p, end, ",\"last\":", &last);
		if (!p || last > seq || first > last)
			return;
		if (last == seq && first == last--)
			return;
		if (take_out(v, first, last) < last - first + 1) {
			verifier_add_finding(v, FINDING_DOUBLED)->first = first;
			v->counts.doubled++;
		}
		p = p < end && *p == '}' ? p + 1 : NULL;
	}
}
