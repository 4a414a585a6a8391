/* SPDX-License-Identifier: BSD-2-Clause */
/* What a reading of a task adds to the present interval: which task it is, what of its sums is new,
 * and in which row that goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source/cpu/ledger_private.h"

#define TICK_NS 10000000ull
/* Rows of an interval from which on tasks that ended in it are folded: some 1 KB of memory each, in
 * the ledger and as text. 16,000 threads a second would take 16 MiB. */
#define FOLD_ROWS 2048

struct cpu_ledger *cpu_ledger_new(uint64_t attach_boot_ns)
{
	struct cpu_ledger *ledger = calloc(1, sizeof(*ledger));

	if (ledger) {
		ledger->attach_boot_ns = attach_boot_ns;
		ledger->end_ns = attach_boot_ns;
		ledger->interval = 1;
		ledger->fold_rows = FOLD_ROWS;
	}
	return ledger;
}

void cpu_ledger_set_fold_rows(struct cpu_ledger *ledger, size_t rows)
{
	ledger->fold_rows = rows;
}

void cpu_ledger_free(struct cpu_ledger *ledger)
{
	if (!ledger)
		return;
	cpu_folded_clear(&ledger->folded);
	cpu_sums_free(&ledger->sums);
	known_tasks_free(&ledger->known);
	cpu_rows_free(&ledger->rows);
	free(ledger);
}

static bool started_at(const struct known_task *known, uint64_t start_boot_ns, bool coarse)
{
	if (known->start_boot_ns == start_boot_ns)
		return true;
	if (!known->coarse && !coarse)
		return false;
	return known->start_boot_ns / TICK_NS == start_boot_ns / TICK_NS;
}

static bool same_task(const struct known_task *known, const struct task_reading *reading)
{
	return started_at(known, reading->start_boot_ns, reading->start_is_coarse);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void take_sums(struct known_task *known, const struct task_reading *reading)
{
	const struct task_sums *now = &reading->sums, *before = &known->sums;

	known->sums = (struct task_sums){
		.cpu_ns = higher(before->cpu_ns, now->cpu_ns),
		.runnable_ns = higher(before->runnable_ns, now->runnable_ns),
		.switches_voluntary = higher(before->switches_voluntary, now->switches_voluntary),
		.switches_involuntary =
			higher(before->switches_involuntary, now->switches_involuntary),
	};
	known->uninterruptible_ns =
		higher(known->uninterruptible_ns, reading->uninterruptible_ns.value);
	known->stopped_ns = higher(known->stopped_ns, reading->stopped_ns.value);
}

static void start_over(struct known_task *known, const struct task_reading *reading)
{
	*known = (struct known_task){
		.start_boot_ns = reading->start_boot_ns,
		.coarse = reading->start_is_coarse,
	};
}

int cpu_ledger_seed(struct cpu_ledger *ledger, const struct task_reading *reading)
{
	struct known_task *known = known_tasks_make(&ledger->known, reading->tid);

	if (!known)
		return -ENOMEM;
	if (known->start_boot_ns && same_task(known, reading))
		return 0;
	start_over(known, reading);
	known->process_start_boot_ns = reading->process_start_boot_ns;
	take_sums(known, reading);
	return 0;
}

bool cpu_ledger_unchanged(const struct cpu_ledger *ledger, pid_t tid, uint64_t start_boot_ns,
			  const struct task_sums *sums)
{
	const struct known_task *known = known_tasks_find(&ledger->known, tid);

	return known && known->start_boot_ns == start_boot_ns &&
	       known->sums.cpu_ns >= sums->cpu_ns && known->sums.runnable_ns >= sums->runnable_ns &&
	       known->sums.switches_voluntary + known->sums.switches_involuntary >=
		       sums->switches_voluntary + sums->switches_involuntary;
}

/* Where the reading's task is booked: under its tid, or among the departed. *late is set when the
 * tid has a newer owner and nothing was known of this one. */
static int find_or_make(struct cpu_ledger *ledger, const struct task_reading *reading,
			struct known_task **found, bool *late)
{
	struct known_task *known = known_tasks_make(&ledger->known, reading->tid);
	struct known_task *departed;
	int err;

	*late = false;
	if (!known)
		return -ENOMEM;
	*found = known;
	if (known->start_boot_ns && same_task(known, reading)) {
		if (known->coarse && !reading->start_is_coarse) {
			known->start_boot_ns = reading->start_boot_ns;
			known->coarse = false;
		}
		return 0;
	}
	departed = known_tasks_find_departed(&ledger->known, reading->tid, reading->start_boot_ns);
	if (departed) {
		*found = departed;
		return 0;
	}
	if (known->start_boot_ns && reading->start_boot_ns < known->start_boot_ns) {
		*late = true;
		return 0;
	}
	if (known->start_boot_ns && !known->dead) {
		err = known_tasks_depart(&ledger->known, reading->tid, known, ledger->end_ns);
		if (err)
			return err;
	}
	start_over(known, reading);
	if (reading->start_boot_ns < ledger->attach_boot_ns) {
		/* A task that is dead at first sight was dead or dying at the attach: no seed was
		 * missed. */
		ledger->missed_seeds += !reading->exited && !reading->ending;
		take_sums(known, reading);
	}
	return 0;
}

/* present: the sum was read. */
static void book_sum(struct opt_u64 *row, bool present, uint64_t now, uint64_t before)
{
	if (!present)
		return;
	row->present = true;
	if (now > before)
		row->value += now - before;
}

/* What a reading adds to the row of a task, the CPU time apart. */
static void book_sums(struct record_task *row, const struct task_reading *reading,
		      const struct known_task *known)
{
	const struct task_sums *now = &reading->sums, *before = &known->sums;

	book_sum(&row->runnable_ns, reading->has_runnable, now->runnable_ns, before->runnable_ns);
	book_sum(&row->switches_voluntary, reading->has_switches, now->switches_voluntary,
		 before->switches_voluntary);
	book_sum(&row->switches_involuntary, reading->has_switches, now->switches_involuntary,
		 before->switches_involuntary);
	book_sum(&row->uninterruptible_ns, reading->uninterruptible_ns.present,
		 reading->uninterruptible_ns.value, known->uninterruptible_ns);
	book_sum(&row->stopped_ns, reading->stopped_ns.present, reading->stopped_ns.value,
		 known->stopped_ns);
}

int cpu_ledger_exec(struct cpu_ledger *ledger, pid_t old_tid, pid_t tid, uint64_t start_boot_ns)
{
	struct known_task *thread = known_tasks_make(&ledger->known, old_tid);
	struct known_task *leader = known_tasks_make(&ledger->known, tid), before;
	int err = 0;

	if (!thread || !leader)
		return -ENOMEM;
	if (!started_at(leader, start_boot_ns, false)) {
		if (leader->start_boot_ns && !leader->dead)
			err = known_tasks_depart(&ledger->known, tid, leader, ledger->end_ns);
		/* So young that no read-out has seen it; where it is older than the attach, nobody
		 * knows what it had run before. */
		*leader = (struct known_task){.dead = start_boot_ns < ledger->attach_boot_ns};
	}
	if (!err && !leader->dead) { /* its death will be told under the thread's tid */
		before = *leader;
		before.start_boot_ns = start_boot_ns;
		before.interval = 0; /* a row of its own */
		err = known_tasks_depart(&ledger->known, old_tid, &before, ledger->end_ns);
	}
	if (err)
		return err;
	if (thread->start_boot_ns && thread->start_boot_ns != start_boot_ns && !thread->dead) {
		before = *thread;
		*thread = (struct known_task){0};
	} else { /* so young that no read-out has seen it */
		before = (struct known_task){0};
	}
	before.start_boot_ns = start_boot_ns;
	before.row = leader->row;
	before.interval = leader->interval;
	*leader = before;
	if (leader->interval == ledger->interval)
		ledger->rows.rows[leader->row].task.exited = false;
	return 0;
}

/* A leader whose place a thread has taken by execve bears the thread's tid from then on; what is
 * told of it before word of the exec is still of the leader that we know. */
static bool is_replaced_leader(const struct cpu_ledger *ledger, const struct task_reading *reading)
{
	const struct known_task *leader;

	if (reading->tid == reading->tgid || reading->start_is_coarse)
		return false;
	leader = known_tasks_find(&ledger->known, reading->tgid);
	return leader && !leader->coarse && leader->start_boot_ns == reading->start_boot_ns &&
	       !known_tasks_find_departed(&ledger->known, reading->tid, reading->start_boot_ns);
}

bool cpu_ledger_knows(const struct cpu_ledger *ledger, const struct task_reading *reading)
{
	const struct known_task *known = known_tasks_find(&ledger->known, reading->tid);

	return (known && same_task(known, reading)) || is_replaced_leader(ledger, reading) ||
	       known_tasks_find_departed(&ledger->known, reading->tid, reading->start_boot_ns);
}

/* Whether a task that ends has to do without a row, for the sake of memory. Tasks of the targets
 * have fold_rows of their own, so that those of other programs do not cost them theirs. */
static bool has_no_row(struct cpu_ledger *ledger, const struct task_reading *reading,
		       struct record_task *did, bool *wanted)
{
	*wanted = true;
	if (!(reading->exited || reading->ending))
		return false;
	if (!ledger->wanted)
		return ledger->rows.count >= ledger->fold_rows;
	*wanted = ledger->wanted->listed(ledger->wanted->ctx, did, 0);
	if (!*wanted)
		return ledger->rows.count >= ledger->fold_rows;
	return ++ledger->wanted_count > ledger->fold_rows;
}

/* Book a task that ended without a row of its own; one that no record would list is not missed. */
static int fold(struct cpu_ledger *ledger, const struct task_reading *reading,
		struct known_task *known, struct record_task *did, bool wanted)
{
	if (reading->sums.cpu_ns > known->sums.cpu_ns)
		did->cpu_ns = reading->sums.cpu_ns - known->sums.cpu_ns;
	book_sums(did, reading, known);
	if (wanted)
		cpu_folded_add(&ledger->folded, did, !known->exited);
	else
		ledger->folded.cpu_ns += did->cpu_ns;
	known->process_start_boot_ns = did->process_start_boot_ns;
	take_sums(known, reading);
	known->exited = true;
	known->dead |= reading->exited;
	return did->cpu_ns ? cpu_sums_add_uid(&ledger->sums, reading->uid, did->cpu_ns) : 0;
}

static struct record_task identity_of(const struct task_reading *reading,
				      const struct known_task *known)
{
	struct record_task task = {
		.pid = reading->tgid,
		.tid = reading->tid,
		.uid = reading->uid,
		.process_start_boot_ns =
			reading->process_start_boot_ns ?: known->process_start_boot_ns,
	};

	if (!task.process_start_boot_ns && task.tid == task.pid)
		task.process_start_boot_ns = reading->start_boot_ns;
	memcpy(task.thread, reading->comm, RECORD_COMM_LEN);
	task.thread[RECORD_COMM_LEN - 1] = 0;
	return task;
}

/* The last reading of a task has the sum that counts. What an earlier one told beyond it stands in
 * a row that was handed out, or in one that is open. */
static void look_whether_ahead(struct cpu_ledger *ledger, const struct known_task *known,
			       const struct task_reading *reading)
{
	if (reading->exited && !known->dead && known->interval &&
	    known->sums.cpu_ns > reading->sums.cpu_ns)
		ledger->told_ahead_ns += known->sums.cpu_ns - reading->sums.cpu_ns;
}

int cpu_ledger_update(struct cpu_ledger *ledger, const struct task_reading *told)
{
	struct task_reading as_leader = *told;
	const struct task_reading *reading = told;
	struct known_task fresh, *known;
	struct record_task did;
	struct ledger_row *row;
	bool late, wanted;
	uint32_t place;
	int64_t index;
	int err;

	if (is_replaced_leader(ledger, told)) {
		as_leader.tid = told->tgid;
		reading = &as_leader;
	}
	err = find_or_make(ledger, reading, &known, &late);
	if (err)
		return err;
	if (late) {
		start_over(&fresh, reading);
		/* Nobody knows what it had run before we came. */
		if (reading->start_boot_ns < ledger->attach_boot_ns)
			take_sums(&fresh, reading);
		known = &fresh;
	}
	look_whether_ahead(ledger, known, reading);
	if (known->interval != ledger->interval) {
		/* A dead task's slot is read again and again: nothing new, no row. */
		if (known->exited && reading->sums.cpu_ns <= known->sums.cpu_ns) {
			known->dead |= reading->exited;
			return 0;
		}
		did = identity_of(reading, known);
		if (has_no_row(ledger, reading, &did, &wanted))
			return fold(ledger, reading, known, &did, wanted);
		index = cpu_rows_add(&ledger->rows);
		if (index < 0)
			return -ENOMEM;
		known->interval = ledger->interval;
		known->row = (uint32_t)index & KNOWN_MAX_ROW;
	}
	place = known->row;
	row = cpu_rows_for(&ledger->rows, &place, reading->uid);
	known->row = place & KNOWN_MAX_ROW;
	if (!row)
		return -ENOMEM;
	row->task.tid = reading->tid;
	row->task.pid = reading->tgid;
	row->task.uid = reading->uid;
	row->task.start_boot_ns = reading->start_boot_ns;
	if (reading->process_start_boot_ns)
		known->process_start_boot_ns = reading->process_start_boot_ns;
	row->task.process_start_boot_ns = known->process_start_boot_ns;
	memcpy(row->task.thread, reading->comm, RECORD_COMM_LEN);
	row->task.thread[RECORD_COMM_LEN - 1] = 0;
	if (reading->sums.cpu_ns > known->sums.cpu_ns) {
		row->task.cpu_ns += reading->sums.cpu_ns - known->sums.cpu_ns;
		err = cpu_sums_add_uid(&ledger->sums, reading->uid,
				       reading->sums.cpu_ns - known->sums.cpu_ns);
	}
	book_sums(&row->task, reading, known);
	take_sums(known, reading);
	if ((reading->exited || reading->ending) && !known->exited) {
		row->task.exited = true;
		row->end_boot_ns = reading->end_boot_ns;
		known->exited = true;
	}
	known->dead |= reading->exited;
	return err;
}

int cpu_ledger_split(struct cpu_ledger *ledger, const struct task_reading *reading, bool listed,
		     const char *process)
{
	struct known_task *known;
	int err = cpu_ledger_update(ledger, reading);

	if (err)
		return err;
	known = known_tasks_find(&ledger->known, reading->tid);
	if (known && same_task(known, reading) && known->interval == ledger->interval)
		cpu_rows_decide(&ledger->rows, known->row, listed, process);
	return 0;
}

void cpu_ledger_want(struct cpu_ledger *ledger, const struct cpu_ledger_names *names)
{
	ledger->wanted = names;
}

int cpu_ledger_overflow(struct cpu_ledger *ledger, uid_t uid, uint64_t cpu_ns)
{
	ledger->overflow_ns += cpu_ns;
	return cpu_sums_add_uid(&ledger->sums, uid, cpu_ns);
}

uint64_t cpu_ledger_missed_seeds(const struct cpu_ledger *ledger)
{
	return ledger->missed_seeds;
}

uint64_t cpu_ledger_told_ahead_ns(const struct cpu_ledger *ledger)
{
	return ledger->told_ahead_ns;
}

uint64_t cpu_ledger_folded(const struct cpu_ledger *ledger)
{
	return ledger->folded.tasks;
}
