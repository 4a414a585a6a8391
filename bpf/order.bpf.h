/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Order of words that are shared without a lock. Which word is written how stands beside the word,
 * in include/abi/. */
#pragma once
#include "vmlinux.h"

/* clang leaves BPF_FETCH out where nobody uses the old value, and an arm64 JIT orders nothing then:
 * so the old value is "used". Kernels that refuse BPF_FETCH are given the same instruction without
 * it (user/kernel/atomics.c), so the old value must not be looked at, and this must not be called
 * in a subprogram, which that pass does not see. */
#define fetch_add(pointer, n)                                                   \
	do {                                                                    \
		typeof(*(pointer)) fetched_ = __sync_fetch_and_add(pointer, n); \
		asm volatile("" : : "r"(fetched_) : "memory");                  \
	} while (0)

/* The same for a word that only one program at a time writes, and that nothing interrupts: x86
 * shows stores in their order, so that the compiler alone has to keep it. */
#ifdef __TARGET_ARCH_x86
#define ordered_add(pointer, n)                                   \
	do {                                                      \
		asm volatile("" : : : "memory");                  \
		*(volatile typeof(*(pointer)) *)(pointer) += (n); \
		asm volatile("" : : : "memory");                  \
	} while (0)
#else
#define ordered_add(pointer, n) fetch_add(pointer, n)
#endif

/* The same, where it is known that the word is `value` by now less n: nothing is loaded on x86, so
 * that a cache line that has to be fetched holds nobody up. */
#ifdef __TARGET_ARCH_x86
#define ordered_set(pointer, value, n)                               \
	do {                                                         \
		asm volatile("" : : : "memory");                     \
		*(volatile typeof(*(pointer)) *)(pointer) = (value); \
		asm volatile("" : : : "memory");                     \
	} while (0)
#else
#define ordered_set(pointer, value, n) \
	do {                           \
		(void)(value);         \
		fetch_add(pointer, n); \
	} while (0)
#endif

/* Between two loads of a program that reads what another one writes. */
#ifdef __TARGET_ARCH_x86
#define order_loads() asm volatile("" : : : "memory")
#else
#define order_loads()                 \
	do {                          \
		__u64 here_ = 0;      \
		fetch_add(&here_, 1); \
	} while (0)
#endif

/* A rare part of a program that writes what is read without a lock: by itself where order takes no
 * fetching add, else within each program, where the pass that makes the adds plain finds it. */
#ifdef __TARGET_ARCH_x86
#define ordering_part static __noinline
#else
#define ordering_part static __always_inline
#endif
