/* SPDX-License-Identifier: BSD-2-Clause */
/* A program with a known call chain for the tests of the unwinder. It prints "ready" when it is
 * about to reach the innermost function.
 * usage: stack_target block|vdso|spin|sleep|qsort|raise|segv|deep|handler_spin
 *        stack_target apk FILE OFFSET    (calls into an ELF stored inside FILE) */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

#define NOINLINE __attribute__((noinline))

extern volatile int sink;
NOINLINE int leaf(void);
NOINLINE int descend(int depth);

#ifndef SECOND_PART
static const char *mode;

NOINLINE int leaf(void)
{
	struct timespec ts = {3600, 0};

	if (write(1, "ready\n", 6) != 6)
		return 1;
	if (!strcmp(mode, "vdso")) {
		for (;;)
			sink += clock_gettime(CLOCK_MONOTONIC, &ts) + ts.tv_nsec;
	}
	if (!strcmp(mode, "spin") || !strcmp(mode, "handler_spin")) {
		for (;;)
			sink++, spin_hint();
	}
	if (!strcmp(mode, "sleep")) {
		for (;;)
			nanosleep(&ts, NULL);
	}
	for (;;)
		pause();
}
#endif

#ifndef FIRST_PART
volatile int sink;

NOINLINE int descend(int depth)
{
	char local[64];
	int result;

	memset(local, depth, sizeof(local));
	sink += local[depth & 63];
	result = depth ? descend(depth - 1) : leaf();
	sink += local[1];
	return result + 1;
}
#endif

#ifndef SECOND_PART
static int compare(const void *a, const void *b)
{
	sink += descend(2);
	return *(const int *)a - *(const int *)b;
}

static void handler(int number)
{
	sink += descend(number & 1);
}

static NOINLINE int from_apk(int depth)
{
	return descend(depth) + 1;
}

/* Map the segments of the ELF at offset of file, as a loader does with a library inside an APK, and
 * call its entry point, which calls back. */
static NOINLINE int run_apk(const char *file, off_t offset)
{
	int fd = open(file, O_RDONLY);
	Elf64_Ehdr header;
	char *base;
	int (*entry)(int (*)(int), int);

	if (fd < 0 || pread(fd, &header, sizeof(header), offset) != sizeof(header))
		return 1;
	base = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; base != MAP_FAILED && i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		off_t page;

		if (pread(fd, &segment, sizeof(segment),
			  offset + header.e_phoff + i * sizeof(segment)) != sizeof(segment))
			return 1;
		if (segment.p_type != PT_LOAD || segment.p_flags & PF_W)
			continue;
		page = segment.p_offset & 4095;
		if (mmap(base + segment.p_vaddr - page, segment.p_filesz + page,
			 PROT_READ | (segment.p_flags & PF_X ? PROT_EXEC : 0),
			 MAP_PRIVATE | MAP_FIXED, fd,
			 offset + segment.p_offset - page) == MAP_FAILED)
			return 1;
	}
	close(fd);
	entry = (int (*)(int (*)(int), int))(base + header.e_entry);
	return entry(from_apk, 2) + 1;
}

int main(int argc, char **argv)
{
	int numbers[] = {4, 3, 2, 1};

	if (argc < 2)
		return 2;
	mode = argv[1];
	if (!strcmp(mode, "qsort")) {
		qsort(numbers, 4, sizeof(numbers[0]), compare);
	} else if (!strcmp(mode, "raise") || !strcmp(mode, "handler_spin")) {
		signal(SIGUSR1, handler);
		raise(SIGUSR1);
	} else if (!strcmp(mode, "segv")) {
		signal(SIGSEGV, handler);
		*(volatile int *)(uintptr_t)(8 + argc - 2) = 1;
	} else if (!strcmp(mode, "apk") && argc == 4) {
		sink += run_apk(argv[2], atol(argv[3]));
	} else {
		sink += descend(!strcmp(mode, "deep") ? 180 : 5);
	}
	return 0;
}
#endif
