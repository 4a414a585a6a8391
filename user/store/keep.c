/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/keep.h"

#include <stdio.h>
#include <string.h>

#include "util/units.h"

const char *keep_parse(const char *text, struct store_options *options)
{
	struct store_keep *before = NULL, *keep;
	char part[64];
	size_t length;

	options->keep_count = 0;
	for (;; text += length + 1) {
		char *colon;

		length = strcspn(text, ",");
		if (options->keep_count == STORE_KEEP_MAX)
			return "at most 8 of RES:AGE are taken";
		snprintf(part, sizeof(part), "%.*s", (int)length, text);
		colon = length < sizeof(part) ? strchr(part, ':') : NULL;
		keep = &options->keep[options->keep_count];
		if (colon)
			*colon = 0;
		if (!colon || parse_duration(part, &keep->resolution_ns) ||
		    parse_duration(colon + 1, &keep->age_ns) || !keep->resolution_ns ||
		    !keep->age_ns)
			return "RES:AGE,... is needed, like 100ms:10m,1s:24h,10s:30d";
		if (before && (keep->resolution_ns <= before->resolution_ns ||
			       keep->age_ns <= before->age_ns))
			return "each RES and each AGE must be more than the one before";
		if (before && keep->resolution_ns % before->resolution_ns)
			return "each RES must be a multiple of the one before";
		options->keep_count++;
		before = keep;
		if (!text[length])
			return NULL;
	}
}

uint64_t keep_resolution(const struct store_options *options, uint64_t age_ns,
			 uint64_t *next_age_ns)
{
	*next_age_ns = 0;
	for (size_t i = 0; i < options->keep_count; i++) {
		if (age_ns > options->keep[i].age_ns && i + 1 < options->keep_count)
			continue;
		if (i + 1 < options->keep_count)
			*next_age_ns = options->keep[i].age_ns;
		return options->keep[i].resolution_ns;
	}
	return 0;
}
