/* SPDX-License-Identifier: BSD-2-Clause */
#include "compare/alike.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS 64 /* that are looked at */

const char *const alike_names[ALIKE_WHATS] = {
	[ALIKE_DEVICE] = "device",
	[ALIKE_TARGETS] = "targets",
	[ALIKE_BLOCK] = "what is a block",
};

static void take(struct alike *alike, enum alike_what what, const char *text)
{
	struct alike_text *of = &alike->of[what];

	if (!of->known)
		snprintf(of->first, sizeof(of->first), "%s", text);
	else if (!*of->other && strncmp(of->first, text, sizeof(of->first) - 1) != 0)
		snprintf(of->other, sizeof(of->other), "%s", text);
	of->known = true;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* In whatever order they were asked for. */
static void take_targets(struct alike *alike, const struct record_header *header)
{
	size_t count = header->target_count < TARGETS ? header->target_count : TARGETS, length = 0;
	char names[TARGETS][64], text[1024] = "";

	for (size_t i = 0; i < count; i++) {
		const struct header_target *target = &header->targets[i];

		if (target->package)
			snprintf(names[i], sizeof(names[i]), "%s", target->package);
		else if (target->uid.present)
			snprintf(names[i], sizeof(names[i]), "uid %" PRIu64, target->uid.value);
		else
			snprintf(names[i], sizeof(names[i]), "a pid");
	}
	qsort(names, count, sizeof(names[0]), by_text);
	for (size_t i = 0; i < count && length < sizeof(text); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
					   i ? " " : "", names[i]);
	take(alike, ALIKE_TARGETS, count ? text : "all");
}

void alike_header(struct alike *alike, const struct record_header *header)
{
	char text[40];

	if (header->device)
		take(alike, ALIKE_DEVICE, header->device);
	take_targets(alike, header);
	if (!header->block_ns)
		return;
	snprintf(text, sizeof(text), "%" PRIu64 " ms", header->block_ns / 1000000);
	take(alike, ALIKE_BLOCK, text);
}
