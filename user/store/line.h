/* SPDX-License-Identifier: BSD-2-Clause */
/* What a line of a recording says first, without parsing it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct line_look {
	char type[16];
	uint64_t seq, t_boot_ns;
};

/* Read `{"type":"...","seq":N,"t_boot_ns":N` at the begin of a line: the order in which every
 * jankscope has written these keys. False: it does not begin so. */
bool line_look(const char *line, size_t length, struct line_look *look);
/* The next line of a stream with its newline, in *line, whose *room grows; free it. Its length; 0:
 * the stream has ended; -EMSGSIZE: it has no end within LINE_MAX_BYTES (what is compressed may say
 * so with few bytes); -ENOMEM, or the error of the stream. */
ssize_t line_read(FILE *in, char **line, size_t *room);
#define LINE_MAX_BYTES (64u << 20)
#define LINE_TOO_LONG  "the line is too long"
/* The checksum in a line without its newline, and whether it is that of the bytes before it. */
bool line_is_whole(const char *line, size_t length);

/* Bytes of the last key of a line, `,"crc":"xxxxxxxx"}`. */
#define LINE_CRC_BYTES 18
/* Write that key of a line that has these bytes before it, with a newline and a NUL. */
void line_put_crc(char end[LINE_CRC_BYTES + 2], const char *line, size_t length);
