/* SPDX-License-Identifier: BSD-2-Clause */
/* What of /proc/PID/maps a stack can need, in memory that the target has no say in. A return
 * address lies in an executable mapping, so these are kept as they are; of what stands before them
 * of the same file only place, offset and inode are (that is where the ELF file of a library inside
 * of an APK begins), and of the uppermost mapping its place, which says how wide an address is. Of
 * the mappings that may have byte code of ART, by their names, the first MAPS_FILTER_BYTE_CODE are
 * kept as well; where byte code is behind these, the runtime itself is asked (code/dex_list.h). The
 * rest (heaps, thread stacks, guard pages, data files: most lines of a large process) goes.
 *
 * Where even that is more than MAPS_FILTER_BYTES, the lines in the middle go, and one line says
 * where they were (PROC_MAPS_LEFT_OUT, proc/maps.h). A process maps its program lowest and what it
 * was linked with first, which is uppermost; in the middle is what it mapped later in great number,
 * and new mappings stand at the lower end of that. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "proc/maps.h"

/* About 11,000 executable mappings. */
#define MAPS_FILTER_BYTES     (1u << 20)
#define MAPS_FILTER_PENDING   8
#define MAPS_FILTER_BYTE_CODE 512

struct maps_filter {
	/* Take the next bytes of the result: 0 or -errno, which ends it. */
	int (*write)(void *ctx, const char *text, size_t length);
	void *ctx;
	size_t room; /* half of the bytes that may be kept */
	size_t head_bytes;
	uint64_t head_end;
	/* the last lines, one behind the other and around the end of the buffer; NULL: not needed
	 */
	char *tail;
	size_t tail_from, tail_bytes;
	uint64_t left_out;  /* lines */
	unsigned byte_code; /* lines kept for it */
	/* mappings of files that an executable one of the same file may follow */
	struct proc_mapping pending[MAPS_FILTER_PENDING];
	unsigned pending_count;
	struct proc_mapping top; /* the uppermost one that is not kept yet; end 0: none */
};

/* bytes: how much may be kept, at least 16 KiB. */
void maps_filter_init(struct maps_filter *filter, size_t bytes,
		      int (*write)(void *ctx, const char *text, size_t length), void *ctx);
/* One line, without its newline. 0, -ENOMEM or what write says. */
int maps_filter_line(struct maps_filter *filter, const char *line, size_t length);
/* No line follows: write what is left. In any case what the filter holds is freed. 0 or -errno. */
int maps_filter_end(struct maps_filter *filter);
/* It is not wanted any more. */
void maps_filter_free(struct maps_filter *filter);
