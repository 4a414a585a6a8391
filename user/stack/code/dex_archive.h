/* SPDX-License-Identifier: BSD-2-Clause */
/* The DEX files that a file of a target holds: an APK or a jar, a vdex, or one that is itself a DEX
 * file. */
#pragma once
#include "jankscope/stack.h"
#include "stack/code/dex_file.h"

/* A debug build may have one for each library. */
#define DEX_ARCHIVE_FILES 1024

struct dex_archive {
	struct stack_file_version version;
	int fd; /* owned */
	struct byte_source source;
	struct dex_span {
		uint64_t start;      /* of the header */
		uint64_t begin, end; /* of what may be its code; others may have it as well */
		uint32_t checksum;   /* by which ART knows it: of the zip's entry, else its own */
	} * files;                   /* owned */
	unsigned count;
	bool cut;  /* there are more than DEX_ARCHIVE_FILES */
	int wrong; /* why one of them makes no sense; 0: each does */
};

/* file->fd is taken over, also on failure. NULL with errno: ENOEXEC: it is none of these; EBADMSG,
 * ENOTSUP; ENOMEM; what reading says. */
struct dex_archive *dex_archive_open(const struct stack_file *file);
void dex_archive_free(struct dex_archive *archive);
size_t dex_archive_bytes(const struct dex_archive *archive);
