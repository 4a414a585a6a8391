/* SPDX-License-Identifier: BSD-2-Clause */
/* What verify.c (the lines) and verify_end.c (what the gaps are explained by) share. */
#pragma once
#include "store/verify.h"

#define MAX_EXPLANATIONS 100000

enum explained {
	EXPLAINED_RECORDS, /* seq of a run that are not there */
	EXPLAINED_SEGMENTS,
	EXPLAINED_ENDS, /* segments whose run was resumed: their end is torn, or has no footer */
};

/* What an event says is not there. */
struct explanation {
	enum explained what;
	uint64_t run; /* 0 but for records */
	uint64_t first, last;
};

/* A list that grows to a limit. */
struct rows {
	char *items;
	size_t count, room;
};

struct verifier {
	struct verify_counts counts;
	struct rows findings, explanations;
	/* Of a segment whose intervals were merged (--keep): gaps that a merged interval may still
	 * tell of. */
	struct rows pending;
	bool merged;
	uint64_t segment, line, offset;
	uint64_t last_segment;  /* the one before */
	uint64_t run, next_seq; /* run 0: no header yet */
	uint64_t damaged;       /* lines since the last one that has a seq */
	char session[37];
	bool footer;
	bool out_of_memory;
	uint64_t steps; /* that were made through the pending gaps */
};

/* What no merged interval of the segment told of becomes findings. */
void verifier_end_pending(struct verifier *v);

/* The run ends here; a finding where it has no footer. */
void verifier_end_run(struct verifier *v);
