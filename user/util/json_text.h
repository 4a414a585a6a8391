/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON written straight to a stream, for output that is too long to build in memory first. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Write a string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void json_put_string(FILE *out, const char *text, size_t size);
/* True where all of these bytes are UTF-8. */
bool json_text_is_clean(const char *text, size_t size);
/* A copy of these bytes with U+FFFD for each one that is not UTF-8. NULL with errno ENOMEM; free()
 * it. */
char *json_clean_text(const char *text, size_t size);
