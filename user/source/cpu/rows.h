/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of an interval. A task has one, and a further one from the moment at which its uid or
 * the name of its process changed: so each part of its time can be the target's or not. Rows of a
 * task are linked; when the interval is closed those that are listed become one again. */
#pragma once
#include "jankscope/record.h"

struct ledger_row {
	struct record_task task;
	uint64_t end_boot_ns;    /* where task.exited */
	uint32_t previous, next; /* of the same task: index + 1; 0: none */
	uint32_t turn;           /* which of the task's rows was the last to be begun again */
	bool decided;            /* nothing is added any more, and `listed` is known */
	bool listed;
	bool partial; /* other parts of the task's interval are not listed */
	bool merged;  /* its sums are in a later row */
	const char *process;
};

struct cpu_rows {
	struct ledger_row *rows;
	size_t count, room;
	uint32_t turns;
	/* What was handed out last; if it is small, the rows after the next ones. */
	struct ledger_row *handed;
	size_t handed_room;
};

/* An empty row; its index. -ENOMEM. */
int64_t cpu_rows_add(struct cpu_rows *rows);
/* The row that time of this uid goes to: *index is the task's row so far, and becomes that one's.
 * NULL: no memory. */
struct ledger_row *cpu_rows_for(struct cpu_rows *rows, uint32_t *index, uid_t uid);
/* What the task's rows have so far is listed under that name, or is not. The name is not copied,
 * and must live as long as the interval's record. */
void cpu_rows_decide(struct cpu_rows *rows, uint32_t index, bool listed, const char *process);
/* Once each row is decided: join the listed ones of each task in the last of them. The time of the
 * others. */
uint64_t cpu_rows_merge(struct cpu_rows *rows);
/* The time of a task that is none of the others is what it slept: in an interval that ended at
 * end_boot_ns and lasted dur_ns, without the suspended_ns in which the machine was suspended. */
void cpu_row_derive_sleep(struct ledger_row *row, uint64_t end_boot_ns, uint64_t dur_ns,
			  uint64_t suspended_ns);
/* The interval is closed: the tasks of the rows that are listed, *count of them, in the memory of
 * the rows; the rows are gone. Valid until the next call. The interval is as in
 * cpu_row_derive_sleep. */
struct record_task *cpu_rows_hand_out(struct cpu_rows *rows, uint64_t end_boot_ns, uint64_t dur_ns,
				      uint64_t suspended_ns, size_t *count);
void cpu_rows_free(struct cpu_rows *rows);
