/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/art_method.h"

#include "stack/code/dex_file.h"

/* runtime/art_method.h: declaring_class_ and access_flags_ come first; Android 12 (195) dropped
 * dex_code_item_offset_, which stood before dex_method_index_. */
#define METHOD_BYTES   16
#define AT_INDEX       8
#define AT_INDEX_TO_11 12
/* runtime/mirror/class.h: behind the two words of each object, references in the order of their
 * names: class_loader_, component_type_, dex_cache_. */
#define AT_DEX_CACHE 16
/* runtime/mirror/dex_cache.h: references and numbers of 32 bits fill up to here. */
#define AT_DEX_FILE 16
/* libdexfile/dex/dex_file.h: behind the table of functions. */
#define AT_BEGIN 8

static bool find_index(unsigned version, unsigned *at)
{
	if (version != 170 && !(version >= 173 && version <= 183) && version < 195)
		return false;
	*at = version <= 183 ? AT_INDEX_TO_11 : AT_INDEX;
	return true;
}

static int read_pointer(const struct byte_source *source, enum stack_arch arch, uint64_t address,
			uint64_t *pointer)
{
	uint8_t bytes[8];
	int err = byte_source_read(source, address, bytes, sizeof(bytes));

	if (err)
		return err;
	*pointer = load_le32(bytes) | (uint64_t)load_le32(bytes + 4) << 32;
	/* Memory of malloc has tags. */
	if (arch == STACK_ARM64)
		*pointer = *pointer << 8 >> 8;
	return *pointer ? 0 : -EBADMSG;
}

int art_method_read(const struct byte_source *source, enum stack_arch arch, unsigned version,
		    uint64_t address, struct art_method *method)
{
	uint8_t bytes[METHOD_BYTES], cache[4], again[METHOD_BYTES];
	uint64_t dex_file;
	unsigned at_index;
	int err;

	if (!find_index(version, &at_index))
		return -ENOTSUP;
	err = byte_source_read(source, address, bytes, sizeof(bytes));
	if (!err)
		err = byte_source_read(source, load_le32(bytes) + (uint64_t)AT_DEX_CACHE, cache,
				       sizeof(cache));
	if (!err)
		err = read_pointer(source, arch, load_le32(cache) + (uint64_t)AT_DEX_FILE,
				   &dex_file);
	if (!err)
		err = read_pointer(source, arch, dex_file + AT_BEGIN, &method->dex);
	/* A collector moves classes. */
	if (!err)
		err = byte_source_read(source, address, again, sizeof(again));
	if (err)
		return err;
	method->number = load_le32(bytes + at_index);
	return memcmp(bytes, again, 4) || method->number >= DEX_MAX_IDS ? -EBADMSG : 0;
}
