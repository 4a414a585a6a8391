/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/btf.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Generated: build/ARCH/btf/embedded.c */
extern const struct embedded_btf embedded_btf_list[];

const struct embedded_btf *kernel_btf_embedded(void)
{
	return embedded_btf_list;
}

const struct embedded_btf *kernel_btf_for_release(const struct embedded_btf *list,
						  const char *release)
{
	for (; list->name; list++) {
		const char *dash = strchr(list->name, '-');
		char branch[32];
		size_t version;

		if (!dash)
			continue;
		/* "5.10" must be the release's beginning, "-android12-" stand behind it. */
		version = strlen(dash + 1);
		if (strncmp(release, dash + 1, version) || release[version] != '.')
			continue;
		snprintf(branch, sizeof(branch), "-%.*s-", (int)(dash - list->name), list->name);
		if (strstr(release, branch))
			return list;
	}
	return NULL;
}

/* libbpf takes a path, and there may be no writable folder. */
static int put_in_memory(struct kernel_btf *btf, const struct embedded_btf *embedded)
{
	size_t size = embedded->end - embedded->bytes, done = 0;
	int fd = memfd_create("jankscope-btf", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	while (done < size) {
		ssize_t n = write(fd, embedded->bytes + done, size - done);

		if (n < 0) {
			int err = -errno;

			close(fd);
			return err;
		}
		done += (size_t)n;
	}
	btf->memory_fd = fd;
	snprintf(btf->memory_path, sizeof(btf->memory_path), "/proc/self/fd/%d", fd);
	btf->path = btf->memory_path;
	btf->name = embedded->name;
	btf->origin = KERNEL_BTF_EMBEDDED;
	return 0;
}

int kernel_btf_open(struct kernel_btf *btf, const char *file, const char *release)
{
	const struct embedded_btf *embedded;
	struct utsname machine;

	*btf = (struct kernel_btf){.memory_fd = -1};
	if (file) {
		struct btf *parsed = btf__parse(file, NULL);

		/* libbpf's own errors for other files are any of EIO, ENOENT and numbers of its
		 * own. */
		if (!parsed)
			return access(file, R_OK) ? -errno : -EINVAL;
		btf__free(parsed);
		btf->origin = KERNEL_BTF_FILE;
		btf->path = file;
		return 0;
	}
	if (!access("/sys/kernel/btf/vmlinux", R_OK)) {
		btf->origin = KERNEL_BTF_KERNEL;
		return 0;
	}
	if (!release) {
		uname(&machine);
		release = machine.release;
	}
	embedded = kernel_btf_for_release(embedded_btf_list, release);
	return embedded ? put_in_memory(btf, embedded) : 0;
}

void kernel_btf_close(struct kernel_btf *btf)
{
	if (btf->origin == KERNEL_BTF_EMBEDDED && btf->memory_fd >= 0)
		close(btf->memory_fd);
	btf->origin = KERNEL_BTF_NONE;
	btf->path = NULL;
	btf->memory_fd = -1;
}
