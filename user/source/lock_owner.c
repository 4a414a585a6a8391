/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/lock_owner.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "util/bounded_call.h"

static bool is_thread(pid_t pid, pid_t tid)
{
	char path[64];

	if (tid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

struct words_job {
	pid_t pid;
	uint64_t address;
	uint32_t words[4];
	ssize_t n; /* bytes or -errno */
};

static void run_words(void *ctx)
{
	struct words_job *job = ctx;
	struct iovec local = {job->words, sizeof(job->words)};
	struct iovec remote = {(void *)(uintptr_t)job->address, sizeof(job->words)};

	/* The lock word is aligned; 16 bytes of it may end a mapping. */
	job->n = process_vm_readv(job->pid, &local, 1, &remote, 1, 0);
	if (job->n < (ssize_t)sizeof(job->words[0])) {
		local.iov_len = remote.iov_len = sizeof(job->words[0]);
		job->n = process_vm_readv(job->pid, &local, 1, &remote, 1, 0);
	}
	if (job->n < 0)
		job->n = -errno;
	else if (job->n < (ssize_t)sizeof(job->words[0]))
		job->n = -EFAULT;
}

static ssize_t read_words(struct bounded_calls *calls, pid_t pid, uint64_t address,
			  uint32_t words[4])
{
	struct words_job *job = calloc(1, sizeof(*job));
	ssize_t n;

	if (!job)
		return -ENOMEM;
	job->pid = pid;
	job->address = address;
	n = bounded_call(calls, pid, run_words, free, job);
	if (n == -ETIMEDOUT)
		return n;
	if (!n)
		n = job->n;
	memcpy(words, job->words, sizeof(job->words));
	free(job);
	return n;
}

pid_t lock_owner(struct bounded_calls *calls, pid_t pid, pid_t waiter, uint64_t address,
		 uint32_t operation)
{
	uint32_t words[4] = {0};
	ssize_t n = read_words(calls, pid, address, words);
	pid_t owner;

	if (n < 0)
		return (pid_t)n;
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
