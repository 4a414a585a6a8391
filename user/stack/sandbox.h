/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that gives away every right that it has, for good. */
#pragma once

#define SANDBOX_UID         65534
#define SANDBOX_BYTES       (256ull << 20) /* of address space */
#define SANDBOX_DESCRIPTORS 384
#define SANDBOX_CPU_S       600 /* hard limit; a job has a budget of its own */

/* Another uid and no group, no capability (bounding set included), no_new_privs, limits on memory,
 * CPU time, descriptors, files and processes, not dumpable; then a list of the system calls that
 * are left: to receive and send on a socket that is open, to read descriptors that are open, to
 * have memory that is not executable, clocks and the end. Any other call kills the process. 0 or
 * -errno: a process without its sandbox must not go on. Without the right to change its uid (a
 * recorder that is not root) the process keeps it. */
int sandbox_enter(void);
