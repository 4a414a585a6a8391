/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sink/text.h"
#include "store/folder.h"
#include "util/clock.h"
#include "util/units.h"

/* A target that is gone when the recorder dies may come back at any time until the end. */
#define WAIT_NS (3650ull * 24 * 3600 * NSEC_PER_SEC)

struct plan {
	const struct options *options;
	enum exit_code (*record)(const struct options *options, const struct keeper_seat *seat);
};

/* ---- in the recorder ---- */

static void format_end(char *text, size_t size, const struct run_status *status)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
	uint64_t left_ns = status->end_boot_ns > now_ns ? status->end_boot_ns - now_ns : 0;
	time_t at = (time_t)((clock_now_ns(CLOCK_REALTIME) + left_ns) / NSEC_PER_SEC);
	char length[32], day[32];
	struct tm tm;

	*text = 0;
	/* Some of it went by since it was set. */
	if (gmtime_r(&at, &tm) && strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%SZ", &tm))
		snprintf(
			text, size, "%s until %s by boot clock, ",
			format_duration(length, sizeof(length),
					(left_ns + NSEC_PER_SEC / 2) / NSEC_PER_SEC * NSEC_PER_SEC),
			day);
}

static void tell_begun(void *ctx, size_t sources_ok, size_t sources)
{
	const struct keeper_seat *seat = ctx;
	char line[256], end[96] = "";

	if (seat->status->end_boot_ns)
		format_end(end, sizeof(end), seat->status);
	snprintf(line, sizeof(line), "started pid %d (keeper %d), %s%zu of %zu data sources ok",
		 getpid(), seat->keeper_pid, end, sources_ok, sources);
	keeper_begun(seat, line);
}

void daemon_take_seat(const struct keeper_seat *seat, struct session_options *session)
{
	session->by_boot_clock = true;
	session->begun = tell_begun;
	session->begun_ctx = (void *)seat;
	if (!seat->restarted)
		return;
	session->resumed = seat->reason;
	session->wait_ns = WAIT_NS;
	if (session->count > seat->status->intervals)
		session->count -= seat->status->intervals;
	else if (session->count)
		session->count = 1;
}

static int run(void *ctx, const struct keeper_seat *seat)
{
	const struct plan *plan = ctx;
	struct options options = *plan->options;
	char path[64];

	options.quiet = true;
	/* The folder that was opened, wherever it is by now; a link in the path leads nowhere. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d/.", seat->dir_fd);
	options.output = path;
	return plan->record(&options, seat);
}

/* ---- in the process that the user started ---- */

enum exit_code daemon_start(const struct options *options,
			    enum exit_code (*record)(const struct options *options,
						     const struct keeper_seat *seat))
{
	struct plan plan = {options, record};
	char why[128], name[512];
	enum exit_code code;
	int dir_fd, err;

	if (!options->output || options->json || options->overwrite) {
		fprintf(stderr, "jankscope: error: --daemon: %s; see jankscope record --help\n",
			!options->output ? "name a folder with -o DIR"
			: options->json  ? "--json has no stdout there"
					 : "a folder is never overwritten");
		return EXIT_USAGE;
	}
	err = store_folder_open(options->output, &dir_fd, why, sizeof(why));
	if (err) {
		fprintf(stderr, "jankscope: error: -o %s: %s\n",
			text_clean(name, sizeof(name), options->output),
			why[0] ? why : strerror(-err));
		return why[0] ? EXIT_USAGE : EXIT_INTERNAL;
	}
	code = (enum exit_code)keeper_start(dir_fd, (unsigned)options->restarts, options->hang_ns,
					    run, &plan);
	close(dir_fd);
	return code;
}
