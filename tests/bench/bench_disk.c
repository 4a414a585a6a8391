/* SPDX-License-Identifier: BSD-2-Clause */
/* What disk accounting costs: an interval with 500 processes of 20 threads that have all read
 * something, and a call of fsync and the life of a process with and without it.
 * usage: bench_disk JANKSCOPE [PAIRS] */
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "bench.h"
#include "jankscope/source.h"
#include "jankscope/target.h"
#include "kernel/load.h"
#include "source/disk/disk.h"

#define PROCESSES 500
#define THREADS   20
#define READINGS  30
#define CALLS     20000
#define FORKS     500

static void read_a_byte(void)
{
	char byte;
	int fd = open("/proc/self/comm", O_RDONLY);

	if (fd >= 0 && read(fd, &byte, 1) < 0)
		perror("read");
	close(fd);
}

static void *sleeper(void *unused)
{
	read_a_byte();
	for (;;)
		pause();
	return NULL;
}

static void start_sleepers(pid_t *children)
{
	pthread_attr_t attributes;

	for (size_t i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, 16384);
		for (size_t t = 1; t < THREADS; t++) {
			pthread_t thread;

			if (pthread_create(&thread, &attributes, sleeper, NULL))
				break;
		}
		sleeper(NULL);
	}
	sleep(3);
}

/* CPU of this thread for one interval's work of the source, in ms. */
static double sample_ms(struct source *source, uint64_t *read_calls)
{
	struct record_interval interval = {0};
	uint64_t begin_ns;
	double ms;

	usleep(20000);
	begin_ns = bench_now_ns(CLOCK_THREAD_CPUTIME_ID);
	source->ops->sample(source, &interval);
	ms = (double)(bench_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / 1e6;
	*read_calls = interval.disk.sums.read_calls;
	counter_list_free(&interval.lost);
	missing_list_free(&interval.missing);
	return ms;
}

static void bench_interval(void)
{
	const struct disk_options options = {0};
	struct source *source = disk_source_new(&options);
	struct target_set *targets = target_set_new(NULL, 0, "");
	const struct source_context context = {.targets = targets, .interval_ns = 1000000000};
	pid_t children[PROCESSES];
	double quiet[READINGS], all_ms;
	char value[32], spread[64];
	uint64_t calls;

	if (source->ops->open(source, &context)) {
		bench_row("disk: an interval", "-", source->reason, "");
		return;
	}
	sample_ms(source, &calls);
	start_sleepers(children);
	all_ms = sample_ms(source, &calls);
	snprintf(value, sizeof(value), "%.3f ms", all_ms);
	snprintf(spread, sizeof(spread), "%llu calls of read", (unsigned long long)calls);
	bench_row("disk: all 10,000 threads read in the interval", value, spread, "");
	for (int i = 0; i < READINGS; i++)
		quiet[i] = sample_ms(source, &calls);
	for (int i = 0; i < PROCESSES; i++)
		kill(children[i], SIGKILL);
	for (int i = 0; i < PROCESSES; i++)
		waitpid(children[i], NULL, 0);
	snprintf(value, sizeof(value), "%.3f ms", bench_quantile(quiet, READINGS, 0.5));
	snprintf(spread, sizeof(spread), "[%.3f..%.3f]", bench_quantile(quiet, READINGS, 0.25),
		 bench_quantile(quiet, READINGS, 0.75));
	bench_row("disk: none of them does", value, spread, "");
	source->ops->close(source);
	target_set_free(targets);
}

static double fsync_ns(int fd)
{
	uint64_t begin_ns = bench_now_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < CALLS; i++)
		if (fsync(fd))
			return -1;
	return (double)(bench_now_ns(CLOCK_MONOTONIC) - begin_ns) / CALLS;
}

static double fork_ns(int unused)
{
	uint64_t begin_ns = bench_now_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (!pid) {
			read_a_byte();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return (double)(bench_now_ns(CLOCK_MONOTONIC) - begin_ns) / FORKS;
}

static void bench_pairs(const char *name, double (*slice)(int), int fd, size_t pairs)
{
	double extra[BENCH_MAX_PAIRS], ratios[BENCH_MAX_PAIRS];
	char value[32], spread[64];

	for (size_t i = 0; i < pairs; i++) {
		const struct disk_options options = {0};
		struct target_set *targets = target_set_new(NULL, 0, "");
		const struct source_context context = {.targets = targets};
		double with = 0, without = 0;

		for (int turn = 0; turn < 2; turn++) {
			struct source *source;

			if ((turn ^ (int)i) & 1) {
				without = slice(fd);
				continue;
			}
			source = disk_source_new(&options);
			if (source->ops->open(source, &context)) {
				bench_row(name, "-", source->reason, "");
				return;
			}
			with = slice(fd);
			source->ops->close(source);
		}
		extra[i] = with - without;
		ratios[i] = with / without;
		target_set_free(targets);
	}
	snprintf(value, sizeof(value), "%.3f", bench_quantile(ratios, pairs, 0.5));
	snprintf(spread, sizeof(spread), "[%.3f..%.3f] %+.0f ns",
		 bench_quantile(ratios, pairs, 0.25), bench_quantile(ratios, pairs, 0.75),
		 bench_quantile(extra, pairs, 0.5));
	bench_row(name, value, spread, "");
}

int main(int argc, char **argv)
{
	size_t pairs = argc > 2 ? (size_t)atoi(argv[2]) : 15;
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);

	if (pairs < 1 || pairs > BENCH_MAX_PAIRS)
		pairs = 15;
	kernel_log_init(false);
	printf("Disk accounting (medians of %zu pairs [quartiles])\n", pairs);
	bench_interval();
	bench_pairs("fsync of tmpfs, which has nothing to do", fsync_ns, fd, pairs);
	bench_pairs("fork, read, exit and wait", fork_ns, fd, pairs);
	return 0;
}
