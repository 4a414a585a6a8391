/* SPDX-License-Identifier: BSD-2-Clause */
/* What the bytes at the beginning say that they are. */
#include "trace/container_private.h"
#include <errno.h>
#include <string.h>

/* Text has no control characters but white space and escapes of a terminal. */
static bool is_text(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t b = data[i];

		if (b < 0x20 && b != '\n' && b != '\r' && b != '\t' && b != 0x1b && b != '\f')
			return false;
		if (b == 0x7f)
			return false;
	}
	return size > 0;
}

/* Where the zlib stream behind "TRACE:" starts; 0: there is none. atrace -z prints its progress
 * ("capturing trace... done") before it. */
static size_t find_ctrace(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 8 < size && i < 512; i++) {
		size_t at = i + 6;

		if (memcmp(data + i, "TRACE:", 6))
			continue;
		if (data[at] == '\r')
			at++;
		if (at + 2 < size && data[at] == '\n' && data[at + 1] == 0x78 &&
		    ((data[at + 1] << 8) | data[at + 2]) % 31 == 0)
			return at + 1;
	}
	return 0;
}

static bool starts_like_html(const uint8_t *data, size_t size)
{
	size_t i = 0;

	if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3))
		i = 3;
	while (i < size &&
	       (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t'))
		i++;
	return size - i >= 6 && (!strncasecmp((const char *)data + i, "<!doct", 6) ||
				 !strncasecmp((const char *)data + i, "<html", 5));
}

int container_sniff(struct container *c, struct level *level, unsigned depth, size_t *skip)
{
	const uint8_t *d = level->sniff;
	size_t n = level->sniffed, zlib_at;
	bool wrapped = true;

	*skip = 0;
	if (n >= 2 && d[0] == 0x1f && d[1] == 0x8b) {
		level->wrapping = WRAP_GZIP;
	} else if (n >= 4 && !memcmp(d, "\x28\xb5\x2f\xfd", 4)) {
		level->wrapping = WRAP_ZSTD;
	} else if (n >= 4 && !memcmp(d, "PK\3\4", 4)) {
		level->wrapping = WRAP_ZIP;
	} else if (n >= 263 && !memcmp(d + 257, "ustar", 5)) {
		level->wrapping = WRAP_TAR;
	} else if ((zlib_at = find_ctrace(d, n))) {
		level->wrapping = WRAP_ZLIB;
		*skip = zlib_at;
	} else {
		wrapped = false;
		level->wrapping = WRAP_NONE;
	}
	if (wrapped) {
		if (depth + 1 > CONTAINER_MAX_DEPTH)
			return container_fail(c, -EFBIG, "wrapped more than %d times at byte %llu",
					      CONTAINER_MAX_DEPTH, (unsigned long long)c->in_bytes);
		level->inside = true;
		return 0;
	}
	if (starts_like_html(d, n))
		level->format = TRACE_FORMAT_HTML;
	else if (is_text(d, n))
		level->format = TRACE_FORMAT_TEXT;
	else if (n && d[0] == 0x0a)
		level->format = TRACE_FORMAT_PROTO;
	else if (depth == 0)
		return container_fail(c, -EBADMSG, "not a trace: unknown content at byte 0");
	else
		return container_fail(
			c, -EBADMSG,
			"not a trace: unknown content inside the wrapping, near byte %llu",
			(unsigned long long)c->in_bytes);
	return 0;
}
