/* SPDX-License-Identifier: BSD-2-Clause */
/* User registers of any thread that is off its CPU, without a stop, by a task iterator (5.8; needs
 * the kernel's BTF). For any process that has the two descriptors. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "abi/looper.h"

struct task_registers {
	int program_fd, wanted_fd; /* borrowed */
	int link_fd;               /* over all tasks, where the kernel cannot be asked for one */
	bool by_tid;
};

/* Descriptors from looper_kernel_fds(), which must stay open. 0; -ENOTSUP where they are -1;
 * -errno.
 */
int task_registers_open(struct task_registers *reader, int program_fd, int wanted_fd);
/* Go the way of kernels below 6.1 on any, for tests: walk all tasks. */
int task_registers_walk(struct task_registers *reader);
void task_registers_close(struct task_registers *reader);

/* One reading. 0 with out->whole set; -EAGAIN: it runs, or it ran meanwhile (the counts and the
 * state are there); -ESRCH: no such task, or a kernel thread; -errno. Some 15 us, and 0.1 us more a
 * task of the system below Linux 6.1. */
int task_registers_read(const struct task_registers *reader, pid_t tid, struct looper_task *out);

/* The thread has not run between the two readings, so what was copied of its stack in between is
 * what it was. */
bool task_registers_same(const struct looper_task *before, const struct looper_task *after);
