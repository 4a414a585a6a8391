/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012): a short hash that nobody who lacks its key
 * can tell from a random function. libc has none, and no linked library gives its own away. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t siphash_rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void siphash_rounds(uint64_t v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = siphash_rotate(v[1], 13) ^ v[0];
		v[3] = siphash_rotate(v[3], 16) ^ v[2];
		v[0] = siphash_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = siphash_rotate(v[1], 17) ^ v[2];
		v[3] = siphash_rotate(v[3], 21) ^ v[0];
		v[2] = siphash_rotate(v[2], 32);
	}
}

static inline uint64_t siphash_word(const unsigned char *p, size_t count)
{
	uint64_t word = 0;

	for (size_t i = 0; i < count; i++)
		word |= (uint64_t)p[i] << 8 * i;
	return word;
}

static inline uint64_t siphash(const unsigned char key[16], const void *data, size_t length)
{
	const unsigned char *p = data, *end = p + (length & ~(size_t)7);
	uint64_t k0 = siphash_word(key, 8), k1 = siphash_word(key + 8, 8), word;
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			 k1 ^ 0x7465646279746573};

	for (; p < end; p += 8) {
		word = siphash_word(p, 8);
		v[3] ^= word;
		siphash_rounds(v, 2);
		v[0] ^= word;
	}
	word = siphash_word(p, length & 7) | (uint64_t)length << 56;
	v[3] ^= word;
	siphash_rounds(v, 2);
	v[0] ^= word;
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
