/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper whose handler waits for a lock that a thread holds who waits for a lock that another one
 * holds, and so on: each 500 ms one handler builds the chain, and once each thread sleeps in it
 * another one waits for it, for 300 ms, and it falls.
 *
 * usage: lock_chain LINKS [pi|timed|deadlock|deadlock_timed|self]
 *   LINKS          threads: "link-1" holds what the main thread waits for, ... the last one sleeps
 *   pi             PTHREAD_PRIO_INHERIT mutexes
 *   timed          the waits have a time
 *   deadlock       in the fourth chain that begins after a byte came on stdin, the last one waits
 *                  for what link-1 holds, for ever
 *   deadlock_timed the same, but each gives up after 2 s
 *   random         no chains: each takes two of eight locks in their order, as it comes, and holds
 *                  them for some ms, and so does the main thread each 20 ms
 *   self           the last one waits for what the main thread holds, for ever
 * Prints "ready", then "chain BOOT_NS" for each, with the tids, outermost first. */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MOST       32
#define STANDS_MS  300
#define LOOK_MS    20  /* between looks whether the chain stands */
#define RESTS_MS   180 /* from its fall to the next one */
#define GIVE_UP_MS 2000

static pthread_mutex_t locks[MOST + 1];
static pthread_barrier_t begin, built;
static unsigned links, rounds; /* rounds: since it was watched */
static bool watched;
static volatile pid_t tids[MOST];
static volatile bool placed[MOST]; /* it takes the next lock, or is the last one */
static volatile bool wanted;       /* the main thread waits for the chain */
static const char *mode = "";

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	while (nanosleep(&ts, &ts))
		;
}

/* The name of each frame is asked for by the test. */
static __attribute__((noinline)) void take_lock(pthread_mutex_t *lock)
{
	struct timespec until;
	int err;

	if (is("timed") || is("deadlock_timed")) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += GIVE_UP_MS / 1000;
		err = pthread_mutex_timedlock(lock, &until);
	} else {
		err = pthread_mutex_lock(lock);
	}
	if (!err)
		pthread_mutex_unlock(lock);
}

static __attribute__((noinline)) void take_and_keep(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	__asm__ volatile("");
}

static __attribute__((noinline)) void hold_and_sleep(void)
{
	while (!wanted)
		nap_ms(1);
	nap_ms(STANDS_MS);
	__asm__ volatile(""); /* no jump in place of the call */
}

static int for_ever(void)
{
	return rounds > 3 && (is("deadlock") || is("deadlock_timed") || is("self"));
}

static __attribute__((noinline)) void hold_both(unsigned *seed)
{
	nap_ms(1 + (unsigned)rand_r(seed) % 20);
	__asm__ volatile("");
}

static void take_two(unsigned *seed)
{
	unsigned low = (unsigned)rand_r(seed) % 7;
	unsigned high = low + 1 + (unsigned)rand_r(seed) % (7 - low);

	take_and_keep(&locks[low]);
	take_and_keep(&locks[high]);
	hold_both(seed);
	pthread_mutex_unlock(&locks[high]);
	pthread_mutex_unlock(&locks[low]);
}

static void *run_random(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	prctl(PR_SET_NAME, "random");
	for (;;)
		take_two(&seed);
	return NULL;
}

static void *run_link(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "link-%u", number + 1);
	prctl(PR_SET_NAME, name);
	tids[number] = (pid_t)syscall(SYS_gettid);
	for (;;) {
		pthread_barrier_wait(&begin);
		pthread_mutex_lock(&locks[number]);
		/* The others have theirs. */
		pthread_barrier_wait(&built);
		placed[number] = true;
		if (number + 1 < links)
			take_lock(&locks[number + 1]);
		else if (for_ever())
			take_lock(is("self") ? &locks[links] : &locks[0]);
		else
			hold_and_sleep();
		placed[number] = false;
		pthread_mutex_unlock(&locks[number]);
	}
	return NULL;
}

static bool sleeps(pid_t tid)
{
	char path[64], text[512], *state;
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	file = fopen(path, "re");
	if (file) {
		n = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[n] = 0;
	state = strrchr(text, ')');
	return state && state[1] && state[2] == 'S';
}

/* On a busy machine a thread that is past the barrier may get to its lock much later. */
static bool stands(void)
{
	for (unsigned i = 0; i < links; i++)
		if (!placed[i] || !sleeps(tids[i]))
			return false;
	return true;
}

static void build(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	watched = watched || poll(&input, 1, 0) > 0;
	rounds += watched;
	wanted = false;
	if (is("self"))
		pthread_mutex_lock(&locks[links]);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&built);
}

static __attribute__((noinline)) void handle(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	printf("chain %llu", now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec);
	for (unsigned i = 0; i < links; i++)
		printf(" %d", (int)tids[i]);
	printf("\n");
	fflush(stdout);
	wanted = true;
	take_lock(&locks[0]);
	if (is("self"))
		pthread_mutex_unlock(&locks[links]);
}

/* Whether the chain is built; what the timer is for then. */
static unsigned next_ms(bool *is_built)
{
	if (is("random")) {
		take_two(&rounds);
		return LOOK_MS;
	}
	if (!*is_built)
		build();
	else if (!stands())
		return LOOK_MS;
	else
		handle();
	*is_built = !*is_built;
	return *is_built ? LOOK_MS : RESTS_MS;
}

int main(int argc, char **argv)
{
	struct itimerspec next = {.it_value = {0, 1000000l * LOOK_MS}};
	struct epoll_event event = {.events = EPOLLIN};
	pthread_mutexattr_t attr;
	int epoll, timer;
	uint64_t fired;
	bool is_built = false;

	links = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	mode = argc > 2 ? argv[2] : "";
	if (!links || links > MOST)
		return 2;
	pthread_mutexattr_init(&attr);
	if (is("pi"))
		pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_barrier_init(&begin, NULL, links + 1);
	pthread_barrier_init(&built, NULL, links + 1);
	for (unsigned i = 0; i <= MOST; i++)
		pthread_mutex_init(&locks[i], &attr);
	for (unsigned i = 0; i < links; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, is("random") ? run_random : run_link,
				   (void *)(uintptr_t)i))
			return 1;
	}
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &next, NULL))
		return 1;
	printf("ready\n");
	fflush(stdout);
	while (epoll_wait(epoll, &event, 1, -1) == 1)
		if (read(timer, &fired, sizeof(fired)) == sizeof(fired)) {
			next.it_value.tv_nsec = 1000000l * next_ms(&is_built);
			timerfd_settime(timer, 0, &next, NULL);
		}
	return 1;
}
