/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"

#define PATIENCE_NS (2 * NSEC_PER_SEC)
#define EACH_NS     (NSEC_PER_SEC / 4)
/* Of small steps only each so manieth looks at the clock. */
#define LOOKS_EACH 256
#define LARGE_STEP 4096

void progress_begin(struct progress *progress, int fd, const char *what, const char *unit)
{
	*progress = (struct progress){
		.fd = isatty(fd) ? fd : -1,
		.what = what,
		.unit = unit,
		.begun_ns = clock_now_ns(CLOCK_MONOTONIC),
	};
}

/* A terminal that does not take it (Ctrl-S) is waited for, as with any other line. */
static void put(const struct progress *progress, const char *text)
{
	if (write(progress->fd, text, strlen(text)) < 0)
		return;
}

void progress_add(struct progress *progress, uint64_t count)
{
	uint64_t now_ns;
	char line[200];

	progress->count += count;
	if (progress->fd < 0 || (++progress->looked % LOOKS_EACH && count < LARGE_STEP))
		return;
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (now_ns - progress->begun_ns < PATIENCE_NS || now_ns - progress->told_ns < EACH_NS)
		return;
	progress->told_ns = now_ns;
	snprintf(line, sizeof(line), "\r%.60s: %" PRIu64 " %s so far\033[K\r", progress->what,
		 progress->count, progress->unit);
	put(progress, line);
	progress->shown = true;
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		put(progress, "\r\033[K");
	progress->shown = false;
}
