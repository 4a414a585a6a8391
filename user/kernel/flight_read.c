/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of what the switch program writes while it writes it: abi/flight.h says in which order. */
#include "kernel/flight_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"

#define TRIES 64
/* Between two copies that have to be the same, where the programs do not order: longer than a store
 * stays in a store buffer. */
#define SETTLE_NS 2000

static void wait_to_settle(void)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + SETTLE_NS;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static bool read_thread(const struct flight_kernel *kernel, uint32_t index,
			struct flight_thread *to)
{
	const struct flight_thread *from = &kernel->threads[index];

	for (int tries = 0; tries < TRIES; tries++) {
		uint32_t ended = __atomic_load_n(&from->ended, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->begun, __ATOMIC_ACQUIRE) == ended && to->ended == ended)
			return true;
	}
	return false;
}

/* The entry at this position; false: it was written over, or is being written. */
static bool read_entry(const struct flight_kernel *kernel, const struct flight_thread *thread,
		       uint64_t position, struct flight_entry *to)
{
	const struct flight_entry *from =
		&kernel->entries[thread->first + (position & thread->mask)];
	uint32_t wanted = 2 * (uint32_t)(position / (thread->mask + 1ull) + 1);

	if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != wanted)
		return false;
	memcpy(to, from, sizeof(*to));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) == wanted &&
	       to->sequence == wanted;
}

static uint64_t oldest(const struct flight_thread *thread)
{
	return thread->count > thread->mask ? thread->count - thread->mask - 1 : 0;
}

/* The first position whose spell ends behind begin_ns, less one: the run before that spell began
 * where the spell before it ended. What is gone meanwhile is older than all that is there. */
static uint64_t find_first(const struct flight_kernel *kernel, const struct flight_thread *thread,
			   uint64_t begin_ns)
{
	uint64_t low = oldest(thread), least = low, high = thread->count;
	struct flight_entry entry;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (!read_entry(kernel, thread, middle, &entry)) {
			low = middle + 1;
			least = low;
		} else if (entry.in_ns <= begin_ns) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low > least ? low - 1 : low;
}

/* The spell before the run that goes on is an entry only when that run has ended. */
static void add_present(struct flight_copy *copy, struct flight_entry *entries)
{
	const struct flight_thread *thread = &copy->thread;
	struct flight_entry *entry = &entries[copy->count];

	if (thread->state != FLIGHT_ON || !thread->off_ns)
		return;
	*entry = (struct flight_entry){
		.off_ns = thread->off_ns,
		.woken_ns = thread->woken_ns,
		.in_ns = thread->in_ns,
		.waker_tid = thread->waker_tid,
		.waker_tgid = thread->waker_tgid,
		.syscall_nr = thread->syscall_nr,
		.state = thread->off_state,
		.reason = thread->reason,
		.flags = thread->flags,
		.off_cpu = thread->off_cpu,
		.in_cpu = thread->in_cpu,
	};
	memcpy(entry->waker_comm, thread->waker_comm, sizeof(entry->waker_comm));
	if (copy->from_ns == UINT64_MAX)
		copy->from_ns = entry->off_ns;
	copy->count++;
}

static int read_once(struct flight_kernel *kernel, uint32_t index, uint64_t begin_ns,
		     uint64_t end_ns, struct flight_entry *entries, struct flight_copy *copy)
{
	uint64_t position;

	copy->now_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (!read_thread(kernel, index, &copy->thread))
		return -EAGAIN;
	copy->entries = entries;
	copy->count = 0;
	copy->live = false;
	copy->from_ns = copy->thread.since_ns;
	if (copy->thread.state == FLIGHT_UNSEEN) {
		copy->from_ns = UINT64_MAX;
		return 0;
	}
	position = find_first(kernel, &copy->thread, begin_ns);
	/* What was before the first one is known where no other ever was. */
	if (position)
		copy->from_ns = UINT64_MAX;
	for (; position < copy->thread.count; position++) {
		struct flight_entry *entry = &entries[copy->count];

		if (!read_entry(kernel, &copy->thread, position, entry)) {
			/* The writer has come round: all before it is gone. */
			kernel->overrun++;
			copy->count = 0;
			copy->from_ns = UINT64_MAX;
			continue;
		}
		if (copy->from_ns == UINT64_MAX)
			copy->from_ns = entry->off_ns;
		copy->count++;
		if (entry->off_ns >= end_ns)
			return 0;
	}
	copy->live = true;
	add_present(copy, entries);
	/* Where all entries were gone, the live state is what is left. */
	if (copy->from_ns == UINT64_MAX)
		copy->from_ns =
			copy->thread.state == FLIGHT_ON ? copy->thread.in_ns : copy->thread.off_ns;
	return 0;
}

static struct flight_entry *buffer(struct flight_kernel *kernel, int which)
{
	if (!kernel->copies[which])
		kernel->copies[which] = malloc((FLIGHT_MOST_BLOCKS * FLIGHT_BLOCK_ENTRIES + 1) *
					       sizeof(*kernel->copies[which]));
	return kernel->copies[which];
}

int flight_kernel_read(struct flight_kernel *kernel, uint32_t index, uint64_t begin_ns,
		       uint64_t end_ns, struct flight_copy *copy)
{
	struct flight_entry *entries = buffer(kernel, 0), *again;
	struct flight_copy second;
	int err;

	if (!entries)
		return -ENOMEM;
	err = read_once(kernel, index, begin_ns, end_ns, entries, copy);
	if (err || !kernel->plain)
		return err;
	again = buffer(kernel, 1);
	if (!again)
		return -ENOMEM;
	for (int tries = 0; tries < TRIES; tries++) {
		wait_to_settle();
		err = read_once(kernel, index, begin_ns, end_ns, again, &second);
		if (err)
			return err;
		if (second.count == copy->count && second.thread.ended == copy->thread.ended &&
		    !memcmp(&second.thread, &copy->thread, sizeof(second.thread)) &&
		    !memcmp(again, entries, copy->count * sizeof(*entries)))
			return 0;
		*copy = second;
		copy->entries = entries;
		memcpy(entries, again, second.count * sizeof(*entries));
	}
	return -EAGAIN;
}

uint64_t flight_kernel_from_ns(struct flight_kernel *kernel, uint32_t index)
{
	struct flight_copy copy;

	if (flight_kernel_read(kernel, index, 0, 0, &copy) || copy.from_ns == UINT64_MAX)
		return 0;
	return copy.from_ns;
}

static const struct flight_turn *turn_at(const struct flight_kernel *kernel, unsigned cpu,
					 uint64_t position)
{
	return &kernel->turns[cpu * FLIGHT_TURNS + (position & (FLIGHT_TURNS - 1))];
}

static bool read_turn(const struct flight_turn *from, uint64_t position, struct flight_turn *to)
{
	uint32_t wanted = 2 * (uint32_t)(position / FLIGHT_TURNS + 1);

	if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != wanted)
		return false;
	memcpy(to, from, sizeof(*to));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) == wanted;
}

/* The first of the turns first..last that may end behind begin_ns: they lie in the order of time.
 * One that is being written over is older than what is wanted, or is met again by the reader. */
static uint64_t find_turn(const struct flight_kernel *kernel, unsigned cpu, uint64_t first,
			  uint64_t last, uint64_t begin_ns)
{
	while (first < last) {
		uint64_t middle = first + (last - first) / 2;
		struct flight_turn turn;

		if (!read_turn(turn_at(kernel, cpu, middle), middle, &turn) ||
		    turn.end_ns <= begin_ns)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

/* Whether turns that ended behind begin_ns may have been written over. */
static bool turns_are_gone(const struct flight_kernel *kernel, unsigned cpu, uint64_t first,
			   uint64_t last, uint64_t begin_ns)
{
	struct flight_turn oldest;

	if (!first)
		return false;
	while (first < last && !read_turn(turn_at(kernel, cpu, first), first, &oldest))
		first++;
	return first == last || oldest.begin_ns > begin_ns;
}

size_t flight_kernel_turns(struct flight_kernel *kernel, unsigned cpu, uint64_t begin_ns,
			   uint64_t end_ns, struct flight_turn *turns, size_t size)
{
	uint64_t last, first, position;
	size_t count = 0;

	if (cpu >= kernel->cpu_count)
		return 0;
	last = __atomic_load_n(&kernel->cpus[cpu].flight_turns, __ATOMIC_ACQUIRE);
	if (kernel->plain)
		wait_to_settle();
	first = last > FLIGHT_TURNS ? last - FLIGHT_TURNS : 0;
	kernel->turns_gone += turns_are_gone(kernel, cpu, first, last, begin_ns);
	for (position = find_turn(kernel, cpu, first, last, begin_ns);
	     position < last && count < size; position++) {
		if (!read_turn(turn_at(kernel, cpu, position), position, &turns[count]) ||
		    turns[count].end_ns <= begin_ns)
			continue;
		if (turns[count].begin_ns >= end_ns)
			break;
		count++;
	}
	return count;
}
