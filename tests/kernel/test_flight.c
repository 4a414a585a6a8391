/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder against the kernel's own sums: a thread that sleeps, runs and is preempted
 * by another one on its CPU. What its ring says that it ran and waited for a CPU between two
 * moments is what schedstat says. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/sched.h"
#include "kernel/flight_kernel.h"
#include "kernel/looper_kernel.h"
#include "kernel/sched_kernel.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define OFF_BY_NS 100000
/* And so much a spell: the wake-up is told before the thread is on a queue, and the switch behind
 * the reading of the run queue's clock. On a virtual machine of two CPUs 10 to 12 us a wake-up of a
 * CPU that idles, and 4 to 6 us a preemption. */
#define OFF_BY_SPELL_NS 16000
#define RUN_US          600000

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void __attribute__((noreturn)) work(unsigned nap_us, uint64_t burst_ns)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin();
	for (;;) {
		uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + burst_ns;

		while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
			;
		usleep(nap_us);
	}
}

struct sums {
	uint64_t ran_ns, waited_ns, slept_ns, turns_ns, entries;
	uint64_t gap_ns;
	unsigned gaps;
	bool in_order;
};

static struct sums add_up(struct flight_kernel *kernel, const struct flight_copy *copy)
{
	static struct flight_turn turns[FLIGHT_TURNS];
	struct sums sums = {.in_order = true, .entries = copy->count};

	for (size_t i = 0; i < copy->count; i++) {
		const struct flight_entry *entry = &copy->entries[i];
		uint64_t ready_ns = entry->state == OFF_CPU_RUNNABLE ? entry->off_ns
				    : entry->woken_ns                ? entry->woken_ns
								     : entry->in_ns;

		if (entry->flags & FLIGHT_GAP) {
			sums.gaps++;
			sums.gap_ns += entry->in_ns - entry->off_ns;
		}
		if ((entry->flags & FLIGHT_GAP) || entry->off_ns > ready_ns ||
		    ready_ns > entry->in_ns ||
		    (i && copy->entries[i - 1].in_ns > entry->off_ns))
			tap_note("spell %zu: flags %u state %u, ready %ld, in %ld ns behind off", i,
				 entry->flags, entry->state, (long)(ready_ns - entry->off_ns),
				 (long)(entry->in_ns - entry->off_ns));
		sums.in_order &= entry->off_ns <= ready_ns && ready_ns <= entry->in_ns;
		sums.slept_ns += ready_ns - entry->off_ns;
		sums.waited_ns += entry->in_ns - ready_ns;
		if (i) {
			sums.in_order &= copy->entries[i - 1].in_ns <= entry->off_ns;
			sums.ran_ns += entry->off_ns - copy->entries[i - 1].in_ns;
		}
		size_t count = flight_kernel_turns(kernel, entry->off_cpu, ready_ns, entry->in_ns,
						   turns, FLIGHT_TURNS);
		for (size_t k = 0; k < count; k++)
			sums.turns_ns +=
				turns[k].end_ns -
				(turns[k].begin_ns > ready_ns ? turns[k].begin_ns : ready_ns);
	}
	return sums;
}

static void test_truth(struct flight_kernel *kernel, const char *name, unsigned nap_us,
		       uint64_t burst_ns, bool hog)
{
	struct probe_standing before, after;
	struct flight_copy copy;
	struct sums sums;
	pid_t pid = fork(), other = 0;
	int index;

	if (!pid)
		work(nap_us, burst_ns);
	if (hog && !(other = fork()))
		work(1000, 7000000);
	usleep(50000);
	index = flight_kernel_watch(kernel, pid, pid, FLIGHT_MOST_BLOCKS);
	tap_ok(index >= 0, "%s: watched", name);
	usleep(50000);
	/* While it is stopped its sums stand. */
	kill(pid, SIGSTOP);
	usleep(100000);
	standing_read(pid, pid, &before);
	kill(pid, SIGCONT);
	usleep(RUN_US);
	kill(pid, SIGSTOP);
	usleep(100000);
	standing_read(pid, pid, &after);
	if (tap_ok(index >= 0 &&
			   !flight_kernel_read(kernel, (uint32_t)index, before.after_mono_ns,
					       after.after_mono_ns, &copy) &&
			   copy.count > 2,
		   "%s: read", name)) {
		const struct flight_entry *last = copy.entries + copy.count - 1;
		int64_t ran_ns, waited_ns, bound_ns;

		/* The first one is the spell before the stop, where there is one. */
		while (copy.count && copy.entries->in_ns <= before.after_mono_ns)
			copy.entries++, copy.count--;
		sums = add_up(kernel, &copy);
		sums.ran_ns += copy.thread.off_ns - last->in_ns;
		ran_ns = (int64_t)(sums.ran_ns - (after.cpu_ns - before.cpu_ns));
		waited_ns = (int64_t)(sums.waited_ns - (after.delay_ns - before.delay_ns));
		bound_ns = OFF_BY_NS + OFF_BY_SPELL_NS * (int64_t)sums.entries +
			   (int64_t)sums.gap_ns;
		tap_note("%s: %lu spells, ran %lu ns (%+ld), waited %lu ns (%+ld), turns %lu ns",
			 name, (unsigned long)sums.entries, (unsigned long)sums.ran_ns,
			 (long)ran_ns, (unsigned long)sums.waited_ns, (long)waited_ns,
			 (unsigned long)sums.turns_ns);
		/* A switch that the kernel did not show is told as a gap, and counted. */
		tap_ok(sums.in_order && sums.gaps <= copy.thread.missed,
		       "%s: in order, and its %u gaps are counted", name, sums.gaps);
		tap_ok(llabs(ran_ns) <= bound_ns, "%s: it ran as schedstat says", name);
		tap_ok(llabs(waited_ns) <= bound_ns, "%s: it waited as schedstat says", name);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	tap_ok(index >= 0 && flight_kernel_is_dead(kernel, (uint32_t)index),
	       "%s: its end is seen, and what it did is kept", name);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

static void test_variant(enum program_variant variant)
{
	struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH,
					       .variant = variant,
					       .loopers = true,
					       .flight = true,
					       .max_watched = 64};
	struct looper_kernel_options any = {0};
	struct looper_kernel *loopers = NULL;
	struct flight_kernel *kernel = NULL;
	char reason[160] = "";
	struct sched_kernel *sched = sched_kernel_open(&options, reason, sizeof(reason));

	if (sched)
		loopers = looper_kernel_open(sched, &any, reason, sizeof(reason));
	if (loopers && !looper_kernel_hook_wakeups(loopers))
		kernel = flight_kernel_open(sched, loopers);
	if (tap_ok(kernel, "%s: the programs load %s", program_variant_name(variant), reason)) {
		test_truth(kernel, "sleeps", 700, 300000, false);
		test_truth(kernel, "preempted", 700, 2000000, true);
	}
	flight_kernel_close(kernel);
	looper_kernel_close(loopers);
	sched_kernel_close(sched);
}

int main(int argc, char **argv)
{
	if (geteuid()) {
		tap_skip("flight", "needs root");
		return tap_done();
	}
	test_variant(VARIANT_TP_BTF);
	test_variant(VARIANT_RAW_TP);
	return tap_done();
}
