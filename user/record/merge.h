/* SPDX-License-Identifier: BSD-2-Clause */
/* Several intervals that follow one another, made into one, by the merge rules of the table of
 * fields (enum field_merge): sums of sums, the largest of the largest, rows of the same thing in
 * one row. What only some of them have stays what it is in those, and `merged` says in how many.
 * Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct interval_merge;

/* NULL with errno ENOMEM. */
struct interval_merge *interval_merge_new(void);
void interval_merge_free(struct interval_merge *merge);
/* Add the interval of a line that was read; the object is changed and stays the caller's. 0;
 * -ENOTSUP: it holds what no row declares, or a sum does not fit; -ENOMEM. After an error the merge
 * is of no use. */
int interval_merge_add(struct interval_merge *merge, json_t *interval);
/* How many were added. */
size_t interval_merge_count(const struct interval_merge *merge);
/* The line of the merged interval with its newline, to be freed. Its seq and its time are those of
 * the newest one. NULL with errno ENOMEM or ENOTSUP. */
char *interval_merge_line(struct interval_merge *merge, size_t *length);
