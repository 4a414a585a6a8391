/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether every process of the machine gives its mmap_lock. The kernel takes this lock of each
 * process that maps the file when a uprobe is set or removed, without a time limit and with
 * dup_mmap_sem held for writing, so that no process can fork meanwhile (register_for_each_vma in
 * kernel/events/uprobes.c). One process that holds its lock would stall them all; so it is looked
 * for first. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* How long a process may hold its lock until it counts as one that does not give it. */
#define MM_LOCKS_NS (100 * 1000 * 1000ull)

/* Look, and wait at most timeout_ns for those that hold their lock now. program: looper_mm_locks of
 * the kernel side (some 0.1 ms a thousand processes); -1: none, then a child process reads a word
 * of each /proc/PID/pagemap, which takes the lock for reading (some 5 us a process), and sees those
 * alone that hold it for writing. 0: each was seen free once; -EDEADLK: *holder holds its own;
 * another -errno: it cannot be told here. */
int mm_locks_look(int program, uint64_t timeout_ns, pid_t *holder);
