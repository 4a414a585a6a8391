/* SPDX-License-Identifier: BSD-2-Clause */
/* Where DEX files are inside of vdex and zip files, made here. */
#include <criterion/criterion.h>

#include "stack/code/vdex_file.h"
#include "stack/code/zip_file.h"
#include "unit/made_dex.h"

static const char *const versions[] = {"006", "010", "019", "021", "027"};

Test(vdex_file, each_version)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct made_dex_facts facts[2];
		struct byte_source source;
		struct made_bytes made;
		struct vdex_file vdex;
		struct vdex_dex dex;

		made_vdex(&made, versions[i], facts);
		source = made_source(made.bytes, made.size);
		cr_assert_eq(vdex_file_open(&vdex, &source), 0, "%s", versions[i]);
		for (unsigned n = 0; n < 2; n++) {
			cr_assert_eq(vdex_file_next(&vdex, &dex), 0, "%s", versions[i]);
			cr_expect_eq(dex.at, facts[n].start, "%s", versions[i]);
			cr_expect_eq(dex.checksum, n + 1, "%s", versions[i]);
		}
		cr_expect_eq(dex.at + dex.size, made.size);
		cr_expect_eq(vdex_file_next(&vdex, &dex), -ENOENT);
	}
}

Test(vdex_file, each_length)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct made_dex_facts facts[2];
		struct made_bytes made;

		made_vdex(&made, versions[i], facts);
		for (size_t length = 0; length < made.size; length++) {
			uint8_t *cut = malloc(length ? length : 1);
			struct byte_source source = made_source(cut, length);
			struct vdex_file vdex;

			memcpy(cut, made.bytes, length);
			cr_expect_eq(vdex_file_open(&vdex, &source),
				     length < 8 ? -ENOEXEC : -EBADMSG, "%s %zu", versions[i],
				     length);
			free(cut);
		}
	}
}

Test(vdex_file, odd)
{
	struct made_dex_facts facts[2];
	struct byte_source source;
	struct made_bytes made;
	struct vdex_file vdex;
	struct vdex_dex dex;

	made_vdex(&made, "027", facts);
	source = made_source(made.bytes, made.size);
	memcpy(made.bytes + 4, "028", 4);
	cr_expect_eq(vdex_file_open(&vdex, &source), -ENOTSUP);
	memcpy(made.bytes + 4, "027", 4);
	made_set32(&made, 8, 65);
	cr_expect_eq(vdex_file_open(&vdex, &source), -EBADMSG, "sections");
	made_set32(&made, 8, 4);
	made_set32(&made, facts[0].start + 32, 0xffffffff);
	cr_expect_eq(vdex_file_open(&vdex, &source), 0);
	cr_expect_eq(vdex_file_next(&vdex, &dex), -EBADMSG, "longer than its section");
	made_set32(&made, facts[0].start + 32, 0);
	cr_expect_eq(vdex_file_open(&vdex, &source), 0);
	cr_expect_eq(vdex_file_next(&vdex, &dex), -EBADMSG, "of no length");
	/* The DEX files stay in the APK: Android 9 to 11 write another second version. */
	made_vdex(&made, "021", facts);
	memcpy(made.bytes + 8, "000", 4);
	source = made_source(made.bytes, made.size);
	cr_expect_eq(vdex_file_open(&vdex, &source), 0);
	cr_expect_eq(vdex_file_next(&vdex, &dex), -ENOENT);
	memcpy(made.bytes + 8, "003", 4);
	cr_expect_eq(vdex_file_open(&vdex, &source), -ENOTSUP);
}

/* ---- zip ---- */

static const struct made_entry apk[] = {
	{"AndroidManifest.xml", 8, 0, 0, 20},
	{"classes.dex", 0, 0, 3, 100},
	{"lib/arm64-v8a/a-library-with-a-rather-long-name.so", 0, 0, 0, 10},
	{"classes2.dex", 8, 0, 0, 30},
	{"classes3.dex", 0, 1, 0, 30},  /* encrypted */
	{"classes4.dex", 12, 0, 0, 30}, /* bzip2 */
	{"classes05.dex", 0, 0, 0, 10}, /* no name of ART's */
	{"assets/classes.dex", 0, 0, 0, 10},
};

Test(zip_file, entries)
{
	struct byte_source source;
	struct made_bytes made;
	struct zip_file zip;
	struct zip_dex dex;
	size_t data[8];

	memset(&made, 0, sizeof(made));
	/* The comment looks like an end of its own. */
	made_zip(&made, apk, 8, "PK\5\6 and so on: not the end, whose comment ends the file", data);
	source = made_source(made.bytes, made.size);
	cr_assert_eq(zip_file_open(&zip, &source), 0);
	cr_assert_eq(zip_file_next(&zip, &dex), 0);
	cr_expect_str_eq(dex.name, "classes.dex");
	cr_expect_eq(dex.at, data[1]);
	cr_expect_eq(dex.size, 100);
	cr_expect(dex.stored);
	cr_assert_eq(zip_file_next(&zip, &dex), 0);
	cr_expect_str_eq(dex.name, "classes2.dex");
	cr_expect_eq(dex.at, data[3]);
	cr_expect_eq(dex.stored_bytes, 30);
	cr_expect_eq(dex.size, 90);
	cr_expect_not(dex.stored);
	cr_expect_eq(zip_file_next(&zip, &dex), -ENOENT);
}

Test(zip_file, each_length)
{
	struct made_bytes made;
	size_t data[8];

	memset(&made, 0, sizeof(made));
	made_zip(&made, apk, 8, "", data);
	for (size_t length = 0; length < made.size; length++) {
		uint8_t *cut = malloc(length ? length : 1);
		struct byte_source source = made_source(cut, length);
		struct zip_file zip;

		memcpy(cut, made.bytes, length);
		cr_expect_eq(zip_file_open(&zip, &source), -ENOEXEC, "%zu", length);
		free(cut);
	}
}

static int open_end_with(size_t at, unsigned value)
{
	struct made_bytes made, changed = {.size = 0};
	struct byte_source source;
	struct zip_file zip;
	struct zip_dex dex;
	size_t data[8];
	int err;

	memset(&made, 0, sizeof(made));
	made_zip(&made, apk, 8, "", data);
	made_u16(&changed, value);
	memcpy(made.bytes + made.size - 22 + at, changed.bytes, 2);
	source = made_source(made.bytes, made.size);
	err = zip_file_open(&zip, &source);
	while (!err)
		err = zip_file_next(&zip, &dex);
	return err;
}

Test(zip_file, odd)
{
	cr_expect_eq(open_end_with(4, 0), -ENOENT, "as it is");
	cr_expect_eq(open_end_with(4, 1), -ENOTSUP, "several disks");
	cr_expect_eq(open_end_with(6, 1), -ENOTSUP);
	cr_expect_eq(open_end_with(8, 7), -ENOTSUP, "entries elsewhere");
	cr_expect_eq(open_end_with(10, 0xffff), -ENOTSUP, "zip64");
	cr_expect_eq(open_end_with(14, 1), -EBADMSG, "directory longer than the file");
	cr_expect_eq(open_end_with(16, 3), -EBADMSG, "no directory there");
	cr_expect_eq(open_end_with(12, 60), -EBADMSG, "directory cut");
}

/* An app may have 65,000 entries. */
static unsigned reads;

static int read_and_count(void *ctx, uint64_t offset, void *to, size_t length)
{
	reads++;
	return made_read(ctx, offset, to, length);
}

Test(zip_file, directory_is_read_in_pieces)
{
	static struct made_bytes made;
	struct made_entry entries[400];
	struct byte_source source;
	struct zip_file zip;
	struct zip_dex dex;
	size_t data[400];

	for (unsigned i = 0; i < 400; i++)
		entries[i] = (struct made_entry){i == 300 ? "classes.dex" : "res/drawable/a.png", 0,
						 0, 0, 1};
	made_zip(&made, entries, 400, "", data);
	source = made_source(made.bytes, made.size);
	source.read = read_and_count;
	cr_assert_eq(zip_file_open(&zip, &source), 0);
	cr_assert_eq(zip_file_next(&zip, &dex), 0);
	cr_expect_eq(dex.at, data[300]);
	cr_expect_eq(zip_file_next(&zip, &dex), -ENOENT);
	cr_expect_lt(reads, 20, "%u", reads);
}
