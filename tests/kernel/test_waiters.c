/* SPDX-License-Identifier: BSD-2-Clause */
/* Many watched threads that wait for one CPU together: of each is told who ran in its place, and
 * where that found no room it is counted. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "kernel/sched_kernel.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define MOST    44
#define BURST   (500 * NSEC_PER_USEC)
#define TICKS   4
#define TICK_NS (100 * NSEC_PER_MSEC)

/* Wakes with the others at each tenth of a second, and has CPU 0 for a burst then, as a whole: so
 * one after the other, and the last waits for all of them. */
static void __attribute__((noreturn)) take_turns(void)
{
	const struct sched_param first = {.sched_priority = 1};
	cpu_set_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, SCHED_FIFO, &first))
		_exit(1);
	for (;;) {
		uint64_t next_ns = clock_now_ns(CLOCK_MONOTONIC), until_ns;
		struct timespec next;

		next_ns += TICK_NS - next_ns % TICK_NS;
		next.tv_sec = (time_t)(next_ns / NSEC_PER_SEC);
		next.tv_nsec = (long)(next_ns % NSEC_PER_SEC);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		until_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) + BURST;
		while (clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) < until_ns)
			;
	}
}

static bool watch(struct looper_kernel *kernel, uint32_t index, pid_t pid)
{
	struct looper_slot_start start = {
		.tid = (uint32_t)pid,
		.tgid = (uint32_t)pid,
		.detector = LOOPER_BY_SWITCH,
		.block_ns = NSEC_PER_SEC,
		.slot_id = index + 1,
	};
	struct probe_standing standing;
	struct looper_slot slot;

	if (standing_read(pid, pid, &standing))
		return false;
	looper_slot_fill(&slot, &start, &standing);
	if (looper_kernel_watch(kernel, index, &slot))
		return false;
	looper_kernel_mark(kernel, index, pid);
	return true;
}

static uint64_t told_ns(struct looper_kernel *kernel, uint32_t index)
{
	struct looper_slot slot;
	uint64_t sum = 0;

	if (!looper_kernel_read(kernel, index, &slot))
		return 0;
	for (int i = 0; i < LOOPER_PREEMPTORS; i++)
		sum += slot.preemptors[i].ns;
	return sum + slot.preempted_other_ns;
}

static void test_crowd(struct looper_kernel *kernel, const char *name, unsigned count)
{
	uint64_t before[LOOPER_LOSS_MAX] = {0}, after[LOOPER_LOSS_MAX] = {0}, lost;
	unsigned watched = 0, waited = 0, told = 0;
	struct probe_standing from[MOST], to;
	uint64_t was_ns[MOST];
	pid_t pids[MOST];

	looper_kernel_losses(kernel, before);
	for (unsigned i = 0; i < count; i++)
		if (!(pids[i] = fork()))
			take_turns();
	usleep(150000);
	for (unsigned i = 0; i < count; i++)
		watched += watch(kernel, i, pids[i]);
	/* All of them sleep here, in the second half of a tenth. */
	usleep((useconds_t)(TICK_NS * 19 / 10 - clock_now_ns(CLOCK_MONOTONIC) % TICK_NS) / 1000);
	for (unsigned i = 0; i < count; i++) {
		was_ns[i] = told_ns(kernel, i);
		standing_read(pids[i], pids[i], &from[i]);
	}
	usleep(TICKS * TICK_NS / 1000);
	for (unsigned i = 0; i < count; i++) {
		uint64_t delay_ns, ns = told_ns(kernel, i) - was_ns[i];

		standing_read(pids[i], pids[i], &to);
		delay_ns = to.delay_ns - from[i].delay_ns;
		waited += delay_ns >= TICKS * BURST;
		/* The first of them waits for no other, but for the wake-ups of all. */
		told += delay_ns < TICKS * BURST || ns > delay_ns / 4 * 3;
	}
	looper_kernel_losses(kernel, after);
	lost = after[LOOPER_LOSS_WAITER_UNPLACED] - before[LOOPER_LOSS_WAITER_UNPLACED];
	tap_ok(watched == count && waited >= count - 1,
	       "%s: %u of %u watched threads wait for one CPU together", name, waited, count);
	tap_note("%s: of %u it is told who ran, %lu waits counted as untold", name, told,
		 (unsigned long)lost);
	/* Rows are dealt anew each tenth: the last thread that has one in most of them may have
	 * none in the others. */
	if (count <= SCHED_MAX_WAITERS)
		tap_ok(told == count && !lost, "%s: of each it is told who ran in its place", name);
	else
		tap_ok(told >= SCHED_MAX_WAITERS * 3 / 4 && told < count && lost >= count - told,
		       "%s: of those for whom there is room, and the others are counted", name);
	for (unsigned i = 0; i < count; i++) {
		looper_kernel_unwatch(kernel, i, pids[i]);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static void test_variant(enum program_variant variant)
{
	struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .variant = variant, .loopers = true, .max_watched = 64};
	const char *name = program_variant_name(variant);
	struct looper_kernel_options any = {0};
	struct looper_kernel *kernel = NULL;
	struct sched_kernel *sched;
	char reason[160] = "";

	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		kernel = looper_kernel_open(sched, &any, reason, sizeof(reason));
	if (tap_ok(kernel && !looper_kernel_hook_wakeups(kernel), "%s: the programs load %s", name,
		   reason)) {
		test_crowd(kernel, name, 8);
		test_crowd(kernel, name, MOST);
	}
	looper_kernel_close(kernel);
	sched_kernel_close(sched);
}

int main(int argc, char **argv)
{
	if (geteuid()) {
		tap_skip("waiters", "needs root");
		return tap_done();
	}
	test_variant(VARIANT_TP_BTF);
	test_variant(VARIANT_RAW_TP);
	return tap_done();
}
