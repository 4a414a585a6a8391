/* SPDX-License-Identifier: BSD-2-Clause */
/* What finding blocks costs, by detector: a system call of a process that is not the target, a
 * dispatch of the target itself, and the switches of everybody. Pairs of with and without.
 * usage: bench_blocks JANKSCOPE [PAIRS] */
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "bench.h"

#define MAX_PAIRS  51
#define CALLS      200000
#define DISPATCHES 50000
#define SWITCHES   20000
#define SETTLE_MS  3000

/* CPU time by the thread's own clock: what runs beside it does not count. */
static uint64_t begin(void)
{
	return bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double per(uint64_t begin_ns, unsigned count)
{
	return (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / count;
}

/* ---- the target: a loop that dispatches when it is told ---- */

struct shared {
	atomic_uint go, done;
	double dispatch_ns;
};

static void be_target(struct shared *shared)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), ready = eventfd(1, EFD_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN};
	unsigned round = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	epoll_ctl(epoll, EPOLL_CTL_ADD, ready, &event);
	for (;;) {
		uint64_t begin_ns;

		/* Its poll is this one, so that the recorder learns the right fd. */
		if (atomic_load(&shared->go) == round) {
			epoll_wait(epoll, &event, 1, 0);
			usleep(2000);
			continue;
		}
		round = atomic_load(&shared->go);
		begin_ns = begin();
		for (int i = 0; i < DISPATCHES; i++)
			epoll_wait(epoll, &event, 1, 0);
		shared->dispatch_ns = per(begin_ns, DISPATCHES);
		atomic_store(&shared->done, round);
	}
}

static double measure_dispatch(struct shared *shared)
{
	unsigned round = atomic_fetch_add(&shared->go, 1) + 1;

	while (atomic_load(&shared->done) != round)
		usleep(1000);
	return shared->dispatch_ns;
}

/* ---- somebody else ---- */

static double measure_calls(void)
{
	uint64_t begin_ns = begin();

	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return per(begin_ns, CALLS);
}

static double measure_waits(void)
{
	static int epoll = -1;
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t begin_ns;

	if (epoll < 0) {
		epoll = epoll_create1(EPOLL_CLOEXEC);
		epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd(1, EFD_CLOEXEC), &event);
	}
	begin_ns = begin();
	for (int i = 0; i < CALLS; i++)
		epoll_wait(epoll, &event, 1, 0);
	return per(begin_ns, CALLS);
}

/* Two processes on one CPU that hand a byte to and fro; both sides' CPU time a switch. */
static double measure_switches(void)
{
	int there[2], back[2];
	uint64_t begin_ns;
	cpu_set_t set, before;
	char ball = 0;
	double cost;
	pid_t pid;

	if (pipe(there) || pipe(back))
		return 0;
	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	pid = fork();
	if (!pid) {
		close(there[1]);
		while (read(there[0], &ball, 1) == 1 && write(back[1], &ball, 1) == 1)
			;
		_exit(0);
	}
	close(there[0]);
	begin_ns = begin();
	for (int i = 0; i < SWITCHES; i++)
		if (write(there[1], &ball, 1) != 1 || read(back[0], &ball, 1) != 1)
			break;
	cost = per(begin_ns, SWITCHES);
	close(there[1]);
	close(back[0]);
	close(back[1]);
	waitpid(pid, NULL, 0);
	sched_setaffinity(0, sizeof(before), &before);
	return cost;
}

static void tell(const char *name, double *base, double *with, size_t n)
{
	double differences[MAX_PAIRS];
	char value[32], spread[64];

	for (size_t i = 0; i < n; i++)
		differences[i] = with[i] - base[i];
	snprintf(value, sizeof(value), "%+.0f ns", bench_quantile(differences, n, 0.5));
	snprintf(spread, sizeof(spread), "[%.0f..%.0f] on %.0f", bench_quantile(differences, n, 0),
		 bench_quantile(differences, n, 1), bench_quantile(base, n, 0.5));
	bench_row(name, value, spread, "");
}

enum figure { FIGURE_CALL, FIGURE_WAIT, FIGURE_SWITCH, FIGURE_DISPATCH, FIGURES };

static void measure(struct shared *shared, double values[FIGURES])
{
	values[FIGURE_CALL] = measure_calls();
	values[FIGURE_WAIT] = measure_waits();
	values[FIGURE_SWITCH] = measure_switches();
	values[FIGURE_DISPATCH] = measure_dispatch(shared);
}

static void compare(const char *jankscope, const char *detector, pid_t target,
		    struct shared *shared, size_t pairs)
{
	static const char *const names[FIGURES] = {"others' getppid", "others' epoll_wait",
						   "others' switch (half of a round trip)",
						   "the target's dispatch"};
	double base[FIGURES][MAX_PAIRS], with[FIGURES][MAX_PAIRS], values[FIGURES];
	char pid_text[16], name[64];
	char *const argv[] = {(char *)jankscope, "record",         "-p", pid_text, "-q",
			      "--detector",      (char *)detector, NULL};

	snprintf(pid_text, sizeof(pid_text), "%d", target);
	for (size_t i = 0; i < pairs; i++) {
		pid_t pid;

		measure(shared, values);
		for (int f = 0; f < FIGURES; f++)
			base[f][i] = values[f];
		pid = bench_start(argv, SETTLE_MS);
		if (pid < 0) {
			bench_row(detector, "-", "the recorder did not start", "");
			return;
		}
		measure(shared, values);
		for (int f = 0; f < FIGURES; f++)
			with[f][i] = values[f];
		bench_stop(pid);
	}
	for (int f = 0; f < FIGURES; f++) {
		snprintf(name, sizeof(name), "%s: %s", detector, names[f]);
		tell(name, base[f], with[f], pairs);
	}
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 5;
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t target;

	if (argc < 2 || shared == MAP_FAILED) {
		fprintf(stderr, "usage: bench_blocks JANKSCOPE [PAIRS]\n");
		return 2;
	}
	if (pairs > MAX_PAIRS)
		pairs = MAX_PAIRS;
	printf("blocks: the recorder against none, CPU time, median of %zu pairs [min..max]\n",
	       pairs);
	fflush(stdout);
	target = fork();
	if (!target)
		be_target(shared);
	compare(argv[1], "uprobe", target, shared, pairs);
	compare(argv[1], "syscall", target, shared, pairs);
	compare(argv[1], "switch", target, shared, pairs);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	return 0;
}
