/* SPDX-License-Identifier: BSD-2-Clause */
/* A kernel that says it has kprobes, and lets none be registered: a mount namespace whose
 * /sys/bus/event_source/devices names a type of event that is none. Then the tracepoint cap_capable
 * tells of a change of uid, and where that is not there either each switch looks. */
/* Runs beside others (5 s) */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cpu_run.h"
#include "cpu_turn.h"
#include "kernel/load.h"

#define DEVICES "/sys/bus/event_source/devices"
#define ENABLED "/sys/kernel/debug/kprobes/enabled"
#define TURNS   6

static bool has_tracepoint;

/* By the kernel's own symbols: tracefs need not be mounted. */
static bool find_tracepoint(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, " __traceiter_cap_capable\n");
	if (f)
		fclose(f);
	return found;
}

static int write_type(void)
{
	int fd = open(DEVICES "/kprobe/type", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	bool ok = fd >= 0 && write(fd, "987654\n", 7) == 7;

	if (fd >= 0)
		close(fd);
	return ok ? 0 : -errno;
}

static int break_kprobes(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", DEVICES, "tmpfs", 0, NULL) || mkdir(DEVICES "/kprobe", 0755))
		return -errno;
	return write_type();
}

static void test_split(const struct cpu_variant *variant)
{
	static const unsigned ms[2] = {20, 10};
	const uid_t uids[2] = {own_uid(1), own_uid(2)};
	struct uid_truth *truth = uid_truth_new();
	uint64_t found_ns[2];
	char name[80];
	struct run run;

	if (!begin(&run, variant->name, &variant->options))
		return;
	tap_ok(sched_kernel_sees_uids(cpu_source_kernel(run.source)) == has_tracepoint,
	       "%s: opens %s", variant->name,
	       has_tracepoint ? "with the tracepoint in the kprobe's place"
			      : "without the hook that it was to have");
	for (int i = 0; i < TURNS; i++)
		take_turn(truth, uids, ms, !has_tracepoint);
	usleep(300000);
	sample(&run);
	for (int i = 0; i < 2; i++)
		found_ns[i] = uid_ns(&run, uids[i]);
	snprintf(name, sizeof(name), "%s: it is split all the same", variant->name);
	check_split(name, truth, TURNS, found_ns);
	end(&run);
	munmap(truth, sizeof(*truth));
}

/* A kernel in which kprobes can be set and do not run. The setting is the whole machine's: in
 * guests only, and for as long as a source takes to open. */
static void test_disabled(const struct cpu_variant *variant, bool tracepoint)
{
	char byte = 0;
	int fd = open(ENABLED, O_RDWR | O_CLOEXEC);
	struct run run;
	bool opened;

	if (fd < 0 || read(fd, &byte, 1) != 1 || byte != '1' || pwrite(fd, "0", 1, 0) != 1) {
		tap_skip(variant->name, "the kernel has no kprobes, or they are disabled");
		if (fd >= 0)
			close(fd);
		return;
	}
	opened = begin(&run, variant->name, &variant->options);
	tap_ok(pwrite(fd, "1", 1, 0) == 1, "%s: kprobes run again", variant->name);
	close(fd);
	if (!opened)
		return;
	tap_ok(sched_kernel_sees_uids(cpu_source_kernel(run.source)) == tracepoint,
	       "%s: kprobes that do not run are not used", variant->name);
	end(&run);
	if (!begin(&run, variant->name, &variant->options))
		return;
	tap_ok(sched_kernel_sees_uids(cpu_source_kernel(run.source)),
	       "%s: and are used where they run", variant->name);
	end(&run);
}

int main(void)
{
	int err;

	kernel_log_init(false);
	has_tracepoint = find_tracepoint();
	if (tap_is_emulated())
		for (size_t i = 0; i < CPU_TWINS; i++)
			test_disabled(&cpu_twins[i], has_tracepoint);
	err = getuid() ? -EPERM : break_kprobes();
	if (err) {
		tap_skip("a kprobe that cannot be registered", strerror(-err));
		return tap_done();
	}
	/* Without a switch program and without the tracepoint nobody looks. */
	for (size_t i = 0; i < CPU_TWINS; i++)
		if (cpu_twins[i].options.kernel.mode == CPU_MODE_SWITCH || has_tracepoint)
			test_split(&cpu_twins[i]);
	return tap_done();
}
