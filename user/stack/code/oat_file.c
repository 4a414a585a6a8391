/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat_file.h"

#include <stdlib.h>

#define HEADER_BYTES 40
#define AT_DEX_COUNT 20
#define AT_DEX_FILES 24
#define MAX_LOCATION 4096
#define SHA1_BYTES   20

/* Bytes at an offset of oat data: at an ELF address, in the file where a segment says. Between
 * segments there are zeros. */
static int read_oat(void *ctx, uint64_t offset, void *to, size_t length)
{
	const struct oat_file *oat = ctx;
	uint64_t from = oat->begin + offset, end = from + length;

	memset(to, 0, length);
	for (unsigned i = 0; i < oat->elf->load_count; i++) {
		const struct elf_load *load = &oat->elf->loads[i];
		uint64_t first = load->address > from ? load->address : from,
			 last = load->address + load->file_bytes;
		int err;

		if (last < load->address)
			continue;
		if (last > end)
			last = end;
		if (first >= last)
			continue;
		err = elf_file_read(oat->elf, load->offset + (first - load->address),
				    (uint8_t *)to + (first - from), last - first);
		if (err)
			return err;
	}
	return 0;
}

struct byte_source oat_file_source(const struct oat_file *oat)
{
	struct byte_source source = {read_oat, (void *)oat, 0};

	for (unsigned i = 0; i < oat->elf->load_count; i++) {
		const struct elf_load *load = &oat->elf->loads[i];
		uint64_t end = load->address + load->file_bytes;

		if (end >= load->address && end > oat->begin && end - oat->begin > source.size)
			source.size = end - oat->begin;
	}
	/* Offsets have 32 bits. */
	if (source.size > UINT32_MAX)
		source.size = UINT32_MAX;
	return source;
}

/* The commits that changed each of these are named by the versions (art's history of oat.h). */
bool oat_version_layout(unsigned version, struct code_info_layout *layout)
{
	unsigned v = version;

	if (v != 138 && v != 170 && !(v >= 173 && v <= 231) && !(v >= 233 && v <= 239) &&
	    !(v >= 241 && v <= 259))
		return false;
	layout->format = v >= 239   ? CODE_INFO_BARE
			 : v == 238 ? CODE_INFO_MARKED
			 : v >= 192 ? CODE_INFO_SHORT
			 : v == 191 ? CODE_INFO_SIZED
			 : v >= 173 ? CODE_INFO_PACKED
			 : v == 170 ? CODE_INFO_PLAIN
				    : CODE_INFO_HEADER;
	layout->method_columns = v >= 210 ? 3 : v >= 205 ? 2 : 1;
	return true;
}

/* Numbers behind those that are read here: class offsets, type lookup, layout, and of each kind of
 * .bss entry where its numbers are. */
static unsigned numbers_behind(unsigned version)
{
	return 3 + (version >= 241 ? 6 : version >= 186 ? 5 : 3);
}

static int read_dex(struct oat_file *oat, const struct byte_source *source, uint64_t *at,
		    struct oat_dex *dex)
{
	uint8_t bytes[64];
	uint32_t length, shown, magic = 0, sha1 = 0, fixed;
	int err = byte_source_read(source, *at, bytes, 4);

	if (err)
		return err;
	length = load_le32(bytes);
	if (!length || length > MAX_LOCATION)
		return -EBADMSG;
	/* Of a longer one, the end tells which file it is. */
	shown = length < OAT_LOCATION_BYTES ? length : OAT_LOCATION_BYTES - 1;
	err = byte_source_read(source, *at + 4 + (length - shown), dex->location, shown);
	dex->location[shown] = 0;
	*at += 4 + length;
	if (!err && oat->version >= 233)
		err = byte_source_read(source, *at, bytes, 4);
	/* ART's module for Android 14 counted up to 236 without the magic and the digest. */
	if (!err && oat->version >= 233 &&
	    (!memcmp(bytes, "dex\n", 4) || !memcmp(bytes, "cdex", 4))) {
		magic = 8;
		sha1 = SHA1_BYTES;
	} else if (!err && oat->version > 236) {
		return -EBADMSG;
	}
	fixed = magic + 4 + sha1 + 4 + 4;
	if (!err)
		err = byte_source_read(source, *at, bytes, fixed);
	if (err)
		return err;
	dex->checksum = load_le32(bytes + magic);
	dex->has_sha1 = sha1;
	memcpy(dex->sha1, bytes + magic + 4, sha1);
	dex->classes_at = load_le32(bytes + magic + 4 + sha1 + 4);
	*at += magic + 4 + sha1 + 4 + 4ull * numbers_behind(oat->version);
	return 0;
}

static int read_version(const uint8_t header[8], unsigned *version)
{
	*version = 0;
	if (memcmp(header, "oat\n", 4) || header[7])
		return -EBADMSG;
	for (unsigned i = 4; i < 7; i++) {
		if (header[i] < '0' || header[i] > '9')
			return -EBADMSG;
		*version = *version * 10 + (header[i] - '0');
	}
	return 0;
}

int oat_file_version(const struct elf_file *elf, uint64_t begin, unsigned *version)
{
	const struct oat_file oat = {.elf = elf, .begin = begin};
	const struct byte_source source = oat_file_source(&oat);
	uint8_t header[8];
	int err = byte_source_read(&source, 0, header, sizeof(header));

	return err ? err : read_version(header, version);
}

int oat_file_open(struct oat_file *oat, const struct elf_file *elf, uint64_t begin)
{
	struct byte_source source;
	uint8_t header[HEADER_BYTES];
	uint64_t at;
	int err;

	*oat = (struct oat_file){.elf = elf, .begin = begin};
	source = oat_file_source(oat);
	err = byte_source_read(&source, 0, header, sizeof(header));
	if (!err)
		err = read_version(header, &oat->version);
	if (err)
		return err;
	if (!oat_version_layout(oat->version, &oat->code_info))
		return -ENOTSUP;
	oat->counted_classes = oat->version >= 194;
	oat->dex_count = load_le32(header + AT_DEX_COUNT);
	at = load_le32(header + AT_DEX_FILES);
	if (oat->dex_count > OAT_MAX_DEX_FILES || at < HEADER_BYTES)
		return -EBADMSG;
	oat->dex = calloc(oat->dex_count + 1, sizeof(*oat->dex));
	if (!oat->dex)
		return -ENOMEM;
	for (uint32_t i = 0; i < oat->dex_count && !err; i++)
		err = read_dex(oat, &source, &at, &oat->dex[i]);
	if (err)
		oat_file_free(oat);
	return err;
}

void oat_file_free(struct oat_file *oat)
{
	free(oat->dex);
	oat->dex = NULL;
	oat->dex_count = 0;
}

size_t oat_file_bytes(const struct oat_file *oat)
{
	return oat->dex_count * sizeof(*oat->dex);
}
