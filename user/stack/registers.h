/* SPDX-License-Identifier: BSD-2-Clause */
/* Register sets of the kernel's several interfaces, by DWARF number. */
#pragma once
#include <sys/types.h>

#include "jankscope/stack.h"

#if defined(__aarch64__)
#define STACK_HOST_ARCH STACK_ARM64
#else
#define STACK_HOST_ARCH STACK_X86_64
#endif

/* sample_regs_user of perf_event_open for all general registers of the host. */
uint64_t registers_perf_mask(void);

/* From the words of struct pt_regs (x86_64, at least 21) or user_pt_regs (arm64, at least 34): what
 * looper_registers, and PTRACE_GETREGSET's NT_PRSTATUS, hold. 0; -ENOTSUP: 32-bit code; -EINVAL:
 * too few words. */
int registers_from_kernel(struct stack_registers *to, enum stack_arch arch, const uint64_t *words,
			  size_t count);
/* From the words that a perf sample holds for registers_perf_mask(), lowest bit first. */
int registers_from_perf(struct stack_registers *to, enum stack_arch arch, const uint64_t *words,
			size_t count);

uint64_t registers_sp(const struct stack_registers *registers);
uint64_t registers_pc(const struct stack_registers *registers);
