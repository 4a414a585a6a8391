/* SPDX-License-Identifier: BSD-2-Clause */
/* Cells of a table (RFC 4180), millions of them: without the lock of the stream and without
 * formats.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A text of ours. */
void csv_put_plain(FILE *to, const char *text);
/* At most `length` bytes of a text that another program may have chosen: clean, quoted where it has
 * to be, and no formula for a spreadsheet. */
void csv_put_text(FILE *to, const char *text, size_t length);
/* A whole number as text, somewhere in the buffer. */
const char *csv_whole_text(char buffer[24], uint64_t value, bool is_signed);
