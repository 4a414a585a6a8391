/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this room share. */
#pragma once
#include <dirent.h>
#include <uthash.h>
#include "jankscope/target.h"
#include "proc/stat.h"
#include "target/packages.h"

/* A process that a scan saw, watched or not. */
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
	uint64_t read_ns;      /* CLOCK_BOOTTIME: just before its names were read last */
	/* Two processes of one pid may begin in one tick, and then they share this entry. Which of
	 * them it describes, where the kernel side told of births, and which one took the pid since
	 * it was read; 0: not known. */
	uint64_t start_boot_ns, next_start_boot_ns;
	uint64_t seen_scan, used_scan, used_turn;
	char *name;
	char comm[PROC_COMM_LEN];
	pid_t ppid;
	uid_t uid;
	bool live, has_argv, dead;
	bool held_up;    /* its argv could not be waited for: read at the next scan */
	bool is_decided; /* whether it is meant, as far as its name was known */
	bool met;        /* it was watched: its start is told */
	/* It is a target by a name, or by its pid or its app's cgroup; not by a uid only. Both stay
	 * so when it is dead: its last samples come later. */
	bool by_name, by_other;
	uint64_t turned_ns;    /* CLOCK_BOOTTIME: when by_name changed; UNTOLD_NS */
	uint64_t untold_turn;  /* the set's turn when turned_ns became UNTOLD_NS */
	uint64_t unmatched_ns; /* CLOCK_BOOTTIME: when a scan last saw names that do not match */
	bool took_name;        /* by itself: it is a target until it runs another program */
	/* argv.c: its argv[0] is asked for without waiting, and what came of it */
	struct {
		struct process_entry *next, *prev, **list; /* list NULL: in none */
		char *told;
		int err;
		bool is_wanted;    /* asked for, or to be asked for */
		bool is_told;      /* told or err is the answer, not taken yet */
		bool alone;        /* it may hold up a prober: nobody else with it */
		uint64_t until_ns; /* CLOCK_BOOTTIME: from then on its comm may decide */
		uint64_t asked_ns; /* CLOCK_BOOTTIME: it was read since, if it is told */
	} argv;
	struct target_process *watched; /* NULL: not watched */
	size_t index;                   /* in the set's watched array */
};

struct resolved_spec {
	struct target_spec spec;
	bool pinned; /* TARGET_PID: this start time or nothing */
	uint64_t start_ticks;
	bool is_glob; /* TARGET_NAME: it may mean more than itself */
	bool by_uid;  /* TARGET_NAME: a package that has its uid for itself */
	bool package;
	uid_t app_id;
};

enum { ARGV_NEW, ARGV_KNOWN, ARGV_ALONE, ARGV_LISTS };

struct argv_request;
struct followed_process;

struct target_set {
	char *root;
	struct resolved_spec *specs;
	size_t spec_count;
	bool only_pids, has_names;
	struct packages packages;
	DIR *proc;
	struct process_entry *entries, *live; /* by identity; by pid */
	struct process_entry **watched;
	size_t watched_count, watched_room;
	uint64_t scan;
	uint64_t turn;   /* intervals closed; 0 where nobody closes any */
	uint64_t unread; /* times that a process could not be asked about, not told yet */
	uint64_t unmet;  /* targets that no scan met alive, not told yet */
	struct prober_pool *probes; /* NULL: read here, without a bound */
	/* argv.c */
	struct {
		struct process_entry *wanted[ARGV_LISTS], *told[ARGV_ALONE];
		struct argv_request *asked;
		unsigned asked_count[2]; /* of many processes; of one alone */
		uint64_t answered_ns;    /* CLOCK_BOOTTIME: the last answer */
		void (*on_told)(void *ctx);
		void *ctx;
	} argv;
	bool is_scanning; /* nobody waits for the names */
	bool is_finding;  /* names of processes that the first scan met are awaited */
	/* A scan is made in slices, so that the recorder's loop has its turns between them. */
	uint64_t born_ns;       /* CLOCK_BOOTTIME: the first scan */
	uint64_t until_ns;      /* CLOCK_MONOTONIC: the end of the slice at work; 0: no bound */
	uint64_t took_ns;       /* CPU time of the scan so far */
	uint64_t rest_until_ns; /* CLOCK_BOOTTIME: no scan before it */
	uint64_t walk_after_ns; /* CLOCK_BOOTTIME: until then a scan looks at new numbers only */
	pid_t newest[2];        /* the last number given out, by the two looks before; 0: unknown */
	bool is_midway;         /* the scan goes on with the next slice */
	pid_t next_pid;         /* where; 0: with what the folder tells next */
	uint64_t next_ino;
	/* follow.c */
	struct followed_process *followed, *followed_by_pid;
	uint64_t told_since_ns; /* CLOCK_BOOTTIME: the kernel side tells births and names; 0: no */
	bool any_untold;        /* turned_ns of some process is UNTOLD_NS */
	struct buried_name *buried_names; /* process.c */
	uint64_t unnamed;                 /* isolated processes that ended nameless, not told yet */
};

/* ---- match.c ---- */

/* What of a process decides whether it is meant. */
struct process_view {
	const struct process_entry *entry;
	bool has_cgroup_app;
	uid_t cgroup_uid;
};

/* Look the names up among the packages, again after these have changed. */
void target_resolve_specs(struct target_set *set);
/* A TARGET_NAME of the set means a process with these names; argv0 may be NULL: not known. */
bool target_names_match(const struct target_set *set, const char *argv0, const char *comm);
/* A TARGET_PID means it; pins the spec to the first process that it is shown. */
bool target_pid_matches(struct target_set *set, const struct process_entry *entry);
/* An isolated process of a package that is a target, by its cgroup. */
bool target_cgroup_matches(const struct target_set *set, const struct process_view *view);
/* The set's own text, valid until the packages are read again; NULL: no package's. */
const char *target_package_of(const struct target_set *set, const struct process_view *view);
/* Find "uid_U/pid_P" anywhere in a cgroup path (Android 16 puts it below apps/ or system/;
 * libprocessgroup/processgroup.cpp). False if it is not there. */
bool target_cgroup_app(const char *path, uid_t *uid, pid_t *pid);

/* ---- process.c ---- */

struct process_entry *process_find_live(const struct target_set *set, pid_t pid);
/* The entry of the process that began at that time, to the nanosecond where both know it so well;
 * a whole number of ticks is a start time that /proc told. */
struct process_entry *process_find(const struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* The kernel side told of the birth of a process. */
void process_born(const struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* Put the answer of /proc about pid, whose folder is dir, into the table. 0, *out NULL: it is gone,
 * or /proc could not be asked. */
int process_load(struct target_set *set, pid_t pid, int dir, struct process_entry **out,
		 target_change_fn on_change, void *ctx);
/* A scan saw it and cannot say yet whether it is meant: its name is on its way. */
static inline bool process_is_awaited(const struct process_entry *entry)
{
	return entry->argv.is_wanted && !entry->is_decided && !entry->has_argv;
}

/* The entry of a process that has ended takes the argv[0] that a prober told of it. */
void process_take_told(struct target_set *set, struct process_entry *entry);
/* Name and uid of a process whose folder is open. What cannot be read keeps its old value. 0,
 * -ESRCH (it is a thread), or -errno. */
int process_read(struct target_set *set, struct process_entry *entry, int dir,
		 const struct proc_stat *stat);
/* /proc has no answer about this process (entry may be NULL). One that could not be asked, for want
 * of descriptors or memory, is as it was; at the start nothing is known, and the want is the
 * answer. */
int process_no_answer(struct target_set *set, struct process_entry *entry, int err,
		      target_change_fn on_change, void *ctx);
int process_watch(struct target_set *set, struct process_entry *entry, int dir);
void process_unwatch(struct target_set *set, struct process_entry *entry,
		     target_change_fn on_change, void *ctx);
/* The pid is no longer this process. Its name is kept for a while: its last samples come later. */
void process_retire(struct target_set *set, struct process_entry *entry, target_change_fn on_change,
		    void *ctx);
void process_drop(struct target_set *set, struct process_entry *entry);
/* A name that is no process's any more; NULL does nothing. The rows of the interval at work may
 * point to it, so it is freed later. */
void process_bury_name(struct target_set *set, char *name);
/* A copy of text takes the place of *name, which is buried. 0, -ENOMEM: *name is as it was. */
int process_give_name(struct target_set *set, char **name, const char *text);
/* Free those that no record can have any more; all: every one. */
void process_free_buried(struct target_set *set, bool all);
/* The next scan is to read it again. */
void process_read_soon(struct process_entry *entry);
/* The reader could not do it now; the process has nothing to do with it, or holds it up. */
bool process_is_for_later(int err);

/* ---- argv.c ---- */

/* Ask for the argv[0] of a process, with argv_send; a scan takes the answer. */
void argv_want(struct target_set *set, struct process_entry *entry);
/* Ask the probers for what is wanted, as far as they are to have it now. */
void argv_send(struct target_set *set);
/* The answer of a prober about this process: the length of its argv[0], 0 where the process has
 * none, or -errno. */
int argv_take(struct process_entry *entry, char *name, size_t size);
/* Nobody waits for its answer any more, nor for one that came. */
void argv_forget(struct target_set *set, struct process_entry *entry);
/* The next process with an answer, which is the caller's to take; NULL: none. */
struct process_entry *argv_next_told(struct target_set *set);
bool argv_any_told(const struct target_set *set);
/* A process of which nothing is known yet waits for its answer, or for a scan that takes it. */
bool argv_any_new(const struct target_set *set);
/* Cancel what was asked. */
void argv_free(struct target_set *set);

/* ---- follow.c ---- */

/* Instead of the moment at which a process became a target: a scan saw the name, and the kernel
 * side is about to tell since when it has it. execve gives the comm some 100 us before that, or a
 * second where the program's pages come slowly. What the process ran until it is told is not a
 * target's. */
#define UNTOLD_NS UINT64_MAX

/* A scan read these names of a process: whether it is a target by name. */
bool follow_scanned(struct target_set *set, struct process_entry *entry, bool names_match);
/* A scan watches this process: its start is told, or was. */
void follow_met(struct target_set *set, struct process_entry *entry);
/* The name of a process that no scan has seen; NULL: not known either. */
const char *follow_name(const struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* Its argv[0], as the kernel side told it or as it was its parent's; NULL: not known. */
const char *follow_argv(const struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* It is followed, and another process has its pid since. */
bool follow_left_pid(const struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* The name that an execve of this process since then gave it; NULL: the kernel side told of no such
 * execve. */
const char *follow_program(const struct target_set *set, pid_t pid, uint64_t start_boot_ns,
			   uint64_t since_boot_ns);
/* No word comes any more of what is UNTOLD_NS since before this turn: the scan was right. */
void follow_give_up(struct target_set *set, uint64_t turn);
void follow_free(struct target_set *set);
