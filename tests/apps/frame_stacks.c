/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes frames as an app does, each 80 ms: the main thread comes from its epoll, works, hands over
 * to the RenderThread and goes back. Frames are late by what their kind plants:
 *   main_cpu    the main thread burns 25 ms in burn_layout() < bind_row()
 *   render_cpu  the RenderThread burns 25 ms in burn_paint()
 *   lock        the main thread waits in take_lock() for a mutex that "loader" holds, which sleeps
 *               in hold_lock()
 *   chain       the same, but loader waits for a mutex that "saver" holds
 *   renamed     as main_cpu, and main thread and RenderThread change their names amid the frame
 *   ok          nothing
 *   died        as render_cpu, and the RenderThread dies at the end; another one comes. The last
 *               two frames
 * usage: frame_stacks FRAMES-OF-EACH-KIND; begins when a line comes on stdin.
 * Prints "ready", then for each frame: KIND BEGIN END, CLOCK_BOOTTIME in ns; then "end". */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

enum kind { MAIN_CPU, RENDER_CPU, LOCK, CHAIN, RENAMED, OK, KINDS, DIED = KINDS };
static const char *const words[] = {"main_cpu", "render_cpu", "lock", "chain",
				    "renamed",  "ok",         "died"};

static int to_render;
static int epoll, timer, drawn;
static sem_t load, loaded, save, saved;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static volatile enum kind kind;
static volatile uint64_t ready_ns;
static cpu_set_t cpus; /* of the process when it began */

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void nap_ns(uint64_t ns)
{
	struct timespec ts = {0, (long)ns};

	while (nanosleep(&ts, &ts))
		;
}

/* The name of each frame is asked for by the test; what these spin on is their own. */
#define BURN(name, step)                                                \
	static __attribute__((noipa)) void name(uint64_t ns)            \
	{                                                               \
		uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns; \
		volatile unsigned spins = 0;                            \
                                                                        \
		while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)        \
			for (unsigned i = 0; i < 20000; i++)            \
				spins += step;                          \
	}
BURN(burn_layout, 1)
BURN(burn_paint, 3)
BURN(work, 5)

static __attribute__((noipa)) void bind_row(void)
{
	burn_layout(25 * MS);
	__asm__ volatile("");
}

static __attribute__((noipa)) void take_lock(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	__asm__ volatile("");
}

static __attribute__((noipa)) void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	if (kind == CHAIN) {
		sem_post(&save);
		sem_wait(&saved);
		sem_post(&loaded);
		pthread_mutex_lock(&inner);
		pthread_mutex_unlock(&inner);
	} else {
		sem_post(&loaded);
		nap_ns(30 * MS);
	}
	pthread_mutex_unlock(&lock);
}

/* Each on a CPU of its own and before others on this machine, so that frames are late by what they
 * plant. */
static void go_first(bool last_cpu)
{
	const struct sched_param param = {.sched_priority = 5};
	int cpu = last_cpu ? CPU_SETSIZE - 1 : 0;
	cpu_set_t one;

	while (!CPU_ISSET(cpu, &cpus))
		cpu += last_cpu ? -1 : 1;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	/* Where that is not permitted others may hold it up. */
	if (sched_setaffinity(0, sizeof(one), &one) || sched_setscheduler(0, SCHED_FIFO, &param))
		return;
}

static void *loader(void *ctx)
{
	prctl(PR_SET_NAME, "loader");
	for (;;) {
		sem_wait(&load);
		hold_lock();
	}
	return ctx;
}

static void *saver(void *ctx)
{
	prctl(PR_SET_NAME, "saver");
	for (;;) {
		sem_wait(&save);
		pthread_mutex_lock(&inner);
		sem_post(&saved);
		nap_ns(30 * MS);
		pthread_mutex_unlock(&inner);
	}
	return ctx;
}

static void *render(void *ctx)
{
	int own = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t count, one = 1;
	bool goes_on = true;

	prctl(PR_SET_NAME, "RenderThread");
	go_first(true);
	epoll_ctl(own, EPOLL_CTL_ADD, to_render, &event);
	while (goes_on) {
		if (epoll_wait(own, &event, 1, -1) != 1 ||
		    read(to_render, &count, sizeof(count)) != sizeof(count))
			continue;
		if (kind == RENAMED)
			prctl(PR_SET_NAME, "renamed-render");
		work(MS);
		if (kind == RENDER_CPU || kind == DIED)
			burn_paint(25 * MS);
		prctl(PR_SET_NAME, "RenderThread");
		goes_on = kind != DIED;
		ready_ns = now_ns(CLOCK_BOOTTIME);
		if (write(drawn, &one, sizeof(one)) != sizeof(one))
			exit(1);
	}
	close(own);
	return ctx;
}

static void start(void *(*run)(void *))
{
	pthread_t thread;

	pthread_attr_t attr;
	const struct sched_param plain = {0};

	/* Not of the class that the main thread has. */
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
	pthread_attr_setschedparam(&attr, &plain);
	if (pthread_create(&thread, &attr, run, NULL) || pthread_detach(thread))
		exit(1);
}

/* As a main thread does that has nothing else to do: it never waits for the RenderThread elsewhere.
 */
static void wait_for(int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	uint64_t count;

	while (read(fd, &count, sizeof(count)) != sizeof(count))
		epoll_wait(epoll, &event, 1, -1);
}

static void frame(void)
{
	uint64_t begin_ns, one = 1;

	if (kind == LOCK || kind == CHAIN) {
		sem_post(&load);
		sem_wait(&loaded);
	}
	begin_ns = now_ns(CLOCK_BOOTTIME);
	work(MS);
	if (kind == RENAMED)
		prctl(PR_SET_NAME, "renamed-main");
	if (kind == MAIN_CPU || kind == RENAMED)
		bind_row();
	if (kind == LOCK || kind == CHAIN)
		take_lock();
	if (write(to_render, &one, sizeof(one)) != sizeof(one))
		exit(1);
	wait_for(drawn);
	prctl(PR_SET_NAME, "frame_stacks");
	printf("%s %llu %llu\n", words[kind], (unsigned long long)begin_ns,
	       (unsigned long long)ready_ns);
	fflush(stdout);
	if (kind == DIED)
		start(render);
}

int main(int argc, char **argv)
{
	struct itimerspec vsync = {{0, 80 * MS}, {0, 80 * MS}};
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

	prctl(PR_SET_PDEATHSIG, 9);
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return 1;
	to_render = eventfd(0, 0);
	drawn = eventfd(0, EFD_NONBLOCK);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	epoll = epoll_create1(0);
	sem_init(&load, 0, 0);
	sem_init(&loaded, 0, 0);
	sem_init(&save, 0, 0);
	sem_init(&saved, 0, 0);
	start(loader);
	start(saver);
	start(render);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	epoll_ctl(epoll, EPOLL_CTL_ADD, drawn, &event);
	go_first(false);
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 0;
	timerfd_settime(timer, 0, &vsync, NULL);
	/* Frames of one kind are apart, so that no state is only that of the frame before. */
	for (unsigned n = 0; n < count * KINDS + 2; n++) {
		wait_for(timer);
		kind = n < count * KINDS ? (enum kind)((n * 5 + n / KINDS) % KINDS) : DIED;
		frame();
	}
	puts("end");
	fflush(stdout);
	return getchar() == EOF;
}
