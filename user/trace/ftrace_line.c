/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/ftrace_text.h"
#include <ctype.h>
#include <string.h>

bool ftrace_digits(const char *from, const char *to, int64_t *value)
{
	int64_t sum = 0;

	if (from >= to || to - from > 18)
		return false;
	for (; from < to; from++) {
		if (*from < '0' || *from > '9')
			return false;
		sum = sum * 10 + (*from - '0');
	}
	*value = sum;
	return true;
}

/* "comm-pid" or "comm-pid (tgid)" that ends here, spaces after it skipped. A comm may hold spaces,
 * dashes and parentheses, so it is read from the right. */
static bool parse_task(const char *line, const char *end, struct ftrace_line *out)
{
	const char *p = end;
	int64_t value;

	while (p > line && p[-1] == ' ')
		p--;
	out->tgid = -1;
	if (p > line && p[-1] == ')') {
		const char *open = p - 1;

		while (open > line && *open != '(')
			open--;
		if (*open != '(')
			return false;
		for (const char *from = open + 1; from < p - 1; from++) {
			if (*from == ' ')
				continue;
			if (ftrace_digits(from, p - 1, &value) && value <= INT32_MAX)
				out->tgid = (int32_t)value;
			break;
		}
		p = open;
		while (p > line && p[-1] == ' ')
			p--;
	}
	end = p;
	while (p > line && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (p == end || p == line || p[-1] != '-' || !ftrace_digits(p, end, &value) ||
	    value > INT32_MAX)
		return false;
	out->tid = (int32_t)value;
	out->comm = line;
	while (out->comm < p - 1 && *out->comm == ' ')
		out->comm++;
	out->comm_size = (size_t)(p - 1 - out->comm);
	return true;
}

/* "[flags] secs.frac: event: payload". Flags may be glued to the time, or be missing. */
static bool parse_tail(const char *p, const char *end, struct ftrace_line *out)
{
	const char *colon, *dot, *start;
	int64_t seconds, scale = 1000000000;

	while (p < end && *p == ' ')
		p++;
	colon = memchr(p, ':', (size_t)(end - p));
	if (!colon)
		return false;
	/* irqs-off, need-resched, hardirq or softirq, preempt-depth */
	out->interrupt = colon - p > 4 && !isdigit((unsigned char)*p) && strchr("hHsZz", p[2]);
	start = colon;
	while (start > p && start[-1] != ' ')
		start--;
	dot = colon;
	while (dot > start && *dot != '.')
		dot--;
	if (*dot != '.')
		return false;
	/* only one word of flags may stand before the time: else the bracket was in a comm */
	for (const char *c = p; c < start; c++) {
		if (*c == ' ' && c + 1 < start && c[1] != ' ')
			return false;
		if (*c == '[' || *c == '(')
			return false;
	}
	/* glued flags: four or five characters, of which the first is no digit */
	if (start == p && !isdigit((unsigned char)*start) && dot - start > 4) {
		start += 4;
		while (start < dot && !isdigit((unsigned char)*start))
			start++;
	}
	if (!ftrace_digits(start, dot, &seconds) || seconds > INT64_MAX / 1000000000 - 1)
		return false;
	out->ts_ns = seconds * 1000000000;
	for (p = dot + 1; p < colon; p++) {
		if (*p < '0' || *p > '9')
			return false;
		scale /= 10;
		out->ts_ns += scale * (*p - '0');
	}
	p = colon + 1;
	while (p < end && *p == ' ')
		p++;
	colon = memchr(p, ':', (size_t)(end - p));
	if (!colon)
		return false;
	out->event = p;
	out->event_size = (size_t)(colon - p);
	p = colon + 1;
	if (p < end && *p == ' ')
		p++;
	out->payload = p;
	out->payload_size = (size_t)(end - p);
	return true;
}

bool ftrace_line_parse(const char *line, size_t size, struct ftrace_line *out)
{
	const char *end = line + size, *open = line;

	/* the CPU in brackets is the anchor; a comm may hold brackets too */
	while ((open = memchr(open, '[', (size_t)(end - open)))) {
		const char *close = open + 1;
		int64_t cpu;

		while (close < end && *close >= '0' && *close <= '9')
			close++;
		if (close < end && *close == ']' && ftrace_digits(open + 1, close, &cpu) &&
		    cpu < 65536 && parse_task(line, open, out) && parse_tail(close + 1, end, out)) {
			out->cpu = (int32_t)cpu;
			return true;
		}
		open++;
	}
	return false;
}
