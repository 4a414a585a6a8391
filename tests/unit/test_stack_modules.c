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
#include "unit/stack_elf.h"

#define PC 0x7f0000000100ull

/* Each process has one file of its own, all with the same bytes. */
struct world {
	struct made_elf elf;
	unsigned opened, maps_read, reading;
	int open_error;
	char name[64];
};

static int world_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		      size_t *length)
{
	struct world *w = ctx;

	w->maps_read++;
	*length = (size_t)asprintf(text, "7f0000000000-7f0000010000 r-xp 00000000 08:01 %d %s%d\n",
				   process->pid, "/a/rather/long/path/of/a/library/lib",
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

static void world_reading(void *ctx, uint64_t dev, uint64_t inode)
{
	((struct world *)ctx)->reading++;
}

static struct world *world_new(struct stack_files *files)
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

	memset(strings + 1, 'n', sizeof(strings) - 2);
	made_start(&w->elf);
	strtab = made_section(&w->elf, ".strtab", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
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
