/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder runs where frames of targets are told; --thread adds threads to it. */
#include <errno.h>

#include "source/declarations.h"
#include "source/flight/flight.h"
#include "source/frames/frames.h"

struct flight_flags {
	uint64_t step_ns; /* 0: off */
};

_Static_assert(sizeof(struct flight_flags) <= SOURCE_FLAGS_BYTES, "flags");

static const struct flight_flags defaults = {.step_ns = 2000000};

static const struct option_row rows[] = {
	{0, "frame-samples", "DURATION",
	 "--frames: sample threads so often while a frame takes long (2ms)", VERB_LIVE,
	 OPTION_DURATION, offsetof(struct flight_flags, step_ns), .min = 500000, .words = "off"},
};

static struct source *make(const void *from, const struct source_wishes *wishes, bool *needed)
{
	const struct flight_flags *flags = from;
	struct source *cpu = source_made(wishes, "cpu"), *blocks = source_made(wishes, "blocks");
	struct source *frames = source_made(wishes, "frames"), *flight;

	*needed = false;
	errno = 0;
	if (!cpu || !blocks || !frames)
		return NULL;
	flight = flight_source_new(cpu, blocks, flags->step_ns);
	if (flight)
		frames_source_use_flight(frames, flight);
	return flight;
}

const struct source_declaration flight_declaration = {
	.name = "flight",
	.losses = &flight_losses,
	.options = rows,
	.option_count = sizeof(rows) / sizeof(*rows),
	.flags_size = sizeof(struct flight_flags),
	.defaults = &defaults,
	.make = make,
};
