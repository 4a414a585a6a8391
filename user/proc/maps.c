/* SPDX-License-Identifier: BSD-2-Clause */
#include "proc/maps.h"

#include "util/hex.h"

static const char *skip_decimal(const char *p, const char *end, uint64_t *value)
{
	const char *start = p;
	uint64_t v = 0;

	for (; p < end && (unsigned)(*p - '0') < 10; p++) {
		if (v > UINT64_MAX / 10 - 1)
			return NULL;
		v = v * 10 + (*p - '0');
	}
	*value = v;
	return p == start ? NULL : p;
}

static const char *skip_char(const char *p, const char *end, char c)
{
	return p && p < end && *p == c ? p + 1 : NULL;
}

bool proc_parse_mapping(const char *line, const char *end, struct proc_mapping *out)
{
	static const struct {
		char on, off;
		uint8_t flag;
	} flags[] = {{'r', '-', MAP_READ},
		     {'w', '-', MAP_WRITE},
		     {'x', '-', MAP_EXEC},
		     {'s', 'p', MAP_IS_SHARED}};
	const char *p = line;
	uint64_t major, minor;
	uint8_t seen = 0;

	if (!(p = hex_read(p, end, &out->start)) || !(p = skip_char(p, end, '-')) ||
	    !(p = hex_read(p, end, &out->end)) || !(p = skip_char(p, end, ' ')) || end - p < 5)
		return false;
	for (unsigned i = 0; i < 4; i++, p++) {
		if (*p == flags[i].on)
			seen |= flags[i].flag;
		else if (*p != flags[i].off)
			return false;
	}
	if (!(p = skip_char(p, end, ' ')) || !(p = hex_read(p, end, &out->offset)) ||
	    !(p = skip_char(p, end, ' ')) || !(p = hex_read(p, end, &major)) ||
	    !(p = skip_char(p, end, ':')) || !(p = hex_read(p, end, &minor)) ||
	    !(p = skip_char(p, end, ' ')) || !(p = skip_decimal(p, end, &out->inode)))
		return false;
	while (p < end && *p == ' ')
		p++;
	out->flags = seen;
	out->dev = (uint32_t)(major << 20 | (minor & 0xfffff));
	out->path = p;
	out->path_length = (size_t)(end - p);
	return out->start < out->end;
}
