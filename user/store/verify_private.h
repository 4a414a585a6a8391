/* SPDX-License-Identifier: BSD-2-Clause */
/* What verify.c (the lines) and verify_end.c (what the gaps are explained by) share. */
#pragma once
#include "jankscope/record.h"
#include "store/line.h"
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
	uint64_t begin_ns;      /* of the run, CLOCK_BOOTTIME */
	uint64_t end_ns;        /* of the last interval */
	char session[37];
	uint32_t header_crc; /* of what is the same in each header of the run */
	bool footer;
	bool out_of_memory;
	uint64_t steps;        /* that were made through the pending gaps */
	struct shapes *shapes; /* NULL: only headers and events are parsed */
};

/* A zeroed row behind the others; NULL: no memory, or the limit. */
void *verifier_add_row(struct rows *rows, size_t size, size_t limit);
/* A finding at the line that was begun last; one that nobody sees beyond the limit. */
struct finding *verifier_add_finding(struct verifier *v, enum finding_kind kind);
/* The records first..last are not there. */
void verifier_add_gap(struct verifier *v, uint64_t first, uint64_t last, bool at_segment);

/* The same in a segment whose intervals were merged: one of them may still tell of the records. */
void verifier_add_pending(struct verifier *v, uint64_t first, uint64_t last);
/* What the merged interval in this line names is not missing. */
void verifier_take_merged(struct verifier *v, const char *line, size_t length, uint64_t seq);

/* CRC-32C of a header up to what it says of its segment. */
uint32_t verifier_header_crc(const char *line, size_t length);
/* A run begins at this time. */
void verifier_begin_time(struct verifier *v, uint64_t t_boot_ns);
/* A finding where the record lies outside of its run, or ends before the interval before it. */
void verifier_check_time(struct verifier *v, const struct line_look *look);
/* A finding where the header is that of another segment, and one where segments before its run are
 * not there. To be called while v->session is that of the run before. */
void verifier_check_number(struct verifier *v, const struct record_header *header);
/* A finding where the CPU time of an interval is not that of its rows, or its length is longer than
 * the clock has run. */
void verifier_check_interval(struct verifier *v, const struct record *record);
/* A finding where what a record tells of is longer than the clock has run. */
void verifier_check_length(struct verifier *v, const struct record *record, uint64_t length_ns);

/* What no merged interval of the segment told of becomes findings. */
void verifier_end_pending(struct verifier *v);

/* A segment ends; a finding where it has no line. */
void verifier_end_segment(struct verifier *v);

/* The run ends here; a finding where it has no footer. */
void verifier_end_run(struct verifier *v);
