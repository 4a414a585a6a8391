/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of the stepper: the state between two frames. */
#pragma once
#include "stack/unwind.h"

/* Registers by DWARF number that the stepper itself needs. */
struct architecture {
	uint8_t sp, pc, fp, lr; /* lr 0: there is none */
};

struct stepper {
	const struct unwind_reader *reader;
	const struct architecture *arch;
	struct stack_registers now, next;
	struct stack_trace *trace;
	unsigned signal_frames;
	enum stack_method method; /* that led to next */
};

static inline bool known(const struct stack_registers *registers, unsigned reg)
{
	return registers->valid >> reg & 1;
}

static inline void set(struct stack_registers *registers, unsigned reg, uint64_t value)
{
	registers->value[reg] = value;
	registers->valid |= 1ull << reg;
}

static inline uint64_t code_address(const struct stepper *s, uint64_t address)
{
	return unwind_code_address(s->now.arch, s->reader->address_bits, address);
}

/* To the caller, by what the code and the stack look like. exact: now is where the thread runs, not
 * where a call returns to. True: next is the caller, and method says how it was found. */
bool unwind_step_by_guess(struct stepper *stepper, bool exact);
/* The same for the innermost frame, by the return address where the call put it; nothing else is
 * tried. */
bool unwind_step_by_link(struct stepper *stepper);
