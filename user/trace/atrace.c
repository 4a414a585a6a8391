/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/atrace.h"
#include <string.h>

static bool parse_number(const char *text, size_t size, int64_t *value)
{
	uint64_t sum = 0;
	size_t i = 0;
	bool negative = false;

	if (size && (text[0] == '-' || text[0] == '+')) {
		negative = text[0] == '-';
		i++;
	}
	if (i == size || size - i > 19)
		return false;
	for (; i < size; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		sum = sum * 10 + (uint64_t)(text[i] - '0');
	}
	if (sum > INT64_MAX)
		return false;
	*value = negative ? -(int64_t)sum : (int64_t)sum;
	return true;
}

/* "123.456789" in units of unit_ns (seconds: 1e9). */
static bool parse_decimal(const char *text, size_t size, int64_t unit_ns, int64_t *value)
{
	const char *dot = memchr(text, '.', size);
	size_t whole = dot ? (size_t)(dot - text) : size;
	int64_t fraction = 0, scale = unit_ns;

	if (!parse_number(text, whole, value))
		return false;
	for (size_t i = whole + 1; dot && i < size && scale > 1; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		scale /= 10;
		fraction += scale * (text[i] - '0');
	}
	return !__builtin_mul_overflow(*value, unit_ns, value) &&
	       !__builtin_add_overflow(*value, fraction, value);
}

static const char *rfind(const char *text, size_t size, char c)
{
	return memrchr(text, c, size);
}

static bool starts(const char *text, size_t size, const char *word)
{
	size_t n = strlen(word);

	return size >= n && !memcmp(text, word, n);
}

static bool parse_clock_sync(const char *text, size_t size, struct trace_mark *mark)
{
	static const char parent[] = "parent_ts=", real[] = "realtime_ts=";

	mark->kind = MARK_CLOCK_SYNC;
	mark->has_pid = false;
	mark->name = NULL;
	mark->name_size = 0;
	if (starts(text, size, parent)) {
		mark->track = "parent";
		mark->track_size = 6;
		return parse_decimal(text + sizeof(parent) - 1, size - (sizeof(parent) - 1),
				     1000000000, &mark->value);
	}
	if (starts(text, size, real)) {
		mark->track = "realtime";
		mark->track_size = 8;
		return parse_decimal(text + sizeof(real) - 1, size - (sizeof(real) - 1), 1000000,
				     &mark->value);
	}
	return false;
}

/* Split "rest|number" at the last bar. */
static bool split_number(const char **text, size_t *size, int64_t *value)
{
	const char *bar = rfind(*text, *size, '|');

	if (!bar || !parse_number(bar + 1, (size_t)(*text + *size - bar - 1), value))
		return false;
	*size = (size_t)(bar - *text);
	return true;
}

/* What stands behind "X|pid|" for the letters that have more than a name. */
static bool parse_rest(char letter, const char *text, size_t size, struct trace_mark *mark)
{
	const char *bar;

	switch (letter) {
	case MARK_BEGIN:
	case MARK_INSTANT:
	case MARK_END:
		break;
	case MARK_ASYNC_BEGIN:
	case MARK_ASYNC_END:
		if (!split_number(&text, &size, &mark->value))
			return false;
		break;
	case MARK_COUNTER:
		/* Chromium appends a category: name|value|category */
		bar = rfind(text, size, '|');
		if (!bar)
			return false;
		if (!split_number(&text, &size, &mark->value)) {
			size = (size_t)(bar - text);
			if (!split_number(&text, &size, &mark->value))
				return false;
		}
		break;
	case MARK_TRACK_BEGIN:
	case MARK_TRACK_END:
	case MARK_TRACK_INSTANT:
		if (letter != MARK_TRACK_INSTANT && !split_number(&text, &size, &mark->value))
			return false;
		bar = memchr(text, '|', size);
		mark->track = text;
		mark->track_size = bar ? (size_t)(bar - text) : size;
		if (!bar && letter != MARK_TRACK_END)
			return false;
		/* H|pid|track|cookie today, H|pid|track|name|cookie before */
		text = bar ? bar + 1 : text + size;
		size -= mark->track_size + (bar ? 1 : 0);
		break;
	default:
		return false;
	}
	mark->kind = (enum mark_kind)letter;
	mark->name = text;
	mark->name_size = size;
	return true;
}

bool atrace_parse(const char *text, size_t size, struct trace_mark *mark)
{
	static const char sync[] = "trace_event_clock_sync: ";
	int64_t pid = 0;
	size_t i;

	while (size && (text[size - 1] == '\n' || text[size - 1] == '\r' || text[size - 1] == 0))
		size--;
	if (!size)
		return false;
	mark->track = mark->name = NULL;
	mark->track_size = mark->name_size = 0;
	mark->value = 0;
	mark->pid = 0;
	mark->has_pid = false;
	if (size > sizeof(sync) && !memcmp(text, sync, sizeof(sync) - 1))
		return parse_clock_sync(text + sizeof(sync) - 1, size - (sizeof(sync) - 1), mark);
	if (size > 1 && text[1] != '|')
		return false;
	if (size <= 2) {
		mark->kind = MARK_END; /* a bare E closes the thread's slice too */
		return text[0] == 'E';
	}
	for (i = 2; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
		pid = pid * 10 + (text[i] - '0');
		if (pid > INT32_MAX)
			return false;
	}
	if (i < size && text[i] != '|')
		return false;
	mark->has_pid = i > 2;
	mark->pid = (int32_t)pid;
	if (i < size)
		i++;
	else if (text[0] != 'E')
		return false;
	return parse_rest(text[0], text + i, size - i, mark);
}

bool atrace_slice_id(const char *name, size_t size, size_t word, int64_t *id)
{
	size_t i = word, start;

	if (i >= size || name[i] != ' ')
		return false;
	start = ++i;
	if (i < size && name[i] == '-')
		i++;
	while (i < size && name[i] >= '0' && name[i] <= '9')
		i++;
	if (i < size && name[i] != ' ')
		return false;
	return parse_number(name + start, i - start, id);
}
