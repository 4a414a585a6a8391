/* SPDX-License-Identifier: BSD-2-Clause */
/* For loops that only burn CPU. An emulator runs the guest's CPUs in turn, each for up to 100 ms;
 * at this hint it goes on to the next one (QEMU: helper_yield, helper_pause), so that a spinning
 * CPU does not hold up what the others wait for. */
#ifndef TESTS_SPIN_H
#define TESTS_SPIN_H

static inline void spin_hint(void)
{
#if defined(__aarch64__)
	__asm__ volatile("yield");
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

#endif
