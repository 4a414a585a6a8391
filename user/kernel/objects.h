/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF objects as the binary carries them: compressed, because four fifths of their bytes are
 * types and relocations that one load needs. */
#pragma once
#include <stddef.h>

/* The object of this name ("sched") as an ELF file, which the generated skeletons open; free it
 * with bpf_object_release() as soon as the skeleton is open: libbpf keeps copies. NULL with *size 0
 * and errno ENOMEM or ENOENT. */
const void *bpf_object_bytes(const char *name, size_t *size);
/* May be NULL. */
void bpf_object_release(const void *bytes);

struct bpf_object_packed {
	const char *name; /* NULL: the list is over */
	const unsigned char *data;
	size_t size, unpacked_size;
};
/* Made by bpf/pack.sh. */
extern const struct bpf_object_packed bpf_objects_packed[];
