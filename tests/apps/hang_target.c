/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper that blocks for 300 ms each second and, from "go" on stdin on, cannot be looked at by
 * anybody who waits for what it maps.
 *
 * usage: hang_target MODE [FILE [PID]]   FILE: on a hang_fs; PID: the hang_fs to stop at "go"
 *   none        only blocks
 *   stack_uffd  its handlers run on a coroutine stack; a page of it above the stack pointer belongs
 *               to a userfaultfd that nobody serves (USER_MODE_ONLY where it may have no other)
 *   stack_fuse  the same, the page is of FILE
 *   argv_uffd   the page that its command line lies in belongs to a userfaultfd
 *   argv_fuse   the same, the page is of FILE
 *   held        its mmap_lock is held for writing: a MAP_FIXED mmap over a dirty mapping of FILE,
 *               which the kernel writes back under the lock
 *   vfork       waits for a vfork child that never ends (state D)
 *   exit        ends at "go"
 * Prints "ready", then for each block "block BOOT_NS WALL_NS", and "went" when "go" was obeyed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGE  4096u
#define STACK (16 * PAGE)
#define ABOVE (4 * PAGE) /* of it lie above what the coroutine uses */

static ucontext_t loop_context, coroutine;
static char *stack_low, *argv_page;
static const char *mode = "none", *file;
static int server;
static volatile int went;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void take_by_uffd(char *page, size_t length)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {{(uintptr_t)page, length}, UFFDIO_REGISTER_MODE_MISSING, 0};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		die("userfaultfd");
	madvise(page, length, MADV_DONTNEED);
	if (ioctl(fd, UFFDIO_REGISTER, &area))
		die("UFFDIO_REGISTER");
}

static void take_by_file(char *page, size_t length)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || mmap(page, length, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
}

static void hold_lock(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	char *p;

	if (fd < 0 || ftruncate(fd, 2 * PAGE))
		die("open");
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("mmap");
	p[0] = 1;
	kill(server, SIGUSR1);
	usleep(100000);
	mmap(p, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void wait_in_vfork(void)
{
	if (!vfork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	}
}

/* Before this the target is as any other; it is the looper's own thread that does it. */
static void obey(void)
{
	went = 1;
	if (!strcmp(mode, "exit"))
		_exit(0);
	if (!strcmp(mode, "stack_uffd"))
		take_by_uffd(stack_low + STACK - ABOVE, ABOVE);
	else if (!strcmp(mode, "stack_fuse"))
		take_by_file(stack_low + STACK - ABOVE, ABOVE);
	else if (!strcmp(mode, "argv_uffd"))
		take_by_uffd(argv_page, PAGE);
	else if (!strcmp(mode, "argv_fuse"))
		take_by_file(argv_page, PAGE);
	if (server && strcmp(mode, "held"))
		kill(server, SIGUSR1);
	if (write(1, "went\n", 5) != 5)
		exit(1);
	if (!strcmp(mode, "held"))
		hold_lock();
	else if (!strcmp(mode, "vfork"))
		wait_in_vfork();
}

static __attribute__((noinline)) void block_here(void)
{
	struct timespec ts = {0, 300000000};
	uint64_t boot = now_ns(CLOCK_BOOTTIME), since = now_ns(CLOCK_MONOTONIC);
	char text[80];
	int n;

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
	n = snprintf(text, sizeof(text), "block %llu %llu\n", (unsigned long long)boot,
		     (unsigned long long)(now_ns(CLOCK_MONOTONIC) - since));
	if (write(1, text, (size_t)n) != n)
		exit(1);
}

static void run_coroutine(void)
{
	for (;;) {
		block_here();
		swapcontext(&coroutine, &loop_context);
	}
}

static void use_stack(void)
{
	stack_low = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack_low == MAP_FAILED || getcontext(&coroutine))
		die("stack");
	madvise(stack_low, STACK, MADV_NOHUGEPAGE);
	coroutine.uc_stack.ss_sp = stack_low;
	coroutine.uc_stack.ss_size = STACK - ABOVE;
	makecontext(&coroutine, run_coroutine, 0);
}

/* Its frames lie pages below those of main, so that the page of the command line has nothing that
 * this program touches again. */
static __attribute__((noinline)) int loop(void)
{
	struct itimerspec every = {{1, 0}, {1, 0}};
	struct epoll_event event = {.events = EPOLLIN};
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	char pad[4 * PAGE];
	char line[64];
	uint64_t count;

	__asm__ volatile("" : : "r"(pad) : "memory");
	if (!strncmp(mode, "stack_", 6))
		use_stack();
	event.data.fd = 0;
	epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
	event.data.fd = timer;
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	timerfd_settime(timer, 0, &every, NULL);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (event.data.fd == 0) {
			if (read(0, line, sizeof(line)) <= 0)
				_exit(0);
			if (!went)
				obey();
		} else if (read(timer, &count, sizeof(count)) == sizeof(count)) {
			if (stack_low)
				swapcontext(&loop_context, &coroutine);
			else
				block_here();
		}
	}
}

int main(int argc, char **argv)
{
	char pad[4 * PAGE];

	if (argc < 2)
		return 2;
	__asm__ volatile("" : : "r"(pad) : "memory");
	mode = strdup(argv[1]);
	file = argc > 2 ? strdup(argv[2]) : NULL;
	server = argc > 3 ? atoi(argv[3]) : 0;
	argv_page = (char *)((uintptr_t)argv[0] & ~(uintptr_t)(PAGE - 1));
	return loop();
}
