/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/vdex_file.h"

#include <stdbool.h>

#define SECTIONS_MAX   64
#define SECTION_BYTES  12 /* 027: kind, offset, size */
#define CHECKSUM_BYTES 4
#define MIN_DEX_BYTES  112

enum { SECTION_CHECKSUMS = 0, SECTION_DEX = 1 };

static bool fits(const struct vdex_file *vdex, uint64_t at, uint64_t size)
{
	return at <= vdex->source.size && size <= vdex->source.size - at;
}

/* 027: number of sections, then where each is. */
static int open_sections(struct vdex_file *vdex)
{
	uint8_t head[4], section[SECTION_BYTES];
	int err = byte_source_read(&vdex->source, 8, head, sizeof(head));
	uint32_t count = err ? 0 : load_le32(head);

	if (err || count > SECTIONS_MAX)
		return err ?: -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t kind, offset, size;

		err = byte_source_read(&vdex->source, 12 + i * SECTION_BYTES, section,
				       sizeof(section));
		if (err)
			return err;
		kind = load_le32(section);
		offset = load_le32(section + 4);
		size = load_le32(section + 8);
		if (!fits(vdex, offset, size))
			return -EBADMSG;
		if (kind == SECTION_CHECKSUMS) {
			vdex->left = size / CHECKSUM_BYTES;
			vdex->checksum_at = offset;
		}
		if (kind != SECTION_DEX)
			continue;
		vdex->at = offset;
		vdex->end = offset + size;
	}
	return 0;
}

/* 019: number of DEX files, size of the verifier's part, then (021) of two more; a checksum for
 * each DEX file; where there are any here, their size, that of data they share, and that of
 * quickening. The second version in the header is "002" then. */
static int open_two_versions(struct vdex_file *vdex)
{
	uint32_t header = vdex->version == 19 ? 20 : 28;
	uint8_t bytes[28], sizes[12];
	uint64_t at;
	int err = byte_source_read(&vdex->source, 0, bytes, header);

	if (err)
		return err;
	if (!memcmp(bytes + 8, "000", 4))
		return 0;
	if (memcmp(bytes + 8, "002", 4))
		return -ENOTSUP;
	vdex->left = load_le32(bytes + 12);
	vdex->checksum_at = header;
	at = header + (uint64_t)vdex->left * CHECKSUM_BYTES;
	err = byte_source_read(&vdex->source, at, sizes, sizeof(sizes));
	if (err)
		return err;
	vdex->before = 4;
	vdex->at = at + sizeof(sizes);
	vdex->end = vdex->at + load_le32(sizes);
	return 0;
}

/* 006 and 010: number of DEX files, their size, two more sizes; a checksum for each; the files. */
static int open_one_version(struct vdex_file *vdex)
{
	uint8_t header[24];
	int err = byte_source_read(&vdex->source, 0, header, sizeof(header));

	if (err)
		return err;
	vdex->left = load_le32(header + 8);
	vdex->checksum_at = sizeof(header);
	vdex->at = sizeof(header) + (uint64_t)vdex->left * CHECKSUM_BYTES;
	vdex->end = vdex->at + load_le32(header + 12);
	return 0;
}

int vdex_file_open(struct vdex_file *vdex, const struct byte_source *source)
{
	uint8_t magic[8];
	int err;

	*vdex = (struct vdex_file){.source = *source};
	err = byte_source_read(source, 0, magic, sizeof(magic));
	if (err)
		return err == -EBADMSG ? -ENOEXEC : err;
	if (memcmp(magic, "vdex", 4))
		return -ENOEXEC;
	if (!memcmp(magic + 4, "027", 4)) {
		vdex->version = 27;
		err = open_sections(vdex);
	} else if (!memcmp(magic + 4, "021", 4) || !memcmp(magic + 4, "019", 4)) {
		vdex->version = magic[5] == '2' ? 21 : 19;
		err = open_two_versions(vdex);
	} else if (!memcmp(magic + 4, "010", 4) || !memcmp(magic + 4, "006", 4)) {
		vdex->version = magic[5] == '1' ? 10 : 6;
		err = open_one_version(vdex);
	} else {
		err = -ENOTSUP;
	}
	if (err)
		return err;
	return fits(vdex, vdex->at, vdex->end - vdex->at) ? 0 : -EBADMSG;
}

int vdex_file_next(struct vdex_file *vdex, struct vdex_dex *dex)
{
	uint8_t header[36], checksum[CHECKSUM_BYTES];
	uint64_t size;
	int err;

	if (!vdex->left || vdex->at >= vdex->end)
		return -ENOENT;
	if (vdex->end - vdex->at < vdex->before + sizeof(header))
		return -EBADMSG;
	err = byte_source_read(&vdex->source, vdex->at + vdex->before, header, sizeof(header));
	if (err)
		return err;
	size = load_le32(header + 32);
	if ((memcmp(header, "dex\n", 4) && memcmp(header, "cdex", 4)) || size < MIN_DEX_BYTES ||
	    size > vdex->end - vdex->at - vdex->before)
		return -EBADMSG;
	err = byte_source_read(&vdex->source, vdex->checksum_at, checksum, sizeof(checksum));
	if (err)
		return err;
	*dex = (struct vdex_dex){vdex->at + vdex->before, size, load_le32(checksum)};
	vdex->checksum_at += CHECKSUM_BYTES;
	/* The next one is aligned by 4. */
	vdex->at = (dex->at + size + 3) & ~3ull;
	vdex->left--;
	return 0;
}
