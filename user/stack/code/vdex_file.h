/* SPDX-License-Identifier: BSD-2-Clause */
/* The DEX files inside of a vdex file (art/runtime/vdex_file.h): of versions 006 and 010 (Android
 * 8.0, 8.1), 019 (9), 021 (10, 11) and 027 (12 to 15). */
#pragma once
#include <stdint.h>

#include "stack/code/byte_source.h"

struct vdex_file {
	struct byte_source source;
	unsigned version;
	uint32_t left;        /* DEX files that were not given yet */
	uint32_t before;      /* bytes before each DEX file, of its quickening table's offset */
	uint64_t at, end;     /* next DEX file; end of their section */
	uint64_t checksum_at; /* of the next one */
};

struct vdex_dex {
	uint64_t at; /* of its header in the source */
	uint64_t size;
	uint32_t checksum; /* of the entry of the zip file that it was in, as the vdex tells it */
};

/* 0; -ENOEXEC: no vdex file; -ENOTSUP: of a version that is not known; -EBADMSG: malformed; what
 * reading says. A vdex whose DEX files stay in the APK has none, and is none of these. */
int vdex_file_open(struct vdex_file *vdex, const struct byte_source *source);
/* The next DEX file. 0; -ENOENT: there are no more; -EBADMSG; what reading says. */
int vdex_file_next(struct vdex_file *vdex, struct vdex_dex *dex);
