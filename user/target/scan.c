/* SPDX-License-Identifier: BSD-2-Clause */
/* Scans of /proc: which processes came, which ended, and which have other names now. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/machine.h"
#include "proc/read.h"
#include "target/set.h"
#include "util/clock.h"

#define KEEP_SCANS 32 /* how long an unused name is kept */
#define KEEP_TURNS 2  /* and, of a target, how many intervals */
/* The first names are waited for, before which nothing is measured, and so long after each answer.
 */
#define PATIENT_NS NSEC_PER_SEC
#define STILL_NS   (50 * NSEC_PER_MSEC)
/* A slice of a scan (in the recorder, once the first names are there): to pass 10,000 processes by
 * takes some 7 ms, to read them 0.5 s. */
#define BUDGET_NS 10000000ull
/* A scan that took more than a slice is not made again for so many times as long. */
#define REST_TIMES  20
#define REST_MAX_NS 1000000000ull
/* To list /proc the kernel passes each thread of the machine by (next_tgid): 10,000 take 2 to 4 ms.
 * For so many times as long as a walk took, new processes are looked for among the numbers that
 * were given out since. That finds each process but one that was given its number by choice
 * (set_tid of clone3), or was to be seen in /proc a whole look after it had got it. */
#define WALK_TIMES   1000
#define WALK_MAX_NS  (5 * NSEC_PER_SEC)
#define MOST_NUMBERS 256
/* A start that is told later than this, or a process that is read again so late, is counted. */
#define OVERDUE_NS 1000000000ull

static bool is_meant(struct target_set *set, const struct process_view *view,
		     struct process_entry *entry)
{
	bool named = target_names_match(set, entry->has_argv ? entry->name : NULL, entry->comm);

	entry->by_other = target_pid_matches(set, entry) || target_cgroup_matches(set, view);
	/* A target whose name could not be read again just now is a target still. */
	if (entry->held_up && entry->watched)
		return true;
	return follow_scanned(set, entry, named) || entry->by_other ||
	       target_set_has_uid(set, entry->uid);
}

/* Its name is still needed: by a record, where it is a target, or because it was asked for. */
static bool is_needed(const struct target_set *set, const struct process_entry *entry)
{
	if (set->scan - entry->used_scan <= KEEP_SCANS)
		return true;
	return set->turn && (entry->by_name || entry->by_other) &&
	       set->turn < entry->used_turn + KEEP_TURNS;
}

static void begin_budget(struct target_set *set)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	set->until_ns = set->probes && !set->is_finding ? now_ns + BUDGET_NS : 0;
}

static bool is_over(const struct target_set *set)
{
	return set->until_ns && clock_now_ns(CLOCK_MONOTONIC) >= set->until_ns;
}

/* A process that is read now, of which nothing is known yet. */
static bool started_long_ago(const struct target_set *set, const struct process_entry *entry)
{
	uint64_t start_ns = entry->key.start_ticks * PROC_TICK_NS;

	return start_ns >= set->born_ns &&
	       clock_now_ns(CLOCK_BOOTTIME) > start_ns + PROC_TICK_NS + OVERDUE_NS;
}

/* Nothing can be said of it before its name is told. */
static bool waits_for_name(const struct target_set *set, const struct process_entry *entry,
			   uint64_t now_ns)
{
	return entry->argv.is_wanted && !entry->is_decided &&
	       (set->is_finding || now_ns < entry->argv.until_ns);
}

/* It is the process that is known, and there is nothing to be read of it now. */
static bool is_passed_by(struct target_set *set, struct process_entry *entry, uint64_t now_ns)
{
	if (entry->argv.is_told)
		return false;
	if (entry->argv.is_wanted)
		return entry->is_decided || waits_for_name(set, entry, now_ns);
	if (now_ns < entry->next_read_ns && !(entry->watched && entry->watched->pidfd < 0))
		return true;
	if (!set->probes || !entry->is_decided)
		return false;
	/* All of it is read when its name is there. */
	argv_want(set, entry);
	return true;
}

static int visit(struct target_set *set, pid_t pid, uint64_t ino, uint64_t now_ns,
		 target_change_fn on_change, void *ctx)
{
	struct process_entry *entry = process_find_live(set, pid);
	bool same = entry && entry->ino == ino, known = entry && entry->is_decided;
	struct process_view view = {0};
	struct target_process *process;
	char path[1024];
	pid_t unused;
	int dir, err;
	bool match;

	if (same && is_passed_by(set, entry, now_ns)) {
		entry->seen_scan = set->scan;
		return 0;
	}
	set->unread += same && known && now_ns > entry->next_read_ns + OVERDUE_NS;
	dir = proc_open(set->root, pid);
	if (dir < 0) /* gone since the readdir, mostly */
		return process_no_answer(set, entry, dir, on_change, ctx);
	err = process_load(set, pid, dir, &entry, on_change, ctx);
	if (err || !entry)
		goto cleanup;
	entry->ino = ino;
	entry->used_scan = set->scan;
	if (waits_for_name(set, entry, now_ns)) {
		target_pid_matches(set, entry); /* a pid means the process that has it now */
		goto cleanup;
	}
	entry->is_decided = true;
	view.entry = entry;
	if (set->packages.count && !proc_cgroup(dir, path, sizeof(path)))
		view.has_cgroup_app = target_cgroup_app(path, &view.cgroup_uid, &unused);
	match = is_meant(set, &view, entry);
	if (!match || entry->dead) {
		process_unwatch(set, entry, on_change, ctx);
		goto cleanup;
	}
	process = entry->watched;
	if (!process) {
		err = process_watch(set, entry, dir);
		if (err) {
			err = process_is_for_later(err)
				      ? process_no_answer(set, entry, err, on_change, ctx)
				      : 0;
			goto cleanup;
		}
	}
	set->unread += !process && !known && started_long_ago(set, entry);
	follow_met(set, entry);
	entry->watched->uid = entry->uid;
	if (!entry->held_up || !entry->watched->process[0])
		snprintf(entry->watched->process, sizeof(entry->watched->process), "%s",
			 entry->name);
	entry->watched->package = target_package_of(set, &view);
	if (!process && on_change)
		on_change(ctx, TARGET_STARTED, entry->watched);
cleanup:
	close(dir);
	return err;
}

/* A pidfd is readable when the whole process died, though a zombie may stay in /proc. */
static void poll_pidfds(struct target_set *set, target_change_fn on_change, void *ctx)
{
	struct pollfd wait[256];
	size_t end, first, i;

	/* Downwards, because unwatch fills the gap with the last one. */
	for (end = set->watched_count; end > 0 && !is_over(set); end = first) {
		first = end > 256 ? end - 256 : 0;
		for (i = first; i < end; i++)
			wait[i - first] = (struct pollfd){.fd = set->watched[i]->watched->pidfd,
							  .events = POLLIN};
		if (poll(wait, end - first, 0) <= 0)
			continue;
		for (i = end; i-- > first;)
			if (wait[i - first].revents) {
				set->watched[i]->dead = true;
				process_unwatch(set, set->watched[i], on_change, ctx);
			}
	}
}

/* The next process of the folder, into next_pid. False: that was all. */
static bool find_next(struct target_set *set)
{
	struct dirent *item;

	while (!set->next_pid && (item = readdir(set->proc))) {
		unsigned long pid;
		char *end;

		if (item->d_name[0] < '1' || item->d_name[0] > '9')
			continue;
		pid = strtoul(item->d_name, &end, 10);
		if (*end || pid > INT32_MAX)
			continue;
		set->next_pid = (pid_t)pid;
		set->next_ino = item->d_ino;
	}
	return set->next_pid;
}

static int begin_walk(struct target_set *set)
{
	if (!set->proc) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/proc", set->root);
		set->proc = opendir(path);
		if (!set->proc)
			return -errno;
	}
	rewinddir(set->proc);
	set->next_pid = 0;
	return 0;
}

/* Until the end of the folder or of the slice; one process at the least. */
static int walk(struct target_set *set, uint64_t now_ns, target_change_fn on_change, void *ctx)
{
	int err = 0;

	while (!err && find_next(set)) {
		pid_t pid = set->next_pid;

		set->next_pid = 0;
		err = visit(set, pid, set->next_ino, now_ns, on_change, ctx);
		if (is_over(set) && find_next(set)) {
			set->is_midway = !err;
			break;
		}
	}
	return err;
}

/* Numbers that were given out since the look before the last: a task is to be seen in /proc a
 * moment after it has got its own. False: so many, or not in a row, that a walk is better. */
static bool find_numbers(const struct target_set *set, pid_t last, pid_t *first)
{
	pid_t since = set->newest[1], before = set->newest[0];

	*first = since + 1;
	return since && since <= before && before <= last && last - since <= MOST_NUMBERS;
}

static void note_numbers(struct target_set *set, pid_t last)
{
	set->newest[1] = set->newest[0];
	set->newest[0] = last;
}

/* The number is a process's and not a thread's. Where that cannot be asked (before Linux 5.3) it is
 * looked at. */
static bool is_process(struct target_set *set, pid_t pid)
{
#ifdef SYS_pidfd_open
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0)
		close(fd);
	else if (process_is_for_later(-errno))
		set->newest[0] = 0; /* walks follow */
	return fd >= 0 || errno == ENOSYS || errno == EPERM;
#else
	return true;
#endif
}

/* Processes that are known and due, and new ones. Which have ended is for a walk to find; of
 * targets the pidfds tell. */
static int look_at_numbers(struct target_set *set, pid_t first, pid_t last, uint64_t now_ns,
			   target_change_fn on_change, void *ctx)
{
	struct process_entry *entry, *next;
	int err = 0;

	for (entry = set->live; entry; entry = entry->by_pid.next)
		entry->seen_scan = set->scan;
	HASH_ITER (by_pid, set->live, entry, next) {
		if (err || is_over(set))
			break;
		err = visit(set, entry->key.pid, entry->ino, now_ns, on_change, ctx);
	}
	for (; first <= last && !err && !is_over(set); first++) {
		char path[32];
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%d", first);
		if (is_process(set, first) && !stat(path, &st))
			err = visit(set, first, st.st_ino, now_ns, on_change, ctx);
	}
	if (first <= last)
		set->newest[0] = 0; /* the rest is left to walks */
	return err;
}

static int scan_proc(struct target_set *set, uint64_t now_ns, target_change_fn on_change, void *ctx)
{
	bool goes_on = set->is_midway;
	int err = 0;

	set->is_midway = false;
	if (set->only_pids) {
		for (size_t i = 0; i < set->spec_count && !err; i++)
			err = visit(set, set->specs[i].spec.pid, 0, now_ns, on_change, ctx);
		return err;
	}
	if (!goes_on)
		err = begin_walk(set);
	return err ? err : walk(set, now_ns, on_change, ctx);
}

void target_set_look_again(struct target_set *set)
{
	struct process_entry *entry, *next;

	follow_give_up(set, UINT64_MAX);
	HASH_ITER (by_pid, set->live, entry, next)
		process_read_soon(entry);
}

static int count_watched(const struct target_set *set)
{
	return set->watched_count > INT32_MAX ? INT32_MAX : (int)set->watched_count;
}

/* A scan that was dear, because there are so many processes to pass by, is not made again at once:
 * ends are seen all the same, by the pidfds. */
static void plan_rest(struct target_set *set)
{
	uint64_t rest_ns = set->took_ns * REST_TIMES, brief_ns = set->took_ns * WALK_TIMES;

	set->walk_after_ns =
		clock_now_ns(CLOCK_BOOTTIME) + (brief_ns < WALK_MAX_NS ? brief_ns : WALK_MAX_NS);
	if (set->until_ns && set->took_ns > BUDGET_NS)
		set->rest_until_ns = clock_now_ns(CLOCK_BOOTTIME) +
				     (rest_ns < REST_MAX_NS ? rest_ns : REST_MAX_NS);
}

static int begin_scan(struct target_set *set, uint64_t now_ns)
{
	int err;

	set->scan++;
	process_free_buried(set, false);
	set->took_ns = 0;
	if (set->scan == 1)
		set->born_ns = now_ns;
	/* A list that cannot be read leaves the old names; the scan goes on. */
	err = packages_refresh(&set->packages, set->root);
	if (err == -ENOMEM)
		return err;
	if (err == 1) {
		target_resolve_specs(set);
		/* A new package may own processes that are known already. */
		target_set_look_again(set);
	}
	return 0;
}

/* What no process of the folder is any more. */
static int end_scan(struct target_set *set, uint64_t now_ns, target_change_fn on_change, void *ctx)
{
	struct process_entry *entry, *next;
	int err;

	HASH_ITER (by_key, set->entries, entry, next) {
		if (set->spec_count && entry->live && entry->seen_scan != set->scan &&
		    !(set->only_pids && !entry->watched)) {
			/* What is told of its end takes time as well. */
			if (entry->watched && is_over(set))
				continue;
			process_retire(set, entry, on_change, ctx);
		}
		if ((!entry->live || !set->spec_count || set->only_pids) && !entry->watched) {
			if (!is_needed(set, entry))
				process_drop(set, entry);
			else if (entry->live && now_ns >= entry->next_read_ns) {
				struct process_entry *now;
				int dir;

				if (is_passed_by(set, entry, now_ns))
					continue;
				dir = proc_open(set->root, entry->key.pid);
				if (dir < 0) {
					process_no_answer(set, entry, dir, on_change, ctx);
					continue;
				}
				err = process_load(set, entry->key.pid, dir, &now, on_change, ctx);
				close(dir);
				if (err)
					return err;
			}
		}
	}
	return 0;
}

/* Those whose names have come, new ones first. */
static int take_told(struct target_set *set, uint64_t now_ns, target_change_fn on_change, void *ctx)
{
	struct process_entry *entry;
	int err = 0;

	while (!err && !is_over(set) && (entry = argv_next_told(set)))
		err = visit(set, entry->key.pid, entry->ino, now_ns, on_change, ctx);
	return err;
}

int target_set_take_names(struct target_set *set, target_change_fn on_change, void *ctx)
{
	int err;

	begin_budget(set);
	set->is_scanning = true;
	err = take_told(set, clock_now_ns(CLOCK_BOOTTIME), on_change, ctx);
	set->is_scanning = false;
	argv_send(set);
	return err ? err : argv_any_told(set);
}

bool target_set_has_names(const struct target_set *set)
{
	return argv_any_told(set);
}

bool target_set_is_finding(struct target_set *set)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME), since_ns = set->argv.answered_ns;

	if (since_ns < set->born_ns)
		since_ns = set->born_ns;
	if (!argv_any_new(set) || now_ns >= set->born_ns + PATIENT_NS ||
	    now_ns >= since_ns + STILL_NS)
		set->is_finding = false;
	return set->is_finding;
}

int target_set_scan(struct target_set *set, target_change_fn on_change, void *ctx)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);
	uint64_t began_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	struct proc_load load = {0};
	bool walks = set->spec_count && !set->only_pids && !set->root[0];
	bool brief, rests;
	pid_t first = 0;
	int err = 0;

	/* Read before what it is to tell of is looked at. */
	if (walks && !set->is_midway)
		proc_read_load(&load);
	brief = now_ns < set->walk_after_ns && find_numbers(set, load.last_pid, &first);
	rests = !brief && now_ns < set->rest_until_ns;
	if (!rests && !set->is_midway) {
		note_numbers(set, load.last_pid);
		err = begin_scan(set, now_ns);
	}
	if (err)
		return err;
	now_ns = clock_now_ns(CLOCK_BOOTTIME); /* what is to be read again is due by now */
	begin_budget(set);
	poll_pidfds(set, on_change, ctx);
	set->is_scanning = true;
	err = take_told(set, now_ns, on_change, ctx);
	if (!err && brief)
		err = look_at_numbers(set, first, load.last_pid, now_ns, on_change, ctx);
	else if (!err && !rests && set->spec_count)
		err = scan_proc(set, now_ns, on_change, ctx);
	if (!err && !rests && !set->is_midway)
		err = end_scan(set, now_ns, on_change, ctx);
	set->is_scanning = false;
	argv_send(set);
	if (err)
		return err;
	if (rests)
		return count_watched(set);
	set->took_ns += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
	if (!set->is_midway && !brief)
		plan_rest(set);
	return count_watched(set);
}

bool target_set_is_midway(const struct target_set *set)
{
	return set->is_midway;
}
