/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the code of a process waits in epoll: the places for a pair of uprobes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WAIT_STUB_MAX 16

/* Byte offsets in one file. A probe on `enter` sees the epoll fd as its first argument; one on
 * `leave` runs when the system call is over. Where a jump or a nop stands within a few instructions
 * that do no harm, it is taken, because kernels emulate it instead of stepping it out of line
 * (bpf/README.md, "Uprobes"). */
struct wait_stub {
	char path[64]; /* /proc/PID/map_files/...: also right in other namespaces and when deleted
			*/
	uint64_t enter[WAIT_STUB_MAX], leave[WAIT_STUB_MAX];
	size_t enter_count, leave_count;
};

/* The C library of a process, or the program itself if it is static. 0; -ENOENT: no place found;
 * -ENOTSUP: 32-bit; -ESRCH, -EACCES and other errors of reading the process. */
int wait_stub_find(pid_t pid, struct wait_stub *stub);

/* What the thread does in the kernel now (/proc/PID/syscall, for which no stop is needed). */
struct wait_place {
	int64_t syscall_nr; /* -1: in none; -2: it runs */
	uint64_t arguments[6], stack_pointer, program_counter;
};
int wait_place_read(pid_t pid, struct wait_place *place);
struct bounded_calls;
/* The same, waited for no longer than a bounded call takes: -ETIMEDOUT or -EBUSY. */
int wait_place_read_bounded(struct bounded_calls *calls, pid_t pid, struct wait_place *place);
/* The epoll fd that it waits on, or -1. */
int wait_place_epfd(const struct wait_place *place);
/* The program is a 32-bit one. */
bool wait_is_32_bit(pid_t pid);
/* The fd refers to an epoll instance (it may have been closed, or be something else by now). */
int wait_is_epoll(pid_t pid, int fd);
