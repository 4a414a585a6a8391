/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider of a runtime's code over made-up processes: what it asks for, and what it keeps. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jit_symfile.h"
#include "prober/jit_list.h"
#include "stack/code/jit.h"
#include "stack/registers.h"
#include "unit/stack_elf.h"

#define PROGRAM    0x7f0000000000ull
#define DESCRIPTOR 0x12340ull /* from ELF_TEXT */
#define CODE       0x10000000ull
#define FILE_BYTES (900u << 10)

/* Each process has two methods, and files that are much larger than they need to be. */
struct runtime {
	struct made_elf elf;
	unsigned opened, asked, err;
	uint64_t version;
	uint64_t list; /* where it is said to be */
	bool no_symbol;
};

static int open_program(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	struct runtime *r = ctx;
	int fd = memfd_create("program", MFD_CLOEXEC);

	r->opened++;
	cr_assert_eq(write(fd, r->elf.bytes, r->elf.size), (ssize_t)r->elf.size);
	*file = (struct stack_file){fd, 1, mapping->inode, r->elf.size, 0};
	return 0;
}

static int give_list(void *ctx, const struct stack_process *process,
		     const struct jit_list_request *request, uint8_t **message, size_t *length)
{
	struct runtime *r = ctx;
	struct jit_list_header header = {.version = r->version, .layout = JIT_ANDROID2, .count = 2};
	struct jit_list_entry entries[2];

	r->asked++;
	cr_assert_eq(request->descriptor, r->list);
	if (r->err)
		return -(int)r->err;
	if (request->known == r->version)
		return 0;
	header.bytes = 2 * FILE_BYTES;
	*length = sizeof(header) + sizeof(entries) + header.bytes;
	*message = calloc(1, *length);
	for (unsigned i = 0; i < 2; i++) {
		char name[64];
		struct jit_method method = {CODE + i * 4096, 64, name, jit_cfa, sizeof(jit_cfa)};

		entries[i] = (struct jit_list_entry){.address = 64 + i,
						     .timestamp = 5,
						     .symfile = 4096,
						     .size = FILE_BYTES,
						     .offset = i * FILE_BYTES + 1,
						     .seqlock = 2};
		snprintf(name, sizeof(name), "void p%d.m%u()", process->pid, i);
		jit_symfile(*message + sizeof(header) + sizeof(entries) + i * FILE_BYTES, &method,
			    1, 0);
	}
	memcpy(*message, &header, sizeof(header));
	memcpy(*message + sizeof(header), entries, sizeof(entries));
	return 1;
}

static void make_program(struct runtime *r)
{
	static const char strings[] = "\0__jit_debug_descriptor";
	Elf64_Sym symbols[2] = {{0},
				{.st_name = 1,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				 .st_shndx = 1,
				 .st_value = ELF_TEXT + DESCRIPTOR}};

	made_start(&r->elf);
	if (!r->no_symbol) {
		made_section(&r->elf, ".dynstr", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
		made_section(&r->elf, ".dynsym", SHT_DYNSYM, symbols, sizeof(symbols), 0, 1,
			     sizeof(*symbols));
	}
	made_end(&r->elf, STACK_HOST_ARCH == STACK_ARM64 ? EM_AARCH64 : EM_X86_64);
}

struct rig {
	struct runtime runtime;
	struct stack_files files;
	struct modules *modules;
	struct jit_code *code;
};

static struct rig *start(bool no_symbol)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->runtime.no_symbol = no_symbol;
	rig->runtime.version = 1;
	rig->runtime.list = PROGRAM + DESCRIPTOR;
	make_program(&rig->runtime);
	rig->files = (struct stack_files){
		.open = open_program, .jit_list = give_list, .ctx = &rig->runtime};
	rig->modules = modules_new(&rig->files, 16 << 20);
	rig->code = jit_code_new(&rig->files, rig->modules);
	cr_assert(rig->modules && rig->code);
	return rig;
}

static void stop(struct rig *rig)
{
	jit_code_provider.free(rig->code);
	modules_free(rig->modules);
	free(rig);
}

/* The name that a frame of this process gets, which maps these programs, too; NULL: none. */
static const char *name_beside(struct rig *rig, const char *programs, int pid, uint64_t pc,
			       int *err)
{
	char *text;
	int length = asprintf(&text, "%llx-%llx r-xp 00000000 00:00 0\n%s", CODE, CODE + 0x10000,
			      programs);
	struct module_scope scope = {.process = {pid, 1}, .arch = STACK_HOST_ARCH};
	struct stack_maps *maps = maps_parse(text, (size_t)length, NULL);
	struct stack_frame frame = {.pc = pc, .exact = true};
	const struct cfi_row *row = NULL;

	cr_assert(maps && maps->count >= 2);
	scope.maps = maps;
	jit_code_provider.begin(rig->code);
	*err = jit_code_provider.locate(rig->code, &scope, pc, &frame, &row);
	cr_assert(*err || (row && frame.kind == FRAME_JIT));
	maps_put(maps);
	return jit_code_provider.name(rig->code, &frame);
}

static const char *name_in(struct rig *rig, int pid, uint64_t pc, int *err)
{
	return name_beside(rig, "7f0000000000-7f0000010000 r-xp 00000000 08:01 9 /a\n", pid, pc,
			   err);
}

Test(stack_jit_code, kept_within_its_budget, .timeout = 60)
{
	struct rig *rig = start(false);
	char expected[64];
	int err;

	for (int round = 0; round < 3; round++) {
		for (int pid = 1; pid <= 40; pid++) {
			const char *name = name_in(rig, pid, CODE + 4096 + 20, &err);

			snprintf(expected, sizeof(expected), "void p%d.m1()", pid);
			cr_assert(!err && name && !strcmp(name, expected), "%d: %s", err, name);
			cr_assert_leq(jit_code_bytes(rig->code), JIT_KEPT_BYTES);
		}
	}
	/* What the last process has is kept, and its program is looked through once. */
	cr_expect_gt(jit_code_bytes(rig->code), 2 * FILE_BYTES);
	stop(rig);
}

Test(stack_jit_code, looks, .timeout = 60)
{
	struct stack_unwind_losses before = {0}, losses = {0};
	struct rig *rig = start(false);
	unsigned asked;
	int err;

	cr_expect_str_eq(name_in(rig, 1, CODE, &err), "void p1.m0()");
	cr_expect_eq(rig->runtime.asked, 1);
	for (unsigned i = 0; i < 1000; i++)
		cr_expect_null(name_in(rig, 1, CODE + 0x8000, &err));
	cr_expect_eq(err, -ENOENT);
	asked = rig->runtime.asked;
	cr_expect_lt(asked, 900, "an address that is not known is asked about %u times", asked);
	/* On a busy machine a look may have been so dear that the list is old before the next one:
	 * an address that is not in it may be in an entry then, and is counted. */
	jit_code_losses(rig->code, &before);
	/* Who cannot be asked any more keeps the names that it had. */
	rig->runtime.err = ESRCH;
	/* The rest before the next look is as long as the last look was dear: more on a busy
	 * machine. */
	for (unsigned i = 0; i < 1000 && rig->runtime.asked == asked; i++) {
		usleep(10000);
		cr_expect_str_eq(name_in(rig, 1, CODE, &err), "void p1.m0()");
	}
	cr_expect_gt(rig->runtime.asked, asked);
	jit_code_losses(rig->code, &losses);
	cr_expect_eq(losses.jit_lists_unread, before.jit_lists_unread);
	rig->runtime.err = EAGAIN;
	cr_expect_null(name_in(rig, 2, CODE, &err));
	losses = (struct stack_unwind_losses){0};
	jit_code_losses(rig->code, &losses);
	cr_expect_eq(losses.jit_lists_unread, before.jit_lists_unread + 1);
	stop(rig);
}

Test(stack_jit_code, no_runtime)
{
	struct rig *rig = start(true);
	int err;

	for (unsigned i = 0; i < 100; i++)
		cr_expect_null(name_in(rig, 1, CODE, &err));
	cr_expect_eq(err, -ENOENT);
	cr_expect_eq(rig->runtime.asked, 0);
	cr_expect_leq(rig->runtime.opened, 1, "its files are looked through once");
	stop(rig);
}

/* A library of the app's that has such a list, too, and a name that begins like ART's. */
Test(stack_jit_code, art_is_asked_first)
{
	static const char programs[] =
		"7e0000000000-7e0000010000 r-xp 00000000 08:01 8 /data/app/lib/libartistic.so\n"
		"7f0000000000-7f0000010000 r-xp 00000000 08:01 9 /apex/lib64/libart.so\n";
	struct rig *rig = start(false);
	int err;

	cr_expect_str_eq(name_beside(rig, programs, 1, CODE, &err), "void p1.m0()");
	stop(rig);
}

/* A process that runs another program keeps its number and its start. */
Test(stack_jit_code, another_program)
{
	static const char moved[] = "7f0000020000-7f0000030000 r-xp 00000000 08:01 9 /a\n";
	static const char other[] = "7f0000020000-7f0000030000 r-xp 00000000 08:01 10 /b\n";
	struct rig *rig = start(false);
	int err;

	cr_expect_str_eq(name_in(rig, 1, CODE, &err), "void p1.m0()");
	rig->runtime.list += 0x20000;
	rig->runtime.version = 2;
	usleep(20000);
	cr_expect_str_eq(name_beside(rig, moved, 1, CODE, &err), "void p1.m0()");
	/* It has no list. */
	rig->runtime.no_symbol = true;
	make_program(&rig->runtime);
	rig->runtime.list = 0;
	cr_expect_null(name_beside(rig, other, 1, CODE, &err));
	stop(rig);
}
