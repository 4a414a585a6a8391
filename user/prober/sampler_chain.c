/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom a watched thread waits for: where it waits for a futex whose owner can be read, the capture
 * of that thread, then of the one that this owner waits for, and so on. */
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "abi/sched.h"
#include "prober/pool_wire.h"
#include "prober/sampler_private.h"
#include "stack/registers.h"
#include "util/clock.h"

/* Of the stacks of those behind the first owner: a whole chain is not to fill what may wait to be
 * unwound. */
#define LINK_BYTES (64u << 10)

/* A thread that waits for a lock, as it was when its registers were read. */
struct waiter {
	pid_t tid;
	uint64_t address, operation; /* of its futex call */
	bool forever;                /* without a time after which it gives up */
	bool known;                  /* task is there */
	struct looper_task task;
};

static bool find_futex(const struct stack_registers *registers, struct waiter *waiter)
{
	static const uint8_t numbers[][3] = {
		[STACK_X86_64] = {5, 4, 10}, /* rdi, rsi, r10 */
		[STACK_ARM64] = {0, 1, 3},
	};
	const uint8_t *number = numbers[registers->arch];

	if (registers->syscall_nr != SYS_futex)
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (!(registers->valid >> number[i] & 1))
			return false;
	waiter->address = registers->value[number[0]];
	waiter->operation = registers->value[number[1]];
	waiter->forever = !registers->value[number[2]];
	return true;
}

/* The watched thread, which the switch program tells about: as its registers say it too. */
static bool find_watched(const struct sampler_hand *hand, struct waiter *waiter)
{
	uint64_t words[LOOPER_REGISTER_WORDS];
	struct stack_registers registers;
	struct waiter now = {0};

	if (!hand->view->has_registers ||
	    task_registers_read(&hand->view->registers, waiter->tid, &waiter->task))
		return false;
	memcpy(words, waiter->task.registers.words, sizeof(words));
	if (registers_from_kernel(&registers, STACK_HOST_ARCH, words, LOOPER_REGISTER_WORDS) ||
	    !find_futex(&registers, &now))
		return false;
	waiter->forever = now.forever;
	return now.address == waiter->address;
}

static bool read_owner(pid_t pid, const struct waiter *waiter, struct probe_owner *owner)
{
	const struct probe_request request = {
		.operation = PROBE_LOCK_OWNER,
		.pid = pid,
		.tid = waiter->tid,
		.address = waiter->address,
		.argument = waiter->operation,
	};
	_Alignas(8) uint8_t data[sizeof(*owner)];
	struct reply reply = {.data = data};

	if (probe_read_lock_owner(&request, &reply) || reply.length < sizeof(*owner))
		return false;
	memcpy(owner, data, sizeof(*owner));
	return owner->tid > 0;
}

/* Each of the waiters waits for the next, and the last for the first. The registers of each were
 * read before the word of the lock that it waits for, and none of these threads has run since, so
 * that none can have let its lock go. */
static bool is_deadlock(const struct sampler_hand *hand, const struct waiter *waiters, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct looper_task now;

		if (!waiters[i].known || !waiters[i].forever ||
		    task_registers_read(&hand->view->registers, waiters[i].tid, &now) ||
		    !task_registers_same(&waiters[i].task, &now) || now.on_cpu ||
		    now.state != OFF_CPU_SLEEPING)
			return false;
	}
	return count;
}

/* Sample the owner of the futex that the watched thread sleeps in, then the thread that this owner
 * waits for, and so on: a lock is explained by the stacks of both sides. */
int sampler_chain_sample(struct sampler_hand *hand, const struct sampler_row *row, int socket)
{
	struct waiter waiters[SAMPLER_CHAIN + 1] = {{
		.tid = row->thread.tid,
		.address = row->slot.arguments[0],
		.operation = row->slot.arguments[1],
	}};
	uint64_t walk_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct probe_owner owner, again;
	int err = 0;

	waiters[0].known = find_watched(hand, &waiters[0]);
	for (size_t depth = 1; depth <= SAMPLER_CHAIN + 1 && !err; depth++) {
		struct waiter *next = &waiters[depth];
		struct sampler_sample sample = {.owner = (uint32_t)depth};
		struct stack_thread thread = row->thread;

		if (!read_owner(row->thread.pid, next - 1, &owner))
			break;
		sample.t_ns = clock_now_ns(CLOCK_MONOTONIC);
		sample.pid = thread.pid;
		sample.tid = thread.tid = owner.tid;
		sample.lock = owner.lock;
		sample.walk_ns = walk_ns;
		memcpy(sample.thread, owner.thread, sizeof(sample.thread));
		for (size_t i = 0; i < depth; i++) {
			if (waiters[i].tid != owner.tid)
				continue;
			stack_capture_clear(hand->capture);
			sample.deadlock = is_deadlock(hand, &waiters[i], depth - i);
			return sample.deadlock ? sampler_hand_send(hand, &sample, socket) : 0;
		}
		/* A ninth thread is only asked whether it closes the circle. */
		if (depth > SAMPLER_CHAIN)
			break;
		thread.start_boot_ns = 0;
		hand->by_task = false;
		/* The owner is never stopped: it did not block. */
		sample.taken = !stack_capture(
			hand->capturer, &thread,
			hand->view->has_registers ? STACK_SNAPSHOT : STACK_KERNEL, hand->capture);
		/* Let go meanwhile: what it does now is no answer. */
		if (!read_owner(row->thread.pid, next - 1, &again) || again.tid != owner.tid)
			break;
		if (depth > 1 && hand->capture->stack_bytes > LINK_BYTES)
			hand->capture->stack_bytes = LINK_BYTES;
		next->tid = owner.tid;
		next->known = sample.taken && hand->by_task;
		next->task = hand->task;
		err = sampler_hand_send(hand, &sample, socket);
		if (!sample.taken || !find_futex(&hand->capture->registers, next))
			break;
	}
	return err;
}
