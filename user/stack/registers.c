/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/registers.h"

#include <errno.h>
#include <string.h>

#define X86_ALL   ((1ull << 17) - 1)
#define ARM64_ALL ((1ull << 33) - 1)
/* __USER32_CS of arch/x86/include/asm/segment.h; PSR_MODE32_BIT of arm64's ptrace.h */
#define X86_CS_COMPAT       0x23
#define ARM64_PSTATE_MODE32 0x10

uint64_t registers_perf_mask(void)
{
	/* x86_64: all but the segment bases; arm64: x0..x30, sp, pc (asm/perf_regs.h of each) */
	return STACK_HOST_ARCH == STACK_X86_64 ? 0xff0fff : ARM64_ALL;
}

int registers_from_kernel(struct stack_registers *to, enum stack_arch arch, const uint64_t *words,
			  size_t count)
{
	/* DWARF number of each word of struct pt_regs up to the instruction pointer; 0xff: none */
	static const uint8_t x86[] = {15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, 0xff, 16};

	*to = (struct stack_registers){.arch = arch, .syscall_nr = -1};
	if (arch == STACK_X86_64) {
		if (count < 21)
			return -EINVAL;
		if (words[17] == X86_CS_COMPAT)
			return -ENOTSUP;
		for (unsigned i = 0; i < sizeof(x86); i++) {
			if (x86[i] != 0xff)
				to->value[x86[i]] = words[i];
		}
		to->value[7] = words[19];
		to->valid = X86_ALL;
		to->syscall_nr = (int64_t)words[15];
		return 0;
	}
	if (count < 34)
		return -EINVAL;
	if (words[33] & ARM64_PSTATE_MODE32)
		return -ENOTSUP;
	memcpy(to->value, words, 33 * sizeof(*words));
	to->valid = ARM64_ALL;
	if (count >= 36)
		to->syscall_nr = (int32_t)words[35];
	return 0;
}

int registers_from_perf(struct stack_registers *to, enum stack_arch arch, const uint64_t *words,
			size_t count)
{
	/* ax bx cx dx si di bp sp ip flags cs ss, then r8..r15 */
	static const uint8_t x86[] = {0,    3,    2, 1, 4,  5,  6,  7,  16, 0xff,
				      0xff, 0xff, 8, 9, 10, 11, 12, 13, 14, 15};

	*to = (struct stack_registers){.arch = arch, .syscall_nr = -1};
	if (arch == STACK_X86_64) {
		if (count < sizeof(x86))
			return -EINVAL;
		for (unsigned i = 0; i < sizeof(x86); i++) {
			if (x86[i] != 0xff)
				to->value[x86[i]] = words[i];
		}
		to->valid = X86_ALL;
		return 0;
	}
	if (count < 33)
		return -EINVAL;
	memcpy(to->value, words, 33 * sizeof(*words));
	to->valid = ARM64_ALL;
	return 0;
}

uint64_t registers_sp(const struct stack_registers *registers)
{
	uint64_t sp = registers->value[registers->arch == STACK_X86_64 ? 7 : 31];

	return registers->arch == STACK_ARM64 ? sp << 8 >> 8 : sp;
}

uint64_t registers_pc(const struct stack_registers *registers)
{
	return registers->value[registers->arch == STACK_X86_64 ? 16 : 32];
}
