/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/zip_file.h"

#include <stdlib.h>

#define END_MAGIC     0x06054b50u
#define CENTRAL_MAGIC 0x02014b50u
#define LOCAL_MAGIC   0x04034b50u
#define END_BYTES     22
#define CENTRAL_BYTES 46
#define LOCAL_BYTES   30
#define COMMENT_MAX   65535u
#define NAME_LIMIT    (ZIP_NAME_BYTES - 1)
#define ENTRY_BYTES   (CENTRAL_BYTES + NAME_LIMIT)

enum { METHOD_STORED = 0, METHOD_DEFLATED = 8, FLAG_ENCRYPTED = 1 };

static int take_end(struct zip_file *zip, const uint8_t *end, uint64_t end_at)
{
	uint32_t size = load_le32(end + 12), at = load_le32(end + 16);

	zip->left = load_le16(end + 10);
	if (zip->left == UINT16_MAX || size == UINT32_MAX || at == UINT32_MAX ||
	    load_le16(end + 4) || load_le16(end + 6) || load_le16(end + 8) != zip->left)
		return -ENOTSUP;
	if (at > end_at || size > end_at - at)
		return -EBADMSG;
	zip->at = at;
	zip->end = (uint64_t)at + size;
	return 0;
}

/* The end record is the last one whose comment ends with the file. */
int zip_file_open(struct zip_file *zip, const struct byte_source *source)
{
	size_t length = END_BYTES + COMMENT_MAX;
	uint8_t *tail;
	int err;

	zip->source = *source;
	zip->from = zip->length = 0;
	if (source->size < END_BYTES)
		return -ENOEXEC;
	if (length > source->size)
		length = source->size;
	tail = malloc(length);
	if (!tail)
		return -ENOMEM;
	err = byte_source_read(source, source->size - length, tail, length);
	for (size_t i = length - END_BYTES + 1; !err && i--;) {
		if (load_le32(tail + i) != END_MAGIC ||
		    load_le16(tail + i + 20) != length - END_BYTES - i)
			continue;
		err = take_end(zip, tail + i, source->size - length + i);
		free(tail);
		return err;
	}
	free(tail);
	return err ?: -ENOEXEC;
}

/* "classes.dex", "classes2.dex" .. as ART counts them (DexFileLoader::GetMultiDexClassesDexName).
 */
static bool is_dex_name(const char *name)
{
	const char *at = name + strlen("classes");

	if (strncmp(name, "classes", strlen("classes")))
		return false;
	if (*at >= '1' && *at <= '9')
		while (*at >= '0' && *at <= '9')
			at++;
	return !strcmp(at, ".dex");
}

/* The bytes come after the local header, whose name and extra field have lengths of their own. */
static int find_data(const struct zip_file *zip, uint32_t header_at, struct zip_dex *dex)
{
	uint8_t header[LOCAL_BYTES];
	int err = byte_source_read(&zip->source, header_at, header, sizeof(header));

	if (err)
		return err;
	dex->at =
		(uint64_t)header_at + LOCAL_BYTES + load_le16(header + 26) + load_le16(header + 28);
	if (load_le32(header) != LOCAL_MAGIC || dex->at > zip->source.size ||
	    dex->stored_bytes > zip->source.size - dex->at)
		return -EBADMSG;
	return 0;
}

/* The next length bytes of the directory, which are there. */
static int look_at(struct zip_file *zip, uint64_t length, const uint8_t **bytes)
{
	uint64_t there = zip->end - zip->at;
	int err = 0;

	if (zip->at < zip->from || zip->at - zip->from > zip->length ||
	    length > zip->length - (zip->at - zip->from)) {
		zip->from = zip->at;
		zip->length = there < ZIP_PIECE_BYTES ? (uint32_t)there : ZIP_PIECE_BYTES;
		err = byte_source_read(&zip->source, zip->at, zip->bytes, zip->length);
		zip->length = err ? 0 : zip->length;
	}
	*bytes = zip->bytes + (zip->at - zip->from);
	return err;
}

int zip_file_next(struct zip_file *zip, struct zip_dex *dex)
{
	const uint8_t *entry;

	while (zip->left) {
		uint64_t there = zip->end - zip->at, length;
		unsigned name_bytes, method;
		int err;

		if (there < CENTRAL_BYTES)
			return -EBADMSG;
		err = look_at(zip, there < ENTRY_BYTES ? there : ENTRY_BYTES, &entry);
		if (err)
			return err;
		name_bytes = load_le16(entry + 28);
		length = (uint64_t)CENTRAL_BYTES + name_bytes + load_le16(entry + 30) +
			 load_le16(entry + 32);
		if (load_le32(entry) != CENTRAL_MAGIC || length > there)
			return -EBADMSG;
		zip->at += length;
		zip->left--;
		if (name_bytes > NAME_LIMIT)
			continue;
		memcpy(dex->name, entry + CENTRAL_BYTES, name_bytes);
		dex->name[name_bytes] = 0;
		method = load_le16(entry + 10);
		if (!is_dex_name(dex->name) || load_le16(entry + 8) & FLAG_ENCRYPTED ||
		    (method != METHOD_STORED && method != METHOD_DEFLATED))
			continue;
		dex->checksum = load_le32(entry + 16);
		dex->stored = method == METHOD_STORED;
		dex->stored_bytes = load_le32(entry + 20);
		dex->size = load_le32(entry + 24);
		if (dex->stored && dex->size != dex->stored_bytes)
			return -EBADMSG;
		return find_data(zip, load_le32(entry + 42), dex);
	}
	return -ENOENT;
}
