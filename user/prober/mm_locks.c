/* SPDX-License-Identifier: BSD-2-Clause */
#include "prober/mm_locks.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/looper.h"
#include "util/clock.h"

/* A busy machine has a few that hold their lock for microseconds; with more than these in one look
 * the rest counts as held too. */
#define MAX_HELD 256
/* Most holders are gone at the second look. */
#define FIRST_REST_NS (100 * NSEC_PER_USEC)
#define REST_NS       (2 * NSEC_PER_MSEC)
/* All processes together, as a multiple of what one may take. */
#define SWEEP_FACTOR 10

struct held {
	size_t count;
	struct looper_mm_lock locks[MAX_HELD];
};

static void rest(uint64_t ns)
{
	struct timespec time = {0, (long)ns};

	nanosleep(&time, NULL);
}

/* ---- by the iterator ---- */

static int look_once(int link, struct held *held)
{
	int fd = bpf_iter_create(link), err = 0;
	size_t have = 0;

	if (fd < 0)
		return -errno;
	while (have < sizeof(held->locks)) {
		ssize_t n = read(fd, (char *)held->locks + have, sizeof(held->locks) - have);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	close(fd);
	held->count = have / sizeof(held->locks[0]);
	if (!err && held->count && !held->locks[0].pid)
		err = -ENOTSUP;
	return err;
}

static bool is_in(const struct held *held, const struct looper_mm_lock *lock)
{
	for (size_t i = 0; i < held->count; i++)
		if (held->locks[i].mm == lock->mm && held->locks[i].pid == lock->pid)
			return true;
	return false;
}

/* Keep those that are held in this look as well. */
static void keep_held(struct held *held, const struct held *now)
{
	size_t kept = 0;

	for (size_t i = 0; i < held->count; i++)
		if (is_in(now, &held->locks[i]))
			held->locks[kept++] = held->locks[i];
	held->count = kept;
}

static int iterate(int link, uint64_t timeout_ns, pid_t *holder)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + timeout_ns;
	uint64_t rest_ns = FIRST_REST_NS;
	struct held *held = calloc(2, sizeof(*held)), *now;
	int err;

	if (!held)
		return -ENOMEM;
	now = &held[1];
	err = look_once(link, held);
	while (!err && held->count) {
		*holder = (pid_t)held->locks[0].pid;
		if (clock_now_ns(CLOCK_MONOTONIC) >= until_ns) {
			err = -EDEADLK;
			break;
		}
		rest(rest_ns);
		rest_ns = rest_ns * 2 < REST_NS ? rest_ns * 2 : REST_NS;
		err = look_once(link, now);
		if (!err)
			keep_held(held, now);
	}
	free(held);
	return err;
}

/* ---- by asking each process ---- */

static void __attribute__((noreturn)) sweep(volatile pid_t *at)
{
	struct dirent *entry;
	DIR *folder = opendir("/proc");
	char path[32];
	uint64_t word;
	bool read_any = false;

	if (!folder)
		_exit(1);
	while ((entry = readdir(folder))) {
		pid_t pid = atoi(entry->d_name);
		int fd;

		if (pid <= 0)
			continue;
		*at = pid;
		snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		read_any |= pread(fd, &word, sizeof(word), 0) >= 0;
		close(fd);
	}
	_exit(read_any ? 0 : 1);
}

/* A wait for this lock in /proc ends with its process (mmap_read_lock_killable, 5.8), so nothing
 * is left behind. */
static int sweep_in_child(uint64_t timeout_ns, pid_t *holder)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), moved_ns = now_ns;
	uint64_t until_ns = now_ns + SWEEP_FACTOR * timeout_ns;
	volatile pid_t *at;
	pid_t child, last = 0;
	int status = 0, err = 0;

	at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	child = fork();
	if (child == 0)
		sweep(at);
	err = child < 0 ? -errno : 0;
	while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
		now_ns = clock_now_ns(CLOCK_MONOTONIC);
		if (*at != last) {
			last = *at;
			moved_ns = now_ns;
		}
		if (!err && (now_ns - moved_ns >= timeout_ns || now_ns >= until_ns)) {
			err = -EDEADLK;
			*holder = last;
			kill(child, SIGKILL);
		}
		rest(NSEC_PER_MSEC);
	}
	munmap((void *)at, sizeof(*at));
	if (!err && (!WIFEXITED(status) || WEXITSTATUS(status)))
		err = -ENOTSUP;
	return err;
}

int mm_locks_look(int program, uint64_t timeout_ns, pid_t *holder)
{
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int link, err = -ENOTSUP;

	*holder = 0;
	if (program >= 0) {
		link = bpf_link_create(program, 0, BPF_TRACE_ITER, &options);
		err = link < 0 ? -errno : iterate(link, timeout_ns, holder);
		if (link >= 0)
			close(link);
	}
	if (!err || err == -EDEADLK)
		return err;
	return sweep_in_child(timeout_ns, holder);
}
