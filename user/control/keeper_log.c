/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/keeper_log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/keeper.h"

#define MAX_BYTES (128u << 10)

static void open_file(struct keeper_log *log)
{
	struct stat st;

	log->fd = openat(log->dir_fd, KEEPER_LOG,
			 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	log->bytes = 0;
	if (log->fd >= 0 && (fstat(log->fd, &st) || !S_ISREG(st.st_mode))) {
		close(log->fd);
		log->fd = -1;
	}
	if (log->fd >= 0)
		log->bytes = (size_t)st.st_size;
}

void keeper_log_open(struct keeper_log *log, int dir_fd)
{
	*log = (struct keeper_log){.dir_fd = dir_fd, .fd = -1};
	open_file(log);
}

static void put_line(struct keeper_log *log)
{
	char text[sizeof(log->line) + 32];
	time_t now = time(NULL);
	struct tm tm;
	size_t length;

	if (log->fd >= 0 && log->bytes > MAX_BYTES) {
		close(log->fd);
		renameat(log->dir_fd, KEEPER_LOG, log->dir_fd, KEEPER_LOG_OLD);
		open_file(log);
	}
	if (log->fd < 0)
		return;
	length = gmtime_r(&now, &tm) ? strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ ", &tm) : 0;
	memcpy(text + length, log->line, log->length);
	length += log->length;
	text[length++] = '\n';
	/* A disk that is full has no room for the log either. */
	if (write(log->fd, text, length) == (ssize_t)length)
		log->bytes += length;
}

void keeper_log_write(struct keeper_log *log, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)bytes[i];

		if (byte != '\n' && log->length < sizeof(log->line))
			log->line[log->length++] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
		if (byte != '\n')
			continue;
		put_line(log);
		log->length = 0;
	}
}

void keeper_log_say(struct keeper_log *log, const char *format, ...)
{
	char text[400];
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text, sizeof(text) - 1, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	/* Half a line of a recorder that is dead is one. */
	if (log->length)
		keeper_log_write(log, "\n", 1);
	strcat(text, "\n");
	keeper_log_write(log, text, strlen(text));
}
