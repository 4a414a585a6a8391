/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/keys.h"

#include <stdint.h>
#include <string.h>

static bool parse_number(const char *at, const char *end, uint64_t *value)
{
	uint64_t number = 0;
	const char *first;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	for (first = at; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
			return false;
	if (at == first)
		return false;
	if (end - at == 3 && !memcmp(at, " kB", 3) &&
	    __builtin_mul_overflow(number, (uint64_t)1024, &number))
		return false;
	*value = number;
	return at == end || (end - at == 3 && !memcmp(at, " kB", 3));
}

bool proc_take_key(const char *line, const char *end, const struct proc_key *keys, size_t count,
		   void *out)
{
	const char *colon = memchr(line, ':', (size_t)(end - line));

	for (size_t i = 0; colon && i < count; i++) {
		struct opt_u64 *to = (struct opt_u64 *)(void *)((char *)out + keys[i].offset);

		if (keys[i].key[0] != line[0] || strlen(keys[i].key) != (size_t)(colon - line) ||
		    memcmp(keys[i].key, line, (size_t)(colon - line)))
			continue;
		if (!to->present)
			to->present = parse_number(colon + 1, end, &to->value);
		return true;
	}
	return false;
}

void proc_parse_keys(const char *text, size_t length, const struct proc_key *keys, size_t count,
		     void *out)
{
	const char *line = text, *end = text + length, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line)))) {
		proc_take_key(line, newline, keys, count, out);
		line = newline + 1;
	}
}
