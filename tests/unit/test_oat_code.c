/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of a made-up process through code that ART compiled and that has no unwind tables. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jankscope/stack.h"
#include "stack/code/oat_file.h"
#include "stack/code/quick_frame.h"
#include "unit/made_oat.h"

#define OAT    0x20000000ull
#define STACK  0x70000000ull
#define CODE   ((uint32_t)sizeof(made_oat_arm64_bytes))
#define CALL   36
#define FRAMES 4 /* the shared code, two methods that were inlined, their method */

static const char installed[] =
	"20000000-20010000 r-xp 00000000 08:01 7   /data/oat/arm64/base.odex\n"
	"30000000-30010000 r--p 00000000 08:01 8   /data/app/base.apk\n"
	"70000000-70010000 rw-p 00000000 00:00 0   [stack]\n";
/* Compiled anew, or an update of the app, while it runs. */
static const char replaced[] =
	"20000000-20010000 r-xp 00000000 08:01 7   /data/oat/arm64/base.odex (deleted)\n"
	"30000000-30010000 r--p 00000000 08:01 8   /data/app/base.apk (deleted)\n"
	"70000000-70010000 rw-p 00000000 00:00 0   [stack]\n";
/* Of Android 9 to 11 the DEX files may be in the vdex only. */
static const char replaced_vdex[] =
	"20000000-20010000 r-xp 00000000 08:01 7   /data/oat/arm64/base.odex (deleted)\n"
	"30000000-30010000 r--p 00000000 08:01 8   /data/oat/arm64/base.vdex (deleted)\n"
	"70000000-70010000 rw-p 00000000 00:00 0   [stack]\n";
static const char *maps_text = installed;

struct world {
	struct stack_files files;
	int oat, apk;
	uint64_t code; /* address of oat data in the process */
	struct stack_unwinder *unwinder;
	struct stack_capture capture;
	uint64_t stack[64];
	struct stack_trace trace;
};

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	struct world *w = ctx;
	int fd = mapping->inode == 7 ? w->oat : w->apk;

	if (fd < 0)
		return -ENOENT;
	*file = (struct stack_file){.fd = dup(fd),
				    .inode = mapping->inode,
				    .size_bytes = (uint64_t)lseek(fd, 0, SEEK_END)};
	return 0;
}

static int read_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		     size_t *length)
{
	*text = strdup(maps_text);
	*length = strlen(maps_text);
	return 0;
}

static int no_names(void *ctx, const struct stack_process *process)
{
	return -ENOENT;
}

static ssize_t no_memory(void *ctx, const struct stack_process *process, uint64_t address, void *to,
			 size_t length)
{
	return -EFAULT;
}

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	return fd;
}

/* checksum: in the header of the DEX file. */
static struct world *world_of(const char *version, bool with_dex, uint32_t checksum)
{
	static struct made_bytes dex;
	static struct made_elf elf;
	struct made_dex_facts facts;
	struct world *w = calloc(1, sizeof(*w));
	uint8_t oat[0x400];
	uint64_t begin;

	dex.size = 0;
	made_dex(&dex, MADE_035, 0, &facts);
	made_set32(&dex, 8, checksum);
	made_oat(oat, version, dex.bytes + 12, &made_oat_arm64);
	made_oat_elf(&elf, oat, sizeof(oat), EM_AARCH64, NULL, 0, &begin);
	/* Its segment has so many bytes. */
	w->oat = file_of(elf.bytes, sizeof(elf.bytes));
	w->apk = with_dex ? file_of(dex.bytes, dex.size) : -1;
	w->code = OAT + (begin - ELF_TEXT);
	w->files = (struct stack_files){.open = open_mapping,
					.open_jit_names = no_names,
					.maps = read_maps,
					.memory = no_memory,
					.ctx = w};
	w->unwinder = stack_unwinder_new(&(struct stack_unwind_config){.files = &w->files});
	cr_assert(w->unwinder);
	cr_assert_eq(stack_trace_init(&w->trace), 0);
	return w;
}

static struct world *world_new(const char *version, bool with_dex)
{
	return world_of(version, with_dex, MADE_OAT_CHECKSUM);
}

/* The thread is at `offset` of the shared code, which the other method called. x29 leads to what
 * looks like a frame. */
static struct unwound *unwind_at(struct world *w, uint32_t offset, unsigned sp_word)
{
	struct stack_registers *r = &w->capture.registers;
	struct unwound *unwound;

	memset(w->stack, 0, sizeof(w->stack));
	w->stack[3] = 0x2222; /* x22 */
	w->stack[4] = 0x2323;
	w->stack[5] = w->code + MADE_OAT_OWN + CALL;
	w->stack[20] = STACK + 8 * 24; /* what x29 leads to */
	w->stack[21] = w->code + MADE_OAT_OWN + CALL;
	*r = (struct stack_registers){
		.arch = STACK_ARM64, .valid = (1ull << 33) - 1, .syscall_nr = -1};
	r->value[29] = STACK + 8 * 20;
	r->value[30] = w->stack[5];
	r->value[31] = STACK + 8 * sp_word;
	r->value[32] = w->code + MADE_OAT_SHARED + offset;
	w->capture.thread.pid = 1;
	w->capture.stack_base = r->value[31];
	w->capture.stack = (uint8_t *)&w->stack[sp_word];
	w->capture.stack_bytes = sizeof(w->stack) - 8 * sp_word;
	cr_assert_eq(stack_unwind(w->unwinder, &w->capture, &w->trace), 0);
	unwound = stack_unwound(w->unwinder, &w->trace);
	cr_assert(unwound);
	return unwound;
}

static void world_free(struct world *w)
{
	stack_trace_free(&w->trace);
	stack_unwinder_free(w->unwinder);
	close(w->oat);
	if (w->apk >= 0)
		close(w->apk);
	free(w);
}

/* Wherever in the code the thread is, its caller is the same: before the frame is made, while it
 * is, when it is there, and while it is taken down. */
Test(oat_code, every_instruction)
{
	struct world *w = world_new("239", true);

	for (uint32_t offset = 0; offset < CODE; offset += 4) {
		bool gone = offset <= 8 || offset == CODE - 4;
		struct unwound *unwound = unwind_at(w, offset, gone ? 6 : 0);

		cr_assert_eq(unwound->count, FRAMES, "%u: %zu frames", offset, unwound->count);
		cr_expect_eq(unwound->frames[1].pc, w->code + MADE_OAT_OWN + CALL);
		cr_expect_eq(unwound->frames[1].method, METHOD_QUICK);
		cr_expect_eq(unwound->end, END_OUTERMOST, "%u: %s", offset,
			     stack_end_text(unwound->end));
		cr_expect(unwound->complete);
		free(unwound);
	}
	world_free(w);
}

Test(oat_code, names)
{
	struct world *w = world_new("239", true);
	struct unwound *unwound;

	for (unsigned i = 0; i < 2; i++) {
		unwound = unwind_at(w, 20, 0);
		cr_assert_eq(unwound->count, FRAMES);
		cr_assert(unwound->frames[0].symbol && unwound->frames[3].symbol);
		cr_expect_eq(unwound->frames[0].kind, FRAME_NATIVE);
		cr_expect(strstr(unwound->frames[0].symbol, "app.Db$Inner.") &&
				  strstr(unwound->frames[0].symbol, " or app.Db$Inner.") &&
				  strstr(unwound->frames[0].symbol, " (shared code)"),
			  "%s", unwound->frames[0].symbol);
		cr_expect_str_eq(unwound->frames[3].symbol, "app.Db$Inner.sleep");
		cr_expect_eq(unwound->frames[3].line, 300);
		cr_expect_eq(unwound->frames[3].dex_place, MADE_OAT_DEX_PC + 1);
		cr_expect_not(unwound->frames[3].inlined);
		/* Where the thread itself is, nothing is kept. */
		cr_expect_eq(unwound->frames[0].line, 0);
		cr_expect_eq(unwound->frames[0].dex_place, 0);
		free(unwound);
	}
	world_free(w);
}

Test(oat_code, replaced_files)
{
	static const char *const texts[] = {replaced, replaced_vdex};

	for (unsigned i = 0; i < 2; i++) {
		struct world *w = world_new("239", true);
		struct unwound *unwound;

		maps_text = texts[i];
		unwound = unwind_at(w, 20, 0);
		cr_assert_eq(unwound->count, FRAMES);
		cr_assert(unwound->frames[3].symbol, "%s", texts[i]);
		cr_expect_str_eq(unwound->frames[3].symbol, "app.Db$Inner.sleep");
		cr_expect_eq(unwound->frames[3].line, 300);
		free(unwound);
		world_free(w);
	}
}

/* What was inlined at the place of a call are frames of their own, the innermost first. */
Test(oat_code, inlined_methods)
{
	static const struct {
		const char *symbol;
		uint32_t dex_pc, line;
	} want[] = {{"app.Db$Inner.last", MADE_OAT_INNER, 10},
		    {"app.Db$Inner.open", MADE_OAT_OUTER, 12}};
	struct world *w = world_new("239", true);

	for (unsigned round = 0; round < 2; round++) {
		struct unwound *unwound = unwind_at(w, 20, 0);

		cr_assert_eq(unwound->count, FRAMES);
		cr_expect_not(unwound->frames[0].inlined);
		for (unsigned i = 0; i < 2; i++) {
			const struct unwound_frame *frame = &unwound->frames[1 + i];

			cr_assert(frame->symbol);
			cr_expect_str_eq(frame->symbol, want[i].symbol);
			cr_expect_eq(frame->line, want[i].line, "%u", frame->line);
			cr_expect_eq(frame->dex_place, want[i].dex_pc + 1);
			cr_expect(frame->inlined && !frame->exact);
			cr_expect_eq(frame->method, METHOD_QUICK);
			cr_expect_eq(frame->pc, unwound->frames[3].pc);
			cr_expect_neq(frame->function, unwound->frames[3].function);
		}
		cr_expect_neq(unwound->frames[1].function, unwound->frames[2].function);
		free(unwound);
	}
	world_free(w);
}

/* An older version knows its DEX file by a checksum: one with another has no names to give. */
Test(oat_code, another_dex_file)
{
	static const char *const versions[] = {"225", "231", "239"};

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned wrong = 0; wrong < 2; wrong++) {
			struct world *w = world_of(versions[i], true, MADE_OAT_CHECKSUM + wrong);
			struct unwound *unwound = unwind_at(w, 20, 0);

			cr_assert_eq(unwound->count, FRAMES, "%s", versions[i]);
			for (unsigned f = 0; f < FRAMES; f++)
				cr_expect_eq(unwound->frames[f].symbol != NULL, !wrong || i == 2,
					     "%s: %u", versions[i], f);
			cr_expect(unwound->complete);
			free(unwound);
			world_free(w);
		}
	}
}

/* The stack goes on where the DEX file is not there. */
Test(oat_code, without_dex)
{
	struct world *w = world_new("239", false);
	struct unwound *unwound = unwind_at(w, 20, 0);

	cr_assert_eq(unwound->count, FRAMES);
	for (unsigned i = 0; i < FRAMES; i++)
		cr_expect_null(unwound->frames[i].symbol);
	cr_expect(unwound->frames[1].inlined && unwound->frames[2].inlined);
	cr_expect(unwound->complete);
	free(unwound);
	world_free(w);
}

/* Nothing is guessed of code of a version that is not known; it is counted. */
Test(oat_code, unknown_version)
{
	static const char *const versions[] = {"131", "232", "240", "260", "xyz"};

	for (unsigned i = 0; i < 5; i++) {
		struct world *w = world_new(versions[i], true);
		struct unwound *unwound = unwind_at(w, 20, 0);
		struct stack_unwind_losses losses = {0};

		for (size_t f = 1; f < unwound->count; f++)
			cr_expect_eq(unwound->frames[f].method, METHOD_LINK_REGISTER);
		cr_expect_eq(unwound->end, END_NO_TABLES);
		cr_expect_not(unwound->complete);
		stack_unwinder_losses(w->unwinder, &losses);
		cr_expect_eq(losses.oat_unsupported, i < 4);
		cr_expect_eq(losses.oat_malformed, i == 4);
		free(unwound);
		world_free(w);
	}
}

/* x86_64: push r15, push rbx, sub 24, nop, add 24, pop, pop, ret; the frame has 48 bytes. */
Test(oat_code, x86_64_frame)
{
	static const uint8_t code[] = {0x48, 0x85, 0x84, 0x24, 0,    0xe0, 0xff, 0xff,
				       0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 24,   0x90,
				       0x48, 0x83, 0xc4, 24,   0x5b, 0x41, 0x5f, 0xc3};
	static const struct {
		unsigned at;
		int cfa;
		unsigned rules;
	} want[] = {{0, 8, 1},   {8, 8, 1},   {10, 16, 2}, {11, 24, 3}, {15, 48, 3},
		    {16, 48, 3}, {20, 24, 3}, {21, 16, 2}, {23, 8, 1}};
	struct quick_frame frame = {.arch = STACK_X86_64,
				    .code_bytes = sizeof(code),
				    .frame_bytes = 48,
				    .core_spills = 1u << 3 | 1u << 15};
	struct byte_source source = made_source(code, sizeof(code));
	struct quick_row row;

	for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
		cr_assert_eq(quick_frame_row(&frame, &source, 0, want[i].at, true, &row), 0);
		cr_expect_eq(row.cfa_offset, want[i].cfa, "%u: %d", want[i].at, row.cfa_offset);
		cr_expect_eq(row.rule_count, want[i].rules, "%u: %u", want[i].at, row.rule_count);
		cr_expect_eq(row.rules[0].reg, 16);
		cr_expect_eq(row.rules[0].offset, -8);
	}
	frame.frame_bytes = 16;
	cr_expect_eq(quick_frame_row(&frame, &source, 0, 15, true, &row), -EBADMSG);
}

/* A stub of x86_64 makes room for what it passes to native code by adding what is below zero, as
 * ART's assembler does: push rbp, push rbx, sub 24, nop, add -32, nop, nop (the call), add 32, nop,
 * add 24, pop, pop, ret, int3 (a slow path). */
Test(oat_code, x86_64_stub)
{
	static const uint8_t code[] = {0x55, 0x53, 0x48, 0x83, 0xec, 24,   0x90, 0x48, 0x83,
				       0xc4, 0xe0, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x20, 0x90,
				       0x48, 0x83, 0xc4, 24,   0x5b, 0x5d, 0xc3, 0xcc};
	static const struct {
		unsigned at;
		int cfa;
	} want[] = {{0, 8},   {1, 16},  {2, 24},  {6, 48},  {7, 48},  {11, 80}, {12, 80},
		    {13, 80}, {17, 48}, {18, 48}, {22, 24}, {23, 16}, {24, 8}};
	struct quick_frame frame = {.arch = STACK_X86_64,
				    .code_bytes = sizeof(code),
				    .frame_bytes = 48,
				    .core_spills = 1u << 3 | 1u << 5,
				    .stub = true};
	struct byte_source source = made_source(code, sizeof(code));
	uint8_t changed[sizeof(code)];
	struct quick_row row;

	for (unsigned i = 0; i < sizeof(want) / sizeof(*want); i++) {
		cr_assert_eq(quick_frame_row(&frame, &source, 0, want[i].at, true, &row), 0, "%u",
			     want[i].at);
		cr_expect_eq(row.cfa_offset, want[i].cfa, "%u: %d", want[i].at, row.cfa_offset);
	}
	cr_expect_eq(quick_frame_row(&frame, &source, 0, 13, false, &row), 0);
	cr_expect_eq(row.cfa_offset, 80);
	cr_expect_eq(quick_frame_row(&frame, &source, 0, 25, true, &row), -EBADMSG);
	/* Room that is not taken back, or is of another size, is refused. */
	memcpy(changed, code, sizeof(code));
	changed[16] = 0x18;
	source = made_source(changed, sizeof(changed));
	cr_expect_eq(quick_frame_row(&frame, &source, 0, 12, true, &row), -EBADMSG);
}
