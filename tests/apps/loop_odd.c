/* SPDX-License-Identifier: BSD-2-Clause */
/* Main threads that wait for events in ways that are easily taken for something else.
 *
 * usage: loop_odd MODE GO_FILE
 * A loop ticks each 100 ms until GO_FILE is there, then its handler blocks for 300 ms five times,
 * 500 ms apart, then it waits for events without a timeout. Prints "ready", and for each block
 * "block BOOT_NS WALL_NS".
 * Loops:
 *   pwait2      epoll_pwait2 with a timeout
 *   swap        ppoll that swaps two sets of descriptors
 *   signalfd    signals of a timer through a signalfd in an epoll
 *   uring_ext   io_uring_enter with a timeout of its own (IORING_ENTER_EXT_ARG)
 *   coroutines  three coroutines with stacks of their own wait in one epoll in turns
 *   moved       after the second block the loop goes on in another epoll, 8 KiB deeper
 *   left        the same, and the first epoll stays open
 *   vfork       its handler's 300 ms are a vfork whose child sleeps before its exec
 *   fork        it forks a child that goes on in the same epoll and has no blocks
 *   renumbered  it closes its epoll and makes one of the same number before each wait
 *   late_thread a helper thread waits in an epoll of its own, which the main thread never uses
 * No loop, a thread that parks in a futex for long between short turns:
 *   pool        three threads, the main one too, take turns in one epoll; a thread without a turn
 *               sleeps
 *   brief       the main thread parks for 400 ms after each event; two others ask the same epoll
 *               every 20 ms and never wait in it
 *   hand_over   the main thread waits in the epoll first, then a helper does for ever
 *   closed      the main thread waited in an epoll three times, closed it, and joins a helper
 *   turns       three coroutines with stacks of their own call poll in turns: a wait in one is no
 *               sign that another's message is over
 *   sigwait     sigtimedwait and an epoll that is only asked (timeout 0) */
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "loop_app.h"

#define BLOCKS 5

static const char *go_file;
static int timer, blocks, stays_open;
static void (*work)(void);

static void arm(long ms)
{
	struct itimerspec once = {{0, 0}, {ms / 1000, ms % 1000 * 1000000}};

	timerfd_settime(timer, 0, &once, NULL);
}

static __attribute__((noinline)) void block_here(void)
{
	uint64_t boot = now_ns(CLOCK_BOOTTIME), since = now_ns(CLOCK_MONOTONIC);
	char text[80];

	work();
	snprintf(text, sizeof(text), "block %llu %llu\n", (unsigned long long)boot,
		 (unsigned long long)(now_ns(CLOCK_MONOTONIC) - since));
	say(text);
}

static void sleep_300(void)
{
	sleep_ms(300);
}

static void vfork_300(void)
{
	pid_t child = vfork();

	if (!child) {
		struct timespec ts = {0, 300000000};

		syscall(SYS_nanosleep, &ts, NULL);
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
}

static void turn(void)
{
	if (access(go_file, F_OK)) {
		arm(100);
	} else if (blocks++ < BLOCKS) {
		block_here();
		arm(500);
	}
}

static void tick(void)
{
	uint64_t count;

	if (read(timer, &count, sizeof(count)) == sizeof(count))
		turn();
}

static int epoll_of(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	return epoll;
}

static void epoll_loop(int epoll)
{
	struct epoll_event event;

	for (;;)
		if (epoll_wait(epoll, &event, 1, -1) == 1)
			tick();
}

static void pwait2_loop(void)
{
	int epoll = epoll_of(timer);
	struct timespec timeout = {0, 700000000};
	struct epoll_event event;

	for (;;)
		if (syscall(SYS_epoll_pwait2, epoll, &event, 1, &timeout, NULL, 8) == 1)
			tick();
}

static void swap_loop(void)
{
	struct pollfd one[] = {{timer, POLLIN, 0}}, two[] = {{0, 0, 0}, {timer, POLLIN, 0}};
	int pipes[2];

	if (pipe(pipes))
		exit(3);
	two[0].fd = pipes[0];
	for (unsigned n = 0;; n++) {
		struct pollfd *set = n & 1 ? two : one;

		if (ppoll(set, 1 + (n & 1), NULL, NULL) == 1)
			tick();
	}
}

static void signalfd_loop(void)
{
	struct signalfd_siginfo info;
	struct epoll_event event;
	struct sigevent by = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec often = {{0, 100000000}, {0, 100000000}};
	sigset_t set;
	timer_t id;
	int fd, epoll, left = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	epoll = epoll_of(fd);
	timer_create(CLOCK_MONOTONIC, &by, &id);
	timer_settime(id, 0, &often, NULL);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1 ||
		    read(fd, &info, sizeof(info)) != sizeof(info) || left-- > 0 ||
		    access(go_file, F_OK) || blocks++ >= BLOCKS)
			continue;
		block_here();
		left = 5;
	}
}

static void uring_loop(void)
{
	struct io_uring_params params = {0};
	struct __kernel_timespec timeout = {0, 700000000};
	struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&timeout};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	struct io_uring_sqe *sqes;
	unsigned submit = 1, n = 0;
	char *ring;

	if (fd < 0 || !(params.features & IORING_FEAT_EXT_ARG))
		exit(3);
	ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		    IORING_OFF_SQ_RING);
	sqes = mmap(NULL, params.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
	if (ring == MAP_FAILED || sqes == MAP_FAILED)
		exit(3);
	for (;;) {
		unsigned mask = *(unsigned *)(ring + params.sq_off.ring_mask);
		unsigned *head = (unsigned *)(ring + params.cq_off.head);

		if (submit) {
			memset(&sqes[n & mask], 0, sizeof(*sqes));
			sqes[n & mask].opcode = IORING_OP_POLL_ADD;
			sqes[n & mask].fd = timer;
			sqes[n & mask].poll32_events = POLLIN;
			((unsigned *)(ring + params.sq_off.array))[n & mask] = n & mask;
			__atomic_store_n((unsigned *)(ring + params.sq_off.tail), ++n,
					 __ATOMIC_RELEASE);
		}
		syscall(SYS_io_uring_enter, fd, submit, 1,
			IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg));
		submit = *head !=
			 __atomic_load_n((unsigned *)(ring + params.cq_off.tail), __ATOMIC_ACQUIRE);
		if (submit) {
			__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
			tick();
		}
	}
}

/* ---- coroutines ---- */

#define COROUTINES 3
static ucontext_t contexts[COROUTINES];

static int coroutine_epoll = -1;

static void coroutine(int self)
{
	volatile char frame[3000];

	frame[0] = 0;
	for (;;) {
		struct pollfd fd = {timer, POLLIN, 0};

		struct epoll_event event;

		if ((coroutine_epoll < 0 ? poll(&fd, 1, -1)
					 : epoll_wait(coroutine_epoll, &event, 1, -1)) == 1)
			tick();
		frame[1] = frame[0];
		swapcontext(&contexts[self], &contexts[(self + 1) % COROUTINES]);
	}
}

static void turns(void)
{
	static char stacks[COROUTINES][65536];
	ucontext_t main_context;

	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
	}
	swapcontext(&main_context, &contexts[0]);
}

static void coroutine_loop(void)
{
	coroutine_epoll = epoll_of(timer);
	turns();
}

/* ---- loops that move ---- */

static __attribute__((noinline)) void deeper(void)
{
	volatile char frame[8192];
	int epoll;

	frame[0] = 0;
	epoll = epoll_of(timer);
	epoll_loop(epoll);
	frame[1] = frame[0];
}

static void moved_loop(void)
{
	int epoll = epoll_of(timer);
	struct epoll_event event;

	while (blocks < 2)
		if (epoll_wait(epoll, &event, 1, -1) == 1)
			tick();
	if (stays_open)
		deeper();
	close(epoll);
	/* So that the next one has another number. */
	dup2(0, epoll);
	deeper();
}

static void renumbered_loop(void)
{
	struct epoll_event event;

	for (;;) {
		int epoll = epoll_of(timer);

		if (epoll_wait(epoll, &event, 1, -1) == 1)
			tick();
		close(epoll);
	}
}

static void fork_loop(void)
{
	int epoll = epoll_of(timer);
	struct epoll_event event;

	if (!fork()) {
		int own = epoll_of(0);

		/* As a child of a prefork server; it dies with its parent. */
		while (getppid() != 1)
			epoll_wait(own, &event, 0, 500);
		_exit(0);
	}
	epoll_loop(epoll);
}

/* ---- pollers that are shared, or not used any more ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t free_now = PTHREAD_COND_INITIALIZER;
static int leader, shared;

/* Who is the leader waits in the epoll; the others wait for that place. */
static void *pool_thread(void *unused)
{
	struct epoll_event event;
	uint64_t count;

	for (;;) {
		pthread_mutex_lock(&mutex);
		while (leader)
			pthread_cond_wait(&free_now, &mutex);
		leader = 1;
		pthread_mutex_unlock(&mutex);
		epoll_wait(shared, &event, 1, -1);
		if (read(timer, &count, sizeof(count)) < 0)
			sleep_ms(1);
		pthread_mutex_lock(&mutex);
		leader = 0;
		pthread_cond_signal(&free_now);
		pthread_mutex_unlock(&mutex);
		sleep_ms(2);
	}
	return unused;
}

static void pool(void)
{
	struct itimerspec often = {{0, 400000000}, {0, 400000000}};
	pthread_t thread;

	shared = epoll_of(timer);
	timerfd_settime(timer, 0, &often, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, pool_thread, NULL);
	pool_thread(NULL);
}

static void *brief_thread(void *unused)
{
	struct epoll_event event;

	for (;;) {
		sleep_ms(20);
		epoll_wait(shared, &event, 1, 0);
	}
	return unused;
}

static void brief(void)
{
	struct itimerspec often = {{0, 700000000}, {0, 700000000}};
	struct epoll_event event;
	pthread_t thread;
	uint64_t count;

	shared = epoll_of(timer);
	timerfd_settime(timer, 0, &often, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, NULL, brief_thread, NULL);
	for (;;) {
		epoll_wait(shared, &event, 1, -1);
		if (read(timer, &count, sizeof(count)) == sizeof(count))
			sleep_ms(400);
	}
}

static void *for_ever(void *unused)
{
	struct epoll_event event;

	for (;;)
		epoll_wait(shared, &event, 1, -1);
	return unused;
}

static void wait_thrice(int epoll)
{
	struct epoll_event event;

	for (int i = 0; i < 3 || access(go_file, F_OK); i++)
		epoll_wait(epoll, &event, 1, 100);
}

static void join(void *(*body)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, body, NULL);
	pthread_join(thread, NULL);
}

static void *pause_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void sigwait_main(void)
{
	int epoll = epoll_of(0);
	struct timespec timeout = {1, 0};
	struct epoll_event event;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (;;) {
		epoll_wait(epoll, &event, 1, 0);
		sigtimedwait(&set, NULL, &timeout);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} loops[] = {{"pwait2", pwait2_loop},
		     {"swap", swap_loop},
		     {"signalfd", signalfd_loop},
		     {"uring_ext", uring_loop},
		     {"coroutines", coroutine_loop},
		     {"moved", moved_loop},
		     {"left", moved_loop},
		     {"renumbered", renumbered_loop},
		     {"fork", fork_loop},
		     {"pool", pool},
		     {"brief", brief},
		     {"turns", turns},
		     {"sigwait", sigwait_main}};
	const char *mode = argc > 2 ? argv[1] : "";
	pthread_t thread;

	if (argc < 3)
		return 2;
	go_file = argv[2];
	work = strcmp(mode, "vfork") ? sleep_300 : vfork_300;
	stays_open = !strcmp(mode, "left");
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	arm(100);
	say("ready\n");
	for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); i++)
		if (!strcmp(mode, loops[i].name))
			loops[i].run();
	if (!strcmp(mode, "vfork"))
		epoll_loop(epoll_of(timer));
	shared = epoll_of(0);
	if (!strcmp(mode, "late_thread")) {
		pthread_create(&thread, NULL, for_ever, NULL);
		epoll_loop(epoll_of(timer));
	}
	if (!strcmp(mode, "hand_over")) {
		wait_thrice(shared);
		join(for_ever);
	}
	if (!strcmp(mode, "closed")) {
		wait_thrice(shared);
		close(shared);
		join(pause_for_ever);
	}
	return 2;
}
