/* SPDX-License-Identifier: BSD-2-Clause */
/* What one interval's work costs on a busy device: 500 processes of 20 threads each, one thread of
 * each process wakes four times a second. What the recorder took by itself in each source, and all
 * that jankscope took with its helpers.
 * usage: bench_interval JANKSCOPE */
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "bench.h"

#define PROCESSES 500
#define THREADS   20
#define UID       23456
#define SECONDS   14
/* So old they are by then: what is young is looked at more often (target/process.c), and most of a
 * device's processes are not. */
#define AGE_S 60

static void *sleep_for_good(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void live(unsigned number)
{
	const struct timespec quarter = {0, 250000000}, phase = {0, (long)number * 499999};
	pthread_attr_t attributes;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	for (int i = 1; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, sleep_for_good, NULL))
			break;
	}
	if (setresuid(UID, UID, UID))
		_exit(1);
	nanosleep(&phase, NULL);
	for (;;)
		nanosleep(&quarter, NULL);
}

/* Per interval, of the records of a run. */
struct run {
	double total_ms[64], dur_ns;
	size_t count;
	json_t *summary;
};

static bool read_run(const char *path, struct run *run)
{
	static char line[8 << 20];
	FILE *file = fopen(path, "r");

	*run = (struct run){0};
	while (file && fgets(line, sizeof(line), file)) {
		json_t *record = json_loads(line, 0, NULL);
		json_t *self = json_object_get(record, "self");
		json_t *summary = json_object_get(record, "summary");

		/* The first interval has what was set up. */
		if (self && json_integer_value(json_object_get(record, "seq")) > 2 &&
		    run->count < 64) {
			run->total_ms[run->count++] =
				json_number_value(json_object_get(self, "cpu_ns")) / 1e6;
			run->dur_ns += json_number_value(json_object_get(record, "dur_ns"));
		}
		if (summary)
			run->summary = json_incref(summary);
		json_decref(record);
	}
	if (file)
		fclose(file);
	return run->count > 2 && run->summary;
}

static void bench_run(char *jankscope, const char *name, char *const more[])
{
	char path[] = "/tmp/jankscope-bench-XXXXXX", value[32], spread[64], row[64];
	char *argv[24] = {jankscope, "record", "--overwrite", "-q", "-i",
			  "1s",      "--net",  "hooks",       "-o", path};
	double sum_ms = 0, sources_ms = 0, intervals;
	const char *key;
	size_t n = 10;
	struct run run;
	json_t *part;
	pid_t pid;
	int fd = mkstemp(path);

	for (; *more; more++)
		argv[n++] = *more;
	close(fd);
	pid = bench_start(argv, 4000);
	if (pid < 0) {
		bench_row(name, "-", "does not run", "");
		return;
	}
	sleep(SECONDS);
	bench_stop(pid);
	if (!read_run(path, &run)) {
		bench_row(name, "-", "no intervals", "");
		unlink(path);
		return;
	}
	unlink(path);
	for (size_t i = 0; i < run.count; i++)
		sum_ms += run.total_ms[i];
	snprintf(spread, sizeof(spread), "[%.2f..%.2f] %zu",
		 bench_quantile(run.total_ms, run.count, 0.25),
		 bench_quantile(run.total_ms, run.count, 0.75), run.count);
	snprintf(value, sizeof(value), "%.2f ms", bench_quantile(run.total_ms, run.count, 0.5));
	bench_row(name, value, spread, "<= 5 ms");
	snprintf(value, sizeof(value), "%.3f %%", 100 * sum_ms * 1e6 / run.dur_ns);
	bench_row("  of a core, with helpers and writer", value, "", "<= 0.5 %");
	intervals = json_number_value(json_object_get(run.summary, "intervals"));
	json_object_foreach (json_object_get(json_object_get(run.summary, "self"), "sources"), key,
			     part) {
		double ms = json_number_value(json_object_get(part, "cpu_ns")) / 1e6 / intervals;

		sources_ms += ms;
		snprintf(row, sizeof(row), "  of it in source %.24s", key);
		snprintf(value, sizeof(value), "%.3f ms", ms);
		bench_row(row, value, "mean", "");
	}
	snprintf(value, sizeof(value), "%.3f ms", sum_ms / (double)run.count - sources_ms);
	bench_row("  the rest: helpers, records, writer", value, "mean", "");
	json_decref(run.summary);
}

int main(int argc, char **argv)
{
	char *jankscope = argc > 1 ? argv[1] : "build/jankscope";
	char *all[] = {"-a", "--smaps", "off", NULL};
	char *targets[] = {"-u", "23456", "--smaps", "off", "--stack", "off", NULL};
	char *disk[] = {"-u", "23456", "--smaps", "off", "--stack", "off", "--disk", NULL};
	static pid_t children[PROCESSES];
	const struct rlimit many = {20000, 20000};

	setrlimit(RLIMIT_NPROC, &many);
	printf("one interval of 1 s with %d processes x %d threads, without smaps (CPU time, "
	       "median "
	       "[quartiles])\n",
	       PROCESSES, THREADS);
	fflush(stdout); /* not once more in each child */
	for (unsigned i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i])
			live(i);
		if (children[i] < 0) {
			bench_row("500 processes", "-", "cannot be started", "");
			break;
		}
	}
	sleep(AGE_S);
	bench_run(jankscope, "record -a beside them", all);
	bench_run(jankscope, "record -u, all of them are targets", targets);
	bench_run(jankscope, "the same with --disk", disk);
	for (unsigned i = 0; i < PROCESSES; i++)
		if (children[i] > 0) {
			kill(children[i], SIGKILL);
			waitpid(children[i], NULL, 0);
		}
	return 0;
}
