/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorting in place: glibc's qsort takes as much memory again. Input that is almost sorted (traces
 * are) costs little; hostile input costs n log n. */
#pragma once
#include "frames/timeline.h"
#include <stddef.h>
#include <stdint.h>

void sort_i64(int64_t *values, size_t count);
/* By layer, then present, then cookie. */
void sort_frames(struct frame *frames, size_t count);
/* By the cookie alone; metrics keep a number there. */
void sort_frames_by_cookie(struct frame *frames, size_t count);
