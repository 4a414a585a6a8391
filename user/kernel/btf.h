/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the kernel's type information comes from: the kernel itself, a file of the user's, or a
 * small BTF in this binary for Android kernels that ship without one (android12-5.10 and
 * android13-5.10; made at build time by `bpftool gen min_core_btf`, see the Makefile). */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum kernel_btf_origin {
	KERNEL_BTF_NONE = 0,
	KERNEL_BTF_KERNEL = 1,   /* /sys/kernel/btf/vmlinux */
	KERNEL_BTF_FILE = 2,     /* --btf FILE */
	KERNEL_BTF_EMBEDDED = 3, /* of this binary, by the kernel's release */
};

struct kernel_btf {
	enum kernel_btf_origin origin;
	const char *path; /* for libbpf's btf_custom_path; NULL: libbpf finds the kernel's own */
	const char *name; /* of the embedded BTF ("android12-5.10"), or NULL */
	char memory_path[32];
	int memory_fd;
};

/* Choose: file if it is given, else the kernel's, else an embedded one for this release (NULL: that
 * of uname). 0 also when there is none; -errno for a file that cannot be read or parsed. */
int kernel_btf_open(struct kernel_btf *btf, const char *file, const char *release);
/* Close what kernel_btf_open opened; path is invalid afterwards. Safe on a zeroed struct. */
void kernel_btf_close(struct kernel_btf *btf);

struct embedded_btf {
	const char *name; /* "android12-5.10" */
	const uint8_t *bytes, *end;
};

/* What this binary carries; the list ends with a NULL name. A build without BTF_DIR has none. */
const struct embedded_btf *kernel_btf_embedded(void);

/* The embedded BTF for a kernel release such as "5.10.149-android13-4-00003-g05231a35ff43-ab1",
 * NULL if there is none. The branch counts, not the patch level: within one branch the layouts of
 * the structs that modules may touch are frozen (KMI). */
const struct embedded_btf *kernel_btf_for_release(const struct embedded_btf *list,
						  const char *release);
