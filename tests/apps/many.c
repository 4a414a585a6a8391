/* SPDX-License-Identifier: BSD-2-Clause */
/* Many small loopers of one uid, each of which blocks now and then; and what they did.
 *
 * usage: many COUNT UID BLOCK_MS[-LONGEST_MS] EVERY_MS [PHASES [spin]]
 * Each sleeps (or computes) for BLOCK_MS in its loop every EVERY_MS. Prints the pids in one line,
 * then "ready". Commands on stdin: "kill K" (SIGKILL the K last ones that live, all at once),
 * "read" (prints "PID START_BOOT_NS WALL_NS" of each block that ended, then "end"), "quiet" (no new
 * blocks). EOF ends all. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_BLOCKS 8192

struct blocks {
	atomic_uint count;
	struct {
		uint64_t start, wall;
	} of[MAX_BLOCKS];
};

static struct child {
	pid_t pid;
	int dead;
	struct blocks *blocks;
} * children;
static atomic_int *quiet;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static __attribute__((noinline)) void block_here(struct blocks *blocks, uint64_t ns, int spin)
{
	struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	uint64_t boot = now_ns(CLOCK_BOOTTIME), since = now_ns(CLOCK_MONOTONIC);
	unsigned n = atomic_load(&blocks->count);

	if (spin)
		while (now_ns(CLOCK_MONOTONIC) - since < ns)
			;
	else
		while (nanosleep(&ts, &ts) && errno == EINTR)
			;
	if (n == MAX_BLOCKS)
		return;
	blocks->of[n].start = boot;
	blocks->of[n].wall = now_ns(CLOCK_MONOTONIC) - since;
	atomic_store(&blocks->count, n + 1);
}

static uint64_t block_us, more_us; /* from, and how much longer the longest is */
static int spin;

static void live(struct blocks *blocks, uid_t uid, uint64_t every_ms, unsigned phase,
		 unsigned phases)
{
	uint64_t start =
		now_ns(CLOCK_MONOTONIC) + 1000000000u + every_ms * 1000000u * phase / phases;
	struct itimerspec every = {{(time_t)(every_ms / 1000), (long)(every_ms % 1000 * 1000000)},
				   {(time_t)(start / 1000000000u), (long)(start % 1000000000u)}};
	struct epoll_event event = {.events = EPOLLIN};
	int epoll, timer, null = open("/dev/null", O_RDWR);
	uint64_t count, n = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, 0);
	dup2(null, 1);
	if (setgroups(0, NULL) || setgid(uid) || setuid(uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_DUMPABLE, 1);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &every, NULL);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (read(timer, &count, sizeof(count)) == sizeof(count) && !atomic_load(quiet) &&
		    block_us)
			block_here(blocks,
				   block_us * 1000u + n++ * 7919u % 13u * more_us * 1000u / 12u,
				   spin);
	}
}

static void kill_last(unsigned count, unsigned wanted)
{
	for (unsigned i = count; i-- && wanted;) {
		if (children[i].dead)
			continue;
		kill(children[i].pid, SIGKILL);
		children[i].dead = 1;
		wanted--;
	}
}

int main(int argc, char **argv)
{
	unsigned count, phases;
	char line[64], *dash;

	if (argc < 5)
		return 2;
	count = (unsigned)atoi(argv[1]);
	block_us = strtoul(argv[3], &dash, 10) * 1000u;
	more_us = *dash ? strtoul(dash + 1, NULL, 10) * 1000u - block_us : 0;
	spin = argc > 6 && !strcmp(argv[6], "spin");
	phases = argc > 5 ? (unsigned)atoi(argv[5]) : 10;
	children = calloc(count, sizeof(*children));
	quiet = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!children || quiet == MAP_FAILED || !phases)
		return 1;
	signal(SIGCHLD, SIG_IGN);
	for (unsigned i = 0; i < count; i++) {
		struct blocks *blocks = mmap(NULL, sizeof(*blocks), PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		pid_t pid;

		if (blocks == MAP_FAILED)
			return 1;
		pid = fork();
		if (!pid)
			live(blocks, (uid_t)atoi(argv[2]), strtoul(argv[4], NULL, 10), i % phases,
			     phases);
		children[i] = (struct child){pid, pid < 0, blocks};
	}
	for (unsigned i = 0; i < count; i++)
		printf("%d ", children[i].pid);
	printf("\nready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned n;

		if (sscanf(line, "kill %u", &n) == 1) {
			kill_last(count, n);
			printf("killed\n");
		} else if (!strcmp(line, "quiet\n")) {
			atomic_store(quiet, 1);
		} else if (!strcmp(line, "read\n")) {
			for (unsigned i = 0; i < count; i++)
				for (unsigned b = 0; b < atomic_load(&children[i].blocks->count);
				     b++)
					printf("%d %llu %llu\n", children[i].pid,
					       (unsigned long long)children[i].blocks->of[b].start,
					       (unsigned long long)children[i].blocks->of[b].wall);
			printf("end\n");
		}
		fflush(stdout);
	}
	kill_last(count, count);
	return 0;
}
