/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

const void *bpf_object_bytes(const char *name, size_t *size)
{
	const struct bpf_object_packed *packed = bpf_objects_packed;
	void *bytes;

	*size = 0;
	while (packed->name && strcmp(packed->name, name))
		packed++;
	if (!packed->name) {
		errno = ENOENT;
		return NULL;
	}
	bytes = malloc(packed->unpacked_size);
	if (bytes && ZSTD_decompress(bytes, packed->unpacked_size, packed->data, packed->size) ==
			     packed->unpacked_size) {
		*size = packed->unpacked_size;
		return bytes;
	}
	free(bytes);
	errno = ENOMEM;
	return NULL;
}

void bpf_object_release(const void *bytes)
{
	free((void *)bytes);
}
