/* SPDX-License-Identifier: BSD-2-Clause */
/* Who holds a lock, by the words of the lock itself. They are a process's own memory and may hold
 * anything: a number is believed only where all that the format fixes agrees, and where it is a
 * thread of that process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "prober/pool_wire.h"
#include "proc/read.h"

/* What a count of users or contenders may be, and how often a thread has one lock. */
#define MOST_COUNTED   0xffffu
#define MOST_RECURSIVE 0xffu
/* Threads of a process in another pid namespace that are asked for their number there. */
#define MOST_ASKED 512

/* The words from the one that the futex call names. */
struct lock_words {
	uint32_t at[5];
	size_t count; /* that could be read: 16 bytes of a lock may end a mapping */
};

/* ---- whose number it is ---- */

static bool same_namespace(int dir)
{
	char its[64], ours[64];
	ssize_t n = readlinkat(dir, "ns/pid", its, sizeof(its));

	/* A kernel without namespaces has no such link. */
	return n < 0 || (readlink("/proc/self/ns/pid", ours, sizeof(ours)) == n &&
			 !memcmp(its, ours, (size_t)n));
}

static bool is_thread(int dir, pid_t tid)
{
	char path[64];

	if (tid <= 0)
		return false;
	snprintf(path, sizeof(path), "task/%d", tid);
	return !faccessat(dir, path, F_OK, 0);
}

/* What the thread is called in its own pid namespace: the last number of NSpid. */
static pid_t own_number(int dir, const char *name)
{
	char path[64], text[4096], *line, *end;

	snprintf(path, sizeof(path), "task/%.20s/status", name);
	if (proc_read(dir, path, text, sizeof(text)) <= 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line++;
	end = line + strcspn(line, "\n");
	while (end > line && end[-1] >= '0' && end[-1] <= '9')
		end--;
	return (pid_t)strtol(end, NULL, 10);
}

/* The thread that calls itself so; 0: none of those that were asked. */
static pid_t find_number(int dir, pid_t number)
{
	int folder = openat(dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), left = MOST_ASKED;
	DIR *threads = folder < 0 ? NULL : fdopendir(folder);
	struct dirent *entry;
	pid_t found = 0;

	while (threads && !found && left-- && (entry = readdir(threads)))
		if (entry->d_name[0] != '.' && own_number(dir, entry->d_name) == number)
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	if (threads)
		closedir(threads);
	else if (folder >= 0)
		close(folder);
	return found;
}

/* The thread of the process whose number stands in the lock; -ENOENT: none. A lock has what its
 * owner calls itself, which is another number for us where it lives in a pid namespace. */
static pid_t thread_of(int dir, uint32_t number)
{
	pid_t tid = (pid_t)number;

	if (tid <= 0)
		return -ENOENT;
	if (!same_namespace(dir))
		tid = find_number(dir, tid);
	return tid && is_thread(dir, tid) ? tid : -ENOENT;
}

/* ---- formats ---- */

/* struct __pthread_mutex_s of glibc, 64-bit: lock, count, owner, nusers, kind
 * (sysdeps/nptl/bits/struct_mutex.h). */
static uint32_t glibc_owner(const struct lock_words *words)
{
	enum { ROBUST = 16, PROTECT = 64, KINDS = 0x3f3, CEILING = 0xfff80000 };
	uint32_t lock = words->at[0], owner = words->at[2], kind = words->at[4];

	if (words->count < 5 || (kind & ~KINDS) || !words->at[3] || words->at[3] > MOST_COUNTED)
		return 0;
	if (kind & ROBUST)
		return (lock & FUTEX_WAITERS) && (lock & FUTEX_TID_MASK) == owner ? owner : 0;
	if (kind & PROTECT)
		lock &= ~(uint32_t)CEILING;
	/* 2: locked, with waiters */
	return lock == 2 ? owner : 0;
}

/* pthread_mutex_internal_t of bionic, 64-bit: 16 bits of state, 16 that are 0, owner_tid, and
 * reserved ones that are 0 (libc/bionic/pthread_mutex.cpp). Only recursive and error-checking ones
 * (type 1 and 2 in the upper two bits of state) have an owner; 2 in the lower two bits: locked,
 * with waiters. Bit 13 says that processes share it, and so does the call that waits. */
static uint32_t bionic_owner(const struct lock_words *words, bool shared)
{
	uint32_t state = words->at[0], type = state >> 14;

	if (words->count < 4 || (state & 3) != 2 || (type != 1 && type != 2) || words->at[2] ||
	    words->at[3] || (state >> 13 & 1) != shared)
		return 0;
	return words->at[1];
}

/* pthread_join waits for the word in which the kernel clears the number of a thread that ends; by
 * a call for shared memory, as the kernel wakes. In glibc's struct pthread the list of robust
 * mutexes lies behind it, whose head points to itself while the thread has none (nptl/descr.h). In
 * bionic's pthread_internal_t the number of the process does, which getpid() puts there
 * (libc/bionic/pthread_internal.h); such words look like a recursive mutex for one number in four.
 */
static bool is_join(int dir, const struct lock_words *words, uint64_t address, pid_t process)
{
	uint64_t list;
	char name[16];

	if (words->count < 4)
		return false;
	list = words->at[2] | (uint64_t)words->at[3] << 32;
	if (list == address + 16)
		return true;
	snprintf(name, sizeof(name), "%d", (int)process);
	return !words->at[2] && !words->at[3] &&
	       words->at[1] == (uint32_t)(same_namespace(dir) ? process : own_number(dir, name));
}

/* art::Mutex since Android 10: bit 0 is held, the rest counts contenders; owner; how often it has
 * it (at least once). art::ReaderWriterMutex: -1 is held by a writer; owner; contenders
 * (runtime/base/mutex.h). */
static uint32_t art_owner(const struct lock_words *words)
{
	uint32_t state = words->at[0], counted = words->at[2];

	if (words->count < 3 || !counted)
		return 0;
	if (state == UINT32_MAX)
		return counted <= MOST_COUNTED ? words->at[1] : 0;
	if (!(state & 1) || state == 1 || state >> 1 > MOST_COUNTED)
		return 0;
	return counted <= MOST_RECURSIVE ? words->at[1] : 0;
}

/* The owner of the lock that the futex call waits for, -ENOENT: the words do not say. The formats
 * exclude each other by the lowest bits of their first word, but for robust mutexes of glibc, which
 * have the owner twice. */
static pid_t find_owner(int dir, const struct probe_request *request,
			const struct lock_words *words, uint32_t *lock)
{
	uint32_t operation = (uint32_t)request->argument, number;
	bool shared = !(operation & FUTEX_PRIVATE_FLAG);

	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		*lock = LOCK_PI;
		return thread_of(dir, words->at[0] & FUTEX_TID_MASK);
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		break;
	default:
		return -ENOENT;
	}
	if (shared && is_join(dir, words, request->address, request->pid)) {
		pid_t joined = thread_of(dir, words->at[0]);

		*lock = LOCK_JOIN;
		if (joined > 0)
			return joined;
	}
	*lock = LOCK_GLIBC;
	number = glibc_owner(words);
	if (!number) {
		*lock = LOCK_BIONIC;
		number = bionic_owner(words, shared);
	}
	if (!number) {
		*lock = LOCK_ART;
		number = art_owner(words);
	}
	return thread_of(dir, number);
}

/* 0 or -errno. */
static int read_words(pid_t pid, uint64_t address, struct lock_words *words)
{
	for (size_t ask = sizeof(words->at); ask; ask -= sizeof(words->at[0])) {
		struct iovec local = {words->at, ask}, remote = {(void *)(uintptr_t)address, ask};
		ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

		if (n < 0 && errno != EFAULT)
			return -errno;
		if (n >= (ssize_t)sizeof(words->at[0])) {
			words->count = (size_t)n / sizeof(words->at[0]);
			return 0;
		}
	}
	return -EFAULT;
}

int probe_read_lock_owner(const struct probe_request *request, struct reply *reply)
{
	struct probe_owner owner = {0};
	struct lock_words words = {0};
	char path[64], text[64];
	int dir = probe_open_process(request), err;

	if (dir < 0)
		return dir;
	err = read_words(request->pid, request->address, &words);
	if (!err)
		owner.tid = find_owner(dir, request, &words, &owner.lock);
	if (!err && owner.tid < 0)
		err = owner.tid;
	if (!err) {
		snprintf(path, sizeof(path), "task/%d/comm", owner.tid);
		/* A thread that ended since is no owner. */
		if (proc_read(dir, path, text, sizeof(text)) <= 0)
			err = -ENOENT;
	}
	close(dir);
	if (err)
		return err;
	text[strcspn(text, "\n")] = 0;
	snprintf(owner.thread, sizeof(owner.thread), "%.15s", text);
	memcpy(reply->data, &owner, sizeof(owner));
	reply->length = sizeof(owner);
	return 0;
}
