/* SPDX-License-Identifier: BSD-2-Clause */
/* A function for programs that run code out of a copy of their own file. */
#ifndef TESTS_SLEEP_IN_COPY_H
#define TESTS_SLEEP_IN_COPY_H

#include <sys/syscall.h>
#include <time.h>

/* nanosleep, without anything that stands elsewhere, so that a copy of its bytes works. */
__attribute__((noinline, noclone, aligned(64))) static long sleep_in_copy(const struct timespec *ts)
{
	long result;
#if defined(__x86_64__)
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"((long)SYS_nanosleep), "D"(ts), "S"(0L)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_nanosleep, x0 __asm__("x0") = (long)ts,
			 x1 __asm__("x1") = 0;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(nr), "r"(x1) : "memory");
	result = x0;
#endif
	return result;
}

#endif
