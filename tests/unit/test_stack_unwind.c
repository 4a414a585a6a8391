/* SPDX-License-Identifier: BSD-2-Clause */
/* The stepper on made-up code and memory: both architectures from one host. */
#include "stack/unwind.h"
#include "unit/stack_elf.h"
#include <criterion/criterion.h>
#include <dwarf.h>
#include <errno.h>

#define STACK_BASE 0x7ffc00000000ull
#define WORDS      8192

/* Functions of 0x100 bytes from ELF_TEXT on. */
#define FUNCTION(n) (ELF_TEXT + 0x100 * (n))
#define INSIDE(n)   (FUNCTION(n) + 0x20)

struct world {
	enum stack_arch arch;
	struct made_elf elf;
	struct made_frames frames;
	struct elf_file file;
	struct cfi_tables *tables;
	struct cfi_row *row;
	uint64_t memory[WORDS];
	size_t memory_words;
	uint64_t code_at;
	const void *code;
	size_t code_len;
	struct stack_registers registers;
	struct stack_trace trace;
};

static bool world_word(void *ctx, uint64_t address, uint64_t *value)
{
	struct world *w = ctx;
	uint64_t at = address - STACK_BASE;

	if (at % 8 || at / 8 >= w->memory_words)
		return false;
	*value = w->memory[at / 8];
	return true;
}

static bool world_executable(void *ctx, uint64_t address)
{
	return address >= ELF_TEXT && address < ELF_TEXT + 0x10000;
}

static int world_locate(void *ctx, uint64_t address, struct stack_frame *frame,
			const struct cfi_row **row)
{
	struct world *w = ctx;
	int err;

	if (!world_executable(ctx, address))
		return -EFAULT;
	frame->module = 1;
	cfi_row_free(w->row);
	w->row = NULL;
	if (!w->tables)
		return -ENODATA;
	err = cfi_row_at(w->tables, address, &w->row);
	*row = w->row;
	return err;
}

static void world_locate_dex(void *ctx, struct stack_frame *frame)
{
	frame->module = 2;
}

static int world_code(void *ctx, uint64_t address, void *to, size_t len)
{
	struct world *w = ctx;

	if (!w->code || address < w->code_at || address - w->code_at + len > w->code_len)
		return -EFAULT;
	memcpy(to, (const char *)w->code + (address - w->code_at), len);
	return 0;
}

static struct world *world_new(enum stack_arch arch)
{
	struct world *w = calloc(1, sizeof(*w));

	w->arch = arch;
	w->memory_words = WORDS;
	w->registers.arch = arch;
	made_start(&w->elf);
	cr_assert_eq(stack_trace_init(&w->trace), 0);
	return w;
}

static void set(struct world *w, unsigned reg, uint64_t value)
{
	w->registers.value[reg] = value;
	w->registers.valid |= 1ull << reg;
}

static void run(struct world *w)
{
	struct unwind_reader reader = {.word = world_word,
				       .locate = world_locate,
				       .locate_dex = world_locate_dex,
				       .code = world_code,
				       .executable = world_executable,
				       .ctx = w,
				       .address_bits = 48};

	if (w->frames.size) {
		uint8_t *bytes;

		made_section(&w->elf, ".eh_frame", SHT_PROGBITS, w->frames.bytes,
			     w->frames.size + 4, 0x500000, 0, 0);
		made_end(&w->elf, w->arch == STACK_X86_64 ? EM_X86_64 : EM_AARCH64);
		bytes = malloc(w->elf.size);
		memcpy(bytes, w->elf.bytes, w->elf.size);
		cr_assert_eq(elf_file_open_memory(&w->file, bytes, w->elf.size), 0);
		cr_assert_eq(w->file.arch, w->arch);
		cr_assert_eq(cfi_tables_new(&w->file, NULL, &w->tables), 0);
	}
	unwind_run(&reader, &w->registers, &w->trace);
}

static void finish(struct world *w)
{
	cfi_row_free(w->row);
	cfi_tables_free(w->tables);
	if (w->frames.size)
		elf_file_close(&w->file);
	stack_trace_free(&w->trace);
	free(w);
}

static void expect_pcs(const struct world *w, const uint64_t *pcs, size_t count)
{
	cr_expect_eq(w->trace.count, count, "%zu frames, %s", w->trace.count,
		     stack_end_text(w->trace.end));
	for (size_t i = 0; i < count && i < w->trace.count; i++)
		cr_expect_eq(w->trace.frames[i].pc, pcs[i], "frame %zu: %lx, not %lx", i,
			     w->trace.frames[i].pc, pcs[i]);
}

/* x86_64: CFA = rsp + 8, return address below it; function 0 is the outermost */
static const uint8_t x86_cie[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};
static const uint8_t x86_outermost[] = {DW_CFA_undefined, 16};

static void x86_functions(struct world *w, unsigned count, const void *ops, size_t size)
{
	made_cie(&w->frames, 16, 0, x86_cie, sizeof(x86_cie));
	made_fde(&w->frames, FUNCTION(0), 0x100, x86_outermost, sizeof(x86_outermost));
	for (unsigned i = 1; i <= count; i++)
		made_fde(&w->frames, FUNCTION(i), 0x100, ops, size);
}

Test(stack_unwind, x86_64_by_tables)
{
	static const uint8_t ops[] = {DW_CFA_def_cfa_offset, 24, DW_CFA_offset | 6, 2};
	struct world *w = world_new(STACK_X86_64);

	x86_functions(w, 2, ops, sizeof(ops));
	w->memory[1] = 0x77; /* function 2's caller's rbp */
	w->memory[2] = INSIDE(1);
	w->memory[5] = INSIDE(0);
	set(w, 7, STACK_BASE);
	set(w, 6, 1);
	set(w, 16, FUNCTION(2) + 0xff);
	run(w);
	expect_pcs(w, (uint64_t[]){FUNCTION(2) + 0xff, INSIDE(1), INSIDE(0)}, 3);
	cr_expect_eq(w->trace.end, END_OUTERMOST);
	cr_expect(w->trace.complete);
	cr_expect_eq(w->trace.frames[1].method, METHOD_CFI);
	finish(w);
}

/* At the return instruction, tables of clang still say that the frame pointer is saved, below the
 * stack pointer by now. */
Test(stack_unwind, x86_64_epilogue)
{
	static const uint8_t popped[] = {DW_CFA_offset | 6, 2};
	static const uint8_t framed[] = {DW_CFA_def_cfa, 6, 16, DW_CFA_offset | 6, 2};
	struct world *w = world_new(STACK_X86_64);

	made_cie(&w->frames, 16, 0, x86_cie, sizeof(x86_cie));
	made_fde(&w->frames, FUNCTION(0), 0x100, x86_outermost, sizeof(x86_outermost));
	made_fde(&w->frames, FUNCTION(1), 0x100, framed, sizeof(framed));
	made_fde(&w->frames, FUNCTION(2), 0x100, popped, sizeof(popped));
	w->memory[0] = INSIDE(1);
	w->memory[4] = 0; /* the frame of function 1 */
	w->memory[5] = INSIDE(0);
	set(w, 7, STACK_BASE);
	set(w, 6, STACK_BASE + 32);
	set(w, 16, INSIDE(2));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(2), INSIDE(1), INSIDE(0)}, 3);
	cr_expect(w->trace.complete);
	finish(w);
}

/* A call as the last instruction of a function returns to the first byte of the next one. */
Test(stack_unwind, return_address_behind_the_function)
{
	static const uint8_t ops[] = {DW_CFA_def_cfa_offset, 16};
	struct world *w = world_new(STACK_X86_64);

	made_cie(&w->frames, 16, 0, x86_cie, sizeof(x86_cie));
	made_fde(&w->frames, FUNCTION(1), 0x100, ops, sizeof(ops));
	made_fde(&w->frames, FUNCTION(2), 0x100, x86_outermost, sizeof(x86_outermost));
	w->memory[1] = FUNCTION(2); /* of a call in function 1 */
	w->memory[3] = INSIDE(2);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(1));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(1), FUNCTION(2), INSIDE(2)}, 3);
	finish(w);
}

Test(stack_unwind, truncated_says_where)
{
	static const uint8_t ops[] = {DW_CFA_def_cfa_offset, 32};
	struct world *w = world_new(STACK_X86_64);

	x86_functions(w, 2, ops, sizeof(ops));
	w->memory_words = 4;
	w->memory[3] = INSIDE(1);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(2));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(2), INSIDE(1)}, 2);
	cr_expect_eq(w->trace.end, END_TRUNCATED);
	cr_expect_eq(w->trace.end_address, STACK_BASE + 32 + 24);
	cr_expect_not(w->trace.complete);
	finish(w);
}

Test(stack_unwind, frame_limit)
{
	static const uint8_t ops[] = {DW_CFA_def_cfa_offset, 16};
	struct world *w = world_new(STACK_X86_64);

	x86_functions(w, 1, ops, sizeof(ops));
	for (unsigned i = 1; i < WORDS; i += 2)
		w->memory[i] = INSIDE(1);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(1));
	run(w);
	cr_expect_eq(w->trace.count, STACK_MAX_FRAMES);
	cr_expect_eq(w->trace.end, END_FRAME_LIMIT);
	finish(w);
}

/* Tables that lead back to where they came from. */
Test(stack_unwind, cyclic_tables_end)
{
	static const uint8_t same[] = {DW_CFA_def_cfa, 7, 0, DW_CFA_same_value, 16};
	static const uint8_t saved_sp[] = {DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 16, 1,
					   DW_CFA_offset | 7,     2};
	struct world *w = world_new(STACK_X86_64);

	x86_functions(w, 1, same, sizeof(same));
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(1));
	run(w);
	cr_expect_eq(w->trace.end, END_CYCLE);
	cr_expect_leq(w->trace.count, 2);
	finish(w);

	/* the stack pointer restored from memory points down again */
	w = world_new(STACK_X86_64);
	x86_functions(w, 1, saved_sp, sizeof(saved_sp));
	w->memory[0] = STACK_BASE;
	w->memory[1] = INSIDE(1);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(1));
	run(w);
	cr_expect_eq(w->trace.end, END_CYCLE);
	finish(w);
}

Test(stack_unwind, expressions)
{
	/* CFA = *(rsp) + 8, by def_cfa_expression; return address by an expression that skips */
	static const uint8_t ops[] = {DW_CFA_def_cfa_expression,
				      5,
				      DW_OP_breg7,
				      0,
				      DW_OP_deref,
				      DW_OP_plus_uconst,
				      8,
				      DW_CFA_expression,
				      16,
				      7,
				      DW_OP_skip,
				      1,
				      0,
				      DW_OP_drop,
				      DW_OP_lit8,
				      DW_OP_minus,
				      DW_OP_nop};
	/* an expression that jumps to itself */
	static const uint8_t endless[] = {
		DW_CFA_def_cfa_expression, 4, DW_OP_lit0, DW_OP_skip, 0xfc, 0xff};
	static const uint8_t empty_stack[] = {DW_CFA_def_cfa_expression, 1, DW_OP_plus};
	static const uint8_t by_zero[] = {DW_CFA_def_cfa_expression, 3, DW_OP_lit1, DW_OP_lit0,
					  DW_OP_div};
	struct {
		const uint8_t *ops;
		size_t size;
	} bad[] = {{endless, sizeof(endless)},
		   {empty_stack, sizeof(empty_stack)},
		   {by_zero, sizeof(by_zero)}};
	struct world *w = world_new(STACK_X86_64);

	x86_functions(w, 1, ops, sizeof(ops));
	w->memory[0] = STACK_BASE + 0x40;
	w->memory[8] = INSIDE(0);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(1));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(1), INSIDE(0)}, 2);
	cr_expect(w->trace.complete);
	finish(w);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w = world_new(STACK_X86_64);
		x86_functions(w, 1, bad[i].ops, bad[i].size);
		set(w, 7, STACK_BASE);
		set(w, 16, INSIDE(1));
		run(w);
		expect_pcs(w, (uint64_t[]){INSIDE(1)}, 1);
		cr_expect_eq(w->trace.end, END_BAD_TABLES, "%zu: %s", i,
			     stack_end_text(w->trace.end));
		finish(w);
	}
}

/* Of ART's interpreters: rax of the caller "is" r12 (mterp, nterp) or rbx (switch), behind the
 * mark. */
Test(stack_unwind, byte_code_has_a_frame)
{
	static const uint8_t by_name[] = {
		DW_CFA_val_expression, 0, 8, DW_OP_const4u, 'D', 'E', 'X', '1', DW_OP_drop,
		DW_OP_breg12,          0};
	static const uint8_t by_number[] = {
		DW_CFA_val_expression, 5, 9, DW_OP_const4u, 'D', 'E', 'X', '1', DW_OP_drop,
		DW_OP_bregx,           3, 2};
	/* a value by an expression that is no DEX pc */
	static const uint8_t other[] = {
		DW_CFA_val_expression, 0, 8, DW_OP_const4u, 'D', 'E', 'X', '2', DW_OP_drop,
		DW_OP_breg12,          0};
	const struct {
		const uint8_t *ops;
		size_t size;
		unsigned reg;
		uint64_t value, pc;
	} cases[] = {{by_name, sizeof(by_name), 12, 0x7123456, 0x7123456},
		     {by_number, sizeof(by_number), 3, 0x7123456, 0x7123458},
		     {by_name, sizeof(by_name), 3, 1, 0}};
	struct world *w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		w = world_new(STACK_X86_64);
		x86_functions(w, 1, cases[i].ops, cases[i].size);
		w->memory[0] = INSIDE(1);
		w->memory[1] = INSIDE(0);
		set(w, 7, STACK_BASE);
		set(w, 16, INSIDE(1));
		set(w, cases[i].reg, cases[i].value);
		run(w);
		/* of both frames of the interpreter: the register keeps its value */
		expect_pcs(w,
			   (uint64_t[]){INSIDE(1), cases[i].pc, INSIDE(1), cases[i].pc, INSIDE(0)},
			   5);
		cr_expect(w->trace.complete);
		cr_expect_eq(w->trace.frames[1].kind, FRAME_DEX);
		cr_expect_eq(w->trace.frames[1].module, cases[i].pc ? 2 : 0);
		cr_expect_eq(w->trace.frames[2].kind, FRAME_NATIVE);
		finish(w);
	}
	w = world_new(STACK_X86_64);
	x86_functions(w, 1, other, sizeof(other));
	w->memory[0] = INSIDE(0);
	set(w, 7, STACK_BASE);
	set(w, 12, 1);
	set(w, 16, INSIDE(1));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(1), INSIDE(0)}, 2);
	finish(w);
}

/* No frame is written behind the last one that there is room for. */
Test(stack_unwind, byte_code_at_the_frame_limit)
{
	static const uint8_t ops[] = {
		DW_CFA_val_expression, 0, 8, DW_OP_const4u, 'D', 'E', 'X', '1', DW_OP_drop,
		DW_OP_breg12,          0};

	for (unsigned before = 0; before < 2; before++) {
		struct world *w = world_new(STACK_X86_64);

		x86_functions(w, 1, ops, sizeof(ops));
		/* one plain frame first, so that the limit falls behind either kind */
		made_fde(&w->frames, FUNCTION(2), 0x100, "", 0);
		for (unsigned i = 0; i < WORDS; i++)
			w->memory[i] = INSIDE(1);
		set(w, 7, STACK_BASE);
		set(w, 12, 1);
		set(w, 16, before ? INSIDE(2) : INSIDE(1));
		run(w);
		cr_expect_eq(w->trace.count, STACK_MAX_FRAMES);
		cr_expect_eq(w->trace.end, END_FRAME_LIMIT);
		finish(w);
	}
}

Test(stack_unwind, x86_64_without_tables)
{
	struct world *w = world_new(STACK_X86_64);

	/* innermost has not set up its frame: its return address is at rsp */
	w->memory[0] = INSIDE(3);
	w->memory[4] = STACK_BASE + 64; /* {rbp, return address} of function 3 */
	w->memory[5] = INSIDE(2);
	w->memory[8] = 0;
	w->memory[9] = INSIDE(1);
	set(w, 7, STACK_BASE);
	set(w, 6, STACK_BASE + 32);
	set(w, 16, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), INSIDE(3), INSIDE(2), INSIDE(1)}, 4);
	cr_expect_eq(w->trace.frames[1].method, METHOD_LINK_REGISTER);
	cr_expect_eq(w->trace.frames[2].method, METHOD_FRAME_POINTER);
	cr_expect_eq(w->trace.end, END_NO_TABLES);
	cr_expect_not(w->trace.complete);
	finish(w);
}

/* What is before a return address must be able to call. */
Test(stack_unwind, no_call_before_the_word)
{
	static const uint8_t nops[64] = {0x90};
	struct world *w = world_new(STACK_X86_64);

	w->memory[0] = INSIDE(3);
	w->code = nops;
	w->code_at = INSIDE(3) - 32;
	w->code_len = sizeof(nops);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4)}, 1);
	finish(w);
}

#define SIGNED(address) ((address) | 0x2a000000000000ull)

/* arm64, really signed return addresses: bits above 48 hold the code; the table says
 * DW_CFA_AARCH64_negate_ra_state. */
static const uint8_t arm64_cie[] = {DW_CFA_def_cfa, 31, 0};

Test(stack_unwind, arm64_signed_return_addresses)
{
	static const uint8_t ops[] = {0x2d, DW_CFA_def_cfa_offset, 32, DW_CFA_offset | 29,
				      4,    DW_CFA_offset | 30,    3};
	static const uint8_t outermost[] = {DW_CFA_undefined, 30};
	static const uint8_t leaf[] = {DW_CFA_nop};
	struct world *w = world_new(STACK_ARM64);

	made_cie(&w->frames, 30, 0, arm64_cie, sizeof(arm64_cie));
	made_fde(&w->frames, FUNCTION(0), 0x100, outermost, sizeof(outermost));
	made_fde(&w->frames, FUNCTION(1), 0x100, ops, sizeof(ops));
	made_fde(&w->frames, FUNCTION(2), 0x100, ops, sizeof(ops));
	made_fde(&w->frames, FUNCTION(3), 0x100, leaf, sizeof(leaf));
	w->memory[1] = SIGNED(INSIDE(1));
	w->memory[5] = SIGNED(INSIDE(0));
	set(w, 31, STACK_BASE);
	set(w, 30, SIGNED(INSIDE(2)));
	set(w, 29, 0xb400000000000000ull | STACK_BASE);
	set(w, 32, INSIDE(3));
	run(w);
	cr_assert_neq(SIGNED(INSIDE(1)), INSIDE(1));
	expect_pcs(w, (uint64_t[]){INSIDE(3), INSIDE(2), INSIDE(1), INSIDE(0)}, 4);
	cr_expect_eq(w->trace.end, END_OUTERMOST);
	cr_expect(w->trace.complete);
	finish(w);
}

Test(stack_unwind, arm64_leaf_and_tagged_frame_pointers_without_tables)
{
	struct world *w = world_new(STACK_ARM64);

	w->memory[4] = 0xb400000000000000ull | (STACK_BASE + 96);
	w->memory[5] = SIGNED(INSIDE(2));
	w->memory[12] = 0;
	w->memory[13] = SIGNED(INSIDE(1));
	set(w, 31, STACK_BASE);
	set(w, 29, 0xb400000000000000ull | (STACK_BASE + 32));
	set(w, 30, SIGNED(INSIDE(3)));
	set(w, 32, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), INSIDE(3), INSIDE(2), INSIDE(1)}, 4);
	cr_expect_eq(w->trace.frames[1].method, METHOD_LINK_REGISTER);
	finish(w);

	/* the frame record already holds the link register: not counted twice */
	w = world_new(STACK_ARM64);
	w->memory[4] = 0;
	w->memory[5] = SIGNED(INSIDE(2));
	set(w, 31, STACK_BASE);
	set(w, 29, STACK_BASE + 32);
	set(w, 30, SIGNED(INSIDE(2)));
	set(w, 32, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), INSIDE(2)}, 2);
	cr_expect_eq(w->trace.frames[1].method, METHOD_FRAME_POINTER);
	finish(w);
}

Test(stack_unwind, arm64_signal_frame_by_its_trampoline)
{
	static const uint8_t trampoline[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
	struct world *w = world_new(STACK_ARM64);
	uint64_t context = 0x80 + 0xb0 + 8;

	/* a handler called by the kernel returns to the trampoline; its sp is at the signal frame
	 */
	w->code = trampoline;
	w->code_at = FUNCTION(9);
	w->code_len = sizeof(trampoline);
	w->memory[context / 8 + 30] = INSIDE(1);           /* x30 */
	w->memory[context / 8 + 31] = STACK_BASE + 0x4000; /* sp */
	w->memory[context / 8 + 32] = FUNCTION(5);         /* pc: the first byte of a function */
	set(w, 31, STACK_BASE);
	set(w, 30, FUNCTION(9));
	set(w, 32, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), FUNCTION(9), FUNCTION(5), INSIDE(1)}, 4);
	cr_expect_eq(w->trace.frames[2].method, METHOD_SIGNAL);
	cr_expect(w->trace.frames[2].exact);
	finish(w);
}

/* A signal frame that the copied stack holds in part only is none: the registers of its first half
 * are no caller. */
Test(stack_unwind, arm64_signal_frame_that_is_cut)
{
	static const uint8_t trampoline[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
	struct world *w = world_new(STACK_ARM64);
	uint64_t context = 0x80 + 0xb0 + 8;

	w->code = trampoline;
	w->code_at = FUNCTION(9);
	w->code_len = sizeof(trampoline);
	w->memory[context / 8 + 30] = INSIDE(1);
	w->memory_words = context / 8 + 31; /* neither sp nor pc */
	set(w, 31, STACK_BASE);
	set(w, 30, FUNCTION(9));
	set(w, 32, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), FUNCTION(9)}, 2);
	cr_expect_eq(w->trace.end, END_NO_TABLES, "%s", stack_end_text(w->trace.end));
	cr_expect_not(w->trace.complete);
	finish(w);
}

Test(stack_unwind, x86_64_signal_frame_by_its_trampoline)
{
	static const uint8_t trampoline[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	struct world *w = world_new(STACK_X86_64);

	w->code = trampoline;
	w->code_at = FUNCTION(9);
	w->code_len = sizeof(trampoline);
	w->memory[0] = FUNCTION(9);
	w->memory[1 + 5 + 15] = STACK_BASE + 0x4000; /* rsp in gregs of the ucontext at rsp + 8 */
	w->memory[1 + 5 + 16] = INSIDE(5);
	w->memory[0x800] = INSIDE(1);
	set(w, 7, STACK_BASE);
	set(w, 16, INSIDE(4));
	run(w);
	expect_pcs(w, (uint64_t[]){INSIDE(4), FUNCTION(9), INSIDE(5), INSIDE(1)}, 4);
	cr_expect_eq(w->trace.frames[2].method, METHOD_SIGNAL);
	finish(w);
}

Test(stack_unwind, pc_outside_of_everything)
{
	struct world *w = world_new(STACK_X86_64);

	set(w, 7, STACK_BASE);
	set(w, 16, 0);
	w->memory[0] = INSIDE(1); /* a call through a null pointer */
	run(w);
	expect_pcs(w, (uint64_t[]){0, INSIDE(1)}, 2);
	finish(w);
	w = world_new(STACK_X86_64);
	run(w);
	cr_expect_eq(w->trace.end, END_NO_REGISTERS);
	cr_expect_eq(w->trace.count, 0);
	finish(w);
}
