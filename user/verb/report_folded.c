/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_folded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/text.h"

struct writing {
	FILE *out;
	struct paths *old, *paths; /* old NULL: there is nothing to compare with */
};

static unsigned long long microseconds(uint64_t weight_ns)
{
	return (weight_ns + 500) / 1000;
}

/* Names are the programs' own, and a terminal may be what reads this. */
static int put_path(FILE *out, const char *path)
{
	size_t size = strlen(path) + 1;
	char *clean = malloc(size);

	if (!clean)
		return -ENOMEM;
	fputs(text_clean(clean, size, path), out);
	free(clean);
	return 0;
}

static int put_row(void *ctx, const char *path, uint64_t weight_ns)
{
	const struct writing *writing = ctx;
	uint64_t old_ns;
	int err = put_path(writing->out, path);

	if (writing->old && paths_find(writing->old, path, &old_ns))
		fprintf(writing->out, " %llu", microseconds(old_ns));
	else if (writing->old)
		fputs(" 0", writing->out);
	fprintf(writing->out, " %llu\n", microseconds(weight_ns));
	return err;
}

static int put_gone(void *ctx, const char *path, uint64_t weight_ns)
{
	const struct writing *writing = ctx;
	uint64_t new_ns;
	int err;

	if (paths_find(writing->paths, path, &new_ns))
		return 0;
	err = put_path(writing->out, path);
	fprintf(writing->out, " %llu 0\n", microseconds(weight_ns));
	return err;
}

static int put_all(struct writing *writing)
{
	int err = paths_each(writing->paths, put_row, writing);

	if (!err && writing->old)
		err = paths_each(writing->old, put_gone, writing);
	if (!err && (fflush(writing->out) || ferror(writing->out)))
		err = errno == EPIPE ? -EPIPE : -EIO;
	return err;
}

enum exit_code report_folded_write(struct paths *old, struct paths *paths, const char *file)
{
	bool standard = !strcmp(file, "-");
	struct writing writing = {standard ? stdout : fopen(file, "we"), old, paths};
	int err = writing.out ? put_all(&writing) : -errno;

	if (writing.out && !standard && fclose(writing.out) && !err)
		err = -errno;
	if (!err || err == -EPIPE)
		return EXIT_FINE;
	fprintf(stderr, "jankscope: error: --folded %s: %s\n", file, strerror(-err));
	return EXIT_INTERNAL;
}
