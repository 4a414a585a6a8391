/* SPDX-License-Identifier: BSD-2-Clause */
/* A fast hash for tables in memory; not stable between builds and not for hostile sharing. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Spread the bits of one number (the finaliser of MurmurHash3). */
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

/* Hash bytes eight at a time, starting from seed. */
static inline uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t hash = seed ^ size * 0x9e3779b97f4a7c15ULL, word;

	for (; size >= 8; size -= 8, p += 8) {
		memcpy(&word, p, 8);
		hash = (hash ^ word) * 0x9fb21c651e98df25ULL;
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, p, size);
	return hash_u64(hash ^ word);
}
