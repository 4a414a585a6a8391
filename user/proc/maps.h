/* SPDX-License-Identifier: BSD-2-Clause */
/* One line of /proc/PID/maps. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAP_READ = 1, MAP_WRITE = 2, MAP_EXEC = 4, MAP_IS_SHARED = 8 };

struct proc_mapping {
	uint64_t start, end, offset, inode;
	uint32_t dev; /* major << 20 | minor */
	uint8_t flags;
	const char *path; /* within the line, not terminated */
	size_t path_length;
};

/* The path of a line of the prober's own (prober/maps_filter.h): what is mapped between these
 * addresses is not told. No process can have a mapping of this name. */
#define PROC_MAPS_LEFT_OUT "[left out]"

/* "start-end rwxp offset major:minor inode   path", without its newline: [line, end). False: it
 * is no such line. */
bool proc_parse_mapping(const char *line, const char *end, struct proc_mapping *out);
