/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper whose handler makes synchronous binder calls to servers of its own, through the kernel's
 * driver: each 800 ms the next of the cases that its arguments name.
 *
 * usage: binder_calls DEVICE CASE...      The second device is DEVICE2.
 *   chain   -> server 1 -> server 2, whose handler waits for a lock that its thread "holder" has
 *   queued  -> server 1, whose only thread serves the process "other" for 300 ms more
 *   oneway  a one-way call to server 1, which takes 300 ms, then a sleep of 300 ms
 *   flood   500 one-way calls to server 2, which are not told of below, then -> server 2 (250 ms)
 *   nested  -> server 1 -> back to this thread -> server 2 (250 ms); then server 1 works 250 ms
 *   two     -> server 1 (150 ms), then -> server 2 (300 ms)
 *   work    -> server 1, which computes for 300 ms
 *   long    -> server 1 -> server 2 -> ... -> server 11 (300 ms)
 *   dies    -> server 12, which ends without an answer after 200 ms; then a sleep of 200 ms
 *   self    -> this process's own second client of the device, whose thread "twin" takes 250 ms
 *   pool    -> the server "wide", whose three threads serve the process "many" for 300 ms more
 *   contexts -> server 1 -> back to this thread -> the server of a second device (250 ms); then
 *           server 1 works 250 ms
 *   via     -> server 1 -> server 14, which ends without an answer after 200 ms; server 1 works 200
 *           ms more
 *   deep    -> server 1 -> back -> server 1 ..., DEEP times, then -> server 2 (250 ms)
 *   later   -> server 2, which sleeps 200 ms, then waits 1800 ms for a lock of its thread "holder"
 *   turns   a lock of this process's thread "holder" (80 ms), then -> server 2 (300 ms), then the
 * lock again deadlock -> server 1, which waits for a lock of its thread "caller", whose call this
 * process serves in its thread "pool", which waits for a lock of the main thread. For ever. Waits
 * for a byte on its standard input. Prints "ready PID", then, all CLOCK_MONOTONIC: case NAME
 * FROM_NS sent CODE TID NS, taken CODE TID NS, answered CODE TID NS; each with the CPU time of
 * the thread then */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "binder_client.h"

#define CHAIN_SERVERS 11
#define MORTAL        12
#define MYSELF        13
#define MORTAL_TOO    14
#define TWIN          15
#define WIDE          16
#define DEEP          6
#define HOLD_MS       300

enum code {
	CODE_CHAIN = 11, /* server 1 calls server 2 */
	CODE_LOCK = 12,  /* waits for the holder's lock */
	CODE_BUSY = 21,  /* of the process "other" */
	CODE_QUEUED = 22,
	CODE_ONEWAY = 31,
	CODE_FLOOD = 32,
	CODE_FLOODED = 33,
	CODE_CALL_BACK = 41,
	CODE_BACK = 42,
	CODE_SLEEP_SHORT = 43,
	CODE_FIRST = 61,
	CODE_SECOND = 62,
	CODE_TURNS = 63,
	CODE_CONTEXTS = 44,
	CODE_CONTEXTS_BACK = 45,
	CODE_OTHER_CONTEXT = 46, /* by the second device */
	CODE_TWIN = 47,
	CODE_VIA = 48,
	CODE_DIE_TOO = 49,
	CODE_BUSY_WIDE = 51, /* of the process "many" */
	CODE_POOL = 52,
	CODE_DEEPEST = 56,
	CODE_LATER = 57,
	CODE_WORK = 71,
	CODE_LONG = 81, /* to the next server; the last one sleeps */
	CODE_DIE = 91,
	CODE_DEAD = 95,      /* server 1: waits for the lock of "caller" */
	CODE_DEAD_BACK = 96, /* to this process: waits for the main thread's lock */
	CODE_DEEP = 100,     /* + how deep; to server 1 */
	CODE_DEEP_BACK = 120
};

static const char *device;
static struct client client, twin, second;
static uint32_t own_number, handles[SERVERS], second_handle;
static char second_device[128];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* What this thread ran so far. */
static uint64_t ran_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* One write, so that lines of several processes do not mix. */
static void tell(const char *what, uint32_t code, uint64_t at_ns, uint64_t cpu_ns)
{
	char line[100];
	int n = snprintf(line, sizeof(line), "%s %u %d %llu %llu\n", what, code,
			 (int)syscall(SYS_gettid), (unsigned long long)at_ns,
			 (unsigned long long)cpu_ns);

	if (write(1, line, (size_t)n) != n)
		_exit(95);
}

static __attribute__((noinline)) void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	while (nanosleep(&ts, &ts))
		;
}

static uint32_t find(uint32_t number)
{
	if (!handles[number])
		handles[number] = client_find(&client, number);
	return handles[number];
}

static __attribute__((noinline)) bool call_handle(struct client *by, uint32_t handle, uint32_t code,
						  enum call_flags flags)
{
	struct parcel parcel = {0};
	uint64_t sent_ns = now_ns();
	bool answered = client_call(by, handle, code, flags, &parcel);

	tell("sent", code, sent_ns, ran_ns());
	return answered;
}

static __attribute__((noinline)) bool call(uint32_t number, uint32_t code, enum call_flags flags)
{
	return call_handle(&client, find(number), code, flags);
}

/* ---- a server ---- */

static __attribute__((noinline)) void hold_and_sleep(void)
{
	nap_ms(HOLD_MS);
	__asm__ volatile("");
}

static void *hold_lock(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&held);
	hold_and_sleep();
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *hold_long(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&held);
	nap_ms(6 * HOLD_MS);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *hold_short(void *unused)
{
	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&held);
	nap_ms(80);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void *hold_and_call(void *unused)
{
	prctl(PR_SET_NAME, "caller");
	pthread_mutex_lock(&lock);
	pthread_barrier_wait(&held);
	call(MYSELF, CODE_DEAD_BACK, CALL_PLAIN);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static __attribute__((noinline)) void wait_for_lock(void *(*holder)(void *))
{
	pthread_t thread;

	pthread_barrier_init(&held, NULL, 2);
	if (pthread_create(&thread, NULL, holder, NULL))
		_exit(96);
	pthread_barrier_wait(&held);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
}

static __attribute__((noinline)) void work_ms(unsigned ms)
{
	uint64_t until_ns = now_ns() + ms * 1000000ull;

	while (now_ns() < until_ns)
		;
	__asm__ volatile("");
}

static int serve(struct client *unused, uint32_t code, struct parcel *parcel)
{
	uint64_t taken_ns = now_ns(), taken_cpu_ns = ran_ns();

	if (code == CODE_FLOOD)
		return 0;
	if (code >= CODE_DEEP && code < CODE_DEEP + DEEP)
		call(MYSELF, code - CODE_DEEP + CODE_DEEP_BACK, CALL_PLAIN);
	else if (code == CODE_DEEP_BACK + DEEP - 1)
		call(2, CODE_DEEPEST, CALL_PLAIN);
	else if (code >= CODE_DEEP_BACK && code < CODE_DEEP_BACK + DEEP)
		call(1, code + 1 - CODE_DEEP_BACK + CODE_DEEP, CALL_PLAIN);
	switch (code) {
	case CODE_CHAIN:
		call(2, CODE_LOCK, CALL_PLAIN);
		break;
	case CODE_LOCK:
		wait_for_lock(hold_lock);
		break;
	case CODE_QUEUED:
	case CODE_POOL:
		break;
	case CODE_BUSY:
	case CODE_BUSY_WIDE:
	case CODE_ONEWAY:
	case CODE_SECOND:
	case CODE_TURNS:
		nap_ms(300);
		break;
	case CODE_SLEEP_SHORT:
	case CODE_FLOODED:
	case CODE_OTHER_CONTEXT:
	case CODE_TWIN:
	case CODE_DEEPEST:
		nap_ms(250);
		break;
	case CODE_CONTEXTS:
		call(MYSELF, CODE_CONTEXTS_BACK, CALL_PLAIN);
		nap_ms(250);
		break;
	case CODE_CONTEXTS_BACK:
		call_handle(&second, second_handle, CODE_OTHER_CONTEXT, CALL_PLAIN);
		break;
	case CODE_LATER:
		nap_ms(200);
		wait_for_lock(hold_long);
		break;
	case CODE_VIA:
		call(MORTAL_TOO, CODE_DIE_TOO, CALL_PLAIN);
		nap_ms(200);
		break;
	case CODE_CALL_BACK:
		call(MYSELF, CODE_BACK, CALL_PLAIN);
		nap_ms(250);
		break;
	case CODE_BACK:
		call(2, CODE_SLEEP_SHORT, CALL_PLAIN);
		break;
	case CODE_FIRST:
		nap_ms(150);
		break;
	case CODE_WORK:
		work_ms(300);
		break;
	case CODE_LONG:
		if (own_number < CHAIN_SERVERS)
			call(own_number + 1, CODE_LONG, CALL_PLAIN);
		else
			nap_ms(300);
		break;
	case CODE_DIE:
	case CODE_DIE_TOO:
		nap_ms(200);
		tell("taken", code, taken_ns, taken_cpu_ns);
		_exit(0);
	case CODE_DEAD:
		wait_for_lock(hold_and_call);
		break;
	case CODE_DEAD_BACK:
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		break;
	}
	tell("taken", code, taken_ns, taken_cpu_ns);
	tell("answered", code, now_ns(), ran_ns());
	return 0;
}

static void __attribute__((noreturn)) serve_as(uint32_t number)
{
	char name[16];

	snprintf(name, sizeof(name), "server-%u", number);
	prctl(PR_SET_NAME, name);
	own_number = number;
	client.serve = serve;
	if (client_open(&client, device))
		_exit(97);
	client_register(&client, number);
	client_loop(&client);
}

static void start_process(void (*run)(uint32_t), uint32_t number)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		_exit(98);
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	run(number);
	_exit(0);
}

static void manage(uint32_t unused)
{
	prctl(PR_SET_NAME, "manager");
	manager_run(device);
}

static void manage_second(uint32_t unused)
{
	prctl(PR_SET_NAME, "manager-2");
	manager_run(second_device);
}

static void be_second(uint32_t number)
{
	device = second_device;
	serve_as(number);
}

static void be_server(uint32_t number)
{
	serve_as(number);
}

/* Calls server 1 when it is told to. */
static int other_pipe[2];
static void be_other(uint32_t unused)
{
	char byte;

	prctl(PR_SET_NAME, "other");
	client.serve = serve;
	if (client_open(&client, device))
		_exit(97);
	find(1);
	while (read(other_pipe[0], &byte, 1) == 1)
		call(1, CODE_BUSY, CALL_PLAIN);
}

static void *pool(void *unused)
{
	prctl(PR_SET_NAME, "pool");
	client_loop(&client);
	return NULL;
}

static void be_wide(uint32_t number)
{
	pthread_t thread;

	prctl(PR_SET_NAME, "wide");
	client.serve = serve;
	if (client_open(&client, device))
		_exit(97);
	client_register(&client, number);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, pool, NULL))
			_exit(96);
	client_loop(&client);
}

static int many_pipe[2];
static void *one_of_many(void *unused)
{
	char byte;

	while (read(many_pipe[0], &byte, 1) == 1)
		call(WIDE, CODE_BUSY_WIDE, CALL_PLAIN);
	return NULL;
}

static void be_many(uint32_t unused)
{
	pthread_t thread;

	prctl(PR_SET_NAME, "many");
	client.serve = serve;
	if (client_open(&client, device))
		_exit(97);
	find(WIDE);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread, NULL, one_of_many, NULL))
			_exit(96);
	one_of_many(NULL);
}

/* ---- the looper ---- */

static void *be_twin(void *unused)
{
	prctl(PR_SET_NAME, "twin");
	client_loop(&twin);
	return NULL;
}

/* This process has the device twice, and a second device. */
static bool open_others(void)
{
	pthread_t thread;

	twin.serve = second.serve = serve;
	if (client_open(&twin, device) || client_open(&second, second_device))
		return false;
	client_register(&twin, TWIN);
	second_handle = client_find(&second, 1);
	return !pthread_create(&thread, NULL, be_twin, NULL);
}

static __attribute__((noinline)) void handle(const char *name)
{
	char line[64];
	int n;

	n = snprintf(line, sizeof(line), "case %s %llu\n", name, (unsigned long long)now_ns());
	if (write(1, line, (size_t)n) != n)
		_exit(95);
	if (!strcmp(name, "chain")) {
		call(1, CODE_CHAIN, CALL_PLAIN);
	} else if (!strcmp(name, "queued")) {
		if (write(other_pipe[1], "x", 1) != 1)
			_exit(99);
		nap_ms(50);
		call(1, CODE_QUEUED, CALL_PLAIN);
	} else if (!strcmp(name, "oneway")) {
		call(1, CODE_ONEWAY, CALL_ONEWAY);
		nap_ms(300);
	} else if (!strcmp(name, "flood")) {
		for (int i = 0; i < 500; i++) {
			struct parcel parcel = {0};

			/* One that finds no room in the server is refused. */
			client_call(&client, find(2), CODE_FLOOD, CALL_ONEWAY, &parcel);
		}
		call(2, CODE_FLOODED, CALL_PLAIN);
	} else if (!strcmp(name, "nested")) {
		call(1, CODE_CALL_BACK, CALL_PLAIN);
	} else if (!strcmp(name, "two")) {
		call(1, CODE_FIRST, CALL_PLAIN);
		call(2, CODE_SECOND, CALL_PLAIN);
	} else if (!strcmp(name, "turns")) {
		wait_for_lock(hold_short);
		call(2, CODE_TURNS, CALL_PLAIN);
		wait_for_lock(hold_short);
	} else if (!strcmp(name, "work")) {
		call(1, CODE_WORK, CALL_PLAIN);
	} else if (!strcmp(name, "long")) {
		call(1, CODE_LONG, CALL_PLAIN);
	} else if (!strcmp(name, "dies")) {
		call(MORTAL, CODE_DIE, CALL_PLAIN);
		nap_ms(200);
	} else if (!strcmp(name, "self")) {
		call(TWIN, CODE_TWIN, CALL_PLAIN);
	} else if (!strcmp(name, "pool")) {
		if (write(many_pipe[1], "xxx", 3) != 3)
			_exit(99);
		nap_ms(100);
		call(WIDE, CODE_POOL, CALL_PLAIN);
	} else if (!strcmp(name, "contexts")) {
		call(1, CODE_CONTEXTS, CALL_PLAIN);
	} else if (!strcmp(name, "via")) {
		call(1, CODE_VIA, CALL_PLAIN);
	} else if (!strcmp(name, "later")) {
		call(2, CODE_LATER, CALL_PLAIN);
	} else if (!strcmp(name, "deep")) {
		call(1, CODE_DEEP, CALL_PLAIN);
	} else if (!strcmp(name, "deadlock")) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, pool, NULL))
			_exit(96);
		pthread_mutex_lock(&lock);
		call(1, CODE_DEAD, CALL_PLAIN);
	}
}

int main(int argc, char **argv)
{
	struct itimerspec each = {{0, 800000000}, {0, 800000000}};
	struct epoll_event event = {.events = EPOLLIN};
	int epoll, timer, next = 2;
	uint64_t fired;

	if (argc < 3)
		return 2;
	device = argv[1];
	snprintf(second_device, sizeof(second_device), "%s2", device);
	if (pipe(other_pipe) || pipe(many_pipe))
		return 1;
	start_process(manage, 0);
	start_process(manage_second, 0);
	nap_ms(100);
	for (uint32_t i = 1; i <= MORTAL; i++)
		start_process(be_server, i);
	start_process(be_server, MORTAL_TOO);
	start_process(be_second, 1);
	start_process(be_wide, WIDE);
	nap_ms(300);
	start_process(be_other, 0);
	start_process(be_many, 0);
	client.serve = serve;
	if (client_open(&client, device))
		return 1;
	client_register(&client, MYSELF);
	if (!open_others())
		return 1;
	for (uint32_t i = 1; i <= MORTAL; i++)
		find(i);
	find(TWIN);
	find(WIDE);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &each, NULL))
		return 1;
	fcntl(0, F_SETFL, O_NONBLOCK);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	/* Its loop is known, and whoever records has begun, before the first case. */
	for (bool started = false; epoll_wait(epoll, &event, 1, -1) == 1;) {
		char byte;

		if (read(timer, &fired, sizeof(fired)) != sizeof(fired))
			continue;
		if (!started) {
			started = read(0, &byte, 1) == 1;
			continue;
		}
		if (next < argc)
			handle(argv[next++]);
		else if (next++ == argc)
			printf("done\n");
		fflush(stdout);
	}
	return 1;
}
