/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder has no flags of its own: it runs where frames of targets are told, and
 * --thread adds threads to it. */
#include <errno.h>
#include <string.h>

#include "source/declarations.h"
#include "source/flight/flight.h"
#include "source/frames/frames.h"

static struct source *find(const struct source_wishes *wishes, const char *name)
{
	for (size_t i = 0; i < wishes->made_count; i++)
		if (!strcmp(wishes->made[i]->ops->name, name))
			return wishes->made[i];
	return NULL;
}

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	struct source *cpu = find(wishes, "cpu"), *blocks = find(wishes, "blocks");
	struct source *frames = find(wishes, "frames"), *flight;

	*needed = false;
	errno = 0;
	if (!cpu || !blocks || !frames)
		return NULL;
	flight = flight_source_new(cpu, blocks);
	if (flight)
		frames_source_use_flight(frames, flight);
	return flight;
}

const struct source_declaration flight_declaration = {
	.name = "flight",
	.losses = &flight_losses,
	.make = make,
};
