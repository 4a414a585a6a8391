/* SPDX-License-Identifier: BSD-2-Clause */
/* An ArtMethod in the memory of a process, by which a JIT compiler names the methods that it
 * inlined: from it to its DEX file and its number there. */
#pragma once
#include "jankscope/stack.h"
#include "stack/code/byte_source.h"

struct art_method {
	uint64_t dex;    /* address of the header of its DEX file */
	uint32_t number; /* in that file */
};

/* Read it at an address of the source, which is the process's memory. version: of the oat files
 * that its ART takes. 0; -ENOTSUP: its layout in that version is not known; -EBADMSG: it makes no
 * sense, or changed meanwhile; what reading says. */
int art_method_read(const struct byte_source *source, enum stack_arch arch, unsigned version,
		    uint64_t address, struct art_method *method);
