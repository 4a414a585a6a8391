/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of per-CPU arrays, in one system call where the kernel reads many elements at once. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Sum an array of `entries` elements, each `words` numbers of 64 bits a CPU, over all possible CPUs
 * into sums[entries * words]. 0 or -errno; then sums is not valid. */
int percpu_sum(int map_fd, uint32_t entries, size_t words, uint64_t *sums);
