/* SPDX-License-Identifier: BSD-2-Clause */
/* What a text between the quotes of JSON means (RFC 8259, RFC 3629). */
#pragma once
#include <stdbool.h>

/* The text from p to end, without its quotes: into `out`, which has room for as much and one byte
 * more, because a text is never longer than what it is written as. False: a wrong escape, a NUL,
 * half a pair, or no UTF-8. */
bool json_unescape(const char *p, const char *end, char *out);
