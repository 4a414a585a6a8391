/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* BPF has no instruction that finds a bit. */
#pragma once
#include "vmlinux.h"

/* By the six highest bits of 2^n x DE_BRUIJN, which are others for each n. */
#define DE_BRUIJN 0x03f79d71b4cb0a89ull
static const __u8 bit_numbers[64] = {
	0,  1,  48, 2,  57, 49, 28, 3,  61, 58, 50, 42, 38, 29, 17, 4,  62, 55, 59, 36, 53, 51,
	43, 22, 45, 39, 33, 30, 24, 18, 12, 5,  63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21,
	44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,  13, 8,  7,  6,
};

/* The number of the lowest bit that is set; word is not 0. */
static __always_inline __u32 first_bit(__u64 word)
{
	return bit_numbers[(word & -word) * DE_BRUIJN >> 58];
}
