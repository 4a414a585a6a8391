/* SPDX-License-Identifier: BSD-2-Clause */
/* A hardened reader of what ART's compiler writes beside the code of methods (art/runtime/oat.h and
 * oat_file.cc): which DEX files it compiled, and where the code of each method is. Versions 138
 * (Android 9), 170 (10), 173 to 239 (11 to 14) and 241 to 259 (15, 16) are read; what differs
 * between them is known from the history of these files in AOSP. Those that were never in a release
 * and whose number had more than one layout are refused. All offsets count from the start of oat
 * data, code included. */
#pragma once
#include "stack/code/code_info.h"
#include "stack/elf_file.h"

#define OAT_MAX_DEX_FILES  128
#define OAT_LOCATION_BYTES 256

struct oat_dex {
	char location[OAT_LOCATION_BYTES]; /* "/system/framework/a.jar!classes2.dex", "base.apk" */
	uint32_t checksum; /* of its zip entry; of its header where it is no zip's */
	uint8_t sha1[20];  /* of its header; from version 232 on, else zeros */
	bool has_sha1;
	uint32_t classes_at; /* of the offsets of its classes */
};

struct oat_file {
	/* the ELF file by addresses; borrowed */
	const struct elf_file *elf;
	uint64_t begin; /* ELF address of oat data */
	unsigned version;
	struct code_info_layout code_info;
	bool counted_classes; /* a class tells how many methods it has (194) */
	uint32_t dex_count;
	struct oat_dex *dex; /* owned */
};

/* The version that the oat data at an ELF address says that it has. 0; -EBADMSG; what reading says.
 */
int oat_file_version(const struct elf_file *elf, uint64_t begin, unsigned *version);
/* How the compiler of that version keeps what it knows of code. False: it is not known. */
bool oat_version_layout(unsigned version, struct code_info_layout *layout);

/* Read the header of the oat data at an ELF address. elf is borrowed: oat_file_use gives another
 * one of the same file. 0; -ENOTSUP: of a version that is not known, which is in oat->version;
 * -EBADMSG: malformed; -ENOMEM; -EIO. */
int oat_file_open(struct oat_file *oat, const struct elf_file *elf, uint64_t begin);
void oat_file_free(struct oat_file *oat);
size_t oat_file_bytes(const struct oat_file *oat);
/* Its bytes; valid as long as oat is not moved and its elf lives. */
struct byte_source oat_file_source(const struct oat_file *oat);

/* Where the code of methods is, ascending; methods that share it stand one behind the other, in the
 * order of the file. */
struct oat_index {
	struct oat_method {
		uint32_t code;
		uint16_t class, number; /* definition in its DEX file; method of the class */
		uint8_t dex;
	} * methods;
	size_t count;
	uint32_t classes[OAT_MAX_DEX_FILES]; /* of each DEX file */
};

/* 0; -EBADMSG: malformed; -EFBIG: more than OAT_MAX_METHODS; -ENOMEM; -EIO. */
#define OAT_MAX_METHODS (256u << 10)
int oat_index_build(struct oat_index *index, const struct oat_file *oat);
void oat_index_free(struct oat_index *index);
static inline size_t oat_index_bytes(const struct oat_index *index)
{
	return index->count * sizeof(*index->methods);
}
/* The methods whose code begins last before or at offset: the first of them, *count of them. NULL:
 * there is none. Where the code ends, CodeInfo says. */
const struct oat_method *oat_index_find(const struct oat_index *index, uint64_t offset,
					size_t *count);
