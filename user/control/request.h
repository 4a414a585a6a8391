/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of the protocol, without a socket: what a client sent becomes the answer. */
#pragma once
#include <stddef.h>

#include "control/control.h"

/* Answer what was received: hostile bytes, with a newline in them or as many as a request may have.
 * gone: the client does not wait for it any more. Returns the whole answer, *length bytes that the
 * caller frees; NULL: no memory. */
char *request_answer(const struct control_row *rows, size_t row_count, void *ctx, bool gone,
		     const char *received, size_t received_bytes, size_t *length);
/* The answer that refuses, with err (-errno) and a text of one line. */
char *request_refusal(int err, const char *text, size_t *length);
/* Take an answer apart, which ends in a NUL behind its length: 0 with *text, or what the recorder
 * refused with; -EPROTO: it is none. */
int request_take_answer(char *answer, size_t length, char **text);
