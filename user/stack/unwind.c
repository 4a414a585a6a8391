/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/unwind_step.h"

#include <errno.h>
#include <string.h>

#define MAX_SIGNAL_FRAMES 16
#define RED_ZONE          128

static const struct architecture architectures[] = {
	[STACK_X86_64] = {.sp = 7, .pc = 16, .fp = 6},
	[STACK_ARM64] = {.sp = 31, .pc = 32, .fp = 29, .lr = 30},
};

uint64_t unwind_code_address(enum stack_arch arch, unsigned address_bits, uint64_t address)
{
	/* User addresses have zeros above the address bits; a signed return address has its code
	 * there, and maybe a tag (Arm ARM D8.8 "Pointer authentication"). */
	return arch == STACK_ARM64 ? address & ((1ull << address_bits) - 1) : address;
}

static bool word_at(struct stepper *s, uint64_t address, uint64_t *value)
{
	address = unwind_data_address(s->now.arch, address);
	if (s->reader->word(s->reader->ctx, address, value))
		return true;
	s->trace->end_address = address;
	return false;
}

/* Value of a register in the caller. 0, -ENODATA: not known, -EFAULT: not copied, -EBADMSG. */
static int apply_rule(struct stepper *s, const struct cfi_rule *rule, uint64_t cfa)
{
	uint64_t value;
	bool is_value = false;
	int err;

	switch (rule->kind) {
	case RULE_IS_CFA:
		value = cfa + rule->offset;
		break;
	case RULE_AT_CFA:
		if (word_at(s, cfa + rule->offset, &value))
			break;
		/* Saved below the stack pointer, where nothing was copied: an epilogue has popped
		 * it already (clang's tables do not say so before the return), so that the register
		 * is the caller's again. */
		if (s->now.value[s->arch->sp] - (cfa + rule->offset) - 1 >= RED_ZONE ||
		    !known(&s->now, rule->reg))
			return -EFAULT;
		value = s->now.value[rule->reg];
		break;
	case RULE_REGISTER:
		if (rule->other >= STACK_REGISTERS || !known(&s->now, rule->other))
			return -ENODATA;
		value = s->now.value[rule->other];
		break;
	default:
		err = dwarf_expression_run(s->reader, &s->now, cfa, rule->ops, rule->other, &value,
					   &is_value);
		if (err == -EFAULT)
			s->trace->end_address = value;
		if (err)
			return err;
		if (!is_value && !word_at(s, value, &value))
			return -EFAULT;
	}
	set(&s->next, rule->reg, value);
	return 0;
}

static enum stack_end end_of_error(int err)
{
	switch (err) {
	case -EFAULT:
		return END_TRUNCATED;
	case -ENODATA:
		return END_NO_REGISTERS;
	default:
		return END_BAD_TABLES;
	}
}

/* One frame out by its row. True: next is the caller. */
static bool step_by_row(struct stepper *s, const struct cfi_row *row, enum stack_end *end)
{
	uint64_t cfa, value;
	bool is_value;
	int err;

	if (row->cfa_op_count) {
		err = dwarf_expression_run(s->reader, &s->now, 0, row->cfa_ops, row->cfa_op_count,
					   &cfa, &is_value);
		if (err == -EFAULT)
			s->trace->end_address = cfa;
		if (err) {
			*end = end_of_error(err);
			return false;
		}
	} else {
		if (!known(&s->now, row->cfa_register)) {
			*end = END_NO_REGISTERS;
			return false;
		}
		cfa = s->now.value[row->cfa_register] + row->cfa_offset;
	}
	cfa = unwind_data_address(s->now.arch, cfa);
	if (row->undefined >> row->return_register & 1) {
		*end = END_OUTERMOST;
		return false;
	}
	s->next = s->now;
	s->next.valid &= ~row->undefined;
	set(&s->next, s->arch->sp, cfa);
	for (unsigned i = 0; i < row->rule_count; i++) {
		err = apply_rule(s, &row->rules[i], cfa);
		if (!err)
			continue;
		/* Any other register may be missed without harm if nobody asks for it. */
		s->next.valid &= ~(1ull << row->rules[i].reg);
		if (row->rules[i].reg == row->return_register) {
			*end = end_of_error(err);
			return false;
		}
	}
	if (!known(&s->next, row->return_register)) {
		*end = END_NO_REGISTERS;
		return false;
	}
	value = code_address(s, s->next.value[row->return_register]);
	if (!value) {
		*end = END_OUTERMOST;
		return false;
	}
	set(&s->next, s->arch->pc, value);
	s->method = row->signal ? METHOD_SIGNAL : row->quick ? METHOD_QUICK : METHOD_CFI;
	return true;
}

/* The kernel's signal frame, recognised by the code of the trampoline. Needed where that has no
 * tables: arm64 (the vdso's entry is no signal frame since Linux 5.8), musl, qemu-user.
 * arm64: mov x8, #139; svc #0. x86_64: mov $15, %rax or %eax; syscall. */
static bool step_by_trampoline(struct stepper *s)
{
	static const uint8_t arm64[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
	static const uint8_t x86_long[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	static const uint8_t x86_short[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
	/* gregs of x86_64's struct sigcontext, as DWARF numbers */
	static const uint8_t gregs[] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};
	uint8_t code[9] = {0};
	uint64_t sp = s->now.value[s->arch->sp], base, value;

	if (!known(&s->now, s->arch->sp) ||
	    s->reader->code(s->reader->ctx, s->now.value[s->arch->pc], code,
			    s->now.arch == STACK_ARM64 ? sizeof(arm64) : sizeof(code)))
		return false;
	s->next = s->now;
	s->next.valid = 0;
	if (s->now.arch == STACK_ARM64) {
		if (memcmp(code, arm64, sizeof(arm64)))
			return false;
		/* siginfo, then uc_mcontext in struct ucontext, then regs in struct sigcontext */
		base = sp + 0x80 + 0xb0 + 8;
		for (unsigned i = 0; i < 33; i++) {
			if (!word_at(s, base + 8 * i, &value))
				return false;
			set(&s->next, i, value);
		}
	} else {
		if (memcmp(code, x86_long, sizeof(x86_long)) &&
		    memcmp(code, x86_short, sizeof(x86_short)))
			return false;
		/* the handler's return took the trampoline's address off: sp is at struct ucontext
		 */
		base = sp + 40;
		for (unsigned i = 0; i < sizeof(gregs); i++) {
			if (!word_at(s, base + 8 * i, &value))
				return false;
			set(&s->next, gregs[i], value);
		}
	}
	s->method = METHOD_SIGNAL;
	return true;
}

/* The stack must get shorter. Only the innermost frame may leave the stack pointer where it is
 * (arm64 leaf), and a signal may have come in on another stack. */
static bool advances(struct stepper *s, bool exact)
{
	uint64_t from = s->now.value[s->arch->sp], to = s->next.value[s->arch->sp];

	if (s->method == METHOD_SIGNAL)
		return ++s->signal_frames <= MAX_SIGNAL_FRAMES;
	if (to == from)
		return exact && s->next.value[s->arch->pc] != s->now.value[s->arch->pc];
	return to > from;
}

/* The method that the interpreter of this row runs is a frame of its own behind it, as in Android's
 * libunwindstack. One whose byte code is not known, because the register is not, is there too:
 * its pc is 0. False: there is no room. */
static bool add_dex_frame(struct stepper *s, const struct cfi_row *row)
{
	const struct cfi_rule *rule = &row->rules[row->dex_rule - 1];
	struct stack_frame *frame = &s->trace->frames[s->trace->count];
	uint64_t pc;
	bool is_value;

	if (s->trace->count == STACK_MAX_FRAMES)
		return false;
	if (dwarf_expression_run(s->reader, &s->now, 0, rule->ops, rule->other, &pc, &is_value) ||
	    !is_value)
		pc = 0;
	pc = unwind_data_address(s->now.arch, pc);
	*frame = (struct stack_frame){.pc = pc,
				      .offset = pc,
				      .function = pc,
				      .kind = FRAME_DEX,
				      .method = METHOD_CFI,
				      .exact = true};
	if (pc && s->reader->locate_dex)
		s->reader->locate_dex(s->reader->ctx, frame);
	s->trace->count++;
	return true;
}

/* What was inlined at the frame's place stands in front of it. */
static struct stack_frame *add_inlined(struct stepper *s, struct stack_frame *frame)
{
	struct stack_frame own = *frame;
	size_t count = 0;

	if (s->reader->inlined)
		count = s->reader->inlined(s->reader->ctx, &own, frame,
					   STACK_MAX_FRAMES - 1 - s->trace->count);
	frame[count] = own;
	s->trace->count += count;
	return &frame[count];
}

void unwind_run(const struct unwind_reader *reader, const struct stack_registers *registers,
		struct stack_trace *trace)
{
	struct stepper s = {.reader = reader,
			    .arch = &architectures[registers->arch],
			    .now = *registers,
			    .trace = trace,
			    .method = METHOD_START};
	bool exact = true;

	trace->count = 0;
	trace->complete = false;
	trace->end = END_NO_REGISTERS;
	if (!known(&s.now, s.arch->pc))
		return;
	set(&s.now, s.arch->pc, code_address(&s, s.now.value[s.arch->pc]));
	for (;;) {
		uint64_t pc = s.now.value[s.arch->pc];
		const struct cfi_row *row = NULL;
		struct stack_frame *frame = &trace->frames[trace->count];
		int err;

		trace->end_address = pc;
		if (trace->count == STACK_MAX_FRAMES) {
			trace->end = END_FRAME_LIMIT;
			return;
		}
		*frame = (struct stack_frame){
			.pc = pc, .offset = pc, .function = pc, .method = s.method, .exact = exact};
		if (!exact && known(&s.now, s.arch->sp))
			reader->word(reader->ctx,
				     unwind_data_address(s.now.arch, s.now.value[s.arch->sp]),
				     &frame->at_sp);
		err = reader->locate(reader->ctx, exact ? pc : pc - 1, frame, &row);
		if (err == -EFAULT && trace->count) {
			trace->end = END_NOT_MAPPED;
			return;
		}
		if (!err)
			frame = add_inlined(&s, frame);
		trace->count++;
		trace->end = err == -EFAULT    ? END_NOT_MAPPED
			     : err == -ENODEV  ? END_JIT
			     : err == -ENOEXEC ? END_NO_MODULE
			     : err == -EBADMSG ? END_BAD_TABLES
					       : END_NO_TABLES;
		/* The trampoline is entered at its first byte: look it up there. */
		if (!err && row->signal && !exact) {
			struct stack_frame again = *frame;
			const struct cfi_row *exact_row;

			if (!reader->locate(reader->ctx, pc, &again, &exact_row) &&
			    exact_row->signal)
				row = exact_row;
			else
				err = reader->locate(reader->ctx, pc - 1, &again, &row);
		}
		if (!err && row->dex_rule && !add_dex_frame(&s, row)) {
			trace->end = END_FRAME_LIMIT;
			return;
		}
		/* What a JIT compiler keeps in its registers and on the stack is its own affair. */
		if (err == -ENODEV)
			return;
		if ((err || frame->kind == FRAME_VDSO) && step_by_trampoline(&s)) {
			frame->exact = true;
			reader->locate(reader->ctx, pc, frame, &row);
		} else if (!err && step_by_row(&s, row, &trace->end))
			;
		else if (!err)
			break;
		else if (err == -EPROTO ? !exact || !unwind_step_by_link(&s)
					: !unwind_step_by_guess(&s, exact))
			break;
		if (!advances(&s, exact)) {
			trace->end = END_CYCLE;
			return;
		}
		exact = s.method == METHOD_SIGNAL;
		s.now = s.next;
	}
	trace->complete = trace->end == END_OUTERMOST;
	for (size_t i = 0; trace->complete && i < trace->count; i++)
		trace->complete = trace->frames[i].method != METHOD_FRAME_POINTER &&
				  trace->frames[i].method != METHOD_SCAN;
}
