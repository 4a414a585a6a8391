/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON text in growing memory, token by token and without a tree: a record of thousands of tasks
 * costs its text and nothing else. Commas come by themselves. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_buffer {
	char *text; /* free() it; ends in NUL unless failed */
	size_t length, size;
	bool failed;   /* out of memory: the text is no JSON */
	bool borrowed; /* the text is still in memory that the caller gave, with its size */
};

/* What may follow directly: a value of an array, or a key of an object, or the value of a key. */
void json_put_key(struct json_buffer *b, const char *key);
/* One of {}[]. */
void json_put_mark(struct json_buffer *b, char mark);
void json_put_u64(struct json_buffer *b, uint64_t value);
void json_put_i64(struct json_buffer *b, int64_t value);
/* With a fraction always, ".0" if need be; must be finite. */
void json_put_double(struct json_buffer *b, double value);
/* Without ".0" where it is whole and below 9e15. */
void json_put_number(struct json_buffer *b, double value);
/* At most `size` bytes of a text; bytes that are not UTF-8 become U+FFFD. */
void json_put_text(struct json_buffer *b, const char *text, size_t size);
/* A token as it stands: true, a number. */
void json_put_token(struct json_buffer *b, const char *token);
/* Any text, without commas and quotes. */
void json_put_raw(struct json_buffer *b, const char *text, size_t length);
