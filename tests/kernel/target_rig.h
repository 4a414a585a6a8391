/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs of any name whose CPU time is known, and a recording of a name that is held to it. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cpu_run.h"

/* What a process says of itself, in memory that all share. */
static struct shared {
	_Atomic uint64_t before_ns, after_ns;
} * shared;

/* What is listed lies between. */
struct truth {
	uint64_t low_ns, high_ns;
};

/* The sum of a running task that an event reads is this near to the scheduler's (bpf/README.md, "A
 * task that runs"); rusage is cut to whole microseconds, user and system apart. */
#define EVENT_ERROR_NS  40000
#define RUSAGE_ERROR_NS 2000

static char work_dir[] = "/tmp/test_target_names-XXXXXX";
static char target_name[32], other_name[32], glob[32];

struct seen {
	uint64_t listed_ns, other_ns, busy_ns, births_untold, uids_unsplit;
	unsigned processes, misnamed;
};

/* The recording that is open, and what was read of it while a child was waited for: a session reads
 * the ring all the time too, and beside the storm of another test it is full in half a second. */
static struct run *open_run;
static struct seen collected;

static uint64_t began_boot_ns;

/* The names of the target's processes are not what is tested. */
static bool may_be_misnamed;

/* ---- programs of any name ---- */

static inline void make_program(const char *name)
{
	char path[96], self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n > 0 ? n : 0] = 0;
	snprintf(path, sizeof(path), "%s/%s", work_dir, name);
	if (symlink(self, path))
		perror(path);
}

/* This program as another one, whose role comes as its first argument. */
static inline void exec_role(const char *name, const char *role, const char *number)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", work_dir, name);
	if (!strcmp(name, target_name))
		atomic_fetch_add(&shared->before_ns, clock_now_ns(CLOCK_PROCESS_CPUTIME_ID));
	execl(path, name, role, number, NULL);
	_exit(127);
}

static inline void clear_marks(void)
{
	atomic_store(&shared->before_ns, 0);
	atomic_store(&shared->after_ns, 0);
}

/* Of processes whose rusage is sum_ns together, and that ran before they took the name as long as
 * the marks say. */
static inline struct truth truth_of(uint64_t sum_ns, unsigned processes)
{
	uint64_t error_ns = processes * (EVENT_ERROR_NS + RUSAGE_ERROR_NS);

	return (struct truth){sum_ns - atomic_load(&shared->after_ns) - error_ns,
			      sum_ns - atomic_load(&shared->before_ns) + error_ns};
}

static inline uint64_t rusage_ns(const struct rusage *usage)
{
	return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) *
		       NSEC_PER_SEC +
	       ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}

/* ---- a recording of a name ---- */

/* Also clears the marks. */
static inline bool begin_spec(struct run *run, const struct cpu_variant *variant,
			      const struct target_spec *spec)
{
	struct source_context context = {.interval_ns = NSEC_PER_SEC};

	*run = (struct run){.name = variant->name,
			    .source = cpu_source_new(&variant->options),
			    .targets = target_set_new(spec, 1, "")};
	context.targets = run->targets;
	target_set_scan(run->targets, NULL, NULL);
	if (!open_for_test(run->source, &context, &variant->options.kernel, variant->name)) {
		run->source->ops->close(run->source);
		target_set_free(run->targets);
		return false;
	}
	clear_marks();
	/* As the session does: names are followed from the first read-out on. */
	sample(run);
	target_set_scan(run->targets, NULL, NULL);
	collected = (struct seen){0};
	began_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	open_run = run;
	return true;
}

static inline bool begin_named(struct run *run, const struct cpu_variant *variant, const char *name)
{
	struct target_spec spec = {.kind = TARGET_NAME};

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	return begin_spec(run, variant, &spec);
}

static inline uint64_t lost_of(const struct run *run, const char *name)
{
	for (size_t i = 0; i < run->interval.lost.count; i++)
		if (!strcmp(run->interval.lost.items[i].name, name))
			return run->interval.lost.items[i].value;
	return 0;
}

static inline void look(struct run *run, struct seen *seen)
{
	target_set_scan(run->targets, NULL, NULL);
	sample(run);
	for (size_t i = 0; i < run->interval.cpu.task_count; i++) {
		const struct record_task *task = &run->interval.cpu.tasks[i];

		seen->listed_ns += task->cpu_ns;
		if (may_be_misnamed || (task->process && strstr(task->process, target_name)))
			continue;
		seen->misnamed++;
		tap_note("misnamed: pid %d tid %d uid %u process %s thread %s started %" PRIu64
			 " ns after the test, %" PRIu64 " ns%s",
			 task->pid, task->tid, task->uid, task->process ?: "(none)", task->thread,
			 task->process_start_boot_ns - began_boot_ns, task->cpu_ns,
			 task->exited ? ", exited" : "");
	}
	seen->processes += (unsigned)run->interval.cpu.process_count;
	seen->other_ns += run->interval.cpu.other_ns;
	seen->busy_ns += run->interval.cpu.busy_ns;
	seen->births_untold += lost_of(run, "target_births_untold") +
			       lost_of(run, "target_names_untold") +
			       lost_of(run, "target_argv_unread");
	seen->uids_unsplit += lost_of(run, "cpu_uid_changes_unsplit");
}

static inline uint64_t reap(pid_t pid)
{
	struct rusage usage = {0};

	for (unsigned turns = 1; wait4(pid, NULL, WNOHANG, &usage) == 0; turns++) {
		usleep(1000);
		if (open_run && turns % 20 == 0)
			look(open_run, &collected);
	}
	return rusage_ns(&usage);
}

/* In --cpu iter the kernel side tells of a dead task when RCU has freed it. The test looks once
 * more than needed, so that it also sees a row that should not be there. */
static inline void look_until_settled(struct run *run, struct seen *seen, uint64_t low_ns)
{
	for (int i = 0; i < 60 && seen->listed_ns < low_ns; i++) {
		look(run, seen);
		usleep(50000);
	}
	usleep(100000);
	look(run, seen);
}

static inline void expect(struct run *run, const char *what, struct seen *seen, struct truth truth)
{
	seen->listed_ns += collected.listed_ns;
	seen->other_ns += collected.other_ns;
	seen->busy_ns += collected.busy_ns;
	seen->births_untold += collected.births_untold;
	seen->uids_unsplit += collected.uids_unsplit;
	seen->processes += collected.processes;
	seen->misnamed += may_be_misnamed ? 0 : collected.misnamed;
	open_run = NULL;
	look_until_settled(run, seen, truth.low_ns);
	tap_ok(seen->listed_ns >= truth.low_ns && seen->listed_ns <= truth.high_ns &&
		       !seen->misnamed && !seen->births_untold &&
		       seen->listed_ns + seen->other_ns == seen->busy_ns,
	       "%s: %s: %.3f ms, between %.3f and %.3f, %u misnamed, %u untold", run->name, what,
	       (double)seen->listed_ns / 1e6, (double)truth.low_ns / 1e6,
	       (double)truth.high_ns / 1e6, seen->misnamed, (unsigned)seen->births_untold);
	if (seen->uids_unsplit)
		tap_note("%" PRIu64 " changes of uid were told too late", seen->uids_unsplit);
	end(run);
}
