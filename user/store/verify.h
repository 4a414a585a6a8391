/* SPDX-License-Identifier: BSD-2-Clause */
/* What is whole of a recording, what is not, and which gaps the recording itself explains. It is
 * fed the lines of a file, or of all segments of a folder in their order. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum finding_kind {
	FINDING_TORN = 1,         /* the file ends inside of a line */
	FINDING_DAMAGED = 2,      /* a line with a wrong checksum, or that is no record */
	FINDING_MISSING = 3,      /* first..last: seq of records that are not there */
	FINDING_DOUBLED = 4,      /* first: a seq that was there before */
	FINDING_NO_HEADER = 5,    /* a file begins without one */
	FINDING_NO_FOOTER = 6,    /* a run ends without one */
	FINDING_MISPLACED = 7,    /* first is 1: a second header; 2: one that is not its run's; 0: a
				   * record after the footer */
	FINDING_UNREADABLE = 8,   /* error: a segment cannot be read to its end */
	FINDING_UNTIMELY = 9,     /* a record that ends at `first`, which is before `last` or, of
				   * what nothing can reach, behind it */
	FINDING_MISNUMBERED = 10, /* the header of the segment `first` */
	FINDING_NO_SEGMENTS = 11, /* first..last: segments that are not there */
	FINDING_CONTRADICTORY = 12 /* `key` is first, and `other` is last */
};

struct finding {
	enum finding_kind kind;
	uint64_t segment, line, offset; /* segment 0: a file that is none; line: from 1 */
	uint64_t run;                   /* the how manyth run of the recording it is in */
	uint64_t first, last;           /* seq, or as the kind says */
	uint64_t before;         /* of a gap before a segment: the segment that was read last */
	uint64_t bytes;          /* of a torn line */
	char *why;               /* of a damaged line; NULL: not known */
	const char *key, *other; /* of what contradicts itself */
	int error;
	bool at_segment; /* a gap before the first line of a segment */
	bool explained;  /* an event tells of it */
};

#define VERIFY_MAX_FINDINGS 100000

struct verify_counts {
	uint64_t segments, lines, bytes, intervals, runs;
	uint64_t torn, damaged, missing, doubled; /* lines; records */
	uint64_t unknown;     /* lines of types that this version does not know */
	uint64_t unexplained; /* findings */
	uint64_t not_kept;    /* findings beyond VERIFY_MAX_FINDINGS */
	int64_t schema;       /* the newest of all headers */
};

struct verifier;

/* NULL with errno ENOMEM. */
struct verifier *verifier_new(void);
void verifier_free(struct verifier *verifier);
/* Hold every line against the table of fields, and not headers and events alone. 0 or -ENOMEM. */
int verifier_check_values(struct verifier *verifier);
/* A file or a segment begins (0: no segment). */
void verifier_begin(struct verifier *verifier, uint64_t segment);
/* A line without its newline; torn: it had none. 0; -EPROTONOSUPPORT: a header of a schema that is
 * newer than RECORD_SCHEMA; -ENOMEM. */
int verifier_line(struct verifier *verifier, const char *line, size_t length, bool torn);
/* The same of a line that record_parse() has read, with what it returned and said. */
struct parsed_record;
int verifier_parsed(struct verifier *verifier, const char *line, size_t length,
		    const struct parsed_record *parsed, int err, const char *why);
/* The segment cannot be read to its end. */
void verifier_unreadable(struct verifier *verifier, int error);
/* Before the end of a folder that nobody writes: last_known is the newest segment that its index
 * has. */
void verifier_check_last(struct verifier *verifier, uint64_t last_known);
/* All was fed; live: it is being written, so that its end is to come. last_removed: the newest
 * segment that the index calls removed, 0: none. */
void verifier_end(struct verifier *verifier, bool live, uint64_t last_removed);

const struct verify_counts *verifier_counts(const struct verifier *verifier);
/* By index, in the order in which they were met; NULL: no more. */
const struct finding *verifier_finding(const struct verifier *verifier, size_t index);
/* "missing: 8 records, seq 12 to 19"; keys in it are the file's own. Returns text. */
#define FINDING_TEXT 200
const char *finding_text(const struct finding *finding, char *text, size_t size);

/* Feed what a stream holds. bytes (may be NULL): what was read; crc (may be NULL): its CRC-32C. 0,
 * -errno of reading, or what verifier_line returned. */
int verifier_stream(struct verifier *verifier, void *stream, uint64_t *bytes, uint32_t *crc);
