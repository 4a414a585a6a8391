/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is watched: names, pids and uids become process identities (pid + start time), restarts are
 * followed, and uids and pids get their names. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum target_kind { TARGET_NAME = 0, TARGET_PID = 1, TARGET_UID = 2 };

struct target_spec {
	enum target_kind kind;
	/* A package, argv[0] (or the last part of its path), comm, or a glob over these; processes
	 * "NAME:suffix" belong to it. */
	char name[256];
	pid_t pid;
	uid_t uid;
};

/* One watched process. start_boot_ns is from /proc/PID/stat field 22: truncated to 10 ms ticks. */
struct target_process {
	pid_t pid;
	uint64_t start_boot_ns;
	uid_t uid;
	char process[256];   /* argv[0] as the process names itself, or comm */
	const char *package; /* by uid or by name; NULL: none */
	int pidfd;           /* -1 where pidfd_open is missing; readable when the process died */
};

enum target_change { TARGET_STARTED = 0, TARGET_EXITED = 1 };
typedef void (*target_change_fn)(void *ctx, enum target_change change,
				 const struct target_process *process);

struct target_set;

/* A set for these specs; none means the whole device (nothing is "watched", names still resolve).
 * root is "" on a device, or the folder of a fixture that holds proc/ and data/ (tests). The
 * packages list is read once and again when it changes. NULL with errno on failure. */
struct target_set *target_set_new(const struct target_spec *specs, size_t count, const char *root);
void target_set_free(struct target_set *set);
struct prober_pool;
/* Have what a process can hold up read by probers (prober/pool.h), which must live as long as the
 * set is used. A process that holds its name back has the one that the kernel gave it, and is asked
 * again at the next scan. */
void target_set_bound(struct target_set *set, struct prober_pool *probes);

/* Have on_names called when names of processes have come of which nothing is known yet:
 * target_set_take_names takes them. */
void target_set_on_names(struct target_set *set, void (*on_names)(void *ctx), void *ctx);

/* Look for processes that came or went since the last call; on_change is called for each. Costs
 * one readdir of /proc and reads only of pids not seen before (and of young ones, because zygote
 * children and exec change names). With target_set_bound it asks for names without waiting, so that
 * a process is told when its name has come; it works for 10 ms and goes on from there with the
 * next call; and after a scan that took more than that in all only ends are looked for,
 * for up to 1 s. Returns the number of live watched processes or -errno. */
int target_set_scan(struct target_set *set, target_change_fn on_change, void *ctx);
/* As target_set_scan, only of processes whose names have come since. 1: there are more of them, 0
 * or -errno. */
int target_set_take_names(struct target_set *set, target_change_fn on_change, void *ctx);
/* There are some to be taken. */
bool target_set_has_names(const struct target_set *set);
/* Names of processes that were there at the first scan are awaited: for 1 s at the most, and not
 * where no answer comes. The loop that hears the probers is to turn until then. */
bool target_set_is_finding(struct target_set *set);
/* The last call did not come to the end of the list of processes: the next one should be soon. */
bool target_set_is_midway(const struct target_set *set);

/* How many times since the last call of this a process could not be asked about, for want of
 * descriptors or memory (the set takes the process to be as it was), was told more than 1 s after
 * it started, or was read again more than 1 s late. */
uint64_t target_set_take_unread(struct target_set *set);
/* How many processes that took a target's name since the last call have died and were forgotten
 * without that a scan met them alive: no change told of them. Their CPU time is counted as any
 * target's.
 */
uint64_t target_set_take_unmet(struct target_set *set);

/* The whole device is the target. */
bool target_set_is_all(const struct target_set *set);
/* A spec names this uid, or a package that has this uid for itself: then processes that lived too
 * briefly for any scan belong to the target too. */
bool target_set_has_uid(const struct target_set *set, uid_t uid);
/* The watched process of that pid, NULL if it is not watched. Valid until the next scan. */
const struct target_process *target_set_find(const struct target_set *set, pid_t pid);
/* The n-th live watched process, NULL past the end. */
const struct target_process *target_set_at(const struct target_set *set, size_t n);
/* How many are watched, or may be as soon as their names have come. */
size_t target_set_expected(const struct target_set *set);

/* Package of a uid (user part removed: uid modulo 100000), NULL if unknown or shared by several.
 * Owned by the set, valid until target_set_free. */
const char *target_package_of_uid(struct target_set *set, uid_t uid);

/* ---- what the kernel side tells of processes, in the order in which it happened ---- */

/* A process at one moment. */
struct target_told {
	pid_t pid;
	uint64_t start_boot_ns, at_boot_ns;
	uid_t uid;
	const char *comm;  /* ends with a NUL */
	const char *argv0; /* NULL: not known; argv[0] of the program that it runs from now on */
};

/* What a process was until the kernel side told of its new name or uid. */
struct target_turn {
	bool was_target;
	const char *name; /* valid until the next but one call of target_set_turn */
};

/* The set wants to be told: a target is a name. */
bool target_set_follows(const struct target_set *set);
/* From now on every birth and every name is told, each before the interval that it falls in is
 * closed; what is not told is counted, and target_set_look_again called. */
void target_set_is_told(struct target_set *set);
/* A process was forked by another one, under the names of that one. 0, -ENOMEM. */
int target_told_birth(struct target_set *set, const struct target_told *child, pid_t parent,
		      uint64_t parent_start_boot_ns);
/* The process runs another program (program), or its main thread has another comm. 1: whether it is
 * a target has changed by it, *turn says what it was; 0: it has not; -ENOMEM. */
int target_told_name(struct target_set *set, const struct target_told *told, bool program,
		     struct target_turn *turn);
/* The main thread of the process has ended; others of its threads may live. */
void target_told_death(struct target_set *set, pid_t pid, uint64_t start_boot_ns, uid_t uid,
		       uint64_t at_boot_ns);
/* Names may have changed untold: what a scan read counts from when it was read, and the next scan
 * reads them all. */
void target_set_look_again(struct target_set *set);
/* An interval was closed: what is kept only for its record may go. */
void target_set_turn(struct target_set *set);
/* Isolated processes (Android) since the last call of this that ended before anybody could read
 * their name, while a package is a target that they may belong to. */
uint64_t target_set_take_unnamed(struct target_set *set);
/* A task of the process is to be listed by the targets' names and pids (see target_set_has_uid for
 * uids). end_boot_ns: when the task ended, 0: it lives. main_comm: its comm where it is the main
 * thread, else NULL; it decides where nobody has told of the process. */
bool target_set_means(const struct target_set *set, pid_t pid, uint64_t start_boot_ns,
		      uint64_t end_boot_ns, const char *main_comm);

/* ---- names ---- */

/* Name of a process: its argv[0], or comm for kernel threads; cached by pid + start time (10 ms
 * ticks; 0: whoever has the pid now); NULL when it is gone and was never seen. Owned by the set,
 * valid until the next scan. */
const char *target_process_name(struct target_set *set, pid_t pid, uint64_t start_boot_ns);
/* The process runs another program now: its name is read again, and is comm where its argv cannot
 * be read any more. Strings handed out for it before are no longer valid. A process that was never
 * seen stays so. */
void target_process_renamed(struct target_set *set, pid_t pid, uint64_t start_boot_ns,
			    const char *comm);

/* Where the names of packages come from: "packages.list", "cmd package", or NULL (no Android). */
const char *target_packages_origin(const struct target_set *set);
/* Lines of it that could not be understood, since the last call of this. */
uint64_t target_packages_take_rejected(struct target_set *set);

/* oom_score_adj of a process that is kept only to start faster the next time, and above
 * (ProcessList.CACHED_APP_MIN_ADJ). */
#define TARGET_CACHED_ADJ 900

/* Whether the device tells of a foreground: it has Android's cpusets. root: as of target_set_new.
 */
bool target_has_foreground(const char *root);
/* Shown to the user now: in cpuset top-app with oom_score_adj 0 (helpers of the launcher and the
 * keyboard are in top-app too, with other scores). 1 yes, 0 no, -ENOTSUP where there is no Android
 * cpuset layout (of either version of cgroups), another negative errno when the process is gone or
 * unreadable. */
int target_is_foreground(const struct target_set *set, pid_t pid);
/* Frozen by its cgroup (cgroup.events), as cached apps are: such a process gives no samples, which
 * is not 0 %. 1 yes, 0 no, -ENOTSUP without a v2 hierarchy, another negative errno as above. */
int target_is_frozen(const struct target_set *set, pid_t pid);
/* oom_score_adj: -1000 native ... 0 foreground ... 999 cached. 0 or a negative errno. */
int target_oom_score_adj(const struct target_set *set, pid_t pid, int *score);
