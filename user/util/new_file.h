/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that has its name when it is whole, and not before: it is written beside that name, and a
 * rename gives it. */
#pragma once
#include <stdio.h>

struct new_file {
	FILE *stream; /* NULL: it is ended */
	const char *path;
	char *temporary; /* NULL: the path is written to directly */
};

/* Open what is to become path, which the caller keeps: "-" is stdout; a pipe, a device or what else
 * is no file is written to as it is. 0 or -errno, then there is nothing to end. */
int new_file_open(struct new_file *file, const char *path);
/* Give the file its name where err is 0, else remove what was written. err, or the -errno of the
 * first thing that failed; err of a file that is ended. */
int new_file_end(struct new_file *file, int err);
