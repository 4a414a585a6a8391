/* SPDX-License-Identifier: BSD-2-Clause */
/* The few lines that a test program needs to report in TAP; no library, so that it also runs
 * in a guest that has nothing but the kernel. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_failures;

/* Report one result; returns cond so that a test can give up early. */
static inline bool __attribute__((format(printf, 2, 3))) tap_ok(bool cond, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("%s - ", cond ? "ok" : "not ok");
	vprintf(fmt, ap);
	putchar('\n');
	fflush(stdout);
	va_end(ap);
	tap_failures += !cond;
	return cond;
}

/* Report a test that cannot run here, and why. */
static inline void tap_skip(const char *name, const char *reason)
{
	printf("ok - %s # SKIP %s\n", name, reason);
	fflush(stdout);
}

/* A line of facts beside the results. */
static inline void __attribute__((format(printf, 1, 2))) tap_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	putchar('\n');
	fflush(stdout);
	va_end(ap);
}

/* No figure is judged on an emulator (the guests set EMULATED): counts and logic only. */
static inline bool tap_is_emulated(void)
{
	return getenv("EMULATED") != NULL;
}

/* The exit status of main(). */
static inline int tap_done(void)
{
	return tap_failures ? 1 : 0;
}
