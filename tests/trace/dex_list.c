/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints what the readers of byte code say of a file, for test_dex_oracle.sh to compare with what
 * dexlist and dexdump say: of each DEX file that is in it, and of each method with code.
 * usage: dex_list FILE [lines]
 *	dex NUMBER AT BYTES VERSION   error NAME
 *	code OFFSET BYTES NAME shared|own   (OFFSET in the DEX file)
 *	line PC LINE                        (where it is another one than that of the last PC)
 *	left out: deflated */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/code/byte_file.h"
#include "stack/code/dex_file.h"
#include "stack/code/vdex_file.h"
#include "stack/code/zip_file.h"
#include "util/clock.h"

static unsigned number;
static bool lines;

static int print_lines(const struct dex_file *dex, struct dex_place *place)
{
	uint32_t last = 0, line;

	for (place->pc = 0; place->pc < place->instructions; place->pc++) {
		int err = dex_line(dex, place, &line);

		if (err == -ENODATA)
			continue;
		if (err)
			return err;
		if (line != last)
			printf("line %u %" PRIu32 "\n", place->pc, line);
		last = line;
	}
	return 0;
}

static int print_codes(const struct dex_file *dex, const struct dex_index *index)
{
	struct dex_place place, found;
	char name[DEX_NAME_BYTES];
	int err = 0;

	for (size_t i = 0; i < index->count && !err; i++) {
		err = dex_index_place(index, dex, i, &place);
		if (!err)
			err = dex_method_name(dex, place.method, name);
		if (err)
			break;
		printf("code 0x%08" PRIx64 " %" PRIu32 " %s %s\n", place.code - dex->start,
		       place.instructions * 2, name, place.shared ? "shared" : "own");
		if (place.instructions &&
		    (dex_index_find(index, dex, place.code + 2ull * (place.instructions - 1),
				    &found) ||
		     found.method != place.method || found.pc != place.instructions - 1))
			printf("not found by its last instruction\n");
		if (lines)
			err = print_lines(dex, &place);
	}
	return err;
}

static int print_dex(const struct byte_source *source, uint64_t at)
{
	struct dex_file dex;
	struct dex_index index;
	uint64_t begin_ns;
	int err = dex_file_open(&dex, source, at);

	if (err)
		return err;
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	err = dex_index_build(&index, &dex);
	if (err)
		return err;
	fprintf(stderr, "%zu code items of %u methods, index of %zu bytes in %" PRIu64 " us\n",
		index.count, dex.methods.count, dex_index_bytes(&index),
		(uint64_t)((clock_now_ns(CLOCK_MONOTONIC) - begin_ns) / 1000));
	printf("dex %u %" PRIu64 " %" PRIu64 " %s%03u\n", number++, at, dex.file_bytes,
	       dex.compact ? "c" : "", dex.version);
	err = print_codes(&dex, &index);
	dex_index_free(&index);
	return err;
}

static int print_zip(const struct byte_source *source)
{
	struct zip_file zip;
	struct zip_dex dex;
	int err = zip_file_open(&zip, source);

	while (!err) {
		err = zip_file_next(&zip, &dex);
		if (err == -ENOENT)
			return 0;
		if (!err && dex.stored)
			err = print_dex(source, dex.at);
		else if (!err)
			printf("left out: deflated %s\n", dex.name);
	}
	return err;
}

static int print_vdex(const struct byte_source *source)
{
	struct vdex_file vdex;
	struct vdex_dex dex;
	int err = vdex_file_open(&vdex, source);

	while (!err) {
		err = vdex_file_next(&vdex, &dex);
		if (err == -ENOENT)
			return 0;
		if (!err)
			err = print_dex(source, dex.at);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct byte_source source;
	struct stat st;
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, err;

	if (fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "usage: dex_list FILE [lines]\n");
		return 2;
	}
	lines = argc > 2;
	source = byte_file_source(&fd, (uint64_t)st.st_size);
	err = print_dex(&source, 0);
	if (err == -ENOEXEC)
		err = print_vdex(&source);
	if (err == -ENOEXEC)
		err = print_zip(&source);
	if (err)
		printf("error %s\n", strerrorname_np(-err));
	return err ? 1 : 0;
}
