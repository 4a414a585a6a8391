/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_unescape.h"

#include <stdint.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Four hexadecimal digits; false: they are none. */
static bool take_hex(const char *p, const char *end, unsigned *value)
{
	*value = 0;
	if (end - p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = (char)(p[i] | 32); /* small, where it is a letter */

		if (!is_digit(p[i]) && (c < 'a' || c > 'f'))
			return false;
		*value = *value * 16 + (unsigned)(is_digit(p[i]) ? p[i] - '0' : c - 'a' + 10);
	}
	return true;
}

static char *put_utf8(char *out, unsigned code)
{
	if (code < 0x80) {
		*out++ = (char)code;
	} else if (code < 0x800) {
		*out++ = (char)(0xc0 | code >> 6);
		*out++ = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		*out++ = (char)(0xe0 | code >> 12);
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	} else {
		*out++ = (char)(0xf0 | code >> 18);
		*out++ = (char)(0x80 | (code >> 12 & 0x3f));
		*out++ = (char)(0x80 | (code >> 6 & 0x3f));
		*out++ = (char)(0x80 | (code & 0x3f));
	}
	return out;
}

/* A character behind \u, the second half of a pair included. NULL: none, NUL, or half a pair. */
static const char *take_unicode(const char *p, const char *end, char **out)
{
	unsigned code, low;

	if (!take_hex(p, end, &code))
		return NULL;
	p += 4;
	if (code >= 0xd800 && code < 0xdc00) {
		if (end - p < 2 || p[0] != '\\' || p[1] != 'u' || !take_hex(p + 2, end, &low) ||
		    low < 0xdc00 || low > 0xdfff)
			return NULL;
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		p += 6;
	} else if (!code || (code >= 0xdc00 && code < 0xe000)) {
		return NULL;
	}
	*out = put_utf8(*out, code);
	return p;
}

/* Bytes of the UTF-8 character at p, 0: there is none (RFC 3629: no surrogates, no longer way than
 * needed). */
static size_t utf8_length(const unsigned char *p, size_t room)
{
	size_t length = p[0] < 0x80   ? 1
			: p[0] < 0xc2 ? 0
			: p[0] < 0xe0 ? 2
			: p[0] < 0xf0 ? 3
			: p[0] < 0xf5 ? 4
				      : 0;

	if (!length || length > room)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

static bool is_plain(uint64_t word)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7, escape = word ^ (ones * '\\');

	return !((word | ((escape - ones) & ~escape)) & tops);
}

bool json_unescape(const char *p, const char *end, char *out)
{
	static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";

	while (p < end) {
		uint64_t word;

		/* Eight at a time, where all are ASCII and none is a backslash. */
		for (; end - p >= 8; p += 8, out += 8) {
			memcpy(&word, p, sizeof(word));
			if (!is_plain(word))
				break;
			memcpy(out, &word, sizeof(word));
		}
		if (p == end)
			break;
		if ((unsigned char)*p < 0x80 && *p != '\\') {
			*out++ = *p++;
			continue;
		}
		if (*p == '\\') {
			const char *at = p + 1 < end ? strchr(from, p[1]) : NULL;

			if (at && *at) {
				*out++ = to[at - from];
				p += 2;
			} else {
				p = p + 1 < end && p[1] == 'u' ? take_unicode(p + 2, end, &out)
							       : NULL;
				if (!p)
					return false;
			}
		} else {
			size_t length = utf8_length((const unsigned char *)p, (size_t)(end - p));

			if (!length)
				return false;
			memcpy(out, p, length);
			out += length;
			p += length;
		}
	}
	*out = 0;
	return true;
}
