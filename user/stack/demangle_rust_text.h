/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of demangle_rust.c: the text that is read and the text that is written, both bounded, and
 * the numbers and identifiers of the grammar. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "stack/demangle.h"

#define MAX_DEPTH 100
#define MAX_STEPS 4096

struct rust {
	const char *text; /* behind "_R" */
	size_t size, at;
	char *out;
	size_t used;
	unsigned depth, steps;
	unsigned quiet; /* parsed, but not printed */
	uint64_t bound_lifetimes;
	bool failed;
};

static inline void put_bytes(struct rust *r, const char *text, size_t len)
{
	if (r->quiet || r->failed)
		return;
	if (len > DEMANGLE_MAX - r->used) {
		r->failed = true;
		return;
	}
	memcpy(r->out + r->used, text, len);
	r->used += len;
}

static inline void put(struct rust *r, const char *text)
{
	put_bytes(r, text, strlen(text));
}

static inline void put_number(struct rust *r, uint64_t value)
{
	char digits[24];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + value % 10);
	while (value /= 10);
	put_bytes(r, digits + at, sizeof(digits) - at);
}

static inline char peek(const struct rust *r)
{
	return r->at < r->size ? r->text[r->at] : 0;
}

static inline bool take(struct rust *r, char c)
{
	if (r->failed || peek(r) != c || !c)
		return false;
	r->at++;
	return true;
}

static inline char next(struct rust *r)
{
	if (r->failed || r->at >= r->size) {
		r->failed = true;
		return 0;
	}
	return r->text[r->at++];
}

static inline uint64_t decimal(struct rust *r)
{
	uint64_t value = 0;

	if (peek(r) < '0' || peek(r) > '9')
		r->failed = true;
	if (take(r, '0'))
		return 0;
	while (!r->failed && peek(r) >= '0' && peek(r) <= '9') {
		value = value * 10 + (uint64_t)(next(r) - '0');
		if (value > UINT32_MAX)
			r->failed = true;
	}
	return value;
}

/* "_" is 0, "0_" is 1, ... */
static inline uint64_t base_62(struct rust *r)
{
	uint64_t value = 0;

	if (take(r, '_'))
		return 0;
	while (!r->failed && !take(r, '_')) {
		char c = next(r);
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'z')
			digit = (unsigned)(c - 'a') + 10;
		else if (c >= 'A' && c <= 'Z')
			digit = (unsigned)(c - 'A') + 36;
		else
			digit = 62;
		if (digit == 62 || value > UINT64_MAX / 62 - 1)
			r->failed = true;
		else
			value = value * 62 + digit;
	}
	return value + 1;
}

static inline uint64_t optional_base_62(struct rust *r, char tag)
{
	return take(r, tag) ? base_62(r) + 1 : 0;
}

struct identifier {
	const char *text;
	size_t len;
	bool punycode;
	uint64_t disambiguator;
};

static inline struct identifier take_identifier(struct rust *r)
{
	struct identifier id = {.disambiguator = optional_base_62(r, 's')};

	id.punycode = take(r, 'u');
	id.len = decimal(r);
	take(r, '_');
	if (r->failed || id.len > r->size - r->at) {
		r->failed = true;
		id.len = 0;
	}
	id.text = r->text + r->at;
	r->at += id.len;
	return id;
}

static inline void put_identifier(struct rust *r, const struct identifier *id)
{
	if (id->punycode)
		put(r, "punycode{");
	put_bytes(r, id->text, id->len);
	if (id->punycode)
		put(r, "}");
}
