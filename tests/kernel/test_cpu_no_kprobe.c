/* SPDX-License-Identifier: BSD-2-Clause */
/* A kernel that says it has kprobes, and lets none be registered: a mount namespace whose
 * /sys/bus/event_source/devices names a type of event that is none. Then the tracepoint cap_capable
 * tells of a change of uid, and where that is not there either each switch looks. */
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

/* A switch, for where that is what tells. */
static void let_switch(void)
{
	if (!has_tracepoint)
		usleep(1000);
}

/* 20 ms as the one uid, 10 as the other. */
static void run_turn(uint64_t *truth_ns, uid_t first, uid_t second)
{
	uint64_t at_ns;

	if (setresuid(first, 0, 0))
		_exit(1);
	let_switch();
	burn_ms(20);
	at_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
	let_switch();
	if (setresuid(second, second, second))
		_exit(1);
	let_switch();
	burn_ms(10);
	truth_ns[0] += at_ns;
	truth_ns[1] += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - at_ns;
	_exit(0);
}

static bool is_near(uint64_t found_ns, uint64_t truth_ns)
{
	uint64_t slack_ns = TURNS * (tap_is_emulated() ? 30 : 1) * NSEC_PER_MSEC;

	return found_ns + slack_ns > truth_ns && found_ns < truth_ns + slack_ns;
}

static void test_split(const struct cpu_variant *variant)
{
	uint64_t *truth_ns = mmap(NULL, 2 * sizeof(*truth_ns), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0),
		 found_ns[2];
	uid_t uids[2] = {own_uid(1), own_uid(2)};
	struct run run;

	if (!begin(&run, variant->name, &variant->options))
		return;
	tap_ok(sched_kernel_sees_uids(cpu_source_kernel(run.source)) == has_tracepoint,
	       "%s: opens %s", variant->name,
	       has_tracepoint ? "with the tracepoint in the kprobe's place"
			      : "without the hook that it was to have");
	for (int i = 0; i < TURNS; i++) {
		pid_t pid = fork();

		if (!pid)
			run_turn(truth_ns, uids[0], uids[1]);
		waitpid(pid, NULL, 0);
	}
	usleep(300000);
	sample(&run);
	for (int i = 0; i < 2; i++)
		found_ns[i] = uid_ns(&run, uids[i]);
	tap_ok(truth_ns[1] && is_near(found_ns[0], truth_ns[0]) &&
		       is_near(found_ns[1], truth_ns[1]),
	       "%s: it is split all the same: before setuid %.2f of %.2f ms, after it %.2f of %.2f",
	       variant->name, (double)found_ns[0] / 1e6, (double)truth_ns[0] / 1e6,
	       (double)found_ns[1] / 1e6, (double)truth_ns[1] / 1e6);
	end(&run);
	munmap(truth_ns, 2 * sizeof(*truth_ns));
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
