/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/lock_owner.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_thread(pid_t pid, pid_t tid)
{
	char path[64];

	if (tid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

pid_t lock_owner(pid_t pid, pid_t waiter, uint64_t address, uint32_t operation)
{
	uint32_t words[4] = {0};
	struct iovec local = {words, sizeof(words)};
	struct iovec remote = {(void *)(uintptr_t)address, sizeof(words)};
	/* The lock word is aligned; 16 bytes of it may end a mapping. */
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	pid_t owner;

	if (n < (ssize_t)sizeof(words[0])) {
		local.iov_len = remote.iov_len = sizeof(words[0]);
		n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
		if (n < (ssize_t)sizeof(words[0]))
			return n < 0 ? -errno : -EFAULT;
	}
	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		owner = (pid_t)(words[0] & FUTEX_TID_MASK);
		return owner != waiter && is_thread(pid, owner) ? owner : -ENOENT;
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		break;
	default:
		return -ENOENT;
	}
	if (n < (ssize_t)sizeof(words))
		return -ENOENT;
	/* glibc: 2 is locked with waiters; then the count, then the owner (struct
	 * __pthread_mutex_s) */
	owner = (pid_t)words[2];
	if (words[0] == 2 && owner != waiter && is_thread(pid, owner))
		return owner;
	/* ART: bit 0 is held, the rest counts contenders */
	owner = (pid_t)words[1];
	if ((words[0] & 1) && words[0] > 1 && owner != waiter && is_thread(pid, owner))
		return owner;
	return -ENOENT;
}
