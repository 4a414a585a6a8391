/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the flight recorder share: a thread that works and sleeps, how it is stopped so
 * that the kernel's sums of it stand, and the sums of its spells. */
#pragma once
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "jankscope/spell.h"
#include "kernel/looper_kernel.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

static inline void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* On CPU 0 where it is pinned. */
static inline void __attribute__((noreturn))
work_on(bool pinned, unsigned nap_us, uint64_t burst_ns)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pinned)
		pin();
	for (;;) {
		uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + burst_ns;

		while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
			;
		usleep(nap_us);
	}
}

static inline void __attribute__((noreturn)) work(unsigned nap_us, uint64_t burst_ns)
{
	work_on(true, nap_us, burst_ns);
}

struct ledger {
	uint64_t ns[SPELL_STATES], turns_ns, named_ns, end_ns;
	size_t spells, runs, sleeps, preempted;
	bool whole;
};

/* Whole: one behind the other, from begin_ns to end_ns. */
static inline struct ledger add_up(const struct spell *spells, size_t count, uint64_t begin_ns)
{
	struct ledger ledger = {.whole = true, .spells = count, .end_ns = begin_ns};

	for (size_t i = 0; i < count; i++) {
		const struct spell *spell = &spells[i];
		uint64_t ns = (uint64_t)(spell->end_ns - spell->begin_ns);

		ledger.whole &= spell->end_ns > spell->begin_ns &&
				(uint64_t)spell->begin_ns == ledger.end_ns &&
				spell->state < SPELL_STATES;
		if (!ledger.whole) {
			tap_note("spell %zu: state %u, %ld ns long, %ld ns behind the last", i,
				 spell->state, (long)ns,
				 (long)((uint64_t)spell->begin_ns - ledger.end_ns));
			break;
		}
		ledger.end_ns = (uint64_t)spell->end_ns;
		ledger.ns[spell->state] += ns;
		ledger.runs += spell->state == SPELL_RUNNING;
		ledger.sleeps += spell->state == SPELL_SLEEPING;
		ledger.preempted +=
			spell->state == SPELL_RUNNABLE && i && spells[i - 1].state == SPELL_RUNNING;
		if ((spell->state == SPELL_SLEEPING && spell->reason == LOOPER_REASON_SLEEP) ||
		    (spell->state == SPELL_STOPPED && spell->reason == LOOPER_REASON_STOPPED))
			ledger.named_ns += ns;
		if (spell->state == SPELL_RUNNABLE && spell->other.tid)
			ledger.turns_ns += ns;
	}
	return ledger;
}

/* Stops it, and waits until it has left its CPU: its sums stand from then on. */
static inline bool stop(pid_t pid, struct probe_standing *standing)
{
	uint64_t cpu_ns = 0;

	kill(pid, SIGSTOP);
	for (int tries = 0; tries < 500; tries++) {
		usleep(10000);
		if (standing_read(pid, pid, standing))
			return false;
		if (standing->state == 'T' && standing->cpu_ns == cpu_ns)
			return true;
		cpu_ns = standing->cpu_ns;
	}
	return false;
}
