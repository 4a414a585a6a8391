/* SPDX-License-Identifier: BSD-2-Clause */
/* CPUs that go offline and come back: no idle and no busy of a CPU that is not there, whatever it
 * did before. It takes a CPU from every program of the machine, so only guests run it unasked. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cpu_open.h"
#include "cpu_run.h"
#include "util/resident.h"

#define CYCLES 20

/* What the source said, and what the test did to the CPU. */
struct story {
	unsigned offline_events, online_events, wrong_times;
	uint64_t told_boot_ns;                 /* when the source was read out last */
	uint64_t begun_boot_ns, ended_boot_ns; /* of the last change */
	unsigned cpu;
};

static void on_record(void *ctx, struct record *record)
{
	struct story *story = ctx;
	const struct record_event *event = record->event;
	bool online;

	if (record->type != RECORD_EVENT || strncmp(event->event, "cpu_", 4))
		return;
	online = !strcmp(event->event, "cpu_online");
	story->online_events += online;
	story->offline_events += !online;
	story->wrong_times += (unsigned)event->keys[0].value != story->cpu ||
			      (uint64_t)event->keys[1].value < story->told_boot_ns ||
			      (uint64_t)event->keys[1].value > story->ended_boot_ns;
}

static bool set_online(struct story *story, bool online)
{
	char path[80];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", story->cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	story->begun_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	ok = fd >= 0 && write(fd, online ? "1" : "0", 1) == 1;
	story->ended_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (fd >= 0)
		close(fd);
	return ok;
}

static pid_t start_hog(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			spin_hint();
	}
	return pid;
}

struct totals {
	uint64_t online_ns, busy_ns, idle_ns, capacity_ns;
	unsigned absent, too_much;
};

static void add(struct run *run, struct story *story, struct totals *totals)
{
	const struct record_cpu *cpu = &run->interval.cpu;
	uint64_t slack_ns;

	sample(run);
	story->told_boot_ns = story->ended_boot_ns;
	/* On an emulator one switch takes a millisecond. A CPU that is not there would be idle for
	 * all of the time. */
	slack_ns = cpu->online_ns / (tap_is_emulated() ? 5 : 20) + 5 * NSEC_PER_MSEC;
	totals->online_ns += cpu->online_ns;
	totals->busy_ns += cpu->busy_ns;
	totals->idle_ns += cpu->idle_ns.value;
	totals->capacity_ns += (uint64_t)sysconf(_SC_NPROCESSORS_CONF) * run->interval.dur_ns;
	totals->absent += !cpu->idle_ns.present;
	totals->too_much += cpu->idle_ns.value + cpu->busy_ns > cpu->online_ns + slack_ns;
}

static void test_cycles(const char *name, const struct cpu_options *options, bool busy)
{
	struct story story = {.cpu = (unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1};
	struct source_context context = {
		.interval_ns = NSEC_PER_SEC, .emit = on_record, .emit_ctx = &story};
	struct run run = {.name = name,
			  .source = source_for_test(options),
			  .targets = target_set_new(NULL, 0, "")};
	struct totals totals = {0};
	uint64_t least_off_ns = 0, most_off_ns = 0, begun_ns;
	pid_t hogs[2] = {busy ? start_hog() : 0, busy ? start_hog() : 0};

	context.targets = run.targets;
	if (!open_for_test(run.source, &context, &options->kernel, name))
		return;
	for (int i = 0; i < CYCLES; i++) {
		if (!set_online(&story, false))
			break;
		begun_ns = story.begun_boot_ns;
		least_off_ns -= story.ended_boot_ns;
		usleep(20000);
		/* Each kind of interval: within a spell, around one end of it, around several. */
		if (i % 4 != 3)
			add(&run, &story, &totals);
		if (!set_online(&story, true))
			break;
		least_off_ns += story.begun_boot_ns;
		most_off_ns += story.ended_boot_ns - begun_ns;
		usleep(20000);
		if (i % 2)
			add(&run, &story, &totals);
	}
	set_online(&story, true);
	add(&run, &story, &totals);
	for (int i = 0; i < 2 && busy; i++) {
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	tap_ok(story.offline_events == CYCLES && story.online_events == CYCLES &&
		       !story.wrong_times,
	       "%s: %u offline and %u online events of %u, %u with a wrong time", name,
	       story.offline_events, story.online_events, CYCLES, story.wrong_times);
	tap_ok(totals.capacity_ns - totals.online_ns >= least_off_ns &&
		       totals.capacity_ns - totals.online_ns <= most_off_ns,
	       "%s: %.2f ms offline, by the test's own clock %.2f to %.2f", name,
	       (double)(totals.capacity_ns - totals.online_ns) / 1e6, (double)least_off_ns / 1e6,
	       (double)most_off_ns / 1e6);
	tap_ok(!totals.absent && !totals.too_much,
	       "%s: no interval has more busy + idle than online time", name);
	/* Without interrupts, which are in neither: an emulator has many. */
	tap_ok(tap_is_emulated() || totals.busy_ns + totals.idle_ns > totals.online_ns / 100 * 97,
	       "%s: busy %.1f + idle %.1f of %.1f ms online", name, (double)totals.busy_ns / 1e6,
	       (double)totals.idle_ns / 1e6, (double)totals.online_ns / 1e6);
	end(&run);
}

int main(void)
{
	char name[64], path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online",
		 sysconf(_SC_NPROCESSORS_CONF) - 1);
	if (!tap_is_emulated() && !getenv("JANKSCOPE_TEST_HOTPLUG")) {
		tap_skip("CPUs offline", "takes a CPU from all programs; guests run it, and "
					 "JANKSCOPE_TEST_HOTPLUG=1");
		return tap_done();
	}
	if (access(path, W_OK)) {
		tap_skip("CPUs offline", "the last CPU cannot be taken down");
		return tap_done();
	}
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	for (size_t i = 0; i < CPU_TWINS; i++) {
		for (int busy = 0; busy < 2; busy++) {
			snprintf(name, sizeof(name), "%s, %s", cpu_twins[i].name,
				 busy ? "busy" : "idle");
			test_cycles(name, &cpu_twins[i].options, busy);
		}
	}
	return tap_done();
}
