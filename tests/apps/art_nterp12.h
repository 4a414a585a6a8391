/* SPDX-License-Identifier: BSD-2-Clause */
/* A frame as ART's nterp makes it on arm64 from Android 12 on, whose libart was not to be had: all
 * callee-saved registers in 160 bytes, then registers of the method in a frame whose size is
 * another one for each method. So its caller's stack pointer is found by a word below where x25
 * points; x22 is at the instruction of the byte code, x29 at the method's registers and no frame
 * pointer. The tables say so as ART's do (runtime/interpreter/mterp/arm64ng/main.S of Android 12 to
 * 15): the CFA by an expression, register 0 with the mark "DEX1". */
#pragma once
#ifdef __aarch64__
#include <stdint.h>

extern "C" void nterp_of_12(void *state, void (*next)(void *state), const uint8_t *dex_pc);
asm(R"(
	.text
	.balign 16
	.global nterp_of_12
	.type nterp_of_12, %function
nterp_of_12:
	.cfi_startproc
	sub sp, sp, #160
	.cfi_adjust_cfa_offset 160
	stp d8, d9, [sp]
	stp d10, d11, [sp, #16]
	stp d12, d13, [sp, #32]
	stp d14, d15, [sp, #48]
	stp x19, x20, [sp, #64]
	.cfi_rel_offset x19, 64
	.cfi_rel_offset x20, 72
	stp x21, x22, [sp, #80]
	.cfi_rel_offset x21, 80
	.cfi_rel_offset x22, 88
	stp x23, x24, [sp, #96]
	.cfi_rel_offset x23, 96
	.cfi_rel_offset x24, 104
	stp x25, x26, [sp, #112]
	.cfi_rel_offset x25, 112
	.cfi_rel_offset x26, 120
	stp x27, x28, [sp, #128]
	.cfi_rel_offset x27, 128
	.cfi_rel_offset x28, 136
	stp x29, x30, [sp, #144]
	.cfi_rel_offset x29, 144
	.cfi_rel_offset x30, 152
	mov x22, x2
	sub x14, sp, #112
	add x25, x14, #48
	add x29, x25, #16
	mov x28, sp
	.cfi_def_cfa_register x28
	mov sp, x14
	str x28, [x25, #-8]
	// def_cfa_expression, 6 bytes: breg25 -8, deref, plus_uconst 160
	.cfi_escape 0x0f, 6, 0x70 + 25, 0x78, 0x06, 0x23, 0xa0, 0x01
	// val_expression of x0, 9 bytes: const4u "DEX1", drop, bregx 22 0
	.cfi_escape 0x16, 0, 9, 0x0c, 'D', 'E', 'X', '1', 0x13, 0x92, 22, 0
	str x0, [sp]
	mov x27, #27
	str x22, [x25, #-16]
	blr x1
	ldr x16, [x25, #-8]
	mov sp, x16
	.cfi_def_cfa sp, 160
	ldp d8, d9, [sp]
	ldp d10, d11, [sp, #16]
	ldp d12, d13, [sp, #32]
	ldp d14, d15, [sp, #48]
	ldr x22, [sp, #88]
	.cfi_restore x22
	ldp x23, x24, [sp, #96]
	.cfi_restore x23
	.cfi_restore x24
	ldp x25, x26, [sp, #112]
	.cfi_restore x25
	.cfi_restore x26
	ldp x27, x28, [sp, #128]
	.cfi_restore x27
	.cfi_restore x28
	ldp x29, x30, [sp, #144]
	.cfi_restore x29
	.cfi_restore x30
	add sp, sp, #160
	.cfi_adjust_cfa_offset -160
	ret
	.cfi_endproc
	.size nterp_of_12, . - nterp_of_12
)");
#endif
