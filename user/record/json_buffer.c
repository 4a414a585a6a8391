/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/json_buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/json_text.h"

/* Room for `more` bytes and a NUL. */
static bool reserve(struct json_buffer *b, size_t more)
{
	size_t size = b->size ? b->size : 4096;
	char *text;

	if (b->failed)
		return false;
	if (b->length + more < b->size)
		return true;
	while (size <= b->length + more)
		size *= 2;
	text = realloc(b->borrowed ? NULL : b->text, size);
	if (!text) {
		b->failed = true;
		return false;
	}
	if (b->borrowed)
		memcpy(text, b->text, b->length);
	b->borrowed = false;
	b->text = text;
	b->size = size;
	return true;
}

void json_put_raw(struct json_buffer *b, const char *text, size_t length)
{
	if (!reserve(b, length))
		return;
	memcpy(b->text + b->length, text, length);
	b->length += length;
	b->text[b->length] = 0;
}

/* A text ends in a quote, so that the last byte tells where a value is the first of its array or
 * object. */
static bool needs_comma(const struct json_buffer *b)
{
	char last = b->length && !b->failed ? b->text[b->length - 1] : '{';

	return last != '{' && last != '[' && last != ':';
}

static void separate(struct json_buffer *b)
{
	if (needs_comma(b))
		json_put_raw(b, ",", 1);
}

/* A text that stands for itself, as all keys and most names do, with its comma, its quotes and
 * `mark` behind it (0: none), in one go: a record of hundreds of rows has ten thousand of them.
 * False: it is another one, and nothing was put. */
static bool put_plain(struct json_buffer *b, const char *text, size_t length, char mark)
{
	char *to;

	if (!reserve(b, length + 4))
		return true; /* it has failed */
	to = b->text + b->length;
	if (needs_comma(b))
		*to++ = ',';
	*to++ = '"';
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
			return false;
		*to++ = (char)c;
	}
	*to++ = '"';
	if (mark)
		*to++ = mark;
	*to = 0;
	b->length = (size_t)(to - b->text);
	return true;
}

static void put_escaped(struct json_buffer *b, const char *text, size_t length)
{
	static const char short_of[] = "\bb\tt\nn\ff\rr\"\"\\\\";
	const char *end = text + length, *plain = text;

	json_put_raw(b, "\"", 1);
	for (; text < end; text++) {
		unsigned char c = (unsigned char)*text;
		char escape[8];
		size_t i = 0;

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		json_put_raw(b, plain, (size_t)(text - plain));
		plain = text + 1;
		while (i < sizeof(short_of) - 1 && short_of[i] != *text)
			i += 2;
		if (i < sizeof(short_of) - 1)
			snprintf(escape, sizeof(escape), "\\%c", short_of[i + 1]);
		else
			snprintf(escape, sizeof(escape), "\\u%04X", c);
		json_put_raw(b, escape, strlen(escape));
	}
	json_put_raw(b, plain, (size_t)(end - plain));
	json_put_raw(b, "\"", 1);
}

static void put_string(struct json_buffer *b, const char *text, size_t length, char mark)
{
	char *clean = NULL;

	if (put_plain(b, text, length, mark))
		return;
	/* put_plain() wrote behind the end. */
	b->text[b->length] = 0;
	separate(b);
	if (!json_text_is_clean(text, length)) {
		clean = json_clean_text(text, length);
		if (!clean) {
			b->failed = true;
			return;
		}
	}
	put_escaped(b, clean ?: text, clean ? strlen(clean) : length);
	free(clean);
	if (mark)
		json_put_raw(b, &mark, 1);
}

void json_put_text(struct json_buffer *b, const char *text, size_t size)
{
	put_string(b, text, strnlen(text, size), 0);
}

void json_put_key(struct json_buffer *b, const char *key)
{
	put_string(b, key, strlen(key), ':');
}

void json_put_mark(struct json_buffer *b, char mark)
{
	char *to;

	if (!reserve(b, 2))
		return;
	to = b->text + b->length;
	if ((mark == '{' || mark == '[') && needs_comma(b))
		*to++ = ',';
	*to++ = mark;
	*to = 0;
	b->length = (size_t)(to - b->text);
}

void json_put_token(struct json_buffer *b, const char *token)
{
	separate(b);
	json_put_raw(b, token, strlen(token));
}

void json_put_u64(struct json_buffer *b, uint64_t value)
{
	char text[20], *to;
	size_t n = sizeof(text);

	do
		text[--n] = (char)('0' + value % 10);
	while (value /= 10);
	if (!reserve(b, sizeof(text) + 1))
		return;
	to = b->text + b->length;
	if (needs_comma(b))
		*to++ = ',';
	while (n < sizeof(text))
		*to++ = text[n++];
	*to = 0;
	b->length = (size_t)(to - b->text);
}

void json_put_i64(struct json_buffer *b, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	json_put_token(b, text);
}

void json_put_double(struct json_buffer *b, double value)
{
	char text[40], *exponent, *digits;

	snprintf(text, sizeof(text) - 2, "%.15g", value);
	exponent = strchr(text, 'e');
	if (!exponent && !strchr(text, '.'))
		strcat(text, ".0");
	/* 1e+05 is written 1e5, as earlier recordings have it. */
	if (exponent) {
		exponent += 1 + (exponent[1] == '-');
		digits = exponent + strspn(exponent, "+0");
		memmove(exponent, digits, strlen(digits) + 1);
	}
	json_put_token(b, text);
}

void json_put_number(struct json_buffer *b, double value)
{
	if (value < 9e15 && value > -9e15 && value == (double)(int64_t)value)
		json_put_i64(b, (int64_t)value);
	else
		json_put_double(b, value);
}
