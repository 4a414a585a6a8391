/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a watched thread sleeps and who woke it: a timed wait that a stop interrupted goes on as
 * restart_syscall and keeps its reason; our own processes are nobody's wakers; a waker's stack is
 * copied in the wake-up, and a timer that hits amid somebody's system call has no waker. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define PATIENCE 4000 /* of 5 ms */

struct rig {
	struct looper_kernel *kernel;
	pid_t pid;
	struct looper_spell_event spell; /* the last one told */
	unsigned spells;
	struct looper_waker_stack waker; /* the last one told */
	unsigned wakers;
};

enum sleeper { IN_FUTEX, IN_NANOSLEEP, IN_POLL, IN_READ, IN_NAPS };

static void sleep_in(enum sleeper where, int fd)
{
	struct timespec ts = {60, 0};
	uint32_t word = 0;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ts.tv_nsec = 20000000;
	if (where == IN_NAPS)
		ts.tv_sec = 0;
	while (where == IN_NAPS)
		nanosleep(&ts, NULL);
	if (where == IN_FUTEX)
		syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ts, NULL, 0);
	else if (where == IN_NANOSLEEP)
		nanosleep(&ts, NULL);
	else if (where == IN_POLL)
		poll(NULL, 0, 60000);
	while (read(fd, &byte, 1) == 1)
		;
	_exit(0);
}

static int on_event(void *ctx, const struct looper_event *event, size_t size)
{
	struct rig *rig = ctx;

	if (event->type == LOOPER_EVENT_WAKER && event->slot_id == (uint64_t)rig->pid) {
		memcpy(&rig->waker, event, size < sizeof(rig->waker) ? size : sizeof(rig->waker));
		rig->wakers++;
	}
	if (event->type != LOOPER_EVENT_SPELL || event->slot_id != (uint64_t)rig->pid)
		return 0;
	rig->spell = *(const struct looper_spell_event *)event;
	rig->spells++;
	return 0;
}

static bool wait_for_state(pid_t pid, char state, bool in_call)
{
	struct probe_standing standing;

	for (int i = 0; i < PATIENCE; i++) {
		if (!standing_read(pid, pid, &standing) && standing.state == state &&
		    (!in_call || standing.syscall_nr >= 0))
			return true;
		usleep(5000);
	}
	return false;
}

static bool start(struct rig *rig, enum sleeper where, int fd)
{
	struct looper_slot_start begin = {.detector = LOOPER_BY_SWITCH, .block_ns = 1000000000};
	struct probe_standing standing;
	struct looper_slot slot;

	rig->spells = 0;
	rig->pid = fork();
	if (!rig->pid)
		sleep_in(where, fd);
	begin.tid = begin.tgid = (uint32_t)rig->pid;
	begin.slot_id = (uint64_t)rig->pid;
	if (!wait_for_state(rig->pid, 'S', true) || standing_read(rig->pid, rig->pid, &standing))
		return false;
	looper_slot_fill(&slot, &begin, &standing);
	return !looper_kernel_watch(rig->kernel, 0, &slot);
}

static void stop(struct rig *rig)
{
	kill(rig->pid, SIGKILL);
	waitpid(rig->pid, NULL, 0);
	looper_kernel_unwatch(rig->kernel, 0, rig->pid);
}

/* The thread sleeps with another number in /proc, and its slot has seen it go to sleep so.
 * standing_read() reads the number before the state: a number of the moment before is asked again.
 */
static bool is_restarted(struct rig *rig, struct looper_slot *slot)
{
	struct probe_standing standing;

	for (int i = 0; i < PATIENCE; i++) {
		if (!standing_read(rig->pid, rig->pid, &standing) && standing.state == 'S' &&
		    standing.syscall_nr == SYS_restart_syscall &&
		    looper_kernel_read(rig->kernel, 0, slot) && !slot->on_cpu &&
		    slot->off_state != 4 /* OFF_CPU_STOPPED */ && slot->spell > 1)
			return true;
		usleep(5000);
	}
	return false;
}

static void test_restart(struct rig *rig, enum sleeper where, const char *name,
			 enum looper_reason reason)
{
	struct looper_slot slot = {0};

	if (!tap_ok(start(rig, where, -1), "%s: watched", name))
		return;
	kill(rig->pid, SIGSTOP);
	wait_for_state(rig->pid, 'T', false);
	kill(rig->pid, SIGCONT);
	if (tap_ok(is_restarted(rig, &slot), "%s: goes on as restart_syscall", name))
		tap_ok(slot.reason == reason && slot.syscall_nr != SYS_restart_syscall,
		       "%s: is told by the call that goes on: reason %u, number %d", name,
		       slot.reason, slot.syscall_nr);
	stop(rig);
}

static void test_waker(struct rig *rig, bool own)
{
	pid_t self = getpid();
	int fds[2];
	unsigned before;

	if (pipe2(fds, O_CLOEXEC) || !tap_ok(start(rig, IN_READ, fds[0]), "waker: watched"))
		return;
	tap_ok(!looper_kernel_set_own(rig->kernel, &self, own ? 1 : 0), "our processes are named");
	before = rig->spells;
	usleep(20000);
	if (write(fds[1], "x", 1) != 1)
		tap_note("the pipe is full");
	for (int i = 0; i < PATIENCE && rig->spells == before; i++) {
		usleep(5000);
		looper_kernel_events(rig->kernel, on_event, rig);
	}
	tap_ok(rig->spells > before && rig->spell.waker_tid == (own ? 0 : (uint32_t)self),
	       "woken by %s: %u is told", own ? "one of ours" : "another process",
	       rig->spell.waker_tid);
	stop(rig);
	close(fds[0]);
	close(fds[1]);
}

/* ---- the stack of who wakes ---- */

#define MARK 0x6a616e6b73636f70ull

/* A period, with a sleep of any length long enough. */
static bool start_busy(struct rig *rig, enum sleeper where, int fd)
{
	struct looper_slot *live = looper_kernel_slot(rig->kernel, 0);

	if (!start(rig, where, fd))
		return false;
	live->busy_since_ns = live->off_ns;
	live->loop_kind = LOOPER_WAIT_EPOLL;
	live->loop_fd = 100;
	live->loop_waits = 2;
	live->block_ns = 2000000;
	rig->wakers = 0;
	return true;
}

static __attribute__((noinline)) bool write_with_mark(int fd)
{
	volatile uint64_t marks[64];

	for (int i = 0; i < 64; i++)
		marks[i] = MARK;
	return write(fd, "x", 1) == 1 && marks[3] == MARK;
}

static void test_waker_stack(struct rig *rig)
{
	size_t skip, marks = 0;
	uint64_t word;
	int fds[2];

	looper_kernel_set_own(rig->kernel, NULL, 0);
	looper_kernel_want_waker_stacks(rig->kernel);
	if (pipe2(fds, O_CLOEXEC) || !tap_ok(start_busy(rig, IN_READ, fds[0]), "stack: watched"))
		return;
	usleep(20000);
	tap_ok(write_with_mark(fds[1]), "stack: woken");
	for (int i = 0; i < PATIENCE && !rig->wakers; i++) {
		usleep(5000);
		looper_kernel_events(rig->kernel, on_event, rig);
	}
	tap_ok(rig->wakers && rig->waker.event.tid == (uint32_t)gettid() &&
		       rig->waker.event.failure == LOOPER_WAKER_TAKEN &&
		       rig->waker.event.head.end_ns - rig->waker.event.head.begin_ns > 10000000,
	       "stack: told of thread %u, failure %u", rig->waker.event.tid,
	       rig->waker.event.failure);
#ifdef __x86_64__
	skip = rig->waker.event.words[19] % LOOPER_WAKER_PAGE_BYTES;
#else
	skip = rig->waker.event.words[31] % LOOPER_WAKER_PAGE_BYTES;
#endif
	for (size_t at = skip;
	     at + 8 <= sizeof(rig->waker.stack) && at < skip + rig->waker.event.stack_bytes;
	     at += 8) {
		memcpy(&word, rig->waker.stack + at, sizeof(word));
		marks += word == MARK;
	}
	tap_ok(marks >= 64, "stack: %u bytes, %zu of 64 words of its function are there",
	       rig->waker.event.stack_bytes, marks);
	stop(rig);
	close(fds[0]);
	close(fds[1]);
}

/* The sleeper's timer hits on the CPU that both are bound to, amid a system call of ours. */
static void test_timer(struct rig *rig)
{
	static char pages[1 << 16];
	cpu_set_t before, one;
	unsigned spells = 0, named = 0;
	int file = (int)syscall(SYS_memfd_create, "reasons", 0);

	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (tap_ok(start_busy(rig, IN_NAPS, -1), "timer: watched")) {
		uint64_t end_ns = clock_now_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC;

		while (spells < 12 && clock_now_ns(CLOCK_MONOTONIC) < end_ns) {
			unsigned told = rig->spells;

			if (pwrite(file, pages, sizeof(pages), 0) < 0)
				break;
			looper_kernel_events(rig->kernel, on_event, rig);
			if (rig->spells == told || rig->spell.reason != LOOPER_REASON_SLEEP)
				continue;
			spells++;
			named += rig->spell.waker_tid != 0;
		}
		tap_ok(spells >= 12 && !named, "timer: %u sleeps ended, %u by somebody", spells,
		       named);
		stop(rig);
	}
	sched_setaffinity(0, sizeof(before), &before);
	close(file);
}

int main(void)
{
	struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .loopers = true, .max_watched = 1};
	const struct looper_kernel_options by_switch = {.detector = LOOPER_BY_SWITCH};
	struct sched_kernel *sched;
	struct rig rig = {0};
	char reason[160] = "";

	if (geteuid()) {
		tap_skip("reasons and wakers", "needs root");
		return 0;
	}
	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		rig.kernel = looper_kernel_open(sched, &by_switch, reason, sizeof(reason));
	if (!tap_ok(rig.kernel, "the programs load%s%s", *reason ? ": " : "", reason))
		return tap_done();
	tap_ok(!looper_kernel_hook_wakeups(rig.kernel), "wake-ups are hooked");
	test_restart(&rig, IN_FUTEX, "futex", LOOPER_REASON_FUTEX);
	test_restart(&rig, IN_NANOSLEEP, "nanosleep", LOOPER_REASON_SLEEP);
#ifdef SYS_poll /* ppoll, which arm64 has only, goes on under its own number */
	test_restart(&rig, IN_POLL, "poll", LOOPER_REASON_POLL);
#endif
	test_waker(&rig, false);
	test_waker(&rig, true);
	test_waker_stack(&rig);
	test_timer(&rig);
	looper_kernel_close(rig.kernel);
	sched_kernel_close(sched);
	return tap_done();
}
