/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes that need a process: a child of our own is read and stopped. */
#pragma once
#include <stdint.h>

/* process_vm_readv on a forked child. 0 or -errno. */
int probe_child_memory(void);
/* PTRACE_SEIZE, INTERRUPT, GETREGSET, DETACH on a forked child. 0, -ETIMEDOUT or -errno. */
int probe_child_ptrace(void);
/* Offset in /proc/self/exe of a function that nothing calls. 0 or -ENOENT. */
int probe_own_file_offset(uint64_t *offset);
