/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom a watched thread waits for: where it waits for a futex whose owner can be read, the capture
 * of that thread, then of the one that this owner waits for, and so on. */
#include <errno.h>
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

/* What the switch program told of the watched thread is so still: it sleeps in the same spell, and
 * so in the same call. The two words are whole stores of the switch program. */
static bool watched_waits(const struct sampler_hand *hand, const struct sampler_row *row)
{
	const struct looper_slot *live = &hand->view->loopers.slots[row->index];

	return !__atomic_load_n(&live->on_cpu, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&live->spell, __ATOMIC_ACQUIRE) == row->slot.spell;
}

/* Its registers say the same. False: they cannot be read, or are those of restart_syscall. */
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

/* It has not run since its registers were read. */
static bool waits_still(const struct sampler_hand *hand, const struct waiter *waiter)
{
	struct looper_task now;

	return waiter->known && !task_registers_read(&hand->view->registers, waiter->tid, &now) &&
	       task_registers_same(&waiter->task, &now) && !now.on_cpu &&
	       now.state == OFF_CPU_SLEEPING;
}

/* 0 with the owner; -ENOENT: the words of the lock do not say; -errno. */
static int read_owner(pid_t pid, const struct waiter *waiter, struct probe_owner *owner)
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
	int err = probe_read_lock_owner(&request, &reply);

	if (err)
		return err;
	memcpy(owner, data, sizeof(*owner));
	return 0;
}

/* Each of the waiters waits for the next, and the last for the first. The registers of each were
 * read before the word of the lock that it waits for, and none of these threads has run since, so
 * that none can have let its lock go. */
static bool is_deadlock(const struct sampler_hand *hand, const struct waiter *waiters, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!waiters[i].forever || !waits_still(hand, &waiters[i]))
			return false;
	return count;
}

/* One look at a chain. */
struct walk {
	struct sampler_hand *hand;
	const struct sampler_row *row;
	int socket;
	uint64_t began_ns;
	struct waiter waiters[SAMPLER_CHAIN + 1];
};

/* The owner was read while the thread before it waited for the lock: who has run since may wait for
 * another one by now. */
static bool edge_holds(const struct walk *walk, size_t depth)
{
	const struct waiter *waiter = &walk->waiters[depth - 1];

	if (depth == 1 && !watched_waits(walk->hand, walk->row))
		return false;
	return depth == 1 && !waiter->known ? true : waits_still(walk->hand, waiter);
}

static int send_end(const struct walk *walk, size_t depth, enum sampler_chain_end end)
{
	struct sampler_sample sample = {
		.owner = (uint32_t)depth,
		.walk_ns = walk->began_ns,
		.end = end,
		.pid = walk->row->thread.pid,
		.t_ns = clock_now_ns(CLOCK_MONOTONIC),
	};

	stack_capture_clear(walk->hand->capture);
	return sampler_hand_send(walk->hand, &sample, walk->socket);
}

/* Where the owner is one of the chain: whether that is a deadlock. */
static int close_circle(const struct walk *walk, size_t depth, size_t at)
{
	return is_deadlock(walk->hand, &walk->waiters[at], depth - at)
		       ? send_end(walk, depth, CHAIN_DEADLOCK)
		       : 0;
}

/* Sample the owner, which is the next waiter then. 0; -ENOENT: it is the last. */
static int sample_owner(struct walk *walk, size_t depth, const struct probe_owner *owner)
{
	struct sampler_hand *hand = walk->hand;
	struct waiter *next = &walk->waiters[depth];
	struct stack_thread thread = walk->row->thread;
	struct sampler_sample sample = {
		.owner = (uint32_t)depth,
		.walk_ns = walk->began_ns,
		.t_ns = clock_now_ns(CLOCK_MONOTONIC),
		.pid = thread.pid,
		.tid = owner->tid,
		.lock = owner->lock,
	};
	struct probe_owner again;
	int err;

	memcpy(sample.thread, owner->thread, sizeof(sample.thread));
	thread.tid = owner->tid;
	thread.start_boot_ns = 0;
	hand->by_task = false;
	/* The owner is never stopped: it did not block. */
	sample.taken = !stack_capture(hand->capturer, &thread,
				      hand->view->has_registers ? STACK_SNAPSHOT : STACK_KERNEL,
				      hand->capture);
	/* Let go meanwhile: what it does now is no answer. */
	if (read_owner(thread.pid, next - 1, &again) || again.tid != owner->tid ||
	    !edge_holds(walk, depth))
		return -ENOENT;
	if (depth > 1 && hand->capture->stack_bytes > LINK_BYTES)
		hand->capture->stack_bytes = LINK_BYTES;
	next->tid = owner->tid;
	next->known = sample.taken && hand->by_task;
	next->task = hand->task;
	err = sampler_hand_send(hand, &sample, walk->socket);
	if (err)
		return err;
	return next->known && find_futex(&hand->capture->registers, next) ? 0 : -ENOENT;
}

/* Sample the owner of the futex that the watched thread sleeps in, then the thread that this owner
 * waits for, and so on: a lock is explained by the stacks of both sides. */
int sampler_chain_sample(struct sampler_hand *hand, const struct sampler_row *row, int socket)
{
	struct walk walk = {
		.hand = hand,
		.row = row,
		.socket = socket,
		.began_ns = clock_now_ns(CLOCK_MONOTONIC),
		.waiters = {{
			.tid = row->thread.tid,
			.address = row->slot.arguments[0],
			.operation = row->slot.arguments[1],
		}},
	};
	int err = 0;

	walk.waiters[0].known = find_watched(hand, &walk.waiters[0]);
	for (size_t depth = 1; !err; depth++) {
		struct probe_owner owner;

		err = read_owner(row->thread.pid, &walk.waiters[depth - 1], &owner);
		if (err == -ENOENT && edge_holds(&walk, depth))
			return send_end(&walk, depth, CHAIN_NO_OWNER);
		if (err)
			break;
		for (size_t i = 0; i < depth; i++)
			if (walk.waiters[i].tid == owner.tid)
				return close_circle(&walk, depth, i);
		/* A ninth thread is only asked whether it closes the circle. */
		if (depth > SAMPLER_CHAIN)
			return edge_holds(&walk, depth) ? send_end(&walk, depth, CHAIN_CUT) : 0;
		err = sample_owner(&walk, depth, &owner);
	}
	/* Who the chain ends with is no fault of the socket. */
	return err == -EAGAIN || err == -EPIPE ? err : 0;
}
