/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/looper_read.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/sched.h"
#include "util/clock.h"
#include "proc/status.h"

#define TORN_TRIES 64
/* A program takes microseconds. One that was preempted in the middle takes as long as its thread
 * waits for a CPU. */
#define AMID_NS      (50 * NSEC_PER_MSEC)
#define PREEMPTED_NS (1000 * NSEC_PER_MSEC)
#define AMID_TRIES   4
/* Between two copies that have to be the same: longer than a store stays in a store buffer. */
#define SETTLE_NS 2000

struct looper_torn {
	uint32_t ended; /* when they were found apart */
	int32_t apart;  /* begun - ended */
	uint32_t tries; /* reads that found them so far apart */
	uint64_t since_ns;
};

static uint32_t entries_of(int fd)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &length) ? 0 : info.max_entries;
}

int looper_view_open(struct looper_view *view, int slots_fd, int stash_fd, bool plain)
{
	void *memory;

	*view = (struct looper_view){.plain = plain, .count = entries_of(slots_fd)};
	if (!view->count || entries_of(stash_fd) != view->count)
		return -EINVAL;
	view->torn = calloc(view->count, sizeof(*view->torn));
	if (!view->torn)
		return -ENOMEM;
	memory = mmap(NULL, view->count * sizeof(*view->slots), PROT_READ | PROT_WRITE, MAP_SHARED,
		      slots_fd, 0);
	if (memory == MAP_FAILED)
		goto error;
	view->slots = memory;
	memory = mmap(NULL, view->count * sizeof(*view->stash), PROT_READ | PROT_WRITE, MAP_SHARED,
		      stash_fd, 0);
	if (memory == MAP_FAILED)
		goto error;
	view->stash = memory;
	return 0;
error:;
	int err = -errno;

	looper_view_close(view);
	return err;
}

void looper_view_close(struct looper_view *view)
{
	if (view->slots)
		munmap(view->slots, view->count * sizeof(*view->slots));
	if (view->stash)
		munmap(view->stash, view->count * sizeof(*view->stash));
	free(view->torn);
	*view = (struct looper_view){0};
}

static void wait_to_settle(void)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + SETTLE_NS;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* They were as far apart for longer than a program can be amid the slot: while others came and
 * went, or while nobody wrote. Whoever adds to ended later than this makes them differ again, and
 * is found again. */
static bool resync(struct looper_view *view, uint32_t index, const struct looper_slot *copy)
{
	struct looper_torn *torn = &view->torn[index];
	struct looper_slot *live = &view->slots[index];
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), limit_ns = AMID_NS;
	uint32_t begun = __atomic_load_n(&live->begun, __ATOMIC_ACQUIRE);
	uint32_t ended = __atomic_load_n(&live->ended, __ATOMIC_ACQUIRE);
	int32_t apart = (int32_t)(begun - ended);

	if (!apart || !torn->tries || torn->apart != apart) {
		*torn = (struct looper_torn){ended, apart, apart != 0, now_ns};
		return false;
	}
	torn->tries++;
	/* A uprobe's program that was preempted takes as long as its thread waits for a CPU. */
	if (copy->detector == LOOPER_BY_UPROBE && apart > 0 && torn->ended == ended)
		limit_ns = PREEMPTED_NS;
	if (torn->tries < AMID_TRIES || now_ns - torn->since_ns < limit_ns)
		return false;
	if (apart > 0)
		__atomic_fetch_add(&live->ended, (uint32_t)apart, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_add(&live->begun, (uint32_t)-apart, __ATOMIC_SEQ_CST);
	torn->tries = 0;
	view->resynced++;
	return true;
}

bool looper_read_slot(struct looper_view *view, uint32_t index, struct looper_slot *to)
{
	const struct looper_slot *from = &view->slots[index];

	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t ended = __atomic_load_n(&from->ended, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->begun, __ATOMIC_ACQUIRE) != ended || to->ended != ended)
			continue;
		if (view->plain) {
			struct looper_slot again;

			wait_to_settle();
			memcpy(&again, from, sizeof(again));
			if (memcmp(&again, to, sizeof(again)))
				continue;
		}
		view->torn[index].tries = 0;
		return true;
	}
	return resync(view, index, to);
}

/* It ran without a switch that was shown: the kernel counts more arrivals than the slot. */
static bool ran_unseen(const struct looper_view *view, uint32_t index, struct proc_kept *schedstat)
{
	struct proc_schedstat now;

	return proc_schedstat_kept(schedstat, &now) ||
	       now.arrivals != __atomic_load_n(&view->slots[index].out_arrivals, __ATOMIC_ACQUIRE);
}

int looper_read_stash(const struct looper_view *view, uint32_t index, pid_t tid,
		      struct proc_kept *schedstat, struct looper_registers *to)
{
	const struct looper_registers *from = &view->stash[index];
	uint64_t sequence = __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE);

	if (!sequence)
		return -ENOENT;
	if (sequence & 1)
		return -EAGAIN;
	if (view->plain)
		wait_to_settle();
	memcpy(to, from, sizeof(*to));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != sequence ||
	    (schedstat && ran_unseen(view, index, schedstat)) ||
	    __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != sequence)
		return -EAGAIN;
	to->sequence = sequence;
	return (pid_t)to->tid == tid ? 0 : -ENOENT;
}

uint64_t looper_stash_sequence(const struct looper_view *view, uint32_t index,
			       struct proc_kept *schedstat)
{
	uint64_t sequence;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (view->plain)
		wait_to_settle();
	/* Arrivals first: a thread that comes behind them is seen by its sequence. */
	if (ran_unseen(view, index, schedstat))
		return __atomic_load_n(&view->stash[index].sequence, __ATOMIC_ACQUIRE) | 1;
	sequence = __atomic_load_n(&view->stash[index].sequence, __ATOMIC_ACQUIRE);
	return sequence;
}
