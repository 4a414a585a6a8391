/* SPDX-License-Identifier: BSD-2-Clause */
/* What ART's compiler keeps of a method that it compiled: the header before its code
 * (art/runtime/oat_quick_method_header.h) and its CodeInfo (art/runtime/stack_map.h), of the
 * versions of oat files that oat_file.h knows. */
#pragma once
#include <stdbool.h>

#include "stack/code/bit_reader.h"

/* How it is packed; the comment says from which version of oat files on. */
enum code_info_format {
	CODE_INFO_HEADER = 0, /* 138: the frame is in the method's header, the tables are others */
	CODE_INFO_PLAIN = 1,  /* 162: numbers one behind the other, a bit says what is shared */
	CODE_INFO_PACKED = 2, /* 173: several numbers at once, flags say what is shared */
	CODE_INFO_SIZED = 3,  /* 191: the same with the length of the code */
	CODE_INFO_SHORT = 4,  /* 192: and a header of 4 bytes, two of its bits flags */
	CODE_INFO_MARKED = 5, /* 238: one of its bits */
	CODE_INFO_BARE = 6,   /* 239: none */
};

struct code_info_layout {
	enum code_info_format format;
	unsigned method_columns; /* of the table of methods that were inlined: 1; 205: 2; 210: 3 */
};

struct bit_table {
	uint64_t at; /* first bit of the rows */
	uint32_t rows, row_bits;
	uint16_t begins[9]; /* of each column, in a row */
	unsigned columns;
};

struct code_info {
	struct bit_reader reader;
	unsigned pc_shift; /* addresses of the code are kept in units of its instructions */
	uint32_t code_bytes, frame_bytes, core_spills, fp_spills;
	/* rows 0: not there, or of a format whose tables are not read */
	struct bit_table stack_maps, inlined, methods;
};

/* Read what is kept of the method whose code is at `code` of the source, the offset of oat data.
 * instruction_bytes: 4 on arm64, 1 on x86_64. 0; -ENOENT: nothing is kept of code at this place;
 * -EBADMSG: makes no sense; what reading says. */
int code_info_open(struct code_info *info, const struct code_info_layout *layout,
		   const struct byte_source *source, uint64_t code, unsigned instruction_bytes);

#define CODE_INFO_MAX_INLINED 32

struct code_place {
	uint32_t dex_pc; /* of the method itself; UINT32_MAX: none */
	unsigned count;
	/* The methods that were inlined there, the outermost first. */
	struct code_inlined {
		uint32_t dex_pc, method; /* number in its DEX file */
		/* which DEX file: that of the method itself where same_dex; else number dex of the
		 * boot class path, or of the oat file */
		uint32_t dex;
		bool same_dex, boot;
		bool unnamed; /* told by the address of its ArtMethod in the process */
		uint64_t art_method;
	} inlined[CODE_INFO_MAX_INLINED];
};

/* The place in the byte code to which a call at `offset` of the code returns. 0; -ENOENT: none is
 * kept; -EBADMSG. */
int code_info_find(struct code_info *info, uint32_t offset, struct code_place *place);
