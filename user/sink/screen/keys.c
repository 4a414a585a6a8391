/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/screen/keys.h"

#include <stdlib.h>
#include <string.h>

/* "ESC O x" and "ESC [ x". */
static int key_of_letter(char letter)
{
	switch (letter) {
	case 'A':
		return KEY_UP;
	case 'B':
		return KEY_DOWN;
	case 'C':
		return KEY_RIGHT;
	case 'D':
		return KEY_LEFT;
	case 'H':
		return KEY_HOME;
	case 'F':
		return KEY_END;
	case 'M':
		return KEY_ENTER; /* of the number pad */
	}
	return KEY_NONE;
}

/* "ESC [ number ~". */
static int key_of_number(int number)
{
	switch (number) {
	case 1:
	case 7:
		return KEY_HOME;
	case 4:
	case 8:
		return KEY_END;
	case 5:
		return KEY_PAGE_UP;
	case 6:
		return KEY_PAGE_DOWN;
	}
	return KEY_NONE;
}

static int key_of_byte(unsigned char byte)
{
	switch (byte) {
	case '\r':
	case '\n':
		return KEY_ENTER;
	case 0x7f:
	case '\b':
		return KEY_BACKSPACE;
	case 0x1a:
		return KEY_SUSPEND;
	case 0x0c:
		return KEY_REDRAW;
	}
	return byte < 0x20 ? KEY_NONE : byte;
}

static int end_of_sequence(struct key_reader *reader)
{
	char *bytes = reader->bytes, last = bytes[reader->count - 1];
	int key = KEY_NONE;

	bytes[reader->count - 1] = 0;
	if (bytes[1] == 'O' || last != '~')
		key = key_of_letter(last);
	else
		key = key_of_number(atoi(bytes + 2));
	reader->count = 0;
	return key;
}

int keys_take(struct key_reader *reader, unsigned char byte)
{
	if (byte == 0x1b) {
		int key = keys_time_out(reader);

		reader->bytes[reader->count++] = 0x1b;
		return key;
	}
	if (!reader->count)
		return key_of_byte(byte);
	/* A sequence that is too long is swallowed up to its end. */
	if (reader->count == sizeof(reader->bytes))
		reader->count--;
	reader->bytes[reader->count++] = (char)byte;
	if (reader->count == 2) {
		if (byte == '[' || byte == 'O')
			return KEY_NONE;
		/* Alt and a key: nothing is bound to it. */
		reader->count = 0;
		return KEY_NONE;
	}
	/* Parameters and intermediate bytes are 0x20 to 0x3f. */
	if (byte >= 0x20 && byte <= 0x3f)
		return KEY_NONE;
	return end_of_sequence(reader);
}

bool keys_are_midway(const struct key_reader *reader)
{
	return reader->count > 0;
}

int keys_time_out(struct key_reader *reader)
{
	int key = reader->count == 1 ? KEY_ESCAPE : KEY_NONE;

	reader->count = 0;
	return key;
}
