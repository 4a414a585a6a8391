/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/json_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Length of the UTF-8 sequence at p, 0 where it is not one (overlong forms and surrogates too). */
static size_t utf8_length(const uint8_t *p, size_t left)
{
	size_t n = p[0] < 0x80                   ? 1
		   : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		   : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		   : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						 : 0;

	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

void json_put_string(FILE *out, const char *text, size_t size)
{
	const uint8_t *p = (const uint8_t *)text, *end = p + size;

	putc('"', out);
	while (p < end) {
		size_t n = utf8_length(p, (size_t)(end - p));

		if (!n) {
			fputs("\\ufffd", out);
			p++;
			continue;
		}
		if (*p == '"' || *p == '\\')
			fprintf(out, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(out, "\\u%04x", *p);
		else
			fwrite(p, 1, n, out);
		p += n;
	}
	putc('"', out);
}

bool json_text_is_clean(const char *text, size_t size)
{
	while (size) {
		size_t n = utf8_length((const uint8_t *)text, size);

		if (!n)
			return false;
		text += n;
		size -= n;
	}
	return true;
}

char *json_clean_text(const char *text, size_t left)
{
	char *copy = malloc(3 * left + 1), *to = copy;

	if (!copy)
		return NULL;
	while (left) {
		size_t n = utf8_length((const uint8_t *)text, left);

		if (n) {
			memcpy(to, text, n);
			to += n;
		} else {
			memcpy(to, "\xef\xbf\xbd", 3);
			to += 3;
			n = 1;
		}
		text += n;
		left -= n;
	}
	*to = 0;
	return copy;
}
