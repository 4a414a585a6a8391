/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of processes that scans saw: what /proc says of one, and its place among the watched.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prober/pool.h"
#include "proc/read.h"
#include "proc/status.h"
#include "target/set.h"
#include "util/clock.h"
#include "util/spare_fd.h"

/* A process is read again when its age has grown by half (fork, then exec or setArgV0), very young
 * ones at every scan, old ones now and then: a wrapper may exec late, a daemon may rename itself.
 * A read costs some 20 us, a process that is only passed by 0.7 us. */
#define YOUNG_NS 100000000ull
#define OLD_NS   30000000000ull
/* An interval's rows are written before the next one ends. */
#define BURIED_SCANS 2
#define BURIED_TURNS 2
#define PATIENT_NS   NSEC_PER_SEC /* a name is waited for, before the comm decides */

/* Names of processes that wait to become something else: zygotes, the pool of pre-forked ones
 * (usap32, usap64), and a child before its specialisation (AOSP
 * com_android_internal_os_Zygote.cpp). */
static bool may_specialise(const char *name)
{
	size_t len = strlen(name);

	return !strncmp(name, "zygote", 6) || !strncmp(name, "usap", 4) ||
	       !strcmp(name, "<pre-initialized>") ||
	       (len >= 7 && !strcmp(name + len - 7, "_zygote"));
}

int process_watch(struct target_set *set, struct process_entry *entry, int dir)
{
	struct proc_stat stat;
	struct target_process *process;
	int err;

	if (set->watched_count == set->watched_room) {
		size_t room = set->watched_room ? set->watched_room * 2 : 8;
		struct process_entry **more = realloc(set->watched, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		set->watched = more;
		set->watched_room = room;
	}
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->pid = entry->key.pid;
	process->start_boot_ns = entry->key.start_ticks * PROC_TICK_NS;
	process->pidfd = -1;
#ifdef SYS_pidfd_open
	/* Linux 5.3. In a fixture the number is another process's. */
	if (!set->root[0]) {
		process->pidfd = spare_fd((int)syscall(SYS_pidfd_open, entry->key.pid, 0));
		if (process->pidfd < 0)
			process->pidfd = -1;
		/* Alive after the open: so the pidfd is of this very process. */
		err = proc_stat(dir, &stat);
		if (err) {
			if (process->pidfd >= 0)
				close(process->pidfd);
			free(process);
			return err;
		}
	}
#endif
	entry->watched = process;
	entry->index = set->watched_count;
	set->watched[set->watched_count++] = entry;
	return 0;
}

void process_unwatch(struct target_set *set, struct process_entry *entry,
		     target_change_fn on_change, void *ctx)
{
	struct target_process *process = entry->watched;

	if (!process)
		return;
	if (on_change)
		on_change(ctx, TARGET_EXITED, process);
	entry->watched = NULL;
	set->watched[entry->index] = set->watched[--set->watched_count];
	set->watched[entry->index]->index = entry->index;
	if (process->pidfd >= 0)
		close(process->pidfd);
	free(process);
}

struct process_entry *process_find_live(const struct target_set *set, pid_t pid)
{
	struct process_entry *entry;

	HASH_FIND(by_pid, set->live, &pid, sizeof(pid), entry);
	return entry;
}

static struct process_entry *find_in_tick(const struct target_set *set, pid_t pid,
					  uint64_t start_ticks)
{
	struct process_key key = {.pid = pid, .start_ticks = start_ticks};
	struct process_entry *entry;

	HASH_FIND(by_key, set->entries, &key, sizeof(key), entry);
	return entry;
}

struct process_entry *process_find(const struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	struct process_entry *entry = find_in_tick(set, pid, start_boot_ns / PROC_TICK_NS);

	if (entry && entry->start_boot_ns && start_boot_ns % PROC_TICK_NS &&
	    entry->start_boot_ns != start_boot_ns)
		return NULL;
	return entry;
}

/* From here on the entry is of the process that began then. What the kernel side told of the
 * process before it, of the same pid and tick, does not hold for it. */
static void describes(struct process_entry *entry, uint64_t start_boot_ns)
{
	if (entry->start_boot_ns && entry->start_boot_ns != start_boot_ns) {
		entry->by_name = entry->took_name = entry->met = false;
		entry->turned_ns = 0;
	}
	entry->start_boot_ns = start_boot_ns;
	entry->next_start_boot_ns = 0;
}

void process_born(const struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	struct process_entry *entry = find_in_tick(set, pid, start_boot_ns / PROC_TICK_NS);

	if (!entry || entry->start_boot_ns == start_boot_ns)
		return;
	/* Whoever was read since then under that pid is this one. */
	if (entry->read_ns >= start_boot_ns)
		describes(entry, start_boot_ns);
	else
		entry->next_start_boot_ns = start_boot_ns;
}

/* The pid is no longer this process. Its name is kept for a while: its last samples come later. */
void process_retire(struct target_set *set, struct process_entry *entry, target_change_fn on_change,
		    void *ctx)
{
	process_unwatch(set, entry, on_change, ctx);
	if (entry->live)
		HASH_DELETE(by_pid, set->live, entry);
	entry->live = false;
	entry->dead = true;
	process_take_told(set, entry);
	entry->used_scan = set->scan;
	entry->used_turn = set->turn;
}

void process_drop(struct target_set *set, struct process_entry *entry)
{
	process_unwatch(set, entry, NULL, NULL);
	if (entry->live)
		HASH_DELETE(by_pid, set->live, entry);
	HASH_DELETE(by_key, set->entries, entry);
	argv_forget(set, entry);
	process_bury_name(set, entry->name);
	free(entry);
}

static void plan_next_read(struct process_entry *entry, uint64_t now_ns)
{
	uint64_t start_ns = entry->key.start_ticks * PROC_TICK_NS;
	uint64_t age_ns = now_ns > start_ns ? now_ns - start_ns : 0;

	if (entry->held_up || age_ns < YOUNG_NS || (entry->has_argv && may_specialise(entry->name)))
		entry->next_read_ns = now_ns;
	else if (age_ns < 2 * OLD_NS)
		entry->next_read_ns = now_ns + age_ns / 2;
	else /* spread, so that what was found together is not read together */
		entry->next_read_ns = now_ns + OLD_NS + entry->key.pid % 1024 * (OLD_NS / 1024);
}

void process_read_soon(struct process_entry *entry)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);

	if (entry->next_read_ns > now_ns)
		entry->next_read_ns = now_ns;
}

/* proc_argv0 by a prober, because the argv is read from the process's memory. In a scan nobody
 * waits for it. A name that is needed at once is waited for; one that does not come in time comes
 * without a wait, by a later scan: on a machine that is busy all the time each wait could be too
 * short. */
static int read_argv0(struct target_set *set, struct process_entry *entry, int dir, char *name,
		      size_t size)
{
	struct probe_request request = {
		.operation = PROBE_READ,
		.pid = entry->key.pid,
		.start_ticks = entry->key.start_ticks,
		.length = (uint32_t)size - 1,
		.name = "cmdline",
	};
	ssize_t n = -EBUSY;

	if (!set->probes)
		return proc_argv0(dir, name, size);
	if (entry->argv.is_told)
		return argv_take(entry, name, size);
	if (!set->is_scanning && !entry->argv.is_wanted)
		n = probe_call(set->probes, &request, name, size - 1);
	if (process_is_for_later((int)n)) {
		argv_want(set, entry);
		if (!set->is_scanning)
			argv_send(set);
	}
	if (n < 0)
		return (int)n;
	name[n] = 0;
	return (int)strlen(name);
}

/* The reader could not do it now; the process has nothing to do with it, or holds it up. */
bool process_is_for_later(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY || err == -EPIPE || err == -EMFILE ||
	       err == -ENFILE || err == -ENOMEM;
}

/* Both names at once change when the process runs another program; a process that renames itself
 * changes one after the other. Where the kernel side tells of programs it is asked instead. */
static void take_comm(struct process_entry *entry, const char *comm, bool argv_changed)
{
	if (argv_changed && entry->comm[0] && strcmp(entry->comm, comm))
		entry->took_name = false;
	memcpy(entry->comm, comm, sizeof(entry->comm));
}

struct buried_name {
	struct buried_name *next;
	uint64_t scan, turn;
	char *text;
};

void process_bury_name(struct target_set *set, char *name)
{
	struct buried_name *buried = name ? malloc(sizeof(*buried)) : NULL;

	if (!buried)
		return; /* without memory it is never freed: a row may have it */
	*buried = (struct buried_name){set->buried_names, set->scan, set->turn, name};
	set->buried_names = buried;
}

void process_free_buried(struct target_set *set, bool all)
{
	struct buried_name **link = &set->buried_names, *buried;

	while ((buried = *link)) {
		if (!all && (set->scan < buried->scan + BURIED_SCANS ||
			     (set->turn && set->turn < buried->turn + BURIED_TURNS))) {
			link = &buried->next;
			continue;
		}
		*link = buried->next;
		free(buried->text);
		free(buried);
	}
}

int process_give_name(struct target_set *set, char **name, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	process_bury_name(set, *name);
	*name = copy;
	return 0;
}

void process_take_told(struct target_set *set, struct process_entry *entry)
{
	char name[PROBE_NAME_BYTES + 1];

	if (entry->argv.is_told && argv_take(entry, name, sizeof(name)) > 0 && !entry->has_argv)
		entry->has_argv = !process_give_name(set, &entry->name, name);
}

int process_read(struct target_set *set, struct process_entry *entry, int dir,
		 const struct proc_stat *stat)
{
	struct proc_status status;
	uint64_t read_ns =
		entry->argv.is_told ? entry->argv.asked_ns : clock_now_ns(CLOCK_BOOTTIME);
	char name[256];
	int len = read_argv0(set, entry, dir, name, sizeof(name));
	bool has_argv = len > 0, changed = false;
	int err;

	entry->read_ns = read_ns;
	entry->held_up = process_is_for_later(len);
	if (len <= 0)
		snprintf(name, sizeof(name), "%s", stat->comm);
	/* A zombie has lost its argv; the name that it had is the better one. */
	if (!entry->name || (has_argv && strcmp(name, entry->name)) ||
	    (!has_argv && !entry->has_argv && strcmp(name, entry->name))) {
		changed = entry->name;
		err = process_give_name(set, &entry->name, name);
		if (err)
			return err;
		entry->has_argv = has_argv;
	}
	take_comm(entry, stat->comm, changed);
	entry->ppid = stat->ppid;
	err = proc_status(dir, &status);
	if (err)
		return err;
	entry->uid = (uid_t)status.uid.value;
	return status.tgid && status.tgid != entry->key.pid ? -ESRCH
							    : 0; /* a thread is no process */
}

/* /proc has no answer about this process. One that could not be asked, for want of descriptors or
 * memory, is as it was; at the start nothing is known, and the want is the answer. */
int process_no_answer(struct target_set *set, struct process_entry *entry, int err,
		      target_change_fn on_change, void *ctx)
{
	if (!process_is_for_later(err)) {
		if (entry)
			process_retire(set, entry, on_change, ctx);
		return 0;
	}
	set->unread++;
	if (entry)
		entry->seen_scan = set->scan;
	return set->scan == 1 ? err : 0;
}

/* Put the answer of /proc about pid into the table. 0, *entry NULL: it is gone, or /proc could not
 * be asked. */
int process_load(struct target_set *set, pid_t pid, int dir, struct process_entry **out,
		 target_change_fn on_change, void *ctx)
{
	struct process_entry *entry = process_find_live(set, pid);
	struct proc_stat stat;
	int err = proc_stat(dir, &stat);

	*out = NULL;
	if (err)
		return process_no_answer(set, entry, err, on_change, ctx);
	if (entry && entry->key.start_ticks != stat.start_ticks) {
		process_retire(set, entry, on_change, ctx);
		entry = NULL;
	}
	if (!entry) {
		entry = find_in_tick(set, pid, stat.start_ticks);
		if (!entry) {
			entry = calloc(1, sizeof(*entry));
			if (!entry)
				return -ENOMEM;
			entry->key.pid = pid;
			entry->key.start_ticks = stat.start_ticks;
			HASH_ADD(by_key, set->entries, key, sizeof(entry->key), entry);
		}
		entry->live = true;
		entry->dead = false;
		HASH_ADD(by_pid, set->live, key.pid, sizeof(pid_t), entry);
		entry->argv.until_ns =
			set->is_finding ? 0 : clock_now_ns(CLOCK_BOOTTIME) + PATIENT_NS;
	}
	if (entry->next_start_boot_ns) {
		describes(entry, entry->next_start_boot_ns);
		entry->is_decided = entry->has_argv = false;
		argv_forget(set, entry);
	}
	entry->dead = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
	err = process_read(set, entry, dir, &stat);
	if (err == -ENOMEM || !entry->name) {
		process_drop(set, entry);
		return err;
	}
	if (err) /* died between the files */
		return process_no_answer(set, entry, err, on_change, ctx);
	plan_next_read(entry, clock_now_ns(CLOCK_BOOTTIME));
	/* A scan that is midway may have passed its number already. */
	entry->seen_scan = set->scan;
	*out = entry;
	return 0;
}
