/* SPDX-License-Identifier: BSD-2-Clause */
/* What the flight recorder kept of one thread, as spells: they lie one behind the other and fill
 * what was asked for, so that their sum is the window. */
#include "kernel/flight_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "abi/sched.h"
#include "jankscope/spell.h"

struct filler {
	struct flight_kernel *kernel;
	struct spell *spells;
	size_t count, size;
	uint64_t at_ns, end_ns; /* what is filled so far, and up to where */
	bool full;
};

/* From where the last one ended to until_ns. */
static void put(struct filler *filler, uint64_t until_ns, const struct spell *like)
{
	struct spell *spell;

	if (until_ns > filler->end_ns)
		until_ns = filler->end_ns;
	if (until_ns <= filler->at_ns)
		return;
	if (filler->count == filler->size) {
		filler->full = true;
		return;
	}
	spell = &filler->spells[filler->count++];
	*spell = *like;
	spell->begin_ns = (int64_t)filler->at_ns;
	spell->end_ns = (int64_t)until_ns;
	filler->at_ns = until_ns;
}

static void put_unknown(struct filler *filler, uint64_t until_ns)
{
	put(filler, until_ns, &(struct spell){.state = SPELL_UNKNOWN, .cpu = -1});
}

/* Cut where the CPU's frequency changed, if that is told. */
static void put_run(struct filler *filler, uint64_t until_ns, unsigned cpu)
{
	struct spell run = {.state = SPELL_RUNNING, .cpu = (int16_t)cpu};
	uint64_t change_ns;

	if (until_ns > filler->end_ns)
		until_ns = filler->end_ns;
	while (filler->at_ns < until_ns && !filler->full) {
		run.khz = flight_kernel_khz(filler->kernel, cpu, filler->at_ns, &change_ns);
		put(filler, change_ns < until_ns ? change_ns : until_ns, &run);
	}
}

static void name_other(struct spell *spell, uint32_t tid, uint32_t tgid, const char *comm)
{
	spell->other.tid = (int32_t)tid;
	spell->other.tgid = (int32_t)tgid;
	memcpy(spell->other.comm, comm, FLIGHT_COMM_LEN - 1);
	spell->other.comm[FLIGHT_COMM_LEN - 1] = 0;
}

/* A wait for a CPU, cut by who ran there. While nobody is named the CPU was being woken, the
 * thread was moved to it, or its turns were written over. */
static void put_wait(struct filler *filler, uint64_t until_ns, const struct flight_entry *entry)
{
	const struct spell bare = {
		.state = SPELL_RUNNABLE, .reason = entry->reason, .cpu = (int16_t)entry->off_cpu};
	uint64_t least_ns = until_ns < filler->end_ns ? until_ns : filler->end_ns;
	struct flight_turn *turns = filler->kernel->few_turns;
	size_t count = 0;

	if (least_ns > filler->at_ns)
		count = flight_kernel_turns(filler->kernel, entry->off_cpu, filler->at_ns, least_ns,
					    turns, FLIGHT_TURNS);
	for (size_t i = 0; i < count; i++) {
		struct spell turn = bare;

		put(filler, turns[i].begin_ns < until_ns ? turns[i].begin_ns : until_ns, &bare);
		name_other(&turn, turns[i].tid, turns[i].tgid, turns[i].comm);
		put(filler, turns[i].end_ns < until_ns ? turns[i].end_ns : until_ns, &turn);
	}
	put(filler, until_ns, &bare);
}

static enum spell_state state_of(uint8_t off_state)
{
	switch (off_state) {
	case OFF_CPU_SLEEPING:
		return SPELL_SLEEPING;
	case OFF_CPU_UNINTERRUPTIBLE:
		return SPELL_UNINTERRUPTIBLE;
	case OFF_CPU_STOPPED:
		return SPELL_STOPPED;
	default:
		return SPELL_UNKNOWN;
	}
}

/* Only here the number of the system call is known, which tells a looper's wait from others. */
static uint8_t reason_of(const struct flight_entry *entry)
{
	if (entry->reason != LOOPER_REASON_POLL)
		return entry->reason;
	switch (entry->syscall_nr) {
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return SPELL_REASON_LOOPER;
	}
	return LOOPER_REASON_POLL;
}

/* Off its CPU from where the last one ended to in_ns. */
static void put_spell(struct filler *filler, const struct flight_entry *entry)
{
	struct spell sleep = {
		.state = state_of(entry->state), .reason = reason_of(entry), .cpu = -1};
	uint64_t woken_ns = entry->woken_ns ? entry->woken_ns : entry->in_ns;

	if (entry->flags & FLIGHT_GAP) {
		put_unknown(filler, entry->in_ns);
		return;
	}
	if (entry->state == OFF_CPU_RUNNABLE) {
		put_wait(filler, entry->in_ns, entry);
		return;
	}
	if (entry->waker_tid)
		name_other(&sleep, entry->waker_tid, entry->waker_tgid, entry->waker_comm);
	put(filler, woken_ns, &sleep);
	put_wait(filler, entry->in_ns, entry);
}

/* What it is doing now, up to now. */
static void put_present(struct filler *filler, const struct flight_copy *copy)
{
	const struct flight_thread *thread = &copy->thread;
	struct flight_entry entry = {
		.off_ns = thread->off_ns,
		.woken_ns = thread->woken_ns,
		.in_ns = copy->now_ns,
		.waker_tid = thread->waker_tid,
		.waker_tgid = thread->waker_tgid,
		.syscall_nr = thread->syscall_nr,
		.state = thread->off_state,
		.reason = thread->reason,
		.flags = thread->flags,
		.off_cpu = thread->off_cpu,
	};

	if (thread->state == FLIGHT_ON) {
		/* One that gave its number away while it ran: nobody saw it leave. */
		if (!thread->dead)
			put_run(filler, copy->now_ns, thread->in_cpu);
		return;
	}
	put_run(filler, thread->off_ns,
		copy->count ? copy->entries[copy->count - 1].in_cpu : thread->off_cpu);
	memcpy(entry.waker_comm, thread->waker_comm, sizeof(entry.waker_comm));
	if (!thread->dead)
		put_spell(filler, &entry);
}

int flight_kernel_spells(struct flight_kernel *kernel, uint32_t index, uint64_t begin_ns,
			 uint64_t end_ns, struct spell *spells, size_t size, size_t *count)
{
	struct filler filler = {kernel, spells, 0, size, begin_ns, end_ns, false};
	struct flight_copy copy;
	int err;

	*count = 0;
	if (!kernel->few_turns)
		kernel->few_turns = calloc(FLIGHT_TURNS, sizeof(*kernel->few_turns));
	if (!kernel->few_turns)
		return -ENOMEM;
	err = flight_kernel_read(kernel, index, begin_ns, end_ns, &copy);
	if (err)
		return err;
	if (filler.end_ns > copy.now_ns)
		filler.end_ns = copy.now_ns;
	put_unknown(&filler, copy.from_ns);
	for (size_t i = 0; i < copy.count; i++) {
		const struct flight_entry *entry = &copy.entries[i];

		put_run(&filler, entry->off_ns, i ? entry[-1].in_cpu : entry->off_cpu);
		put_spell(&filler, entry);
	}
	if (copy.live)
		put_present(&filler, &copy);
	*count = filler.count;
	return filler.full ? -E2BIG : 0;
}
