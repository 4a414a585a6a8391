/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder has no flags of its own: it runs where frames of targets are told, and
 * --thread adds threads to it. */
#include <errno.h>

#include "source/declarations.h"
#include "source/flight/flight.h"
#include "source/frames/frames.h"

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	struct source *cpu = source_made(wishes, "cpu"), *blocks = source_made(wishes, "blocks");
	struct source *frames = source_made(wishes, "frames"), *flight;

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
