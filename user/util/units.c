/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *suffix;
	double factor;
};

static const struct unit duration_units[] = {
	{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
};
static const struct unit size_units[] = {
	{"B", 1},           {"K", 1024},         {"KB", 1024},     {"KiB", 1024},
	{"M", 1048576},     {"MB", 1048576},     {"MiB", 1048576}, {"G", 1073741824},
	{"GB", 1073741824}, {"GiB", 1073741824},
};

static int parse_with_unit(const char *text, const struct unit *units, size_t count,
			   uint64_t *value)
{
	char *end;
	double number;

	/* strtod alone would take "inf", "0x10" and leading blanks. */
	if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && tolower(text[1]) == 'x'))
		return -EINVAL;
	number = strtod(text, &end);
	if (!isfinite(number))
		return -ERANGE;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(end, units[i].suffix))
			continue;
		number *= units[i].factor;
		if (number >= 9.2e18)
			return -ERANGE;
		*value = (uint64_t)llround(number);
		return 0;
	}
	return -EINVAL;
}

int parse_duration(const char *text, uint64_t *ns)
{
	return parse_with_unit(text, duration_units,
			       sizeof(duration_units) / sizeof(*duration_units), ns);
}

int parse_size(const char *text, uint64_t *bytes)
{
	return parse_with_unit(text, size_units, sizeof(size_units) / sizeof(*size_units), bytes);
}

const char *format_bytes(char *buffer, size_t size, uint64_t bytes)
{
	static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(buffer, size, "%u B", (unsigned)bytes);
		return buffer;
	}
	for (value /= 1024; value >= 1023.95 && unit + 1 < sizeof(names) / sizeof(*names); unit++)
		value /= 1024;
	snprintf(buffer, size, "%.1f %s", value, names[unit]);
	return buffer;
}

const char *format_duration(char *buffer, size_t size, uint64_t ns)
{
	uint64_t s = ns / 1000000000u;

	if (s >= 3600 && s % 3600 < 60)
		snprintf(buffer, size, "%" PRIu64 "h", s / 3600);
	else if (s >= 3600)
		snprintf(buffer, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
	else if (s >= 60)
		snprintf(buffer, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
	else if (s >= 1)
		snprintf(buffer, size, "%.1f s", (double)ns / 1e9);
	else
		snprintf(buffer, size, "%.3g ms", (double)ns / 1e6);
	return buffer;
}
