/* SPDX-License-Identifier: BSD-2-Clause */
/* Targets by name, as the kernel side tells of them: a process is a target from the moment at which
 * it takes a name that matches (by execve, or as a comm by prctl), and its child is one from its
 * birth, because it has the names of its parent. So a process that lived for a millisecond, which
 * no scan of /proc can meet, is followed like any other.
 *
 * When is a process no longer a target? When it runs another program whose names do not match. A
 * process that took the name itself and only renames itself later stays one; a child that only
 * inherited the name is one until it takes another (as an app does that a zygote forked). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/set.h"
#include "util/clock.h"

/* Tasks of a process may be told of after its main thread: its threads, and in --cpu iter what RCU
 * frees late. */
#define KEEP_DEAD_NS   (2 * NSEC_PER_SEC)
#define KEEP_TURNS     2
#define CHECK_AFTER_NS (60 * NSEC_PER_SEC)

/* uids of isolated processes, and of those of app zygotes (android_filesystem_config.h) */
#define FIRST_ISOLATED 90000u

struct followed_process {
	struct followed_key {
		uint64_t start_boot_ns;
		uint64_t pid;
	} key;
	UT_hash_handle hh;
	UT_hash_handle by_pid; /* the latest of the pid */
	pid_t pid;
	char *name; /* argv[0], or comm where that is not known */
	bool has_argv;
	bool is_target, took_name;
	bool is_latest;
	bool was_target;      /* before turned_ns */
	uint64_t turned_ns;   /* CLOCK_BOOTTIME, as all here; 0: never; UNTOLD_NS */
	uint64_t untold_turn; /* the set's turn when turned_ns became UNTOLD_NS */
	uint64_t scanned_ns, told_ns;
	uint64_t program_ns; /* when the process called execve last; 0: the kernel side told of none
			      */
	uint64_t matched_ns; /* when a scan last saw a name that matches */
	bool met;            /* a scan watched it: its start is told */
	uint64_t died_ns, died_turn; /* 0: it lives */
};

bool target_set_follows(const struct target_set *set)
{
	return set->has_names;
}

void target_set_is_told(struct target_set *set)
{
	set->told_since_ns = clock_now_ns(CLOCK_BOOTTIME);
}

static struct followed_process *find(const struct target_set *set, pid_t pid,
				     uint64_t start_boot_ns)
{
	const struct followed_key key = {start_boot_ns, (uint64_t)pid};
	struct followed_process *process;

	HASH_FIND(hh, set->followed, &key, sizeof(key), process);
	return process;
}

/* By what a scan knows of a start time. */
static struct followed_process *find_latest(const struct target_set *set,
					    const struct process_entry *entry)
{
	struct followed_process *process;

	HASH_FIND(by_pid, set->followed_by_pid, &entry->key.pid, sizeof(pid_t), process);
	if (!process || process->key.start_boot_ns / PROC_TICK_NS != entry->key.start_ticks)
		return NULL;
	return !entry->start_boot_ns || entry->start_boot_ns == process->key.start_boot_ns ? process
											   : NULL;
}

/* Another process has the pid of this one now. */
static void leave_pid(struct target_set *set, struct followed_process *process)
{
	if (process && process->is_latest)
		HASH_DELETE(by_pid, set->followed_by_pid, process);
	if (process)
		process->is_latest = false;
}

static void forget(struct target_set *set, struct followed_process *process)
{
	leave_pid(set, process);
	HASH_DEL(set->followed, process);
	process_bury_name(set, process->name);
	free(process);
}

static struct followed_process *follow(struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	struct followed_process *process = calloc(1, sizeof(*process)), *before;

	if (!process)
		return NULL;
	process->key = (struct followed_key){start_boot_ns, (uint64_t)pid};
	process->pid = pid;
	HASH_ADD(hh, set->followed, key, sizeof(process->key), process);
	HASH_FIND(by_pid, set->followed_by_pid, &pid, sizeof(pid), before);
	leave_pid(set, before);
	HASH_ADD(by_pid, set->followed_by_pid, pid, sizeof(pid_t), process);
	process->is_latest = true;
	return process;
}

/* The name as it is now, for as long as a record may have it. */
static const char *keep_name(struct target_set *set, const char *name)
{
	char *copy = name ? strdup(name) : NULL;

	process_bury_name(set, copy);
	return copy;
}

static int set_name(struct target_set *set, struct followed_process *process, const char *name,
		    bool has_argv)
{
	int err = process_give_name(set, &process->name, name);

	if (!err)
		process->has_argv = has_argv;
	return err;
}

/* What is known of a process by name, whoever knows it. */
struct standing {
	bool is_target, took_name, has_argv;
	const char *name; /* NULL: not known */
};

/* At a moment: a scan may be ahead of what the kernel told, and is not to hide from which moment on
 * a process is a target. */
static struct standing standing_of(const struct target_set *set, pid_t pid, uint64_t start_boot_ns,
				   uint64_t at_ns)
{
	const struct followed_process *process = find(set, pid, start_boot_ns);
	const struct process_entry *entry;

	if (process)
		return (struct standing){at_ns < process->turned_ns ? process->was_target
								    : process->is_target,
					 process->took_name, process->has_argv, process->name};
	entry = process_find(set, pid, start_boot_ns);
	if (!entry || process_is_awaited(entry))
		return (struct standing){0};
	return (struct standing){entry->by_name != (at_ns < entry->turned_ns), entry->took_name,
				 entry->has_argv, entry->name};
}

static void turn_to(struct followed_process *process, bool is_target, uint64_t at_ns)
{
	if (process->is_target == is_target)
		return;
	process->was_target = process->is_target;
	process->is_target = is_target;
	process->turned_ns = at_ns;
}

static void tell_entry(const struct followed_process *process, struct process_entry *entry)
{
	/* An entry whose start time the kernel side has not told may be of a later owner of the
	 * pid. */
	if (!entry || (!entry->start_boot_ns && !process->is_latest))
		return;
	entry->start_boot_ns = process->key.start_boot_ns;
	entry->by_name = process->is_target;
	entry->turned_ns = process->turned_ns;
	entry->untold_turn = process->untold_turn;
	entry->took_name = process->took_name;
}

int target_told_birth(struct target_set *set, const struct target_told *child, pid_t parent,
		      uint64_t parent_start_boot_ns)
{
	struct standing of_parent;
	struct followed_process *process;

	if (!set->has_names || find(set, child->pid, child->start_boot_ns))
		return 0;
	HASH_FIND(by_pid, set->followed_by_pid, &child->pid, sizeof(child->pid), process);
	leave_pid(set, process);
	process_born(set, child->pid, child->start_boot_ns);
	of_parent = standing_of(set, parent, parent_start_boot_ns, child->at_boot_ns);
	/* A thread gives its own comm to the process that it forks. */
	if (!of_parent.is_target && !target_names_match(set, NULL, child->comm))
		return 0;
	process = follow(set, child->pid, child->start_boot_ns);
	if (!process)
		return -ENOMEM;
	process->is_target = true;
	process->told_ns = child->at_boot_ns;
	if (of_parent.name && of_parent.has_argv)
		return set_name(set, process, of_parent.name, true);
	return set_name(set, process, child->comm, false);
}

int target_told_name(struct target_set *set, const struct target_told *told, bool program,
		     struct target_turn *turn)
{
	struct followed_process *process = find(set, told->pid, told->start_boot_ns);
	struct process_entry *entry = process_find(set, told->pid, told->start_boot_ns);
	struct standing before = standing_of(set, told->pid, told->start_boot_ns, told->at_boot_ns);
	bool takes_it, is_target;
	int err = 0;

	if (!set->has_names)
		return 0;
	takes_it = target_names_match(set, program ? told->argv0 : NULL, told->comm);
	is_target = takes_it;
	if (!program && before.is_target && !takes_it)
		is_target = before.took_name ||
			    (before.has_argv && target_names_match(set, before.name, NULL));
	/* A scan that came later saw a name that the process took since. */
	if (process && !is_target && process->is_target && told->at_boot_ns < process->matched_ns)
		return 0;
	if (entry)
		process_read_soon(entry);
	/* What a scan read before an execve is the name of the program before it. */
	if (entry && program && told->at_boot_ns > entry->read_ns) {
		err = process_give_name(set, &entry->name, told->argv0 ?: told->comm);
		if (err)
			return err;
		entry->has_argv = told->argv0;
	}
	if (!before.is_target && !is_target && !process)
		return 0;
	*turn = (struct target_turn){before.is_target, keep_name(set, before.name)};
	if (!process) {
		process = follow(set, told->pid, told->start_boot_ns);
		if (!process)
			return -ENOMEM;
		process->is_target = before.is_target;
		process->took_name = before.took_name;
		err = set_name(set, process, before.name ? before.name : told->comm,
			       before.has_argv);
	}
	if (!err && program)
		err = set_name(set, process, told->argv0 ? told->argv0 : told->comm, told->argv0);
	else if (!err && !process->has_argv)
		err = set_name(set, process, told->comm, false);
	if (err)
		return err;
	process->told_ns = told->at_boot_ns;
	if (program)
		process->program_ns = told->at_boot_ns;
	process->took_name = program ? takes_it : process->took_name || takes_it;
	process->met |= entry && entry->met;
	if (before.is_target != is_target) {
		process->was_target = before.is_target;
		process->is_target = is_target;
		process->turned_ns = told->at_boot_ns;
	}
	tell_entry(process, entry);
	return before.is_target != is_target;
}

void target_told_death(struct target_set *set, pid_t pid, uint64_t start_boot_ns, uid_t uid,
		       uint64_t at_boot_ns)
{
	struct followed_process *process = find(set, pid, start_boot_ns);
	const struct process_entry *entry;
	bool packages = false;

	if (process) {
		process->died_ns = at_boot_ns;
		process->died_turn = set->turn;
		return;
	}
	entry = process_find(set, pid, start_boot_ns);
	if (uid % PACKAGES_USER_RANGE < FIRST_ISOLATED || (entry && !process_is_awaited(entry)))
		return;
	for (size_t i = 0; i < set->spec_count; i++)
		packages |= set->specs[i].package || set->specs[i].is_glob;
	set->unnamed += packages && set->packages.count;
}

uint64_t target_set_take_unnamed(struct target_set *set)
{
	uint64_t unnamed = set->unnamed;

	set->unnamed = 0;
	return unnamed;
}

static bool is_pinned(const struct target_set *set, pid_t pid, uint64_t start_ticks)
{
	for (size_t i = 0; i < set->spec_count; i++)
		if (set->specs[i].spec.kind == TARGET_PID && set->specs[i].pinned &&
		    set->specs[i].spec.pid == pid && set->specs[i].start_ticks == start_ticks)
			return true;
	return false;
}

bool target_set_means(const struct target_set *set, pid_t pid, uint64_t start_boot_ns,
		      uint64_t end_boot_ns, const char *main_comm)
{
	const struct process_entry *entry =
		start_boot_ns ? process_find(set, pid, start_boot_ns) : process_find_live(set, pid);
	const struct followed_process *process = find(set, pid, start_boot_ns);

	if (entry && entry->by_other)
		return true;
	if (is_pinned(set, pid, start_boot_ns / PROC_TICK_NS))
		return true;
	if (!end_boot_ns) /* it lives */
		end_boot_ns = UNTOLD_NS - 1;
	if (process)
		return end_boot_ns < process->turned_ns ? process->was_target : process->is_target;
	if (entry && !process_is_awaited(entry))
		return entry->by_name != (entry->turned_ns == UNTOLD_NS);
	return main_comm && target_names_match(set, NULL, main_comm);
}

const char *follow_name(const struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	const struct followed_process *process = find(set, pid, start_boot_ns);

	return process ? process->name : NULL;
}

const char *follow_argv(const struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	const struct followed_process *process = find(set, pid, start_boot_ns);

	return process && process->has_argv ? process->name : NULL;
}

bool follow_left_pid(const struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	const struct followed_process *process = find(set, pid, start_boot_ns);

	return process && !process->is_latest;
}

const char *follow_program(const struct target_set *set, pid_t pid, uint64_t start_boot_ns,
			   uint64_t since_boot_ns)
{
	const struct followed_process *process = find(set, pid, start_boot_ns);

	return process && process->program_ns > since_boot_ns ? process->name : NULL;
}

/* The kernel side tells when the main thread took this comm: a scan read another comm before, or
 * the process was born since the kernel side tells. Of an argv[0] that a process writes itself the
 * kernel side tells nothing. */
static bool will_be_told(const struct target_set *set, const struct process_entry *entry,
			 bool is_followed)
{
	if (!set->told_since_ns || !target_names_match(set, NULL, entry->comm))
		return false;
	return is_followed || entry->unmatched_ns > set->told_since_ns ||
	       entry->key.start_ticks * PROC_TICK_NS > set->told_since_ns;
}

void follow_give_up(struct target_set *set, uint64_t turn)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
	struct followed_process *process;
	struct process_entry *entry;

	if (!set->any_untold)
		return;
	set->any_untold = false;
	for (process = set->followed; process; process = process->hh.next) {
		if (process->turned_ns == UNTOLD_NS && process->untold_turn < turn)
			process->turned_ns = now_ns;
		set->any_untold |= process->turned_ns == UNTOLD_NS;
	}
	for (entry = set->entries; entry; entry = entry->by_key.next) {
		if (entry->turned_ns == UNTOLD_NS && entry->untold_turn < turn)
			entry->turned_ns = now_ns;
		set->any_untold |= entry->turned_ns == UNTOLD_NS;
	}
}

bool follow_scanned(struct target_set *set, struct process_entry *entry, bool names_match)
{
	struct followed_process *process = find_latest(set, entry);
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
	const struct process_entry *parent;

	if (process) {
		process->scanned_ns = now_ns;
		if (names_match)
			process->matched_ns = now_ns;
		if (names_match && !process->is_target)
			process->took_name = true;
		if (names_match && !process->is_target && will_be_told(set, entry, true)) {
			turn_to(process, true, UNTOLD_NS);
			process->untold_turn = set->turn;
			set->any_untold = true;
		} else if (names_match || !process->took_name) {
			turn_to(process, names_match, now_ns);
		}
		tell_entry(process, entry);
		return entry->by_name;
	}
	if (names_match && !entry->by_name) {
		parent = process_find_live(set, entry->ppid);
		entry->took_name = !parent || !parent->by_name;
	}
	if (!names_match && entry->by_name && entry->took_name)
		return true;
	if (!names_match)
		entry->unmatched_ns = now_ns;
	if (names_match && !entry->by_name && will_be_told(set, entry, false)) {
		entry->turned_ns = UNTOLD_NS;
		entry->untold_turn = set->turn;
		set->any_untold = true;
	} else if (entry->by_name != names_match) {
		entry->turned_ns = now_ns;
	}
	entry->by_name = names_match;
	return names_match;
}

void follow_met(struct target_set *set, struct process_entry *entry)
{
	struct followed_process *process = find_latest(set, entry);

	entry->met = true;
	if (process)
		process->met = true;
}

static bool is_gone(const struct target_set *set, const struct followed_process *process,
		    uint64_t now_ns)
{
	const struct process_entry *entry;

	if (process->died_ns)
		return set->turn >= process->died_turn + KEEP_TURNS &&
		       now_ns >= process->died_ns + KEEP_DEAD_NS;
	if (now_ns < process->told_ns + CHECK_AFTER_NS ||
	    now_ns < process->scanned_ns + CHECK_AFTER_NS)
		return false;
	/* Its end found no room in the ring. */
	entry = process_find(set, process->pid, process->key.start_boot_ns);
	return !entry || !entry->live;
}

void target_set_turn(struct target_set *set)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
	struct followed_process *process, *next;

	set->turn++;
	follow_give_up(set, set->turn - 1);
	HASH_ITER (hh, set->followed, process, next) {
		if (!is_gone(set, process, now_ns))
			continue;
		tell_entry(process, process_find(set, process->pid, process->key.start_boot_ns));
		/* What it forks and ends at once is no target that came back. */
		set->unmet += process->is_target && process->took_name && !process->met;
		forget(set, process);
	}
}

void follow_free(struct target_set *set)
{
	struct followed_process *process, *next;

	HASH_ITER (hh, set->followed, process, next)
		forget(set, process);
}
