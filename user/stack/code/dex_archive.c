/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex_archive.h"

#include <stdlib.h>
#include <unistd.h>

#include "stack/code/byte_file.h"
#include "stack/code/vdex_file.h"
#include "stack/code/zip_file.h"

#define AT_CHECKSUM 8 /* in a DEX header */

/* The DEX file at start, and those behind it in its container (041). checksum: of the entry that it
 * is in; NULL: in none. */
static int add(struct dex_archive *archive, uint64_t start, const uint32_t *checksum)
{
	struct dex_file dex;
	uint8_t own[4];
	int err = 0;

	while (archive->count < DEX_ARCHIVE_FILES) {
		err = dex_file_open(&dex, &archive->source, start);
		if (!err && !checksum)
			err = byte_source_read(&archive->source, start + AT_CHECKSUM, own,
					       sizeof(own));
		if (err)
			return err;
		archive->files[archive->count++] =
			(struct dex_span){start, dex.version >= 41 ? dex.data : start, dex.end,
					  checksum ? *checksum : load_le32(own)};
		start += dex.file_bytes;
		if (dex.version < 41 || !dex.file_bytes || start >= dex.end)
			break;
	}
	return 0;
}

static int add_all_of_zip(struct dex_archive *archive)
{
	struct zip_file zip;
	struct zip_dex dex;
	int err = zip_file_open(&zip, &archive->source);

	while (!err) {
		err = zip_file_next(&zip, &dex);
		/* ART unpacks what is deflated into memory. */
		if (!err && dex.stored)
			err = add(archive, dex.at, &dex.checksum);
	}
	return err == -ENOENT ? 0 : err;
}

static int add_all_of_vdex(struct dex_archive *archive)
{
	struct vdex_file vdex;
	struct vdex_dex dex;
	int err = vdex_file_open(&vdex, &archive->source);

	while (!err) {
		err = vdex_file_next(&vdex, &dex);
		if (!err)
			err = add(archive, dex.at, &dex.checksum);
	}
	return err == -ENOENT ? 0 : err;
}

struct dex_archive *dex_archive_open(const struct stack_file *file)
{
	struct dex_archive *archive = calloc(1, sizeof(*archive));
	int err;

	if (!archive) {
		close(file->fd);
		errno = ENOMEM;
		return NULL;
	}
	archive->version = (struct stack_file_version){file->device, file->inode, file->size_bytes,
						       file->ctime_ns};
	archive->fd = file->fd;
	archive->source = byte_file_source(&archive->fd, file->size_bytes);
	err = add(archive, 0, NULL);
	if (err == -ENOEXEC)
		err = add_all_of_vdex(archive);
	if (err == -ENOEXEC)
		err = add_all_of_zip(archive);
	/* What was found before the damage is there. */
	if (!err || archive->count)
		return archive;
	dex_archive_free(archive);
	errno = -err;
	return NULL;
}

void dex_archive_free(struct dex_archive *archive)
{
	if (!archive)
		return;
	close(archive->fd);
	free(archive);
}
