/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom a watched thread waits for: where it waits for a futex whose owner can be read, or in a
 * synchronous binder call, the capture of that owner or of the thread that serves the call, then of
 * the one that this thread waits for, and so on: a wait is explained by the stacks of both sides.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "prober/pool_wire.h"
#include "prober/sampler_private.h"
#include "proc/stat.h"
#include "stack/registers.h"
#include "util/clock.h"

/* Of the stacks of those behind the first owner: a whole chain is not to fill what may wait to be
 * unwound. */
#define LINK_BYTES (64u << 10)
/* Of a frame's chain, which is kept until it is known whether that is late. */
#define FRAME_LINK_BYTES (16u << 10)

/* One of the chain that waits, as it was when its registers were read. */
struct waiter {
	pid_t pid, tid; /* tid 0: a call that nobody has taken */
	enum { WAITS_FOR_LOCK, WAITS_IN_BINDER, WAITS_IN_QUEUE } how;
	uint64_t address, operation; /* of its futex call */
	uint64_t process;            /* of abi/binder.h: where its binder thread is; 0: not known */
	bool forever;                /* without a time after which it gives up */
	bool known;                  /* task is there */
	struct looper_task task;
};

/* Whom a waiter waits for. */
struct next {
	enum sampler_link how;
	pid_t pid, tid;
	uint32_t lock;           /* enum probe_lock */
	struct binder_look call; /* of the waiter, or of the one before it (LINK_AT_WORK) */
	char thread[16];
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
	const struct looper_slot *live;

	if (row->for_frame)
		return sampler_frame_sleeps(hand->view, row);
	live = &hand->view->loopers.slots[row->index];
	return !__atomic_load_n(&live->on_cpu, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&live->spell, __ATOMIC_ACQUIRE) == row->slot.spell;
}

/* The flight recorder does not keep what the thread's system call was given. */
static bool find_frame_futex(const struct sampler_hand *hand, struct waiter *waiter)
{
	uint64_t words[LOOPER_REGISTER_WORDS];
	struct stack_registers registers;
	struct looper_task task;

	if (!hand->view->has_registers ||
	    task_registers_read(&hand->view->registers, waiter->tid, &task))
		return false;
	memcpy(words, task.registers.words, sizeof(words));
	return !registers_from_kernel(&registers, STACK_HOST_ARCH, words, LOOPER_REGISTER_WORDS) &&
	       find_futex(&registers, waiter);
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
	if (registers_from_kernel(&registers, STACK_HOST_ARCH, words, LOOPER_REGISTER_WORDS))
		return false;
	if (waiter->how == WAITS_IN_BINDER) {
		waiter->forever = true;
		return sampler_binder_is_call(&registers);
	}
	if (!find_futex(&registers, &now))
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

static void read_name(struct next *next)
{
	char text[32];

	if (proc_read_of_thread("", next->pid, next->tid, "comm", text, sizeof(text)) <= 0)
		return;
	text[strcspn(text, "\n")] = 0;
	snprintf(next->thread, sizeof(next->thread), "%.15s", text);
}

static int find_binder(const struct walk *walk, size_t depth, struct next *next)
{
	const struct waiter *waiter = &walk->waiters[depth - 1], *caller = waiter;
	int err;

	if (waiter->how == WAITS_IN_QUEUE)
		caller = &walk->waiters[depth - 2];
	err = sampler_binder_look(walk->hand->view, caller->pid, caller->tid, caller->process,
				  &next->call);
	if (err)
		return err;
	next->how = LINK_BY_BINDER;
	next->pid = (pid_t)next->call.to_pid;
	next->tid = (pid_t)next->call.to_tid;
	if (waiter->how == WAITS_IN_QUEUE) {
		/* Taken since, or nobody is at work there. */
		if (next->tid || !next->call.at_work_tids[0])
			return -ENOENT;
		next->how = LINK_AT_WORK;
		next->tid = (pid_t)next->call.at_work_tids[0];
	}
	if (next->tid)
		read_name(next);
	return 0;
}

/* 0; -ENOENT: what it waits for does not say; -errno. */
static int find_next(const struct walk *walk, size_t depth, struct next *next)
{
	const struct waiter *waiter = &walk->waiters[depth - 1];
	struct probe_owner owner;
	int err;

	*next = (struct next){.how = LINK_BY_LOCK, .pid = waiter->pid};
	if (waiter->how != WAITS_FOR_LOCK)
		return find_binder(walk, depth, next);
	err = read_owner(waiter->pid, waiter, &owner);
	if (err)
		return err;
	next->tid = owner.tid;
	next->lock = owner.lock;
	memcpy(next->thread, owner.thread, sizeof(next->thread));
	return 0;
}

/* The next one was found while the one before it waited: who has run since may wait for another one
 * by now. One that waits for the answer of the same call cannot have gone on. */
static bool edge_holds(const struct walk *walk, size_t depth)
{
	const struct waiter *waiter = &walk->waiters[depth - 1];

	if (depth == 1 && !watched_waits(walk->hand, walk->row))
		return false;
	if (waiter->how != WAITS_FOR_LOCK || (depth == 1 && !waiter->known))
		return true;
	return waits_still(walk->hand, waiter);
}

static bool is_same(const struct walk *walk, size_t depth, const struct next *next)
{
	struct next again;

	return !find_next(walk, depth, &again) && again.pid == next->pid &&
	       again.tid == next->tid && again.call.debug_id == next->call.debug_id &&
	       edge_holds(walk, depth);
}

static int send_end(const struct walk *walk, size_t depth, enum sampler_chain_end end)
{
	struct sampler_sample sample = {
		.owner = (uint32_t)depth,
		.walk_ns = walk->began_ns,
		.spell = walk->row->slot.spell,
		.end = end,
		.pid = walk->row->thread.pid,
		.t_ns = clock_now_ns(CLOCK_MONOTONIC),
	};

	stack_capture_clear(walk->hand->capture);
	return sampler_hand_send(walk->hand, &sample, walk->socket);
}

/* Where the next one is one of the chain: whether that is a deadlock. A call that nobody has taken
 * is none: any thread of its process may still come to serve it. */
static int close_circle(const struct walk *walk, size_t depth, size_t at)
{
	return is_deadlock(walk->hand, &walk->waiters[at], depth - at)
		       ? send_end(walk, depth, CHAIN_DEADLOCK)
		       : 0;
}

static void fill_call(struct sampler_sample *sample, const struct next *next)
{
	const struct binder_look *call = &next->call;

	if (next->how != LINK_BY_BINDER)
		return;
	sample->caller_pid = (int32_t)call->tgid;
	sample->caller_tid = (int32_t)call->tid;
	sample->debug_id = call->debug_id;
	sample->code = call->code;
	sample->threads = call->all_seen ? call->threads : SAMPLER_NOT_COUNTED;
	sample->at_work = call->all_seen ? call->at_work : SAMPLER_NOT_COUNTED;
	sample->sent_ns = call->sent_ns;
	sample->received_ns = call->received_ns;
}

static uint64_t process_start(pid_t pid)
{
	struct proc_stat stat;
	int dir = proc_open("", pid), err;

	if (dir < 0)
		return 0;
	err = proc_stat(dir, &stat);
	close(dir);
	return err ? 0 : stat.start_ticks * PROC_TICK_NS;
}

/* What the thread that was captured waits for in turn. False: it runs, or is not known to wait for
 * somebody. */
static bool waits_in_turn(const struct walk *walk, size_t depth)
{
	const struct sampler_hand *hand = walk->hand;
	struct waiter *waiter = (struct waiter *)&walk->waiters[depth];

	if (waiter->known && find_futex(&hand->capture->registers, waiter)) {
		waiter->how = WAITS_FOR_LOCK;
		return true;
	}
	/* Where registers cannot be read, the driver is asked all the same. */
	if (waiter->known && !sampler_binder_is_call(&hand->capture->registers))
		return false;
	waiter->how = WAITS_IN_BINDER;
	waiter->forever = true;
	return hand->view->has_binder && (waiter->known || !hand->view->has_registers);
}

/* Sample the next one, which is the next waiter then. 0; -ENOENT: it is the last. */
static int sample_next(struct walk *walk, size_t depth, const struct next *next)
{
	struct sampler_hand *hand = walk->hand;
	struct waiter *waiter = &walk->waiters[depth];
	struct stack_thread thread = {.pid = next->pid, .tid = next->tid, .pidfd = -1};
	struct sampler_sample sample = {
		.owner = (uint32_t)depth,
		.walk_ns = walk->began_ns,
		.spell = walk->row->slot.spell,
		.t_ns = clock_now_ns(CLOCK_MONOTONIC),
		.pid = next->pid,
		.tid = next->tid,
		.how = next->how,
		.lock = next->lock,
	};
	size_t most_bytes = walk->row->for_frame ? FRAME_LINK_BYTES
			    : depth > 1          ? LINK_BYTES
						 : SIZE_MAX;
	int err;

	memcpy(sample.thread, next->thread, sizeof(sample.thread));
	fill_call(&sample, next);
	if (next->pid != walk->row->thread.pid)
		sample.process_start_boot_ns = process_start(next->pid);
	else
		thread.pidfd = walk->row->thread.pidfd;
	stack_capture_clear(hand->capture);
	hand->by_task = false;
	/* It is never stopped: it did not block. */
	if (next->tid)
		sample.taken =
			!stack_capture(hand->capturer, &thread, hand->link_request, hand->capture);
	/* Let go, answered or taken meanwhile: what it does now is no answer. */
	if (!is_same(walk, depth, next))
		return -ENOENT;
	if (hand->capture->stack_bytes > most_bytes)
		hand->capture->stack_bytes = most_bytes;
	*waiter = (struct waiter){
		.pid = next->pid,
		.tid = next->tid,
		.process = next->how == LINK_BY_LOCK ? waiter[-1].process : next->call.to_process,
		.known = sample.taken && hand->by_task && hand->capture->kind == CAPTURE_SNAPSHOT,
		.task = hand->task,
	};
	err = sampler_hand_send(hand, &sample, walk->socket);
	if (err)
		return err;
	if (!next->tid) {
		waiter->how = WAITS_IN_QUEUE;
		return 0;
	}
	return waits_in_turn(walk, depth) ? 0 : -ENOENT;
}

int sampler_chain_sample(struct sampler_hand *hand, struct sampler_row *row, int socket)
{
	struct walk walk = {
		.hand = hand,
		.row = row,
		.socket = socket,
		.began_ns = clock_now_ns(CLOCK_MONOTONIC),
		.waiters = {{
			.pid = row->thread.pid,
			.tid = row->thread.tid,
			.address = row->slot.arguments[0],
			.operation = row->slot.arguments[1],
		}},
	};
	struct waiter *watched = &walk.waiters[0];
	int err = 0;

	if (row->slot.reason == LOOPER_REASON_BINDER) {
		uint64_t signature =
			sampler_binder_signature(hand->view, watched->pid, watched->tid);

		if (!signature || (row->chain_only && signature == row->chain_signature))
			return 0;
		row->chain_signature = signature;
		watched->how = WAITS_IN_BINDER;
	}
	/* futex_waitv and futex_wait (since 5.16 and 6.7) have other arguments. */
	if (watched->how == WAITS_FOR_LOCK && row->slot.syscall_nr != SYS_futex)
		return watched_waits(hand, row) ? send_end(&walk, 1, CHAIN_NO_OWNER) : 0;
	if (row->for_frame && watched->how == WAITS_FOR_LOCK && !find_frame_futex(hand, watched))
		return 0;
	watched->known = find_watched(hand, watched);
	for (size_t depth = 1; !err; depth++) {
		struct next next;

		err = find_next(&walk, depth, &next);
		if (err == -ENOENT && walk.waiters[depth - 1].how == WAITS_FOR_LOCK &&
		    edge_holds(&walk, depth))
			return send_end(&walk, depth, CHAIN_NO_OWNER);
		if (err)
			break;
		for (size_t i = 0; i < depth && next.tid; i++)
			if (walk.waiters[i].tid == next.tid)
				return close_circle(&walk, depth, i);
		/* A ninth thread is only asked whether it closes the circle. */
		if (depth > SAMPLER_CHAIN)
			return edge_holds(&walk, depth) ? send_end(&walk, depth, CHAIN_CUT) : 0;
		err = sample_next(&walk, depth, &next);
	}
	/* Who the chain ends with is no fault of the socket. */
	return err == -EAGAIN || err == -EPIPE ? err : 0;
}
