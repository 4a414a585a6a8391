/* SPDX-License-Identifier: BSD-2-Clause */
/* A main thread on the real android::Looper. It reads commands from stdin, one a line, and runs each
 * as a message of its looper; what each message took goes to stdout as
 *	KIND START_BOOT_NS WALL_NS CPU_NS WAITED_NS STOLEN_NS LEAD_NS
 * waited: for a CPU, as the kernel counts it; stolen: by the hypervisor and interrupts, all CPUs, in
 * ticks; lead: how long before it its command came, since when the thread has not slept.
 * commands: KIND MILLISECONDS
 *	cpu      computes            sleep  nanosleep
 *	lock     waits for a mutex that a niced thread holds      pi  the same, a PI mutex
 *	pipe     reads an empty pipe that another thread fills    fault  touches fresh pages
 *	poll     poll() on an empty pipe       nested  waits on an epoll of its own
 *	abc      400/80/30 ms in three functions (MILLISECONDS counts not)
 *	child    waits for a child process     hang  never ends
 *	native   three callbacks due together, MILLISECONDS each
 *	rebuild  goes on with a new Looper     quit
 * A command "early KIND MS" on the command line runs before the first poll. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <utils/Looper.h>

using android::Looper;
using android::Message;
using android::MessageHandler;
using android::sp;

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

/* Three functions that cannot be taken for one another. */
#define SPIN(name, step)                                                                           \
	extern "C" NOINLINE void name(uint64_t ms)                                                 \
	{                                                                                          \
		uint64_t end = now_ns(CLOCK_MONOTONIC) + ms * 1000000u;                            \
                                                                                                   \
		while (now_ns(CLOCK_MONOTONIC) < end)                                              \
			for (int i = 0; i < 2000; i++)                                             \
				sink += step;                                                      \
		sink ^= step;                                                                      \
	}
SPIN(phase_a, 1)
SPIN(phase_b, 2)
SPIN(phase_c, 3)
SPIN(compute, 5)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, pi_lock;
static int work_pipe[2];

struct helper {
	pthread_mutex_t *lock;
	uint64_t ns;
	volatile int ready;
};

static void *hold(void *ctx)
{
	helper *h = (helper *)ctx;

	pthread_setname_np(pthread_self(), "lock-holder");
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
	pthread_mutex_lock(h->lock);
	h->ready = 1;
	sleep_ns(h->ns);
	pthread_mutex_unlock(h->lock);
	return NULL;
}

static void *fill(void *ctx)
{
	helper *h = (helper *)ctx;

	pthread_setname_np(pthread_self(), "pipe-filler");
	h->ready = 1;
	sleep_ns(h->ns);
	if (write(work_pipe[1], "x", 1) != 1)
		abort();
	return NULL;
}

extern "C" NOINLINE void wait_lock(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	sink++;
	pthread_mutex_unlock(mutex);
}

extern "C" NOINLINE void read_pipe(void)
{
	char byte;

	if (read(work_pipe[0], &byte, 1) != 1)
		abort();
	sink++;
}

extern "C" NOINLINE void poll_pipe(void)
{
	struct pollfd fd = {work_pipe[0], POLLIN, 0};

	poll(&fd, 1, -1);
	sink++;
	read_pipe();
}

extern "C" NOINLINE void touch_pages(uint64_t ms)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC) + ms * 1000000u;

	while (now_ns(CLOCK_MONOTONIC) < end) {
		size_t size = 4 << 20;
		char *p = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(p, size, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < size; i += 4096)
			p[i] = 1;
		munmap(p, size);
	}
	sink++;
}

extern "C" NOINLINE void nap(uint64_t ms)
{
	sleep_ns(ms * 1000000u);
	sink++;
}

extern "C" NOINLINE void nested_loop(uint64_t ms)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t end = now_ns(CLOCK_MONOTONIC) + ms * 1000000u, now;
	struct epoll_event event;

	/* As Node's spawnSync does: several waits on an epoll of its own. */
	while ((now = now_ns(CLOCK_MONOTONIC)) < end) {
		uint64_t left = (end - now) / 1000000u + 1;

		epoll_wait(fd, &event, 1, left > 50 ? 50 : (int)left);
	}
	close(fd);
	sink++;
}

extern "C" NOINLINE void wait_child(uint64_t ms)
{
	pid_t pid = fork();

	if (!pid) {
		sleep_ns(ms * 1000000u);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	sink++;
}

extern "C" NOINLINE void hang_for_ever(void)
{
	for (;;)
		pause();
}

static void with_helper(void *(*body)(void *), pthread_mutex_t *mutex, uint64_t ms,
			void (*wait)(pthread_mutex_t *))
{
	helper h = {mutex, ms * 1000000u, 0};
	pthread_t thread;

	pthread_create(&thread, NULL, body, &h);
	while (!h.ready)
		sched_yield();
	wait(mutex);
	pthread_join(thread, NULL);
}

static void wait_pipe(pthread_mutex_t *)
{
	read_pipe();
}

static void wait_poll(pthread_mutex_t *)
{
	poll_pipe();
}

/* What the kernel says the calling thread has waited for a CPU; 0 where it does not say. */
static uint64_t waited_ns(void)
{
	unsigned long long ran = 0, waited = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (file) {
		if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
			abort();
		fclose(file);
	}
	return waited;
}

static uint64_t stolen_ns(void)
{
	unsigned long long irq, softirq, steal;
	FILE *file = fopen("/proc/stat", "r");

	if (!file || fscanf(file, "cpu %*u %*u %*u %*u %*u %llu %llu %llu", &irq, &softirq,
			    &steal) != 3)
		abort();
	fclose(file);
	return (irq + softirq + steal) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* What the messages took. More than these are never on their way. */
#define MAX_TRUTHS 64
struct truth {
	char kind[16];
	uint64_t boot, wall_since, cpu_since, waited_since, stolen_since;
	uint64_t wall, cpu, waited, stolen, lead, parts[3];
};
static truth truths[MAX_TRUTHS];
static unsigned truth_count, truth_told;
static uint64_t input_since;

static void run(const char *kind, uint64_t ms)
{
	uint64_t boot = now_ns(CLOCK_BOOTTIME), wall = now_ns(CLOCK_MONOTONIC);
	uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), waited = waited_ns(), stolen = stolen_ns();
	uint64_t parts[4] = {};

	if (!strcmp(kind, "cpu"))
		compute(ms);
	else if (!strcmp(kind, "sleep"))
		nap(ms);
	else if (!strcmp(kind, "lock"))
		with_helper(hold, &lock, ms, wait_lock);
	else if (!strcmp(kind, "pi"))
		with_helper(hold, &pi_lock, ms, wait_lock);
	else if (!strcmp(kind, "pipe"))
		with_helper(fill, NULL, ms, wait_pipe);
	else if (!strcmp(kind, "poll"))
		with_helper(fill, NULL, ms, wait_poll);
	else if (!strcmp(kind, "fault"))
		touch_pages(ms);
	else if (!strcmp(kind, "nested"))
		nested_loop(ms);
	else if (!strcmp(kind, "child"))
		wait_child(ms);
	else if (!strcmp(kind, "hang"))
		hang_for_ever();
	else if (!strcmp(kind, "abc")) {
		parts[0] = now_ns(CLOCK_MONOTONIC);
		phase_a(400);
		parts[1] = now_ns(CLOCK_MONOTONIC);
		phase_b(80);
		parts[2] = now_ns(CLOCK_MONOTONIC);
		phase_c(30);
		parts[3] = now_ns(CLOCK_MONOTONIC);
	}
	truth *t = &truths[truth_count % MAX_TRUTHS];

	snprintf(t->kind, sizeof(t->kind), "%s", kind);
	t->boot = boot;
	t->wall_since = wall;
	t->cpu_since = cpu;
	t->lead = input_since ? wall - input_since : 0;
	t->waited_since = waited;
	t->stolen_since = stolen;
	t->wall = now_ns(CLOCK_MONOTONIC) - wall;
	t->cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	for (int i = 0; i < 3; i++)
		t->parts[i] = !strcmp(kind, "abc") ? parts[i + 1] - parts[i] : 0;
	truth_count++;
}

/* About to poll: the last message reaches until here, whatever kept the thread since. The wall clock
 * is read last (and first in run): reading /proc is the period's time too, and took 5 ms once. */
static void finish_truth(void)
{
	if (truth_count == truth_told)
		return;
	truth *t = &truths[(truth_count - 1) % MAX_TRUTHS];

	t->stolen = stolen_ns() - t->stolen_since;
	t->waited = waited_ns() - t->waited_since;
	t->cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - t->cpu_since;
	t->wall = now_ns(CLOCK_MONOTONIC) - t->wall_since;
	__atomic_store_n(&truth_told, truth_count, __ATOMIC_RELEASE);
}

/* Written by another thread, that looks by itself: telling must not be part of what is told. */
static void *tell_truths(void *)
{
	unsigned told = 0;

	for (;;) {
		unsigned count = __atomic_load_n(&truth_told, __ATOMIC_ACQUIRE);

		for (; told != count; told++) {
			const truth *t = &truths[told % MAX_TRUTHS];

			printf("%s %llu %llu %llu %llu %llu %llu", t->kind,
			       (unsigned long long)t->boot, (unsigned long long)t->wall,
			       (unsigned long long)t->cpu, (unsigned long long)t->waited,
			       (unsigned long long)t->stolen, (unsigned long long)t->lead);
			for (int i = 0; i < 3 && t->parts[0]; i++)
				printf(" %llu", (unsigned long long)t->parts[i]);
			putchar('\n');
			fflush(stdout);
		}
		sleep_ns(10 * 1000000u);
	}
	return NULL;
}

struct command {
	char kind[16];
	unsigned long ms;
};

class Runner : public MessageHandler {
    public:
	command work;
	explicit Runner(const command &c) : work(c) {}
	void handleMessage(const Message &) override
	{
		run(work.kind, work.ms);
	}
};

static sp<Looper> looper;
static bool quit, rebuild;


static int on_input(int fd, int, void *);

static void new_looper(void)
{
	sp<Looper> old = looper;

	looper = new Looper(true);
	if (old != NULL)
		old->removeFd(0);
	Looper::setForThread(looper);
	looper->addFd(0, Looper::POLL_CALLBACK, Looper::EVENT_INPUT, on_input, NULL);
}

static void obey(const char *line)
{
	command c = {};

	if (sscanf(line, "%15s %lu", c.kind, &c.ms) < 1)
		return;
	if (!strcmp(c.kind, "quit")) {
		quit = true;
	} else if (!strcmp(c.kind, "rebuild")) {
		rebuild = true;
	} else if (!strcmp(c.kind, "native")) {
		strcpy(c.kind, "sleep");
		for (int i = 0; i < 3; i++)
			looper->sendMessage(new Runner(c), Message(i));
	} else {
		looper->sendMessage(new Runner(c), Message(0));
	}
}

static int on_input(int fd, int, void *)
{
	static char text[4096];
	static size_t used;
	ssize_t n = read(fd, text + used, sizeof(text) - used - 1);
	char *end;

	input_since = now_ns(CLOCK_MONOTONIC);
	if (n <= 0) {
		quit = true;
		return 0;
	}
	used += (size_t)n;
	text[used] = 0;
	while ((end = strchr(text, '\n'))) {
		*end = 0;
		obey(text);
		used -= (size_t)(end + 1 - text);
		memmove(text, end + 1, used + 1);
	}
	return 1;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attr;
	pthread_t teller;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pi_lock, &attr);
	if (pipe(work_pipe))
		return 1;
	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	new_looper();
	/* All of its life until here; the time first, so that none of it is counted after. */
	unsigned long long ready = now_ns(CLOCK_BOOTTIME);

	printf("ready %llu 0 %llu %llu 0 0\n", ready,
	       (unsigned long long)now_ns(CLOCK_THREAD_CPUTIME_ID),
	       (unsigned long long)waited_ns());
	fflush(stdout);
	if (argc > 3 && !strcmp(argv[1], "early"))
		run(argv[2], strtoul(argv[3], NULL, 10));
	pthread_create(&teller, NULL, tell_truths, NULL);
	while (!quit) {
		finish_truth();
		looper->pollOnce(-1);
		if (!rebuild)
			continue;
		/* The new epoll is made while the old one is there, so it has another number. */
		rebuild = false;
		new_looper();
		run("rebuild", 0);
	}
	return 0;
}
