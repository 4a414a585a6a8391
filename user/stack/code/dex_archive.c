/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex_archive.h"

#include <stdlib.h>
#include <unistd.h>

#include "stack/code/byte_file.h"
#include "stack/code/vdex_file.h"
#include "stack/code/zip_file.h"

#define AT_CHECKSUM 8 /* in a DEX header */

/* Room for one more. */
static int grow(struct dex_archive *archive)
{
	struct dex_span *grown;

	if (archive->count & (archive->count - 1))
		return 0;
	grown = realloc(archive->files, (archive->count ?: 1) * 2 * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	archive->files = grown;
	return 0;
}

/* The DEX file at start, and those behind it in its container (041). checksum: of the entry that it
 * is in; NULL: in none. */
static int add(struct dex_archive *archive, uint64_t start, const uint32_t *checksum)
{
	struct dex_file dex;
	uint8_t own[4];
	int err = 0;

	for (;;) {
		err = dex_file_open(&dex, &archive->source, start);
		if (!err && archive->count == DEX_ARCHIVE_FILES) {
			archive->cut = true;
			break;
		}
		err = err ?: grow(archive);
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

static bool is_wrong(int err)
{
	return err == -ENOEXEC || err == -EBADMSG || err == -ENOTSUP;
}

static int add_all_of_zip(struct dex_archive *archive)
{
	struct zip_file zip;
	struct zip_dex dex;
	unsigned tried = 0;
	int err = zip_file_open(&zip, &archive->source);

	while (!err && !archive->cut) {
		err = zip_file_next(&zip, &dex);
		archive->cut = !err && ++tried > DEX_ARCHIVE_FILES;
		/* ART unpacks what is deflated into memory. One that makes no sense is no reason to
		 * miss the others. */
		if (!err && !archive->cut && dex.stored) {
			err = add(archive, dex.at, &dex.checksum);
			archive->wrong = is_wrong(err) ? err : archive->wrong;
			err = is_wrong(err) ? 0 : err;
		}
	}
	return err == -ENOENT ? archive->wrong : err;
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
	free(archive->files);
	free(archive);
}

size_t dex_archive_bytes(const struct dex_archive *archive)
{
	size_t room = 2;

	while (room < archive->count)
		room *= 2;
	return sizeof(*archive) + room * sizeof(*archive->files);
}
