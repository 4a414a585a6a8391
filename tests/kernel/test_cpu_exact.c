/* SPDX-License-Identifier: BSD-2-Clause */
/* Whose time it is: of the uid that ran it; idle to the nanosecond in every mode; time of the dead
 * in the interval in which they ran; tasks above what pid_max was. */
/* Runs beside others (43 s, 9 s of CPU) */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "cpu_turn.h"
#include "util/resident.h"

#define TURNS 12

/* ---- E1: a zygote's child ---- */

static void test_setuid(const char *name, const struct cpu_options *options)
{
	static const unsigned ms[2] = {60, 30};
	const uid_t uids[2] = {own_uid(1), own_uid(2)};
	struct uid_truth *truth = uid_truth_new();
	bool sleeps = options->kernel.test_no_uid_hook;
	uint64_t found_ns[2] = {0};
	struct run run;

	if (!begin(&run, name, options))
		return;
	for (int i = 0; i < TURNS + 1; i++) {
		if (i < TURNS)
			take_turn(truth, uids, ms, sleeps);
		else
			usleep(300000);
		if (i % 5 != 4 && i < TURNS)
			continue;
		sample(&run);
		for (int u = 0; u < 2; u++)
			found_ns[u] += uid_ns(&run, uids[u]);
	}
	if (!sleeps && !sched_kernel_sees_uids(cpu_source_kernel(run.source)))
		tap_skip(name, "no kprobes and no tracepoint cap_capable in this kernel");
	else
		check_split(name, truth, TURNS, found_ns);
	end(&run);
	munmap(truth, sizeof(*truth));
}

/* A task goes back to a uid that it had: no capability is asked for, so the hook that stands in for
 * a kprobe does not fire, and the next switch has to see it. The task sleeps once under the other
 * uid: where no switch falls between the two changes, nothing shows that it had that one. */
static void test_uid_back(const char *name, const struct cpu_options *options)
{
	uid_t uid = own_uid(3);
	uint64_t measured_ns;
	struct run run;
	pid_t pid;

	if (!begin(&run, name, options))
		return;
	pid = fork();
	if (!pid) {
		if (setresuid(uid, 0, 0))
			_exit(1);
		usleep(1000);
		burn_ms(30);
		if (setresuid(0, 0, 0))
			_exit(1);
		for (int i = 0; i < 10; i++) {
			usleep(1000);
			burn_ms(10);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	usleep(20000);
	sample(&run);
	measured_ns = uid_ns(&run, uid);
	tap_ok(measured_ns > 29 * NSEC_PER_MSEC &&
		       (measured_ns < 35 * NSEC_PER_MSEC || tap_is_emulated()),
	       "%s: back to root: %.2f of 30 ms are the uid's (%lu changes unsplit)", name,
	       (double)measured_ns / 1e6,
	       (unsigned long)counter_list_get(&run.interval.lost, "cpu_uid_changes_unsplit"));
	end(&run);
}

/* ---- E14: creds come and go at the same few addresses ---- */

static void test_cred_reuse(const char *name, const struct cpu_options *options)
{
	enum { ROUNDS = 60, UIDS = 3 };
	uint64_t *truth_ns = mmap(NULL, UIDS * sizeof(*truth_ns), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t off_ns = 0;
	uid_t base = own_uid(4);
	struct run run;
	pid_t pid;

	if (!begin(&run, name, options))
		return;
	pid = fork();
	if (!pid) {
		for (int i = 0; i < ROUNDS; i++) {
			uint64_t at_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

			/* The address of the last but one is free after a grace period. */
			if (setresuid(base + (uid_t)(i % UIDS), 0, 0))
				_exit(1);
			usleep(1000);
			burn_ms(3);
			usleep(15000);
			truth_ns[i % UIDS] += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - at_ns;
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	usleep(300000);
	sample(&run);
	for (unsigned i = 0; i < UIDS; i++) {
		uint64_t ns = uid_ns(&run, base + i);

		off_ns += ns > truth_ns[i] ? ns - truth_ns[i] : truth_ns[i] - ns;
	}
	tap_ok(off_ns < (tap_is_emulated() ? (truth_ns[0] + truth_ns[1] + truth_ns[2]) / 2
					   : 6 * NSEC_PER_MSEC),
	       "%s: %d changes of uid, %.2f ms with another uid", name, ROUNDS,
	       (double)off_ns / 1e6);
	end(&run);
	munmap(truth_ns, UIDS * sizeof(*truth_ns));
}

/* ---- L11: idle ---- */

static uint64_t truth_idle_ns(struct sched_kernel *kernel, uint64_t *mono_ns)
{
	struct sched_cpu cpu;
	uint64_t sum_ns = 0;

	sched_kernel_begin_read(kernel, mono_ns);
	for (unsigned i = 0; i < sched_kernel_cpu_count(kernel); i++) {
		sched_kernel_cpu(kernel, i, &cpu);
		sum_ns += cpu.idle_ns;
	}
	return sum_ns;
}

static void test_idle(void)
{
	const struct cpu_options options = {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}};
	const struct sched_kernel_options truth_options = {.mode = CPU_MODE_SWITCH};
	const char *name = "iter: idle";
	unsigned wrong = 0, whole_ticks = 0, absent = 0, intervals = 20;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char reason[160];
	struct sched_kernel *truth = sched_kernel_open(&truth_options, reason, sizeof(reason));
	uint64_t before_ns, at_ns, idle_ns;
	struct run run;

	if (!tap_ok(truth != NULL, "%s: another program sees the switches", name) ||
	    !begin(&run, name, &options))
		return;
	sample(&run);
	before_ns = truth_idle_ns(truth, &at_ns);
	for (unsigned i = 0; i < intervals; i++) {
		uint64_t begin_ns, slack_ns;

		usleep(100000);
		begin_ns = clock_now_ns(CLOCK_MONOTONIC);
		sample(&run);
		idle_ns = truth_idle_ns(truth, &at_ns);
		/* Both are read in turn: what passed in between may be idle, in this interval and
		 * in the last one. Interrupts that come to an idle CPU are no idle time. */
		slack_ns = 2 * (at_ns - begin_ns) * (uint64_t)cpus +
			   run.interval.dur_ns * (uint64_t)cpus / 100;
		absent += !run.interval.cpu.idle_ns.present;
		whole_ticks += run.interval.cpu.idle_ns.value % (10 * NSEC_PER_MSEC) == 0;
		wrong += run.interval.cpu.idle_ns.value > idle_ns - before_ns + slack_ns ||
			 run.interval.cpu.idle_ns.value + slack_ns < idle_ns - before_ns;
		before_ns = idle_ns;
	}
	tap_ok(!absent && (!wrong || (tap_is_emulated() && wrong < intervals / 4)),
	       "%s: %u of %u intervals within 1 %% of the switches' count", name,
	       intervals - wrong - absent, intervals);
	tap_note("%s: %u intervals in whole ticks (or without idle time)", name, whole_ticks);
	end(&run);
	sched_kernel_close(truth);
}

/* ---- E17: the time of the dead ---- */

static void test_late_deaths(void)
{
	const struct cpu_options options = {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}};
	const char *name = "iter: fork storm";
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 3 * NSEC_PER_SEC, untold = 0;
	unsigned wrong = 0, intervals = 0;
	double worst = 0;
	struct run run;
	pid_t storm;

	if (!begin(&run, name, &options))
		return;
	storm = fork();
	if (!storm) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			pid_t pid = fork();

			if (!pid) {
				burn_ms(1);
				_exit(0);
			}
			waitpid(pid, NULL, 0);
		}
	}
	sample(&run);
	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		double share;

		usleep(50000);
		sample(&run);
		share = (double)run.interval.cpu.busy_ns / (double)run.interval.cpu.online_ns;
		worst = share > worst ? share : worst;
		/* What a process runs after its exit, up to 0.1 ms, comes later and in bursts. */
		wrong += share > 1.5;
		untold += counter_list_get(&run.interval.lost, "cpu_deaths_untold");
		intervals++;
	}
	kill(storm, SIGKILL);
	waitpid(storm, NULL, 0);
	tap_ok(!wrong, "%s: no interval of %u is busier than the CPUs (at most %.1f %%)", name,
	       intervals, worst * 100);
	tap_ok(!untold, "%s: no death that is only late is called lost (%lu)", name,
	       (unsigned long)untold);
	end(&run);
}

/* ---- more tasks than a read-out asks for at once ---- */

#define SLEEPERS 600
#define SLEEPS   20 /* each time */

struct sleeper {
	pid_t pid;
	uint64_t cpu_ns, voluntary; /* of all intervals */
};

static void add_rows(const struct run *run, struct sleeper *sleepers)
{
	for (size_t i = 0; i < run->interval.cpu.task_count; i++) {
		const struct record_task *task = &run->interval.cpu.tasks[i];

		for (int j = 0; j < SLEEPERS; j++) {
			if (sleepers[j].pid != task->tid)
				continue;
			sleepers[j].cpu_ns += task->cpu_ns;
			sleepers[j].voluntary += task->switches_voluntary.value;
		}
	}
}

static uint64_t clock_of_process_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_now_ns(clock);
}

static uint64_t sleeps_of_process(pid_t pid)
{
	char path[64], line[128];
	unsigned long sleeps = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "voluntary_ctxt_switches:", 24))
			sleeps = strtoul(line + 24, NULL, 10);
	if (file)
		fclose(file);
	return sleeps;
}

static void be_sleeper(int go)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(go, &byte, 1) == 1)
		for (int i = 0; i < SLEEPS; i++)
			usleep(5000);
	_exit(0);
}

/* Let them run SLEEPERS times in all, and wait until they sleep for good: until none has gone to
 * sleep for 300 ms. */
static bool run_sleepers(const struct sleeper *sleepers, int go)
{
	static const char bytes[SLEEPERS];
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC;
	bool done = write(go, bytes, SLEEPERS) == SLEEPERS;
	uint64_t sleeps = 0, last;

	do {
		last = sleeps;
		sleeps = 0;
		usleep(300000);
		for (int i = 0; i < SLEEPERS; i++)
			sleeps += sleeps_of_process(sleepers[i].pid);
	} while (done && sleeps != last && clock_now_ns(CLOCK_MONOTONIC) < until_ns);
	return done && sleeps == last;
}

/* Tasks that switched often since the last read-out, and sleep at the next one: their sums are the
 * kernel's to the nanosecond, though only their first switch wrote anything. They sleep at each
 * read-out, because of a slice that is not over an estimate is told. */
static void test_sleepers(const char *name, enum program_variant variant)
{
	const struct cpu_options options = {.kernel = {CPU_MODE_SWITCH, variant}};
	static struct sleeper sleepers[SLEEPERS];
	unsigned wrong_ns = 0, wrong_sleeps = 0;
	int64_t worst_ns = 0;
	bool slept = true;
	struct run run;
	int go[2];

	memset(sleepers, 0, sizeof(sleepers));
	if (!begin(&run, name, &options))
		return;
	if (pipe(go))
		exit(1);
	for (int i = 0; i < SLEEPERS; i++) {
		sleepers[i].pid = fork();
		if (!sleepers[i].pid)
			be_sleeper(go[0]);
	}
	for (int turn = 0; turn < 3; turn++) {
		slept &= run_sleepers(sleepers, go[1]);
		sample(&run);
		add_rows(&run, sleepers);
	}
	for (int i = 0; i < SLEEPERS; i++) {
		int64_t off_ns =
			(int64_t)sleepers[i].cpu_ns - (int64_t)clock_of_process_ns(sleepers[i].pid);

		wrong_ns += off_ns != 0;
		worst_ns = llabs(off_ns) > llabs(worst_ns) ? off_ns : worst_ns;
		wrong_sleeps += sleepers[i].voluntary != sleeps_of_process(sleepers[i].pid);
		kill(sleepers[i].pid, SIGKILL);
	}
	for (int i = 0; i < SLEEPERS; i++)
		waitpid(sleepers[i].pid, NULL, 0);
	tap_ok(slept && !wrong_ns,
	       "%s: of %d processes that sleep %u have not their own clock's time (%+ld ns)", name,
	       SLEEPERS, wrong_ns, (long)worst_ns);
	tap_ok(!wrong_sleeps, "%s: %u have not their own count of sleeps", name, wrong_sleeps);
	close(go[0]);
	close(go[1]);
	end(&run);
}

/* ---- E19: tids above the array ---- */

static void test_high_tids(const char *name, enum program_variant variant)
{
	const struct cpu_options options = {
		.kernel = {CPU_MODE_SWITCH, variant, .test_task_slots = 64}};
	uint64_t ns = 0, overflow_ns = 0;
	struct run run;
	pid_t pid;

	if (!begin(&run, name, &options))
		return;
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 20; i++) {
			burn_ms(2);
			usleep(1000);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	/* It may leave its CPU for the last time amid the first read-out: then the second one
	 * tells.
	 */
	for (int turn = 0; turn < 2; turn++) {
		sample(&run);
		for (size_t i = 0; i < run.interval.cpu.task_count; i++)
			if (run.interval.cpu.tasks[i].tid == pid)
				ns += run.interval.cpu.tasks[i].cpu_ns;
		overflow_ns += run.interval.cpu.overflow_ns;
		usleep(20000);
	}
	tap_ok(ns >= 40 * NSEC_PER_MSEC && (ns < 60 * NSEC_PER_MSEC || tap_is_emulated()) &&
		       !overflow_ns,
	       "%s: a tid above the array has its row (%.2f of 40 ms), overflow %.2f ms", name,
	       (double)ns / 1e6, (double)overflow_ns / 1e6);
	end(&run);
}

int main(void)
{
	static const struct cpu_variant variants[] = {
		{"switch/tp_btf", {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}}},
		{"switch/tp_btf, no hook",
		 {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF, .test_no_uid_hook = true}}},
		{"switch/raw_tp, no hook",
		 {.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP, .test_no_uid_hook = true}}},
		{"iter/tp_btf", {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}}},
	};

	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
		test_setuid(variants[i].name, &variants[i].options);
		if (variants[i].options.kernel.mode == CPU_MODE_SWITCH)
			test_cred_reuse(variants[i].name, &variants[i].options);
	}
	test_uid_back("switch/tp_btf", &variants[0].options);
	test_uid_back("switch/raw_tp",
		      &(const struct cpu_options){.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP}});
	test_idle();
	test_late_deaths();
	test_sleepers("tp_btf: many sleepers", VARIANT_TP_BTF);
	test_sleepers("raw_tp: many sleepers", VARIANT_RAW_TP);
	test_high_tids("tp_btf: pid_max raised", VARIANT_TP_BTF);
	test_high_tids("raw_tp: pid_max raised", VARIANT_RAW_TP);
	return tap_done();
}
