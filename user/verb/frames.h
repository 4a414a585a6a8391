/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct frames_request {
	const char *layer_glob, *package; /* NULL: all */
	bool json, rows, why;
};

/* Report the frames of one trace file ("-": standard input) on out. Returns the exit code: 0 fine,
 * 1 it could not be read or is no trace, 3 it is damaged or cut short and what was readable was
 * reported. */
int frames_report_file(const struct frames_request *request, const char *path, FILE *out);
