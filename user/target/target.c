/* SPDX-License-Identifier: BSD-2-Clause */
/* The set of targets, and the questions that others ask. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/read.h"
#include "target/set.h"
#include "util/clock.h"

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
		set->has_names |= specs[i].kind == TARGET_NAME;
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
	set->is_finding = probes;
}

void target_set_on_names(struct target_set *set, void (*on_names)(void *ctx), void *ctx)
{
	set->argv.on_told = on_names;
	set->argv.ctx = ctx;
}

void target_set_free(struct target_set *set)
{
	struct process_entry *entry, *next;

	if (!set)
		return;
	follow_free(set);
	HASH_ITER (by_key, set->entries, entry, next)
		process_drop(set, entry);
	process_free_buried(set, true);
	argv_free(set);
	if (set->proc)
		closedir(set->proc);
	packages_free(&set->packages);
	free(set->watched);
	free(set->specs);
	free(set->root);
	free(set);
}

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

uint64_t target_set_take_unmet(struct target_set *set)
{
	uint64_t unmet = set->unmet;

	set->unmet = 0;
	return unmet;
}

const struct target_process *target_set_find(const struct target_set *set, pid_t pid)
{
	struct process_entry *entry = process_find_live(set, pid);

	return entry ? entry->watched : NULL;
}

const struct target_process *target_set_at(const struct target_set *set, size_t n)
{
	return n < set->watched_count ? set->watched[n]->watched : NULL;
}

size_t target_set_expected(const struct target_set *set)
{
	const struct process_entry *entry, *next;
	size_t count = set->watched_count;

	HASH_ITER (by_key, set->entries, entry, next)
		count += entry->live && !entry->watched && entry->argv.is_wanted &&
			 !entry->is_decided &&
			 (set->has_names || target_set_has_uid(set, entry->uid));
	return count;
}

const char *target_package_of_uid(struct target_set *set, uid_t uid)
{
	const struct package_row *row = packages_of_uid(&set->packages, uid);

	return row && !row->shared ? row->name : NULL;
}

static struct process_entry *entry_of(const struct target_set *set, pid_t pid,
				      uint64_t start_boot_ns)
{
	struct process_entry *entry = process_find(set, pid, start_boot_ns);

	/* It may describe a later owner of the pid that began in the same tick. */
	return entry && !entry->start_boot_ns && follow_left_pid(set, pid, start_boot_ns) ? NULL
											  : entry;
}

/* The owner of the pid is not the process that began at that time in the same tick, which is gone.
 */
static bool is_another(const struct process_entry *owner, uint64_t start_boot_ns)
{
	return owner->key.start_ticks == start_boot_ns / PROC_TICK_NS &&
	       owner->next_start_boot_ns != start_boot_ns;
}

const char *target_process_name(struct target_set *set, pid_t pid, uint64_t start_boot_ns)
{
	uint64_t start_ticks = start_boot_ns / PROC_TICK_NS;
	struct process_entry *entry =
		start_boot_ns ? entry_of(set, pid, start_boot_ns) : process_find_live(set, pid);
	const char *told;
	int dir;

	/* What the kernel side has told need not be read, and the next scan does. */
	if (!entry && (told = follow_argv(set, pid, start_boot_ns)))
		return told;
	if (!entry) {
		struct process_entry *other = process_find_live(set, pid);
		struct proc_stat stat;

		/* Its exit is the next scan's to report. Or the pid is known to be another's. */
		dir = other && (other->watched || is_another(other, start_boot_ns))
			      ? -ESRCH
			      : proc_open(set->root, pid);
		if (dir < 0)
			return follow_name(set, pid, start_boot_ns);
		/* Another process under that pid is not an answer, and is left to the scan. */
		if (!proc_stat(dir, &stat) && (!start_boot_ns || stat.start_ticks == start_ticks))
			(void)process_load(set, pid, dir, &entry, NULL, NULL);
		close(dir);
		if (!entry)
			return follow_name(set, pid, start_boot_ns);
	}
	entry->used_scan = set->scan;
	/* Where it is not read yet, or not since its last execve, the kernel side may have told it.
	 */
	return (process_is_awaited(entry) ? follow_name(set, pid, start_boot_ns)
					  : follow_program(set, pid, start_boot_ns,
							   entry->has_argv ? entry->read_ns : 0))
		       ?: entry->name;
}

void target_process_renamed(struct target_set *set, pid_t pid, uint64_t start_boot_ns,
			    const char *comm)
{
	uint64_t start_ticks = start_boot_ns / PROC_TICK_NS;
	struct process_entry *entry = entry_of(set, pid, start_boot_ns);
	struct proc_stat stat;
	int dir;

	if (!entry || process_give_name(set, &entry->name, comm))
		return;
	entry->has_argv = false;
	/* What was asked for is the name of the program before. */
	argv_forget(set, entry);
	process_read_soon(entry);
	dir = entry->next_start_boot_ns ? -ESRCH : proc_open(set->root, pid);
	if (dir < 0)
		return;
	if (!proc_stat(dir, &stat) && stat.start_ticks == start_ticks)
		(void)process_read(set, entry, dir, &stat);
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

uint64_t target_packages_take_rejected(struct target_set *set)
{
	uint64_t rejected = set->packages.rejected;

	set->packages.rejected = 0;
	return rejected;
}
