/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process a target means, and whose package a process is. */
#include "target/set.h"
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

void target_resolve_specs(struct target_set *set)
{
	size_t i;

	for (i = 0; i < set->spec_count; i++) {
		struct resolved_spec *spec = &set->specs[i];
		const struct package_row *row;

		if (spec->spec.kind != TARGET_NAME)
			continue;
		spec->is_glob = strpbrk(spec->spec.name, "*?[") != NULL;
		row = packages_of_name(&set->packages, spec->spec.name);
		spec->package = row != NULL;
		spec->by_uid = row && !row->shared && row->app_id >= PACKAGES_FIRST_APP;
		spec->app_id = row ? row->app_id : 0;
	}
}

/* A name that matches literally matches, whatever characters it is made of. */
static bool text_matches(const struct resolved_spec *spec, const char *text)
{
	return !strcmp(spec->spec.name, text) ||
	       (spec->is_glob && !fnmatch(spec->spec.name, text, 0));
}

/* argv[0] is NAME, or "NAME:suffix"; where NAME is no package, also the last part of a path. An
 * interpreter's script is an argument and does not count. */
static bool argv0_matches(const struct resolved_spec *spec, const char *argv0)
{
	const char *name = spec->spec.name, *slash;
	size_t len = strlen(name);
	char first[256];

	if (!*argv0)
		return false;
	if (text_matches(spec, argv0))
		return true;
	if (!strncmp(argv0, name, len) && argv0[len] == ':')
		return true;
	if (spec->is_glob && strchr(argv0, ':')) {
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(argv0, ":"), argv0);
		if (text_matches(spec, first))
			return true;
	}
	/* A text of setproctitle ("sshd: /x") is not a path. */
	if (spec->package || strchr(name, '/') || strstr(argv0, ": "))
		return false;
	slash = strrchr(argv0, '/');
	return slash && text_matches(spec, slash + 1);
}

bool target_names_match(const struct target_set *set, const char *argv0, const char *comm)
{
	for (size_t i = 0; i < set->spec_count; i++) {
		const struct resolved_spec *spec = &set->specs[i];

		if (spec->spec.kind != TARGET_NAME || !spec->spec.name[0])
			continue;
		if ((argv0 && argv0_matches(spec, argv0)) ||
		    (comm && *comm && text_matches(spec, comm)))
			return true;
	}
	return false;
}

bool target_pid_matches(struct target_set *set, const struct process_entry *entry)
{
	for (size_t i = 0; i < set->spec_count; i++) {
		struct resolved_spec *spec = &set->specs[i];

		if (spec->spec.kind != TARGET_PID || spec->spec.pid != entry->key.pid)
			continue;
		if (!spec->pinned) {
			spec->pinned = true;
			spec->start_ticks = entry->key.start_ticks;
		}
		if (spec->start_ticks == entry->key.start_ticks)
			return true;
	}
	return false;
}

/* A uid of its own is a package's, or a glob's that means the package. */
static bool is_uid_of(const struct target_set *set, const struct resolved_spec *spec, uid_t uid)
{
	const struct package_row *row;

	if (spec->by_uid && uid % PACKAGES_USER_RANGE == spec->app_id)
		return true;
	if (!spec->is_glob)
		return false;
	row = packages_of_uid(&set->packages, uid);
	return row && !row->shared && row->app_id >= PACKAGES_FIRST_APP &&
	       text_matches(spec, row->name);
}

bool target_set_has_uid(const struct target_set *set, uid_t uid)
{
	for (size_t i = 0; i < set->spec_count; i++) {
		const struct resolved_spec *spec = &set->specs[i];

		if (spec->spec.kind == TARGET_UID && spec->spec.uid == uid)
			return true;
		if (spec->spec.kind == TARGET_NAME && is_uid_of(set, spec, uid))
			return true;
	}
	return false;
}

bool target_cgroup_matches(const struct target_set *set, const struct process_view *view)
{
	for (size_t i = 0; view->has_cgroup_app && i < set->spec_count; i++)
		if (set->specs[i].spec.kind == TARGET_NAME &&
		    is_uid_of(set, &set->specs[i], view->cgroup_uid))
			return true;
	return false;
}

const char *target_package_of(const struct target_set *set, const struct process_view *view)
{
	const struct process_entry *entry = view->entry;
	const struct package_row *row = packages_of_uid(&set->packages, entry->uid), *named = NULL;
	char name[256];

	if (!set->packages.count)
		return NULL;
	if (row && !row->shared)
		return row->name;
	/* Shared or isolated: the name decides, as far as it is a package's. */
	if (entry->has_argv) {
		snprintf(name, sizeof(name), "%s", entry->name);
		name[strcspn(name, ":")] = '\0';
		named = packages_of_name(&set->packages, name);
	}
	if (named && (!row || named->app_id == row->app_id))
		return named->name;
	if (!row && view->has_cgroup_app)
		row = packages_of_uid(&set->packages, view->cgroup_uid);
	return row ? row->name : NULL;
}

bool target_cgroup_app(const char *path, uid_t *uid, pid_t *pid)
{
	const char *at = path;
	unsigned u;
	int p;

	while ((at = strstr(at, "/uid_"))) {
		if (sscanf(at, "/uid_%u/pid_%d", &u, &p) == 2) {
			*uid = u;
			*pid = p;
			return true;
		}
		at++;
	}
	return false;
}
