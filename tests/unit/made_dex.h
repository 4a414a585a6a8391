/* SPDX-License-Identifier: BSD-2-Clause */
/* Small DEX, vdex and zip files, made byte by byte, for the tests of the readers of byte code. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/byte_source.h"

struct made_bytes {
	uint8_t bytes[65536];
	size_t size;
};

static inline void made_u16(struct made_bytes *to, unsigned value)
{
	to->bytes[to->size++] = value & 255;
	to->bytes[to->size++] = value >> 8 & 255;
}

static inline void made_u32(struct made_bytes *to, uint32_t value)
{
	made_u16(to, value & 0xffff);
	made_u16(to, value >> 16);
}

static inline void made_put(struct made_bytes *to, const void *bytes, size_t size)
{
	memcpy(to->bytes + to->size, bytes, size);
	to->size += size;
}

static inline void made_uleb(struct made_bytes *to, uint32_t value)
{
	for (; value >= 0x80; value >>= 7)
		to->bytes[to->size++] = 0x80 | (value & 0x7f);
	to->bytes[to->size++] = value;
}

static inline void made_set32(struct made_bytes *to, size_t at, uint32_t value)
{
	struct made_bytes word = {.size = 0};

	made_u32(&word, value);
	memcpy(to->bytes + at, word.bytes, 4);
}

static inline void made_align(struct made_bytes *to, size_t by)
{
	while (to->size % by)
		to->bytes[to->size++] = 0;
}

static inline int made_read(void *ctx, uint64_t offset, void *to, size_t length)
{
	memcpy(to, (const uint8_t *)ctx + offset, length);
	return 0;
}

static inline struct byte_source made_source(const void *bytes, size_t size)
{
	return (struct byte_source){made_read, (void *)bytes, size};
}

/* ---- DEX ---- */

enum made_kind { MADE_035, MADE_041, MADE_COMPACT };

#define MADE_METHODS 4
#define MADE_STRINGS 5

struct made_dex_facts {
	size_t start;             /* of the header */
	size_t data;              /* what the offsets of data count from */
	size_t code[2];           /* of the first instruction of "open" and of "sleep" */
	size_t strings;           /* the table of offsets of strings */
	size_t class_data, debug; /* of the class; of "open" */
};

/* 10 at 0, 12 at 5, 8 at 6; no parameters. Opcodes: prologue end, line + 0, address + 5, line + 2,
 * line - 7, line + 3 and address + 1, end. */
static const uint8_t made_lines[] = {10, 0, 7, 0x0e, 1, 5, 0x10, 2, 0x79, 0x20, 0};
/* 300 at 0; a parameter without a name. */
static const uint8_t made_other_lines[] = {0xac, 2, 1, 0, 0x0e, 0};
static const uint16_t made_units[] = {40, 3000};

static inline void made_dex_code(struct made_bytes *to, unsigned i, bool compact, uint32_t debug)
{
	if (compact) {
		if (made_units[i] >= 2048) {
			made_u16(to, 0);
			made_u16(to, made_units[i] & ~2047u);
		}
		made_u16(to, 0);
		made_u16(to, (made_units[i] & 2047u) << 5 | (made_units[i] >= 2048 ? 16 : 0));
	} else {
		for (unsigned word = 0; word < 4; word++)
			made_u16(to, 1);
		made_u32(to, debug);
		made_u32(to, made_units[i]);
	}
	memset(to->bytes + to->size, 0, made_units[i] * 2u);
	to->size += made_units[i] * 2u;
}

/* One static field and, two direct and two virtual, the methods. */
static inline void made_dex_class(struct made_bytes *to, const uint32_t code[2])
{
	static const uint8_t counts_and_field[] = {1, 0, 2, 2, 0, 9};
	static const uint8_t differences[MADE_METHODS] = {0, 1, 2, 1};

	made_put(to, counts_and_field, sizeof(counts_and_field));
	for (unsigned i = 0; i < MADE_METHODS; i++) {
		made_uleb(to, differences[i]);
		made_uleb(to, i == 2 ? 0x101 : 1);
		made_uleb(to, i == 2 ? 0 : code[i == 1]);
	}
}

/* Append a DEX file with one class, "Lapp/Db$Inner;", and its methods "open" (40 units), "sleep"
 * (3000 units: compact dex writes a part of the length before the code), "none" (native) and "last"
 * (has the code of open, and its lines). before: how far the container of 041 begins before it. */
static inline void made_dex(struct made_bytes *to, enum made_kind kind, uint32_t before,
			    struct made_dex_facts *facts)
{
	static const char *const texts[] = {"Lapp/Db$Inner;", "open", "sleep", "none", "last"};
	bool compact = kind == MADE_COMPACT;
	size_t header = compact ? 136 : kind == MADE_041 ? 120 : 112, class_def, other, table;
	size_t start = facts->start = to->size, tables = start - (kind == MADE_041 ? before : 0);
	uint32_t code[2];

	made_put(to, compact ? "cdex001" : kind == MADE_041 ? "dex\n041" : "dex\n035", 8);
	memset(to->bytes + to->size, 0, header - 8);
	to->size = facts->strings = start + header;
	for (unsigned i = 0; i < MADE_STRINGS; i++)
		made_u32(to, 0);
	made_u32(to, 0); /* the type: string 0 */
	for (unsigned i = 0; i < MADE_METHODS; i++) {
		made_u32(to, 0);
		made_u32(to, i + 1);
	}
	class_def = to->size;
	memset(to->bytes + to->size, 0, 32);
	to->size += 32;
	facts->data = compact ? to->size : tables;
	made_u32(to, 0); /* no data at offset 0 */
	for (unsigned i = 0; i < MADE_STRINGS; i++) {
		made_set32(to, facts->strings + 4 * i, (uint32_t)(to->size - facts->data));
		made_uleb(to, (uint32_t)strlen(texts[i]));
		made_put(to, texts[i], strlen(texts[i]) + 1);
	}
	facts->debug = to->size;
	made_put(to, made_lines, sizeof(made_lines));
	other = to->size;
	made_put(to, made_other_lines, sizeof(made_other_lines));
	for (unsigned i = 0; i < 2; i++) {
		made_align(to, 4);
		made_dex_code(to, i, compact, (uint32_t)((i ? other : facts->debug) - facts->data));
		facts->code[i] = to->size - made_units[i] * 2u;
		code[i] = (uint32_t)(facts->code[i] - (compact ? 4 : 16) - facts->data);
	}
	facts->class_data = to->size;
	made_set32(to, class_def + 24, (uint32_t)(to->size - facts->data));
	made_dex_class(to, code);
	made_align(to, 4);
	/* Compact: the debug info of the methods 0, 1 and 3 (one block), then where the block is.
	 */
	table = to->size;
	if (compact) {
		made_put(to, "\0\x0b\x01", 3);
		made_uleb(to, (uint32_t)(other - facts->debug));
		made_uleb(to, 0);
		made_align(to, 4);
		made_set32(to, start + 116, (uint32_t)(table - facts->data));
		made_set32(to, start + 120, (uint32_t)(to->size - table));
		made_set32(to, start + 124, (uint32_t)(facts->debug - facts->data - 1));
		made_u32(to, 0);
		made_set32(to, start + 104, (uint32_t)(to->size - facts->data));
		made_set32(to, start + 108, (uint32_t)(facts->data - start));
	} else if (kind == MADE_041) {
		made_set32(to, start + 112, (uint32_t)(to->size - facts->data));
		made_set32(to, start + 116, before);
	}
	made_set32(to, start + 32, (uint32_t)((compact ? facts->data : to->size) - start));
	made_set32(to, start + 36, (uint32_t)header);
	made_set32(to, start + 40, 0x12345678);
	made_set32(to, start + 56, MADE_STRINGS);
	made_set32(to, start + 60, (uint32_t)(facts->strings - tables));
	made_set32(to, start + 64, 1);
	made_set32(to, start + 68, (uint32_t)(facts->strings + 20 - tables));
	made_set32(to, start + 80, 1); /* a field, whose entry nothing reads */
	made_set32(to, start + 84, (uint32_t)(facts->strings - tables));
	made_set32(to, start + 88, MADE_METHODS);
	made_set32(to, start + 92, (uint32_t)(facts->strings + 24 - tables));
	made_set32(to, start + 96, 1);
	made_set32(to, start + 100, (uint32_t)(class_def - tables));
}

/* A DEX file of one class with so many methods (at most 65,536), "m0" to "m9" in turn, each with
 * code of 8 units and a line of its own, that the caller frees. number: tells it from others. */
static inline uint8_t *made_big_dex(uint32_t methods, uint32_t number, size_t *size)
{
	static const char names[] =
		"\6LBig/C;\0\2m0\0\2m1\0\2m2\0\2m3\0\2m4\0\2m5\0\2m6\0\2m7\0\2m8\0\2m9";
	size_t ids = 112 + 44 + 4, class_def = ids + 8ul * methods, texts = class_def + 32;
	size_t lines = texts + sizeof(names), codes = (lines + 6ul * methods + 3) & ~3ul;
	size_t class_data = codes + 32ul * methods;
	struct made_bytes *part = malloc(sizeof(*part));
	uint8_t *bytes = calloc(1, class_data + 16 + 8ul * methods), *at;
	const uint32_t header[] = {0x0a786564, 0x00353330,
				   number,     0,
				   0,          0,
				   0,          0,
				   0,          112,
				   0x12345678, 0,
				   0,          0,
				   11,         112,
				   1,          156,
				   0,          0,
				   0,          0,
				   methods,    (uint32_t)ids,
				   1,          (uint32_t)class_def};

	part->size = 0;
	for (size_t i = 0; i < sizeof(header) / sizeof(header[0]); i++)
		made_u32(part, header[i]);
	part->size = 112;
	for (uint32_t i = 0; i < 11; i++)
		made_u32(part, (uint32_t)texts + (i ? 5 + 4 * i : 0));
	made_u32(part, 0);
	memcpy(bytes, part->bytes, 104);
	memcpy(bytes + 112, part->bytes + 112, part->size - 112);
	memcpy(bytes + texts, names, sizeof(names));
	for (uint32_t i = 0; i < methods; i++) {
		part->size = 0;
		made_u32(part, 0);
		made_u32(part, i % 10 + 1);
		memcpy(bytes + ids + 8ul * i, part->bytes, 8);
		part->size = 0; /* the line, no parameters, this line at 0 */
		made_uleb(part, 0x4000 + i);
		made_put(part, "\0\x0e", 3);
		memcpy(bytes + lines + 6ul * i, part->bytes, part->size);
		part->size = 0;
		made_u32(part, 0);
		made_u32(part, 0);
		made_u32(part, (uint32_t)(lines + 6ul * i));
		made_u32(part, 8);
		memcpy(bytes + codes + 32ul * i, part->bytes, 16);
	}
	part->size = 0;
	made_u32(part, (uint32_t)class_data);
	memcpy(bytes + class_def + 24, part->bytes, 4);
	at = bytes + class_data;
	part->size = 0;
	made_uleb(part, 0);
	made_uleb(part, 0);
	made_uleb(part, methods);
	made_uleb(part, 0);
	memcpy(at, part->bytes, part->size);
	at += part->size;
	for (uint32_t i = 0; i < methods; i++) {
		part->size = 0;
		made_uleb(part, i ? 1 : 0);
		made_uleb(part, 1);
		made_uleb(part, (uint32_t)(codes + 32ul * i));
		memcpy(at, part->bytes, part->size);
		at += part->size;
	}
	*size = (size_t)(at - bytes);
	part->size = 0;
	made_u32(part, (uint32_t)*size);
	memcpy(bytes + 32, part->bytes, 4);
	free(part);
	return bytes;
}

/* ---- what DEX files are in ---- */

/* Two DEX files in a vdex of the version. */
static inline void made_vdex(struct made_bytes *to, const char *version,
			     struct made_dex_facts facts[2])
{
	unsigned number = (unsigned)atoi(version);
	size_t sizes = 0, begin;

	to->size = 0;
	made_put(to, "vdex", 4);
	made_put(to, version, 4);
	if (number == 27) {
		made_u32(to, 4);
		for (uint32_t kind = 0; kind < 4; kind++) {
			made_u32(to, kind);
			sizes = kind == 1 ? to->size : sizes;
			made_u32(to, 60);
			made_u32(to, kind ? 0 : 8);
		}
	} else {
		if (number >= 19)
			made_put(to, "002", 4);
		made_u32(to, 2);
		sizes = to->size;
		for (unsigned i = 0; i < (number == 21 || number < 19 ? 3 : 1); i++)
			made_u32(to, 0);
	}
	made_u32(to, 1); /* checksums */
	made_u32(to, 2);
	if (number == 19 || number == 21) {
		sizes = to->size;
		for (unsigned i = 0; i < 3; i++)
			made_u32(to, 0);
	}
	begin = to->size;
	for (unsigned i = 0; i < 2; i++) {
		if (number == 19 || number == 21)
			made_u32(to, 0x55555555);
		made_dex(to, MADE_035, 0, &facts[i]);
	}
	if (number == 27)
		made_set32(to, sizes, (uint32_t)begin);
	made_set32(to, sizes + (number == 27 ? 4 : 0), (uint32_t)(to->size - begin));
}

struct made_entry {
	const char *name;
	unsigned method, flags, extra;
	uint32_t size; /* in the archive */
};

static inline void made_zip(struct made_bytes *to, const struct made_entry *entries, unsigned count,
			    const char *comment, size_t *data)
{
	size_t headers[count], central;

	to->size = 0;
	for (unsigned i = 0; i < count; i++) {
		headers[i] = to->size;
		made_u32(to, 0x04034b50);
		memset(to->bytes + to->size, 0, 22);
		to->size += 22;
		made_u16(to, (unsigned)strlen(entries[i].name));
		made_u16(to, entries[i].extra);
		made_put(to, entries[i].name, strlen(entries[i].name));
		to->size += entries[i].extra;
		data[i] = to->size;
		to->size += entries[i].size;
	}
	central = to->size;
	for (unsigned i = 0; i < count; i++) {
		made_u32(to, 0x02014b50);
		made_u32(to, 0);
		made_u16(to, entries[i].flags);
		made_u16(to, entries[i].method);
		made_u32(to, 0);
		made_u32(to, 0);
		made_u32(to, entries[i].size);
		made_u32(to, entries[i].method ? 3 * entries[i].size : entries[i].size);
		made_u16(to, (unsigned)strlen(entries[i].name));
		made_u16(to, 7); /* extra field; comment */
		made_u16(to, 5);
		made_u32(to, 0);
		made_u32(to, 0);
		made_u32(to, (uint32_t)headers[i]);
		made_put(to, entries[i].name, strlen(entries[i].name));
		made_put(to, "extra..note.", 12);
	}
	made_u32(to, 0x06054b50);
	made_u32(to, 0);
	made_u16(to, count);
	made_u16(to, count);
	made_u32(to, (uint32_t)(to->size - 12 - central));
	made_u32(to, (uint32_t)central);
	made_u16(to, (unsigned)strlen(comment));
	made_put(to, comment, strlen(comment));
}
