/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame of code that ART compiled, by what the compiler keeps of it: its size and which
 * registers it saves, those with the highest numbers uppermost
 * (art/runtime/quick/quick_method_frame_info.h). While a frame is being made or taken down it is
 * not whole; how far that has come is read from the instructions. */
#pragma once
#include <stdbool.h>

#include "jankscope/stack.h"
#include "stack/code/byte_source.h"

#define QUICK_MAX_RULES 20

struct quick_frame {
	enum stack_arch arch;
	uint32_t code_bytes, frame_bytes, core_spills;
	bool stub; /* it may be one that calls a native method */
};

/* The CFA is the stack pointer + cfa_offset; a register without a rule has the caller's value. */
struct quick_row {
	int32_t cfa_offset;
	unsigned rule_count;
	struct {
		uint8_t reg; /* by DWARF number */
		int32_t offset;
	} rules[QUICK_MAX_RULES]; /* saved at CFA + offset */
};

/* The row for `offset` of the code at `code` of the source. exact: the thread is there; else a call
 * has it as its return address. 0; -EBADMSG: the code does not make such a frame; what reading
 * says. */
int quick_frame_row(const struct quick_frame *frame, const struct byte_source *source,
		    uint64_t code, uint32_t offset, bool exact, struct quick_row *row);
