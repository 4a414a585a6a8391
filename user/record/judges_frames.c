/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "jankscope/record.h"

bool record_header_judges_frames(const struct record_header *header)
{
	bool flight = false, frames = false;

	for (size_t i = 0; i < header->source_count; i++) {
		const struct header_source *source = &header->sources[i];

		if (!strcmp(source->state, "absent"))
			continue;
		flight |= !strcmp(source->name, "flight");
		/* A trace that is followed may be of another machine. */
		frames |= !strcmp(source->name, "frames") && source->variant &&
			  strcmp(source->variant, "file") != 0;
	}
	return flight && frames;
}
