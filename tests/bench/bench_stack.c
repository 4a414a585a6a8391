/* SPDX-License-Identifier: BSD-2-Clause */
/* What a stack costs: our side by kind, the target's side by kind, unwinding warm and cold, and the
 * same from eu-stack, gdb and perf. The target sees gaps in its own clock.
 * usage: bench_stack JANKSCOPE [SAMPLES] */
#include <elf.h>
#include <libgen.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "bench.h"
#include "jit_target.h"
#include "prober/jit_list.h"
#include "stack/files_direct.h"
#include "stack/maps.h"

#define NOINLINE __attribute__((noinline, noclone, optimize("omit-frame-pointer")))
#define GAPS     65536
#define GAP_NS   2000 /* shorter ones are the loop itself */

struct board {
	_Atomic uint32_t ready;
	_Atomic uint64_t count;
	struct gap {
		uint64_t from_ns, to_ns;
	} gaps[GAPS];
};

static struct board *board;
static volatile int sink;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* ---- targets ---- */

static NOINLINE int spin_on_clock(void)
{
	uint64_t last = bench_now_ns(CLOCK_MONOTONIC), now;

	atomic_store(&board->ready, 1);
	for (;; last = now) {
		now = bench_now_ns(CLOCK_MONOTONIC);
		if (now - last < GAP_NS)
			continue;
		board->gaps[atomic_load(&board->count) % GAPS] = (struct gap){last, now};
		atomic_fetch_add(&board->count, 1);
	}
	return 0;
}

static NOINLINE int wait_for_ever(void)
{
	int ends[2];
	char byte;

	if (pipe(ends))
		_exit(1);
	atomic_store(&board->ready, 1);
	return read(ends[0], &byte, 1);
}

/* About 4 KiB a frame. */
static NOINLINE int descend(int depth, int (*last)(void))
{
	volatile char local[4000];
	int result;

	for (size_t i = 0; i < sizeof(local); i += 512)
		local[i] = depth;
	result = depth ? descend(depth - 1, last) : last();
	return result + local[depth % sizeof(local)];
}

static pid_t start(int depth, int (*last)(void))
{
	pid_t pid;

	atomic_store(&board->ready, 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(0);
		sink += descend(depth, last);
		_exit(0);
	}
	while (!atomic_load(&board->ready))
		usleep(1000);
	usleep(20000);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Longest gap that overlaps the window, and the sum of those above 10 us. */
static uint64_t longest_gap(uint64_t from_ns, uint64_t to_ns, uint64_t *sum_ns)
{
	uint64_t count = atomic_load(&board->count), longest = 0, sum = 0;

	for (uint64_t i = count > GAPS ? count - GAPS : 0; i < count; i++) {
		const struct gap *gap = &board->gaps[i % GAPS];
		uint64_t ns = gap->to_ns - gap->from_ns;

		if (gap->to_ns < from_ns || gap->from_ns > to_ns)
			continue;
		longest = ns > longest ? ns : longest;
		sum += ns > 10000 ? ns : 0;
	}
	if (sum_ns)
		*sum_ns = sum;
	return longest;
}

/* ---- a stash in memory, as the BPF map is ---- */

struct stash_memory {
	struct looper_registers registers;
};

static int stash_read(void *ctx, pid_t tid, struct looper_registers *out)
{
	*out = ((struct stash_memory *)ctx)->registers;
	return 0;
}

static uint64_t stash_sequence(void *ctx, pid_t tid)
{
	return __atomic_load_n(&((struct stash_memory *)ctx)->registers.sequence, __ATOMIC_ACQUIRE);
}

static void fill_stash(struct stash_memory *stash, pid_t pid)
{
	struct iovec regs = {stash->registers.words, sizeof(stash->registers.words)};

	ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	waitpid(pid, NULL, 0);
	ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &regs);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	stash->registers.tid = stash->registers.tgid = pid;
	stash->registers.sequence = 2;
}

/* ---- rows ---- */

static void row_us(const char *name, double *ns, size_t n, const char *target)
{
	char value[32], spread[48];
	double p90 = bench_quantile(ns, n, 0.9), p99 = bench_quantile(ns, n, 0.99);

	snprintf(value, sizeof(value), "%.1f us", bench_quantile(ns, n, 0.5) / 1000);
	snprintf(spread, sizeof(spread), "p90 %.1f p99 %.1f n %zu", p90 / 1000, p99 / 1000, n);
	bench_row(name, value, spread, target);
}

static const struct {
	enum stack_request request;
	const char *name, *cost_target, *gap_target;
} kinds[] = {
	{STACK_SNAPSHOT, "snapshot", "<= 30 us", "0"},
	{STACK_PERF, "perf", "", ""},
	{STACK_PTRACE, "ptrace", "", "<= 60 us"},
	{STACK_KERNEL, "kernel", "", ""},
};

static void bench_captures(struct stack_capturer *capturer, struct stash_memory *stash,
			   size_t samples, size_t stack_bytes)
{
	struct stack_capture *capture = stack_capture_new(stack_bytes);
	double *cost = calloc(samples, sizeof(*cost)), *gaps = calloc(samples, sizeof(*gaps));
	char name[96];

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		size_t done = 0, bytes = 0;

		/* our side: what the call takes; perf needs a thread that runs */
		bool runs = kinds[kind].request == STACK_PERF;
		pid_t pid = start(180, runs ? spin_on_clock : wait_for_ever);
		struct stack_thread thread = {
			.pid = pid, .tid = pid, .pidfd = syscall(SYS_pidfd_open, pid, 0)};

		if (kinds[kind].request == STACK_SNAPSHOT)
			fill_stash(stash, pid);
		for (size_t i = 0; i < samples; i++) {
			usleep(2000);
			if (stack_capture(capturer, &thread, kinds[kind].request, capture))
				continue;
			cost[done++] = capture->cost_ns;
			bytes = capture->stack_bytes;
		}
		snprintf(name, sizeof(name), "%s: one call, %zu KiB", kinds[kind].name,
			 bytes / 1024);
		if (done)
			row_us(name, cost, done, kinds[kind].cost_target);
		close(thread.pidfd);
		end(pid);
	}
	pid_t spinning = start(180, spin_on_clock);
	int pidfd = syscall(SYS_pidfd_open, spinning, 0);

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		struct stack_thread thread = {.pid = spinning, .tid = spinning, .pidfd = pidfd};
		size_t done = 0;

		if (kinds[kind].request == STACK_SNAPSHOT)
			fill_stash(stash, spinning);
		for (size_t i = 0; i < samples; i++) {
			uint64_t from;

			usleep(2000);
			from = bench_now_ns(CLOCK_MONOTONIC);
			if (stack_capture(capturer, &thread, kinds[kind].request, capture))
				continue;
			gaps[done] = longest_gap(from, bench_now_ns(CLOCK_MONOTONIC), NULL);
			done++;
		}
		snprintf(name, sizeof(name), "%s: gap that the target saw", kinds[kind].name);
		if (done)
			row_us(name, gaps, done, kinds[kind].gap_target);
	}
	for (size_t i = 0; i < samples; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		usleep(100);
		gaps[i] = longest_gap(from, from + 100000, NULL);
	}
	row_us("nothing: gap in 100 us (the machine's own)", gaps, samples, "");
	end(spinning);
	close(pidfd);
	free(cost);
	free(gaps);
	stack_capture_free(capture);
}

static void bench_unwind(struct stack_capturer *capturer, struct stack_unwinder *unwinder,
			 int depth)
{
	struct stack_capture *capture = stack_capture_new(1 << 20);
	pid_t pid = start(depth, wait_for_ever);
	struct stack_thread thread = {.pid = pid, .tid = pid, .pidfd = -1};
	double warm[201], cold[21], names[201];
	struct stack_trace trace;
	char name[96], value[32], spread[48];

	stack_trace_init(&trace);
	if (stack_capture(capturer, &thread, STACK_PTRACE, capture)) {
		printf("  no capture: %s\n", stack_failure_text(capture->failure));
		return;
	}
	for (size_t i = 0; i < 21; i++) {
		struct stack_files files = files_direct("");
		struct stack_unwinder *fresh =
			stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		stack_unwind(fresh, capture, &trace);
		cold[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
		stack_unwinder_free(fresh);
	}
	stack_unwind(unwinder, capture, &trace);
	for (size_t i = 0; i < 201; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		stack_unwind(unwinder, capture, &trace);
		warm[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - from) / trace.count;
	}
	for (size_t i = 0; i < 201; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		free(stack_unwound(unwinder, &trace));
		names[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - from) / trace.count;
	}
	snprintf(name, sizeof(name), "unwind warm, %zu frames", trace.count);
	snprintf(value, sizeof(value), "%.3f us/frame", bench_quantile(warm, 201, 0.5) / 1000);
	snprintf(spread, sizeof(spread), "p90 %.3f, %s", bench_quantile(warm, 201, 0.9) / 1000,
		 trace.complete ? "complete" : stack_end_text(trace.end));
	bench_row(name, value, spread, "<= 0.3 us/frame");
	snprintf(name, sizeof(name), "unwind cold, %zu frames (files opened, indexed)",
		 trace.count);
	row_us(name, cold, 21, "");
	snprintf(name, sizeof(name), "names warm, %zu frames", trace.count);
	snprintf(value, sizeof(value), "%.3f us/frame", bench_quantile(names, 201, 0.5) / 1000);
	bench_row(name, value, "", "");
	end(pid);
	stack_trace_free(&trace);
	stack_capture_free(capture);
}

static void bench_maps(void)
{
	char *text = malloc(5000 * 100);
	double fresh[51], again[51];
	size_t len = 0;

	for (unsigned i = 0; i < 5000; i++)
		len += sprintf(text + len,
			       "%x000-%x000 r-xp 00000000 08:01 %u                  "
			       "/system/lib64/lib%u.so\n",
			       0x700000 + 2 * i, 0x700001 + 2 * i, i + 1, i);
	for (size_t i = 0; i < 51; i++) {
		char *first = malloc(len + 64), *second = malloc(len + 64);
		struct stack_maps *maps, *next;
		uint64_t from;

		memcpy(first, text, len);
		memcpy(second, text, len);
		from = bench_now_ns(CLOCK_MONOTONIC);
		maps = maps_parse(first, len, NULL);
		fresh[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
		from = bench_now_ns(CLOCK_MONOTONIC);
		next = maps_parse(
			second, len + sprintf(second + len, "90000000-90001000 r--p 0 0:0 1 /x\n"),
			maps);
		again[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
		maps_put(maps);
		maps_put(next);
	}
	row_us("maps of 5000 lines: parse", fresh, 51, "");
	row_us("maps of 5000 lines: one line more", again, 51, "");
	free(text);
}

/* Run a tool against the spinning target: what stood still meanwhile. */
/* The list of a runtime's code: 5,000 methods of 64 bytes, each with an ELF file of its own. */
static void bench_jit(const char *program)
{
	struct jit_list_request request = {.symfiles = true};
	struct jit_list list = {0};
	double whole[51], links[51], same[501];
	char *copy = strdup(program), path[512];
	int in[2], out[2];
	pid_t pid;

	snprintf(path, sizeof(path), "%.400s/../apps/jit_app", dirname(copy));
	free(copy);
	if (pipe(in) || pipe(out))
		return;
	pid = fork();
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, "android2", "single", "many", "4997", NULL);
		_exit(127);
	}
	close(out[1]);
	if (pid < 0 || read(out[0], path, 6) != 6)
		goto out;
	request.descriptor = jit_descriptor_of(pid);
	for (size_t i = 0; i < 51; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		jit_list_free(&list);
		request.known = request.since = 0;
		if (jit_list_read_process(pid, &request, &list) != 1 || list.header.count != 5000)
			goto out;
		whole[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
		request.since = list.header.timestamp;
		jit_list_free(&list);
		from = bench_now_ns(CLOCK_MONOTONIC);
		if (jit_list_read_process(pid, &request, &list) != 1)
			goto out;
		links[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
	}
	request.known = list.header.version;
	for (size_t i = 0; i < 501; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		if (jit_list_read_process(pid, &request, &list))
			goto out;
		same[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
	}
	row_us("list of 5000 methods: all of it", whole, 51, "<= 5000 us");
	row_us("list of 5000 methods: changed, known before", links, 51, "<= 5000 us");
	row_us("list of 5000 methods: unchanged", same, 501, "<= 20 us");
out:
	jit_list_free(&list);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	if (pid > 0)
		end(pid);
}

static void bench_tool(const char *name, const char *command, unsigned runs, unsigned events)
{
	pid_t pid = start(20, spin_on_clock);
	double *sums = calloc(runs, sizeof(*sums)), *walls = calloc(runs, sizeof(*walls));
	char line[512], title[96];

	for (unsigned i = 0; i < runs; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC), sum = 0;

		snprintf(line, sizeof(line), command, pid);
		if (system(line)) {
			bench_row(name, "-", "not installed, or failed", "");
			runs = 0;
			break;
		}
		walls[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
		/* all pauses above 10 us while the tool ran, each event's share */
		longest_gap(from, bench_now_ns(CLOCK_MONOTONIC), &sum);
		sums[i] = (double)sum / events;
	}
	if (runs) {
		snprintf(title, sizeof(title), "%s: target stood still%s", name,
			 events > 1 ? " (a sample)" : "");
		row_us(title, sums, runs, "");
		snprintf(title, sizeof(title), "%s: wall time%s", name,
			 events > 1 ? " (a sample)" : "");
		for (unsigned i = 0; i < runs; i++)
			walls[i] /= events;
		row_us(title, walls, runs, "");
	}
	free(sums);
	free(walls);
	end(pid);
}

int main(int argc, char **argv)
{
	size_t samples = argc > 2 ? strtoul(argv[2], NULL, 0) : 300;
	struct stash_memory memory = {0};
	struct stack_stash stash = {stash_read, stash_sequence, &memory};
	struct stack_files files = files_direct("");
	struct stack_unwinder *unwinder;
	struct stack_capturer *capturer;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	capturer = stack_capturer_new(&(struct stack_capture_config){.stash = &stash});
	unwinder = stack_unwinder_new(&(struct stack_unwind_config){.files = &files});
	if (!capturer || !unwinder || board == MAP_FAILED || !samples) {
		perror("bench_stack");
		return 1;
	}
	pin(1);
	/* Whoever else is busy on the machine is not what is measured. */
	setpriority(PRIO_PROCESS, 0, -20);
	setsid();
	FILE *autogroup = fopen("/proc/self/autogroup", "w");
	if (autogroup) {
		fputs("-20", autogroup);
		fclose(autogroup);
	}
	printf("stacks: the target on CPU 0, we on CPU 1, both at nice -20\n");
	bench_captures(capturer, &memory, samples, 64 << 10);
	bench_unwind(capturer, unwinder, 10);
	bench_unwind(capturer, unwinder, 180);
	bench_maps();
	bench_jit(argv[0]);
	bench_tool("eu-stack -p", "eu-stack -p %d >/dev/null 2>&1", 15, 1);
	bench_tool("gdb -batch bt", "gdb -nx -batch -p %d -ex bt >/dev/null 2>&1", 3, 1);
	bench_tool("perf record --call-graph dwarf",
		   "perf record -q -F 50 --call-graph dwarf,16384 -o /dev/null -p %d -- sleep 2 "
		   ">/dev/null 2>&1",
		   1, 100);
	stack_unwinder_free(unwinder);
	stack_capturer_free(capturer);
	return 0;
}
