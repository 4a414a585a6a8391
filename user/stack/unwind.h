/* SPDX-License-Identifier: BSD-2-Clause */
/* The stepper: registers and copied memory in, frames out. No I/O of its own; x86_64 and arm64
 * from the same code, whatever the host is. */
#pragma once
#include "jankscope/stack.h"
#include "stack/cfi.h"

struct unwind_reader {
	/* The word at address of the copied memory. False: not copied. */
	bool (*word)(void *ctx, uint64_t address, uint64_t *value);
	/* Fill module, offset, function, function_pc and kind of the frame, and its row, for
	 * address: frame->pc, or the byte before it for a return address. 0; -EFAULT: in no
	 * executable mapping; -ENOEXEC: mapped, no ELF that can be read; -ENODEV: code that no file
	 * holds (of a JIT compiler); -ENODATA: no tables; -EPROTO: the same, of code that uses the
	 * frame pointer for other things; -EBADMSG: bad ones; -ENOMEM. The row
	 * stays valid until the next call. */
	int (*locate)(void *ctx, uint64_t address, struct stack_frame *frame,
		      const struct cfi_row **row);
	/* Fill module, offset, function of the frame of a method whose byte code at frame->pc is
	 * interpreted; left as it is where nobody knows. NULL: nobody knows any. */
	void (*locate_dex)(void *ctx, struct stack_frame *frame);
	/* The methods that the compiler inlined at the place of a frame that was located, innermost
	 * first, at most room of them: how many. NULL: nobody knows any. */
	size_t (*inlined)(void *ctx, const struct stack_frame *frame, struct stack_frame *to,
			  size_t room);
	/* Copy len code bytes at address. 0 or -errno. */
	int (*code)(void *ctx, uint64_t address, void *to, size_t len);
	/* Whether address lies in an executable mapping. */
	bool (*executable)(void *ctx, uint64_t address);
	void *ctx;
	unsigned address_bits; /* of user addresses: what is above is pointer authentication or tag
				*/
};

/* Unwind from registers into trace (at most STACK_MAX_FRAMES frames). trace->end says why it
 * ended. Method: DWARF 5 section 6.4; arm64 details from the AAPCS64 and the kernel's
 * arch/arm64/include/uapi/asm/sigcontext.h. */
void unwind_run(const struct unwind_reader *reader, const struct stack_registers *registers,
		struct stack_trace *trace);

/* Address of the code byte without pointer authentication bits (arm64), unchanged on x86_64. */
uint64_t unwind_code_address(enum stack_arch arch, unsigned address_bits, uint64_t address);

/* user/stack/dwarf_expression.c: run the operations with cfa pushed where asked for by
 * DW_OP_call_frame_cfa. *is_value: the result is the value, not the address of it. 0; -EBADMSG:
 * malformed or too long; -EFAULT with *result: that address is not in the copied memory;
 * -ENODATA: needs a register that is not known. */
int dwarf_expression_run(const struct unwind_reader *reader,
			 const struct stack_registers *registers, uint64_t cfa, const Dwarf_Op *ops,
			 size_t count, uint64_t *result, bool *is_value);

/* Address of data without the top byte (arm64 TBI / MTE tags). */
static inline uint64_t unwind_data_address(enum stack_arch arch, uint64_t address)
{
	return arch == STACK_ARM64 ? address << 8 >> 8 : address;
}
