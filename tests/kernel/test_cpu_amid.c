/* SPDX-License-Identifier: BSD-2-Clause */
/* A task that changes its uid while a read-out is under way: what it ran before is the old uid's,
 * although the read-out finds it under the new one. What else may come between a change of uid and
 * the read-out. */
/* Runs beside others (26 s) */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "util/resident.h"

/* A walk over many tasks takes its time, and meets the one that changes last. */
#define CROWD    1500
#define LATE_TID 32600
#define TURNS    40
#define FIRST_NS (6 * NSEC_PER_MSEC)
/* How far into a read-out the change comes: later in each turn, until the walk's end. */
#define WALK_NS (NSEC_PER_MSEC / 2)
/* The sum that the hook reads is within 40 us, and mostly within one. A start and an end. */
#define SLACK_NS (TURNS * NSEC_PER_MSEC / 50 + 2 * NSEC_PER_MSEC)

/* By uid, what the task ran, by its own clock. */
struct changes {
	uint64_t first_ns, second_ns;
	atomic_uint reading, changed, read; /* the turn in which it was done */
};

static void *rest(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static pid_t make_crowd(void)
{
	pid_t pid = fork();
	pthread_attr_t small;
	pthread_t thread;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&thread, &small, rest, NULL))
			_exit(1);
	rest(NULL);
	_exit(1);
}

static void run_for(uint64_t ns)
{
	uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < begin_ns + ns)
		spin_hint();
}

/* No switch falls between its two changes, so that none tells of anything; the last one saw it
 * under the uid that it goes back to. Each change is to a uid that the task does not have, so that
 * the hook of kernels without kprobes is asked for it. */
static void change_uids(struct changes *changes, uid_t first, uid_t second)
{
	uint64_t from_ns = 0, at_ns;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		if (setresuid(first, 0, 0))
			_exit(1);
		at_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		changes->second_ns += turn > 1 ? at_ns - from_ns : 0;
		from_ns = at_ns;
		run_for(FIRST_NS);
		atomic_store(&changes->reading, turn);
		run_for(turn * WALK_NS / TURNS);
		if (setresuid(second, 0, 0))
			_exit(1);
		at_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		changes->first_ns += at_ns - from_ns;
		from_ns = at_ns;
		atomic_store(&changes->changed, turn);
		while (atomic_load(&changes->read) < turn)
			spin_hint();
		usleep(100);
	}
	changes->second_ns += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns;
	_exit(0);
}

static bool is_near(uint64_t found_ns, uint64_t truth_ns)
{
	return found_ns < truth_ns + SLACK_NS && truth_ns < found_ns + SLACK_NS;
}

static void test_changes(const struct cpu_variant *variant)
{
	struct changes *changes = mmap(NULL, sizeof(*changes), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uid_t first = own_uid(1), second = own_uid(2);
	uint64_t first_ns = 0, second_ns = 0;
	unsigned amid = 0;
	pid_t crowd, pid;
	struct run run;

	if (!begin(&run, variant->name, &variant->options))
		return;
	crowd = make_crowd();
	usleep(200000);
	set_next_tid(LATE_TID);
	pid = fork();
	if (!pid)
		change_uids(changes, first, second);
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		while (atomic_load(&changes->reading) < turn && !waitpid(pid, NULL, WNOHANG))
			spin_hint();
		sample(&run);
		amid += atomic_load(&changes->changed) == turn;
		first_ns += uid_ns(&run, first);
		second_ns += uid_ns(&run, second);
		while (atomic_load(&changes->changed) < turn)
			spin_hint();
		atomic_store(&changes->read, turn);
	}
	waitpid(pid, NULL, 0);
	usleep(100000);
	sample(&run);
	first_ns += uid_ns(&run, first);
	second_ns += uid_ns(&run, second);
	kill(crowd, SIGKILL);
	waitpid(crowd, NULL, 0);
	if (!sched_kernel_sees_uids(cpu_source_kernel(run.source)))
		tap_skip(variant->name, "no kprobes and no tracepoint cap_capable in this kernel");
	else
		tap_ok(is_near(first_ns, changes->first_ns) &&
			       is_near(second_ns, changes->second_ns),
		       "%s: %u of %d changes of uid amid a read-out: the one uid ran %.2f of %.2f "
		       "ms, the other %.2f of %.2f",
		       variant->name, amid, TURNS, (double)first_ns / 1e6,
		       (double)changes->first_ns / 1e6, (double)second_ns / 1e6,
		       (double)changes->second_ns / 1e6);
	end(&run);
	munmap(changes, sizeof(*changes));
}

/* ---- to another uid and back, between two switches ---- */

#define BACK_NS    (2 * NSEC_PER_MSEC)
#define BACK_TRIES 200

enum { STEP_BEGUN = 1, STEP_CHANGED, STEP_CHANGED_BACK };

struct back {
	pid_t pid;
	atomic_uint step;
	uint64_t told_ns, switches; /* of the last note */
	uint64_t slot_ns;           /* of its slot, where that has the uid of now */
	uint32_t uid;
};

static uint64_t switches_of(const struct task_sums *sums)
{
	return sums->switches_voluntary + sums->switches_involuntary;
}

static int keep_note(void *ctx, const struct task_death *note)
{
	struct back *back = ctx;

	if (note->tid != (uint32_t)back->pid || note->kind != TASK_NOTE_UID)
		return 0;
	back->told_ns = note->sums.cpu_ns;
	back->switches = switches_of(&note->sums);
	return 0;
}

static int keep_slot(void *ctx, pid_t tid, const struct task_slot *slot)
{
	struct back *back = ctx;

	if (tid == back->pid && slot->uid == back->uid &&
	    switches_of(&slot->sums) == back->switches)
		back->slot_ns = slot->sums.cpu_ns;
	return 0;
}

static void wait_for(const struct back *back, unsigned step)
{
	while (atomic_load(&back->step) < step && !waitpid(back->pid, NULL, WNOHANG))
		spin_hint();
}

/* No other task comes between the two changes where the task has a CPU that its parent does not
 * use. */
static void run_alone(const cpu_set_t *others)
{
	const struct sched_param least = {.sched_priority = 1};

	if (!sched_setaffinity(0, sizeof(*others), others))
		sched_setscheduler(0, SCHED_FIFO, &least);
}

static void go_and_back(struct back *back, const cpu_set_t *others, uid_t first, uid_t second)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_alone(others);
	if (setresuid(second, 0, 0))
		_exit(1);
	usleep(1000);
	if (setresuid(first, 0, 0))
		_exit(1);
	run_for(BACK_NS);
	atomic_store(&back->step, STEP_BEGUN);
	while (atomic_load(&back->step) < STEP_CHANGED)
		spin_hint();
	if (setresuid(second, 0, 0))
		_exit(1);
	atomic_store(&back->step, STEP_CHANGED_BACK);
	run_for(NSEC_PER_SEC);
	_exit(0);
}

/* Its slot has the uid that it goes back to while the ring has been read and the slot has not: what
 * it ran before that is the other uid's, and the slot's sum is not to have it. Where a switch came
 * since the note it is tried again. */
static void test_back(const char *name, enum program_variant variant)
{
	const struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH, .variant = variant};
	struct back *back = mmap(NULL, sizeof(*back), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uid_t first = own_uid(3), second = own_uid(4);
	char reason[160];
	struct sched_kernel *kernel = sched_kernel_open(&options, reason, sizeof(reason));
	cpu_set_t all, one, others;
	uint64_t at_ns;
	unsigned tries;
	pid_t pid;

	if (!kernel || !sched_kernel_sees_uids(kernel)) {
		tap_skip(name, kernel ? "nothing in this kernel tells of a change" : reason);
		sched_kernel_close(kernel);
		return;
	}
	/* An empty set of others is refused, and then the two share what there is. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_getaffinity(0, sizeof(all), &all);
	CPU_XOR(&others, &all, &one);
	sched_setaffinity(0, sizeof(one), CPU_COUNT(&others) ? &one : &all);
	for (tries = 1; tries < BACK_TRIES && !back->slot_ns; tries++) {
		*back = (struct back){.uid = second};
		pid = fork();
		if (!pid)
			go_and_back(back, &others, first, second);
		back->pid = pid;
		wait_for(back, STEP_BEGUN);
		sched_kernel_begin_read(kernel, &at_ns);
		sched_kernel_deaths(kernel, keep_note, back);
		atomic_store(&back->step, STEP_CHANGED);
		wait_for(back, STEP_CHANGED_BACK);
		sched_kernel_slots(kernel, NULL, keep_slot, back);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	tap_ok(back->slot_ns && back->slot_ns < back->told_ns + BACK_NS / 2,
	       "%s: to another uid and back between two switches: the note has %.2f ms, the slot "
	       "%.2f (%u tries)",
	       name, (double)back->told_ns / 1e6, (double)back->slot_ns / 1e6, tries - 1);
	sched_setaffinity(0, sizeof(all), &all);
	sched_kernel_close(kernel);
	munmap(back, sizeof(*back));
}

/* ---- a right that was asked for, and no change of the uid ---- */

#define ASKED_NS (20 * NSEC_PER_MSEC)

/* Then it goes back to a uid that it had, of which no hook tells: the next switch does. *ran_ns is
 * what it ran meanwhile, by its own clock. */
static void ask_for_nothing(uid_t uid, uint64_t *ran_ns)
{
	uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

	if (setresuid(uid, 0, 0))
		_exit(1);
	usleep(1000);
	if (setresuid((uid_t)-1, (uid_t)-1, uid + 1))
		_exit(1);
	usleep(1000);
	run_for(ASKED_NS);
	*ran_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	if (setresuid(0, 0, 0))
		_exit(1);
	usleep(1000);
	_exit(0);
}

static void test_asked(const struct cpu_variant *variant)
{
	uint64_t *ran_ns = mmap(NULL, sizeof(*ran_ns), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uid_t uid = own_uid(5);
	uint64_t found_ns;
	struct run run;
	pid_t pid;

	if (!begin(&run, variant->name, &variant->options))
		return;
	pid = fork();
	if (!pid)
		ask_for_nothing(uid, ran_ns);
	waitpid(pid, NULL, 0);
	sample(&run);
	found_ns = uid_ns(&run, uid);
	/* The first and the last slice have some of root's time, until the next switch. */
	tap_ok(*ran_ns >= ASKED_NS && found_ns + NSEC_PER_MSEC > *ran_ns &&
		       found_ns < *ran_ns + 2 * NSEC_PER_MSEC,
	       "%s: it asked for a right and kept its uid, which ran %.2f of %.2f ms",
	       variant->name, (double)found_ns / 1e6, (double)*ran_ns / 1e6);
	end(&run);
	munmap(ran_ns, sizeof(*ran_ns));
}

int main(void)
{
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	for (size_t i = 0; i < CPU_TWINS; i++)
		if (cpu_twins[i].options.kernel.mode == CPU_MODE_ITER)
			test_changes(&cpu_twins[i]);
	for (size_t i = 0; i < CPU_TWINS; i++)
		if (cpu_twins[i].options.kernel.mode == CPU_MODE_SWITCH)
			test_asked(&cpu_twins[i]);
	test_back("switch/tp_btf", VARIANT_TP_BTF);
	test_back("switch/raw_tp", VARIANT_RAW_TP);
	return tap_done();
}
