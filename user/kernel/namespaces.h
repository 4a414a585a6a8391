/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once
#include <stddef.h>

/* BPF programs see the pids and the clocks of the initial namespaces. 0: so do we; -ENOTSUP: in our
 * namespaces they mean something else, with a line in reason. What cannot be read is no obstacle.
 */
int namespaces_check(char *reason, size_t size);
/* Go to the clocks of the machine: in a time namespace with offsets (CONFIG_TIME_NS) this process's
 * CLOCK_MONOTONIC and CLOCK_BOOTTIME are not those that the kernel side tells times by. To be
 * called before any thread is made. 0: they are the machine's; 1: the process stays where it was,
 * and namespaces_check() says so; -errno: its children have other clocks than itself, and it must
 * not go on. */
int namespaces_leave_time(void);
