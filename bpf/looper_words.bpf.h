/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The words of struct looper_registers, and where a program finds the ones that it needs. */
#pragma once

#ifdef __TARGET_ARCH_x86
#define REGISTER_WORDS       21
#define WORD_ARGUMENT_0      14
#define WORD_ARGUMENT_1      13
#define WORD_ARGUMENT_2      12
#define WORD_ARGUMENT_3      7
#define WORD_SYSCALL         15
#define WORD_PROGRAM_COUNTER 16
#define WORD_STACK_POINTER   19
#define USER_CS_COMPAT       0x23
#else
#define REGISTER_WORDS       36
#define WORD_ARGUMENT_0      34 /* orig_x0 */
#define WORD_ARGUMENT_1      1
#define WORD_ARGUMENT_2      2
#define WORD_ARGUMENT_3      3
#define WORD_SYSCALL         35
#define WORD_PROGRAM_COUNTER 32
#define WORD_STACK_POINTER   31
#endif
