/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/report_target.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/arena.h"

struct report_target {
	const struct target_spec *specs;
	size_t spec_count;
	struct record_interval interval; /* the last copy; its rows are in memory */
	struct arena memory;
	uid_t *uids; /* of the target's rows in the interval */
	size_t uid_count;
	pid_t *pids;
	size_t pid_count;
};

struct report_target *report_target_new(const struct target_spec *specs, size_t count)
{
	struct report_target *target = calloc(1, sizeof(*target));

	if (target) {
		target->specs = specs;
		target->spec_count = count;
	}
	return target;
}

void report_target_free(struct report_target *target)
{
	if (!target)
		return;
	arena_free(&target->memory);
	free(target);
}

/* A name that matches literally matches, whatever characters it is made of. */
static bool matches(const char *name, const char *text)
{
	return !strcmp(name, text) || !fnmatch(name, text, 0);
}

static bool is_named(const char *name, const char *package, const char *process)
{
	const char *slash, *colon;
	char first[256];

	if (package && matches(name, package))
		return true;
	if (!process)
		return false;
	if (matches(name, process))
		return true;
	slash = strrchr(process, '/');
	if (slash && matches(name, slash + 1))
		return true;
	colon = strchr(process, ':');
	if (!colon || (size_t)(colon - process) >= sizeof(first))
		return false;
	snprintf(first, sizeof(first), "%.*s", (int)(colon - process), process);
	return matches(name, first);
}

bool report_target_is(const struct report_target *target, pid_t pid, const char *package,
		      const char *process)
{
	for (size_t i = 0; i < target->spec_count; i++) {
		const struct target_spec *spec = &target->specs[i];

		if (spec->kind == TARGET_PID ? pid == spec->pid
					     : is_named(spec->name, package, process))
			return true;
	}
	return false;
}

static bool has_uid(const struct report_target *target, uid_t uid)
{
	for (size_t i = 0; i < target->uid_count; i++)
		if (target->uids[i] == uid)
			return true;
	return false;
}

static bool has_pid(const struct report_target *target, pid_t pid)
{
	for (size_t i = 0; i < target->pid_count; i++)
		if (target->pids[i] == pid)
			return true;
	return false;
}

static void know(struct report_target *target, uid_t uid, pid_t pid)
{
	if (!has_uid(target, uid))
		target->uids[target->uid_count++] = uid;
	if (!has_pid(target, pid))
		target->pids[target->pid_count++] = pid;
}

/* Whose uids and pids are the target's: rows without a name of their own follow them. */
static int know_all(struct report_target *target, const struct record_interval *interval)
{
	const struct record_cpu *cpu = &interval->cpu;
	const struct record_memory *memory = &interval->memory;
	size_t room = cpu->process_count + memory->process_count + 1;

	target->uid_count = target->pid_count = 0;
	target->uids = arena_take(&target->memory, room * sizeof(*target->uids));
	target->pids = arena_take(&target->memory, room * sizeof(*target->pids));
	if (!target->uids || !target->pids)
		return -ENOMEM;
	for (size_t i = 0; i < cpu->process_count; i++)
		if (report_target_is(target, cpu->processes[i].pid, cpu->processes[i].package,
				     cpu->processes[i].process))
			know(target, cpu->processes[i].uid, cpu->processes[i].pid);
	for (size_t i = 0; i < memory->process_count; i++)
		if (report_target_is(target, memory->processes[i].pid, memory->processes[i].package,
				     memory->processes[i].process))
			know(target, memory->processes[i].uid, memory->processes[i].pid);
	return 0;
}

/* Copy the rows that are the target's; `row` in `is` and `others` is one of the others. */
#define KEEP_ROWS(target, rows, count, is, others)                                      \
	do {                                                                            \
		size_t kept_ = 0;                                                       \
		__typeof__(rows) copy_ =                                                \
			arena_take(&(target)->memory, ((count) + 1) * sizeof(*(rows))); \
		if (!copy_)                                                             \
			return -ENOMEM;                                                 \
		for (size_t i_ = 0; i_ < (count); i_++) {                               \
			__auto_type row = &(rows)[i_];                                  \
			if (is)                                                         \
				copy_[kept_++] = *row;                                  \
			else {                                                          \
				others;                                                 \
			}                                                               \
		}                                                                       \
		(rows) = copy_;                                                         \
		(count) = kept_;                                                        \
	} while (0)

#define IS_NAMED report_target_is(target, row->pid, row->package, row->process)

static int keep_cpu(struct report_target *target, struct record_cpu *cpu)
{
	/* Those that --top cut off are in no recording. */
	KEEP_ROWS(target, cpu->tasks, cpu->task_count, IS_NAMED, cpu->other_ns += row->cpu_ns);
	KEEP_ROWS(target, cpu->processes, cpu->process_count, IS_NAMED, (void)0);
	KEEP_ROWS(target, cpu->uids, cpu->uid_count, has_uid(target, row->uid), (void)0);
	/* These are sums over what the recorder took for its targets. */
	cpu->cluster_count = 0;
	cpu->targets_fnorm_ns.present = cpu->capacity_ns.present = false;
	return 0;
}

static void add_disk(struct record_disk_sums *to, const struct record_disk_sums *from)
{
	to->read_bytes += from->read_bytes;
	to->write_bytes += from->write_bytes;
	to->cancelled_write_bytes += from->cancelled_write_bytes;
	to->rchar_bytes += from->rchar_bytes;
	to->wchar_bytes += from->wchar_bytes;
	to->read_calls += from->read_calls;
	to->write_calls += from->write_calls;
}

static int keep_disk(struct report_target *target, struct record_disk *disk)
{
	KEEP_ROWS(target, disk->tasks, disk->task_count, IS_NAMED,
		  add_disk(&disk->other, &row->sums));
	KEEP_ROWS(target, disk->processes, disk->process_count, IS_NAMED, (void)0);
	disk->has_targets = disk->has_targets_sync = false;
	KEEP_ROWS(target, disk->uids, disk->uid_count,
		  report_target_is(target, 0, row->package, NULL) || has_uid(target, row->uid),
		  (void)0);
	return 0;
}

static int keep_rest(struct report_target *target, struct record_interval *interval)
{
	struct record_net *net = &interval->net;
	struct record_tcp *tcp = &interval->tcp;
	struct record_frames *frames = &interval->frames;
	struct record_memory *memory = &interval->memory;
	struct record_context *context = &interval->context;

	KEEP_ROWS(target, net->uids, net->uid_count,
		  report_target_is(target, 0, row->package, NULL) || has_uid(target, row->uid),
		  (void)0);
	KEEP_ROWS(target, tcp->uids, tcp->uid_count,
		  report_target_is(target, 0, row->package, NULL) || has_uid(target, row->uid),
		  (void)0);
	KEEP_ROWS(target, frames->layers, frames->layer_count,
		  report_target_is(target, 0, row->package, NULL) ||
			  (row->pid > 0 && has_pid(target, row->pid)),
		  (void)0);
	KEEP_ROWS(target, memory->processes, memory->process_count, IS_NAMED, (void)0);
	KEEP_ROWS(target, context->processes, context->process_count, IS_NAMED, (void)0);
	return 0;
}

const struct record_interval *report_target_interval(struct report_target *target,
						     const struct record_interval *interval)
{
	int err;

	arena_free(&target->memory);
	target->interval = *interval;
	err = know_all(target, interval);
	if (!err)
		err = keep_cpu(target, &target->interval.cpu);
	if (!err)
		err = keep_disk(target, &target->interval.disk);
	if (!err)
		err = keep_rest(target, &target->interval);
	errno = -err;
	return err ? NULL : &target->interval;
}
