/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes that were asked for, until they are dead and reaped. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "prober/warden_private.h"
#include "proc/read.h"
#include "util/clock.h"

#define REAP_AT_ONCE 64

int entry_pidfd(const struct entry *entry)
{
	return entry->helper ? entry->helper->pidfd : entry->pidfd;
}

pid_t entry_pid(const struct entry *entry)
{
	return entry->helper ? entry->helper->pid : entry->pid;
}

struct entry *entry_find(const struct warden *warden, uint64_t serial)
{
	for (struct entry *entry = warden->entries; entry; entry = entry->next)
		if (entry->serial == serial)
			return entry;
	return NULL;
}

struct entry *entry_add(struct warden *warden, struct helper *helper)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	*entry = (struct entry){
		.next = warden->entries,
		.helper = helper,
		.serial = helper->serial = ++warden->serial,
		.generation = warden->generation,
		.kind = helper->kind,
		.end = -1,
		.pidfd = -1,
	};
	warden->entries = entry;
	return entry;
}

/* The process is dead and reaped. */
void entry_remove(struct warden *warden, struct entry *entry)
{
	struct entry **link = &warden->entries;

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	if (entry->helper)
		entry->helper->serial = 0;
	warden->dead_cpu_ns += entry->cpu_ns;
	warden_close_fd(&entry->end);
	warden_close_fd(&entry->pidfd);
	free(entry);
}

void entry_look_at_cpu(struct entry *entry)
{
	uint64_t cpu_ns;

	/* A pid that another process has by now would show less. */
	if (entry_pid(entry) && clock_process_cpu_ns(entry_pid(entry), &cpu_ns) &&
	    cpu_ns > entry->cpu_ns)
		entry->cpu_ns = cpu_ns;
}

static uint64_t timeval_ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * NSEC_PER_SEC + (uint64_t)tv->tv_usec * NSEC_PER_USEC;
}

/* Children of a dead warden become children of the recorder (PR_SET_CHILD_SUBREAPER). */
static bool reap_entry(struct warden *warden, struct entry *entry)
{
	struct rusage usage;
	uint64_t cpu_ns;

	if (!entry_pid(entry) || wait4(entry_pid(entry), NULL, WNOHANG, &usage) <= 0)
		return false;
	cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime);
	warden->reaped_ns += cpu_ns;
	/* That of a warden holds the times of its children, which have entries of their own. */
	if (entry->kind != HELPER_WARDEN && cpu_ns > entry->cpu_ns)
		entry->cpu_ns = cpu_ns;
	entry_remove(warden, entry);
	return true;
}

bool entry_has_ended(int pidfd)
{
	struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};

	return pidfd >= 0 && poll(&pollfd, 1, 0) > 0;
}

/* As the processes call themselves that a warden, a prober or the sampler forks. */
static bool is_named_as_ours(pid_t pid)
{
	char path[32], comm[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	return proc_read(AT_FDCWD, path, comm, sizeof(comm)) > 0 &&
	       (!strncmp(comm, "jank-", 5) || !strncmp(comm, "jankscope-stop", 14));
}

static bool has_entry(const struct warden *warden, pid_t pid)
{
	for (const struct entry *entry = warden->entries; entry; entry = entry->next)
		if (entry_pid(entry) == pid)
			return true;
	return false;
}

/* Children of a dead warden that have no entry: one that died before it said its pid, and what a
 * dead prober or sampler had forked. Other children of this process are reaped by who forked them.
 */
static void reap_strangers(struct warden *warden)
{
	struct rusage usage;
	uint64_t cpu_ns;

	for (int i = 0; i < REAP_AT_ONCE; i++) {
		siginfo_t info = {0};

		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid ||
		    has_entry(warden, info.si_pid) || !is_named_as_ours(info.si_pid) ||
		    wait4(info.si_pid, NULL, WNOHANG, &usage) <= 0)
			return;
		cpu_ns = timeval_ns(&usage.ru_utime) + timeval_ns(&usage.ru_stime);
		warden->reaped_ns += cpu_ns;
		warden->dead_cpu_ns += cpu_ns;
	}
}

void entry_sweep(struct warden *warden)
{
	if (warden->generation)
		reap_strangers(warden);
	for (struct entry *entry = warden->entries, *next; entry; entry = next) {
		next = entry->next;
		entry_look_at_cpu(entry);
		if (entry->generation == warden->generation && entry->kind != HELPER_WARDEN)
			continue;
		if (reap_entry(warden, entry))
			continue;
		/* Reaped by init, or never forked by the warden that died. */
		if (!entry->helper && entry->end < 0 &&
		    (entry->pidfd < 0 || entry_has_ended(entry->pidfd)))
			entry_remove(warden, entry);
	}
}

size_t warden_list(const struct warden *warden, struct helper *list, size_t room)
{
	size_t count = 0;

	for (struct entry *entry = warden->entries; entry && count < room; entry = entry->next)
		if (entry->helper && entry->helper->pid)
			list[count++] = *entry->helper;
	return count;
}
