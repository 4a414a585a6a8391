/* SPDX-License-Identifier: BSD-2-Clause */
/* What CPU accounting costs: the ping-pong of two processes on one CPU with and without each tool,
 * the read-out, memory, and an idle interval. (bench_switch.c has the cost of the program alone.)
 * usage: bench_cpu JANKSCOPE [PAIRS] */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>

#include "jankscope/target.h"
#include "kernel/sched_kernel.h"
#include "pingpong.h"
#include "source/cpu/cpu.h"

#define ROUND_TRIPS 25000

static void pair_row(const char *name, double *ratios, double *extra_ns, size_t pairs,
		     const char *target)
{
	char value[32], spread[64];
	double median = bench_quantile(ratios, pairs, 0.5);

	snprintf(value, sizeof(value), "%.3f", median);
	snprintf(spread, sizeof(spread), "[%.3f..%.3f] %+.0f ns",
		 bench_quantile(ratios, pairs, 0.25), bench_quantile(ratios, pairs, 0.75),
		 bench_quantile(extra_ns, pairs, 0.5));
	bench_row(name, value, spread, target);
}

static void bench_tool(struct pingpong *game, const char *name, char *const argv[], size_t pairs,
		       const char *target)
{
	double ratios[BENCH_MAX_PAIRS], extra_ns[BENCH_MAX_PAIRS];

	for (size_t i = 0; i < pairs; i++) {
		double without, with;
		pid_t pid;

		if (i & 1)
			without = pingpong_slice(game, ROUND_TRIPS);
		pid = bench_start(argv, 1500);
		if (pid < 0) {
			bench_row(name, "-", "not installed or refused", target);
			return;
		}
		with = pingpong_slice(game, ROUND_TRIPS);
		bench_stop(pid);
		/* perf's static key stays on for a second after its last close. */
		usleep(1200000);
		if (!(i & 1))
			without = pingpong_slice(game, ROUND_TRIPS);
		ratios[i] = with / without;
		extra_ns[i] = with - without;
	}
	pair_row(name, ratios, extra_ns, pairs, target);
}

/* ---- read-out ---- */

static void *sleeper(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

static size_t start_sleepers(pid_t *children, size_t processes, size_t threads)
{
	pthread_attr_t attributes;

	for (size_t i = 0; i < processes; i++) {
		children[i] = fork();
		if (children[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, 16384);
		for (size_t t = 1; t < threads; t++) {
			pthread_t thread;

			if (pthread_create(&thread, &attributes, sleeper, NULL))
				break;
		}
		sleeper(NULL);
	}
	sleep(3);
	return processes * threads;
}

static bool skip_all(void *ctx, pid_t tid, const struct task_slot *slot)
{
	++*(size_t *)ctx;
	return true;
}

static int ignore_slot(void *ctx, pid_t tid, const struct task_slot *slot)
{
	return 0;
}

static void bench_read_out(enum cpu_mode mode)
{
	const struct cpu_options options = {.kernel = {.mode = mode}};
	struct source *source = cpu_source_new(&options);
	struct target_set *targets = target_set_new(NULL, 0, "");
	const struct source_context context = {.targets = targets, .interval_ns = 1000000000};
	pid_t children[20];
	double scan_ms[50], sample_ms[50];
	char value[32], spread[64];
	size_t seen = 0;

	if (source->ops->open(source, &context)) {
		bench_row("read-out of 10,000 tasks", "-", source->reason, "<= 0.2 ms");
		return;
	}
	start_sleepers(children, 20, 500);
	for (int i = 0; i < 50; i++) {
		struct record_interval interval = {0};
		uint64_t begin_ns, mono_ns;

		usleep(20000);
		begin_ns = bench_now_ns(CLOCK_MONOTONIC);
		source->ops->sample(source, &interval);
		sample_ms[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin_ns) / 1e6;
		counter_list_free(&interval.lost);
		missing_list_free(&interval.missing);
		seen = 0;
		begin_ns = bench_now_ns(CLOCK_MONOTONIC);
		sched_kernel_begin_read(cpu_source_kernel(source), &mono_ns);
		sched_kernel_slots(cpu_source_kernel(source), skip_all, ignore_slot, &seen);
		scan_ms[i] = (double)(bench_now_ns(CLOCK_MONOTONIC) - begin_ns) / 1e6;
	}
	for (int i = 0; i < 20; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	snprintf(value, sizeof(value), "%.3f ms", bench_quantile(scan_ms, 50, 0.5));
	snprintf(spread, sizeof(spread), "[%.3f..%.3f] %zu tasks",
		 bench_quantile(scan_ms, 50, 0.25), bench_quantile(scan_ms, 50, 0.75), seen);
	if (mode == CPU_MODE_SWITCH)
		bench_row("read-out of 10,000 tasks: the maps", value, spread, "<= 0.2 ms");
	snprintf(value, sizeof(value), "%.3f ms", bench_quantile(sample_ms, 50, 0.5));
	snprintf(spread, sizeof(spread), "[%.3f..%.3f]", bench_quantile(sample_ms, 50, 0.25),
		 bench_quantile(sample_ms, 50, 0.75));
	bench_row(mode == CPU_MODE_SWITCH
			  ? "  and all of the sample: deltas, rows, names"
			  : "read-out of 10,000 tasks, --cpu iter: all of the sample",
		  value, spread, "");
	source->ops->close(source);
	target_set_free(targets);
}

/* ---- the tool at rest ---- */

static long read_status_kib(pid_t pid, const char *key)
{
	char path[64], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			value = atol(line + strlen(key));
	if (file)
		fclose(file);
	return value;
}

static void bench_rest(char *jankscope, const char *mode)
{
	char path[] = "/tmp/jankscope-bench-XXXXXX", name[64], value[32], spread[64], line[65536];
	int fd = mkstemp(path);
	char *argv[] = {jankscope, "record",     "--overwrite", "-q", "-i", "1s",
			"--cpu",   (char *)mode, "-o",          path, NULL};
	pid_t pid = bench_start(argv, 3000);
	double cpu_ns = 0, dur_ns = 0;
	FILE *file;

	if (pid < 0)
		return;
	snprintf(name, sizeof(name), "resident set 3 s after start, --cpu %s", mode);
	snprintf(value, sizeof(value), "%.1f MiB", (double)read_status_kib(pid, "VmRSS:") / 1024);
	snprintf(spread, sizeof(spread), "anonymous %.1f MiB",
		 (double)read_status_kib(pid, "RssAnon:") / 1024);
	bench_row(name, value, spread, "<= 16 MiB");
	sleep(12);
	bench_stop(pid);
	file = fdopen(fd, "r");
	while (file && fgets(line, sizeof(line), file)) {
		json_t *record = json_loads(line, 0, NULL);
		json_t *self = json_object_get(record, "self");

		if (self) {
			cpu_ns += json_number_value(json_object_get(self, "cpu_ns"));
			dur_ns += json_number_value(json_object_get(record, "dur_ns"));
		}
		json_decref(record);
	}
	if (file)
		fclose(file);
	unlink(path);
	snprintf(name, sizeof(name), "an interval of 1 s at rest, --cpu %s", mode);
	snprintf(value, sizeof(value), "%.3f %%", dur_ns > 0 ? 100 * cpu_ns / dur_ns : 0);
	snprintf(spread, sizeof(spread), "of a core, %.0f s", dur_ns / 1e9);
	bench_row(name, value, spread, "<= 0.3 %");
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 15;
	char *jankscope = argc > 1 ? argv[1] : "build/jankscope";
	char *ours[] = {jankscope, "record", "-q", "--cpu", "switch", "--net", "off", NULL};
	char *iterating[] = {jankscope, "record", "-q", "--cpu", "iter", "--net", "off", NULL};
	char *bpftrace[] = {
		"bpftrace", "-e",
		"tracepoint:sched:sched_switch { $s=@s[cpu]; if ($s) { "
		"@ns[args->prev_pid,args->prev_comm] = sum(nsecs - $s); } @s[cpu] = nsecs; }",
		NULL};
	char *perf[] = {"perf", "record", "-q",        "-e", "sched:sched_switch",
			"-a",   "-o",     "/dev/null", NULL};
	struct pingpong game;

	if (pairs < 1 || pairs > BENCH_MAX_PAIRS)
		pairs = 15;
	kernel_log_init(false);
	printf("CPU accounting (medians of %zu pairs [quartiles])\n", pairs);
	pingpong_start(&game);
	pingpong_slice(&game, ROUND_TRIPS);
	bench_tool(&game, "ping-pong with jankscope record --cpu switch", ours, pairs, "<= 1.06");
	bench_tool(&game, "ping-pong with jankscope record --cpu iter", iterating, pairs, "");
	bench_tool(&game, "ping-pong with bpftrace", bpftrace, pairs, "");
	bench_tool(&game, "ping-pong with perf record -a", perf, pairs, "");
	pingpong_end(&game);
	bench_read_out(CPU_MODE_SWITCH);
	bench_read_out(CPU_MODE_ITER);
	bench_rest(jankscope, "switch");
	bench_rest(jankscope, "iter");
	return 0;
}
