/* SPDX-License-Identifier: BSD-2-Clause */
/* The DEX files inside of an APK or a jar, by its central directory (PKWARE's APPNOTE 4.3). Zip64
 * and archives of several disks are refused: ART knows neither. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "stack/code/byte_source.h"

#define ZIP_NAME_BYTES  32
#define ZIP_PIECE_BYTES 4096

struct zip_file {
	struct byte_source source;
	uint64_t at, end; /* of what is left of the central directory */
	uint32_t left;    /* entries */
	/* A piece of the directory: an app may have 65,000 entries. */
	uint64_t from;
	uint32_t length;
	uint8_t bytes[ZIP_PIECE_BYTES];
};

struct zip_dex {
	char name[ZIP_NAME_BYTES]; /* "classes.dex", "classes2.dex", ... */
	uint64_t at;               /* of its bytes in the source */
	uint64_t stored_bytes, size;
	uint32_t checksum; /* CRC-32 of its bytes, by the directory */
	bool stored;       /* as it is; else deflated */
};

/* 0; -ENOEXEC: no zip file; -ENOTSUP: zip64, or several disks; -EBADMSG: malformed; -ENOMEM; what
 * reading says. */
int zip_file_open(struct zip_file *zip, const struct byte_source *source);
/* The next DEX file; one that is encrypted or packed in another way is passed by. 0; -ENOENT: there
 * are no more; -EBADMSG; what reading says. */
int zip_file_next(struct zip_file *zip, struct zip_dex *dex);
