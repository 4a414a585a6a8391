/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process a target means, and whose package a process is. */
#include "target/set.h"
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
		row = packages_of_name(&set->packages, spec->spec.name);
		spec->package = row != NULL;
		spec->by_uid = row && !row->shared && row->app_id >= PACKAGES_FIRST_APP;
		spec->app_id = row ? row->app_id : 0;
	}
}

/* argv[0] is NAME, or "NAME:suffix"; where NAME is no package, also the last part of a path. An
 * interpreter's script is an argument and does not count. */
static bool name_matches(const struct resolved_spec *spec, const char *argv0)
{
	const char *name = spec->spec.name, *slash;
	size_t len = strlen(name);

	if (!len)
		return false;
	if (!strncmp(argv0, name, len) && (!argv0[len] || argv0[len] == ':'))
		return true;
	/* A text of setproctitle ("sshd: /x") is not a path. */
	if (spec->package || strchr(name, '/') || strstr(argv0, ": "))
		return false;
	slash = strrchr(argv0, '/');
	return slash && !strcmp(slash + 1, name);
}

bool target_spec_matches(struct resolved_spec *spec, const struct process_view *view)
{
	const struct process_entry *entry = view->entry;

	switch (spec->spec.kind) {
	case TARGET_PID:
		if (spec->spec.pid != entry->key.pid)
			return false;
		if (!spec->pinned) {
			spec->pinned = true;
			spec->start_ticks = entry->key.start_ticks;
		}
		return spec->start_ticks == entry->key.start_ticks;
	case TARGET_UID:
		return entry->uid == spec->spec.uid;
	case TARGET_NAME:
		if (entry->has_argv && name_matches(spec, entry->name))
			return true;
		/* A process name of the app's own choice, isolated or not. */
		if (!spec->by_uid)
			return false;
		return entry->uid % PACKAGES_USER_RANGE == spec->app_id ||
		       (view->has_cgroup_app &&
			view->cgroup_uid % PACKAGES_USER_RANGE == spec->app_id);
	}
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
