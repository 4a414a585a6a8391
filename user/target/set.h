/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this room share. */
#pragma once
#include <dirent.h>
#include <uthash.h>
#include "jankscope/target.h"
#include "target/packages.h"

/* A process that was seen, watched or not. */
struct process_entry {
	struct process_key {
		pid_t pid;
		uint32_t zero; /* no padding in a hash key */
		uint64_t start_ticks;
	} key;
	UT_hash_handle by_key;
	UT_hash_handle by_pid;
	uint64_t ino;          /* of /proc/PID: a new number when the pid is used again */
	uint64_t next_read_ns; /* CLOCK_BOOTTIME */
	uint64_t seen_scan, used_scan;
	char *name;
	uid_t uid;
	bool live, has_argv, dead;
	bool held_up; /* its argv could not be waited for: read at the next scan */
	/* what was asked for without waiting since, and what came of it */
	struct prober_pool *asked_of;
	int64_t asked; /* its id; 0: none */
	char *told;
	struct target_process *watched; /* NULL: not watched */
	size_t index;                   /* in the set's watched array */
};

struct resolved_spec {
	struct target_spec spec;
	bool pinned; /* TARGET_PID: this start time or nothing */
	uint64_t start_ticks;
	bool by_uid; /* TARGET_NAME: a package that has its uid for itself */
	bool package;
	uid_t app_id;
};

struct target_set {
	char *root;
	struct resolved_spec *specs;
	size_t spec_count;
	bool only_pids;
	struct packages packages;
	DIR *proc;
	struct process_entry *entries, *live; /* by identity; by pid */
	struct process_entry **watched;
	size_t watched_count, watched_room;
	uint64_t scan;
	uint64_t unread; /* times that a process could not be asked about, not told yet */
	struct prober_pool *probes; /* NULL: read here, without a bound */
	uint64_t patient_until_ns;  /* CLOCK_BOOTTIME: the first scan */
};

/* What of a process decides whether it is meant. */
struct process_view {
	const struct process_entry *entry;
	bool has_cgroup_app;
	uid_t cgroup_uid;
};

/* Look the names up among the packages, again after these have changed. */
void target_resolve_specs(struct target_set *set);
/* Pins a TARGET_PID to the first process it is shown. */
bool target_spec_matches(struct resolved_spec *spec, const struct process_view *view);
/* The set's own text, valid until the packages are read again; NULL: no package's. */
const char *target_package_of(const struct target_set *set, const struct process_view *view);
