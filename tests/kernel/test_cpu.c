/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU accounting against the kernel's own schedstat, on a mixed load of our own children: hogs,
 * periodic threads, a thread storm that wraps the pids, forks, FIFO, niced, renamed. Every variant.
 */
/* Runs beside others (23 s) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "core/loop.h"
#include "cpu_load.h"
#include "cpu_machine.h"
#include "cpu_open.h"
#include "hides_init.h"
#include "jankscope/target.h"
#include "source/cpu/cpu.h"
#include "tap.h"
#include "util/clock.h"
#include "util/resident.h"

#define LOAD_SECONDS (tap_is_emulated() ? 1 : 4)
/* --cpu iter: what a task ran at most behind its exit, told when RCU frees it
 * (user/source/cpu/README.md) */
#define AFTER_EXIT_NS 130000

/* Two of these tests may run at a time. */
static uid_t load_uid(void)
{
	static pid_t first;

	if (!first)
		first = getpid();
	return 200000 + (uid_t)first;
}

/* What was measured, per identity, summed over all samples. */
struct sum {
	struct sum_key {
		uint64_t start_boot_ns;
		uint64_t tid;
	} key;
	pid_t pid;
	uint64_t cpu_ns, runnable_ns, voluntary, involuntary;
	char thread[RECORD_COMM_LEN];
	bool exited;
	UT_hash_handle hh;
};

struct measurement {
	struct sum *sums;
	uint64_t busy_ns, idle_ns, capacity_ns, load_ns;
	bool have_idle;
	struct counter_list lost;
	uint64_t bad_intervals; /* whose sums do not close within 1 % */
	uint64_t intervals, in_flight;
};

static void add_sample(struct measurement *m, const struct record_interval *interval,
		       uint64_t dur_ns)
{
	const struct record_cpu *cpu = &interval->cpu;
	uint64_t sum_ns = cpu->other_ns + cpu->overflow_ns, uid_ns = 0;

	for (size_t i = 0; i < cpu->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];
		struct sum_key key = {task->start_boot_ns, (uint64_t)task->tid};
		struct sum *sum;

		sum_ns += task->cpu_ns;
		HASH_FIND(hh, m->sums, &key, sizeof(key), sum);
		if (!sum) {
			sum = calloc(1, sizeof(*sum));
			sum->key = key;
			HASH_ADD(hh, m->sums, key, sizeof(key), sum);
		}
		sum->pid = task->pid;
		sum->cpu_ns += task->cpu_ns;
		sum->runnable_ns += task->runnable_ns.value;
		sum->voluntary += task->switches_voluntary.value;
		sum->involuntary += task->switches_involuntary.value;
		sum->exited |= task->exited;
		memcpy(sum->thread, task->thread, sizeof(sum->thread));
	}
	for (size_t i = 0; i < cpu->uid_count; i++) {
		uid_ns += cpu->uids[i].cpu_ns;
		if (cpu->uids[i].uid == load_uid())
			m->load_ns += cpu->uids[i].cpu_ns;
	}
	m->bad_intervals += sum_ns != cpu->busy_ns || uid_ns != cpu->busy_ns;
	m->busy_ns += cpu->busy_ns;
	m->idle_ns += cpu->idle_ns.value;
	m->have_idle = cpu->idle_ns.present;
	m->capacity_ns += cpu->online_cpus * dur_ns;
	m->intervals++;
	counter_list_merge(&m->lost, &interval->lost);
}

static bool read_schedstat(pid_t pid, pid_t tid, unsigned long long *cpu_ns,
			   unsigned long long *runnable_ns)
{
	char path[64];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	ok = fscanf(file, "%llu %llu", cpu_ns, runnable_ns) == 2;
	fclose(file);
	return ok;
}

static bool read_switches(pid_t pid, pid_t tid, unsigned long long *voluntary,
			  unsigned long long *involuntary)
{
	char path[64], line[256];
	FILE *file;
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "voluntary_ctxt_switches: %llu", voluntary) == 1;
		found += sscanf(line, "nonvoluntary_ctxt_switches: %llu", involuntary) == 1;
	}
	fclose(file);
	return found == 2;
}

static void check_tasks(const char *variant, struct measurement *m, const pid_t *children,
			uint64_t steal_ns)
{
	unsigned checked = 0, wrong_cpu = 0, wrong_wait = 0, wrong_switches = 0;
	uint64_t ahead_ns = 0;
	struct sum *sum, *next;

	HASH_ITER (hh, m->sums, sum, next) {
		unsigned long long cpu_ns, runnable_ns, voluntary, involuntary;
		bool ours = false;

		for (size_t i = 0; i < ROLES; i++)
			ours |= sum->pid == children[i];
		if (!ours || sum->exited ||
		    !read_schedstat(sum->pid, (pid_t)sum->key.tid, &cpu_ns, &runnable_ns) ||
		    !read_switches(sum->pid, (pid_t)sum->key.tid, &voluntary, &involuntary))
			continue;
		checked++;
		if (cpu_ns != sum->cpu_ns) {
			/* A running slice is read ahead of the last tick. What is not counted as
			 * task time, steal and interrupts (IRQ_TIME_ACCOUNTING: GKI), is in it
			 * since that tick, for good if the task never runs again: microseconds
			 * on a device, milliseconds on an emulator. */
			if (sum->cpu_ns > cpu_ns)
				ahead_ns += sum->cpu_ns - cpu_ns;
			else
				wrong_cpu++;
			tap_note("%s: tid %d (%s): schedstat %llu ns, measured %llu ns", variant,
				 (int)sum->key.tid, sum->thread, cpu_ns,
				 (unsigned long long)sum->cpu_ns);
		}
		wrong_wait += runnable_ns != sum->runnable_ns;
		wrong_switches += voluntary != sum->voluntary || involuntary != sum->involuntary;
	}
	/* 7 processes, one more hog, 20 periodic threads. */
	tap_ok(checked >= ROLES + 1 + 20, "%s: all %u sleeping tasks of the load were measured",
	       variant, checked);
	/* Steal is told in whole ticks. */
	if (!tap_is_emulated() && ahead_ns > (steal_ns ? steal_ns + 10 * NSEC_PER_MSEC : 0))
		wrong_cpu++;
	tap_ok(!wrong_cpu, "%s: CPU time equals schedstat to the nanosecond", variant);
	tap_ok(!wrong_wait, "%s: run-queue wait equals schedstat to the nanosecond", variant);
	tap_ok(!wrong_switches, "%s: switches equal /proc status", variant);
}

/* The children of the forking child burn 300 us each and have its name. */
static bool is_dead_child(const struct sum *sum)
{
	return sum->exited && (uint64_t)sum->pid == sum->key.tid && sum->pid > 1 &&
	       sum->cpu_ns > 250000 && !strncmp(sum->thread, "forked", 6);
}

static uint64_t untold_ns(uint64_t told_ns, uint64_t told, uint64_t all)
{
	return told && all > told ? told_ns / told * (all - told) : 0;
}

/* The time of those of whose death the source knows that it was not told: as much as the others had
 * on average. */
static uint64_t check_dead(const char *variant, struct measurement *m, const pid_t *children)
{
	uint64_t storm_ns = 0, storm_threads = 0, fork_ns = 0, forks = 0;
	uint64_t storm_truth_ns = atomic_load(&truth->storm_cpu_ns);
	uint64_t fork_truth_ns = atomic_load(&truth->fork_cpu_ns);
	uint64_t untold = m->in_flight + counter_list_get(&m->lost, "cpu_deaths_untold");
	struct sum *sum, *next;
	bool odd_name = false;

	HASH_ITER (hh, m->sums, sum, next) {
		if (sum->pid == children[ROLE_STORM] &&
		    sum->key.tid != (uint64_t)children[ROLE_STORM]) {
			storm_ns += sum->cpu_ns;
			storm_threads += sum->exited;
		}
		if (is_dead_child(sum)) {
			fork_ns += sum->cpu_ns;
			forks++;
		}
		if (sum->key.tid == atomic_load(&truth->renamed_tid))
			odd_name |= !strcmp(sum->thread, ODD_NAME);
	}
	tap_note("%s: %lu threads of %d us, truth %.1f ms, measured %.1f ms (%.2f %%)", variant,
		 (unsigned long)atomic_load(&truth->storm_threads), STORM_CPU_US,
		 (double)storm_truth_ns / 1e6, (double)storm_ns / 1e6,
		 100 * (double)storm_ns / (double)storm_truth_ns);
	/* --cpu iter: whom RCU has not freed yet is said at the end of the run, and whose end the
	 * kernel did not show is counted as lost. Their time is in neither sum. */
	if (untold && forks < atomic_load(&truth->forks))
		fork_truth_ns = fork_truth_ns / atomic_load(&truth->forks) * forks;
	tap_ok(storm_threads + forks + untold >=
		       atomic_load(&truth->storm_threads) + atomic_load(&truth->forks),
	       "%s: each dead thread and child was seen: %lu of %lu, %lu of %lu, in flight %lu",
	       variant, (unsigned long)storm_threads,
	       (unsigned long)atomic_load(&truth->storm_threads), (unsigned long)forks,
	       (unsigned long)atomic_load(&truth->forks), (unsigned long)untold);
	/* Above 100 %: the exit after the thread's own last clock read is real CPU time. */
	tap_ok((double)storm_ns >= 0.98 * (double)storm_truth_ns,
	       "%s: at least 98 %% of the dead threads' time", variant);
	/* wait4 reports whole microseconds, and loses the tail of children reaped early. What ran
	 * behind their exit may be on its way, and is said to be. */
	tap_ok((double)(fork_ns + m->in_flight * AFTER_EXIT_NS) >= 0.98 * (double)fork_truth_ns,
	       "%s: the dead children's time is theirs (%.1f of %.1f ms)", variant,
	       (double)fork_ns / 1e6, (double)fork_truth_ns / 1e6);
	tap_ok(odd_name, "%s: a thread renamed to \"%s\" has that name", variant, ODD_NAME);
	return untold_ns(storm_ns, storm_threads, atomic_load(&truth->storm_threads)) +
	       untold_ns(fork_ns, forks, atomic_load(&truth->forks));
}

/* All real uids are one of this test's own; root's rights stay. */
static void start_children(pid_t *children, const struct cpu_group *group)
{
	memset(truth, 0, sizeof(*truth));
	for (size_t i = 0; i < ROLES; i++) {
		children[i] = fork();
		if (!children[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			prctl(PR_SET_NAME, i == ROLE_FORKS ? "forked" : "load");
			if ((group->ok && !join_cpu_group(group)) || setresuid(load_uid(), 0, 0))
				_exit(1);
			roles[i]();
			_exit(0);
		}
	}
}

static void end_children(pid_t *children)
{
	for (size_t i = 0; i < ROLES; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

static void sample(struct source *source, struct measurement *m, uint64_t *last_ns)
{
	struct record_interval interval = {0};
	uint64_t now_ns;

	if (source->ops->sample(source, &interval))
		m->bad_intervals++;
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	add_sample(m, &interval, interval.dur_ns ? interval.dur_ns : now_ns - *last_ns);
	*last_ns = now_ns;
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
}

static void free_measurement(struct measurement *m)
{
	struct sum *sum, *next;

	HASH_ITER (hh, m->sums, sum, next) {
		HASH_DEL(m->sums, sum);
		free(sum);
	}
	counter_list_free(&m->lost);
}

/* A second switch program, which nobody measures: what it sees of idle and of time that is charged
 * to nobody is the truth that the source is held against. */
static struct sched_kernel *open_truth(void)
{
	const struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH};
	char reason[160];

	return sched_kernel_open(&options, reason, sizeof(reason));
}

struct machine {
	uint64_t idle_ns, uncharged_ns;
	uint64_t told_idle_ns; /* by /proc/stat: without the interrupts that came to an idle CPU */
};

static uint64_t read_told_idle_ns(void)
{
	FILE *file = fopen("/proc/stat", "re");
	uint64_t idle = 0, wait = 0;

	if (!file || fscanf(file, "cpu %*u %*u %*u %" SCNu64 " %" SCNu64, &idle, &wait) != 2)
		idle = wait = 0;
	if (file)
		fclose(file);
	return (idle + wait) * (NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

static struct machine read_machine(struct sched_kernel *kernel)
{
	struct machine machine = {0};
	struct sched_cpu cpu;
	uint64_t mono_ns;

	if (!kernel || sched_kernel_begin_read(kernel, &mono_ns))
		return machine;
	for (unsigned i = 0; i < sched_kernel_cpu_count(kernel); i++) {
		sched_kernel_cpu(kernel, i, &cpu);
		machine.idle_ns += cpu.idle_ns;
		machine.uncharged_ns += cpu.uncharged_ns;
	}
	machine.told_idle_ns = read_told_idle_ns();
	return machine;
}

static int stop_loop(void *loop, uint32_t periods)
{
	loop_stop(loop);
	return 0;
}

/* As in a session: the ring of deaths is emptied when it is half full. */
static void run_loop(struct loop *loop, unsigned ms)
{
	int timer = loop_add_timer(loop, ms * NSEC_PER_MSEC, 0, stop_loop, loop);

	loop_run(loop);
	loop_remove_timer(loop, timer);
}

static bool all_deaths_told(struct measurement *m, const pid_t *children)
{
	unsigned long threads = 0, forks = 0;

	for (struct sum *sum = m->sums; sum; sum = sum->hh.next) {
		threads += sum->exited && sum->pid == children[ROLE_STORM];
		forks += is_dead_child(sum);
	}
	return threads >= atomic_load(&truth->storm_threads) && forks >= atomic_load(&truth->forks);
}

/* The load's uid against a sum that is not ours. What a child ran before it had its uid, and
 * what dead tasks ran that the kernel has not freed yet, may be missing. */
static void check_busy(const char *name, const struct measurement *m, const struct cpu_group *group,
		       uint64_t dead_ns)
{
	uint64_t group_ns = 0, slack_ns;

	if (!group->ok || !read_group_ns(group, &group_ns)) {
		tap_skip(name, "no control group cpuacct in this kernel");
		return;
	}
	slack_ns = tap_is_emulated() ? group_ns / 50 : group_ns / 1000 + NSEC_PER_MSEC;
	tap_ok(m->load_ns < group_ns + slack_ns && m->load_ns + dead_ns + slack_ns > group_ns,
	       "%s: the load's uid has %.3f ms, its control group %.3f", name,
	       (double)m->load_ns / 1e6, (double)group_ns / 1e6);
}

/* True, and nothing was judged: once more. Between two looks this reader was kept away for so long
 * that the ring of deaths ran full, and says so (up to 20 s were seen where the machine takes file
 * pages away): how much such a reader misses is test_cpu_losses' question. */
static bool test_variant(const char *name, const struct cpu_options *options, bool last)
{
	struct source *source = source_for_test(options);
	struct target_set *targets = target_set_new(NULL, 0, "");
	struct loop *loop = loop_new();
	const struct source_context context = {
		.loop = loop, .targets = targets, .interval_ns = 200000000};
	struct measurement m = {0};
	pid_t children[ROLES];
	uint64_t last_ns, begin_ns;
	uint64_t steal_ns, dead_ns, idle_ns, told_ns, low_ns, lost = 0;
	struct sched_kernel *truth_kernel = open_truth();
	struct machine before, after;
	struct cpu_group group = make_cpu_group();
	struct starved starved;
	struct init_watch init;
	bool again = false;

	watch_init(&init);
	if (!open_for_test(source, &context, &options->kernel, name))
		goto cleanup;
	before = read_machine(truth_kernel);
	last_ns = begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	starved = begin_to_look();
	start_children(children, &group);
	while (clock_now_ns(CLOCK_MONOTONIC) < begin_ns + LOAD_SECONDS * NSEC_PER_SEC) {
		run_loop(loop, 200);
		sample(source, &m, &last_ns);
		look_whether_starved(&starved, 200 * NSEC_PER_MSEC);
	}
	atomic_store(&truth->stop, true);
	while (atomic_load(&truth->parked) < (int)ROLES) {
		run_loop(loop, 10);
		look_whether_starved(&starved, 10 * NSEC_PER_MSEC);
	}
	/* --cpu iter sees the dead when RCU frees them: some 12 ms after their end, up to seconds
	 * for the last ones of a CPU that went idle, or on a machine that is busy. */
	for (int i = 0;
	     i < 3 || (i < 50 && (!all_deaths_told(&m, children) || deaths_in_flight(source)));
	     i++) {
		run_loop(loop, 200);
		sample(source, &m, &last_ns);
	}
	again = !last && starved.longest_ns > NSEC_PER_SEC / 2 &&
		counter_list_get(&m.lost, "cpu_death_ring_full");
	if (again) {
		tap_note("%s: the reader was kept away for %lu ms: once more", name,
			 (unsigned long)(starved.longest_ns / NSEC_PER_MSEC));
		end_children(children);
		goto cleanup;
	}
	after = read_machine(truth_kernel);
	idle_ns = after.idle_ns - before.idle_ns;
	told_ns = after.told_idle_ns - before.told_idle_ns;
	steal_ns = after.uncharged_ns - before.uncharged_ns;
	/* For each birth that was not shown a death that was not shown seems to be told. */
	m.in_flight = deaths_in_flight(source) + hidden_births(&init);
	check_tasks(name, &m, children, steal_ns);
	dead_ns = check_dead(name, &m, children) + m.in_flight * AFTER_EXIT_NS;
	tap_ok(!m.bad_intervals, "%s: tasks + other + overflow = busy = sum of uids in each of %lu",
	       name, (unsigned long)m.intervals);
	check_busy(name, &m, &group, dead_ns);
	end_children(children);
	/* Not less is asked: between two tasks the scheduler looks for work on other CPUs (newidle
	 * balancing), which on a busy machine takes per cents and is charged to nobody. */
	tap_note("%s: tasks + idle are %.3f %% of CPUs x time, taken by the host and interrupts "
		 "%.3f %%",
		 name, 100 * (double)(m.busy_ns + m.idle_ns) / (double)m.capacity_ns,
		 100 * (double)steal_ns / (double)m.capacity_ns);
	tap_ok(m.have_idle && m.busy_ns + m.idle_ns < m.capacity_ns / 100 * 101,
	       "%s: tasks + idle are not more than CPUs x time, untold %.3f %%", name,
	       100 * (double)dead_ns / (double)m.capacity_ns);
	/* Where the kernel's own idle sum is read, interrupts that come to an idle CPU are no part
	 * of it: beside a storm of packets they are several per cents. */
	low_ns = idle_ns;
	if (options->kernel.mode == CPU_MODE_ITER && told_ns < low_ns)
		low_ns = told_ns;
	tap_ok(tap_is_emulated() || (m.idle_ns < idle_ns + m.capacity_ns / 200 &&
				     m.idle_ns + m.capacity_ns / 200 > low_ns),
	       "%s: idle %.2f ms, another program's count %.2f, /proc/stat %.2f", name,
	       (double)m.idle_ns / 1e6, (double)idle_ns / 1e6, (double)told_ns / 1e6);
	for (size_t i = 0; i < m.lost.count; i++)
		tap_note("%s: %s = %lu", name, m.lost.items[i].name,
			 (unsigned long)m.lost.items[i].value);
	/* Late, not lost: what was not shown, was being written, or waits long for RCU comes with
	 * the next sums. And whom no seed told of is older than the attach, so none of ours: it was
	 * preempted amid its exit, after its tid was taken from it. */
	for (size_t i = 0; i < m.lost.count; i++)
		lost += m.lost.items[i].value;
	tap_ok(lost == counter_list_get(&m.lost, "cpu_missed_switches") +
			       counter_list_get(&m.lost, "cpu_torn_reads") +
			       counter_list_get(&m.lost, "cpu_told_ahead_ns") +
			       counter_list_get(&m.lost, "cpu_missed_seeds") +
			       counter_list_get(&m.lost, "cpu_deaths_untold"),
	       "%s: nothing of ours was lost", name);
cleanup:
	unwatch_init(&init);
	sched_kernel_close(truth_kernel);
	remove_cpu_group(&group);
	source->ops->close(source);
	loop_free(loop);
	target_set_free(targets);
	free_measurement(&m);
	return again;
}

int main(void)
{
	static const struct {
		const char *name;
		struct cpu_options options;
	} variants[] = {
		{"switch/tp_btf/array", {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}}},
		{"switch/raw_tp/array", {.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP}}},
		{"switch/tp_btf/hash",
		 {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF, .test_hash = true}}},
		{"switch/raw_tp/hash",
		 {.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP, .test_hash = true}}},
		{"iter/tp_btf", {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}}},
	};

	truth = mmap(NULL, sizeof(*truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	(void)load_uid();
	for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
		/* A guest has seconds: one of each program and each map. */
		if (tap_is_emulated() && (i == 1 || i == 2))
			continue;
		for (int round = 1;
		     test_variant(variants[i].name, &variants[i].options, round == 3); round++)
			;
	}
	return tap_done();
}
