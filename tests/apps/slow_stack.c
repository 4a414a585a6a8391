/* SPDX-License-Identifier: BSD-2-Clause */
/* A looper that blocks for a second in naps of 60 ms, then waits for half a second. A page of its
 * stack that it never touches belongs to a userfaultfd, whose server takes 10 ms for it and drops
 * it again: to copy this stack takes longer than one hand of the sampler may. Prints "ready", and a
 * line after each block. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define NAPS    16
#define NAP_US  60000
#define SLOW_US 10000

static char *page;
static size_t page_bytes;
static int faults;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *serve(void *ctx)
{
	struct uffdio_zeropage zero = {{(uintptr_t)page, page_bytes}, 0, 0};
	struct uffd_msg message;

	for (;;) {
		if (read(faults, &message, sizeof(message)) != sizeof(message))
			continue;
		usleep(SLOW_US);
		if (ioctl(faults, UFFDIO_ZEROPAGE, &zero) && errno != EEXIST)
			die("UFFDIO_ZEROPAGE");
		usleep(1000);
		madvise(page, page_bytes, MADV_DONTNEED);
	}
	return NULL;
}

static void hold_page(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {
		{(uintptr_t)page, page_bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
	pthread_t thread;

	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
		die("userfaultfd");
	madvise(page, page_bytes, MADV_DONTNEED);
	if (ioctl(faults, UFFDIO_REGISTER, &area) || pthread_create(&thread, NULL, serve, NULL))
		die("UFFDIO_REGISTER");
}

static void loop_for_ever(void)
{
	struct itimerspec later = {{0, 0}, {0, 500000000}};
	struct epoll_event event = {.events = EPOLLIN};
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
	uint64_t count;

	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	timerfd_settime(timer, 0, &later, NULL);
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1 || read(timer, &count, sizeof(count)) < 0)
			continue;
		for (int i = 0; i < NAPS; i++)
			usleep(NAP_US);
		puts("block");
		fflush(stdout);
		timerfd_settime(timer, 0, &later, NULL);
	}
}

int main(void)
{
	volatile char *room;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	/* Below the frames of main, above those of the loop. */
	room = __builtin_alloca(3 * page_bytes);
	room[0] = 0;
	page = (char *)(((uintptr_t)room + page_bytes) & ~(page_bytes - 1));
	hold_page();
	puts("ready");
	fflush(stdout);
	loop_for_ever();
	return room[0];
}
