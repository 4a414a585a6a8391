/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys from the bytes that a terminal sends. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum screen_key {
	KEY_NONE = 0, /* nothing yet, or nothing that is known */
	/* up to 255: that byte; texts beyond ASCII come byte by byte */
	KEY_ENTER = 256,
	KEY_ESCAPE,
	KEY_BACKSPACE,
	KEY_UP,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_SUSPEND, /* Ctrl-Z */
	KEY_REDRAW,  /* Ctrl-L */
};

/* An escape key alone is told from the begin of a sequence by what follows within this time. */
#define KEYS_ESCAPE_MS 60

struct key_reader {
	char bytes[16];
	size_t count;
};

/* Take a byte. */
int keys_take(struct key_reader *reader, unsigned char byte);
/* Whether an escape waits for more bytes. */
bool keys_are_midway(const struct key_reader *reader);
/* No more bytes came in time. */
int keys_time_out(struct key_reader *reader);
