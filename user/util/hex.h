/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of base 16 in text that a target may have written. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The digits from p on, at most to end, as a number. Where they end; NULL: there is none, or they
 * are more than 64 bits. */
static inline const char *hex_read(const char *p, const char *end, uint64_t *value)
{
	const char *start = p;
	uint64_t v = 0;

	for (; p < end; p++) {
		unsigned digit = (unsigned char)*p;

		if (digit - '0' < 10)
			digit -= '0';
		else if ((digit | 0x20) - 'a' < 6)
			digit = (digit | 0x20) - 'a' + 10;
		else
			break;
		if (v >> 60)
			return NULL;
		v = v << 4 | digit;
	}
	*value = v;
	return p == start ? NULL : p;
}
