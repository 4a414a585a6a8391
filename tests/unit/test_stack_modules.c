/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinding half over made-up targets: what it asks for, and that it forgets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jankscope/stack.h"
#include "stack/files_direct.h"
#include "stack/registers.h"
#include "unit/stack_elf.h"

#define PC 0x7f0000000100ull

/* Each process has one file of its own, all with the same bytes. */
struct world {
	struct made_elf elf;
	unsigned opened, maps_read, reading;
	int open_error;
	char name[64];
	const char *path; /* NULL: of a library */
};

static int world_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		      size_t *length)
{
	struct world *w = ctx;

	w->maps_read++;
	*length = (size_t)asprintf(text, "7f0000000000-7f0000010000 r-xp 00000000 08:01 %d %s%d\n",
				   process->pid, w->path ?: "/a/rather/long/path/of/a/library/lib",
				   process->pid);
	return 0;
}

static int world_open(void *ctx, const struct stack_process *process,
		      const struct stack_mapping *mapping, struct stack_file *file)
{
	struct world *w = ctx;
	int fd;

	w->opened++;
	cr_assert_eq(mapping->inode, (uint64_t)process->pid);
	if (w->open_error)
		return w->open_error;
	fd = memfd_create("module", MFD_CLOEXEC);
	cr_assert_eq(write(fd, w->elf.bytes, w->elf.size), (ssize_t)w->elf.size);
	*file = (struct stack_file){fd, 1, mapping->inode, w->elf.size, 0};
	return 0;
}

static ssize_t world_memory(void *ctx, const struct stack_process *process, uint64_t address,
			    void *to, size_t length)
{
	return -EFAULT;
}

static void world_reading(void *ctx, const struct stack_file_version *file)
{
	((struct world *)ctx)->reading++;
}

/* Its function's name is of so many bytes. */
static struct world *world_named(struct stack_files *files, size_t name_bytes)
{
	struct world *w = calloc(1, sizeof(*w));
	static char strings[2000];
	Elf64_Sym symbols[] = {{0},
			       {.st_name = 1,
				.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				.st_shndx = 1,
				.st_value = ELF_TEXT,
				.st_size = 0x1000}};
	unsigned strtab;

	memset(strings + 1, 'n', name_bytes);
	made_start(&w->elf);
	strtab = made_section(&w->elf, ".strtab", SHT_STRTAB, strings, name_bytes + 2, 0, 0, 0);
	made_section(&w->elf, ".symtab", SHT_SYMTAB, symbols, sizeof(symbols), 0, strtab,
		     sizeof(Elf64_Sym));
	made_end(&w->elf, EM_X86_64);
	*files = (struct stack_files){.open = world_open,
				      .maps = world_maps,
				      .memory = world_memory,
				      .reading = world_reading,
				      .ctx = w};
	return w;
}

static struct world *world_new(struct stack_files *files)
{
	return world_named(files, 1998);
}

static struct unwound *unwind(struct stack_unwinder *unwinder, pid_t pid)
{
	struct stack_capture capture = {.thread = {.pid = pid, .tid = pid},
					.registers = {.arch = STACK_X86_64, .valid = 1 << 16}};
	struct stack_trace trace;
	struct unwound *unwound;

	capture.registers.value[16] = PC;
	cr_assert_eq(stack_trace_init(&trace), 0);
	cr_assert_eq(stack_unwind(unwinder, &capture, &trace), 0);
	unwound = stack_unwound(unwinder, &trace);
	stack_trace_free(&trace);
	return unwound;
}

/* 20,000 mappings and 40 MB of names later, nothing has grown. */
Test(stack_modules, nothing_grows_for_ever, .timeout = 120)
{
	struct stack_files files;
	struct world *w = world_new(&files);
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	size_t after_first = 0, most = 0;

	for (int pid = 1; pid <= 20000; pid++) {
		struct unwound *trace = unwind(unwinder, pid);

		cr_assert(trace && trace->count == 1 && trace->frames[0].symbol &&
			  strlen(trace->frames[0].symbol) == 1998);
		free(trace);
		if (pid == 5000)
			after_first = mallinfo2().uordblks;
		if (pid > 5000 && mallinfo2().uordblks > most)
			most = mallinfo2().uordblks;
	}
	cr_assert_lt(most, after_first + (4u << 20), "%zu then %zu bytes", after_first, most);
	cr_assert_lt(most, 24u << 20);
	stack_unwinder_free(unwinder);
	free(w);
}

/* Names of code that is gone would fill up whatever there is for names. */
Test(stack_modules, names_go_with_their_files, .timeout = 120)
{
	struct stack_files files;
	struct world *w = world_named(&files, 40);
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	size_t first = 0, most = 0;

	for (int pid = 1; pid <= 6000; pid++) {
		free(unwind(unwinder, pid));
		if (pid == 1500)
			first = mallinfo2().uordblks;
		if (pid > 1500 && mallinfo2().uordblks > most)
			most = mallinfo2().uordblks;
	}
	cr_expect_lt(most, first + (96u << 10), "%zu then %zu bytes", first, most);
	stack_unwinder_free(unwinder);
	free(w);
}

Test(stack_modules, a_trace_needs_nothing_else)
{
	struct stack_files files;
	struct world *w = world_new(&files);
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	struct unwound *trace = unwind(unwinder, 7), *copy;

	stack_unwinder_free(unwinder);
	cr_assert_str_eq(trace->frames[0].module, "/a/rather/long/path/of/a/library/lib7");
	cr_assert_eq(strlen(trace->frames[0].symbol), 1998);
	copy = unwound_copy(trace);
	free(trace);
	cr_assert_str_eq(copy->frames[0].module, "/a/rather/long/path/of/a/library/lib7");
	free(copy);
	free(w);
}

/* What cannot be had now is asked for again with the next stack; what is not there is not. */
Test(stack_modules, a_file_that_is_late_is_asked_for_again)
{
	struct stack_files files;
	struct world *w = world_new(&files);
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	struct unwound *trace;

	w->open_error = -ETIMEDOUT;
	trace = unwind(unwinder, 7);
	cr_assert(trace->end == END_NO_MODULE && trace->frames[0].module &&
		  !trace->frames[0].symbol);
	free(trace);
	w->open_error = 0;
	trace = unwind(unwinder, 7);
	cr_assert(trace->frames[0].symbol && w->opened == 2 && w->reading);
	free(trace);
	w->open_error = -ENOENT;
	free(unwind(unwinder, 8));
	trace = unwind(unwinder, 8);
	cr_assert(trace->end == END_NO_MODULE && w->opened == 3);
	free(trace);
	stack_unwinder_free(unwinder);
	free(w);
}

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Rows, and what libdw remembers beside them, are part of what the cache may take. */
Test(stack_modules, rows_are_in_the_budget, .timeout = 120)
{
	struct stack_files files = files_direct("");
	struct stack_unwinder *unwinder =
		stack_unwinder_new(&(struct stack_unwind_config){&files, 3u << 20});
	extern const char __executable_start, etext;
	size_t first = 0, most = 0, text_bytes = (size_t)(&etext - &__executable_start);
	const unsigned pc = STACK_HOST_ARCH == STACK_X86_64 ? 16 : 32;
	struct stack_trace trace;
	unsigned seed = 1;

	cr_assert_eq(stack_trace_init(&trace), 0);
	for (unsigned i = 0; i < 60000; i++) {
		struct stack_capture capture = {
			.thread = {.pid = getpid(), .tid = getpid()},
			.registers = {.arch = STACK_HOST_ARCH, .valid = 1ull << pc}};

		capture.registers.value[pc] =
			(uintptr_t)&__executable_start + (unsigned)rand_r(&seed) % text_bytes;
		cr_assert_eq(stack_unwind(unwinder, &capture, &trace), 0);
		if (i == 100)
			first = heap_bytes();
		if (i > 100 && heap_bytes() > most)
			most = heap_bytes();
	}
	cr_expect_lt(most, first + (3u << 20), "%zu then %zu bytes", first, most);
	stack_trace_free(&trace);
	stack_unwinder_free(unwinder);
}

static int left_out_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
			 size_t *length)
{
	((struct world *)ctx)->maps_read++;
	*length =
		(size_t)asprintf(text, "400000-401000 r-xp 00000000 08:01 7 /bin/a\n"
				       "401000-7f0000100000 ---p 00000000 00:00 0 [left out]\n"
				       "7f0000100000-7f0000200000 r-xp 00000000 08:01 8 /lib/b\n");
	return 0;
}

Test(stack_modules, a_mapping_that_was_left_out_is_a_loss_with_a_name)
{
	struct stack_files files;
	struct world *w = world_new(&files);
	struct stack_unwinder *unwinder;
	struct stack_unwind_losses losses;
	struct unwound *trace;

	files.maps = left_out_maps;
	unwinder = stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	trace = unwind(unwinder, 7);
	stack_unwinder_losses(unwinder, &losses);
	cr_expect_eq(trace->end, END_LEFT_OUT);
	cr_expect_str_eq(stack_end_text(trace->end), "too many mappings to keep");
	cr_expect_eq(losses.mappings_left_out, 1);
	cr_expect_eq(w->maps_read, 1, "another look at so many mappings would not help");
	free(trace);
	stack_unwinder_free(unwinder);
	free(w);
}

static int no_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		   size_t *length)
{
	return -ETIMEDOUT;
}

/* Where the mappings could not be asked for in time, the address may well be mapped. */
Test(stack_modules, mappings_that_were_not_read_are_told_as_such)
{
	struct stack_files files;
	struct world *w = world_new(&files);
	struct stack_unwinder *unwinder;
	struct unwound *trace;

	files.maps = no_maps;
	unwinder = stack_unwinder_new(&(struct stack_unwind_config){&files, 0});
	trace = unwind(unwinder, 7);
	cr_expect_str_eq(stack_end_text(trace->end), "mappings not read");
	cr_expect(!trace->complete && trace->count == 1 && trace->frames[0].pc == PC);
	free(trace);
	stack_unwinder_free(unwinder);
	free(w);
}

/* A memfd is an ELF file where its segments have the address (a library that was loaded from it);
 * else it holds a JIT compiler's code, whatever its first bytes are, and that is no loss. */
Test(stack_modules, a_memfd_that_begins_like_an_elf_file)
{
	enum { IS_ELF, ELSEWHERE, ONLY_MAGIC };

	for (int kind = IS_ELF; kind <= ONLY_MAGIC; kind++) {
		struct stack_files files;
		struct world *w = world_named(&files, 20);
		struct stack_unwinder *unwinder =
			stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
		Elf64_Phdr *segment = (Elf64_Phdr *)(w->elf.bytes + sizeof(Elf64_Ehdr));
		struct stack_unwind_losses losses = {0};
		struct unwound *unwound;

		w->path = "/memfd:jit-cache (deleted)";
		if (kind == ELSEWHERE)
			segment->p_offset = 4096;
		if (kind == ONLY_MAGIC)
			memset(w->elf.bytes + 4, 0x90, w->elf.size - 4);
		unwound = unwind(unwinder, 5);
		cr_assert(unwound && unwound->count == 1);
		cr_expect_eq(unwound->frames[0].kind, kind == ONLY_MAGIC ? FRAME_JIT : FRAME_NATIVE,
			     "%d: kind %d", kind, unwound->frames[0].kind);
		cr_expect_eq(unwound->frames[0].symbol != NULL, kind == IS_ELF);
		cr_expect_eq(unwound->end,
			     kind == IS_ELF      ? END_NO_TABLES
			     : kind == ELSEWHERE ? END_NO_MODULE
						 : END_JIT,
			     "%d: %s", kind, stack_end_text(unwound->end));
		stack_unwinder_losses(unwinder, &losses);
		cr_expect_eq(losses.elf_malformed, 0);
		free(unwound);
		stack_unwinder_free(unwinder);
		free(w);
	}
}
