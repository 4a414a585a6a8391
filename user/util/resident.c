/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/resident.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static int keep_object(struct dl_phdr_info *object, size_t size, void *ctx)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int *err = ctx;

	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t begin = (object->dlpi_addr + part->p_vaddr) & ~(page - 1);
		uintptr_t end = object->dlpi_addr + part->p_vaddr + part->p_memsz;

		if (part->p_type != PT_LOAD || !part->p_memsz)
			continue;
		if (mlock2((const void *)begin, end - begin, MLOCK_ONFAULT) && !*err)
			*err = -errno;
	}
	return 0;
}

int resident_keep(void)
{
	int err = 0;

	dl_iterate_phdr(keep_object, &err);
	return err;
}
