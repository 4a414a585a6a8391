/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper whose handler waits for 200 ms until somebody ends the wait, from named functions. Who
 * does, and how, is the mode:
 *   condition  a thread: pthread_cond_signal
 *   join       a thread that ends: pthread_join
 *   child      a child process that ends: waitpid
 *   pipe       another process: write
 *   shared     another process: a futex in memory that both share
 *   signal     a thread: pthread_kill; the wait is a read
 *   exec       another process: write, and then it runs another program at once
 *   page       a thread whose stack pointer is in a page that cannot be read: futex
 *   deep       as condition, from 40 calls of 1 KiB of stack each
 *   timeout    nobody: pthread_cond_timedwait, while a thread on the same CPU is in system calls
 * all the while nap        nobody: nanosleep, with the same bystander Prints "ready PID", then
 * "wait BEGIN END PID TID": CLOCK_BOOTTIME of a wait that is over, and who ended it (0: nobody). */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 200

struct shared {
	_Atomic uint32_t word, waker_pid, waker_tid;
};

static struct shared *s;
static const char *mode = "";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int gone, to_main[2], to_waker[2];
static pthread_t main_thread;
static _Atomic int bystander_works;

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000l};

	while (nanosleep(&ts, &ts))
		;
}

/* ---- who ends the wait ---- */

/* The stack pointer is in memory that cannot be read for as long as the system call takes. */
static __attribute__((noinline)) void wake_without_stack(void)
{
	static char *page;

	if (!page)
		page = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef __x86_64__
	register void *stack __asm__("r12") = page + 32768;
	long result = SYS_futex;

	__asm__ volatile("xchg %%rsp, %1\n\tsyscall\n\txchg %%rsp, %1"
			 : "+a"(result), "+r"(stack)
			 : "D"(&s->word), "S"(FUTEX_WAKE), "d"(1)
			 : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_futex;
	register void *word __asm__("x0") = &s->word;
	register long operation __asm__("x1") = FUTEX_WAKE;
	register long count __asm__("x2") = 1;

	__asm__ volatile("mov x9, sp\n\tmov sp, %4\n\tsvc #0\n\tmov sp, x9"
			 : "+r"(word)
			 : "r"(number), "r"(operation), "r"(count), "r"(page + 32768)
			 : "x9", "memory");
#endif
}

static __attribute__((noinline)) void waker_b(void)
{
	char byte = 0;

	if (is("condition") || is("deep")) {
		pthread_mutex_lock(&mutex);
		gone = 1;
		pthread_mutex_unlock(&mutex);
		pthread_cond_signal(&condition);
	} else if (is("pipe") || is("exec")) {
		if (write(to_main[1], &byte, 1) != 1)
			abort();
		if (is("exec"))
			execl("/bin/sleep", "sleep", "2", NULL);
	} else if (is("shared")) {
		atomic_store(&s->word, 1);
		syscall(SYS_futex, &s->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	} else if (is("page")) {
		atomic_store(&s->word, 1);
		wake_without_stack();
	} else if (is("signal")) {
		pthread_kill(main_thread, SIGUSR1);
	} else if (is("join")) {
		pthread_exit(NULL);
	} else if (is("child")) {
		_exit(0);
	}
	__asm__ volatile("");
}

static __attribute__((noinline)) void waker_a(unsigned deeper)
{
	char room[1024];

	room[0] = (char)deeper;
	__asm__ volatile("" : : "r"(room) : "memory");
	if (deeper)
		waker_a(deeper - 1);
	else
		waker_b();
	__asm__ volatile("");
}

static void wake_after_a_while(void)
{
	s->waker_pid = (uint32_t)getpid();
	s->waker_tid = (uint32_t)syscall(SYS_gettid);
	nap_ms(WAIT_MS);
	waker_a(is("deep") ? 40 : 0);
}

static void *run_waker(void *unused)
{
	char byte;

	pthread_setname_np(pthread_self(), "waker");
	while (read(to_waker[0], &byte, 1) == 1)
		wake_after_a_while();
	return NULL;
}

static void *run_once(void *unused)
{
	pthread_setname_np(pthread_self(), "waker");
	wake_after_a_while();
	return NULL;
}

/* In system calls all the while: the timer of the main thread, which waits on the same CPU, hits
 * amid one of them. */
static void *run_bystander(void *unused)
{
	static char pages[1 << 16];
	int zero = memfd_create("wakers", MFD_CLOEXEC);

	pthread_setname_np(pthread_self(), "bystander");
	for (;;) {
		while (bystander_works)
			if (pwrite(zero, pages, sizeof(pages), 0) < 0)
				abort();
		nap_ms(1);
	}
	return NULL;
}

/* ---- the main thread ---- */

static void on_signal(int number)
{
}

static pid_t fork_waker(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "waker");
		if (is("child") || is("exec"))
			run_once(NULL);
		else
			run_waker(NULL);
		_exit(0);
	}
	return pid;
}

static __attribute__((noinline)) void wait_here(pid_t pid, pthread_t thread)
{
	struct timespec until;
	char byte;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WAIT_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000l;
	until.tv_nsec %= 1000000000l;
	if (is("condition") || is("deep")) {
		pthread_mutex_lock(&mutex);
		while (!gone)
			pthread_cond_wait(&condition, &mutex);
		gone = 0;
		pthread_mutex_unlock(&mutex);
	} else if (is("timeout")) {
		pthread_mutex_lock(&mutex);
		while (pthread_cond_timedwait(&condition, &mutex, &until) != ETIMEDOUT)
			;
		pthread_mutex_unlock(&mutex);
	} else if (is("nap")) {
		nap_ms(WAIT_MS);
	} else if (is("shared") || is("page")) {
		while (!s->word)
			syscall(SYS_futex, &s->word, FUTEX_WAIT, 0, NULL, NULL, 0);
	} else if (is("join")) {
		pthread_join(thread, NULL);
	} else if (is("child")) {
		waitpid(pid, NULL, 0);
	} else if (read(to_main[0], &byte, 1) < 0 && errno != EINTR) {
		abort();
	}
	__asm__ volatile("");
}

static void handle(void)
{
	pthread_t thread = 0;
	uint64_t begin;
	pid_t pid = 0;

	s->word = s->waker_tid = s->waker_pid = 0;
	bystander_works = 1;
	if (is("join"))
		pthread_create(&thread, NULL, run_once, NULL);
	else if (is("child") || is("exec"))
		pid = fork_waker();
	else if (!is("timeout") && !is("nap") && write(to_waker[1], "", 1) != 1)
		abort();
	begin = boot_ns();
	wait_here(pid, thread);
	bystander_works = 0;
	printf("wait %llu %llu %u %u\n", (unsigned long long)begin, (unsigned long long)boot_ns(),
	       s->waker_pid, s->waker_tid);
	fflush(stdout);
}

static void start_others(void)
{
	pthread_t thread;

	if (is("pipe") || is("shared"))
		fork_waker();
	else if (is("condition") || is("deep") || is("signal") || is("page"))
		pthread_create(&thread, NULL, run_waker, NULL);
	if (is("timeout") || is("nap")) {
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
		sched_setaffinity(0, sizeof(one), &one);
		pthread_create(&thread, NULL, run_bystander, NULL);
	}
}

int main(int argc, char **argv)
{
	struct itimerspec each = {{0, 400000000}, {0, 400000000}};
	const struct sigaction action = {.sa_handler = on_signal};
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t fired;
	int epoll, timer;

	if (argc < 2)
		return 2;
	mode = argv[1];
	main_thread = pthread_self();
	if (is("exec"))
		signal(SIGCHLD, SIG_IGN);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED || pipe(to_main) || pipe(to_waker) || sigaction(SIGUSR1, &action, NULL))
		return 1;
	start_others();
	epoll = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &each, NULL))
		return 1;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (;;)
		if (epoll_wait(epoll, &event, 1, -1) == 1 &&
		    read(timer, &fired, sizeof(fired)) == sizeof(fired))
			handle();
}
