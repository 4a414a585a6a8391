/* SPDX-License-Identifier: BSD-2-Clause */
/* Which threads are watched: one of each target, until it is gone. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/looper_kernel.h"
#include "proc/read.h"
#include "source/blocks/source.h"
#include "util/clock.h"

#define DYING_NS      (5 * NSEC_PER_SEC)
#define DYING_LOOK_NS (20 * NSEC_PER_MSEC)

static bool has_name(pid_t pid, pid_t tid, const char *glob)
{
	char name[32];

	if (proc_read_of_thread("", pid, tid, "comm", name, sizeof(name)) <= 0)
		return false;
	name[strcspn(name, "\n")] = 0;
	return !fnmatch(glob, name, 0);
}

/* The thread of a process that is the looper: the main thread, or the first one of that name. The
 * names of threads are read by files that take no lock of the target. 0: there is none yet. count
 * (may be NULL): how many there are. */
static pid_t thread_to_watch(const struct blocks_source *blocks, pid_t pid, unsigned *count)
{
	char path[64];
	struct dirent *entry;
	pid_t found = 0;
	DIR *folder;

	if (!blocks->options.thread)
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (!found || count) && (entry = readdir(folder))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || !has_name(pid, tid, blocks->options.thread))
			continue;
		if (!found)
			found = tid;
		if (count)
			++*count;
	}
	if (folder)
		closedir(folder);
	return found;
}

int blocks_start_watching(struct blocks_source *blocks, const struct target_process *process)
{
	pid_t tid = thread_to_watch(blocks, process->pid, NULL);
	struct watched *watched;

	if (!tid)
		return 0; /* looked for again with the next look */
	watched = blocks_watch_add(blocks->watch, process, tid);
	if (!watched) {
		blocks->unwatched_now += errno == ENOSPC;
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	watched->detector = blocks->options.detector == LOOPER_BY_SYSCALL ? LOOPER_BY_SYSCALL
									  : LOOPER_BY_SWITCH;
	blocks_start_watch(blocks, watched);
	return 0;
}

/* A thread that was asked for by name may end before its process. Its last period came through the
 * ring, and another one of that name may take its place. */
static bool thread_has_ended(const struct blocks_source *blocks, const struct watched *watched)
{
	struct looper_slot slot;

	if (watched->tid == watched->pid)
		return false;
	return watched->start.gone ||
	       (watched->start.stage == WATCHED_RUNS &&
		looper_kernel_read(blocks->kernel, watched->index, &slot) && slot.dead);
}

static bool is_alive(const struct watched *watched)
{
	struct pollfd pollfd = {.fd = watched->pidfd, .events = POLLIN};

	/* A negative descriptor is passed over: then nothing is said against its end. */
	return watched->pidfd >= 0 && !poll(&pollfd, 1, 0);
}

/* The kernel tells that a process has ended (exit_notify) before its thread is switched out for the
 * last time, which ends its period. On a CPU with others in its queue that takes them a while. */
static int wait_for_end(struct blocks_source *blocks, struct watched *watched, bool *over)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct looper_slot slot;

	if (!watched->gone_ns)
		watched->gone_ns = now_ns;
	*over = watched->start.stage != WATCHED_RUNS || is_alive(watched) ||
		(looper_kernel_read(blocks->kernel, watched->index, &slot) && slot.dead);
	if (!*over && now_ns - watched->gone_ns > DYING_NS) {
		*over = true;
		blocks->ends_unseen += watched->period.reported_open;
	}
	if (*over)
		return looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
	blocks_wake_at(blocks, now_ns + DYING_LOOK_NS);
	return 0;
}

int blocks_follow_targets(struct blocks_source *blocks)
{
	const struct target_process *process;
	int err = 0;

	blocks->unwatched_now = 0;
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch) && !err; i++) {
		struct watched *watched = blocks_watch_at(blocks->watch, i);
		bool over = true;

		if (!watched)
			continue;
		process = target_set_find(blocks->context.targets, watched->pid);
		if (process && process->start_boot_ns == watched->start_boot_ns &&
		    !thread_has_ended(blocks, watched))
			continue;
		if (!process)
			err = wait_for_end(blocks, watched, &over);
		if (over)
			blocks_stop_watch(blocks, watched);
	}
	for (size_t n = 0; !err && (process = target_set_at(blocks->context.targets, n)); n++)
		if (!blocks_watch_find(blocks->watch, process->pid))
			err = blocks_start_watching(blocks, process);
	if (blocks->unwatched_now > blocks->unwatched)
		blocks->unwatched = blocks->unwatched_now;
	return err;
}

void blocks_explain_names(const struct blocks_source *blocks, char *text, size_t size)
{
	const struct target_process *process;
	unsigned most = 0, without = 0;

	for (size_t n = 0; (process = target_set_at(blocks->context.targets, n)); n++) {
		unsigned count = 0;

		thread_to_watch(blocks, process->pid, &count);
		without += !count;
		if (count > most)
			most = count;
	}
	if (!most && without)
		snprintf(text, size, "no thread of a target is named %s yet",
			 blocks->options.thread);
	else if (most > 1)
		snprintf(text, size,
			 "%u threads of one target are named %s: one of them is watched", most,
			 blocks->options.thread);
}
