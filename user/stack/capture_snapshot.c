/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread off its CPU, without a stop: the switch program stashed its registers, its stack lies
 * still. It is the truth if the sequence is the same before and after the copy (README.md, "Without
 * a stop"). */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "stack/capture.h"
#include "util/clock.h"

#define MIN_READ 256

enum stack_failure capture_read_stack(pid_t pid, uint64_t address, void *to, size_t room,
				      size_t *bytes)
{
	/* Where the stack's mapping ends inside the range, kernels answer with what there is, or
	 * (seen on arm64 6.1) with EFAULT for the whole. */
	for (size_t ask = room; ask >= MIN_READ; ask /= 2) {
		struct iovec local = {to, ask}, remote = {(void *)(uintptr_t)address, ask};
		ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (n > 0) {
			*bytes = n;
			return STACK_OK;
		}
		if (n < 0 && errno == ESRCH)
			return STACK_GONE;
		if (n < 0 && errno == EPERM)
			return STACK_NOT_PERMITTED;
		if (n < 0 && errno == ENOSYS)
			return STACK_UNSUPPORTED;
	}
	return STACK_NO_MEMORY_READ;
}

enum stack_failure capture_snapshot(const struct stack_stash *stash,
				    const struct stack_thread *thread,
				    struct stack_capture *capture)
{
	struct looper_registers stashed;
	uint64_t words[LOOPER_REGISTER_WORDS];
	enum stack_failure failure;
	int err = stash->read(stash->ctx, thread->tid, &stashed);

	if (err == -EAGAIN)
		return STACK_ON_CPU;
	if (err || !stashed.sequence)
		return STACK_NOT_WATCHED;
	if (stashed.sequence & 1)
		return STACK_ON_CPU;
	if (stashed.tid != (uint32_t)thread->tid || stashed.tgid != (uint32_t)thread->pid)
		return STACK_REUSED;
	memcpy(words, stashed.words, sizeof(words));
	if (registers_from_kernel(&capture->registers, STACK_HOST_ARCH, words,
				  LOOPER_REGISTER_WORDS))
		return STACK_COMPAT;
	capture->stack_base = registers_sp(&capture->registers);
	failure = capture_read_stack(thread->pid, capture->stack_base, capture->stack,
				     capture->stack_room, &capture->stack_bytes);
	if (failure)
		return failure;
	capture->t_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (stash->sequence(stash->ctx, thread->tid) != stashed.sequence)
		return STACK_MOVED;
	capture->kind = CAPTURE_SNAPSHOT;
	capture->sequence = stashed.sequence;
	return STACK_OK;
}
