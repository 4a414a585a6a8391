/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/wait_stub.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/elf_file.h"
#include "stack/files_direct.h"
#include "stack/maps.h"
#include "util/bounded_call.h"

#define TEXT_LIMIT    (64u << 20)
#define SYMBOLS_LIMIT (64u << 20)

static bool is_epoll_nr(enum stack_arch arch, uint64_t nr)
{
	/* arm64 has no epoll_wait of its own */
	return nr == 441 || (arch == STACK_X86_64 ? nr == 232 || nr == 281 : nr == 22);
}

int wait_place_read(pid_t pid, struct wait_place *place)
{
	char path[64], text[256];
	ssize_t n;
	int fd;

	*place = (struct wait_place){.syscall_nr = -1};
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		n = -errno;
	close(fd);
	if (n <= 0)
		return n ? (int)n : -ESRCH;
	text[n] = 0;
	if (!strncmp(text, "running", 7)) {
		place->syscall_nr = -2;
		return 0;
	}
	if (sscanf(text,
		   "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		   " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &place->syscall_nr, &place->arguments[0], &place->arguments[1],
		   &place->arguments[2], &place->arguments[3], &place->arguments[4],
		   &place->arguments[5], &place->stack_pointer, &place->program_counter) < 1)
		return -EINVAL;
	return 0;
}

struct place_job {
	pid_t pid;
	int err;
	struct wait_place place;
};

static void run_place(void *ctx)
{
	struct place_job *job = ctx;

	job->err = wait_place_read(job->pid, &job->place);
}

int wait_place_read_bounded(struct bounded_calls *calls, pid_t pid, struct wait_place *place)
{
	struct place_job *job = calloc(1, sizeof(*job));
	int err;

	*place = (struct wait_place){.syscall_nr = -1};
	if (!job)
		return -ENOMEM;
	job->pid = pid;
	err = bounded_call(calls, pid, run_place, free, job);
	if (err == -ETIMEDOUT)
		return err;
	if (!err) {
		*place = job->place;
		err = job->err;
	}
	free(job);
	return err;
}

int wait_place_epfd(const struct wait_place *place)
{
#ifdef __aarch64__
	enum stack_arch arch = STACK_ARM64;
#else
	enum stack_arch arch = STACK_X86_64;
#endif
	if (place->syscall_nr < 0 || !is_epoll_nr(arch, (uint64_t)place->syscall_nr))
		return -1;
	return (int)place->arguments[0];
}

bool wait_is_32_bit(pid_t pid)
{
	char path[64];
	uint8_t ident[5] = {0};
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, ident, sizeof(ident));
	close(fd);
	/* EI_CLASS is ELFCLASS32 */
	return n == sizeof(ident) && !memcmp(ident, "\177ELF", 4) && ident[4] == 1;
}

int wait_is_epoll(pid_t pid, int fd)
{
	char path[64], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = 0;
	return !strcmp(target, "anon_inode:[eventpoll]");
}

static void add_place(uint64_t *places, size_t *count, uint64_t offset)
{
	for (size_t i = 0; i < *count; i++)
		if (places[i] == offset)
			return;
	if (*count < WAIT_STUB_MAX)
		places[(*count)++] = offset;
}

/* ---- x86_64 ---- */

static uint32_t load32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

/* Bytes of one "mov disp8(%rsp), reg" or register move, 0 if it is something else. A probe must
 * never land inside an instruction, so nothing is guessed between the number and the syscall. */
static size_t plain_move(const uint8_t *p, size_t left)
{
	size_t prefix = left && (p[0] & 0xf0) == 0x40;

	if (left < prefix + 4)
		return 0;
	p += prefix;
	if (p[0] == 0x8b && (p[1] & 0xc7) == 0x44 && p[2] == 0x24)
		return prefix + 4;
	if ((p[0] == 0x89 || p[0] == 0x31) && (p[1] & 0xc0) == 0xc0)
		return prefix + 2;
	return 0;
}

/* At text[i] begins "mov $nr, %eax", a few moves, "syscall": the byte behind it; else 0. */
static size_t match_x86(const uint8_t *text, size_t size, size_t i)
{
	size_t at = i + 5;

	if (size - i < 7 || text[i] != 0xb8 || !is_epoll_nr(STACK_X86_64, load32(text + i + 1)))
		return 0;
	for (int moves = 0; moves < 4 && at + 2 <= size; moves++) {
		size_t length;

		if (text[at] == 0x0f && text[at + 1] == 0x05)
			return at + 2;
		length = plain_move(text + at, size - at);
		if (!length)
			return 0;
		at += length;
	}
	return 0;
}

/* Behind the syscall glibc compares and jumps: the jump is emulated. */
static size_t leave_x86(const uint8_t *text, size_t size, size_t at)
{
	if (at + 8 <= size && text[at] == 0x48 && text[at + 1] == 0x3d &&
	    (text[at + 6] == 0x77 || (text[at + 6] == 0x0f && text[at + 7] == 0x87)))
		return at + 6;
	return at;
}

/* glibc asks first whether there are threads ("cmpb $0, x(%rip)" or "%fs:0x18"), moves one
 * register, and jumps. */
static size_t enter_x86(const uint8_t *text, size_t size, size_t at)
{
	size_t next = at;

	if (next + 4 <= size && !memcmp(text + next, "\xf3\x0f\x1e\xfa", 4))
		next += 4;
	if (next + 16 > size)
		return at;
	if (text[next] == 0x80 && text[next + 1] == 0x3d)
		next += 7;
	else if (!memcmp(text + next, "\x64\x80\x3c\x25", 4))
		next += 9;
	else if (text[next] == 0x64 && text[next + 1] == 0x8b)
		next += 8;
	else
		return at;
	next += plain_move(text + next, size - next);
	if (next + 2 <= size && (text[next] == 0x74 || text[next] == 0x75 ||
				 (text[next] == 0x0f && (text[next + 1] & 0xfe) == 0x84)))
		return next;
	return at;
}

/* ---- arm64 ---- */

/* "movz x8/w8, #nr" then "svc #0" within four instructions that are no branch. */
static size_t match_arm64(const uint8_t *text, size_t size, size_t i)
{
	uint32_t word;

	if ((i & 3) || size - i < 8)
		return 0;
	word = load32(text + i);
	if ((word & 0x7fe0001fu) != 0x52800008u || !is_epoll_nr(STACK_ARM64, (word >> 5) & 0xffff))
		return 0;
	for (size_t at = i + 4; at + 4 <= size && at <= i + 16; at += 4) {
		word = load32(text + at);
		if (word == 0xd4000001u)
			return at + 4;
		if ((word & 0x1c000000u) == 0x14000000u)
			return 0;
	}
	return 0;
}

/* Hints (bti, paciasp) cannot be stepped by every kernel: the one behind it can. */
static size_t enter_arm64(const uint8_t *text, size_t size, size_t at)
{
	while (at + 8 <= size && (load32(text + at) & 0xfffff01fu) == 0xd503201fu)
		at += 4;
	return at;
}

/* ---- a file ---- */

struct scan {
	const struct elf_file *elf;
	struct wait_stub *stub;
	/* offsets of the functions that are named like the waits, and their ends */
	struct {
		uint64_t begin, end;
		bool entered;
	} functions[WAIT_STUB_MAX];
	size_t function_count;
};

static bool file_offset(const struct elf_file *elf, uint64_t address, uint64_t *offset)
{
	for (unsigned i = 0; i < elf->load_count; i++) {
		if (!elf->loads[i].exec || address < elf->loads[i].address ||
		    address - elf->loads[i].address >= elf->loads[i].file_bytes)
			continue;
		*offset = address - elf->loads[i].address + elf->loads[i].offset;
		return true;
	}
	return false;
}

static bool is_wait_name(const char *name, size_t room)
{
	static const char *const names[] = {"epoll_wait",    "epoll_pwait",     "epoll_pwait2",
					    "epoll_pwait64", "epoll_pwait2_64", "__epoll_pwait",
					    "__epoll_pwait2"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strnlen(name, room) < room && !strcmp(name, names[i]))
			return true;
	return false;
}

static void find_functions(struct scan *scan, const struct elf_section *symbols,
			   const struct elf_section *strings)
{
	/* Elf64_Sym */
	struct symbol {
		uint32_t name;
		uint8_t info, other;
		uint16_t section;
		uint64_t value, size;
	} *table = NULL;
	uint8_t *bytes = NULL, *text = NULL;
	size_t size = 0, text_size = 0;

	if (!symbols->size || !strings->size ||
	    elf_file_section(scan->elf, symbols, SYMBOLS_LIMIT, &bytes, &size) ||
	    elf_file_section(scan->elf, strings, SYMBOLS_LIMIT, &text, &text_size))
		goto cleanup;
	table = (struct symbol *)bytes;
	for (size_t i = 0; i < size / sizeof(*table); i++) {
		uint64_t begin;
		size_t n = scan->function_count;

		if (!table[i].section || (table[i].info & 15) != 2 || table[i].name >= text_size ||
		    !is_wait_name((char *)text + table[i].name, text_size - table[i].name) ||
		    n == WAIT_STUB_MAX || !file_offset(scan->elf, table[i].value, &begin))
			continue;
		scan->functions[n].begin = begin;
		scan->functions[n].end = begin + (table[i].size < 4096 ? table[i].size : 4096);
		scan->functions[n].entered = false;
		scan->function_count++;
	}
cleanup:
	free(bytes);
	free(text);
}

static void scan_text(struct scan *scan, const uint8_t *text, size_t size, uint64_t base)
{
	bool x86 = scan->elf->arch == STACK_X86_64;
	struct wait_stub *stub = scan->stub;

	for (size_t i = 0; i + 8 <= size; i += x86 ? 1 : 4) {
		size_t behind = x86 ? match_x86(text, size, i) : match_arm64(text, size, i);
		uint64_t enter = base + i;

		if (!behind)
			continue;
		for (size_t f = 0; f < scan->function_count; f++) {
			uint64_t begin = scan->functions[f].begin;

			if (enter < begin || enter >= scan->functions[f].end || begin < base)
				continue;
			scan->functions[f].entered = true;
			enter = base + (x86 ? enter_x86(text, size, begin - base)
					    : enter_arm64(text, size, begin - base));
			break;
		}
		add_place(stub->enter, &stub->enter_count, enter);
		add_place(stub->leave, &stub->leave_count,
			  base + (x86 ? leave_x86(text, size, behind) : behind));
		i = behind - (x86 ? 1 : 4);
	}
}

static int scan_file(const struct elf_file *elf, struct wait_stub *stub)
{
	struct scan scan = {.elf = elf, .stub = stub};

	find_functions(&scan, &elf->dynsym, &elf->dynstr);
	if (!scan.function_count)
		find_functions(&scan, &elf->symtab, &elf->strtab);
	for (unsigned i = 0; i < elf->load_count; i++) {
		uint64_t size = elf->loads[i].file_bytes;
		uint8_t *text;

		if (!elf->loads[i].exec || size > TEXT_LIMIT)
			continue;
		text = malloc(size ? size : 1);
		if (!text)
			return -ENOMEM;
		if (!elf_file_read(elf, elf->loads[i].offset, text, size))
			scan_text(&scan, text, size, elf->loads[i].offset);
		free(text);
	}
	return stub->enter_count && stub->leave_count ? 0 : -ENOENT;
}

/* ---- a process ---- */

static bool is_library(const char *path, size_t length)
{
	const char *name = memrchr(path, '/', length);
	size_t size;

	name = name ? name + 1 : path;
	size = length - (size_t)(name - path);
	return (size >= 5 && (!memcmp(name, "libc.", 5) || !memcmp(name, "libc-", 5))) ||
	       (size >= 7 && !memcmp(name, "ld-musl", 7));
}

static int scan_mapping(pid_t pid, const struct map_entry *entry, struct wait_stub *stub)
{
	struct elf_file elf;
	int err, fd;

	*stub = (struct wait_stub){0};
	snprintf(stub->path, sizeof(stub->path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid,
		 entry->start, entry->end);
	fd = open(stub->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = elf_file_open(&elf, fd, 0);
	if (err)
		return err;
	err = scan_file(&elf, stub);
	elf_file_close(&elf);
	return err;
}

int wait_stub_find(pid_t pid, struct wait_stub *stub)
{
	struct stack_maps *maps;
	char link[64], program[4096];
	ssize_t n;
	char *text;
	size_t length;
	int err = files_direct_maps("", pid, &text, &length);

	if (err)
		return err;
	maps = maps_parse(text, length, NULL);
	if (!maps)
		return -errno;
	err = -ENOENT;
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = 0;
	/* The library first; a static program has none. */
	for (int pass = 0; pass < 2 && err; pass++) {
		for (size_t i = 0; i < maps->count && err; i++) {
			const struct map_entry *entry = &maps->entries[i];

			if (!(entry->flags & MAP_EXEC) || !entry->inode)
				continue;
			if (pass ? n > 0 && maps_path_is(maps, entry, program)
				 : is_library(maps_path(maps, entry), entry->path_len))
				err = scan_mapping(pid, entry, stub);
		}
	}
	maps_put(maps);
	return err;
}
