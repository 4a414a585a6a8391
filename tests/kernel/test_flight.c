/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder against the kernel's own sums: a thread that sleeps, runs and is preempted
 * by another one on its CPU. What its spells say that it did between two moments fills the time
 * between them; that it ran is what the kernel charged it, to the nanosecond. */
#include <bpf/bpf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "flight_rig.h"
#include "hides_init.h"
#include "jankscope/spell.h"
#include "kernel/flight_kernel.h"
#include "kernel/looper_kernel.h"
#include "kernel/sched_kernel.h"
#include "kernel/sched_time.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define RUN_US       600000
#define SPELLS       32768
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void is_ns(uint64_t got_ns, uint64_t wanted_ns, const char *name, const char *what)
{
	tap_ok(got_ns == wanted_ns, "%s: %s: %lu ns", name, what, (unsigned long)wanted_ns);
	if (got_ns != wanted_ns)
		tap_note("%s: it is %lu, %+ld", name, (unsigned long)got_ns,
			 (long)(got_ns - wanted_ns));
}

static void check(struct flight_kernel *kernel, uint32_t index, const char *name,
		  const struct probe_standing *before, const struct probe_standing *after,
		  const struct flight_thread *row_before, struct init_watch *init)
{
	static struct spell spells[SPELLS];
	uint64_t begin_ns = before->after_mono_ns, end_ns = after->after_mono_ns;
	const struct flight_thread *row;
	struct flight_copy copy;
	struct ledger ledger;
	uint64_t uncharged_ns, placed;
	size_t count = 0;
	int err;

	err = flight_kernel_spells(kernel, index, begin_ns, end_ns, spells, SPELLS, &count);
	if (!tap_ok(!err && count > 2 &&
			    !flight_kernel_read(kernel, index, begin_ns, end_ns, &copy),
		    "%s: read", name))
		return;
	row = &copy.thread;
	ledger = add_up(spells, count, begin_ns);
	uncharged_ns = row->uncharged_ns - row_before->uncharged_ns;
	tap_note("%s: %zu spells, %zu runs, %zu sleeps, %zu times preempted", name, ledger.spells,
		 ledger.runs, ledger.sleeps, ledger.preempted);
	tap_note(
		"%s: ran %lu ns, %lu of it not charged; %+ld to schedstat", name,
		(unsigned long)ledger.ns[SPELL_RUNNING], (unsigned long)uncharged_ns,
		(long)(ledger.ns[SPELL_RUNNING] - uncharged_ns - (after->cpu_ns - before->cpu_ns)));
	tap_note("%s: waited %lu ns, %+ld to schedstat, %lu of it in somebody's turns", name,
		 (unsigned long)ledger.ns[SPELL_RUNNABLE],
		 (long)(ledger.ns[SPELL_RUNNABLE] - (after->delay_ns - before->delay_ns)),
		 (unsigned long)ledger.turns_ns);
	tap_note("%s: slept %lu ns, stopped %lu, D %lu, unknown %lu; %u gaps, %u placed", name,
		 (unsigned long)ledger.ns[SPELL_SLEEPING], (unsigned long)ledger.ns[SPELL_STOPPED],
		 (unsigned long)ledger.ns[SPELL_UNINTERRUPTIBLE],
		 (unsigned long)ledger.ns[SPELL_UNKNOWN], row->missed - row_before->missed,
		 row->placed - row_before->placed);
	tap_ok(ledger.whole && ledger.end_ns == end_ns, "%s: the spells fill the window", name);
	is_ns(row->charged_ns - row_before->charged_ns, after->cpu_ns - before->cpu_ns, name,
	      "what the kernel charged");
	is_ns(row->queued_ns - row_before->queued_ns, after->delay_ns - before->delay_ns, name,
	      "what the kernel says it was queued");
	is_ns(ledger.ns[SPELL_RUNNING], after->cpu_ns - before->cpu_ns + uncharged_ns, name,
	      "its runs are what it was charged, and what interrupts took");
	is_ns(ledger.named_ns, ledger.ns[SPELL_SLEEPING] + ledger.ns[SPELL_STOPPED], name,
	      "it was in nanosleep or stopped when it slept");
	/* Both ends of a wait are late by as much, but that the wake-up is told before the kernel
	 * counts the thread as queued: so it is longer, and never shorter. (Two clocks: adjtimex
	 * may make one of them faster or slower by 500 in a million.) */
	tap_ok(ledger.ns[SPELL_RUNNABLE] + ledger.ns[SPELL_RUNNING] / 2000 >=
		       after->delay_ns - before->delay_ns,
	       "%s: it waited from its wake-ups on, not less than it was queued", name);
	/* Each switch-out is shown, because the thread itself is current then. Its switch-in is
	 * not where that is another's, whom this kernel hides. */
	is_ns(ledger.ns[SPELL_UNKNOWN], 0, name, "nothing is unknown");
	tap_ok(row->missed == row_before->missed, "%s: there are no gaps", name);
	placed = row->placed - row_before->placed;
	if (placed)
		hides_init(init);
	tap_ok(!placed || (init->hides != HIDES_NOT && placed <= init_slices() - init->slices),
	       "%s: %lu switch-ins were not shown, each behind process 1, which is hidden", name,
	       (unsigned long)placed);
}

static void test_truth(struct flight_kernel *kernel, struct init_watch *init, const char *name,
		       unsigned nap_us, uint64_t burst_ns, bool hog)
{
	struct probe_standing before, after;
	struct flight_copy copy = {0};
	pid_t pid = fork(), other = 0;
	int index;

	if (!pid)
		work(nap_us, burst_ns);
	if (hog && !(other = fork()))
		work(1000, 7000000);
	usleep(50000);
	index = flight_kernel_watch(kernel, pid, pid, FLIGHT_MOST_BLOCKS);
	if (tap_ok(index >= 0, "%s: watched", name)) {
		bool stands;

		usleep(50000);
		stands = stop(pid, &before) &&
			 !flight_kernel_read(kernel, (uint32_t)index, 0, 0, &copy);
		kill(pid, SIGCONT);
		usleep(RUN_US);
		if (tap_ok(stands && stop(pid, &after), "%s: it is stopped twice", name))
			check(kernel, (uint32_t)index, name, &before, &after, &copy.thread, init);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	/* Who waits for a process may be told of its end before its last switch. */
	for (int tries = 0;
	     tries < 200 && index >= 0 && !flight_kernel_is_dead(kernel, (uint32_t)index); tries++)
		usleep(10000);
	tap_ok(index >= 0 && flight_kernel_is_dead(kernel, (uint32_t)index),
	       "%s: its end is seen, and what it did is kept", name);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

/* A thread that reads from a pipe, into which another process writes: that one ends its sleeps, but
 * for those that the stop and the end of the stop end. */
static void test_waker(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	struct probe_standing before, after;
	unsigned sleeps = 0, by_poker = 0, by_test = 0, named = 0, nobody = 0, queued = 0;
	struct flight_copy copy = {0};
	pid_t reader, poker;
	size_t count = 0;
	int pipes[2], index;
	char byte = 0;

	if (pipe(pipes))
		return;
	reader = fork();
	if (!reader) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(pipes[0], &byte, 1) == 1)
			;
		_exit(0);
	}
	poker = fork();
	if (!poker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "poker");
		while (!usleep(1000) && write(pipes[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	usleep(20000);
	index = flight_kernel_watch(kernel, reader, reader, 2);
	if (tap_ok(index >= 0 && stop(reader, &before), "waker: watched, and stopped")) {
		kill(reader, SIGCONT);
		usleep(300000);
		tap_ok(stop(reader, &after) &&
			       !flight_kernel_spells(kernel, (uint32_t)index, before.after_mono_ns,
						     after.before_mono_ns, spells, SPELLS,
						     &count) &&
			       !flight_kernel_read(kernel, (uint32_t)index, before.after_mono_ns,
						   after.before_mono_ns, &copy),
		       "waker: read");
	}
	for (size_t i = 0; i < count; i++) {
		if (spells[i].state != SPELL_SLEEPING || spells[i].reason != LOOPER_REASON_READ)
			continue;
		sleeps++;
		by_poker += spells[i].other.tid == poker && spells[i].other.tgid == poker;
		named += spells[i].other.tid == poker && !strcmp(spells[i].other.comm, "poker");
		by_test += spells[i].other.tid == getpid();
		nobody += !spells[i].other.tid;
	}
	/* Woken on its way to sleep, before its switch-out was told: that is said of the spell. */
	for (size_t i = 0; i < copy.count; i++)
		queued += !!(copy.entries[i].flags & FLIGHT_QUEUED);
	tap_ok(sleeps > 3 && by_poker == named && by_test <= 1 && nobody <= queued &&
		       by_poker + by_test + nobody == sleeps,
	       "waker: of %u sleeps in read the writer ended %u, who stopped it %u, unseen %u",
	       sleeps, named, by_test, nobody);
	kill(reader, SIGKILL);
	kill(poker, SIGKILL);
	waitpid(reader, NULL, 0);
	waitpid(poker, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

#define NAPS 400
/* What the recorder's clock may be beside CLOCK_MONOTONIC: abi/sched.h, clock_offset_ns. */
#define CLOCK_ERROR_NS (20 * NSEC_PER_USEC)

/* A thread that looks at the clock before and behind each of its sleeps: each of them lies between
 * the two, by the clock that the recorder tells times in. */
static void test_clock(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	uint64_t(*naps)[2] = mmap(NULL, NAPS * sizeof(*naps), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned found = 0, early = 0, late = 0;
	int64_t worst_ns = 0;
	size_t count = 0, n = 0;
	int index;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(100000);
		for (int i = 0; i < NAPS; i++) {
			naps[i][0] = clock_now_ns(CLOCK_MONOTONIC);
			usleep(500);
			naps[i][1] = clock_now_ns(CLOCK_MONOTONIC);
		}
		pause();
	}
	index = flight_kernel_watch(kernel, pid, pid, FLIGHT_MOST_BLOCKS);
	for (int tries = 0; tries < 500 && !__atomic_load_n(&naps[NAPS - 1][1], __ATOMIC_ACQUIRE);
	     tries++)
		usleep(10000);
	usleep(10000);
	if (index >= 0)
		flight_kernel_spells(kernel, (uint32_t)index, naps[0][0], naps[NAPS - 1][1], spells,
				     SPELLS, &count);
	for (int i = 0; i < NAPS; i++) {
		int64_t before_ns = (int64_t)naps[i][0], after_ns = (int64_t)naps[i][1];

		while (n < count && spells[n].begin_ns < before_ns - (int64_t)CLOCK_ERROR_NS)
			n++;
		while (n < count && spells[n].state != SPELL_SLEEPING)
			n++;
		if (n == count || spells[n].begin_ns > after_ns)
			continue;
		found++;
		early += spells[n].begin_ns < before_ns;
		late += spells[n].end_ns > after_ns + (int64_t)CLOCK_ERROR_NS;
		if (before_ns - spells[n].begin_ns > worst_ns)
			worst_ns = before_ns - spells[n].begin_ns;
		if (spells[n].end_ns - after_ns > worst_ns)
			worst_ns = spells[n].end_ns - after_ns;
	}
	/* A machine that is held up may find the time over before the thread has gone to sleep. */
	tap_ok(found >= NAPS / 10 * 9 && !late,
	       "clock: %u of %u sleeps lie between the thread's looks at the clock, but for %ld ns",
	       found, NAPS, (long)worst_ns);
	tap_note("clock: %u begin before", early);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
	munmap(naps, NAPS * sizeof(*naps));
}

#define OVERDUE         200
#define OVERDUE_BUCKETS (1u << 20)
/* From the switch to the thread's own look at the clock. */
#define OVERDUE_ERROR_NS (200 * (int64_t)NSEC_PER_USEC)

/* A task that is to leave its CPU is in the kernel for milliseconds more, where that is not
 * preempted: who comes has waited until then, and has not run. */
static void test_overdue(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	uint64_t(*wakes)[2] = mmap(NULL, OVERDUE * sizeof(*wakes), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct sched_param first = {.sched_priority = 2};
	unsigned found = 0, early = 0, waited[2] = {0};
	int64_t worst_ns = 0;
	size_t count = 0;
	int index;
	pid_t pid = fork(), hog;
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	int map = bpf_map_create(BPF_MAP_TYPE_HASH, NULL, 4, 4, OVERDUE_BUCKETS, &options);

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin();
		sched_setscheduler(0, SCHED_FIFO, &first);
		usleep(100000);
		for (int i = 0; i < OVERDUE; i++) {
			struct timespec next;

			/* Each second wake-up is soon behind the switch of the one before. */
			wakes[i][0] = clock_now_ns(CLOCK_MONOTONIC) +
				      (i % 2 ? 20 * NSEC_PER_USEC : 3 * NSEC_PER_MSEC);
			next.tv_sec = (time_t)(wakes[i][0] / NSEC_PER_SEC);
			next.tv_nsec = (long)(wakes[i][0] % NSEC_PER_SEC);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
			__atomic_store_n(&wakes[i][1], clock_now_ns(CLOCK_MONOTONIC),
					 __ATOMIC_RELEASE);
		}
		pause();
	}
	hog = fork();
	if (!hog) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin();
		/* It looks through all buckets in one go. */
		for (;;) {
			uint32_t keys[1], values[1], next = 0, found_keys = 1;

			bpf_map_lookup_batch(map, NULL, &next, keys, values, &found_keys, NULL);
		}
	}
	index = flight_kernel_watch(kernel, pid, pid, FLIGHT_MOST_BLOCKS);
	for (int tries = 0;
	     tries < 3000 && !__atomic_load_n(&wakes[OVERDUE - 1][1], __ATOMIC_ACQUIRE); tries++)
		usleep(10000);
	usleep(10000);
	if (index >= 0)
		flight_kernel_spells(kernel, (uint32_t)index, wakes[0][0], wakes[OVERDUE - 1][1],
				     spells, SPELLS, &count);
	for (size_t n = 0, i = 0; n < count && i < OVERDUE; n++) {
		int64_t ns;

		if (spells[n].state != SPELL_RUNNING || spells[n].end_ns < (int64_t)wakes[i][1])
			continue;
		ns = (int64_t)wakes[i][1] - spells[n].begin_ns;
		found++;
		waited[i % 2] += wakes[i][1] - wakes[i][0] > NSEC_PER_MSEC;
		early += ns > OVERDUE_ERROR_NS;
		if (ns > worst_ns)
			worst_ns = ns;
		while (i < OVERDUE && (int64_t)wakes[i][1] <= spells[n].end_ns)
			i++;
	}
	/* An emulated CPU stands still for milliseconds between its switch and the thread's look.
	 */
	tap_ok(found > OVERDUE / 2 && (early <= OVERDUE / 50 || tap_is_emulated()),
	       "overdue: of %u wakes behind a long system call, %u of them by over 1 ms, and %u "
	       "that come soon behind another one, %u runs begin before the thread was there, by "
	       "%ld ns at most",
	       found, waited[0], waited[1], early, (long)worst_ns);
	kill(pid, SIGKILL);
	kill(hog, SIGKILL);
	waitpid(pid, NULL, 0);
	waitpid(hog, NULL, 0);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
	munmap(wakes, OVERDUE * sizeof(*wakes));
	close(map);
}

#define CROWD 12

/* Wakes with the others of the crowd at each tenth of a second, and has the CPU for 1 ms then, each
 * as long as it wants it: so those that come last wait while nobody waits any more whose wait began
 * among the first. */
static void __attribute__((noreturn)) crowd(void)
{
	const struct sched_param first = {.sched_priority = 1};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin();
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		_exit(1);
	for (;;) {
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), until_ns;
		struct timespec next;

		now_ns += 100 * NSEC_PER_MSEC - now_ns % (100 * NSEC_PER_MSEC);
		next.tv_sec = (time_t)(now_ns / NSEC_PER_SEC);
		next.tv_nsec = (long)(now_ns % NSEC_PER_SEC);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		until_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) + NSEC_PER_MSEC;
		while (clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) < until_ns)
			;
	}
}

/* Twelve threads wait for one CPU at a time, beside one that always wants it: of each is told who
 * ran in its place. What process 1 does, which this kernel may hide, names nobody. */
static void test_crowd(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	uint64_t begin_ns, end_ns, waited_ns[CROWD] = {0}, told_ns[CROWD] = {0};
	pid_t pids[CROWD], hog;
	int indexes[CROWD];
	unsigned waited = 0, told = 0, all = 0;
	size_t count;

	for (int i = 0; i < CROWD; i++)
		if (!(pids[i] = fork()))
			crowd();
	if (!(hog = fork()))
		work(0, NSEC_PER_SEC);
	for (int i = 0; i < CROWD; i++)
		all += (indexes[i] = flight_kernel_watch(kernel, pids[i], pids[i], 1)) >= 0;
	usleep(250000);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	usleep(400000);
	end_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CROWD && all == CROWD; i++) {
		if (flight_kernel_spells(kernel, (uint32_t)indexes[i], begin_ns, end_ns, spells,
					 SPELLS, &count))
			continue;
		for (size_t n = 0; n < count; n++) {
			if (spells[n].state != SPELL_RUNNABLE)
				continue;
			waited_ns[i] += (uint64_t)(spells[n].end_ns - spells[n].begin_ns);
			if (spells[n].other.tid)
				told_ns[i] += (uint64_t)(spells[n].end_ns - spells[n].begin_ns);
		}
		waited += waited_ns[i] > NSEC_PER_MSEC;
		/* The first of them waits for no other, but for the wake-ups of all. */
		told += waited_ns[i] < 4 * NSEC_PER_MSEC || told_ns[i] > waited_ns[i] / 4 * 3;
		tap_note("crowd: waited %lu us, %lu of it in somebody's turns",
			 (unsigned long)(waited_ns[i] / NSEC_PER_USEC),
			 (unsigned long)(told_ns[i] / NSEC_PER_USEC));
	}
	tap_ok(waited >= CROWD - 1, "crowd: %u of %u threads wait for one CPU together", waited,
	       CROWD);
	tap_ok(told >= CROWD - 1, "crowd: of %u of %u it is told who ran in their place", told,
	       CROWD);
	for (int i = 0; i < CROWD; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		if (indexes[i] >= 0)
			flight_kernel_unwatch(kernel, (uint32_t)indexes[i]);
	}
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

#define MOVED_ROUNDS 20
#define MOVED_NS     (100 * (int64_t)NSEC_PER_MSEC)

/* From the begin of each round on, for so long in even and odd ones, on this CPU. */
static void __attribute__((noreturn))
take_turns(int cpu, int priority, int64_t late_ns, int64_t even_ns, int64_t odd_ns)
{
	const struct sched_param first = {.sched_priority = priority};
	cpu_set_t cpus;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&cpus);
	for (int i = 0; i < 2; i++)
		if (cpu < 0 || cpu == i)
			CPU_SET(i, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || sched_setscheduler(0, SCHED_FIFO, &first))
		_exit(1);
	for (;;) {
		int64_t now_ns = (int64_t)clock_now_ns(CLOCK_MONOTONIC), ns;
		struct timespec next;

		now_ns += MOVED_NS - (now_ns - late_ns) % MOVED_NS;
		ns = now_ns / MOVED_NS % 2 ? odd_ns : even_ns;
		next.tv_sec = (time_t)(now_ns / (int64_t)NSEC_PER_SEC);
		next.tv_nsec = (long)(now_ns % (int64_t)NSEC_PER_SEC);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		ns += (int64_t)clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
		while ((int64_t)clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) < ns)
			;
	}
}

/* A thread whose CPU is taken from it goes on at another one while the first one is not free yet:
 * who has it there is told, when that is over. */
static void test_moved(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	const int64_t ms = NSEC_PER_MSEC;
	unsigned waits = 0, moved = 0, told = 0;
	uint64_t begin_ns;
	size_t count = 0;
	pid_t pids[3];
	int index;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		tap_skip("moved: a wait that ends at another CPU", "there is one CPU");
		return;
	}
	if (!(pids[0] = fork()))
		take_turns(-1, 2, -2 * ms, 12 * ms, 12 * ms);
	if (!(pids[1] = fork()))
		take_turns(0, 3, 0, 25 * ms, 5 * ms);
	if (!(pids[2] = fork()))
		take_turns(1, 3, 0, 5 * ms, 25 * ms);
	index = flight_kernel_watch(kernel, pids[0], pids[0], 2);
	usleep(200000);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	usleep(MOVED_ROUNDS * 100000);
	if (index >= 0)
		flight_kernel_spells(kernel, (uint32_t)index, begin_ns,
				     clock_now_ns(CLOCK_MONOTONIC), spells, SPELLS, &count);
	for (size_t n = 0; n < count; n++) {
		int64_t all_ns = 0, told_ns = 0;
		size_t first = n;

		for (; n < count && spells[n].state == SPELL_RUNNABLE; n++) {
			int64_t ns = spells[n].end_ns - spells[n].begin_ns;

			all_ns += ns;
			if (spells[n].other.tid == pids[1] || spells[n].other.tid == pids[2])
				told_ns += ns;
		}
		if (all_ns < 3 * ms)
			continue;
		waits++;
		if (n == count || spells[n].cpu == spells[first].cpu)
			continue;
		moved++;
		told += told_ns > all_ns / 2;
	}
	tap_note("moved: %u of %u waits ended at another CPU", moved, waits);
	if (moved < MOVED_ROUNDS / 4)
		tap_skip("moved: a wait that ends at another CPU", "the kernel moved it seldom");
	else
		tap_ok(told >= moved - moved / 5,
		       "moved: of %u waits that ended at another CPU %u are told behind whom",
		       moved, told);
	for (int i = 0; i < 3; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

/* More spells than the ring has room for: what it does not have any more is unknown up to where it
 * begins, and not guessed. */
static void test_overrun(struct flight_kernel *kernel)
{
	static struct spell spells[SPELLS];
	struct probe_standing standing;
	struct flight_copy copy = {0};
	uint64_t begin_ns, from_ns = 0;
	struct ledger ledger = {0};
	pid_t pid = fork();
	size_t count = 0;
	int index;

	if (!pid)
		work(20, 1000);
	index = flight_kernel_watch(kernel, pid, pid, 1);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	for (int tries = 0;
	     tries < 1000 && copy.thread.count < FLIGHT_BLOCK_ENTRIES + 200 && index >= 0;
	     tries++) {
		usleep(10000);
		flight_kernel_read(kernel, (uint32_t)index, begin_ns, begin_ns, &copy);
	}
	if (index >= 0 && stop(pid, &standing))
		from_ns = flight_kernel_from_ns(kernel, (uint32_t)index);
	if (from_ns && !flight_kernel_spells(kernel, (uint32_t)index, begin_ns,
					     standing.after_mono_ns, spells, SPELLS, &count))
		ledger = add_up(spells, count, begin_ns);
	tap_ok(count > FLIGHT_BLOCK_ENTRIES && ledger.whole &&
		       ledger.end_ns == standing.after_mono_ns &&
		       spells[0].state == SPELL_UNKNOWN && from_ns > begin_ns &&
		       (uint64_t)spells[0].end_ns == from_ns &&
		       ledger.ns[SPELL_UNKNOWN] == from_ns - begin_ns,
	       "overrun: of %lu spells the ring has the last: %zu with runs, unknown before",
	       (unsigned long)copy.thread.count, count);
	tap_ok(from_ns &&
		       !flight_kernel_spells(kernel, (uint32_t)index, begin_ns, from_ns, spells,
					     SPELLS, &count) &&
		       count == 1 && spells[0].state == SPELL_UNKNOWN,
	       "overrun: a window before is unknown as a whole");
	tap_ok(from_ns &&
		       flight_kernel_spells(kernel, (uint32_t)index, from_ns,
					    standing.after_mono_ns, spells, 8, &count) == -E2BIG &&
		       count == 8,
	       "overrun: less room than spells is told, with the first of them");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (index >= 0)
		flight_kernel_unwatch(kernel, (uint32_t)index);
	usleep(2000);
	flight_kernel_tidy(kernel);
}

static void fire(int program, unsigned khz)
{
	uint64_t words[2] = {khz, 0};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = words, .ctx_size_in = sizeof(words));

	bpf_prog_test_run_opts(program, &options);
}

/* The frequency of CPU 0 changes while a thread runs there, as the tracepoint would tell it: known
 * times at known frequencies. What was before the first change is not known. */
static void test_frequency(enum program_variant variant)
{
	static const unsigned khz[] = {0, 500000, 1500000, 1000000, 1500000};
	static struct sched_time_layout layout;
	static struct spell spells[SPELLS];
	struct sched_step steps[2];
	struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH,
					       .variant = variant,
					       .loopers = true,
					       .flight = true,
					       .max_watched = 64,
					       .time_layout = &layout};
	uint64_t at_ns[COUNT(khz)], until_ns[COUNT(khz)], ran_ns[COUNT(khz)] = {0}, wrong_ns = 0;
	const char *name = program_variant_name(variant);
	struct looper_kernel_options any = {0};
	struct looper_kernel *loopers = NULL;
	struct flight_kernel *kernel = NULL;
	unsigned cpus = sched_kernel_possible_cpus(), ran = 0;
	char reason[160] = "";
	struct sched_kernel *sched;
	size_t count = 0;
	int index = -1, go[2];
	pid_t pid;

	if (pipe(go)) {
		tap_ok(false, "%s: a pipe", name);
		return;
	}
	layout = (struct sched_time_layout){
		.words = cpus + 3, .cpu_count = cpus, .steps = steps, .step_count = 2};
	for (unsigned i = 0; i < cpus; i++)
		layout.base[i] = cpus;
	for (unsigned i = 0; i < 2; i++)
		steps[i] = (struct sched_step){{cpus, khz[i + 1]}, i + 1};
	sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (sched)
		loopers = looper_kernel_open(sched, &any, reason, sizeof(reason));
	if (loopers)
		kernel = flight_kernel_open(sched, loopers);
	pid = fork();
	if (!pid) {
		char byte;

		/* A thread is seen from its first switch on: that is here. */
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		setpriority(PRIO_PROCESS, 0, -20);
		work(0, NSEC_PER_SEC);
	}
	if (kernel)
		index = flight_kernel_watch(kernel, pid, pid, 2);
	tap_ok(index >= 0 && write(go[1], "", 1) == 1, "%s: the programs load with frequencies %s",
	       name, reason);
	usleep(50000);
	for (size_t i = 0; i < COUNT(khz) && index >= 0; i++) {
		if (i)
			fire(sched_kernel_time_program(sched), khz[i]);
		at_ns[i] = clock_now_ns(CLOCK_MONOTONIC);
		usleep(150000);
		until_ns[i] = clock_now_ns(CLOCK_MONOTONIC);
	}
	for (size_t i = 0; i < COUNT(khz) && index >= 0; i++) {
		/* The change lies somewhere between two phases. */
		int err = flight_kernel_spells(kernel, (uint32_t)index, at_ns[i], until_ns[i],
					       spells, SPELLS, &count);

		if (err) {
			tap_note("%s: phase %zu cannot be read: %d", name, i, err);
			continue;
		}
		for (size_t n = 0; n < count; n++) {
			uint64_t ns = (uint64_t)(spells[n].end_ns - spells[n].begin_ns);

			if (spells[n].state != SPELL_RUNNING)
				wrong_ns += spells[n].khz ? ns : 0;
			else if (spells[n].khz == khz[i])
				ran_ns[i] += ns;
			else
				wrong_ns += ns;
		}
		ran += ran_ns[i] > 0;
		if (!ran_ns[i])
			tap_note("%s: phase %zu: %zu spells, the first in state %u", name, i, count,
				 count ? spells[0].state : SPELL_STATES);
	}
	tap_ok(ran == COUNT(khz) && !wrong_ns,
	       "%s: it ran in %u of %zu phases, each at its frequency, and %lu ns at another", name,
	       ran, COUNT(khz), (unsigned long)wrong_ns);
	if (index >= 0 && !flight_kernel_spells(kernel, (uint32_t)index, at_ns[0],
						until_ns[COUNT(khz) - 1], spells, SPELLS, &count)) {
		struct ledger ledger = add_up(spells, count, at_ns[0]);

		tap_ok(ledger.whole && ledger.end_ns == until_ns[COUNT(khz) - 1],
		       "%s: runs that are cut at the changes fill the window", name);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(go[0]);
	close(go[1]);
	flight_kernel_close(kernel);
	looper_kernel_close(loopers);
	sched_kernel_close(sched);
}

static void test_variant(enum program_variant variant, struct init_watch *init)
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
		test_truth(kernel, init, "sleeps", 700, 300000, false);
		test_truth(kernel, init, "preempted", 700, 2000000, true);
		test_waker(kernel);
		test_clock(kernel);
		test_overdue(kernel);
		test_crowd(kernel);
		test_moved(kernel);
		test_overrun(kernel);
	}
	flight_kernel_close(kernel);
	looper_kernel_close(loopers);
	sched_kernel_close(sched);
}

int main(int argc, char **argv)
{
	struct init_watch init;

	if (geteuid()) {
		tap_skip("flight", "needs root");
		return tap_done();
	}
	watch_init(&init);
	test_variant(VARIANT_TP_BTF, &init);
	test_variant(VARIANT_RAW_TP, &init);
	if (!access("/sys/devices/system/cpu/cpufreq/policy0", F_OK)) {
		tap_skip("frequency", "the CPUs change it by themselves here");
	} else {
		test_frequency(VARIANT_TP_BTF);
		test_frequency(VARIANT_RAW_TP);
	}
	unwatch_init(&init);
	return tap_done();
}
