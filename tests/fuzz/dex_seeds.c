/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the files that the fuzzing of byte code starts from.  usage: dex_seeds dex|vdex|zip|oat
 * DIR */
#include <stdio.h>

#include "unit/made_dex.h"
#include "unit/made_oat.h"

static int failed;

static void write_seed(const char *dir, const char *name, const struct made_bytes *made)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	if (!file || fwrite(made->bytes, 1, made->size, file) != made->size)
		failed = 1;
	if (file && fclose(file))
		failed = 1;
}

#define TOLD_BASE 0x10000000ull

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"035", "041", "cdex"};
	static const char *const versions[] = {"006", "010", "019", "021", "027"};
	static struct made_bytes made;
	struct made_dex_facts facts[2];
	struct made_entry entry = {"classes.dex", 0, 0, 0, 0};
	uint8_t digest[20] = {1};
	size_t data;

	if (argc != 3)
		return 2;
	for (unsigned i = 0; i < 3 && !strcmp(argv[1], "dex"); i++) {
		made.size = 0;
		made_dex(&made, (enum made_kind)i, 0, facts);
		write_seed(argv[2], kinds[i], &made);
	}
	for (unsigned i = 0; i < 5 && !strcmp(argv[1], "vdex"); i++) {
		made_vdex(&made, versions[i], facts);
		write_seed(argv[2], versions[i], &made);
	}
	for (unsigned i = 0; i < 6 && !strcmp(argv[1], "oat"); i++) {
		static const char *const oats[] = {"138", "170", "183", "225", "239", "259"};

		made_oat(made.bytes, oats[i], digest, i % 2 ? &made_oat_arm64 : &made_oat_x86_64);
		made.size = 0x400;
		write_seed(argv[2], oats[i], &made);
	}
	/* As FUZZ_TOLD takes it (tests/unit/test_jit_told.c has the same, elsewhere). */
	if (!strcmp(argv[1], "told")) {
		struct made_bytes dex = {.size = 0};

		made_dex(&dex, MADE_035, 0, facts);
		for (unsigned arm64 = 0; arm64 < 2; arm64++) {
			const uint64_t words[][2] = {
				{0x400, TOLD_BASE + 0x440}, {0x408, 1},
				{0x450, TOLD_BASE + 0x480}, {0x490, TOLD_BASE + 0x4c0},
				{0x4c8, TOLD_BASE + 0x500},
			};
			uint8_t choice[16] = {(uint8_t)arm64,
					      6,
					      MADE_OAT_SHARED & 255,
					      MADE_OAT_SHARED >> 8,
					      0,
					      4,
					      arm64 ? (uint8_t)made_oat_arm64.call
						    : (uint8_t)made_oat_x86_64.call};

			memset(&made, 0, sizeof(made));
			memcpy(made.bytes, choice, sizeof(choice));
			made_oat(made.bytes + 16, "239", dex.bytes + 12,
				 arm64 ? &made_oat_arm64 : &made_oat_x86_64);
			for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
				memcpy(made.bytes + 16 + words[i][0], &words[i][1], 8);
			memcpy(made.bytes + 16 + 0x500, dex.bytes, dex.size);
			made.size = 16 + 0x500 + dex.size;
			write_seed(argv[2], arm64 ? "arm64" : "x86_64", &made);
		}
	}
	if (!strcmp(argv[1], "zip")) {
		struct made_bytes dex = {.size = 0};

		made_dex(&dex, MADE_035, 0, facts);
		entry.size = (uint32_t)dex.size;
		made_zip(&made, &entry, 1, "a comment", &data);
		memcpy(made.bytes + data, dex.bytes, dex.size);
		write_seed(argv[2], "apk", &made);
	}
	return failed;
}
