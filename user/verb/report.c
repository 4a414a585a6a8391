/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/paths.h"
#include "source/recording.h"
#include "verb/verb.h"

/* Damages of one file that are told one by one. */
#define MAX_TOLD 20

#define PATHS_BYTES (64u << 20) /* of all that the recordings have */

struct reading {
	const char *file;
	struct paths *paths;
	uint64_t damages;
};

static int add_block(void *ctx, const struct record_block *block)
{
	return paths_add(((struct reading *)ctx)->paths, block);
}

static void tell_damage(void *ctx, uint64_t line, const char *what)
{
	struct reading *reading = ctx;

	if (reading->damages++ < MAX_TOLD)
		fprintf(stderr, "jankscope: warn: %s:%" PRIu64 ": %s\n", reading->file, line, what);
}

static enum exit_code read_recording(const char *file, struct paths *paths)
{
	struct reading reading = {file, paths, 0};
	const struct recording_reader reader = {
		.block = add_block, .damage = tell_damage, .ctx = &reading};
	struct recording_counts counts;
	int err = recording_read(file, &reader, &counts);

	if (reading.damages > MAX_TOLD)
		fprintf(stderr, "jankscope: warn: %s: %" PRIu64 " more damages\n", file,
			reading.damages - MAX_TOLD);
	if (err == -EPROTONOSUPPORT) {
		fprintf(stderr,
			"jankscope: error: %s: schema %" PRId64
			": this jankscope reads %d at the most; use a newer one\n",
			file, counts.schema, RECORD_SCHEMA);
		return EXIT_UNSUPPORTED;
	}
	if (err) {
		fprintf(stderr, "jankscope: error: %s: %s\n", file,
			err == -EBADMSG ? "not a recording" : strerror(-err));
		return err == -EBADMSG ? EXIT_USAGE : EXIT_INTERNAL;
	}
	return counts.damages ? EXIT_INCOMPLETE : EXIT_FINE;
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
	paths_limit(paths, PATHS_BYTES);
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
