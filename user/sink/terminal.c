/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NO_TERMINAL_WIDTH 80
#define MAX_WIDTH         1000

unsigned terminal_width(int fd)
{
	const char *columns = getenv("COLUMNS");
	unsigned long wanted = columns ? strtoul(columns, NULL, 10) : 0;
	struct winsize size;

	if (!isatty(fd))
		return NO_TERMINAL_WIDTH;
	if (wanted > 0)
		return wanted < MAX_WIDTH ? (unsigned)wanted : MAX_WIDTH;
	if (ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col)
		return NO_TERMINAL_WIDTH;
	return size.ws_col < MAX_WIDTH ? size.ws_col : MAX_WIDTH;
}

bool terminal_has_colours(int fd, enum terminal_colour colour)
{
	const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");

	if (colour != COLOUR_AUTO)
		return colour == COLOUR_ALWAYS;
	return isatty(fd) && !(no_colour && no_colour[0]) && !(term && !strcmp(term, "dumb"));
}

bool terminal_has_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && value[0])
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	/* adb shell has none of them, and what it is shown in knows UTF-8. */
	return true;
}
