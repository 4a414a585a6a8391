/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the reading of a list: jit_list.c follows its links, jit_symfiles.c copies what its
 * entries name. */
#pragma once
#include "prober/jit_list.h"

/* struct JITDescriptorPublic and struct JITCodeEntryPublic of ART; gdb's end before magic and
 * before timestamp. */
struct jit_public_descriptor {
	uint32_t version, action;
	uint64_t relevant, first;
	char magic[8];
	uint32_t flags, descriptor_bytes, entry_bytes, seqlock;
	uint64_t timestamp;
};
_Static_assert(sizeof(struct jit_public_descriptor) == 56, "as in ART");

struct jit_public_entry {
	uint64_t next, previous, symfile, size, timestamp;
	uint32_t seqlock, reserved;
};
_Static_assert(sizeof(struct jit_public_entry) == 48, "as in ART");

/* Entries lie near each other: a runtime allocates them one after the other, of one size. */
#define JIT_PAGE_BYTES 4096
#define JIT_PAGES      128
struct jit_pages {
	uint64_t address[JIT_PAGES]; /* 0: the slot is free */
	uint8_t bytes[JIT_PAGES][JIT_PAGE_BYTES];
};

struct jit_reading {
	const struct jit_memory *memory;
	const struct jit_list_request *request;
	struct jit_list *list;
	enum jit_layout layout;
	struct jit_public_descriptor begin; /* as it was when the pass began */
	size_t room;
	uint32_t *table; /* entries by address: number plus 1; a power of two of slots */
	size_t slots;
	uint32_t *seen_in; /* the pass in which an entry was met last */
	uint32_t *path;    /* the entries of this pass, by their numbers */
	size_t depth;
	uint32_t pass, restarts, retries, found, lies;
	/* The list is taken to rest: it is read in pages, and the sequence number of the whole says
	 * in the end whether that was right. NULL: each entry is looked at by itself. */
	struct jit_pages *pages;
	uint64_t until_ns;
};

/* The top byte of a pointer is a tag on arm64, and zero elsewhere. */
static inline uint64_t jit_untagged(uint64_t address)
{
	return address << 8 >> 8;
}

/* As struct jit_memory has it. */
static inline int jit_read_parts(struct jit_reading *r, const struct jit_part *parts, size_t count)
{
	return r->memory->read(r->memory->ctx, parts, count);
}

static inline size_t jit_entry_bytes(enum jit_layout layout)
{
	return layout == JIT_PLAIN ? 32 : layout == JIT_ANDROID1 ? 40 : 48;
}

/* Copy the symfiles that are asked for, and leave out entries that died meanwhile. 0 or -errno. */
int jit_copy_symfiles(struct jit_reading *reading);
/* Entries without a symfile are dead, or mark where the list of ART's zygote begins and ends. */
void jit_drop_empty(struct jit_list *list);
