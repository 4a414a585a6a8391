/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts like an app: works for a known CPU time, sleeps for a known time, and then waits in a loop
 * of its own. Prints when it came there (CLOCK_BOOTTIME, ns) and its CPU time by then.
 * usage: startup_load CPU_MS SLEEP_MS [loop | none | short | at-once]
 * at-once: without the short waits that come before the idle of the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static unsigned long long clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000u + (unsigned long long)ts.tv_nsec;
}

static void burn(unsigned long long ns)
{
	unsigned long long until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

static void nap(long ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&ts, NULL);
}

int main(int argc, char **argv)
{
	unsigned long long cpu_ns = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000000 : 0;
	const char *mode = argc > 3 ? argv[3] : "loop";
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	burn(cpu_ns);
	nap(argc > 2 ? atol(argv[2]) : 0);
	if (!strcmp(mode, "none"))
		for (;;)
			pause();
	/* Busy with one thing after the other, with waits that are too short to be idle. */
	for (int i = strcmp(mode, "at-once") ? 0 : 5; i < 5; i++) {
		burn(20000000);
		epoll_wait(epoll, &event, 1, 20);
	}
	printf("%llu %llu\n", clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_THREAD_CPUTIME_ID));
	fflush(stdout);
	for (;;)
		epoll_wait(epoll, &event, 1, !strcmp(mode, "short") ? 100 : -1);
}
