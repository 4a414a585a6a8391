/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recorder with --metrics tells a scraper (endpoint/README.md). */
#include <errno.h>
#include <stdlib.h>

#include "core/session_private.h"
#include "endpoint/server.h"
#include "record/redact.h"
#include "endpoint/live_metrics.h"
#include "summary/summary.h"

/* A page takes a quarter of a millisecond, a millisecond on a slow core: none is made when the end
 * of an interval is near. */
#define NEAR_NS (5 * NSEC_PER_MSEC)

static bool is_interval_near(const struct session *session)
{
	uint64_t interval_ns = session->options.interval_ns;
	uint64_t near_ns = NEAR_NS < interval_ns / 4 ? NEAR_NS : interval_ns / 4;
	uint64_t so_far_ns = clock_now_ns(CLOCK_MONOTONIC) - session->last_mono_ns;

	return session->last_mono_ns && so_far_ns + near_ns > interval_ns &&
	       so_far_ns < interval_ns + near_ns;
}

static int make_metrics(void *ctx, char **text, size_t *bytes)
{
	struct session *session = ctx;
	struct record record = {.type = RECORD_FOOTER};
	const struct record *shown = &record;

	if (is_interval_near(session))
		return -EAGAIN;
	/* Before its first interval a run has no sums that could be compared. */
	if (!session->intervals)
		return live_metrics_write(session->live, NULL, text, bytes);
	record.footer = summary_so_far(session->summary);
	if (!record.footer)
		return -ENOMEM;
	if (session->options.redactor)
		shown = redactor_record(session->options.redactor, &record);
	return shown ? live_metrics_write(session->live, shown->footer, text, bytes) : -ENOMEM;
}

static int make_status(void *ctx, char **text, size_t *bytes)
{
	return is_interval_near(ctx) ? -EAGAIN : session_status(ctx, text, bytes);
}

static const struct endpoint_page pages[] = {
	{"/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", make_metrics},
	{"/status", "application/json", make_status},
};

int session_join_endpoint(struct session *session)
{
	if (!session->options.endpoint)
		return 0;
	session->live = live_metrics_new();
	if (!session->live)
		return -ENOMEM;
	return endpoint_join_loop(session->options.endpoint, session->loop, pages,
				  sizeof(pages) / sizeof(*pages), session);
}

void session_leave_endpoint(struct session *session)
{
	if (session->options.endpoint)
		endpoint_join_loop(session->options.endpoint, NULL, NULL, 0, NULL);
	live_metrics_free(session->live);
	session->live = NULL;
}
