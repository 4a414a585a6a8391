/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>

#include "stack/code/dex_file.h"

#define CLASS_NAME_MAX 350 /* so that there is room for the method's name */
#define STRING_MAX     1024

/* A string of the file as it stands there: MUTF-8, cut after STRING_MAX bytes, ended by 0. */
static int read_string(const struct dex_file *dex, uint32_t number, uint8_t to[STRING_MAX + 1])
{
	uint8_t entry[4], raw[5 + STRING_MAX];
	size_t length = sizeof(raw), from = 0;
	uint64_t at;
	int err;

	if (number >= dex->strings.count)
		return -EBADMSG;
	err = byte_source_read(&dex->source, dex->strings.at + 4ull * number, entry, sizeof(entry));
	if (err)
		return err;
	at = dex->data + load_le32(entry);
	if (at >= dex->end)
		return -EBADMSG;
	if (length > dex->end - at)
		length = dex->end - at;
	err = byte_source_read(&dex->source, at, raw, length);
	if (err)
		return err;
	/* Before it stands its length in UTF-16, as ULEB128. */
	while (from < length && from < 5 && raw[from] & 0x80)
		from++;
	if (from >= 5 || ++from > length)
		return -EBADMSG;
	length -= from;
	if (length > STRING_MAX)
		length = STRING_MAX;
	memcpy(to, raw + from, length);
	to[length] = 0;
	return 0;
}

/* One UTF-16 unit of MUTF-8. Bytes that are none are U+FFFD, one by one. */
static uint32_t next_unit(const uint8_t **at)
{
	const uint8_t *p = *at;

	*at = p + 1;
	if (p[0] < 0x80)
		return p[0];
	if ((p[0] & 0xe0) == 0xc0 && (p[1] & 0xc0) == 0x80) {
		uint32_t unit = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);

		*at = p + 2;
		return unit >= 0x80 ? unit : 0xfffd; /* also the 0 of MUTF-8 */
	}
	if ((p[0] & 0xf0) == 0xe0 && (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80) {
		uint32_t unit = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);

		*at = p + 3;
		return unit >= 0x800 ? unit : 0xfffd;
	}
	return 0xfffd;
}

/* MUTF-8 writes what UTF-8 has in four bytes as two surrogates of three bytes each. */
static uint32_t next_character(const uint8_t **at)
{
	uint32_t character = next_unit(at);

	if ((character & 0xf800) == 0xd800) {
		const uint8_t *second = *at;
		uint32_t low = character < 0xdc00 ? next_unit(&second) : 0;

		if ((low & 0xfc00) != 0xdc00)
			return 0xfffd;
		*at = second;
		character = 0x10000 + ((character & 0x3ff) << 10 | (low & 0x3ff));
	}
	return character < 0x20 || (character >= 0x7f && character < 0xa0) ? 0xfffd : character;
}

static size_t put_utf8(uint32_t character, char bytes[4])
{
	if (character < 0x80) {
		bytes[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		bytes[0] = (char)(0xc0 | character >> 6);
		bytes[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		bytes[0] = (char)(0xe0 | character >> 12);
		bytes[1] = (char)(0x80 | (character >> 6 & 0x3f));
		bytes[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	bytes[0] = (char)(0xf0 | character >> 18);
	bytes[1] = (char)(0x80 | (character >> 12 & 0x3f));
	bytes[2] = (char)(0x80 | (character >> 6 & 0x3f));
	bytes[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

/* Append whole characters up to the end (0), to at most room bytes. The new length. */
static size_t append(char *to, size_t length, size_t room, const uint8_t *from, bool descriptor)
{
	char bytes[4];

	while (*from) {
		uint32_t character;
		size_t n;

		/* The end of a class's descriptor. */
		if (descriptor && from[0] == ';' && !from[1])
			break;
		character = next_character(&from);
		n = put_utf8(descriptor && character == '/' ? '.' : character, bytes);
		if (length + n > room)
			break;
		memcpy(to + length, bytes, n);
		length += n;
	}
	return length;
}

int dex_method_name(const struct dex_file *dex, uint32_t method, char name[DEX_NAME_BYTES])
{
	uint8_t entry[8], type[4], text[STRING_MAX + 1];
	uint16_t class;
	size_t length;
	int err;

	if (method >= dex->methods.count)
		return -EBADMSG;
	err = byte_source_read(&dex->source, dex->methods.at + 8ull * method, entry, sizeof(entry));
	if (err)
		return err;
	class = load_le16(entry);
	if (class >= dex->types.count)
		return -EBADMSG;
	err = byte_source_read(&dex->source, dex->types.at + 4ull * class, type, sizeof(type));
	if (!err)
		err = read_string(dex, load_le32(type), text);
	if (err)
		return err;
	length = append(name, 0, CLASS_NAME_MAX, text[0] == 'L' ? text + 1 : text, true);
	name[length++] = '.';
	err = read_string(dex, load_le32(entry + 4), text);
	if (err)
		return err;
	length = append(name, length, DEX_NAME_BYTES - 1, text, false);
	name[length] = 0;
	return 0;
}
