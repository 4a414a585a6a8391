/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a target's tasks ran: by CPU, against affinities and the threads' own clocks, and by
 * frequency, against phases of known length. Where the kernel has no cpufreq the program on
 * cpu_frequency is run with the words that the tracepoint would give it; a guest with two clusters
 * changes its frequencies. */
/* Runs beside others (9 s) */
#include <bpf/bpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "kernel/sched_time.h"

#define POLICIES "/sys/devices/system/cpu/cpufreq"

struct shared {
	_Atomic int command;       /* the parent's, the number of the phase that may begin */
	_Atomic int phase;         /* the child's, the phase that it has ended */
	uint64_t cpu_ns[4];        /* what the main thread ran in each phase, by its own clock */
	uint64_t unlisted_from_ns; /* by that clock: the frequency that no file lists begins */
	uint64_t pinned_ns[2];
	pid_t pinned_tids[2];
};

static uint64_t own_ns(void)
{
	return clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void pin_to(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void burn_ns(uint64_t ns)
{
	uint64_t until_ns = own_ns() + ns;

	while (own_ns() < until_ns)
		spin_hint();
}

static void wait_for(const _Atomic int *word, int value)
{
	while (atomic_load(word) < value)
		usleep(2000);
}

/* The child of each test ends with it. */
static pid_t fork_child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static bool begin_of(struct run *run, const char *name, const struct cpu_options *options,
		     pid_t pid)
{
	const struct target_spec spec = {.kind = TARGET_PID, .pid = pid};
	struct source_context context = {.interval_ns = NSEC_PER_SEC};

	*run = (struct run){.name = name,
			    .source = source_for_test(options),
			    .targets = target_set_new(&spec, 1, "")};
	context.targets = run->targets;
	target_set_scan(run->targets, NULL, NULL);
	if (open_for_test(run->source, &context, &options->kernel, name)) {
		run->begin_ns = clock_now_ns(CLOCK_MONOTONIC);
		return true;
	}
	run->source->ops->close(run->source);
	target_set_free(run->targets);
	return false;
}

static uint64_t on_cpu(const struct record_task *task, unsigned cpu)
{
	for (size_t i = 0; i < task->cpu_count; i++)
		if (task->cpus[i].cpu == cpu)
			return task->cpus[i].cpu_ns;
	return 0;
}

static uint64_t at_khz(const struct record_task *task, unsigned cluster, uint64_t khz)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < task->frequency_count; i++)
		if (task->frequencies[i].cluster == cluster &&
		    task->frequencies[i].khz.value == khz)
			sum += task->frequencies[i].cpu_ns;
	return sum;
}

/* What must hold of each row: its parts are the whole. */
struct tally {
	uint64_t cpu_ns, unplaced_ns;
	unsigned rows, wrong;
	bool has_frequencies;
};

static void count_rows(const struct run *run, struct tally *tally)
{
	const struct record_cpu *cpu = &run->interval.cpu;

	for (size_t i = 0; i < cpu->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];
		uint64_t cpus = task->unplaced_ns.value, frequencies = task->unplaced_ns.value;

		for (size_t k = 0; k < task->cpu_count; k++)
			cpus += task->cpus[k].cpu_ns;
		for (size_t k = 0; k < task->frequency_count; k++)
			frequencies += task->frequencies[k].cpu_ns;
		tally->rows++;
		tally->wrong +=
			cpus != task->cpu_ns || (cpu->cluster_count && frequencies != task->cpu_ns);
		tally->cpu_ns += task->cpu_ns;
		tally->unplaced_ns += task->unplaced_ns.value;
		tally->has_frequencies |= task->frequency_count != 0;
	}
}

static void add_task(const struct run *run, pid_t tid, struct record_task *sum, uint64_t cpus[2])
{
	const struct record_cpu *cpu = &run->interval.cpu;

	for (size_t i = 0; i < cpu->task_count; i++) {
		if (cpu->tasks[i].tid != tid)
			continue;
		sum->cpu_ns += cpu->tasks[i].cpu_ns;
		cpus[0] += on_cpu(&cpu->tasks[i], 0);
		cpus[1] += on_cpu(&cpu->tasks[i], 1);
	}
}

/* Both are times of the guest there, but the emulator may stand still between two readings. */
static bool is_near(uint64_t a, uint64_t b, uint64_t slack_ns)
{
	if (tap_is_emulated())
		slack_ns = 6 * slack_ns + b / 5;
	return (a > b ? a - b : b - a) <= slack_ns + b / 50;
}

/* ---- by CPU ---- */

static void *run_pinned(void *ctx)
{
	struct shared *shared = ctx;
	static _Atomic unsigned next;
	unsigned i = atomic_fetch_add(&next, 1) & 1;
	uint64_t begin_ns;

	pin_to(i);
	shared->pinned_tids[i] = gettid();
	wait_for(&shared->command, 1);
	begin_ns = own_ns();
	for (int k = 0; k < 60; k++) {
		burn_ns(NSEC_PER_MSEC);
		usleep(2000);
	}
	shared->pinned_ns[i] = own_ns() - begin_ns;
	return NULL;
}

static void *run_brief(void *ctx)
{
	(void)ctx;
	burn_ns(200000);
	return NULL;
}

/* The main thread goes to and fro between two CPUs and makes short-lived threads; the others
 * stay. */
static void work_on_cpus(struct shared *shared)
{
	pthread_t threads[2], brief;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run_pinned, shared);
	wait_for(&shared->command, 1);
	for (int k = 0; k < 40; k++) {
		uint64_t begin_ns;

		pin_to(k & 1);
		begin_ns = own_ns();
		burn_ns(NSEC_PER_MSEC * (k & 1 ? 3 : 1));
		if (k % 4 == 0 && !pthread_create(&brief, NULL, run_brief, NULL))
			pthread_join(brief, NULL);
		usleep(1000);
		shared->cpu_ns[k & 1] += own_ns() - begin_ns;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&shared->phase, 1);
}

static void test_cpus(const char *name, const struct cpu_options *options)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct record_task main_sum = {0}, pinned_sum[2] = {{0}};
	uint64_t main_cpus[2] = {0}, pinned_cpus[2][2] = {{0}};
	struct tally tally = {0};
	struct run run;
	pid_t pid;

	pid = fork_child();
	if (!pid) {
		work_on_cpus(shared);
		/* Alive to the last read-out. */
		wait_for(&shared->command, 2);
		_exit(0);
	}
	while (!shared->pinned_tids[0] || !shared->pinned_tids[1])
		usleep(1000);
	if (begin_of(&run, name, options, pid)) {
		bool over = false;

		atomic_store(&shared->command, 1);
		while (!over) {
			over = atomic_load(&shared->phase) == 1;
			usleep(50000);
			sample(&run);
			count_rows(&run, &tally);
			add_task(&run, pid, &main_sum, main_cpus);
			for (int i = 0; i < 2; i++)
				add_task(&run, shared->pinned_tids[i], &pinned_sum[i],
					 pinned_cpus[i]);
		}
		tap_ok(tally.rows > 20 && !tally.wrong, "%s: parts are the whole in %u of %u rows",
		       name, tally.rows - tally.wrong, tally.rows);
		tap_ok(tally.unplaced_ns * (tap_is_emulated() ? 10 : 50) <= tally.cpu_ns,
		       "%s: of %.1f ms the CPU of %.3f ms is not known", name,
		       (double)tally.cpu_ns / 1e6, (double)tally.unplaced_ns / 1e6);
		for (int i = 0; i < 2; i++)
			tap_ok(is_near(pinned_cpus[i][i], shared->pinned_ns[i],
				       6 * NSEC_PER_MSEC) &&
				       pinned_cpus[i][!i] * 20 <= pinned_cpus[i][i],
			       "%s: a thread that stays on CPU %d: %.2f of %.2f ms there, %.2f "
			       "elsewhere",
			       name, i, (double)pinned_cpus[i][i] / 1e6,
			       (double)shared->pinned_ns[i] / 1e6,
			       (double)pinned_cpus[i][!i] / 1e6);
		for (int i = 0; i < 2; i++)
			/* It also waits for its commands, wherever it is then. */
			tap_ok((tap_is_emulated() ||
				main_cpus[i] + NSEC_PER_MSEC >= shared->cpu_ns[i]) &&
				       is_near(main_cpus[i], shared->cpu_ns[i], 8 * NSEC_PER_MSEC),
			       "%s: one that goes to and fro: %.2f of %.2f ms on CPU %d", name,
			       (double)main_cpus[i] / 1e6, (double)shared->cpu_ns[i] / 1e6, i);
		end(&run);
	}
	atomic_store(&shared->command, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(shared, sizeof(*shared));
}

/* ---- by frequency, where there is no cpufreq ---- */

/* Two CPUs of one made-up cluster; more are there as well. */
static void make_clusters(char *root, size_t size, unsigned cpus)
{
	char path[256], list[4096] = "";
	const struct {
		const char *name, *text;
	} files[] = {
		{"related_cpus", list},
		{"scaling_available_frequencies", "500000 1000000 2000000\n"},
		{"cpuinfo_max_freq", "2000000\n"},
		{"scaling_cur_freq", "500000\n"},
	};

	snprintf(root, size, "/tmp/test_cpu_split-XXXXXX");
	if (!mkdtemp(root))
		return;
	for (unsigned i = 0; i < cpus; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%u ", i);
	snprintf(path, sizeof(path), "mkdir -p %s" POLICIES "/policy0", root);
	if (system(path))
		return;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s" POLICIES "/policy0/%s", root, files[i].name);
		file = fopen(path, "we");
		if (!file)
			return;
		fputs(files[i].text, file);
		fclose(file);
	}
	for (unsigned i = 0; i < cpus; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%u", root, i);
		mkdir(path, 0700);
		strcat(path, "/cpu_capacity");
		file = fopen(path, "we");
		if (!file)
			return;
		fputs("512\n", file);
		fclose(file);
	}
}

static void fire(int program, unsigned khz, unsigned cpu)
{
	uint64_t words[2] = {khz, cpu};
	LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = words, .ctx_size_in = sizeof(words));

	bpf_prog_test_run_opts(program, &options);
}

/* Phases that end by the thread's own clock; between two it changes the frequency of its CPU, twice
 * amid a slice. It sleeps nowhere, so that slices are as long as they can be. */
static void work_at_frequencies(struct shared *shared, int program)
{
	static const unsigned khz[4] = {500000, 1000000, 2000000, 1000000};

	pin_to(1);
	wait_for(&shared->command, 1);
	for (int i = 0; i < 4; i++) {
		uint64_t begin_ns;

		fire(program, khz[i], 1);
		begin_ns = own_ns();
		burn_ns((uint64_t)(i + 1) * 40 * NSEC_PER_MSEC);
		shared->cpu_ns[i] = own_ns() - begin_ns;
	}
	shared->unlisted_from_ns = own_ns();
	fire(program, 1234567, 1); /* one that no file lists */
	atomic_store(&shared->phase, 1);
	/* It waits asleep: each look at a word would be time at that frequency. */
	pause();
}

/* The CPU time of a process of one thread, by the kernel's own clock of it. */
static uint64_t cpu_clock_ns(pid_t pid)
{
	struct timespec now = {0};
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &now))
		return 0;
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

static void test_made_up(const char *name, const struct cpu_options *made)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cpu_options options = *made;
	struct sched_kernel *kernel;
	struct tally tally = {0};
	char root[64], command[128];
	uint64_t khz_ns[3] = {0}, unknown_ns = 0, unlisted_ns, fnorm_ns = 0, weighed_ns = 0;
	struct run run;
	int pipes[2];
	pid_t pid;

	make_clusters(root, sizeof(root), sched_kernel_possible_cpus());
	options.test_sys_root = root;
	if (pipe(pipes))
		return;
	pid = fork_child();
	if (!pid) {
		int program;

		/* The number of a descriptor that the parent opens after the fork is no use here:
		 * the program comes by its id. */
		if (read(pipes[0], &program, sizeof(program)) != sizeof(program))
			_exit(1);
		work_at_frequencies(shared, bpf_prog_get_fd_by_id((uint32_t)program));
		_exit(0);
	}
	if (begin_of(&run, name, &options, pid)) {
		struct bpf_prog_info info = {0};
		uint32_t length = sizeof(info);
		bool over = false;

		kernel = cpu_source_kernel(run.source);
		bpf_obj_get_info_by_fd(sched_kernel_time_program(kernel), &info, &length);
		if (write(pipes[1], &info.id, sizeof(info.id)) != sizeof(info.id))
			abort();
		sample(&run);
		atomic_store(&shared->command, 1);
		while (!over) {
			over = atomic_load(&shared->phase) == 1;
			usleep(70000);
			sample(&run);
			count_rows(&run, &tally);
			for (size_t i = 0; i < run.interval.cpu.task_count; i++) {
				const struct record_task *task = &run.interval.cpu.tasks[i];

				khz_ns[0] += at_khz(task, 0, 500000);
				khz_ns[1] += at_khz(task, 0, 1000000);
				khz_ns[2] += at_khz(task, 0, 2000000);
				unknown_ns += at_khz(task, 0, 0);
				fnorm_ns += task->fnorm_ns.value;
				/* With much of a frequency that is not known there is none. */
				if (task->fnorm_ns.present)
					weighed_ns += (at_khz(task, 0, 500000) / 4 +
						       at_khz(task, 0, 1000000) / 2 +
						       at_khz(task, 0, 2000000)) /
						      2;
			}
		}
		tap_ok(tally.rows && !tally.wrong && tally.has_frequencies,
		       "%s: frequencies: parts are the whole in %u of %u rows", name,
		       tally.rows - tally.wrong, tally.rows);
		tap_ok(is_near(khz_ns[0], shared->cpu_ns[0], 2 * NSEC_PER_MSEC) &&
			       is_near(khz_ns[1], shared->cpu_ns[1] + shared->cpu_ns[3],
				       2 * NSEC_PER_MSEC) &&
			       is_near(khz_ns[2], shared->cpu_ns[2], 2 * NSEC_PER_MSEC),
		       "%s: %.2f of %.2f ms at 500 MHz, %.2f of %.2f at 1000, %.2f of %.2f at 2000",
		       name, (double)khz_ns[0] / 1e6, (double)shared->cpu_ns[0] / 1e6,
		       (double)khz_ns[1] / 1e6,
		       (double)(shared->cpu_ns[1] + shared->cpu_ns[3]) / 1e6,
		       (double)khz_ns[2] / 1e6, (double)shared->cpu_ns[2] / 1e6);
		unlisted_ns = cpu_clock_ns(pid) - shared->unlisted_from_ns;
		tap_ok(sched_kernel_time_unlisted(kernel) == 1 && unknown_ns &&
			       unknown_ns < unlisted_ns + NSEC_PER_MSEC,
		       "%s: a frequency that no file lists is counted, and %.3f of %.3f ms at it "
		       "are not known",
		       name, (double)unknown_ns / 1e6, (double)unlisted_ns / 1e6);
		tap_ok(weighed_ns > 80 * NSEC_PER_MSEC && is_near(fnorm_ns, weighed_ns, 1000),
		       "%s: fnorm_ns is %.2f ms, frequency x capacity x time is %.2f", name,
		       (double)fnorm_ns / 1e6, (double)weighed_ns / 1e6);
		end(&run);
	}
	atomic_store(&shared->command, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
	munmap(shared, sizeof(*shared));
	snprintf(command, sizeof(command), "rm -rf %s", root);
	if (system(command))
		tap_note("%s stays", root);
}

/* ---- by frequency, where there is cpufreq ---- */

static unsigned read_khz(unsigned policy, const char *name)
{
	char path[128];
	unsigned khz = 0;
	FILE *file;

	snprintf(path, sizeof(path), POLICIES "/policy%u/%s", policy, name);
	file = fopen(path, "re");
	if (file && fscanf(file, "%u", &khz) != 1)
		khz = 0;
	if (file)
		fclose(file);
	return khz;
}

static void write_khz(unsigned policy, const char *name, unsigned khz)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), POLICIES "/policy%u/%s", policy, name);
	file = fopen(path, "we");
	if (!file)
		return;
	fprintf(file, "%u", khz);
	fclose(file);
}

/* The CPU runs at khz from some moment before this returns on. */
static void force_khz(unsigned policy, unsigned khz)
{
	write_khz(policy, "scaling_min_freq", read_khz(policy, "cpuinfo_min_freq"));
	write_khz(policy, "scaling_max_freq", khz);
	write_khz(policy, "scaling_min_freq", khz);
	for (int i = 0; i < 500 && read_khz(policy, "scaling_cur_freq") != khz; i++)
		burn_ns(NSEC_PER_MSEC);
}

static void test_real(const char *name, const struct cpu_options *options, unsigned policy,
		      unsigned cpu)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned low = read_khz(policy, "cpuinfo_min_freq");
	unsigned high = read_khz(policy, "cpuinfo_max_freq");
	uint64_t low_ns = 0, high_ns = 0, cluster_ns = 0;
	struct tally tally = {0};
	struct run run;
	pid_t pid;

	pid = fork_child();
	if (!pid) {
		pin_to(cpu);
		wait_for(&shared->command, 1);
		for (int i = 0; i < 4; i++) {
			uint64_t begin_ns;

			force_khz(policy, i & 1 ? high : low);
			begin_ns = own_ns();
			burn_ns((i & 1 ? 150 : 60) * NSEC_PER_MSEC);
			shared->cpu_ns[i & 1] += own_ns() - begin_ns;
		}
		shared->cpu_ns[2] = own_ns();
		atomic_store(&shared->phase, 1);
		wait_for(&shared->command, 2);
		_exit(0);
	}
	if (begin_of(&run, name, options, pid)) {
		bool over = false;

		sample(&run);
		atomic_store(&shared->command, 1);
		while (!over) {
			over = atomic_load(&shared->phase) == 1;
			usleep(100000);
			sample(&run);
			count_rows(&run, &tally);
			for (size_t i = 0; i < run.interval.cpu.task_count; i++) {
				low_ns += at_khz(&run.interval.cpu.tasks[i], policy, low);
				high_ns += at_khz(&run.interval.cpu.tasks[i], policy, high);
			}
			for (size_t i = 0; i < run.interval.cpu.cluster_count; i++)
				if (run.interval.cpu.clusters[i].cluster == policy)
					cluster_ns += run.interval.cpu.clusters[i].targets_ns;
		}
		tap_ok(tally.rows && !tally.wrong && tally.has_frequencies,
		       "%s: parts are the whole in %u of %u rows", name, tally.rows - tally.wrong,
		       tally.rows);
		/* What it ran while it waited for a frequency was at either. */
		tap_ok(low_ns + NSEC_PER_MSEC >= shared->cpu_ns[0] &&
			       high_ns + NSEC_PER_MSEC >= shared->cpu_ns[1] &&
			       low_ns + high_ns <= tally.cpu_ns &&
			       is_near(low_ns + high_ns, tally.cpu_ns, 30 * NSEC_PER_MSEC),
		       "%s: cpu%u at %u kHz %.1f of at least %.1f ms, at %u kHz %.1f of %.1f, in "
		       "all %.1f",
		       name, cpu, low, (double)low_ns / 1e6, (double)shared->cpu_ns[0] / 1e6, high,
		       (double)high_ns / 1e6, (double)shared->cpu_ns[1] / 1e6,
		       (double)tally.cpu_ns / 1e6);
		tap_ok(is_near(cluster_ns, tally.cpu_ns, 5 * NSEC_PER_MSEC),
		       "%s: the cluster has %.1f of %.1f ms", name, (double)cluster_ns / 1e6,
		       (double)tally.cpu_ns / 1e6);
		end(&run);
	}
	atomic_store(&shared->command, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	write_khz(policy, "scaling_min_freq", low);
	write_khz(policy, "scaling_max_freq", high);
	munmap(shared, sizeof(*shared));
}

/* ---- interrupts ---- */

/* Where the kernel times each interrupt its own sums are read, and they are those of /proc/stat
 * before it cuts them to ticks. */
static void test_interrupts(void)
{
	const struct cpu_options options = {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}};
	uint64_t exact_ns = 0, dur_ns = 0, busy_ns = 0;
	int64_t rest_ns = 0;
	unsigned exact = 0, rest = 0;
	struct run run;

	if (!begin(&run, "interrupts", &options))
		return;
	for (int i = 0; i < 5; i++) {
		burn_ns(20 * NSEC_PER_MSEC);
		usleep(80000);
		sample(&run);
		exact +=
			run.interval.cpu.stat_present && run.interval.cpu.stat_by == CPU_STAT_EXACT;
		rest += run.interval.cpu.stat_rest_ns.present;
		exact_ns +=
			run.interval.cpu.stat.irq_ns.value + run.interval.cpu.stat.softirq_ns.value;
		rest_ns += run.interval.cpu.stat_rest_ns.value;
		dur_ns += run.interval.cpu.online_ns;
		busy_ns += run.interval.cpu.busy_ns;
	}
	if (!sched_kernel_times_irqs(cpu_source_kernel(run.source)))
		tap_skip("interrupts", "this kernel does not time them (IRQ_TIME_ACCOUNTING)");
	else if (!exact)
		tap_skip("interrupts", "the kernel does not tell where its sums are "
				       "(KALLSYMS_ALL, kptr_restrict)");
	else
		tap_ok(exact == 5 && exact_ns && exact_ns % 1000000 &&
			       exact_ns < dur_ns - busy_ns && rest == 5 &&
			       (rest_ns < 0 ? -rest_ns : rest_ns) < (int64_t)dur_ns / 10,
		       "interrupts: %u of 5 exact, %.3f ms of %.1f; %.3f ms are left over", exact,
		       (double)exact_ns / 1e6, (double)dur_ns / 1e6, (double)rest_ns / 1e6);
	end(&run);
}

int main(void)
{
	bool cpufreq = !access(POLICIES "/policy0/scaling_available_frequencies", R_OK);

	for (int i = 0; i < CPU_TWINS; i++) {
		char name[64];

		if (cpu_twins[i].options.kernel.mode == CPU_MODE_ITER)
			continue;
		test_cpus(cpu_twins[i].name, &cpu_twins[i].options);
		snprintf(name, sizeof(name), "%s: %scpufreq", cpu_twins[i].name,
			 cpufreq ? "" : "made-up ");
		/* The kernel's own changes would come among the made-up ones. */
		if (!cpufreq)
			test_made_up(name, &cpu_twins[i].options);
		else
			test_real(name, &cpu_twins[i].options, 0, 1);
		if (!access(POLICIES "/policy3", R_OK) && !i)
			test_real(name, &cpu_twins[i].options, 3, 3);
	}
	if (!cpufreq)
		tap_skip("cpufreq", "this machine has none: a guest does it (gki-6.1)");
	test_interrupts();
	return tap_done();
}
