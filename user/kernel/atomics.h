/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic adds that fetch the old value order the words that programs share with readers
 * (bpf/order.bpf.h). Kernels before 5ffa25502b5a (5.12; the arm64 JIT before 1902472b4fa9, 5.18)
 * refuse them: they get the same programs with plain atomic adds. */
#pragma once
#include <stdbool.h>

struct bpf_object;

/* This kernel loads them: found by loading a program of seven instructions. */
bool kernel_has_fetch(void);

/* Make each fetching add of the object's programs a plain one. To be called between open and load.
 * 0 or -ENOMEM. */
int kernel_make_atomics_plain(struct bpf_object *object);
