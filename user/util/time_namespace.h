/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Go to the clocks of the machine: in a time namespace (CONFIG_TIME_NS) CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME of this process are not those that the kernel side tells times by. Before any
 * thread is made. 0: they are the machine's; 1: it stays where it is (kernel/namespaces.c says what
 * that leaves); -errno: its children have others than itself, and it must not go on. */
int time_namespace_leave(void);
