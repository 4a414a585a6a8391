/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that is not the leader calls execve: it takes over the leader's tid and start time, but
 * keeps its own sums. Nothing of the process may be lost, and nothing counted twice. */
/* Runs beside others (50 s, 17 s of CPU) */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu_machine.h"
#include "cpu_open.h"
#include "hides_init.h"
#include "jankscope/target.h"
#include "source/cpu/cpu.h"
#include "tap.h"
#include "util/clock.h"

#define AFTER_MS 150
/* A chain of execs, each from a new thread while the leader may still run, read out all along: so
 * that a read-out falls into every gap of an exec. */
#define CHAIN_LENGTH 60
#define CHAIN_MS     8
/* The same without a pause between two read-outs, so that some execs end amid one. */
#define DENSE_LENGTH 400
#define DENSE_MS     2
/* On a machine with forty others that want to run the dense one took 12 s. */
#define CHAIN_LIMIT_NS (60 * NSEC_PER_SEC)
/* The truth is what the control group of the process ran, to the nanosecond, and what it ran before
 * it was in the group: between the group's begin and the clock that says so lie microseconds. */
#define SLACK_NS (NSEC_PER_MSEC / 2)
/* Without a group it is the process's clock, which a leader runs on after: 0.04 to 0.2 ms each. */
#define CHAIN_SLACK_NS (NSEC_PER_MSEC / 2)
#define DEATH_NS       (20 * NSEC_PER_MSEC)
#define MAX_ROUNDS     15
/* What a process runs between its exit and its last switch: 33 to 130 us, more on a busy machine.
 */
#define EXIT_TAIL_NS (NSEC_PER_MSEC / 2)

struct single {
	unsigned leader_ms, thread_ms;
	int out; /* where the program after the exec says that it is done */
};

static void burn_ms(unsigned ms)
{
	uint64_t end = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * NSEC_PER_MSEC;

	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void *exec_from_thread(void *arg)
{
	const struct single *plan = arg;
	char out[16];

	burn_ms(plan->thread_ms);
	usleep(300000); /* the leader sleeps by now, and both were read */
	snprintf(out, sizeof(out), "%d", plan->out);
	execl("/proc/self/exe", "test_cpu_exec", "after", out, NULL);
	_exit(1);
}

static int after_exec(int out)
{
	burn_ms(AFTER_MS);
	if (write(out, "", 1) < 0)
		return 1;
	for (;;)
		pause();
}

struct link {
	unsigned left, thread_ms;
	int out;
};

static void *exec_next_link(void *arg)
{
	const struct link *link = arg;
	char left[16], out[16], thread_ms[16];

	burn_ms(link->thread_ms);
	snprintf(thread_ms, sizeof(thread_ms), "%u", link->thread_ms);
	snprintf(left, sizeof(left), "%u", link->left - 1);
	snprintf(out, sizeof(out), "%d", link->out);
	execl("/proc/self/exe", "test_cpu_exec", "chain", left, thread_ms, out, NULL);
	_exit(1);
}

static int run_link(const struct link *link)
{
	pthread_t thread;

	if (link->thread_ms == CHAIN_MS)
		burn_ms(1);
	if (link->left) {
		if (pthread_create(&thread, NULL, exec_next_link, (void *)link))
			return 1;
	} else if (write(link->out, "", 1) < 0) {
		return 1;
	}
	for (;;)
		pause();
}

/* What the child ran before it was in the group. */
struct before {
	struct cpu_group group;
	uint64_t *cpu_ns; /* shared; 0: it is in none */
};

static void join_group(const struct before *before)
{
	uint64_t in_group_ns, clock_ns = 0;

	if (!before->group.ok || !join_cpu_group(&before->group))
		return;
	in_group_ns = joined_ns(&before->group, &clock_ns);
	if (clock_ns > in_group_ns)
		*before->cpu_ns = clock_ns - in_group_ns;
}

static pid_t begin_chain(const void *first, const struct before *before, int out)
{
	struct link link = *(const struct link *)first;
	pid_t child = fork();

	link.out = out;
	if (child)
		return child;
	join_group(before);
	_exit(run_link(&link));
}

static pid_t begin_single(const void *arg, const struct before *before, int out)
{
	struct single plan = *(const struct single *)arg;
	pid_t child = fork();
	pthread_t thread;

	if (child)
		return child;
	join_group(before);
	plan.out = out;
	burn_ms(plan.leader_ms);
	if (pthread_create(&thread, NULL, exec_from_thread, &plan))
		_exit(1);
	for (;;)
		pause();
}

/* Of all its threads, the dead ones too: __exit_signal adds their sums, also a replaced leader's.
 */
static uint64_t process_cpu_ns(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_now_ns(clock);
}

struct outcome {
	bool done; /* the child's last program said so */
	uint64_t truth_ns, measured_ns;
	bool by_group;
	uint64_t deaths_untold; /* of the machine, as the source says */
	uint64_t ahead_ns;      /* of the machine: by how much sums are too high */
	uint64_t births_hidden; /* of the machine: each may make a death untold seem told */
};

static void sample(struct source *source, pid_t pid, unsigned wait_ms, struct outcome *outcome)
{
	struct record_interval interval = {0};

	if (wait_ms)
		usleep(wait_ms * 1000);
	source->ops->sample(source, &interval);
	for (size_t i = 0; i < interval.cpu.task_count; i++) {
		if (interval.cpu.tasks[i].pid != pid)
			continue;
		outcome->measured_ns += interval.cpu.tasks[i].cpu_ns;
	}
	outcome->deaths_untold += counter_list_get(&interval.lost, "cpu_deaths_untold");
	outcome->ahead_ns += counter_list_get(&interval.lost, "cpu_told_ahead_ns");
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
}

struct plan {
	pid_t (*begin)(const void *plan, const struct before *before, int out);
	const void *how;
	unsigned deaths;    /* of leaders */
	unsigned period_ms; /* 0: one read-out behind the other */
	uint64_t slack_ns;  /* of the process's clock */
	char what[100];
};

/* Read out all along, as a run does: before, around and after each exec of the child that `plan`
 * begins, until its last program says that it is done. */
static bool measure(const char *name, const struct cpu_options *options, const struct plan *plan,
		    struct outcome *outcome)
{
	struct source *source = source_for_test(options);
	struct target_set *targets = target_set_new(NULL, 0, "");
	struct init_watch init;
	const struct source_context context = {.targets = targets, .interval_ns = 100000000};
	struct before before = {make_cpu_group(),
				mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
	char byte;
	int ends[2], rounds;
	uint64_t end_ns;
	pid_t child;
	bool open;

	watch_init(&init);
	open = open_for_test(source, &context, &options->kernel, name);
	if (!open || pipe(ends))
		goto cleanup;
	child = plan->begin(plan->how, &before, ends[1]);
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	end_ns = clock_now_ns(CLOCK_MONOTONIC) + CHAIN_LIMIT_NS;
	while (clock_now_ns(CLOCK_MONOTONIC) < end_ns && !outcome->done) {
		outcome->done = read(ends[0], &byte, 1) == 1;
		sample(source, child, plan->period_ms, outcome);
	}
	usleep(100000); /* it sleeps: its sum is final */
	outcome->truth_ns = process_cpu_ns(child);
	if (*before.cpu_ns && read_group_ns(&before.group, &outcome->truth_ns)) {
		outcome->truth_ns += *before.cpu_ns;
		outcome->by_group = true;
	}
	/* --cpu iter hears of a dead leader when RCU frees it. */
	for (rounds = 0;
	     rounds < 3 || (outcome->measured_ns < outcome->truth_ns && rounds < MAX_ROUNDS);
	     rounds++)
		sample(source, child, 100, outcome);
	outcome->deaths_untold += deaths_in_flight(source);
	outcome->births_hidden = hidden_births(&init);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ends[0]);
cleanup:
	remove_cpu_group(&before.group);
	munmap(before.cpu_ns, sizeof(uint64_t));
	unwatch_init(&init);
	source->ops->close(source);
	target_set_free(targets);
	return open;
}

/* A leader whose free the kernel did not show was still told at its exit: what it ran after that is
 * missing, and the source says that a death is. */
static void test_plan(const char *name, const struct cpu_options *options, const struct plan *plan)
{
	struct outcome outcome = {0};
	uint64_t untold, untold_ns, slack_ns;

	if (!measure(name, options, plan, &outcome))
		return;
	untold = outcome.deaths_untold + outcome.births_hidden;
	if (untold > plan->deaths)
		untold = plan->deaths; /* others are of the machine */
	untold_ns = untold * EXIT_TAIL_NS;
	slack_ns = outcome.by_group ? SLACK_NS : plan->slack_ns;
	tap_ok(outcome.done && outcome.measured_ns + untold_ns + SLACK_NS >= outcome.truth_ns &&
		       outcome.measured_ns <= outcome.truth_ns + slack_ns + outcome.ahead_ns,
	       "%s: %s: truth%s %.3f ms, measured %.3f (%lu deaths in flight, %lu "
	       "births not shown)",
	       name, plan->what, outcome.by_group ? "" : " by its clock",
	       (double)outcome.truth_ns / 1e6, (double)outcome.measured_ns / 1e6,
	       (unsigned long)outcome.deaths_untold, (unsigned long)outcome.births_hidden);
}

static void test_exec(const char *name, const struct cpu_options *options, unsigned leader_ms,
		      unsigned thread_ms)
{
	const struct single how = {leader_ms, thread_ms, -1};
	struct plan plan = {begin_single, &how, 1, 100, DEATH_NS, ""};

	snprintf(plan.what, sizeof(plan.what), "leader %u ms, thread %u ms, %u ms after its exec",
		 leader_ms, thread_ms, AFTER_MS);
	test_plan(name, options, &plan);
}

static void test_chain(const char *name, const struct cpu_options *options, unsigned period_ms)
{
	const struct link first = {CHAIN_LENGTH, CHAIN_MS, -1};
	struct plan plan = {
		begin_chain, &first, CHAIN_LENGTH, period_ms, CHAIN_LENGTH * CHAIN_SLACK_NS, ""};

	snprintf(plan.what, sizeof(plan.what), "%u execs from threads, read out each %u ms",
		 CHAIN_LENGTH, period_ms);
	test_plan(name, options, &plan);
}

static void test_dense_chain(const char *name, const struct cpu_options *options)
{
	const struct link first = {DENSE_LENGTH, DENSE_MS, -1};
	struct plan plan = {begin_chain, &first, DENSE_LENGTH, 0, DENSE_LENGTH * CHAIN_SLACK_NS,
			    ""};

	snprintf(plan.what, sizeof(plan.what), "%u execs from threads, read out all the time",
		 DENSE_LENGTH);
	test_plan(name, options, &plan);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		struct cpu_options options;
	} variants[] = {
		{"switch/tp_btf/array", {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}}},
		{"switch/raw_tp/hash",
		 {.kernel = {CPU_MODE_SWITCH, VARIANT_RAW_TP, .test_hash = true}}},
		{"iter/tp_btf", {.kernel = {CPU_MODE_ITER, VARIANT_TP_BTF}}},
	};

	if (argc == 3 && !strcmp(argv[1], "after"))
		return after_exec(atoi(argv[2]));
	if (argc == 5 && !strcmp(argv[1], "chain")) {
		const struct link link = {(unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]),
					  atoi(argv[4])};

		return run_link(&link);
	}
	kernel_log_init(false);
	for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
		test_exec(variants[i].name, &variants[i].options, 300, 100);
		test_exec(variants[i].name, &variants[i].options, 100, 300);
		test_chain(variants[i].name, &variants[i].options, 1);
		test_chain(variants[i].name, &variants[i].options, 100);
		test_dense_chain(variants[i].name, &variants[i].options);
	}
	return tap_done();
}
