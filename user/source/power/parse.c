/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/power/parse.h"

#include <string.h>

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct power_value power_parse_number(const char *text, size_t length, int64_t lowest,
				      int64_t highest)
{
	struct power_value value = {0};
	uint64_t number = 0;
	size_t at = 0, digits = 0;
	bool negative = false, too_large = false;

	while (length && is_space(text[length - 1]))
		length--;
	while (at < length && is_space(text[at]))
		at++;
	if (at == length) {
		value.error = POWER_VALUE_EMPTY;
		return value;
	}
	if (text[at] == '-' || text[at] == '+')
		negative = text[at++] == '-';
	for (; at < length; at++, digits++) {
		if (text[at] < '0' || text[at] > '9') {
			value.error = POWER_VALUE_NO_NUMBER;
			return value;
		}
		/* The rest is still looked at for what is no digit. */
		too_large |= number > (uint64_t)(INT64_MAX - (text[at] - '0')) / 10;
		if (!too_large)
			number = number * 10 + (uint64_t)(text[at] - '0');
	}
	value.value = negative ? -(int64_t)number : (int64_t)number;
	if (!digits)
		value.error = POWER_VALUE_NO_NUMBER;
	else if (too_large || value.value < lowest || value.value > highest)
		value.error = POWER_VALUE_OUT_OF_RANGE;
	if (value.error)
		value.value = 0;
	return value;
}

static void copy_word(const char *text, size_t length, char word[POWER_NAME])
{
	size_t n = 0;

	for (; n < length && n < POWER_NAME - 1; n++)
		word[n] = (unsigned char)text[n] < ' ' || (unsigned char)text[n] > '~' ? '?'
										       : text[n];
	memset(word + n, 0, POWER_NAME - n);
}

void power_parse_word(const char *text, size_t length, char word[POWER_NAME])
{
	const char *end = memchr(text, '\n', length);

	if (end)
		length = (size_t)(end - text);
	while (length && is_space(text[length - 1]))
		length--;
	while (length && is_space(*text))
		text++, length--;
	copy_word(text, length, word);
}

/* "CH" and digits. */
static size_t channel_length(const char *line, size_t length)
{
	size_t n = 2;

	if (length < 3 || line[0] != 'C' || line[1] != 'H')
		return 0;
	while (n < length && line[n] >= '0' && line[n] <= '9')
		n++;
	return n > 2 ? n : 0;
}

/* "[NAME]" at text; behind it. NULL: it is none. */
static const char *bracket(const char *text, const char *end, char name[POWER_NAME])
{
	const char *close =
		text < end && *text == '[' ? memchr(text, ']', (size_t)(end - text)) : NULL;

	if (!close || close == text + 1)
		return NULL;
	copy_word(text + 1, (size_t)(close - text - 1), name);
	return close + 1;
}

bool power_parse_rail(const char *line, size_t length, char rail[POWER_NAME], uint64_t *energy_uj)
{
	size_t n = channel_length(line, length);
	const char *at = line + n, *end = line + length;
	struct power_value value;

	if (!n)
		return false;
	if (at < end && *at == '(') {
		at = memchr(at, ')', (size_t)(end - at));
		if (!at)
			return false;
		at++;
	}
	at = bracket(at, end, rail);
	if (!at || at == end || *at != ',')
		return false;
	value = power_parse_number(at + 1, (size_t)(end - at - 1), 0, INT64_MAX);
	*energy_uj = (uint64_t)value.value;
	return !value.error;
}

bool power_parse_subsystem(const char *text, size_t length, const char *rail,
			   char subsystem[POWER_NAME])
{
	const char *end = text + length;

	while (text < end) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		char name[POWER_NAME];
		const char *at;
		size_t n;

		if (!line_end)
			line_end = end;
		n = channel_length(text, (size_t)(line_end - text));
		at = n ? bracket(text + n, line_end, name) : NULL;
		if (at && !strcmp(name, rail) && at < line_end && *at == ':') {
			power_parse_word(at + 1, (size_t)(line_end - at - 1), subsystem);
			return subsystem[0];
		}
		text = line_end + (line_end < end);
	}
	return false;
}

const char *power_value_reason(int32_t error)
{
	switch (error) {
	case POWER_VALUE_FINE:
		return "it is there";
	case POWER_VALUE_EMPTY:
		return "its file is empty";
	case POWER_VALUE_NO_NUMBER:
		return "its file holds no number";
	case POWER_VALUE_OUT_OF_RANGE:
		return "its file holds a number outside of its unit's range";
	case POWER_VALUE_NO_FILE_OF_SYSFS:
		return "what stands in its file's place is no ordinary file";
	case POWER_VALUE_UNASKED:
		return "it was not asked for";
	}
	return error < 0 && error > -4096 ? strerror(-error) : "its reader gave no reason";
}
