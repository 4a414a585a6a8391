/* SPDX-License-Identifier: BSD-2-Clause */
/* The mapping.txt that R8 or ProGuard wrote: original names of classes and methods for changed
 * ones. Pure: reads the bytes that it is given. The format is that of ProGuard's manual (ReTrace,
 * mapping file) and of R8's doc/retrace.md. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAPPING_MAX_BYTES (1u << 30)
/* What is kept of names that were asked for; beyond it names stay as they are. */
#define MAPPING_KEPT_BYTES (64u << 20)

#define MAPPING_NO_LINE UINT32_MAX

struct mapping;

struct mapping_error {
	uint64_t line;   /* from 1; 0: of the whole file, or no memory */
	const char *why; /* and what to do */
};

struct mapping_name {
	const char *symbol; /* "com.example.Foo.bar", with types where the frame has them;
			     * "com.example.Foo.bar or baz": it is one of these */
	bool inlined;       /* into the next one */
};

/* Takes text over, which is malloc'ed, also on failure; memory: the text, and some 40 bytes a
 * class. NULL with errno EINVAL (*error says why) or ENOMEM. */
struct mapping *mapping_new(char *text, size_t length, struct mapping_error *error);
void mapping_free(struct mapping *mapping);
size_t mapping_classes(const struct mapping *mapping);
/* Whether R8 may have left the lines of methods out and written places in their byte code in place
 * of lines: where the app is for Android 8 and later only. */
bool mapping_has_places(const struct mapping *mapping);

/* The original names of "a.b.c" or "void a.b.c(int, a.d)", innermost first. line: of the source, as
 * the frame has it, or, where the method has none and mapping_has_places, its place in the byte
 * code; MAPPING_NO_LINE: not known. Returns how many, 0: the mapping has no such class, or
 * MAPPING_KEPT_BYTES are kept; -ENOMEM. The names are the mapping's, until mapping_free(). */
ssize_t mapping_find(struct mapping *mapping, const char *symbol, uint32_t line,
		     const struct mapping_name **names);
/* Symbols that stayed as they are for want of room. */
uint64_t mapping_left_out(const struct mapping *mapping);
