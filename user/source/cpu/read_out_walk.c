/* SPDX-License-Identifier: BSD-2-Clause */
/* --cpu iter: a walk over all tasks, and what the ring told meanwhile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/cpu/read_out_private.h"
#include "util/clock.h"

/* RCU frees the dead late: under load by seconds, never by a minute. */
#define UNTOLD_AFTER_NS (60 * NSEC_PER_SEC)

struct task_reading cpu_reading_of_line(const struct task_line *line)
{
	return (struct task_reading){
		.tid = (pid_t)line->tid,
		.tgid = (pid_t)line->tgid,
		.uid = line->uid,
		.start_boot_ns = line->start_boot_ns,
		.process_start_boot_ns = line->process_start_boot_ns,
		.sums = line->sums,
		.has_runnable = true,
		.has_switches = true,
		.comm = line->comm,
	};
}

static int keep_line(void *ctx, const struct task_line *line)
{
	struct cpu_reader *reader = ctx;
	struct walk *walk = &reader->walk;

	walk->alive++;
	if (line->in_execve)
		return 0;
	/* A row for every sleeping task of the machine would be noise. */
	if (cpu_ledger_unchanged(reader->ledger, (pid_t)line->tid, line->start_boot_ns,
				 &line->sums))
		return 0;
	if (walk->line_count == walk->line_room) {
		size_t room = walk->line_room ? walk->line_room * 2 : 64;
		struct task_line *lines = realloc(walk->lines, room * sizeof(*lines));

		if (!lines)
			return -ENOMEM;
		walk->lines = lines;
		walk->line_room = room;
	}
	walk->lines[walk->line_count++] = *line;
	return 0;
}

static int keep_death(void *ctx, const struct task_death *death)
{
	struct cpu_reader *reader = ctx;
	struct walk *walk = &reader->walk;

	if (walk->death_count == walk->death_room) {
		size_t room = walk->death_room ? walk->death_room * 2 : 64;
		struct task_program *deaths = realloc(walk->deaths, room * sizeof(*deaths));

		if (!deaths)
			return -ENOMEM;
		walk->deaths = deaths;
		walk->death_room = room;
	}
	memcpy(&walk->deaths[walk->death_count++], death,
	       death->kind == TASK_NOTE_PROGRAM ? sizeof(struct task_program) : sizeof(*death));
	walk->execs += death->exec_tid != 0;
	return 0;
}

static void drop_lines_of(struct walk *walk, uint32_t tgid)
{
	size_t left = 0;

	for (size_t i = 0; i < walk->line_count; i++)
		if (walk->lines[i].tgid != tgid)
			walk->lines[left++] = walk->lines[i];
	walk->line_count = left;
}

/* A thread whose execve ended before the walk met it has a tid that the ledger knows as its
 * leader's until it is told (follow_exec): what the walk saw of such processes is left to the next
 * one. The word may be held up by a record before it that is being written on another CPU; where it
 * does not come the whole walk is left. */
static int settle_execs(struct cpu_reader *reader)
{
	uint64_t ended = sched_kernel_execs(reader->kernel);
	struct walk *walk = &reader->walk;
	int err;

	for (int tries = 0; reader->execs_told + walk->execs < ended; tries++) {
		if (tries == EXEC_TRIES) {
			reader->counts.walks_skipped++;
			walk->line_count = 0;
			return 0;
		}
		if (tries)
			usleep(EXEC_WAIT_US);
		err = sched_kernel_deaths(reader->kernel, keep_death, reader);
		if (err)
			return err;
	}
	for (size_t i = 0; i < walk->death_count; i++)
		if (walk->deaths[i].task.exec_tid)
			drop_lines_of(walk, walk->deaths[i].task.tid);
	return 0;
}

static bool has_moved(const struct walk *walk, uint32_t tgid)
{
	for (size_t i = 0; walk->execs && i < walk->death_count; i++)
		if (walk->deaths[i].task.exec_tid && walk->deaths[i].task.tid == tgid)
			return true;
	return false;
}

static bool splits_time(uint32_t kind)
{
	return kind == TASK_NOTE_UID || kind == TASK_NOTE_EXIT || kind == TASK_NOTE_BORN ||
	       kind == TASK_NOTE_NAMED || kind == TASK_NOTE_PROGRAM;
}

/* The line of a task that changed its uid or its name before the walk met it has the new one: what
 * it ran before is told by its note, which is booked first. The lines of a process that an execve
 * moved are dropped, and its notes keep their order. */
static int book_changes(struct cpu_reader *reader)
{
	struct walk *walk = &reader->walk;
	size_t left = 0;
	int err = 0;

	for (size_t i = 0; i < walk->death_count; i++) {
		const struct task_death *note = &walk->deaths[i].task;

		if (!err && splits_time(note->kind) && !has_moved(walk, note->tgid))
			err = cpu_reader_book_note(reader, note);
		else
			walk->deaths[left++] = walk->deaths[i];
	}
	walk->death_count = left;
	return err;
}

/* Each task that was born and is not alive has died. Not all deaths are told yet, because RCU frees
 * the tasks later; the CPU time of most dead tasks is (TASK_NOTE_EXIT). A death that is still
 * untold after UNTOLD_AFTER_NS was never shown by the kernel. */
static int count_deaths(struct cpu_reader *reader)
{
	uint64_t losses[SCHED_LOSS_MAX] = {0}, unused, now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct death_count *next = &reader->looks[reader->look_count % UNTOLD_WINDOW];
	const struct death_count *last =
		&reader->looks[(reader->look_count + UNTOLD_WINDOW - 1) % UNTOLD_WINDOW];
	int64_t died, told, untold;
	/* Births after the walk: a task that was born during it may count as in flight, none is
	 * forgotten. */
	int err = sched_kernel_losses(reader->kernel, losses, &unused, &unused);

	died = reader->alive_at_begin + (int64_t)losses[SCHED_COUNT_BIRTHS] -
	       (int64_t)reader->walk.alive;
	told = (int64_t)reader->deaths_told + (int64_t)losses[SCHED_LOSS_DEATH_RING_FULL];
	reader->counts.deaths_in_flight = died - told;
	if (reader->look_count && now_ns - last->at_ns < UNTOLD_AFTER_NS / UNTOLD_WINDOW)
		return err;
	/* `next` is the oldest look, of UNTOLD_AFTER_NS ago or more. */
	untold = next->died - told;
	if (reader->look_count >= UNTOLD_WINDOW && untold > (int64_t)reader->counts.deaths_untold)
		reader->counts.deaths_untold = (uint64_t)untold;
	*next = (struct death_count){now_ns, died};
	reader->look_count++;
	return err;
}

/* Nothing is booked before the walk is over: only then it is known which of it may be. */
int cpu_reader_walk(struct cpu_reader *reader)
{
	struct walk *walk = &reader->walk;
	int err = sched_kernel_iterate(reader->kernel, keep_line, reader);

	if (!err)
		err = count_deaths(reader);
	if (!err)
		err = sched_kernel_deaths(reader->kernel, keep_death, reader);
	if (!err)
		err = settle_execs(reader);
	if (!err)
		err = book_changes(reader);
	for (size_t i = 0; i < walk->line_count && !err; i++) {
		struct task_reading reading = cpu_reading_of_line(&walk->lines[i]);

		err = cpu_ledger_update(reader->ledger, &reading);
	}
	for (size_t i = 0; i < walk->death_count && !err; i++)
		err = cpu_reader_book_note(reader, &walk->deaths[i].task);
	free(walk->lines);
	free(walk->deaths);
	*walk = (struct walk){0};
	return err;
}
