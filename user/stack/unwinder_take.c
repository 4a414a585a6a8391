/* SPDX-License-Identifier: BSD-2-Clause */
/* What the unwinder process says, taken for hostile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/loop.h"
#include "stack/unwinder_jobs.h"

/* Totals of the process since it began only grow. */
static int take_losses(struct unwinder *u, const struct wire_losses *now)
{
	const uint64_t *from = (const uint64_t *)now;
	uint64_t *seen = (uint64_t *)&u->seen, *total = (uint64_t *)&u->losses;

	for (size_t i = 0; i < sizeof(*now) / sizeof(*from); i++)
		if (from[i] < seen[i] || from[i] > UINT32_MAX)
			return -EBADMSG;
	for (size_t i = 0; i < sizeof(*now) / sizeof(*from); i++) {
		total[i] += from[i] - seen[i];
		seen[i] = from[i];
	}
	return 0;
}

static int take_trace(struct unwinder *u, size_t length)
{
	struct wire_losses losses;
	struct unwound *trace;
	int err = wire_take_trace(u->message, length, &trace, &losses);

	err = err == -ENOMEM ? 0 : err;
	if (!err)
		err = take_losses(u, &losses);
	if (!err)
		u->cache_bytes = ((const struct wire_trace *)u->message)->cache_bytes;
	if (err) {
		free(trace);
		return err;
	}
	u->no_memory += !trace;
	unwinder_job_done(u);
	unwinder_finish_unwind(u, -ENOMEM, trace);
	return 0;
}

static int take_places(struct unwinder *u, size_t length)
{
	struct wait_places places;
	int error, err = wire_take_places(u->message, length, &error, &places);

	if (err)
		return err;
	unwinder_job_done(u);
	unwinder_finish_waits(u, error, &places);
	return 0;
}

static int take_primed(struct unwinder *u, size_t length)
{
	struct wire_primed primed;
	int err;

	if (length != sizeof(primed))
		return -EBADMSG;
	memcpy(&primed, u->message, sizeof(primed));
	err = primed.cache_bytes > WIRE_MOST_CACHE ? -EBADMSG : take_losses(u, &primed.losses);
	if (err)
		return err;
	u->cache_bytes = primed.cache_bytes;
	unwinder_job_done(u);
	unwinder_free_job(u, unwinder_take_first(u));
	return 0;
}

static int take_need(struct unwinder *u, size_t length)
{
	struct wire_need need;
	int err = wire_take_need(u->message, length, &need);

	if (err)
		return err;
	/* The process waits, and asks for more as it unwinds. */
	loop_hurry(u->loop);
	unwinder_pause(u);
	err = unwinder_needs(u, &need);
	if (!err && !u->need.kind)
		unwinder_resume(u);
	return err;
}

static int take_reading(struct unwinder *u, size_t length)
{
	struct wire_reading reading;

	if (length != sizeof(reading))
		return -EBADMSG;
	memcpy(&reading, u->message, sizeof(reading));
	u->reading = reading.file;
	return 0;
}

/* One message of a job. 0 or -errno: the process is not to be trusted. */
int unwinder_take_message(struct unwinder *u, size_t length)
{
	struct wire_header header;

	if (length < sizeof(header) || !u->current)
		return -EBADMSG;
	memcpy(&header, u->message, sizeof(header));
	/* While it waits for an answer it has nothing to say. */
	if (header.bytes != length || header.job != u->number || u->need.kind)
		return -EBADMSG;
	if (header.type == WIRE_TRACE && u->current->type == WIRE_UNWIND)
		return take_trace(u, length);
	if (header.type == WIRE_PLACES && u->current->type == WIRE_WAITS)
		return take_places(u, length);
	if (header.type == WIRE_PRIMED && u->current->type == WIRE_PRIME)
		return take_primed(u, length);
	if (header.type == WIRE_NEED)
		return take_need(u, length);
	if (header.type == WIRE_READING)
		return take_reading(u, length);
	return -EBADMSG;
}
