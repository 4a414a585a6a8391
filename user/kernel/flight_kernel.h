/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's kernel side: which threads have their last seconds kept (bpf/flight.bpf.h),
 * and whole copies of what is kept. It knows nothing of frames. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "abi/flight.h"

struct flight_kernel;
struct looper_kernel;
struct sched_kernel;
struct spell;

/* sched was opened with `flight`; loopers has hooked, or will hook, the wake-ups. Both are borrowed
 * and outlive this. NULL with errno; ENOTSUP: sched was opened without. */
struct flight_kernel *flight_kernel_open(struct sched_kernel *sched, struct looper_kernel *loopers);
void flight_kernel_close(struct flight_kernel *kernel);
/* For another process that only reads: flight_kernel_read(), _peek(), _sleeps() and
 * flight_kernel_close() are all that may be called. The descriptors stay the caller's. NULL with
 * errno. */
struct flight_kernel *flight_kernel_view(int threads_fd, int entries_fd, bool plain);
struct flight_fds {
	int threads, entries; /* the kernel's */
	bool plain;
};
/* What flight_kernel_view() wants. 0 or -ENOTSUP. */
int flight_kernel_fds(const struct flight_kernel *kernel, struct flight_fds *fds);
/* What the thread does now, without what it did before. False: it is being switched. Where the
 * programs' atomics do not order (plain), that may be missed: for hints only. */
bool flight_kernel_peek(const struct flight_kernel *kernel, uint32_t index,
			struct flight_thread *to);
/* The thread is off its CPU since off_ns, and nobody has woken it. */
bool flight_kernel_sleeps(const struct flight_kernel *kernel, uint32_t index, uint64_t off_ns);
/* What all of it takes, in memory that is there from the start. */
uint64_t flight_kernel_bytes(const struct flight_kernel *kernel);

/* Keep the spells of a thread from its next switch on, in blocks x FLIGHT_BLOCK_ENTRIES entries;
 * where so many are not free, in half as many, and so on. blocks: a power of two, at most
 * FLIGHT_MOST_BLOCKS. Returns the thread's index; -E2BIG: there is no room; another -errno. To be
 * marked again now and then, as loopers are. */
int flight_kernel_watch(struct flight_kernel *kernel, pid_t tid, pid_t tgid, uint32_t blocks);
void flight_kernel_mark(struct flight_kernel *kernel, uint32_t index);
/* Blocks that no thread has. */
uint32_t flight_kernel_free_blocks(const struct flight_kernel *kernel);
/* Let it go; its room is not given to another thread before flight_kernel_tidy() was called, when
 * all programs of this moment have ended: a millisecond later. */
void flight_kernel_unwatch(struct flight_kernel *kernel, uint32_t index);
void flight_kernel_tidy(struct flight_kernel *kernel);
/* No thread has that number any more, and no switch told of its end. */
void flight_kernel_end(struct flight_kernel *kernel, uint32_t index);
/* The thread has left its CPU for good: nothing more will come. */
bool flight_kernel_is_dead(const struct flight_kernel *kernel, uint32_t index);
/* Gaps of all threads so far. */
uint64_t flight_kernel_missed(const struct flight_kernel *kernel);
/* Runs of all threads so far whose begin was not shown, and is from the kernel's sums. */
uint64_t flight_kernel_placed(const struct flight_kernel *kernel);
/* Entries that were written over before anybody asked for them do not count here: only those that
 * were while they were read. */
uint64_t flight_kernel_overrun(const struct flight_kernel *kernel);
/* Waits that were asked for when turns of their CPU that may lie in them were written over: who ran
 * then is not told, or not of all of the wait. */
uint64_t flight_kernel_turns_gone(const struct flight_kernel *kernel);

/* What a thread did around [begin_ns, end_ns), copied whole. Entries are in order; between in_ns of
 * one and off_ns of the next the thread ran. Before from_ns nothing is known. Behind the last entry
 * stands what `thread` says, which was so at now_ns, if `live`. */
struct flight_copy {
	struct flight_thread thread;
	uint64_t from_ns, now_ns;
	const struct flight_entry *entries; /* the kernel's, until the next read */
	size_t count;
	bool live;
};
/* 0; -EAGAIN: it was being written each time; -ENOMEM. */
int flight_kernel_read(struct flight_kernel *kernel, uint32_t index, uint64_t begin_ns,
		       uint64_t end_ns, struct flight_copy *copy);
/* From when on the ring of the thread has all that it did; 0: it has nothing. */
uint64_t flight_kernel_from_ns(struct flight_kernel *kernel, uint32_t index);

/* Who ran on a CPU in [begin_ns, end_ns) while watched threads waited there: at most `size` turns,
 * in order. Turns that were written over, or found no room here, are not told. */
size_t flight_kernel_turns(struct flight_kernel *kernel, unsigned cpu, uint64_t begin_ns,
			   uint64_t end_ns, struct flight_turn *turns, size_t size);

/* What a thread did in [begin_ns, end_ns), CLOCK_MONOTONIC, as spells (jankscope/spell.h) that lie
 * one behind the other and fill the window, but for what lies in the future, and behind the
 * thread's death. What the ring no longer has, what was before the watch and what lies in a gap is
 * SPELL_UNKNOWN. *count: how many. 0; -E2BIG: there are more than `size`, and those that found room
 * are the first; what flight_kernel_read() says. */
int flight_kernel_spells(struct flight_kernel *kernel, uint32_t index, uint64_t begin_ns,
			 uint64_t end_ns, struct spell *spells, size_t size, size_t *count);
