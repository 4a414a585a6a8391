/* SPDX-License-Identifier: BSD-2-Clause */
/* Under which name a process's time is told: that of the program that it ran last in the interval,
 * and that of the process that had the pid then. */
/* Runs beside others (7 s) */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "util/resident.h"

static char work_dir[] = "/tmp/test_cpu_names-XXXXXX";

/* This program under another name, which burns that long. */
static void exec_as(const char *name, const char *ms)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", work_dir, name);
	execl(path, name, "burn", ms, NULL);
	_exit(127);
}

static bool make_names(const char *const *names)
{
	char path[96], self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0 || !mkdtemp(work_dir))
		return false;
	self[n] = 0;
	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", work_dir, *names);
		if (symlink(self, path))
			return false;
	}
	return true;
}

static void remove_names(const char *const *names)
{
	char path[96];

	for (; *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", work_dir, *names);
		unlink(path);
	}
	rmdir(work_dir);
}

/* Time of a process's rows under a name; other_ns: under none or another one. */
static uint64_t named_ns(const struct run *run, pid_t pid, const char *name, uint64_t *other_ns)
{
	uint64_t sum_ns = 0;

	for (size_t i = 0; i < run->interval.cpu.task_count; i++) {
		const struct record_task *task = &run->interval.cpu.tasks[i];

		if (task->pid != pid)
			continue;
		if (task->process && !strcmp(task->process, name))
			sum_ns += task->cpu_ns;
		else
			*other_ns += task->cpu_ns;
	}
	return sum_ns;
}

static void test_exec_names(const char *name, const struct cpu_options *options)
{
	uint64_t ns, other_ns = 0;
	struct run run;
	int go[2];
	pid_t pid;
	char byte;

	if (!begin(&run, name, options) || pipe(go))
		return;
	/* Seen under its first name; then an execve, and its end in the same interval. */
	pid = fork();
	if (!pid) {
		burn_ms(5);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		exec_as("js-after", "100");
	}
	usleep(100000);
	sample(&run);
	if (write(go[1], "", 1) != 1)
		return;
	waitpid(pid, NULL, 0);
	usleep(300000);
	sample(&run);
	ns = named_ns(&run, pid, "js-after", &other_ns);
	tap_ok(ns >= 100 * NSEC_PER_MSEC && !other_ns,
	       "%s: exec and end in one interval: %.2f ms as js-after, %.2f as other", name,
	       (double)ns / 1e6, (double)other_ns / 1e6);
	/* One that lives on. */
	other_ns = 0;
	pid = fork();
	if (!pid) {
		burn_ms(5);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		exec_as("js-after", "1000");
	}
	usleep(100000);
	sample(&run);
	if (write(go[1], "", 1) != 1)
		return;
	usleep(200000);
	sample(&run);
	ns = named_ns(&run, pid, "js-after", &other_ns);
	tap_ok(ns > 0 && !other_ns, "%s: right after an exec: %.2f ms as js-after, %.2f as other",
	       name, (double)ns / 1e6, (double)other_ns / 1e6);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(go[0]);
	close(go[1]);
	end(&run);
}

static pid_t run_as(const char *name, const char *ms)
{
	pid_t pid = fork();

	if (!pid)
		exec_as(name, ms);
	return pid;
}

/* The same with that pid, by set_tid of clone3 (Linux 5.5). False: the pid is another's by now. */
static bool run_as_pid(const char *name, const char *ms, pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uint64_t)(uintptr_t)&pid,
		.set_tid_size = 1,
	};
	long err = syscall(SYS_clone3, &args, sizeof(args));

	if (!err)
		exec_as(name, ms);
	return err == pid;
}

static void test_pid_reuse(const char *name, const struct cpu_options *options)
{
	uint64_t first_ns = 0, second_ns = 0, start_ns = 0, ignored = 0;
	unsigned processes = 0;
	bool had_again = false;
	struct run run;
	pid_t pid = 0;

	if (!begin(&run, name, options))
		return;
	/* A process of somebody else may take the pid first, and keep it. */
	for (int tries = 0; tries < 20 && !had_again; tries++) {
		pid = run_as("js-owner-one", "40");
		waitpid(pid, NULL, 0);
		had_again = run_as_pid("js-owner-two", "70", pid);
	}
	if (tap_ok(had_again, "%s: the pid could be had again", name))
		waitpid(pid, NULL, 0);
	usleep(300000);
	sample(&run);
	first_ns = named_ns(&run, pid, "js-owner-one", &ignored);
	second_ns = named_ns(&run, pid, "js-owner-two", &ignored);
	tap_ok(first_ns >= 40 * NSEC_PER_MSEC &&
		       (first_ns < 60 * NSEC_PER_MSEC || tap_is_emulated()) &&
		       second_ns >= 70 * NSEC_PER_MSEC &&
		       (second_ns < 90 * NSEC_PER_MSEC || tap_is_emulated()),
	       "%s: tasks: %.2f of 40 ms and %.2f of 70", name, (double)first_ns / 1e6,
	       (double)second_ns / 1e6);
	for (size_t i = 0; i < run.interval.cpu.process_count; i++) {
		const struct record_process_cpu *process = &run.interval.cpu.processes[i];

		if (process->pid != pid)
			continue;
		processes += process->start_boot_ns != start_ns;
		start_ns = process->start_boot_ns;
	}
	tap_ok(processes == 2, "%s: processes: %u rows, each with a start of its own", name,
	       processes);
	end(&run);
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"js-after", "js-owner-one", "js-owner-two", NULL};
	if (argc == 3 && !strcmp(argv[1], "burn")) {
		burn_ms((unsigned)atoi(argv[2]));
		return 0;
	}
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	if (!tap_ok(make_names(names), "names: could be made"))
		return tap_done();
	for (size_t i = 0; i < CPU_TWINS; i++) {
		test_exec_names(cpu_twins[i].name, &cpu_twins[i].options);
		test_pid_reuse(cpu_twins[i].name, &cpu_twins[i].options);
	}
	remove_names(names);
	return tap_done();
}
