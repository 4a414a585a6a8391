/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the DWARF stack machine (DWARF 5, 2.5.1) that call frame information may use. */
#include <dwarf.h>
#include <errno.h>

#include "stack/unwind.h"

#define MAX_DEPTH 64
#define MAX_STEPS 1024

struct machine {
	uint64_t stack[MAX_DEPTH];
	unsigned depth;
};

static bool push(struct machine *m, uint64_t value)
{
	if (m->depth == MAX_DEPTH)
		return false;
	m->stack[m->depth++] = value;
	return true;
}

/* Operations on the top two words: below op top. */
static int binary(struct machine *m, uint8_t atom)
{
	uint64_t top, below, *to;

	if (m->depth < 2)
		return -EBADMSG;
	top = m->stack[--m->depth];
	to = &m->stack[m->depth - 1];
	below = *to;
	switch (atom) {
	case DW_OP_and:
		*to = below & top;
		break;
	case DW_OP_div:
		if (!top || ((int64_t)below == INT64_MIN && (int64_t)top == -1))
			return -EBADMSG;
		*to = (int64_t)below / (int64_t)top;
		break;
	case DW_OP_minus:
		*to = below - top;
		break;
	case DW_OP_mod:
		if (!top)
			return -EBADMSG;
		*to = below % top;
		break;
	case DW_OP_mul:
		*to = below * top;
		break;
	case DW_OP_or:
		*to = below | top;
		break;
	case DW_OP_plus:
		*to = below + top;
		break;
	case DW_OP_shl:
		*to = top < 64 ? below << top : 0;
		break;
	case DW_OP_shr:
		*to = top < 64 ? below >> top : 0;
		break;
	case DW_OP_shra:
		*to = top < 63             ? (uint64_t)((int64_t)below >> top)
		      : (int64_t)below < 0 ? UINT64_MAX
					   : 0;
		break;
	case DW_OP_xor:
		*to = below ^ top;
		break;
	case DW_OP_eq:
		*to = below == top;
		break;
	case DW_OP_ne:
		*to = below != top;
		break;
	case DW_OP_ge:
		*to = (int64_t)below >= (int64_t)top;
		break;
	case DW_OP_gt:
		*to = (int64_t)below > (int64_t)top;
		break;
	case DW_OP_le:
		*to = (int64_t)below <= (int64_t)top;
		break;
	case DW_OP_lt:
		*to = (int64_t)below < (int64_t)top;
		break;
	default:
		return -EBADMSG;
	}
	return 0;
}

static int deref(struct machine *m, const struct unwind_reader *reader, enum stack_arch arch,
		 unsigned bytes, uint64_t *missing)
{
	uint64_t address, word;

	if (!m->depth || !bytes || bytes > 8)
		return -EBADMSG;
	address = unwind_data_address(arch, m->stack[m->depth - 1]);
	if (!reader->word(reader->ctx, address, &word)) {
		*missing = address;
		return -EFAULT;
	}
	m->stack[m->depth - 1] = bytes == 8 ? word : word & ((1ull << bytes * 8) - 1);
	return 0;
}

static int push_register(struct machine *m, const struct stack_registers *registers, uint64_t reg,
			 uint64_t offset)
{
	if (reg >= STACK_REGISTERS)
		return -EBADMSG;
	if (!(registers->valid >> reg & 1))
		return -ENODATA;
	return push(m, registers->value[reg] + offset) ? 0 : -EBADMSG;
}

/* Operations that look deeper into the stack than binary ones. */
static int shuffle(struct machine *m, const Dwarf_Op *op)
{
	unsigned depth = m->depth;
	uint64_t *top = &m->stack[depth ? depth - 1 : 0], word;

	switch (op->atom) {
	case DW_OP_dup:
		return depth && push(m, *top) ? 0 : -EBADMSG;
	case DW_OP_drop:
		if (!depth)
			return -EBADMSG;
		m->depth--;
		return 0;
	case DW_OP_over:
		return depth > 1 && push(m, top[-1]) ? 0 : -EBADMSG;
	case DW_OP_pick:
		return op->number < depth && push(m, m->stack[depth - 1 - op->number]) ? 0
										       : -EBADMSG;
	case DW_OP_swap:
		if (depth < 2)
			return -EBADMSG;
		word = top[0];
		top[0] = top[-1];
		top[-1] = word;
		return 0;
	case DW_OP_rot:
		if (depth < 3)
			return -EBADMSG;
		word = top[0];
		top[0] = top[-1];
		top[-1] = top[-2];
		top[-2] = word;
		return 0;
	case DW_OP_neg:
	case DW_OP_not:
	case DW_OP_abs:
		if (!depth)
			return -EBADMSG;
		if (op->atom == DW_OP_not)
			*top = ~*top;
		else if (op->atom == DW_OP_neg || (int64_t)*top < 0)
			*top = -*top;
		return 0;
	case DW_OP_plus_uconst:
		if (!depth)
			return -EBADMSG;
		*top += op->number;
		return 0;
	default:
		return binary(m, op->atom);
	}
}

int dwarf_expression_run(const struct unwind_reader *reader,
			 const struct stack_registers *registers, uint64_t cfa, const Dwarf_Op *ops,
			 size_t count, uint64_t *result, bool *is_value)
{
	struct machine m = {.depth = 0};
	size_t at = 0;
	int err = 0;

	*is_value = false;
	for (unsigned steps = 0; at < count; steps++) {
		const Dwarf_Op *op = &ops[at++];
		uint8_t atom = op->atom;

		if (steps == MAX_STEPS)
			return -EBADMSG;
		if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) {
			err = push(&m, atom - DW_OP_lit0) ? 0 : -EBADMSG;
		} else if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31) {
			err = push_register(&m, registers, atom - DW_OP_breg0, op->number);
		} else if (atom == DW_OP_bregx) {
			err = push_register(&m, registers, op->number, op->number2);
		} else if (atom == DW_OP_call_frame_cfa) {
			err = push(&m, cfa) ? 0 : -EBADMSG;
		} else if (atom == DW_OP_addr || (atom >= DW_OP_const1u && atom <= DW_OP_consts)) {
			err = push(&m, op->number) ? 0 : -EBADMSG;
		} else if (atom == DW_OP_deref) {
			err = deref(&m, reader, registers->arch, 8, result);
		} else if (atom == DW_OP_deref_size) {
			err = op->number <= 8
				      ? deref(&m, reader, registers->arch, op->number, result)
				      : -EBADMSG;
		} else if (atom == DW_OP_skip || atom == DW_OP_bra) {
			/* The target is counted in bytes from the end of this 3-byte operation. */
			Dwarf_Word target = op->offset + 3 + (int16_t)op->number;
			size_t to;

			if (atom == DW_OP_bra) {
				if (!m.depth)
					return -EBADMSG;
				if (!m.stack[--m.depth])
					continue;
			}
			for (to = 0; to < count && ops[to].offset != target; to++)
				;
			at = to;
		} else if (atom == DW_OP_stack_value && at == count) {
			*is_value = true;
		} else if (atom != DW_OP_nop) {
			err = shuffle(&m, op);
		}
		if (err)
			return err;
	}
	if (!m.depth)
		return -EBADMSG;
	*result = m.stack[m.depth - 1];
	return 0;
}
