/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/cpu/proc.h"
#include "source/cpu/read_out_private.h"
#include "util/clock.h"

/* Births are counted from a moment that is still to come, and the first walk begins as long after
 * it: by then copy_process() has shown each older task to the walk. */
#define BEGIN_AHEAD_NS NSEC_PER_MSEC

static int book_reading(void *ctx, const struct task_reading *reading)
{
	return cpu_ledger_update(ctx, reading);
}

static int seed_reading(void *ctx, const struct task_reading *reading)
{
	return cpu_ledger_seed(ctx, reading);
}

static int seed_line(void *ctx, const struct task_line *line)
{
	struct cpu_reader *reader = ctx;
	struct task_reading reading = cpu_reading_of_line(line);

	/* One that was born since is counted at its birth, whether the walk met it or not. */
	reader->alive_at_begin += line->start_boot_ns < reader->begin_boot_ns;
	return cpu_ledger_seed(reader->ledger, &reading);
}

static int seed(struct cpu_reader *reader)
{
	uint64_t losses[SCHED_LOSS_MAX], unused;
	int err;

	reader->begin_boot_ns = clock_now_ns(CLOCK_BOOTTIME) + BEGIN_AHEAD_NS;
	sched_kernel_count_births(reader->kernel, reader->begin_boot_ns);
	if (reader->iterating)
		usleep(2 * BEGIN_AHEAD_NS / 1000);
	err = sched_kernel_iterate(reader->kernel, seed_line, reader);
	if (!err)
		err = sched_kernel_losses(reader->kernel, losses, &unused, &unused);
	if (!err)
		reader->alive_at_begin += (int64_t)losses[SCHED_LOSS_DEATH_RING_FULL];
	return err;
}

static int book_name(struct cpu_reader *reader, const struct task_death *death)
{
	char comm[SCHED_COMM_LEN + 1];

	memcpy(comm, death->comm, SCHED_COMM_LEN);
	comm[SCHED_COMM_LEN] = 0;
	return reader->events.renamed(reader->events.ctx, (pid_t)death->tid, death->start_boot_ns,
				      comm);
}

int cpu_reader_book_note(void *ctx, const struct task_death *death)
{
	struct cpu_reader *reader = ctx;
	struct task_reading reading = {
		.tid = (pid_t)death->tid,
		.tgid = (pid_t)death->tgid,
		.uid = death->uid,
		.start_boot_ns = death->start_boot_ns,
		.process_start_boot_ns = death->process_start_boot_ns,
		.sums = death->sums,
		.has_runnable = true,
		.has_switches = true,
		.comm = death->comm,
		.exited = death->kind == TASK_NOTE_DEATH,
		.ending = death->kind == TASK_NOTE_EXIT,
		.end_boot_ns = death->end_boot_ns,
	};
	int err;

	switch (death->kind) {
	case TASK_NOTE_EXEC_LEADER:
		reader->execs_told++;
		err = reader->iterating ? 0 : moved_tasks_add(&reader->moved, death);
		return err
			       ?: cpu_ledger_exec(reader->ledger, (pid_t)death->exec_tid,
						  (pid_t)death->tid, death->start_boot_ns);
	case TASK_NOTE_EXEC:
		return book_name(reader, death);
	case TASK_NOTE_CPU_OFFLINE:
	case TASK_NOTE_CPU_ONLINE:
		return reader->events.cpu_changed(reader->events.ctx, death->tid,
						  death->kind == TASK_NOTE_CPU_ONLINE,
						  death->end_boot_ns);
	case TASK_NOTE_BORN:
	case TASK_NOTE_NAMED:
	case TASK_NOTE_PROGRAM:
		return reader->events.told(reader->events.ctx, death, &reading);
	case TASK_NOTE_UID:
	case TASK_NOTE_EXIT:
		return cpu_ledger_update(reader->ledger, &reading);
	default:
		break;
	}
	/* A task that was dead before the attach is in neither alive_at_begin nor births: its late
	 * free must not count as a death told. */
	if (death->start_boot_ns >= reader->begin_boot_ns ||
	    cpu_ledger_knows(reader->ledger, &reading))
		reader->deaths_told++;
	if (!reader->iterating) {
		reading.uninterruptible_ns = SOME_U64(death->uninterruptible_ns);
		reading.stopped_ns = SOME_U64(death->stopped_ns);
	}
	if (death->tid == death->tgid)
		reader->events.told(reader->events.ctx, death, &reading);
	return cpu_ledger_update(reader->ledger, &reading);
}

static bool slot_unchanged(void *ctx, pid_t tid, const struct task_slot *slot)
{
	struct cpu_reader *reader = ctx;

	return slot->off_state != OFF_CPU_UNINTERRUPTIBLE &&
	       cpu_ledger_unchanged(reader->ledger, tid, slot->start_boot_ns, &slot->sums);
}

/* Hear of each execve so far that gave a thread its leader's place: the slots that were read may
 * have the thread under the leader's name, and the ledger must have it there too. The word may be
 * held up by a record before it that is being written on another CPU. */
static int hear_execs(struct cpu_reader *reader)
{
	int err = 0;

	for (int tries = 0; !err && reader->execs_told < sched_kernel_execs(reader->kernel);
	     tries++) {
		if (tries == EXEC_TRIES) {
			reader->execs_untold = true;
			reader->counts.walks_skipped++;
			break;
		}
		if (tries)
			usleep(EXEC_WAIT_US);
		err = cpu_reader_deaths(reader);
	}
	return err;
}

static int book_slot(void *ctx, pid_t tid, const struct task_slot *slot)
{
	struct cpu_reader *reader = ctx;
	int err = reader->execs_untold ? 0 : hear_execs(reader);
	struct task_reading reading = {
		.tid = tid,
		.tgid = (pid_t)slot->tgid,
		.uid = slot->uid,
		.start_boot_ns = slot->start_boot_ns,
		.process_start_boot_ns = slot->process_start_boot_ns,
		.sums = slot->sums,
		.has_runnable = true,
		.has_switches = true,
		.uninterruptible_ns = SOME_U64(slot->uninterruptible_ns),
		.stopped_ns = SOME_U64(slot->stopped_ns),
		.comm = slot->comm,
	};

	if (err)
		return err;
	/* A dead slot is booked here only if the ring had no room to tell of the death. */
	if (slot->flags & TASK_SLOT_DEAD) {
		if (!(slot->flags & TASK_SLOT_UNREPORTED))
			return 0;
		reading.exited = true;
		reading.end_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	} else if (slot->off_state == OFF_CPU_UNINTERRUPTIBLE) {
		reading.uninterruptible_ns.value += sched_kernel_open_off_ns(reader->kernel, slot);
	} else if (slot->off_state == OFF_CPU_STOPPED) {
		reading.stopped_ns.value += sched_kernel_open_off_ns(reader->kernel, slot);
	}
	/* Who died did so under the name that the slot has. */
	if (!reading.exited &&
	    (reader->execs_untold ||
	     !moved_tasks_rename(&reader->moved, reader->read_boot_ns, &reading)))
		return 0;
	return cpu_ledger_update(reader->ledger, &reading);
}

static int book_running(struct cpu_reader *reader)
{
	int err = 0;

	for (unsigned i = 0; i < sched_kernel_cpu_count(reader->kernel) && !err; i++) {
		const struct running_task *running = sched_kernel_running(reader->kernel, i);
		struct task_reading reading;

		if (!running || !running->tid)
			continue;
		reading = (struct task_reading){
			.tid = (pid_t)running->tid,
			.tgid = (pid_t)running->tgid,
			.uid = running->uid,
			.start_boot_ns = running->start_boot_ns,
			.process_start_boot_ns = running->process_start_boot_ns,
			.sums = running->sums,
			.has_runnable = true,
			.has_switches = true,
			.comm = running->comm,
		};
		/* Its finished slices go to the overflow row; the present one follows them. */
		if (!sched_kernel_has_slot(reader->kernel, (pid_t)running->tid) ||
		    !moved_tasks_rename(&reader->moved, reader->read_boot_ns, &reading))
			continue;
		err = cpu_ledger_update(reader->ledger, &reading);
	}
	return err;
}

static int book_overflow_row(void *ctx, uid_t uid, uint64_t cpu_ns)
{
	struct cpu_reader *reader = ctx;
	struct overflow_seen *seen;
	uint64_t before;

	HASH_FIND(hh, reader->overflow, &uid, sizeof(uid), seen);
	if (!seen) {
		seen = calloc(1, sizeof(*seen));
		if (!seen)
			return -ENOMEM;
		seen->uid = uid;
		HASH_ADD(hh, reader->overflow, uid, sizeof(uid), seen);
	}
	before = seen->cpu_ns;
	seen->cpu_ns = cpu_ns;
	return cpu_ns > before ? cpu_ledger_overflow(reader->ledger, uid, cpu_ns - before) : 0;
}

int cpu_reader_read_out(struct cpu_reader *reader, uint64_t *mono_ns)
{
	int err;

	if (!reader->kernel) {
		*mono_ns = clock_now_ns(CLOCK_MONOTONIC);
		return cpu_proc_walk(book_reading, reader->ledger, &reader->counts.unreadable);
	}
	reader->moved.count = 0;
	reader->execs_untold = false;
	reader->read_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	err = sched_kernel_begin_read(reader->kernel, mono_ns);
	/* Deaths first: a slot may already have a new owner. */
	if (!err)
		err = cpu_reader_deaths(reader);
	if (!err && reader->iterating)
		err = cpu_reader_walk(reader);
	if (!err)
		err = sched_kernel_slots(reader->kernel, slot_unchanged, book_slot, reader);
	if (!err && !reader->iterating)
		err = book_running(reader);
	if (!err)
		err = sched_kernel_overflow(reader->kernel, book_overflow_row, reader);
	return err;
}

int cpu_reader_baseline(struct cpu_reader *reader, uint64_t *mono_ns)
{
	/* First of all how far the scheduler's clock is from ours (a boot's start, and all that NTP
	 * has slewed since): what runs now is seeded by it. */
	int err = reader->kernel ? sched_kernel_begin_read(reader->kernel, mono_ns) : 0;

	if (!err && reader->kernel && sched_kernel_has_iterator(reader->kernel))
		err = seed(reader);
	else if (!err)
		err = cpu_proc_walk(seed_reading, reader->ledger, &reader->counts.unreadable);
	if (!err)
		err = cpu_reader_read_out(reader, mono_ns);
	reader->look_count = 0;
	return err;
}

int cpu_reader_deaths(struct cpu_reader *reader)
{
	return sched_kernel_deaths(reader->kernel, cpu_reader_book_note, reader);
}

const struct cpu_reader_counts *cpu_reader_counts(const struct cpu_reader *reader)
{
	return &reader->counts;
}

struct cpu_reader *cpu_reader_new(struct sched_kernel *kernel, bool iterating,
				  struct cpu_ledger *ledger, const struct cpu_reader_events *events)
{
	struct cpu_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->kernel = kernel;
	reader->iterating = iterating;
	reader->ledger = ledger;
	reader->events = *events;
	return reader;
}

void cpu_reader_free(struct cpu_reader *reader)
{
	struct overflow_seen *seen, *next;

	if (!reader)
		return;
	HASH_ITER (hh, reader->overflow, seen, next) {
		HASH_DEL(reader->overflow, seen);
		free(seen);
	}
	moved_tasks_free(&reader->moved);
	free(reader);
}
