/* SPDX-License-Identifier: BSD-2-Clause */
/* Intervals that end while a task waits for a CPU, is in state D, or runs after that: each interval
 * has its own part of the wait, and no more of it than it is long. */
/* Runs beside others (6 s, 4 s of CPU) */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "util/resident.h"

#define HOGS       5
#define ROUNDS     30
#define ROUND_US   50000
#define D_MS       600
#define D_ROUND_US 100000
#define RUN_MS     400
#define STARVED_MS 600

/* What a child tells of itself, by its own clocks. */
struct told {
	volatile uint64_t d_ns, ready;
};

static const struct record_task *row_of(const struct run *run, pid_t tid)
{
	for (size_t i = 0; i < run->interval.cpu.task_count; i++)
		if (run->interval.cpu.tasks[i].tid == tid)
			return &run->interval.cpu.tasks[i];
	return NULL;
}

/* The first CPU that this program may use, or the last. */
static bool pin(bool last)
{
	cpu_set_t set, one;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(set), &set))
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set) || (!last && CPU_COUNT(&one)))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
	}
	return !sched_setaffinity(0, sizeof(one), &one);
}

static pid_t born(struct told *told, bool last_cpu, int policy, void (*live)(struct told *told))
{
	const struct sched_param param = {.sched_priority = policy == SCHED_FIFO ? 10 : 0};
	pid_t pid = fork();

	if (pid)
		return pid;
	alarm(60);
	if (!pin(last_cpu) || sched_setscheduler(0, policy, &param))
		_exit(1);
	live(told);
	_exit(0);
}

/* False: the child has ended, or hangs. */
static bool await_ready(const struct told *told, pid_t pid)
{
	for (int i = 0; i < 20000 && !told->ready; i++) {
		if (waitpid(pid, NULL, WNOHANG))
			return false;
		usleep(1000);
	}
	return told->ready;
}

/* 0, or why the kernel keeps it from root. */
static int refuses_fifo(void)
{
	const struct sched_param param = {.sched_priority = 10}, none = {0};

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		return errno;
	sched_setscheduler(0, SCHED_OTHER, &none);
	return 0;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void live_hog(struct told *told)
{
	for (;;)
		spin_hint();
}

/* Busy loops on one CPU never sleep: what they do not run they wait, in each interval. Steal and
 * interrupts are all that may be between. */
static void test_waits(const struct cpu_variant *variant)
{
	uint64_t slept_ns = 0, dur_ns = 0, most_ns = 0, rows = 0;
	bool in_order = true;
	pid_t pids[HOGS];
	struct run run;

	if (!begin(&run, variant->name, &variant->options))
		return;
	for (int i = 0; i < HOGS; i++)
		pids[i] = born(NULL, false, SCHED_OTHER, live_hog);
	for (int i = 0; i < 5; i++) { /* until each has had its first turn */
		usleep(ROUND_US);
		sample(&run);
	}
	for (int round = 0; round < ROUNDS; round++) {
		usleep(ROUND_US);
		sample(&run);
		dur_ns += run.interval.dur_ns;
		for (int i = 0; i < HOGS; i++) {
			const struct record_task *row = row_of(&run, pids[i]);
			uint64_t sum_ns;

			if (!row)
				continue;
			rows++;
			slept_ns += row->sleeping_ns.value;
			sum_ns = row->cpu_ns + row->runnable_ns.value;
			in_order &= row->sleeping_ns.present && row->runnable_ns.present;
			/* What a read-out tells of a task is true for a moment of it. */
			if (sum_ns > run.interval.dur_ns + run.sample_ns + most_ns)
				most_ns = sum_ns - run.interval.dur_ns - run.sample_ns;
		}
	}
	for (int i = 0; i < HOGS; i++)
		end_child(pids[i]);
	tap_ok(in_order && rows == HOGS * ROUNDS,
	       "%s: a task that waits has a row in each interval (%" PRIu64 " of %d)",
	       variant->name, rows, HOGS * ROUNDS);
	tap_ok(most_ns < NSEC_PER_MSEC,
	       "%s: no interval has more time of a task than it is long (%.3f ms)", variant->name,
	       (double)most_ns / 1e6);
	tap_ok(slept_ns < dur_ns * HOGS / 50, "%s: busy loops slept %.2f %% of the time",
	       variant->name, 100.0 * (double)slept_ns / (double)(dur_ns * HOGS));
	end(&run);
}

/* Of a task of lower priority than a busy loop each interval tells its wait, though it never comes
 * to run. */
static void live_twice(struct told *told)
{
	const struct sched_param param = {0};

	burn_ms(1);
	usleep(1000);
	told->ready = 1;
	burn_ms(5); /* it switches in the interval before the one that it only waits in */
	sched_setscheduler(0, SCHED_IDLE, &param);
	burn_ms(10000);
}

static void live_first(struct told *told)
{
	burn_ms(STARVED_MS);
}

static void test_starved(const struct cpu_variant *variant, struct told *told)
{
	uint64_t waited_ns = 0, dur_ns = 0;
	pid_t waiter, hog;
	int rows = 0;
	struct run run;

	*told = (struct told){0};
	if (!begin(&run, variant->name, &variant->options))
		return;
	waiter = born(told, false, SCHED_OTHER, live_twice);
	if (!await_ready(told, waiter)) {
		tap_ok(false, "%s: the task that is to wait begins", variant->name);
		end(&run);
		return;
	}
	usleep(20000);
	hog = born(told, false, SCHED_FIFO, live_first);
	sample(&run);
	for (int i = 0; i < 4; i++) {
		const struct record_task *row;

		usleep(D_ROUND_US);
		sample(&run);
		row = row_of(&run, waiter);
		dur_ns += run.interval.dur_ns;
		rows += row != NULL;
		waited_ns += row ? row->runnable_ns.value + row->cpu_ns : 0;
	}
	tap_ok(rows == 4 && waited_ns > dur_ns - dur_ns / 20 && waited_ns < dur_ns + dur_ns / 20,
	       "%s: a task that does not come to run waits in each interval (%d of 4; %.1f of %.1f "
	       "ms)",
	       variant->name, rows, (double)waited_ns / 1e6, (double)dur_ns / 1e6);
	end_child(hog);
	end_child(waiter);
	end(&run);
}

/* The parent of a vfork is in state D until its child is gone. Then it runs without a switch. */
static void live_in_d(struct told *told)
{
	uint64_t begin_ns;
	pid_t pid;

	told->ready = 1;
	usleep(50000);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	pid = vfork();
	if (!pid) {
		usleep(D_MS * 1000);
		_exit(0);
	}
	told->d_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
	burn_ms(RUN_MS);
}

static void test_in_d(const struct cpu_variant *variant, struct told *told)
{
	uint64_t d_ns = 0, waited_ns = 0, most_ns = 0;
	struct run run;
	int rows = 0;
	pid_t pid;

	*told = (struct told){0};
	if (!begin(&run, variant->name, &variant->options))
		return;
	/* Of real-time priority, so that nothing takes its CPU from it. */
	pid = born(told, true, SCHED_FIFO, live_in_d);
	if (!await_ready(told, pid)) {
		tap_ok(false, "%s: the task that is to be in state D begins", variant->name);
		end(&run);
		return;
	}
	sample(&run);
	for (int i = 0; i < 9; i++) {
		const struct record_task *row;

		usleep(D_ROUND_US);
		sample(&run);
		row = row_of(&run, pid);
		if (!row)
			continue;
		rows++;
		d_ns += row->uninterruptible_ns.value;
		waited_ns += row->runnable_ns.value;
		if (row->uninterruptible_ns.value > run.interval.dur_ns + most_ns)
			most_ns = row->uninterruptible_ns.value - run.interval.dur_ns;
	}
	tap_ok(rows >= 4 && most_ns < NSEC_PER_MSEC,
	       "%s: no interval has more of a wait in state D than it is long (%d rows, %.3f ms)",
	       variant->name, rows, (double)most_ns / 1e6);
	/* It may wait for its CPU once it is woken. */
	tap_ok(told->d_ns && d_ns < told->d_ns + told->d_ns / 50 &&
		       d_ns + waited_ns > told->d_ns - told->d_ns / 50,
	       "%s: what a task runs after state D is no part of it (%.1f and %.1f of %.1f ms)",
	       variant->name, (double)d_ns / 1e6, (double)waited_ns / 1e6,
	       (double)told->d_ns / 1e6);
	end_child(pid);
	end(&run);
}

int main(void)
{
	struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	int fifo_err = refuses_fifo();

	kernel_log_init(false);
	resident_keep();
	for (size_t i = 0; i < CPU_TWINS; i++) {
		if (cpu_twins[i].options.kernel.mode == CPU_MODE_ITER)
			continue; /* it does not tell how a task's time off the CPU splits */
		test_waits(&cpu_twins[i]);
		if (fifo_err) {
			tap_skip("SCHED_FIFO", strerror(fifo_err));
			continue;
		}
		test_starved(&cpu_twins[i], told);
		test_in_d(&cpu_twins[i], told);
	}
	return tap_done();
}
