/* SPDX-License-Identifier: BSD-2-Clause */
/* What it costs to explain a wait: a wake-up for the thread that makes it (not watched, watched,
 * with its stack), and the parts of one link of a chain of locks for the sampler.
 * usage: bench_waits JANKSCOPE [PAIRS] */
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "bench.h"
#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "kernel/task_registers.h"
#include "prober/pool_wire.h"
#include "jankscope/stack.h"

#define WAKES  60
#define SLICES 4
#define READS  400

enum way { WAY_NONE, WAY_OTHERS, WAY_WATCHED, WAY_STACK, WAYS };

struct rig {
	struct sched_kernel *sched;
	struct looper_kernel *kernel; /* NULL: nothing is hooked */
	pid_t pid;
	int pipe[2];
	uint64_t told, with_stack; /* in the slices with stacks */
};

static int on_event(void *ctx, const struct looper_event *event, size_t size)
{
	struct rig *rig = ctx;

	if (event->type != LOOPER_EVENT_WAKER)
		return 0;
	rig->told++;
	rig->with_stack += size >= sizeof(struct looper_waker_stack) &&
			   ((const struct looper_waker_event *)event)->stack_bytes > 0;
	return 0;
}

static bool open_kernel(struct rig *rig)
{
	const struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .loopers = true, .max_watched = 1};
	const struct looper_kernel_options by_switch = {.detector = LOOPER_BY_SWITCH};
	char reason[160] = "";

	rig->sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (rig->sched)
		rig->kernel = looper_kernel_open(rig->sched, &by_switch, reason, sizeof(reason));
	if (rig->kernel)
		return true;
	bench_row("waits", "-", reason, "");
	return false;
}

static void watch(struct rig *rig, enum way way)
{
	struct looper_slot slot = {
		.tid = (uint32_t)rig->pid,
		.tgid = (uint32_t)rig->pid,
		.detector = LOOPER_BY_SWITCH,
		/* half of it is the sleep from which on a stack is taken */
		.block_ns = way == WAY_STACK ? 2 : 3600000000000ull,
		.slot_id = 1,
		.busy_since_ns = bench_now_ns(CLOCK_MONOTONIC),
		.periods = 1,
		.loop_kind = LOOPER_WAIT_EPOLL,
		.loop_fd = 100,
		.loop_waits = 2,
		.waiting_fd = -1,
		.nested_fd = -1,
		.last_nr = -1,
		.syscall_nr = -1,
		.on_cpu = 1,
	};

	slot.in_ns = slot.busy_since_ns;
	if (way == WAY_STACK)
		looper_kernel_want_waker_stacks(rig->kernel);
	looper_kernel_watch(rig->kernel, 0, &slot);
}

/* CPU time of a write that wakes a thread that sleeps on another CPU: the median, because each
 * follows a sleep of this thread. */
static double measure(struct rig *rig)
{
	double took_ns[WAKES] = {0};

	for (int i = 0; i < WAKES; i++) {
		uint64_t begin_ns;

		usleep(300);
		begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (write(rig->pipe[1], "", 1) != 1)
			break;
		took_ns[i] = (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
		/* Its ring is emptied, as in a run. */
		if (rig->kernel && !(i & 3))
			looper_kernel_events(rig->kernel, on_event, rig);
	}
	return bench_quantile(took_ns, WAKES, 0.5);
}

static double slice(void *ctx, size_t way)
{
	struct rig *rig = ctx;
	double cost;

	if (way == WAY_NONE || !open_kernel(rig))
		return measure(rig);
	looper_kernel_hook_wakeups(rig->kernel);
	if (way >= WAY_WATCHED)
		watch(rig, (enum way)way);
	measure(rig);
	cost = measure(rig);
	looper_kernel_unwatch(rig->kernel, 0, rig->pid);
	looper_kernel_close(rig->kernel);
	sched_kernel_close(rig->sched);
	rig->kernel = NULL;
	return cost;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void bench_wakes(size_t pairs)
{
	static struct bench_ways ways = {.count = WAYS, .slices = SLICES};
	static const char *const names[WAYS] = {"write that wakes, nothing hooked",
						"  a thread that is not watched", "  watched",
						"  watched, with the waker's stack"};
	struct rig rig = {0};
	char value[32], spread[64];

	ways.pairs = pairs;
	if (pipe(rig.pipe))
		return;
	rig.pid = fork();
	if (!rig.pid) {
		char byte;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(0);
		close(rig.pipe[1]);
		while (read(rig.pipe[0], &byte, 1) == 1)
			;
		_exit(0);
	}
	pin(sysconf(_SC_NPROCESSORS_ONLN) > 1);
	bench_turns(&ways, slice, &rig);
	for (size_t i = 0; i < WAYS; i++) {
		int base = i ? WAY_NONE : -1;

		snprintf(value, sizeof(value), i ? "%+.0f ns" : "%.0f ns",
			 bench_over(&ways, i, base, 0.5));
		snprintf(spread, sizeof(spread), "[%.0f..%.0f]", bench_over(&ways, i, base, 0),
			 bench_over(&ways, i, base, 1));
		bench_row(names[i], value, spread, "");
	}
	bench_row(
		"  stacks that were taken",
		(snprintf(value, sizeof(value), "%llu", (unsigned long long)rig.with_stack), value),
		(snprintf(spread, sizeof(spread), "of %llu told", (unsigned long long)rig.told),
		 spread),
		"");
	kill(rig.pid, SIGKILL);
	waitpid(rig.pid, NULL, 0);
	close(rig.pipe[0]);
	close(rig.pipe[1]);
}

/* ---- one link of a chain ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t waiter_tid;

static void *wait_for_ever(void *unused)
{
	waiter_tid = (pid_t)syscall(SYS_gettid);
	pthread_mutex_lock(&mutex);
	return unused;
}

static void tell(const char *name, double *values, const char *target)
{
	char value[32], spread[64];

	snprintf(value, sizeof(value), "%.1f us", bench_quantile(values, READS, 0.5) / 1000);
	snprintf(spread, sizeof(spread), "p10 %.1f, p90 %.1f us",
		 bench_quantile(values, READS, 0.1) / 1000,
		 bench_quantile(values, READS, 0.9) / 1000);
	bench_row(name, value, spread, target);
}

/* As sampler_hand.c does it for threads that have no stash. */
static int read_task(void *ctx, pid_t tid, struct looper_registers *out)
{
	struct looper_task task;
	int err = task_registers_read(ctx, tid, &task);

	*out = task.registers;
	out->sequence = task.voluntary << 1 | 1ull << 63;
	return err;
}

static uint64_t task_sequence(void *ctx, pid_t tid)
{
	struct looper_task task;

	return task_registers_read(ctx, tid, &task) ? 0 : task.voluntary << 1 | 1ull << 63;
}

/* What sampler_chain.c does for each link: the owner and the registers are read before and behind
 * the capture, and once more where a circle is looked at. */
static void bench_link(void)
{
	static double owners[READS], registers[READS], captures[READS];
	struct stack_capture *capture = stack_capture_new(256 << 10);
	struct task_registers reader;
	struct looper_task task;
	struct rig rig = {0};
	const struct stack_stash stash = {read_task, task_sequence, &reader};
	struct stack_capturer *capturer = stack_capturer_new(&(struct stack_capture_config){
		.stash = &stash, .no_perf = true, .no_ptrace = true});
	pthread_t thread;

	if (!capture || !capturer || !open_kernel(&rig))
		return;
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, NULL, wait_for_ever, NULL);
	while (!waiter_tid)
		usleep(1000);
	usleep(20000);
	if (task_registers_open(&reader, looper_kernel_fds(rig.kernel).registers,
				looper_kernel_fds(rig.kernel).wanted)) {
		bench_row("chain: registers of a thread", "-", "no task iterator", "");
		return;
	}
	for (int i = 0; i < READS; i++) {
		const struct probe_request request = {
			.operation = PROBE_LOCK_OWNER,
			.pid = getpid(),
			.tid = waiter_tid,
			.address = (uint64_t)(uintptr_t)&mutex,
			.argument = 0x80,
		};
		_Alignas(8) uint8_t data[sizeof(struct probe_owner)];
		const struct stack_thread whose = {getpid(), waiter_tid, -1, 0};
		struct reply reply = {.data = data};
		uint64_t begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);

		if (probe_read_lock_owner(&request, &reply))
			bench_row("chain: owner", "-", "not read", "");
		owners[i] = (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
		begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (task_registers_read(&reader, waiter_tid, &task))
			bench_row("chain: registers", "-", "not read", "");
		registers[i] = (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
		begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (stack_capture(capturer, &whose, STACK_SNAPSHOT, capture))
			bench_row("chain: capture", "-", "not taken", "");
		captures[i] = (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
	}
	tell("chain: who holds a lock (twice a link)", owners, "");
	tell("chain: registers of a thread (3 times)", registers, "");
	tell("chain: its stack, registers included (once)", captures, "");
	stack_capturer_free(capturer);
	stack_capture_free(capture);
	task_registers_close(&reader);
	looper_kernel_close(rig.kernel);
	sched_kernel_close(rig.sched);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 11;

	if (pairs > BENCH_MAX_PAIRS || !pairs)
		pairs = BENCH_MAX_PAIRS;
	printf("waits: CPU time, median of %zu pairs [min..max]\n", pairs);
	fflush(stdout);
	bench_wakes(pairs);
	bench_link();
	return 0;
}
