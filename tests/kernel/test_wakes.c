/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring by which a parked thread wakes the sampler is full, because nobody reads it: the thread
 * wakes it once there is room again. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define PERIOD_NS  (300 * NSEC_PER_USEC)
#define FILLING_NS (60 * NSEC_PER_SEC)
#define FULL_NS    (200 * NSEC_PER_MSEC)
/* More than find room: the ring has 64 KiB, and an event takes 48 bytes of it. */
#define MOST_EVENTS 3000

static void __attribute__((noreturn)) loop_for_ever(void)
{
	struct itimerspec often = {{0, PERIOD_NS}, {0, PERIOD_NS}};
	struct epoll_event event = {.events = EPOLLIN};
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
	uint64_t count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	timerfd_settime(timer, 0, &often, NULL);
	epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
	for (;;)
		if (epoll_wait(epoll, &event, 1, -1) == 1 && read(timer, &count, sizeof(count)) < 0)
			_exit(1);
}

static int on_event(void *ctx, const struct looper_event *event, size_t size)
{
	unsigned *wakes = ctx;

	*wakes += event->type == LOOPER_EVENT_BUSY;
	return 0;
}

static bool watch(struct looper_kernel *kernel, pid_t pid)
{
	struct looper_slot_start start = {
		.tid = (uint32_t)pid,
		.tgid = (uint32_t)pid,
		.detector = LOOPER_BY_SWITCH,
		.block_ns = NSEC_PER_SEC,
		.slot_id = 1,
	};
	struct probe_standing standing;
	struct looper_slot slot;

	if (standing_read(pid, pid, &standing))
		return false;
	looper_slot_fill(&slot, &start, &standing);
	if (looper_kernel_watch(kernel, 0, &slot))
		return false;
	looper_kernel_mark(kernel, 0, pid);
	return true;
}

/* Park the thread whenever it is not, for so long. How often that was needed. */
static unsigned park_for(struct looper_kernel *kernel, uint64_t ns, unsigned most)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;
	uint32_t *parked = &looper_kernel_slot(kernel, 0)->parked;
	unsigned parks = 0;

	while (parks < most && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		if (!__atomic_load_n(parked, __ATOMIC_SEQ_CST)) {
			__atomic_store_n(parked, 1, __ATOMIC_SEQ_CST);
			parks++;
		}
		usleep(100);
	}
	return parks;
}

static void test_full_ring(struct looper_kernel *kernel)
{
	struct looper_slot *slot = looper_kernel_slot(kernel, 0);
	unsigned parks = 0, wakes = 0, first, before;
	uint32_t parked;
	uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), periods;

	do {
		before = parks;
		parks += park_for(kernel, FULL_NS, MOST_EVENTS);
	} while (parks < MOST_EVENTS && parks != before &&
		 clock_now_ns(CLOCK_MONOTONIC) - begin_ns < FILLING_NS);
	periods = __atomic_load_n(&slot->periods, __ATOMIC_SEQ_CST);
	usleep(FULL_NS / 1000);
	periods = __atomic_load_n(&slot->periods, __ATOMIC_SEQ_CST) - periods;
	parked = __atomic_load_n(&slot->parked, __ATOMIC_SEQ_CST);
	looper_kernel_wakes(kernel, on_event, &wakes);
	first = wakes;
	tap_note("%u parks, %u wakes in the ring, %lu periods while it was full", parks, first,
		 (unsigned long)periods);
	tap_ok(parked && first > 16 && periods > 16, "the ring is full while the thread works");
	usleep(FULL_NS / 1000);
	looper_kernel_wakes(kernel, on_event, &wakes);
	/* Each park has its wake; the last one's comes as soon as there is room, which may be amid
	 * the first reading. */
	tap_ok(wakes == parks, "once there is room it wakes the sampler (%u parks, %u wakes)",
	       parks, wakes);
}

int main(int argc, char **argv)
{
	struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .loopers = true, .max_watched = 64};
	struct looper_kernel_options any = {0};
	struct looper_kernel *kernel = NULL;
	struct sched_kernel *sched;
	char reason[160] = "";
	pid_t pid;

	if (geteuid()) {
		tap_skip("wakes", "needs root");
		return tap_done();
	}
	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		kernel = looper_kernel_open(sched, &any, reason, sizeof(reason));
	pid = fork();
	if (!pid)
		loop_for_ever();
	if (tap_ok(kernel, "the programs load%s%s", *reason ? ": " : "", reason) &&
	    tap_ok(pid > 0 && watch(kernel, pid), "a thread is watched"))
		test_full_ring(kernel);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	looper_kernel_close(kernel);
	sched_kernel_close(sched);
	return tap_done();
}
