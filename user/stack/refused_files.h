/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that the unwinder process hung on, or died of twice, and is not given again for a while. A
 * file is what it was at one moment: another one under its inode number is not refused, nor is the
 * same one when it was written since. A file that was only slow to read (a machine with too much
 * to do) is tried again, and each time that it hangs it is left alone for twice as long. */
#pragma once
#include "jankscope/stack.h"
#include "util/clock.h"

#define REFUSED_FILES    256
#define REFUSED_FIRST_NS (30 * NSEC_PER_SEC)
#define REFUSED_MOST_NS  (3600 * NSEC_PER_SEC)

struct refused_files {
	struct refused_file {
		struct stack_file_version file; /* inode 0: the row is free */
		uint64_t since_ns, for_ns;      /* CLOCK_MONOTONIC */
	} rows[REFUSED_FILES];
};

/* It hung on this file now; inode 0: on no file. When all rows are taken, the one that was refused
 * the longest ago is given up. */
void refused_files_add(struct refused_files *refused, const struct stack_file_version *file,
		       uint64_t now_ns);
/* Whether the file is to be left alone. */
bool refused_files_has(const struct refused_files *refused, const struct stack_file_version *file,
		       uint64_t now_ns);
