/* SPDX-License-Identifier: BSD-2-Clause */
/* What the terminal behind a descriptor can show. */
#pragma once
#include <stdbool.h>

/* In the order of --color's choices. */
enum terminal_colour { COLOUR_AUTO = 0, COLOUR_ALWAYS = 1, COLOUR_NEVER = 2 };

/* Columns: of a terminal COLUMNS where it is set, else the terminal's own size; 80 where it does
 * not tell, and for everything that is no terminal. */
unsigned terminal_width(int fd);
/* Whether to use colours: COLOUR_AUTO does so on a terminal, unless NO_COLOR is set (to anything
 * but nothing, no-color.org) or TERM is "dumb". */
bool terminal_has_colours(int fd, enum terminal_colour colour);
/* Whether it shows characters beyond ASCII, by the locale of the environment. */
bool terminal_has_utf8(void);
