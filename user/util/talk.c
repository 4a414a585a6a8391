/* SPDX-License-Identifier: BSD-2-Clause */
#include "util/talk.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void talk(const char *format, ...)
{
	struct pollfd fd = {STDERR_FILENO, POLLOUT, 0};
	char text[512] = "jankscope: ";
	size_t length = strlen(text);
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text + length, sizeof(text) - length, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	length = (size_t)n < sizeof(text) - length ? length + (size_t)n : sizeof(text) - 1;
	text[length - 1] = '\n';
	/* A pipe or terminal that says POLLOUT has room for a line of this length. */
	if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT) &&
	    write(STDERR_FILENO, text, length) < 0)
		return;
}
