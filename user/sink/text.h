/* SPDX-License-Identifier: BSD-2-Clause */
/* Text of other processes, made fit for a terminal: what it shows, how wide that is, where it can
 * be cut. */
#pragma once
#include <stddef.h>

/* A copy of the text in the buffer, with '?' for each byte or character that would control a
 * terminal, turn its writing direction, be invisible, or is no UTF-8. Returns buffer. */
const char *text_clean(char *buffer, size_t size, const char *text);
/* The same of a name's last `width` columns, ".." before them: the end of a long name tells more
 * than its begin ("...sceneform.sample:remote"). Returns buffer. */
const char *text_tail(char *buffer, size_t size, const char *text, int width);
/* Columns that clean text takes on a terminal: 2 for East Asian wide characters and emoji, 0 for
 * marks that sit on the character before them. */
int text_columns(const char *text);
/* How many bytes of clean text, whole characters only, fit into so many columns. */
size_t text_fitting(const char *text, int columns);
/* In place, for a terminal that does not know UTF-8 and may take one of its bytes for a control
 * (0x9b is ESC [): a '?' for each column of what is beyond ASCII. Returns the new length. */
size_t text_to_ascii(char *text, size_t length);
