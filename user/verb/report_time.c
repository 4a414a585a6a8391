/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_time.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/units.h"

#define NSEC_PER_DAY (86400 * NSEC_PER_SEC)

/* `digits` digits at *text. False: they are not there, or are above max. */
static bool take_digits(const char **text, int digits, unsigned max, unsigned *value)
{
	*value = 0;
	for (int i = 0; i < digits; i++) {
		if (!isdigit((unsigned char)(*text)[0]))
			return false;
		*value = *value * 10 + (unsigned)(*(*text)++ - '0');
	}
	return *value <= max;
}

static bool take_char(const char **text, char wanted)
{
	bool there = **text == wanted;

	*text += there;
	return there;
}

/* "19:30", "19:30:05", "19:30:05.25", and a Z behind it that changes nothing. */
static bool parse_day(const char *text, uint64_t *ns)
{
	unsigned hour, minute, second = 0;
	uint64_t fraction_ns = 0, unit_ns = NSEC_PER_SEC;

	if (!take_digits(&text, 2, 23, &hour) || !take_char(&text, ':') ||
	    !take_digits(&text, 2, 59, &minute))
		return false;
	if (take_char(&text, ':') && !take_digits(&text, 2, 59, &second))
		return false;
	if (take_char(&text, '.')) {
		if (!isdigit((unsigned char)*text))
			return false;
		for (; isdigit((unsigned char)*text); text++) {
			unit_ns /= 10;
			fraction_ns += unit_ns * (uint64_t)(*text - '0');
		}
	}
	take_char(&text, 'Z');
	*ns = ((uint64_t)hour * 3600 + minute * 60 + second) * NSEC_PER_SEC + fraction_ns;
	return !*text;
}

/* "2026-11-24T" or "2026-11-24 ", and a time of day. */
static bool parse_date(const char *text, uint64_t *ns)
{
	unsigned year, month, day;
	struct tm tm = {0}, same;
	time_t seconds;

	if (!take_digits(&text, 4, 2200, &year) || !take_char(&text, '-') ||
	    !take_digits(&text, 2, 12, &month) || !take_char(&text, '-') ||
	    !take_digits(&text, 2, 31, &day) || year < 1971 || !month || !day)
		return false;
	if ((!take_char(&text, 'T') && !take_char(&text, ' ')) || !parse_day(text, ns))
		return false;
	tm.tm_year = (int)year - 1900;
	tm.tm_mon = (int)month - 1;
	tm.tm_mday = (int)day;
	seconds = timegm(&tm);
	/* The 31st of a month of 30 days is another day. */
	if (!gmtime_r(&seconds, &same) || same.tm_mday != (int)day)
		return false;
	*ns += (uint64_t)seconds * NSEC_PER_SEC;
	return true;
}

int moment_parse(const char *text, struct moment *moment)
{
	if (!strncmp(text, "boot:", 5)) {
		moment->kind = MOMENT_BOOT;
		return parse_duration(text + 5, &moment->ns) ? -EINVAL : 0;
	}
	if (*text == '+') {
		moment->kind = MOMENT_AFTER;
		return parse_duration(text + 1, &moment->ns) ? -EINVAL : 0;
	}
	moment->kind = MOMENT_DAY;
	if (parse_day(text, &moment->ns))
		return 0;
	moment->kind = MOMENT_UNIX;
	return parse_date(text, &moment->ns) ? 0 : -EINVAL;
}

uint64_t moment_unix_ns(const struct record_header *header, uint64_t boot_ns)
{
	return header->clock.unix_ns + (boot_ns - header->clock.boot_ns);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The boot clock of a wall time, by the clocks of the header. */
static uint64_t boot_of_unix(const struct record_header *header, uint64_t unix_ns)
{
	uint64_t back_ns;

	if (unix_ns >= header->clock.unix_ns)
		return sum(header->clock.boot_ns, unix_ns - header->clock.unix_ns);
	back_ns = header->clock.unix_ns - unix_ns;
	return back_ns < header->clock.boot_ns ? header->clock.boot_ns - back_ns : 0;
}

int moment_resolve(const struct moment *moment, const struct moment_origin *origin,
		   const struct record_header *header, uint64_t from_unix_ns, uint64_t *boot_ns)
{
	uint64_t unix_ns = moment->ns;

	if (moment->kind == MOMENT_BOOT) {
		*boot_ns = moment->ns;
		return 0;
	}
	/* Another boot has another boot clock: there the wall clock leads from one to the other. */
	if (moment->kind == MOMENT_AFTER && !strcmp(origin->boot_id, header->boot_id)) {
		*boot_ns = sum(origin->boot_ns, moment->ns);
		return 0;
	}
	if (!header->clock.unix_ns || !origin->unix_ns)
		return -ENODATA;
	if (moment->kind == MOMENT_AFTER)
		unix_ns = sum(origin->unix_ns, moment->ns);
	if (moment->kind == MOMENT_DAY) {
		unix_ns = from_unix_ns - from_unix_ns % NSEC_PER_DAY + moment->ns;
		if (unix_ns < from_unix_ns)
			unix_ns += NSEC_PER_DAY;
	}
	*boot_ns = boot_of_unix(header, unix_ns);
	return 0;
}
