/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat_dex.h"

#include "stack/code/dex_archive.h"

#define AT_SHA1 12 /* in a DEX header */

struct path {
	const char *text;
	size_t length;
};

/* Where the file is, or was: one that is compiled or installed anew is another one, and who runs
 * the old one has it still. */
static struct path path_of(const struct module_scope *scope, const struct map_entry *entry)
{
	return (struct path){maps_path(scope->maps, entry), maps_file_length(scope->maps, entry)};
}

static struct path base_of(struct path path)
{
	const char *slash = memrchr(path.text, '/', path.length);
	size_t skip = slash ? (size_t)(slash + 1 - path.text) : 0;

	return (struct path){path.text + skip, path.length - skip};
}

static bool equal(struct path a, struct path b)
{
	return a.length == b.length && !memcmp(a.text, b.text, a.length);
}

static struct path without_extension(struct path path)
{
	const char *dot = memrchr(path.text, '.', path.length);

	return dot ? (struct path){path.text, (size_t)(dot - path.text)} : path;
}

/* The vdex file beside the oat file. */
static bool is_vdex_of(struct path path, struct path oat)
{
	static const char vdex[] = ".vdex";
	size_t length = sizeof(vdex) - 1;

	return path.length > length && !memcmp(path.text + path.length - length, vdex, length) &&
	       equal(without_extension(path), without_extension(oat));
}

/* The archive that the location names, wherever it is: its bytes tell whether it is the one. */
static bool is_location(struct path path, struct path location)
{
	return equal(base_of(path), base_of(location));
}

/* "a.apk!classes2.dex" is in a.apk. */
static struct path archive_of(const char *location)
{
	const char *mark = strchr(location, '!');

	return (struct path){location, mark ? (size_t)(mark - location) : strlen(location)};
}

/* A file that changed, or another one of the same name, has another checksum; the digest, where
 * there is one, tells it surely. */
static int open_in(const struct dex_archive *archive, const struct oat_dex *oat_dex,
		   uint32_t classes, struct dex_file *dex)
{
	for (unsigned i = 0; i < archive->count; i++) {
		uint8_t sha1[20];

		if (!oat_dex->has_sha1 && archive->files[i].checksum != oat_dex->checksum)
			continue;
		if (dex_file_open(dex, &archive->source, archive->files[i].start) ||
		    dex->classes.count != classes)
			continue;
		if (!oat_dex->has_sha1)
			return 0;
		if (!byte_source_read(&archive->source, archive->files[i].start + AT_SHA1, sha1,
				      sizeof(sha1)) &&
		    !memcmp(sha1, oat_dex->sha1, sizeof(sha1)))
			return 0;
	}
	return -ENOENT;
}

int oat_dex_open(struct dex_code *code, const struct module_scope *scope,
		 const struct map_entry *entry, const struct oat_dex *oat_dex, uint32_t classes,
		 struct dex_file *dex)
{
	struct path oat = path_of(scope, entry);
	struct path location = archive_of(oat_dex->location);
	uint64_t last_inode = 0;

	for (size_t i = 0; i < scope->maps->count; i++) {
		const struct map_entry *other = &scope->maps->entries[i];
		struct path path = path_of(scope, other);
		const struct dex_archive *archive;

		if (!other->inode || other->inode == last_inode ||
		    (!is_vdex_of(path, oat) && !is_location(path, location)))
			continue;
		last_inode = other->inode;
		archive = dex_code_archive(code, scope, other);
		if (archive && !open_in(archive, oat_dex, classes, dex))
			return 0;
	}
	return -ENOENT;
}
