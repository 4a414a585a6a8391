/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/disk/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "jankscope/target.h"

#define SUMS       (sizeof(struct record_disk_sums) / sizeof(uint64_t))
#define IDLE_TURNS 64
#define MIN_ROWS   64

_Static_assert(sizeof(struct record_disk_sums) == sizeof(struct disk_sums), "the same order");

/* Calls of a process. */
struct caller {
	struct disk_process key;
	struct disk_syncs now, before; /* before: at the end of the last interval */
	uint64_t changed;              /* the turn in which it called last */
	UT_hash_handle hh;
};

struct disk_rows {
	struct caller *callers;
	uint64_t turn;
	struct record_disk_task *tasks;
	struct record_disk_process *processes;
	size_t task_room, process_room;
};

struct disk_rows *disk_rows_new(void)
{
	return calloc(1, sizeof(struct disk_rows));
}

void disk_rows_free(struct disk_rows *rows)
{
	struct caller *caller, *next;

	if (!rows)
		return;
	HASH_ITER (hh, rows->callers, caller, next) {
		HASH_DEL(rows->callers, caller);
		free(caller);
	}
	free(rows->tasks);
	free(rows->processes);
	free(rows);
}

/* ---- calls ---- */

int disk_rows_take_syncs(struct disk_rows *rows, const struct disk_process *process,
			 const struct disk_syncs *syncs, bool baseline)
{
	struct caller *caller;

	HASH_FIND(hh, rows->callers, process, sizeof(*process), caller);
	if (!caller) {
		caller = calloc(1, sizeof(*caller));
		if (!caller)
			return -ENOMEM;
		caller->key = *process;
		HASH_ADD(hh, rows->callers, key, sizeof(caller->key), caller);
	}
	if (memcmp(caller->now.kind, syncs->kind, sizeof(syncs->kind)))
		caller->changed = rows->turn;
	caller->now = *syncs;
	if (baseline)
		caller->before = *syncs;
	return 0;
}

const struct disk_process *disk_rows_idle(struct disk_rows *rows, size_t n)
{
	for (struct caller *caller = rows->callers; caller; caller = caller->hh.next)
		if (caller->changed + IDLE_TURNS < rows->turn && !n--)
			return &caller->key;
	return NULL;
}

void disk_rows_forget(struct disk_rows *rows, const struct disk_process *process)
{
	struct caller *caller;

	HASH_FIND(hh, rows->callers, process, sizeof(*process), caller);
	if (!caller)
		return;
	HASH_DEL(rows->callers, caller);
	free(caller);
}

static bool take_sync(const struct caller *caller, unsigned kind, struct record_disk_sync *to)
{
	const struct disk_sync *now = &caller->now.kind[kind], *before = &caller->before.kind[kind];

	to->count += now->count - before->count;
	to->failed += now->failed - before->failed;
	to->time_ns += now->time_ns - before->time_ns;
	return now->count != before->count || now->failed != before->failed;
}

static bool add_calls(const struct caller *caller, struct record_disk_process *row)
{
	row->has_fsync = take_sync(caller, DISK_FSYNC, &row->fsync);
	row->has_fdatasync = take_sync(caller, DISK_FDATASYNC, &row->fdatasync);
	row->has_msync = take_sync(caller, DISK_MSYNC, &row->msync);
	row->has_sync_file_range = take_sync(caller, DISK_SYNC_FILE_RANGE, &row->sync_file_range);
	return row->has_fsync || row->has_fdatasync || row->has_msync || row->has_sync_file_range;
}

/* ---- sums ---- */

static void add_sums(struct record_disk_sums *to, const struct record_disk_sums *from)
{
	uint64_t sums[SUMS], more[SUMS];

	memcpy(sums, to, sizeof(sums));
	memcpy(more, from, sizeof(more));
	for (size_t i = 0; i < SUMS; i++)
		sums[i] += more[i];
	memcpy(to, sums, sizeof(sums));
}

static void add_sync(struct record_disk_sync *to, const struct record_disk_sync *from)
{
	to->count += from->count;
	to->failed += from->failed;
	to->time_ns += from->time_ns;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* What storage carried counts first: reads of the page cache are many, and cost it nothing. */
static int heavier(const struct record_disk_sums *a, const struct record_disk_sums *b)
{
	int by = compare(b->read_bytes + b->write_bytes, a->read_bytes + a->write_bytes);

	return by ?: compare(b->rchar_bytes + b->wchar_bytes, a->rchar_bytes + a->wchar_bytes);
}

static int by_weight(const void *a, const void *b)
{
	const struct record_disk_task *x = a, *y = b;

	return heavier(&x->sums, &y->sums)
		       ?: compare((uint64_t)x->tid, (uint64_t)y->tid)
		       ?: compare(x->start_boot_ns, y->start_boot_ns);
}

static int by_process(const void *a, const void *b)
{
	const struct record_disk_task *x = a, *y = b;

	return compare((uint64_t)x->pid, (uint64_t)y->pid)
		       ?: compare(x->process_start_boot_ns, y->process_start_boot_ns)
		       ?: compare((uint64_t)x->tid, (uint64_t)y->tid);
}

static uint64_t syncs_ns(const struct record_disk_process *row)
{
	return row->fsync.time_ns + row->fdatasync.time_ns + row->msync.time_ns +
	       row->sync_file_range.time_ns;
}

static int by_process_weight(const void *a, const void *b)
{
	const struct record_disk_process *x = a, *y = b;

	return heavier(&x->sums, &y->sums)
		       ?: compare(syncs_ns(y), syncs_ns(x))
		       ?: compare((uint64_t)x->pid, (uint64_t)y->pid)
		       ?: compare(x->start_boot_ns, y->start_boot_ns);
}

/* ---- rows ---- */

static bool is_listed(struct target_set *targets, uint32_t pid, uint32_t uid,
		      uint64_t process_start_boot_ns, uint64_t end_boot_ns, const char *main_comm)
{
	return !targets || target_set_is_all(targets) || target_set_has_uid(targets, uid) ||
	       target_set_means(targets, (pid_t)pid, process_start_boot_ns, end_boot_ns, main_comm);
}

static void describe(const struct disk_task *task, struct target_set *targets,
		     struct record_disk_task *row)
{
	*row = (struct record_disk_task){
		.tid = (pid_t)task->tid,
		.pid = (pid_t)task->tgid,
		.uid = task->uid,
		.start_boot_ns = task->start_boot_ns,
		.process_start_boot_ns = task->process_start_boot_ns,
		.exited = task->end_boot_ns != 0,
	};
	memcpy(row->thread, task->comm, sizeof(row->thread));
	memcpy(&row->sums, &task->part, sizeof(row->sums));
	if (!targets)
		return;
	row->process = target_process_name(targets, row->pid, row->process_start_boot_ns);
	row->package = target_package_of_uid(targets, row->uid);
}

static int fill_tasks(struct disk_rows *rows, const struct disk_ledger *ledger,
		      struct target_set *targets, struct record_disk *disk)
{
	size_t count = disk_ledger_count(ledger);
	struct record_disk_task *more;

	if (count > rows->task_room) {
		more = realloc(rows->tasks, (count + MIN_ROWS) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		rows->tasks = more;
		rows->task_room = count + MIN_ROWS;
	}
	disk->tasks = rows->tasks;
	for (size_t i = 0; i < count; i++) {
		const struct disk_task *task = disk_ledger_at(ledger, i);
		char comm[DISK_COMM_LEN + 1] = {0};
		struct record_disk_sums sums;

		memcpy(&sums, &task->part, sizeof(sums));
		memcpy(comm, task->comm, DISK_COMM_LEN);
		add_sums(&disk->sums, &sums);
		if (is_listed(targets, task->tgid, task->uid, task->process_start_boot_ns,
			      task->end_boot_ns, task->tid == task->tgid ? comm : NULL))
			describe(task, targets, &rows->tasks[disk->task_count++]);
		else
			add_sums(&disk->other, &sums);
	}
	return 0;
}

static struct record_disk_process *add_process(struct disk_rows *rows, struct record_disk *disk)
{
	struct record_disk_process *more;

	if (disk->process_count == rows->process_room) {
		size_t room = rows->process_room ? 2 * rows->process_room : MIN_ROWS;

		more = realloc(rows->processes, room * sizeof(*more));
		if (!more)
			return NULL;
		rows->processes = more;
		rows->process_room = room;
	}
	rows->processes[disk->process_count] = (struct record_disk_process){0};
	return &rows->processes[disk->process_count++];
}

static struct record_disk_process *
find_process(struct disk_rows *rows, const struct record_disk *disk, const struct disk_process *key)
{
	for (size_t i = 0; i < disk->process_count; i++)
		if (rows->processes[i].pid == (pid_t)key->pid &&
		    rows->processes[i].start_boot_ns == key->start_boot_ns)
			return &rows->processes[i];
	return NULL;
}

/* The rows of tasks are sorted by their processes. */
static int fill_processes(struct disk_rows *rows, struct record_disk *disk)
{
	struct record_disk_process *process = NULL;

	for (size_t i = 0; i < disk->task_count; i++) {
		const struct record_disk_task *task = &rows->tasks[i];

		if (!process || process->pid != task->pid ||
		    process->start_boot_ns != task->process_start_boot_ns) {
			process = add_process(rows, disk);
			if (!process)
				return -ENOMEM;
			process->pid = task->pid;
			process->uid = task->uid;
			process->start_boot_ns = task->process_start_boot_ns;
			process->process = task->process;
			process->package = task->package;
		}
		add_sums(&process->sums, &task->sums);
	}
	return 0;
}

static int fill_calls(struct disk_rows *rows, struct target_set *targets, struct record_disk *disk)
{
	for (struct caller *caller = rows->callers; caller; caller = caller->hh.next) {
		struct record_disk_process row = {
			.pid = (pid_t)caller->key.pid,
			.uid = caller->now.uid,
			.start_boot_ns = caller->key.start_boot_ns,
		};
		struct record_disk_process *process;

		if (caller->changed != rows->turn || !add_calls(caller, &row))
			continue;
		caller->before = caller->now;
		process = find_process(rows, disk, &caller->key);
		if (!process &&
		    !is_listed(targets, caller->key.pid, row.uid, row.start_boot_ns, 0, NULL))
			continue;
		if (!process) {
			process = add_process(rows, disk);
			if (!process)
				return -ENOMEM;
			if (targets) {
				row.process =
					target_process_name(targets, row.pid, row.start_boot_ns);
				row.package = target_package_of_uid(targets, row.uid);
			}
			*process = row;
			continue;
		}
		process->fsync = row.fsync;
		process->fdatasync = row.fdatasync;
		process->msync = row.msync;
		process->sync_file_range = row.sync_file_range;
		process->has_fsync = row.has_fsync;
		process->has_fdatasync = row.has_fdatasync;
		process->has_msync = row.has_msync;
		process->has_sync_file_range = row.has_sync_file_range;
	}
	return 0;
}

static void sum_targets(struct record_disk *disk)
{
	for (size_t i = 0; i < disk->process_count; i++) {
		const struct record_disk_process *row = &disk->processes[i];

		add_sums(&disk->targets, &row->sums);
		add_sync(&disk->targets_sync, &row->fsync);
		add_sync(&disk->targets_sync, &row->fdatasync);
		add_sync(&disk->targets_sync, &row->msync);
		add_sync(&disk->targets_sync, &row->sync_file_range);
	}
}

int disk_rows_fill(struct disk_rows *rows, const struct disk_ledger *ledger,
		   struct target_set *targets, size_t top, struct record_disk *disk)
{
	int err = fill_tasks(rows, ledger, targets, disk);

	if (!err && disk->task_count)
		qsort(rows->tasks, disk->task_count, sizeof(*rows->tasks), by_process);
	if (!err)
		err = fill_processes(rows, disk);
	if (!err)
		err = fill_calls(rows, targets, disk);
	rows->turn++;
	if (err)
		return err;
	disk->processes = rows->processes;
	disk->has_targets = disk->has_targets_sync = targets && !target_set_is_all(targets);
	sum_targets(disk);
	if (disk->task_count)
		qsort(rows->tasks, disk->task_count, sizeof(*rows->tasks), by_weight);
	if (disk->process_count)
		qsort(rows->processes, disk->process_count, sizeof(*rows->processes),
		      by_process_weight);
	for (size_t i = top; top && i < disk->task_count; i++)
		add_sums(&disk->other, &rows->tasks[i].sums);
	if (top && disk->task_count > top)
		disk->task_count = top;
	if (top && disk->process_count > top)
		disk->process_count = top;
	return 0;
}
