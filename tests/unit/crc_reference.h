/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C by the textbook: message bits as a polynomial, most significant first, divided by
 * 0x1EDC6F41, with input and output reflected. Shares no step with util/crc32c.c. */
#pragma once
#include <stddef.h>
#include <stdint.h>

static inline uint32_t reference_crc32c(const void *data, size_t length)
{
	const uint8_t *p = data;
	uint32_t remainder = 0xffffffffu, reflected = 0;

	for (size_t i = 0; i < length; i++)
		for (int bit = 0; bit < 8; bit++) {
			uint32_t feedback = remainder >> 31 ^ (p[i] >> bit & 1u);

			remainder = remainder << 1 ^ (feedback ? 0x1edc6f41u : 0);
		}
	for (int bit = 0; bit < 32; bit++)
		reflected |= (remainder >> bit & 1u) << (31 - bit);
	return ~reflected;
}
