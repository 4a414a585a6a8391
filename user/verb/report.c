/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/paths.h"
#include "source/recording.h"
#include "verb/verb.h"

static int add_block(void *ctx, const struct record_block *block)
{
	return paths_add(ctx, block);
}

static enum exit_code read_recording(const char *file, struct paths *paths)
{
	struct recording_counts counts;
	int err = recording_each_block(file, add_block, paths, &counts);

	if (err) {
		fprintf(stderr, "jankscope: error: %s: %s\n", file,
			err == -EBADMSG ? "not a recording" : strerror(-err));
		return err == -EBADMSG ? EXIT_USAGE : EXIT_INTERNAL;
	}
	if (!counts.rejected)
		return EXIT_FINE;
	fprintf(stderr,
		"jankscope: warn: %s: %" PRIu64 " of %" PRIu64 " lines are torn or no records\n",
		file, counts.rejected, counts.lines);
	return EXIT_INCOMPLETE;
}

static enum exit_code write_folded(struct paths *paths, const char *file)
{
	bool standard = !strcmp(file, "-");
	FILE *out = standard ? stdout : fopen(file, "we");
	int err = out ? paths_print_folded(paths, out) : -errno;

	if (out && !standard && fclose(out) && !err)
		err = -errno;
	if (err == -EPIPE || (err && standard && errno == EPIPE))
		return EXIT_FINE;
	if (!err)
		return EXIT_FINE;
	fprintf(stderr, "jankscope: error: --folded %s: %s\n", file, strerror(-err));
	return EXIT_INTERNAL;
}

enum exit_code verb_report(const struct options *options)
{
	enum exit_code code = EXIT_FINE, one;
	struct paths *paths;

	if (!options->argument_count) {
		fprintf(stderr, "jankscope: error: report: name a recording; see jankscope report "
				"--help\n");
		return EXIT_USAGE;
	}
	if (!options->folded) {
		fprintf(stderr, "jankscope: error: report: nothing to write: name an output, like "
				"--folded FILE\n");
		return EXIT_USAGE;
	}
	paths = paths_new();
	if (!paths) {
		fprintf(stderr, "jankscope: error: report: %s\n", strerror(ENOMEM));
		return EXIT_INTERNAL;
	}
	for (int i = 0; i < options->argument_count; i++) {
		one = read_recording(options->arguments[i], paths);
		if (one && one != EXIT_INCOMPLETE) {
			paths_free(paths);
			return one;
		}
		if (one)
			code = one;
	}
	if (paths_dropped_ns(paths))
		fprintf(stderr,
			"jankscope: warn: report: too many paths; %" PRIu64 " ms are left out\n",
			paths_dropped_ns(paths) / 1000000);
	one = write_folded(paths, options->folded);
	paths_free(paths);
	return one ? one : code;
}
