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
/* The value that sorting would put at this rank. Afterwards nothing before the rank is larger than
 * it and nothing behind it is smaller. rank < count. */
int64_t select_i64(int64_t *values, size_t count, size_t rank);
double select_double(double *values, size_t count, size_t rank);
