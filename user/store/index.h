/* SPDX-License-Identifier: BSD-2-Clause */
/* The index of a folder: one line a closed segment, so that nobody has to read a segment to know
 * its times and length. It is a help and never the truth: what it says of a segment counts only
 * where the segment has that many bytes, and it can be made anew from the segments. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_NAME     "index"
#define INDEX_MAX_LINE 1024

struct segment_facts {
	uint64_t number;
	char session[37], boot_id[37];
	uint64_t lines, bytes;        /* of its content, as it was before it was compressed */
	uint64_t first_seq, last_seq; /* of the lines behind its header; last < first: none */
	uint64_t first_boot_ns, last_boot_ns;
	uint32_t crc; /* CRC-32C of its content */
	bool footer;  /* its last line is one */
	bool resumed; /* it tells how the run before ended; only of one that was scanned */
	uint64_t resolution_ns; /* its intervals were merged to this; 0: as they were written */
	int removed;            /* enum store_reason: it is gone for that; 0: it is not */
};

/* A line with its newline and a NUL. Its length. */
size_t index_format(char line[INDEX_MAX_LINE], const struct segment_facts *facts);
/* A line without its newline. False: it is none, or its checksum is wrong. */
bool index_parse(const char *line, size_t length, struct segment_facts *facts);
/* Each line of an index that is one, in its order; what is none is passed over. How many were. */
size_t index_each(const char *text, size_t length,
		  void (*take)(void *ctx, const struct segment_facts *facts), void *ctx);
const char *store_reason_name(int reason);
