/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/crc32c.h"

#define POLYNOMIAL_REFLECTED 0x82f63b78u

/* A nibble table: 64 bytes of constants instead of 1 KiB, fast enough for a few lines a second. */
static uint32_t step(uint32_t crc)
{
	for (int bit = 0; bit < 4; bit++)
		crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL_REFLECTED : 0);
	return crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *p = data;
	uint32_t table[16];

	for (uint32_t i = 0; i < 16; i++)
		table[i] = step(i);
	crc = ~crc;
	while (length--) {
		crc ^= *p++;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}
