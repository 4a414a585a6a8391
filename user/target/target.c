/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/pool.h"
#include "target/procfs.h"
#include "target/set.h"
#include "util/spare_fd.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A process is read again when its age has grown by half (fork, then exec or setArgV0), very young
 * ones at every scan, old ones now and then: a wrapper may exec late, a daemon may rename itself.
 * A read costs some 20 us, a process that is only passed by 0.7 us. */
#define YOUNG_NS   100000000ull
#define OLD_NS     30000000000ull
#define KEEP_SCANS 32 /* how long an unused name is kept */
#define PATIENT_NS 1000000000ull
#define ARGV_NS    1000000000ull /* for one that could not be waited for */

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

static uint64_t boot_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

struct target_set *target_set_new(const struct target_spec *specs, size_t count, const char *root)
{
	struct target_set *set = calloc(1, sizeof(*set));
	size_t i;
	int err;

	if (!set)
		return NULL;
	set->root = strdup(root ? root : "");
	set->specs = calloc(count + 1, sizeof(*set->specs));
	if (!set->root || !set->specs)
		goto no_memory;
	set->spec_count = count;
	set->only_pids = count > 0;
	for (i = 0; i < count; i++) {
		set->specs[i].spec = specs[i];
		set->specs[i].spec.name[sizeof(specs[i].name) - 1] = '\0';
		if (specs[i].kind != TARGET_PID)
			set->only_pids = false;
	}
	err = packages_refresh(&set->packages, set->root);
	if (err == -ENOMEM)
		goto no_memory;
	target_resolve_specs(set);
	return set;
no_memory:
	target_set_free(set);
	errno = ENOMEM;
	return NULL;
}

void target_set_bound(struct target_set *set, struct prober_pool *probes)
{
	set->probes = probes;
}

/* ---- one process ---- */

static int watch(struct target_set *set, struct process_entry *entry, int dir)
{
	struct procfs_stat stat;
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
	process->start_boot_ns = entry->key.start_ticks * PROCFS_TICK_NS;
	process->pidfd = -1;
#ifdef SYS_pidfd_open
	/* Linux 5.3. In a fixture the number is another process's. */
	if (!set->root[0]) {
		process->pidfd = spare_fd((int)syscall(SYS_pidfd_open, entry->key.pid, 0));
		if (process->pidfd < 0)
			process->pidfd = -1;
		/* Alive after the open: so the pidfd is of this very process. */
		err = procfs_stat(dir, &stat);
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

static void unwatch(struct target_set *set, struct process_entry *entry, target_change_fn on_change,
		    void *ctx)
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

static struct process_entry *find_live(const struct target_set *set, pid_t pid)
{
	struct process_entry *entry;

	HASH_FIND(by_pid, set->live, &pid, sizeof(pid), entry);
	return entry;
}

static struct process_entry *find_identity(const struct target_set *set, pid_t pid,
					   uint64_t start_ticks)
{
	struct process_key key = {.pid = pid, .start_ticks = start_ticks};
	struct process_entry *entry;

	HASH_FIND(by_key, set->entries, &key, sizeof(key), entry);
	return entry;
}

/* The pid is no longer this process. Its name is kept for a while: its last samples come later. */
static void retire(struct target_set *set, struct process_entry *entry, target_change_fn on_change,
		   void *ctx)
{
	unwatch(set, entry, on_change, ctx);
	if (entry->live)
		HASH_DELETE(by_pid, set->live, entry);
	entry->live = false;
	entry->dead = true;
	entry->used_scan = set->scan;
}

static void forget_asked(struct process_entry *entry)
{
	if (entry->asked)
		probe_cancel(entry->asked_of, entry->asked);
	entry->asked = 0;
	free(entry->told);
	entry->told = NULL;
}

static void drop(struct target_set *set, struct process_entry *entry)
{
	unwatch(set, entry, NULL, NULL);
	if (entry->live)
		HASH_DELETE(by_pid, set->live, entry);
	HASH_DELETE(by_key, set->entries, entry);
	forget_asked(entry);
	free(entry->name);
	free(entry);
}

static void plan_next_read(struct process_entry *entry, uint64_t now_ns)
{
	uint64_t start_ns = entry->key.start_ticks * PROCFS_TICK_NS;
	uint64_t age_ns = now_ns > start_ns ? now_ns - start_ns : 0;

	if (entry->held_up || age_ns < YOUNG_NS || (entry->has_argv && may_specialise(entry->name)))
		entry->next_read_ns = now_ns;
	else if (age_ns < 2 * OLD_NS)
		entry->next_read_ns = now_ns + age_ns / 2;
	else /* spread, so that what was found together is not read together */
		entry->next_read_ns = now_ns + OLD_NS + entry->key.pid % 1024 * (OLD_NS / 1024);
}

static void on_argv(void *ctx, int err, const struct probe_answer *answer)
{
	struct process_entry *entry = ctx;

	entry->asked = 0;
	if (!err && answer->length)
		entry->told = strndup(answer->data, answer->length);
}

/* procfs_argv0 by a prober, because the argv is read from the process's memory. The name of one
 * that could not be waited for comes without a wait, by the next scan: on a machine that is busy
 * all the time each wait could be too short. */
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
	ssize_t n;

	if (!set->probes)
		return procfs_argv0(dir, name, size);
	/* The first scan is the one that reads them all; nothing is measured yet. */
	if (set->patient_until_ns && boot_now_ns() < set->patient_until_ns)
		probe_new_turn(set->probes);
	if (entry->told) {
		snprintf(name, size, "%s", entry->told);
		forget_asked(entry);
		return (int)strlen(name);
	}
	if (entry->asked)
		return -EBUSY;
	if (entry->held_up) {
		entry->asked_of = set->probes;
		entry->asked =
			probe_ask(set->probes, &request, NULL, 0, NULL, 0, ARGV_NS, on_argv, entry);
		if (entry->asked > 0)
			return -EBUSY;
		entry->asked = 0;
	}
	n = probe_call(set->probes, &request, name, size - 1);
	if (n < 0)
		return (int)n;
	name[n] = 0;
	return (int)strlen(name);
}

/* The reader could not do it now; the process has nothing to do with it, or holds it up. */
static bool is_for_later(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY || err == -EPIPE || err == -EMFILE ||
	       err == -ENFILE || err == -ENOMEM;
}

/* Name and uid of a process whose folder is open. What cannot be read keeps its old value. */
static int read_process(struct target_set *set, struct process_entry *entry, int dir,
			const struct procfs_stat *stat)
{
	char name[256];
	int len = read_argv0(set, entry, dir, name, sizeof(name));
	bool has_argv = len > 0;
	pid_t tgid;
	int err;

	entry->held_up = is_for_later(len);
	if (len <= 0)
		snprintf(name, sizeof(name), "%s", stat->comm);
	/* A zombie has lost its argv; the name that it had is the better one. */
	if (!entry->name || (has_argv && strcmp(name, entry->name)) ||
	    (!has_argv && !entry->has_argv && strcmp(name, entry->name))) {
		char *copy = strdup(name);

		if (!copy)
			return -ENOMEM;
		free(entry->name);
		entry->name = copy;
		entry->has_argv = has_argv;
	}
	err = procfs_status(dir, &entry->uid, &tgid);
	return !err && tgid && tgid != entry->key.pid ? -ESRCH : err; /* a thread is no process */
}

/* /proc has no answer about this process. One that could not be asked, for want of descriptors or
 * memory, is as it was; at the start nothing is known, and the want is the answer. */
static int no_answer(struct target_set *set, struct process_entry *entry, int err,
		     target_change_fn on_change, void *ctx)
{
	if (!is_for_later(err)) {
		if (entry)
			retire(set, entry, on_change, ctx);
		return 0;
	}
	set->unread++;
	if (entry)
		entry->seen_scan = set->scan;
	return set->scan == 1 ? err : 0;
}

/* Put the answer of /proc about pid into the table. 0, *entry NULL: it is gone, or /proc could not
 * be asked. */
static int load(struct target_set *set, pid_t pid, int dir, struct process_entry **out,
		target_change_fn on_change, void *ctx)
{
	struct process_entry *entry = find_live(set, pid);
	struct procfs_stat stat;
	int err = procfs_stat(dir, &stat);

	*out = NULL;
	if (err)
		return no_answer(set, entry, err, on_change, ctx);
	if (entry && entry->key.start_ticks != stat.start_ticks) {
		retire(set, entry, on_change, ctx);
		entry = NULL;
	}
	if (!entry) {
		entry = find_identity(set, pid, stat.start_ticks);
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
	}
	entry->dead = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
	err = read_process(set, entry, dir, &stat);
	if (err == -ENOMEM || !entry->name) {
		drop(set, entry);
		return err;
	}
	if (err) /* died between the files */
		return no_answer(set, entry, err, on_change, ctx);
	plan_next_read(entry, boot_now_ns());
	*out = entry;
	return 0;
}

static int visit(struct target_set *set, pid_t pid, uint64_t ino, uint64_t now_ns,
		 target_change_fn on_change, void *ctx)
{
	struct process_entry *entry = find_live(set, pid);
	struct process_view view = {0};
	struct target_process *process;
	char path[1024];
	bool match = false;
	pid_t unused;
	size_t i;
	int dir, err;

	if (entry && entry->ino == ino && now_ns < entry->next_read_ns &&
	    !(entry->watched && entry->watched->pidfd < 0)) {
		entry->seen_scan = set->scan;
		return 0;
	}
	dir = procfs_open(set->root, pid);
	if (dir < 0) /* gone since the readdir, mostly */
		return no_answer(set, entry, dir, on_change, ctx);
	err = load(set, pid, dir, &entry, on_change, ctx);
	if (err || !entry)
		goto cleanup;
	entry->ino = ino;
	entry->seen_scan = set->scan;
	entry->used_scan = set->scan;
	view.entry = entry;
	if (set->packages.count && !procfs_cgroup(dir, path, sizeof(path)))
		view.has_cgroup_app = procfs_cgroup_app(path, &view.cgroup_uid, &unused);
	for (i = 0; i < set->spec_count && !match; i++)
		match = target_spec_matches(&set->specs[i], &view);
	/* A target whose name could not be read again just now is a target still. */
	match |= entry->held_up && entry->watched;
	if (!match || entry->dead) {
		unwatch(set, entry, on_change, ctx);
		goto cleanup;
	}
	process = entry->watched;
	if (!process) {
		err = watch(set, entry, dir);
		if (err) {
			err = is_for_later(err) ? no_answer(set, entry, err, on_change, ctx) : 0;
			goto cleanup;
		}
	}
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
	for (end = set->watched_count; end > 0; end = first) {
		first = end > 256 ? end - 256 : 0;
		for (i = first; i < end; i++)
			wait[i - first] = (struct pollfd){.fd = set->watched[i]->watched->pidfd,
							  .events = POLLIN};
		if (poll(wait, end - first, 0) <= 0)
			continue;
		for (i = end; i-- > first;)
			if (wait[i - first].revents) {
				set->watched[i]->dead = true;
				unwatch(set, set->watched[i], on_change, ctx);
			}
	}
}

static int scan_proc(struct target_set *set, uint64_t now_ns, target_change_fn on_change, void *ctx)
{
	struct dirent *item;
	size_t i;
	int err = 0;

	if (set->only_pids) {
		for (i = 0; i < set->spec_count && !err; i++)
			err = visit(set, set->specs[i].spec.pid, 0, now_ns, on_change, ctx);
		return err;
	}
	if (!set->proc) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/proc", set->root);
		set->proc = opendir(path);
		if (!set->proc)
			return -errno;
	}
	rewinddir(set->proc);
	while (!err && (item = readdir(set->proc))) {
		unsigned long pid;
		char *end;

		if (item->d_name[0] < '1' || item->d_name[0] > '9')
			continue;
		pid = strtoul(item->d_name, &end, 10);
		if (*end || pid > INT32_MAX)
			continue;
		err = visit(set, (pid_t)pid, item->d_ino, now_ns, on_change, ctx);
	}
	return err;
}

int target_set_scan(struct target_set *set, target_change_fn on_change, void *ctx)
{
	struct process_entry *entry, *next;
	uint64_t now_ns = boot_now_ns();
	int err;

	set->scan++;
	/* A list that cannot be read leaves the old names; the scan goes on. */
	err = packages_refresh(&set->packages, set->root);
	if (err == -ENOMEM)
		return err;
	if (err == 1) {
		target_resolve_specs(set);
		/* A new package may own processes that are known already. */
		HASH_ITER (by_pid, set->live, entry, next)
			entry->next_read_ns = 0;
	}
	err = 0;
	poll_pidfds(set, on_change, ctx);
	set->patient_until_ns = set->scan == 1 ? now_ns + PATIENT_NS : 0;
	if (set->spec_count)
		err = scan_proc(set, now_ns, on_change, ctx);
	set->patient_until_ns = 0;
	if (err)
		return err;
	HASH_ITER (by_key, set->entries, entry, next) {
		if (set->spec_count && entry->live && entry->seen_scan != set->scan &&
		    !(set->only_pids && !entry->watched))
			retire(set, entry, on_change, ctx);
		if ((!entry->live || !set->spec_count || set->only_pids) && !entry->watched) {
			if (set->scan - entry->used_scan > KEEP_SCANS)
				drop(set, entry);
			else if (entry->live && now_ns >= entry->next_read_ns) {
				int dir = procfs_open(set->root, entry->key.pid);
				struct process_entry *now;

				if (dir < 0) {
					no_answer(set, entry, dir, on_change, ctx);
					continue;
				}
				err = load(set, entry->key.pid, dir, &now, on_change, ctx);
				close(dir);
				if (err)
					return err;
			}
		}
	}
	return set->watched_count > INT32_MAX ? INT32_MAX : (int)set->watched_count;
}

void target_set_free(struct target_set *set)
{
	struct process_entry *entry, *next;

	if (!set)
		return;
	HASH_ITER (by_key, set->entries, entry, next)
		drop(set, entry);
	if (set->proc)
		closedir(set->proc);
	packages_free(&set->packages);
	free(set->watched);
	free(set->specs);
	free(set->root);
	free(set);
}

/* ---- questions ---- */

bool target_set_is_all(const struct target_set *set)
{
	return !set->spec_count;
}

uint64_t target_set_take_unread(struct target_set *set)
{
	uint64_t unread = set->unread;

	set->unread = 0;
	return unread;
}

bool target_set_has_uid(const struct target_set *set, uid_t uid)
{
	for (size_t i = 0; i < set->spec_count; i++) {
		const struct resolved_spec *spec = &set->specs[i];

		if (spec->spec.kind == TARGET_UID && spec->spec.uid == uid)
			return true;
		if (spec->by_uid && uid % PACKAGES_USER_RANGE == spec->app_id)
			return true;
	}
	return false;
}

const struct target_process *target_set_find(const struct target_set *set, pid_t pid)
{
	struct process_entry *entry = find_live(set, pid);

	return entry ? entry->watched : NULL;
}

const struct target_process *target_set_at(const struct target_set *set, size_t n)
{
	return n < set->watched_count ? set->watched[n]->watched : NULL;
}

const char *target_package_of_uid(struct target_set *set, uid_t uid)
{
	const struct package_row *row = packages_of_uid(&set->packages, uid);

	return row ? row->name : NULL;
}

const char *target_process_name(struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	uint64_t start_ticks = start_boot_ns / PROCFS_TICK_NS;
	struct process_entry *entry =
		start_boot_ns ? find_identity(set, pid, start_ticks) : find_live(set, pid);
	int dir;

	if (!entry) {
		struct process_entry *other = find_live(set, pid);
		struct procfs_stat stat;

		if (other && other->watched)
			return NULL; /* its exit is the next scan's to report */
		dir = procfs_open(set->root, pid);
		if (dir < 0)
			return NULL;
		/* Another process under that pid is not an answer, and is left to the scan. */
		if (!procfs_stat(dir, &stat) && (!start_boot_ns || stat.start_ticks == start_ticks))
			(void)load(set, pid, dir, &entry, NULL, NULL);
		close(dir);
		if (!entry)
			return NULL;
	}
	entry->used_scan = set->scan;
	return entry->name;
}

void target_process_renamed(struct target_set *set, pid_t pid, uint64_t start_boot_ns,
			    const char *comm)
{
	uint64_t start_ticks = start_boot_ns / PROCFS_TICK_NS;
	struct process_entry *entry = find_identity(set, pid, start_ticks);
	struct procfs_stat stat;
	char *name;
	int dir;

	name = entry ? strdup(comm) : NULL;
	if (!name)
		return;
	free(entry->name);
	entry->name = name;
	entry->has_argv = false;
	entry->next_read_ns = 0;
	dir = procfs_open(set->root, pid);
	if (dir < 0)
		return;
	if (!procfs_stat(dir, &stat) && stat.start_ticks == start_ticks)
		(void)read_process(set, entry, dir, &stat);
	close(dir);
}

const char *target_packages_origin(const struct target_set *set)
{
	switch (set->packages.origin) {
	case PACKAGES_LIST:
		return "packages.list";
	case PACKAGES_CMD:
		return "cmd package";
	case PACKAGES_NONE:
		break;
	}
	return NULL;
}

size_t target_packages_rejected(const struct target_set *set)
{
	return set->packages.rejected;
}
