/* SPDX-License-Identifier: BSD-2-Clause */
/* An hour of the unwinder beside a program that maps new code all the time, in a minute: stacks of
 * this process in a new copy of an ELF file, in a new memfd and in known code by turns, each
 * unwound and named as the unwinder process does it, with its settings of the allocator. What the
 * heap and the process hold is told on the way; the allocator's own counters say how much of it is
 * in use and how much is free but not given back.
 *
 * usage: soak_unwinder [JOBS] [ELF_FILE] [plain] */
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jankscope/stack.h"
#include "stack/files_direct.h"
#include "stack/registers.h"
#include "util/heap.h"

#define STACK_BYTES  (64u << 10)
#define STACK_COPIED 4096

static struct stack_capture capture;
static struct stack_unwinder *unwinder;
static struct stack_trace trace;
static uint8_t *file_bytes;
static size_t file_size;

static void read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		exit(2);
	file_size = (size_t)st.st_size;
	file_bytes = malloc(file_size);
	if (!file_bytes || read(fd, file_bytes, file_size) != (ssize_t)file_size)
		exit(2);
	close(fd);
}

/* The stack from here on, with pc as where it runs and the real caller behind it. */
static __attribute__((noinline)) bool unwind_at(uint64_t pc)
{
	const unsigned pc_register = STACK_HOST_ARCH == STACK_X86_64 ? 16 : 32;
	const unsigned sp_register = STACK_HOST_ARCH == STACK_X86_64 ? 7 : 31;
	uint64_t *frame = __builtin_frame_address(0);
	struct unwound *unwound;
	bool good;

	capture.registers =
		(struct stack_registers){.arch = STACK_HOST_ARCH,
					 .valid = 1ull << pc_register | 1ull << sp_register,
					 .syscall_nr = -1};
	/* the word at the stack pointer is the return address, as on entry to a function */
	capture.registers.value[sp_register] = (uintptr_t)(frame + 1);
	capture.registers.value[pc_register] = pc;
	capture.stack_base = (uintptr_t)(frame + 1);
	capture.stack_bytes = STACK_COPIED;
	memcpy(capture.stack, frame + 1, capture.stack_bytes);
	if (stack_unwind(unwinder, &capture, &trace))
		return false;
	unwound = stack_unwound(unwinder, &trace);
	good = unwound && unwound->count;
	free(unwound);
	return good;
}

static void in_new_file(unsigned n, bool elf)
{
	int fd = (int)syscall(SYS_memfd_create, elf ? "library" : "jit", MFD_CLOEXEC);
	size_t size = elf ? file_size : 4096;
	uint8_t *memory;

	if (fd < 0 || write(fd, file_bytes, elf ? file_size : 0) < 0 || ftruncate(fd, (off_t)size))
		exit(2);
	/* Never where another one was: a picture of the maps is kept for 2 s. */
	memory = mmap((void *)(0x100000000000 + ((uint64_t)n << 26)), size, PROT_READ | PROT_EXEC,
		      MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		exit(2);
	unwind_at((uintptr_t)memory + (elf ? size / 4 + n * 64 % (size / 4) : 128));
	munmap(memory, size);
	close(fd);
}

static void tell(unsigned jobs)
{
	struct mallinfo2 info = mallinfo2();
	char text[4096], *at;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "Pss_Anon:");
	close(fd);
	printf("%8u jobs: cache %6zu KiB, private %6ld; heap %6zu, in use %6zu, free in it %6zu, "
	       "mapped %6zu\n",
	       jobs, stack_unwinder_cache_bytes(unwinder) >> 10, at ? strtol(at + 9, NULL, 10) : 0,
	       info.arena >> 10, info.uordblks >> 10, info.fordblks >> 10, info.hblkhd >> 10);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned jobs = argc > 1 ? (unsigned)atoi(argv[1]) : 28800;
	struct stack_files files = files_direct("");
	volatile uint8_t above[STACK_COPIED] = {0}; /* of unwind_at's frame there is so much */

	if (argc < 4) {
		heap_map_pages();
		heap_fill_cache();
	}
	read_file(argc > 2 ? argv[2] : "/proc/self/exe");
	unwinder = stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
	capture.stack = malloc(STACK_BYTES);
	if (!unwinder || !capture.stack || stack_trace_init(&trace))
		return 2;
	capture.stack_room = STACK_BYTES;
	capture.thread = (struct stack_thread){.pid = getpid(), .tid = getpid(), .pidfd = -1};
	for (unsigned i = 0; i <= jobs; i++) {
		/* As another process each time, so that each has a picture of the maps of its own.
		 */
		capture.thread.start_boot_ns = (i + 1) * 10000000ull;
		if (i % 4 == 0)
			in_new_file(i, true);
		else if (i % 4 == 1)
			in_new_file(i, false);
		else
			unwind_at((uintptr_t)&unwind_at + 1);
		/* 8 jobs a second, and a look at the heap each 5 s */
		if (argc < 4 && i % 40 == 39)
			malloc_trim(0);
		if (i % (jobs / 20 ? jobs / 20 : 1) == 0)
			tell(i);
	}
	return above[0];
}
