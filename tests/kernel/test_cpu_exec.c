/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that is not the leader calls execve: it takes over the leader's tid and start time, but
 * keeps its own sums. Nothing of the process may be lost, and nothing counted twice. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jankscope/target.h"
#include "source/cpu.h"
#include "tap.h"
#include "util/clock.h"

#define AFTER_MS 150
/* A chain of execs, each from a new thread while the leader may still run, read out all along: so
 * that a read-out falls into every gap of an exec. What a leader runs on after the kernel took its
 * sum is, over the whole chain, less than one link. */
#define CHAIN_LENGTH   60
#define CHAIN_MS       8
#define CHAIN_SLACK_NS (NSEC_PER_MSEC / 10)
/* What the leader's death may cost after the truth was read: far below what any of them burns. */
#define DEATH_NS   (20 * NSEC_PER_MSEC)
#define MAX_ROUNDS 15

struct plan {
	unsigned leader_ms, thread_ms;
	int out; /* where the program after the exec tells the leader's CPU time */
};

static void burn_ms(unsigned ms)
{
	uint64_t end = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * NSEC_PER_MSEC;

	while (clock_now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static uint64_t schedstat_ns(pid_t pid, pid_t tid)
{
	unsigned long long cpu_ns = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%llu", &cpu_ns) != 1)
		cpu_ns = 0;
	if (file)
		fclose(file);
	return cpu_ns;
}

static void *exec_from_thread(void *arg)
{
	const struct plan *plan = arg;
	char leader[32], out[16];

	burn_ms(plan->thread_ms);
	usleep(300000); /* the leader sleeps by now, and both were read */
	snprintf(leader, sizeof(leader), "%llu",
		 (unsigned long long)schedstat_ns(getpid(), getpid()));
	snprintf(out, sizeof(out), "%d", plan->out);
	execl("/proc/self/exe", "test_cpu_exec", "after", leader, out, NULL);
	_exit(1);
}

static int after_exec(const char *leader, int out)
{
	burn_ms(AFTER_MS);
	if (write(out, leader, strlen(leader) + 1) < 0)
		return 1;
	for (;;)
		pause();
}

struct link {
	unsigned left;
	uint64_t leaders_ns; /* of all before */
	int out;
};

static void *exec_next_link(void *arg)
{
	const struct link *link = arg;
	char left[16], sum[32], out[16];

	burn_ms(CHAIN_MS);
	snprintf(left, sizeof(left), "%u", link->left - 1);
	snprintf(sum, sizeof(sum), "%llu",
		 (unsigned long long)(link->leaders_ns + schedstat_ns(getpid(), getpid())));
	snprintf(out, sizeof(out), "%d", link->out);
	execl("/proc/self/exe", "test_cpu_exec", "chain", left, sum, out, NULL);
	_exit(1);
}

static int run_link(const struct link *link)
{
	char sum[32];
	pthread_t thread;

	burn_ms(1);
	if (link->left) {
		if (pthread_create(&thread, NULL, exec_next_link, (void *)link))
			return 1;
	} else {
		snprintf(sum, sizeof(sum), "%llu", (unsigned long long)link->leaders_ns);
		if (write(link->out, sum, strlen(sum) + 1) < 0)
			return 1;
	}
	for (;;)
		pause();
}

static pid_t begin_chain(const void *first, int out)
{
	struct link link = *(const struct link *)first;
	pid_t child = fork();

	link.out = out;
	if (!child)
		_exit(run_link(&link));
	return child;
}

static pid_t begin_plan(const void *arg, int out)
{
	struct plan plan = *(const struct plan *)arg;
	pid_t child = fork();
	pthread_t thread;

	if (child)
		return child;
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

static uint64_t sample(struct source *source, pid_t pid, unsigned wait_ms)
{
	struct record_interval interval = {0};
	uint64_t cpu_ns = 0;

	usleep(wait_ms * 1000);
	source->ops->sample(source, &interval);
	for (size_t i = 0; i < interval.cpu.task_count; i++)
		if (interval.cpu.tasks[i].pid == pid)
			cpu_ns += interval.cpu.tasks[i].cpu_ns;
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	return cpu_ns;
}

struct outcome {
	bool told; /* the child's last program has told its leaders' sum */
	uint64_t truth_ns, measured_ns;
};

/* Read out all along, as a run does: before, around and after each exec of the child that `begin`
 * makes, until its last program tells the CPU time of all leaders before it. */
static bool measure(const struct cpu_options *options, unsigned period_ms,
		    pid_t (*begin)(const void *plan, int out), const void *plan,
		    struct outcome *outcome, char *reason, size_t size)
{
	struct source *source = cpu_source_new(options);
	struct target_set *targets = target_set_new(NULL, 0, "");
	const struct source_context context = {.targets = targets, .interval_ns = 100000000};
	uint64_t measured_ns = 0;
	char leaders[32] = "";
	bool open = !source->ops->open(source, &context);
	int ends[2], rounds;
	pid_t child;

	snprintf(reason, size, "%s", source->reason);
	if (!open || pipe(ends))
		goto cleanup;
	child = begin(plan, ends[1]);
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	for (rounds = 0;
	     rounds < 10000 / (int)period_ms && read(ends[0], leaders, sizeof(leaders) - 1) <= 0;
	     rounds++)
		measured_ns += sample(source, child, period_ms);
	usleep(100000); /* it sleeps: its sum is final */
	outcome->told = leaders[0];
	outcome->truth_ns = process_cpu_ns(child);
	/* --cpu iter hears of a dead leader when RCU frees it. */
	for (rounds = 0; rounds < 3 || (measured_ns < outcome->truth_ns && rounds < MAX_ROUNDS);
	     rounds++)
		measured_ns += sample(source, child, 100);
	outcome->measured_ns = measured_ns;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ends[0]);
cleanup:
	source->ops->close(source);
	target_set_free(targets);
	return open;
}

static void judge(const char *name, const char *what, const struct outcome *outcome,
		  uint64_t slack_ns)
{
	tap_ok(outcome->told && outcome->measured_ns >= outcome->truth_ns &&
		       outcome->measured_ns <= outcome->truth_ns + slack_ns,
	       "%s: %s: truth %.3f ms, measured %.3f", name, what, (double)outcome->truth_ns / 1e6,
	       (double)outcome->measured_ns / 1e6);
}

static void test_exec(const char *name, const struct cpu_options *options, unsigned leader_ms,
		      unsigned thread_ms)
{
	const struct plan plan = {leader_ms, thread_ms, -1};
	struct outcome outcome = {0};
	char what[160];

	if (!measure(options, 100, begin_plan, &plan, &outcome, what, sizeof(what))) {
		tap_skip(name, what);
		return;
	}
	snprintf(what, sizeof(what), "leader %u ms, thread %u ms, %u ms after its exec", leader_ms,
		 thread_ms, AFTER_MS);
	judge(name, what, &outcome, DEATH_NS);
}

static void test_chain(const char *name, const struct cpu_options *options)
{
	const struct link first = {CHAIN_LENGTH, 0, -1};
	struct outcome outcome = {0};
	char what[160];

	if (!measure(options, 1, begin_chain, &first, &outcome, what, sizeof(what))) {
		tap_skip(name, what);
		return;
	}
	snprintf(what, sizeof(what), "%u execs from threads", CHAIN_LENGTH);
	judge(name, what, &outcome, CHAIN_LENGTH * CHAIN_SLACK_NS);
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

	if (argc == 4 && !strcmp(argv[1], "after"))
		return after_exec(argv[2], atoi(argv[3]));
	if (argc == 5 && !strcmp(argv[1], "chain")) {
		const struct link link = {(unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10),
					  atoi(argv[4])};

		return run_link(&link);
	}
	kernel_log_init(false);
	for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); i++) {
		test_exec(variants[i].name, &variants[i].options, 300, 100);
		test_exec(variants[i].name, &variants[i].options, 100, 300);
		/* The iterator may meet the task between its exec and word of it (README). */
		if (variants[i].options.kernel.mode == CPU_MODE_SWITCH)
			test_chain(variants[i].name, &variants[i].options);
	}
	return tap_done();
}
