/* SPDX-License-Identifier: BSD-2-Clause */
/* A moment of a recording, as the flags --since and --until take it. */
#pragma once
#include <stdint.h>

#include "jankscope/record.h"

enum moment_kind {
	MOMENT_NONE = 0,
	MOMENT_BOOT,  /* ns on the boot clock */
	MOMENT_AFTER, /* ns after the recording's first header */
	MOMENT_UNIX,  /* ns of wall time */
	MOMENT_DAY,   /* ns of a day: the first time that the clock shows it */
};

struct moment {
	enum moment_kind kind;
	uint64_t ns;
};

/* The forms that moment_parse() takes, for a line on stderr. */
#define MOMENT_FORMS \
	"2026-11-24T19:30:00Z, 19:30:00 (both UTC), +10m after its begin, or boot:1234.5s"

/* 0, or -EINVAL. */
int moment_parse(const char *text, struct moment *moment);
/* The clocks of a recording's first header; all times of the recording are told from it. */
struct moment_origin {
	uint64_t boot_ns, unix_ns;
	char boot_id[37];
};

/* The moment on the boot clock of the run that has this header; 0 or UINT64_MAX where it is before
 * or after all that this clock can say. `from_unix_ns`: a time of day is looked for from then on.
 * 0; -ENODATA: the header's wall clock was not set. */
int moment_resolve(const struct moment *moment, const struct moment_origin *origin,
		   const struct record_header *header, uint64_t from_unix_ns, uint64_t *boot_ns);
/* The wall time of a moment on the boot clock of that run. */
uint64_t moment_unix_ns(const struct record_header *header, uint64_t boot_ns);
