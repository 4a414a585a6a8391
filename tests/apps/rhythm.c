/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper that plays messages from its command line, again and again, and keeps its own truth in a
 * file that outlives it.
 *
 * usage: rhythm TRUTH MESSAGE...
 * A message is GAP_MS:ACTION[,ACTION...]: the main thread waits in its epoll for the gap, then does
 * the actions. A gap @N ends N ms behind the next full second of CLOCK_MONOTONIC, so that many
 * programs block at the same time. Actions: sN sleep N ms, dN the same below 200 KiB of stack, cN
 * compute N ms, f fork a child that loops and blocks on its own, v vfork and exec true, rNAME
 * rename the main thread, x exec itself, e the same once and by another thread, q end amid the
 * message, k die of SIGKILL amid it. TRUTH: struct truth below. A wait that ended with EINTR is
 * counted there. EOF on stdin does nothing: who started it kills it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS 16384

/* Little words for Python's struct: each row is begin_boot_ns, wall_ns (0: it has not ended). */
struct truth {
	atomic_ullong count, interrupted;
	struct {
		uint64_t begin_boot_ns, wall_ns;
	} rows[ROWS];
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static __attribute__((noinline)) void sleep_here(struct truth *truth, uint64_t ns)
{
	struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (nanosleep(&left, &left) && errno == EINTR)
		truth->interrupted++;
}

static __attribute__((noinline)) void sleep_deep(struct truth *truth, uint64_t ns, int depth)
{
	volatile char frame[2048];

	frame[0] = frame[sizeof(frame) - 1] = (char)depth;
	if (depth)
		sleep_deep(truth, ns, depth - 1);
	else
		sleep_here(truth, ns);
	frame[1] = frame[0]; /* no tail call */
}

static __attribute__((noinline)) void compute_here(uint64_t ns)
{
	uint64_t until_ns = now_ns(CLOCK_MONOTONIC) + ns;

	while (now_ns(CLOCK_MONOTONIC) < until_ns)
		;
}

/* Its blocks are not its parent's. */
static void child_loop(void)
{
	struct epoll_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 20; i++) {
		epoll_wait(epoll, &event, 1, 5);
		compute_here(1000000);
		usleep(20000);
	}
	_exit(0);
}

static void *exec_again(void *argv)
{
	execv("/proc/self/exe", argv);
	_exit(127);
}

static void act(struct truth *truth, const char *action, char **argv)
{
	uint64_t number = strtoull(action + 1, NULL, 10);
	pthread_t thread;
	pid_t pid;

	switch (*action) {
	case 's':
		sleep_here(truth, number * 1000000);
		break;
	case 'd':
		sleep_deep(truth, number * 1000000, 100);
		break;
	case 'c':
		compute_here(number * 1000000);
		break;
	case 'f':
		if (!fork())
			child_loop();
		break;
	case 'v':
		pid = vfork();
		if (!pid) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			truth->interrupted++;
		break;
	case 'r':
		prctl(PR_SET_NAME, action + 1);
		break;
	case 'x':
		execv("/proc/self/exe", argv);
		_exit(127);
	case 'e':
		if (!getenv("RHYTHM_AGAIN") && !setenv("RHYTHM_AGAIN", "1", 1) &&
		    !pthread_create(&thread, NULL, exec_again, argv))
			for (;;)
				pause();
		break;
	case 'q':
		_exit(0);
	case 'k':
		kill(getpid(), SIGKILL);
	}
}

static __attribute__((noinline)) void play(struct truth *truth, const char *message, char **argv)
{
	char copy[256], *place = NULL;
	unsigned long long row = atomic_load(&truth->count) % ROWS;
	uint64_t since_ns = now_ns(CLOCK_MONOTONIC);

	truth->rows[row].begin_boot_ns = now_ns(CLOCK_BOOTTIME);
	truth->rows[row].wall_ns = 0;
	atomic_fetch_add(&truth->count, 1);
	snprintf(copy, sizeof(copy), "%s", message);
	for (char *at = strtok_r(copy, ",", &place); at; at = strtok_r(NULL, ",", &place))
		act(truth, at, argv);
	truth->rows[row].wall_ns = now_ns(CLOCK_MONOTONIC) - since_ns;
}

/* When the wait before a message is over, CLOCK_MONOTONIC. */
static uint64_t end_of_gap(const char *message)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (*message == '@')
		return now - now % 1000000000u + 1000000000u +
		       strtoull(message + 1, NULL, 10) * 1000000;
	return now + strtoull(message, NULL, 10) * 1000000;
}

int main(int argc, char **argv)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct truth *truth;
	int fd, epoll, ends[2];

	if (argc < 3)
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*truth)))
		return 1;
	truth = mmap(NULL, sizeof(*truth), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (truth == MAP_FAILED || epoll < 0 || pipe2(ends, O_CLOEXEC) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event))
		return 1;
	for (int i = 2;; i = i + 1 < argc ? i + 1 : 2) {
		const char *actions = strchr(argv[i], ':');
		uint64_t until_ns = end_of_gap(argv[i]), now;

		/* A wait of 0 ms is one, too. */
		do {
			now = now_ns(CLOCK_MONOTONIC);
			if (epoll_wait(epoll, &event, 1,
				       now < until_ns ? (int)((until_ns - now) / 1000000) : 0) < 0)
				truth->interrupted += errno == EINTR;
			now = now_ns(CLOCK_MONOTONIC);
		} while (now + 1000000 <= until_ns);
		if (actions)
			play(truth, actions + 1, argv);
	}
}
