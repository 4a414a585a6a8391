/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/crc32c.h"

/* Past this text, or NULL. */
static const char *past(const char *p, const char *end, const char *text)
{
	size_t length = strlen(text);

	return p && (size_t)(end - p) >= length && !memcmp(p, text, length) ? p + length : NULL;
}

static const char *number(const char *p, const char *end, uint64_t *value)
{
	const char *start = p;

	*value = 0;
	for (; p && p < end && *p >= '0' && *p <= '9'; p++) {
		if (p - start > 18)
			return NULL;
		*value = *value * 10 + (uint64_t)(*p - '0');
	}
	return p == start ? NULL : p;
}

bool line_look(const char *line, size_t length, struct line_look *look)
{
	const char *end = line + length, *p = past(line, end, "{\"type\":\""), *quote;
	size_t type;

	quote = p ? memchr(p, '"', (size_t)(end - p)) : NULL;
	type = quote ? (size_t)(quote - p) : 0;
	if (!type || type >= sizeof(look->type))
		return false;
	memcpy(look->type, p, type);
	look->type[type] = 0;
	p = number(past(quote, end, "\",\"seq\":"), end, &look->seq);
	p = number(past(p, end, ",\"t_boot_ns\":"), end, &look->t_boot_ns);
	return p;
}

static ssize_t end_of(FILE *in, ssize_t length)
{
	if (!ferror(in))
		return length;
	return errno ? -errno : -EIO;
}

ssize_t line_read(FILE *in, char **line, size_t *room)
{
	size_t length = 0;
	char *more;
	int c;

	errno = 0;
	while ((c = getc_unlocked(in)) != EOF) {
		if (length == *room) {
			if (length >= LINE_MAX_BYTES)
				return -EMSGSIZE;
			more = realloc(*line, length ? 2 * length : 4096);
			if (!more)
				return -ENOMEM;
			*line = more;
			*room = length ? 2 * length : 4096;
		}
		(*line)[length++] = (char)c;
		if (c == '\n')
			return (ssize_t)length;
	}
	return end_of(in, (ssize_t)length);
}

static const char crc_key[] = ",\"crc\":\"";
static const char digits[] = "0123456789abcdef";

void line_put_crc(char end[LINE_CRC_BYTES + 2], const char *line, size_t length)
{
	uint32_t crc = crc32c(0, line, length);
	char *p = end + sizeof(crc_key) - 1;

	memcpy(end, crc_key, sizeof(crc_key) - 1);
	for (int shift = 28; shift >= 0; shift -= 4)
		*p++ = digits[crc >> shift & 15];
	memcpy(p, "\"}\n", 4);
}

bool line_is_whole(const char *line, size_t length)
{
	char end[LINE_CRC_BYTES + 2];

	if (length < LINE_CRC_BYTES)
		return false;
	line_put_crc(end, line, length - LINE_CRC_BYTES);
	return !memcmp(line + length - LINE_CRC_BYTES, end, LINE_CRC_BYTES);
}
