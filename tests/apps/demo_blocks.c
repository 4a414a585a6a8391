/* SPDX-License-Identifier: BSD-2-Clause */
/* The demo's app: a main thread with an event loop that keeps its user waiting, and says for how
 * long, where, and who held the lock. Its own two looks at the clock are the first thing after its
 * epoll_wait() and the last thing before the next one.
 * usage: demo_blocks ROUNDS TRUTH.json
 * Prints "ready" when it stands in its loop and begins at a byte on stdin; lives on, idle, until
 * its stdin ends. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

#define NOINLINE   __attribute__((noinline, noclone))
#define PAUSE_MS   300 /* idle in the loop between two messages */
#define MAX_BLOCKS 64

#define COMPUTE_MS 300
#define LOCK_MS    450
#define SLEEP_MS   350

struct block_truth {
	const char *function;
	uint64_t start_boot_ns, wall_ns;
	uint64_t waited_ns; /* of it: ready to run, without a CPU */
	pid_t holder;       /* 0: no lock was waited for */
};

/* What the main thread and the thread that holds the lock share. */
struct database {
	pthread_mutex_t lock;
	sem_t wanted, taken;
	pid_t writer;
};

static volatile uint64_t sink;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* How long the main thread has waited for a CPU, as the kernel counts it. */
static uint64_t waited_ns(void)
{
	FILE *file = fopen("/proc/self/schedstat", "r");
	unsigned long long ran_ns, waited = 0;

	if (file && fscanf(file, "%llu %llu", &ran_ns, &waited) != 2)
		waited = 0;
	if (file)
		fclose(file);
	return waited;
}

static void sleep_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* The three ways to keep a user waiting. Each is a function of its own name, because that name is
 * what a stack has to show. */
void draw_chart(void);
void save_settings(struct database *database);
void load_image(void);

NOINLINE void draw_chart(void)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + COMPUTE_MS * 1000000ull;

	while (now_ns(CLOCK_MONOTONIC) < end_ns)
		for (int i = 0; i < 2000; i++, spin_hint())
			sink += (uint64_t)i;
	sink++;
}

NOINLINE void save_settings(struct database *database)
{
	pthread_mutex_lock(&database->lock);
	sink++;
	pthread_mutex_unlock(&database->lock);
}

NOINLINE void load_image(void)
{
	sleep_ms(SLEEP_MS);
	sink++;
}

/* Holds the lock while the main thread wants it. */
static void *write_database(void *ctx)
{
	struct database *database = ctx;

	prctl(PR_SET_NAME, "db-writer");
	database->writer = (pid_t)syscall(SYS_gettid);
	sem_post(&database->taken);
	for (;;) {
		while (sem_wait(&database->wanted))
			;
		pthread_mutex_lock(&database->lock);
		sem_post(&database->taken);
		sleep_ms(LOCK_MS);
		pthread_mutex_unlock(&database->lock);
	}
	return NULL;
}

static void handle_message(unsigned kind, struct database *database, struct block_truth *truth)
{
	switch (kind) {
	case 0:
		truth->function = "draw_chart";
		draw_chart();
		break;
	case 1:
		truth->function = "save_settings";
		truth->holder = database->writer;
		sem_post(&database->wanted);
		while (sem_wait(&database->taken))
			;
		save_settings(database);
		break;
	default:
		truth->function = "load_image";
		load_image();
	}
}

static int write_truth(const char *path, const struct block_truth *blocks, unsigned count)
{
	FILE *out = fopen(path, "w");

	if (!out)
		return -1;
	fprintf(out, "{\"pid\":%d,\"blocks\":[", getpid());
	for (unsigned i = 0; i < count; i++) {
		fprintf(out,
			"%s\n{\"function\":\"%s\",\"start_boot_ns\":%llu,\"wall_ns\":%llu,"
			"\"waited_ns\":%llu,\"holder_tid\":%d}",
			i ? "," : "", blocks[i].function,
			(unsigned long long)blocks[i].start_boot_ns,
			(unsigned long long)blocks[i].wall_ns,
			(unsigned long long)blocks[i].waited_ns, blocks[i].holder);
	}
	fprintf(out, "]}\n");
	return fclose(out);
}

int main(int argc, char **argv)
{
	static struct block_truth blocks[MAX_BLOCKS];
	static struct database database = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct itimerspec next = {.it_value = {0, PAUSE_MS * 1000000l}};
	unsigned count = 0, wanted = argc == 3 ? 3 * (unsigned)atoi(argv[1]) : 0;
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	pthread_t writer;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!wanted || wanted > MAX_BLOCKS) {
		fprintf(stderr, "usage: demo_blocks ROUNDS TRUTH.json\n");
		return 2;
	}
	sem_init(&database.wanted, 0, 0);
	sem_init(&database.taken, 0, 0);
	if (pthread_create(&writer, NULL, write_database, &database))
		return 1;
	while (sem_wait(&database.taken))
		;
	event.data.fd = timer;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	event.data.fd = 0;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event)) {
		fprintf(stderr, "demo_blocks: stdin must be a pipe\n");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		uint64_t begin_ns, begin_boot_ns, begin_waited_ns, ticks;

		if (epoll_wait(epoll, &event, 1, -1) < 1)
			continue;
		begin_ns = now_ns(CLOCK_MONOTONIC);
		begin_boot_ns = now_ns(CLOCK_BOOTTIME);
		begin_waited_ns = waited_ns();
		if (event.data.fd == 0 && read(0, &byte, 1) < 1)
			return 0;
		if (event.data.fd == timer && read(timer, &ticks, sizeof(ticks)) < 0)
			return 1;
		/* The last turn has no block in it: it writes down those before it. */
		if (event.data.fd == timer && count == wanted) {
			if (write_truth(argv[2], blocks, count))
				return 1;
			continue;
		}
		if (event.data.fd == timer)
			handle_message(count % 3, &database, &blocks[count]);
		timerfd_settime(timer, 0, &next, NULL);
		if (event.data.fd != timer)
			continue;
		blocks[count].start_boot_ns = begin_boot_ns;
		blocks[count].waited_ns = waited_ns() - begin_waited_ns;
		blocks[count++].wall_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
	}
}
