/* SPDX-License-Identifier: BSD-2-Clause */
/* Durations and sizes as people write them: a number with its unit, never a bare number. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* "500ms" "10s" "1.5m" "72h" "7d" (also us, ns) into nanoseconds. -EINVAL: no unit, unknown unit,
 * negative or not a number; -ERANGE: above 2^63 ns. */
int parse_duration(const char *text, uint64_t *ns);
/* "64M" "512K" "2G" "100B" into bytes (powers of 1024; "MiB" and "MB" mean the same). Errors as
 * above. */
int parse_size(const char *text, uint64_t *bytes);

/* "1.5 MiB", "900 B". Returns buffer. */
const char *format_bytes(char *buffer, size_t size, uint64_t bytes);
/* "72h", "21h14m", "3m05s", "4.2 s", "12 ms": a duration for people. Returns buffer. */
const char *format_duration(char *buffer, size_t size, uint64_t ns);
