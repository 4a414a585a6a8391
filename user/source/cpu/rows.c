/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256
#define KEEP_ROOM  1024 /* two of these stay */

int64_t cpu_rows_add(struct cpu_rows *rows)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : FIRST_ROOM;
		struct ledger_row *more = realloc(rows->rows, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		rows->rows = more;
		rows->room = room;
	}
	rows->rows[rows->count] = (struct ledger_row){0};
	return (int64_t)rows->count++;
}

static struct ledger_row *row_behind(const struct cpu_rows *rows, uint32_t link)
{
	return link ? &rows->rows[link - 1] : NULL;
}

static struct ledger_row *first_of_task(const struct cpu_rows *rows, struct ledger_row *row)
{
	while (row->previous)
		row = row_behind(rows, row->previous);
	return row;
}

static bool takes(const struct ledger_row *row, uid_t uid)
{
	return !row->decided && (!row->task.tid || row->task.uid == uid);
}

struct ledger_row *cpu_rows_for(struct cpu_rows *rows, uint32_t *index, uid_t uid)
{
	struct ledger_row *row = &rows->rows[*index], *last = row;
	int64_t added;

	if (takes(row, uid))
		return row;
	/* A task that goes to and fro between two uids has two rows, not one a change. */
	for (row = first_of_task(rows, row); row; row = row_behind(rows, row->next)) {
		last = row;
		if (takes(row, uid)) {
			*index = (uint32_t)(row - rows->rows);
			row->turn = ++rows->turns;
			return row;
		}
	}
	*index = (uint32_t)(last - rows->rows);
	added = cpu_rows_add(rows);
	if (added < 0)
		return NULL;
	rows->rows[added].previous = *index + 1;
	rows->rows[*index].next = (uint32_t)added + 1;
	*index = (uint32_t)added;
	rows->rows[added].turn = ++rows->turns;
	return &rows->rows[added];
}

static void add_optional(struct opt_u64 *to, struct opt_u64 from)
{
	to->present |= from.present;
	to->value += from.value;
}

static void add_sums(struct record_task *to, const struct record_task *from)
{
	to->cpu_ns += from->cpu_ns;
	add_optional(&to->runnable_ns, from->runnable_ns);
	add_optional(&to->uninterruptible_ns, from->uninterruptible_ns);
	add_optional(&to->stopped_ns, from->stopped_ns);
	add_optional(&to->switches_voluntary, from->switches_voluntary);
	add_optional(&to->switches_involuntary, from->switches_involuntary);
}

static bool same_decision(const struct ledger_row *a, const struct ledger_row *b)
{
	if (a->listed != b->listed || a->task.uid != b->task.uid)
		return false;
	return !a->listed || a->process == b->process ||
	       (a->process && b->process && !strcmp(a->process, b->process));
}

/* A process that calls execve all the time has a row a name, not one a call: a row that says the
 * same as an earlier one of the task is added to that, and is empty and open again. */
static void fold(struct cpu_rows *rows, struct ledger_row *row)
{
	struct ledger_row *earlier = first_of_task(rows, row);
	uint32_t previous = row->previous, next = row->next;

	for (; earlier; earlier = row_behind(rows, earlier->next)) {
		if (earlier == row || !earlier->decided || !same_decision(earlier, row))
			continue;
		add_sums(&earlier->task, &row->task);
		*row = (struct ledger_row){.previous = previous, .next = next};
		return;
	}
}

void cpu_rows_decide(struct cpu_rows *rows, uint32_t index, bool listed, const char *process)
{
	struct ledger_row *row = first_of_task(rows, &rows->rows[index]);

	for (; row; row = row_behind(rows, row->next)) {
		if (row->decided || !row->task.tid)
			continue;
		row->decided = true;
		row->listed = listed;
		row->process = process;
		fold(rows, row);
	}
}

static void mark_partial(const struct cpu_rows *rows, struct ledger_row *row)
{
	for (row = first_of_task(rows, row); row; row = row_behind(rows, row->next))
		row->partial = true;
}

/* What a task is at its end is what its row has that was written last. */
static void take_end(struct ledger_row *to, const struct ledger_row *from)
{
	if (from->turn < to->turn)
		return;
	to->turn = from->turn;
	to->task.uid = from->task.uid;
	to->task.exited = from->task.exited;
	to->end_boot_ns = from->end_boot_ns;
	memcpy(to->task.thread, from->task.thread, sizeof(to->task.thread));
}

uint64_t cpu_rows_merge(struct cpu_rows *rows)
{
	uint64_t other_ns = 0;

	for (size_t i = 0; i < rows->count; i++) {
		struct ledger_row *row = &rows->rows[i], *later;

		if (!row->listed) {
			other_ns += row->task.cpu_ns;
			if (row->task.tid && (row->previous || row->next))
				mark_partial(rows, row);
			continue;
		}
		later = row_behind(rows, row->next);
		while (later && (!later->listed || !later->task.tid))
			later = row_behind(rows, later->next);
		if (!later)
			continue;
		add_sums(&later->task, &row->task);
		take_end(later, row);
		row->merged = true;
	}
	return other_ns;
}

void cpu_row_derive_sleep(struct ledger_row *row, uint64_t end_boot_ns, uint64_t dur_ns,
			  uint64_t suspended_ns)
{
	struct record_task *task = &row->task;
	uint64_t before_ns = dur_ns + suspended_ns;
	uint64_t begin_ns = end_boot_ns > before_ns ? end_boot_ns - before_ns : 0;
	uint64_t end_ns = task->exited ? row->end_boot_ns : end_boot_ns;
	bool is_part = task->exited || task->start_boot_ns > begin_ns;
	uint64_t awake_ns, life_ns = dur_ns;

	if (!task->runnable_ns.present || !task->uninterruptible_ns.present)
		return;
	/* How much of the suspended time lay in its life is not known. */
	if (is_part && suspended_ns)
		return;
	if (task->start_boot_ns > begin_ns)
		begin_ns = task->start_boot_ns;
	if (is_part)
		life_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
	awake_ns = task->cpu_ns + task->runnable_ns.value + task->uninterruptible_ns.value +
		   task->stopped_ns.value;
	task->sleeping_ns = SOME_U64(life_ns > awake_ns ? life_ns - awake_ns : 0);
}

struct record_task *cpu_rows_hand_out(struct cpu_rows *rows, uint64_t end_boot_ns, uint64_t dur_ns,
				      uint64_t suspended_ns, size_t *count)
{
	struct ledger_row *next = rows->handed;
	size_t next_room = rows->handed_room;
	/* A task takes less than its row, so it overwrites no row behind its own. */
	struct record_task *tasks = (struct record_task *)(void *)rows->rows;

	*count = 0;
	for (size_t i = 0; i < rows->count; i++) {
		struct ledger_row row = rows->rows[i];

		if (!row.listed || row.merged)
			continue;
		/* The uid or the name changed: how long the task slept under which is not known. */
		if (!row.partial)
			cpu_row_derive_sleep(&row, end_boot_ns, dur_ns, suspended_ns);
		row.task.process = row.process;
		memcpy(&tasks[(*count)++], &row.task, sizeof(row.task));
	}
	rows->handed = rows->rows;
	rows->handed_room = rows->room;
	/* An interval of many tasks leaves no memory behind. */
	if (next_room > KEEP_ROOM) {
		free(next);
		next = NULL;
		next_room = 0;
	}
	*rows = (struct cpu_rows){.rows = next,
				  .room = next_room,
				  .handed = rows->handed,
				  .handed_room = rows->handed_room};
	return tasks;
}

void cpu_rows_free(struct cpu_rows *rows)
{
	free(rows->rows);
	free(rows->handed);
	*rows = (struct cpu_rows){0};
}
