/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that tasks read and write, and calls that wait for storage. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source;

struct disk_options {
	const char *btf_path; /* NULL: the kernel's own */
	size_t top;           /* rows that a record lists; 0: all */
	/* For tests; 0 and NULL: the real ones. */
	uint32_t ring_bytes;
	bool tracepoints; /* of file systems, although there are kprobes */
	const char *uid_io;
};

/* The texts of the options must outlive the source. NULL with errno ENOMEM. */
struct source *disk_source_new(const struct disk_options *options);
