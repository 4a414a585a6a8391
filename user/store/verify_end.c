/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of the findings the recording's own events explain, and the findings in words. */
#include "store/verify_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_place(const void *a, const void *b)
{
	const struct explanation *x = a, *y = b;

	if (x->what != y->what)
		return x->what < y->what ? -1 : 1;
	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

/* In order, and what touches is one: whatever the recording claims, a look is a binary search. */
static void merge_explanations(struct rows *explanations)
{
	struct explanation *rows = (struct explanation *)(void *)explanations->items;
	size_t kept = 0;

	if (!explanations->count)
		return;
	qsort(rows, explanations->count, sizeof(*rows), by_place);
	for (size_t i = 1; i < explanations->count; i++) {
		struct explanation *last = &rows[kept];

		if (rows[i].what == last->what && rows[i].run == last->run &&
		    (rows[i].first <= last->last || rows[i].first - 1 == last->last)) {
			if (rows[i].last > last->last)
				last->last = rows[i].last;
		} else {
			rows[++kept] = rows[i];
		}
	}
	explanations->count = kept + 1;
}

static bool is_covered(const struct verifier *v, enum explained what, uint64_t run, uint64_t first,
		       uint64_t last)
{
	const struct explanation *rows =
		(const struct explanation *)(const void *)v->explanations.items;
	const struct explanation wanted = {what, run, first, last};
	size_t low = 0, high = v->explanations.count;

	/* the last one that begins at `first` or before */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_place(&rows[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && rows[low - 1].what == what && rows[low - 1].run == run &&
	       rows[low - 1].last >= last;
}

static bool is_explained(const struct verifier *v, const struct finding *finding,
			 uint64_t last_removed)
{
	uint64_t first = finding->before + 1, last = finding->segment - 1;

	if (finding->kind == FINDING_TORN || finding->kind == FINDING_NO_FOOTER ||
	    (finding->kind == FINDING_NO_HEADER && !finding->line))
		return finding->explained ||
		       is_covered(v, EXPLAINED_ENDS, 0, finding->segment, finding->segment);
	if (finding->kind != FINDING_MISSING && finding->kind != FINDING_NO_SEGMENTS)
		return finding->explained;
	if (finding->kind == FINDING_MISSING &&
	    is_covered(v, EXPLAINED_RECORDS, finding->run, finding->first, finding->last))
		return true;
	if (!finding->at_segment || !finding->segment || last < first)
		return false;
	/* The oldest go first, and with them what told of the removal of others: of the begin of a
	 * folder the newest that went is enough. */
	if (!finding->before)
		return last_removed >= last || is_covered(v, EXPLAINED_SEGMENTS, 0, last, last);
	return is_covered(v, EXPLAINED_SEGMENTS, 0, first, last);
}

void verifier_end(struct verifier *v, bool live, uint64_t last_removed)
{
	struct finding *findings;

	if (live) {
		verifier_end_pending(v);
	} else {
		verifier_end_segment(v);
		verifier_end_run(v);
	}
	merge_explanations(&v->explanations);
	findings = (struct finding *)(void *)v->findings.items;
	for (size_t i = 0; i < v->findings.count; i++) {
		struct finding *finding = &findings[i];

		/* The last line of what is being written may be half there. */
		if (live && finding->kind == FINDING_TORN && finding->segment == v->segment)
			finding->explained = true;
		finding->explained = is_explained(v, finding, last_removed);
		v->counts.unexplained += !finding->explained;
	}
	v->counts.unexplained += v->counts.not_kept;
}

const struct verify_counts *verifier_counts(const struct verifier *v)
{
	return &v->counts;
}

const struct finding *verifier_finding(const struct verifier *v, size_t index)
{
	const struct finding *findings = (const struct finding *)(const void *)v->findings.items;

	return index < v->findings.count ? &findings[index] : NULL;
}

const char *finding_text(const struct finding *finding, char *text, size_t size)
{
	switch (finding->kind) {
	case FINDING_TORN:
		snprintf(text, size, "torn: %" PRIu64 " bytes of a line without its end",
			 finding->bytes);
		break;
	case FINDING_DAMAGED:
		snprintf(text, size, "damaged: %s",
			 finding->why ? finding->why : "it is no record");
		break;
	case FINDING_MISSING:
		snprintf(text, size, "missing: %" PRIu64 " records, seq %" PRIu64 " to %" PRIu64,
			 finding->last - finding->first + 1, finding->first, finding->last);
		break;
	case FINDING_DOUBLED:
		snprintf(text, size, "doubled: seq %" PRIu64 " was there before", finding->first);
		break;
	case FINDING_NO_HEADER:
		snprintf(text, size, "no header first: the begin is missing");
		break;
	case FINDING_NO_FOOTER:
		snprintf(text, size, "no footer last: the run was not written to its end");
		break;
	case FINDING_MISPLACED:
		snprintf(text, size, "misplaced: %s",
			 finding->first == 2 ? "a header that is not that of its run"
			 : finding->first    ? "a second header: these are several recordings"
					     : "a record after the footer");
		break;
	case FINDING_UNREADABLE:
		snprintf(text, size, "unreadable from here on: %s",
			 finding->error == -EMSGSIZE  ? "a line, or the damage, has no end"
			 : finding->error == -EBADMSG ? "the compressed data is damaged"
						      : strerror(-finding->error));
		break;
	case FINDING_UNTIMELY:
		snprintf(text, size, "untimely: t_boot_ns %s %" PRIu64 " to %" PRIu64,
			 finding->first < finding->last ? "goes back from" : "goes beyond",
			 finding->last, finding->first);
		break;
	case FINDING_MISNUMBERED:
		snprintf(text, size, "misplaced: it is segment %" PRIu64 " by its header",
			 finding->first);
		break;
	case FINDING_NO_SEGMENTS:
		snprintf(text, size, "missing: segments %" PRIu64 " to %" PRIu64, finding->first,
			 finding->last);
		break;
	case FINDING_CONTRADICTORY:
		snprintf(text, size, "contradictory: %s is %" PRIu64 ", and %s is %" PRIu64,
			 finding->key, finding->first, finding->other, finding->last);
		break;
	}
	return text;
}
