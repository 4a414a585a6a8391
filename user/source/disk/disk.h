/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that tasks read and write, and calls that wait for storage. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct source;

struct disk_options {
	const char *btf_path; /* NULL: the kernel's own */
	size_t top;           /* rows that a record lists; 0: all */
	int syncs;            /* enum disk_syncs_by of kernel/disk_kernel.h; 0: the best */
	/* For tests; 0 and NULL: the real ones. */
	uint32_t ring_bytes;
	const char *uid_io;
};

/* The texts of the options must outlive the source. NULL with errno ENOMEM. */
struct source *disk_source_new(const struct disk_options *options);
