/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex_file.h"

#include "util/hash.h"

#define HEADER_BYTES         112 /* dex-format, "header_item" */
#define HEADER_BYTES_41      120
#define HEADER_BYTES_COMPACT 136
#define LITTLE_ENDIAN_TAG    0x12345678u

/* offsets in the header */
enum {
	AT_FILE_SIZE = 32,
	AT_HEADER_SIZE = 36,
	AT_ENDIAN = 40,
	AT_STRINGS = 56, /* of each: the count, then the offset */
	AT_TYPES = 64,
	AT_FIELDS = 80,
	AT_METHODS = 88,
	AT_CLASSES = 96,
	AT_DATA_SIZE = 104,
	AT_DATA = 108,
	AT_CONTAINER_SIZE = 112, /* 041 */
	AT_HEADER_OFFSET = 116,
	AT_DEBUG_OFFSETS = 116, /* compact dex */
	AT_DEBUG_TABLE = 120,
	AT_DEBUG_BASE = 124,
};

static int read_table(const struct dex_file *dex, const uint8_t *at, uint64_t from,
		      unsigned entry_bytes, uint32_t most, struct dex_table *table)
{
	uint32_t count = load_le32(at), offset = load_le32(at + 4);

	table->count = count;
	table->at = from + offset;
	if (count > most || (count && (table->at > dex->end ||
				       (uint64_t)count * entry_bytes > dex->end - table->at)))
		return -EBADMSG;
	return 0;
}

static int version_of(const uint8_t *header, unsigned *version, bool *compact)
{
	const uint8_t *digits = header + 4;

	*compact = !memcmp(header, "cdex", 4);
	if (!*compact && memcmp(header, "dex\n", 4))
		return -ENOEXEC;
	for (unsigned i = 0; i < 3; i++)
		if (digits[i] < '0' || digits[i] > '9')
			return -ENOEXEC;
	if (digits[3])
		return -ENOEXEC;
	*version = (digits[0] - '0') * 100u + (digits[1] - '0') * 10u + (digits[2] - '0');
	if (*compact)
		return *version == 1 ? 0 : -ENOTSUP;
	/* 036 was never written by a release; its files are as those of 035. */
	return *version >= 35 && *version <= 41 ? 0 : -ENOTSUP;
}

/* Where the offsets of tables count from. art/libdexfile/dex/dex_file.cc: all offsets of 041 count
 * from the container; those of the tables of compact dex from the header, the others from its data.
 */
static int lay_out(struct dex_file *dex, const uint8_t *header, uint64_t *tables)
{
	uint64_t size = dex->source.size;

	dex->file_bytes = load_le32(header + AT_FILE_SIZE);
	*tables = dex->data = dex->start;
	dex->end = dex->start + dex->file_bytes;
	if (dex->compact) {
		dex->data = dex->start + load_le32(header + AT_DATA);
		dex->end = dex->data + load_le32(header + AT_DATA_SIZE);
		dex->debug_offsets = load_le32(header + AT_DEBUG_OFFSETS);
		dex->debug_table = load_le32(header + AT_DEBUG_TABLE);
		dex->debug_base = load_le32(header + AT_DEBUG_BASE);
	} else if (dex->version >= 41) {
		uint32_t before = load_le32(header + AT_HEADER_OFFSET);

		if (before > dex->start)
			return -EBADMSG;
		*tables = dex->data = dex->start - before;
		dex->end = dex->data + load_le32(header + AT_CONTAINER_SIZE);
	}
	if (dex->end > size)
		dex->end = size;
	return dex->data > size ? -EBADMSG : 0;
}

int dex_file_open(struct dex_file *dex, const struct byte_source *source, uint64_t start)
{
	uint8_t header[HEADER_BYTES_COMPACT] = {0};
	uint32_t header_size;
	struct dex_table fields;
	uint64_t tables;
	int err;

	*dex = (struct dex_file){.source = *source, .start = start};
	err = byte_source_read(source, start, header, 8);
	if (err)
		return err == -EBADMSG ? -ENOEXEC : err;
	err = version_of(header, &dex->version, &dex->compact);
	if (err)
		return err;
	header_size = dex->compact         ? HEADER_BYTES_COMPACT
		      : dex->version >= 41 ? HEADER_BYTES_41
					   : HEADER_BYTES;
	err = byte_source_read(source, start, header, header_size);
	if (err)
		return err;
	if (load_le32(header + AT_ENDIAN) != LITTLE_ENDIAN_TAG ||
	    load_le32(header + AT_HEADER_SIZE) < header_size)
		return -EBADMSG;
	dex->identity = hash_bytes(header, header_size, 4);
	err = lay_out(dex, header, &tables);
	if (!err)
		err = read_table(dex, header + AT_STRINGS, tables, 4, UINT32_MAX, &dex->strings);
	if (!err)
		err = read_table(dex, header + AT_TYPES, tables, 4, DEX_MAX_IDS, &dex->types);
	if (!err)
		err = read_table(dex, header + AT_FIELDS, tables, 8, DEX_MAX_IDS, &fields);
	if (!err)
		err = read_table(dex, header + AT_METHODS, tables, 8, DEX_MAX_IDS, &dex->methods);
	if (!err)
		err = read_table(dex, header + AT_CLASSES, tables, 32, DEX_MAX_IDS, &dex->classes);
	dex->field_count = err ? 0 : fields.count;
	return err;
}
