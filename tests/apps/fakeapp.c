/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that looks like an Android app from outside: uid, argv[0], comm cut to its last 15
 * characters (AOSP com_android_internal_os_Zygote.cpp), the usual threads, a main thread that waits
 * in its own epoll and wakes 60 times a second.
 *
 * usage: fakeapp UID NAME [zygote DELAY_MS] [block MS] [fps N]
 *   zygote: a parent called zygote64 forks it; it becomes NAME in place after the delay
 *   block:  every 0.4 s one message takes MS (half of it running, half asleep)
 *   fps:    wakes that often instead, the other threads as much less (a cached app)
 * Prints "PID" of the app when it has become NAME; lives until killed, or its parent dies. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spin.h"

#define BLOCK_EVERY 24 /* frames */
#define DEFAULT_FPS 60

static const char padding[] =
	"--zygote-padding-------------------------------------------------------";

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static __attribute__((noinline)) void burn(uint64_t ns)
{
	uint64_t end = thread_cpu_ns() + ns;

	while (thread_cpu_ns() < end)
		spin_hint();
}

static __attribute__((noinline)) void sleep_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* The last 15 characters of a name with a dot, as Android cuts it. */
static void set_comm(const char *name)
{
	size_t len = strlen(name);

	prctl(PR_SET_NAME, len > 15 && strchr(name, '.') ? name + len - 15 : name);
}

struct helper {
	char name[16];
	long nap_ms;
};

static void *helper(void *arg)
{
	const struct helper *self = arg;

	prctl(PR_SET_NAME, self->name);
	for (;;) {
		sleep_ms(self->nap_ms);
		if (!strcmp(self->name, "RenderThread"))
			burn(500000);
	}
	return NULL;
}

static void become(uid_t uid)
{
	if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) {
		perror("fakeapp: uid");
		exit(1);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of uid clears it */
}

static void run_app(const char *name, long block_ms, long fps)
{
	static struct helper helpers[8] = {{"RenderThread"},
					   {"HeapTaskDaemon"},
					   {"Signal Catcher"},
					   {"Jit thread pool"},
					   {"hwuiTask0"}};
	long period_ns = 1000000000 / fps;
	struct itimerspec frame = {{period_ns / 1000000000, period_ns % 1000000000},
				   {period_ns / 1000000000, period_ns % 1000000000}};
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	pthread_t thread;
	uint64_t ticks;
	unsigned frames = 0;
	size_t i;

	set_comm(name);
	for (i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++) {
		helpers[i].nap_ms = 6000 / fps;
		if (i >= 5)
			snprintf(helpers[i].name, sizeof(helpers[i].name), "Binder:%d_%zu",
				 (int)getpid() % 100000, i - 4);
		pthread_create(&thread, NULL, helper, &helpers[i]);
	}
	timerfd_settime(timer, 0, &frame, NULL);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) < 1)
			continue;
		if (read(timer, &ticks, sizeof(ticks)) != sizeof(ticks))
			continue;
		if (block_ms && ++frames % BLOCK_EVERY == 0) {
			burn(block_ms / 2 * 1000000ull);
			sleep_ms(block_ms - block_ms / 2);
		} else {
			burn(300000);
		}
	}
}

int main(int argc, char **argv)
{
	long block_ms = 0, delay_ms = -1, fps = DEFAULT_FPS;
	const char *name, *reexec = getenv("FAKEAPP_AS");
	uid_t uid;
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN); /* nobody has to read our pid */
	if (argc < 3) {
		fprintf(stderr, "usage: fakeapp UID NAME [zygote DELAY_MS] [block MS] [fps N]\n");
		return 2;
	}
	/* After the re-exec: argv is {name or zygote64, padding, the old ones...}. */
	if (reexec) {
		argv++;
		argc--;
	}
	uid = (uid_t)strtoul(argv[1], NULL, 10);
	name = argv[2];
	for (i = 3; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "zygote"))
			delay_ms = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "block"))
			block_ms = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "fps"))
			fps = atol(argv[i + 1]);
	}
	if (fps < 1)
		return 2;
	if (!reexec) {
		char *again[16] = {(char *)(delay_ms >= 0 ? "zygote64" : name), (char *)padding};

		for (i = 1; i < argc && i < 14; i++)
			again[i + 1] = argv[i];
		setenv("FAKEAPP_AS", "1", 1);
		if (delay_ms < 0)
			become(uid);
		execv("/proc/self/exe", again);
		perror("fakeapp: exec");
		return 1;
	}
	if (delay_ms < 0) {
		run_app(name, block_ms, fps);
	} else if (fork() == 0) {
		/* setArgv0: in place, over the padding too. */
		char *own_name = strdup(name), *zero = argv[-1];
		size_t room = (size_t)(argv[0] - zero) + strlen(argv[0]);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sleep_ms(delay_ms);
		become(uid);
		memset(zero, 0, room);
		strncpy(zero, own_name, room - 1);
		run_app(own_name, block_ms, fps);
	}
	prctl(PR_SET_NAME, "main");
	while (wait(NULL) >= 0)
		;
	return 0;
}
