/* SPDX-License-Identifier: BSD-2-Clause */
/* What a whole recording into a folder costs at 10,000 switches a second: the time that its
 * processes ran by the kernel's clock of each thread (schedstat), and what its BPF programs took of
 * everybody's by the kernel's own count (bpf_stats). Both stand beside what it says of itself.
 * usage: bench_record JANKSCOPE */
#include <bpf/bpf.h>
#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bench.h"

#define UID        23457
#define THREADS    20
#define PERIOD_NS  4000000 /* 250 wakes a second each: a wake is a switch to it and one away */
#define WARM_UP_S  5
#define SECONDS    30
#define MAX_MEMBER 64

/* ---- the load ---- */
static void *wake_often(void *arg)
{
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec = (long)(uintptr_t)arg * (PERIOD_NS / THREADS);
	for (;;) {
		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return NULL;
}

static pid_t start_load(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setresuid(UID, UID, UID))
		_exit(1);
	for (uintptr_t i = 1; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, wake_often, (void *)i))
			_exit(1);
	}
	wake_often(NULL);
	_exit(0);
}

/* ---- clocks ---- */
static double read_number(const char *path, const char *behind)
{
	static char text[1 << 16];
	FILE *file = fopen(path, "r");
	size_t size = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	const char *at;

	if (file)
		fclose(file);
	text[size] = 0;
	at = strstr(text, behind);
	return at ? strtod(at + strlen(behind), NULL) : 0;
}

static pid_t parent_of(const char *pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%.16s/status", pid);
	return (pid_t)read_number(path, "\nPPid:");
}

static double ran_ns(pid_t pid)
{
	char path[64], file[128];
	double sum = 0;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%.16s/schedstat", path, entry->d_name);
		sum += read_number(file, "");
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* How long a process and all that came from it ran. */
static double family_ran_ns(pid_t first)
{
	pid_t members[MAX_MEMBER] = {first};
	size_t count = 1, before = 0;
	struct dirent *entry;
	double sum = 0;

	while (count > before) {
		DIR *dir = opendir("/proc");

		before = count;
		while (dir && (entry = readdir(dir))) {
			pid_t pid = (pid_t)atoi(entry->d_name), parent = 0;
			bool known = false, child = false;

			if (pid > 0)
				parent = parent_of(entry->d_name);
			for (size_t i = 0; i < count && pid > 0; i++) {
				known |= members[i] == pid;
				child |= members[i] == parent;
			}
			if (child && !known && count < MAX_MEMBER)
				members[count++] = pid;
		}
		if (dir)
			closedir(dir);
	}
	for (size_t i = 0; i < count; i++)
		sum += ran_ns(members[i]);
	return sum;
}

/* Of all programs behind `after`: numbers are never given twice. *runs: how often they ran. */
static double programs_ran_ns(uint32_t after, double *runs)
{
	double sum = 0;

	*runs = 0;
	for (uint32_t id = after; !bpf_prog_get_next_id(id, &id);) {
		struct bpf_prog_info info = {0};
		uint32_t length = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &length)) {
			sum += (double)info.run_time_ns;
			*runs += (double)info.run_cnt;
		}
		if (fd >= 0)
			close(fd);
	}
	return sum;
}

static uint32_t last_program(void)
{
	uint32_t id = 0;

	while (!bpf_prog_get_next_id(id, &id))
		;
	return id;
}

/* Of the segment's intervals behind the warm-up: what the recorder says that it took, in ns a
 * second. */
static double told_ns(const char *folder)
{
	static char line[8 << 20];
	char path[256];
	double sum = 0, dur = 0;
	struct dirent *entry;
	DIR *dir = opendir(folder);
	unsigned skip = WARM_UP_S;

	while (dir && (entry = readdir(dir))) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%.128s", folder, entry->d_name);
		if (!strstr(entry->d_name, ".jsonl") || strstr(entry->d_name, ".zst") ||
		    !(file = fopen(path, "r")))
			continue;
		while (fgets(line, sizeof(line), file)) {
			json_t *record = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
			const char *type = json_string_value(json_object_get(record, "type"));

			if (type && !strcmp(type, "interval") && !(skip && skip--)) {
				dur += json_number_value(json_object_get(record, "dur_ns"));
				sum += json_number_value(
					json_object_get(json_object_get(record, "self"), "cpu_ns"));
			}
			json_decref(record);
		}
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return dur > 0 ? sum / dur * 1e9 : 0;
}

/* ---- */
static void bench_recording(char *jankscope, const char *name, char *const more[])
{
	char base[] = "/tmp/jankscope-bench-XXXXXX", folder[64], command[96], value[32], spread[64];
	char *argv[24] = {jankscope, "record", "-q", "-i", "1s", "-o", folder};
	double ran, programs, runs, before_runs, switches, seconds;
	uint32_t last = last_program();
	uint64_t began_ns;
	size_t n = 7;
	pid_t pid;

	if (!mkdtemp(base))
		return;
	snprintf(folder, sizeof(folder), "%s/run/", base);
	for (; *more; more++)
		argv[n++] = *more;
	pid = bench_start(argv, WARM_UP_S * 1000);
	if (pid < 0) {
		bench_row(name, "-", "does not run", "");
		rmdir(base);
		return;
	}
	began_ns = bench_now_ns(CLOCK_MONOTONIC);
	ran = family_ran_ns(pid);
	programs = programs_ran_ns(last, &before_runs);
	switches = read_number("/proc/stat", "\nctxt ");
	sleep(SECONDS);
	switches = read_number("/proc/stat", "\nctxt ") - switches;
	programs = programs_ran_ns(last, &runs) - programs;
	ran = family_ran_ns(pid) - ran;
	seconds = (double)(bench_now_ns(CLOCK_MONOTONIC) - began_ns) / 1e9;
	bench_stop(pid);
	snprintf(value, sizeof(value), "%.2f %%", (ran + programs) / seconds / 1e7);
	snprintf(spread, sizeof(spread), "%.0f switches/s", switches / seconds);
	bench_row(name, value, spread, "<= 1 %");
	snprintf(value, sizeof(value), "%.2f %%", ran / seconds / 1e7);
	snprintf(spread, sizeof(spread), "it says %.2f %%", told_ns(folder) / 1e7);
	bench_row("  its processes", value, spread, "");
	snprintf(value, sizeof(value), "%.2f %%", programs / seconds / 1e7);
	snprintf(spread, sizeof(spread), "%.0f runs/s of %.0f ns", (runs - before_runs) / seconds,
		 runs > before_runs ? programs / (runs - before_runs) : 0);
	bench_row("  its programs, in others' time", value, spread, "");
	snprintf(command, sizeof(command), "rm -r '%s'", base);
	if (system(command))
		printf("  %s stays\n", base);
}

int main(int argc, char **argv)
{
	char *jankscope = argc > 1 ? argv[1] : "build/jankscope";
	char *all[] = {"-a", NULL}, *bytes[] = {"-a", "--net", "hooks", NULL};
	char *target[] = {"-u", "23457", NULL};
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	pid_t load;

	printf("a recording into a folder beside 10,000 switches a second (%% of a core, %d s)\n",
	       SECONDS);
	if (stats < 0)
		printf("  the kernel does not count the time of programs: it is missing below\n");
	fflush(stdout); /* not once more in the child */
	load = start_load();
	bench_recording(jankscope, "record -a", all);
	bench_recording(jankscope, "record -a --net hooks", bytes);
	bench_recording(jankscope, "record -u, whose switches these are", target);
	kill(load, SIGKILL);
	waitpid(load, NULL, 0);
	if (stats >= 0)
		close(stats);
	return 0;
}
