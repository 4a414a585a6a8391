/* SPDX-License-Identifier: BSD-2-Clause */
/* A hardened reader of DEX files (dex-format: versions 035 to 041, the last one also as part of a
 * container) and of ART's compact dex 001 (art/libdexfile/dex/compact_dex_file.h): from the place
 * of an instruction to its method, name and line. Checksums are not looked at. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/code/byte_source.h"

/* Type and method numbers have 16 bits in instructions, so that there are no more of them. */
#define DEX_MAX_IDS 65536u

struct dex_table {
	uint64_t at; /* offset in the source */
	uint32_t count;
};

struct dex_file {
	struct byte_source source;
	uint64_t start; /* of the header in the source */
	uint64_t data;  /* what the offsets of data count from */
	uint64_t end;   /* of what belongs to the file, data shared with others included */
	/* From its start to the end that the header tells, which may lie behind that of the
	 * source. For compact dex without the data, which several files share. */
	uint64_t file_bytes;
	uint64_t identity; /* a hash of the header */
	unsigned version;  /* 35 ..; 1 for compact dex */
	bool compact;
	struct dex_table strings, types, methods, classes;
	uint32_t field_count;
	/* compact dex: the table of offsets of debug info, relative to data */
	uint32_t debug_offsets, debug_table, debug_base;
};

/* Read the header at start. The source's context is borrowed as long as dex is used. 0; -ENOEXEC:
 * no DEX file; -ENOTSUP: of a version that is not known; -EBADMSG: malformed; what reading says. */
int dex_file_open(struct dex_file *dex, const struct byte_source *source, uint64_t start);

/* ---- which method ---- */

/* Where the code of methods is, ascending. Code that several methods share is here once. */
struct dex_index {
	struct dex_item {
		uint32_t at;     /* of the code item, relative to the file's data */
		uint32_t method; /* DEX_SHARED: the first one of several */
	} * code;
	size_t count;
};

#define DEX_SHARED 0x80000000u

/* 0; -EBADMSG: malformed; -ENOMEM; what reading says. */
int dex_index_build(struct dex_index *index, const struct dex_file *dex);
void dex_index_free(struct dex_index *index);
static inline size_t dex_index_bytes(const struct dex_index *index)
{
	return index->count * sizeof(*index->code);
}

struct dex_place {
	uint32_t method;
	bool shared;           /* several methods have this code; method is the first of them */
	uint32_t pc;           /* of the instruction in the method, in units of 16 bits */
	uint32_t instructions; /* length of the code in the same units */
	uint64_t code;         /* where in the source the first instruction is */
	uint64_t debug_info;   /* where in the source, 0: there is none */
};

/* The method whose code is at offset of the source. 0; -ENOENT: no method's; what reading says. */
int dex_index_find(const struct dex_index *index, const struct dex_file *dex, uint64_t offset,
		   struct dex_place *place);
/* The same for the code item number i of the index, pc 0. */
int dex_index_place(const struct dex_index *index, const struct dex_file *dex, size_t i,
		    struct dex_place *place);

/* Method `number` of a class definition, direct ones first; place->code is 0 where it has no code.
 * 0; -ENOENT: there is none; -EBADMSG; what reading says. */
int dex_class_method(const struct dex_file *dex, uint32_t class, uint32_t number,
		     struct dex_place *place);
/* The same of a method by its number in the file. */
int dex_method_place(const struct dex_file *dex, uint32_t method, struct dex_place *place);

/* ---- names and lines ---- */

#define DEX_NAME_BYTES 512

/* The name of a method as Java's stack traces write it, "com.example.app.Db$Inner.sleep", in valid
 * UTF-8 without control characters; a class of more than 350 bytes is cut. 0; -EBADMSG; what
 * reading says. */
int dex_method_name(const struct dex_file *dex, uint32_t method, char name[DEX_NAME_BYTES]);

/* The source line of an instruction. 0; -ENODATA: the file does not tell; -EBADMSG; what reading
 * says. */
int dex_line(const struct dex_file *dex, const struct dex_place *place, uint32_t *line);
