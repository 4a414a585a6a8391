/* SPDX-License-Identifier: BSD-2-Clause */
/* Main loops of every kind that wait for events, and main threads that are none.
 *
 * usage: loop_kinds MODE GO_FILE
 * A loop ticks each 100 ms until GO_FILE is there, then its handler blocks for 300 ms five times,
 * 500 ms apart, then it waits for events without a timeout. Prints "ready", and for each block
 * "block BOOT_NS WALL_NS".
 * Loops:  epoll epoll_raw poll ppoll select pselect io_uring
 *   nested     attached while its handler waits in a nested epoll that stays open
 *   second     another epoll instance takes over at GO, the first is never waited on again
 *   exec       executes itself inside a handler, the epoll descriptor leaks into the new program
 * A loop in a helper thread "worker-loop":
 *   helper     the main thread is in pthread_join
 * Threads "short-loop" that loop for a second, one after the other:
 *   threads    the main thread joins them
 * No loop: join (as helper, without blocks)  sleeper (clock_nanosleep of 1.5 s, again and again,
 * and an epoll descriptor that nobody waits on)  futex (as joinThreadPool: waits for work that
 * others do; an epoll in a helper thread) */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "loop_app.h"

static const char *go_file;
static int timer, blocks, silent;

static void arm(long ms)
{
	struct itimerspec once = {{0, 0}, {ms / 1000, ms % 1000 * 1000000}};

	timerfd_settime(timer, 0, &once, NULL);
}

static __attribute__((noinline)) void block_here(void)
{
	uint64_t boot = now_ns(CLOCK_BOOTTIME), since = now_ns(CLOCK_MONOTONIC);
	char text[80];

	sleep_ms(300);
	snprintf(text, sizeof(text), "block %llu %llu\n", (unsigned long long)boot,
		 (unsigned long long)(now_ns(CLOCK_MONOTONIC) - since));
	say(text);
}

/* The handler of the timer, in any loop. */
static void tick(void)
{
	uint64_t count;

	if (read(timer, &count, sizeof(count)) != sizeof(count))
		return;
	if (silent)
		return;
	if (access(go_file, F_OK)) {
		arm(100);
		return;
	}
	if (blocks++ < 5) {
		block_here();
		arm(500);
	}
}

static int watched(int epoll)
{
	struct epoll_event event = {.events = EPOLLIN};

	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	return epoll;
}

static void epoll_loop(int epoll, int until_go)
{
	struct epoll_event event;

	while (!until_go || access(go_file, F_OK))
		if (epoll_wait(epoll, &event, 1, -1) == 1)
			tick();
}

/* epoll_pwait by an instruction of this program, as Go, musl's static programs and others do. */
static long own_epoll_pwait(int epoll, struct epoll_event *events, int room)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = -1;
	register long r8 __asm__("r8") = 0;
	register long r9 __asm__("r9") = 8;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_epoll_pwait), "D"((long)epoll), "S"(events), "d"((long)room),
			   "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_epoll_pwait;
	register long x0 __asm__("x0") = epoll;
	register long x1 __asm__("x1") = (long)events;
	register long x2 __asm__("x2") = room;
	register long x3 __asm__("x3") = -1;
	register long x4 __asm__("x4") = 0;
	register long x5 __asm__("x5") = 8;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#endif
}

static void raw_loop(void)
{
	int epoll = watched(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event event;

	for (;;)
		if (own_epoll_pwait(epoll, &event, 1) == 1)
			tick();
}

static void poll_loop(int with_ppoll)
{
	struct pollfd fd = {timer, POLLIN, 0};

	for (;;)
		if ((with_ppoll ? ppoll(&fd, 1, NULL, NULL) : poll(&fd, 1, -1)) == 1)
			tick();
}

static void select_loop(int with_pselect)
{
	for (;;) {
		fd_set set;

		FD_ZERO(&set);
		FD_SET(timer, &set);
		if ((with_pselect ? pselect(timer + 1, &set, NULL, NULL, NULL, NULL)
				  : select(timer + 1, &set, NULL, NULL, NULL)) == 1)
			tick();
	}
}

/* One poll request at a time; its completion is waited for in io_uring_enter. */
static void io_uring_loop(void)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	size_t ring_size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	struct io_uring_sqe *sqes;
	char *ring;

	if (fd < 0)
		exit(3);
	if (ring_size < params.sq_off.array + params.sq_entries * sizeof(unsigned))
		ring_size = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	ring = mmap(NULL, ring_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		    IORING_OFF_SQ_RING);
	sqes = mmap(NULL, params.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
	if (ring == MAP_FAILED || sqes == MAP_FAILED)
		exit(3);
	for (unsigned n = 0;; n++) {
		unsigned mask = *(unsigned *)(ring + params.sq_off.ring_mask);

		memset(&sqes[n & mask], 0, sizeof(*sqes));
		sqes[n & mask].opcode = IORING_OP_POLL_ADD;
		sqes[n & mask].fd = timer;
		sqes[n & mask].poll32_events = POLLIN;
		((unsigned *)(ring + params.sq_off.array))[n & mask] = n & mask;
		__atomic_store_n((unsigned *)(ring + params.sq_off.tail), n + 1, __ATOMIC_RELEASE);
		while (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
		       errno == EINTR)
			;
		__atomic_store_n((unsigned *)(ring + params.cq_off.head), n + 1, __ATOMIC_RELEASE);
		tick();
	}
}

/* The handler waits in another epoll until GO: nobody has seen the outer loop by then. */
/* Deeper than the loop that it is a handler of. */
static __attribute__((noinline)) void wait_nested(void)
{
	int inner = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;
	volatile char frame[4096];

	frame[0] = 0;
	while (access(go_file, F_OK))
		epoll_wait(inner, &event, 1, 100);
	frame[1] = frame[0];
}

static void nested_loop(void)
{
	int outer = watched(epoll_create1(EPOLL_CLOEXEC));

	wait_nested();
	epoll_loop(outer, 0);
}

static void *helper_loop(void *unused)
{
	prctl(PR_SET_NAME, "worker-loop");
	epoll_loop(watched(epoll_create1(EPOLL_CLOEXEC)), 0);
	return unused;
}

/* Loops for a second, with blocks. */
static void *short_loop(void *unused)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	prctl(PR_SET_NAME, "short-loop");
	for (int i = 0; i < 5; i++) {
		epoll_wait(epoll, &event, 1, 50);
		sleep_ms(150);
	}
	close(epoll);
	return unused;
}

static void short_threads(void)
{
	pthread_t thread;

	for (;;) {
		pthread_create(&thread, NULL, short_loop, NULL);
		pthread_join(thread, NULL);
	}
}

static void join_helper(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, helper_loop, NULL);
	pthread_join(thread, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

/* Short work when told, 2 s apart: neither its waits nor its work are blocks. */
static void *tell_work(void *unused)
{
	for (;;) {
		sleep_ms(2000);
		pthread_cond_signal(&work);
	}
	return unused;
}

static void wait_for_work(void)
{
	pthread_t thread;

	silent = 1;
	pthread_create(&thread, NULL, helper_loop, NULL);
	pthread_create(&thread, NULL, tell_work, NULL);
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&work, &mutex);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (argc < 3)
		return 2;
	go_file = argv[2];
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	arm(100);
	if (strcmp(mode, "execed"))
		say("ready\n");
	if (!strcmp(mode, "epoll")) {
		epoll_loop(watched(epoll_create1(EPOLL_CLOEXEC)), 0);
	} else if (!strcmp(mode, "epoll_raw")) {
		raw_loop();
	} else if (!strcmp(mode, "poll") || !strcmp(mode, "ppoll")) {
		poll_loop(mode[1] == 'p');
	} else if (!strcmp(mode, "select") || !strcmp(mode, "pselect")) {
		select_loop(mode[0] == 'p');
	} else if (!strcmp(mode, "io_uring")) {
		io_uring_loop();
	} else if (!strcmp(mode, "nested")) {
		nested_loop();
	} else if (!strcmp(mode, "second") || !strcmp(mode, "exec")) {
		int first = watched(epoll_create1(0));

		epoll_loop(first, 1);
		if (mode[0] == 'e') {
			execl("/proc/self/exe", argv[0], "execed", argv[2], NULL);
			return 1;
		}
		epoll_loop(watched(epoll_create1(EPOLL_CLOEXEC)), 0);
	} else if (!strcmp(mode, "execed")) {
		/* the leaked descriptor is there still; the loop has another number */
		epoll_loop(watched(epoll_create1(EPOLL_CLOEXEC)), 0);
	} else if (!strcmp(mode, "helper")) {
		join_helper();
	} else if (!strcmp(mode, "threads")) {
		short_threads();
	} else if (!strcmp(mode, "join")) {
		silent = 1;
		join_helper();
	} else if (!strcmp(mode, "futex")) {
		wait_for_work();
	} else if (!strcmp(mode, "sleeper")) {
		watched(epoll_create1(EPOLL_CLOEXEC));
		for (;;)
			sleep_ms(1500);
	}
	return 2;
}
