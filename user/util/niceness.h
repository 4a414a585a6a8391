/* SPDX-License-Identifier: BSD-2-Clause */
/* How urgent this process is. */
#pragma once

/* Set the niceness of the calling thread and of its session: where sessions share the CPU
 * (kernel/sched/autogroup.c), that of a process counts inside of its session alone. Who may not is
 * as urgent as before. */
void niceness_set(int niceness);
