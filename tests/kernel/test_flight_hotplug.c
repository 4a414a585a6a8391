/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder while a CPU goes offline and comes back: its threads are moved from their CPU
 * amid their runs and amid their waits, and no spell of them is lost without being counted. It
 * takes a CPU from every program of the machine, so only guests run it unasked. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "abi/flight.h"
#include "flight_rig.h"
#include "kernel/flight_kernel.h"
#include "kernel/sched_kernel.h"

#define CYCLES  20
#define SPELLS  32768
#define THREADS 3
#define MOVE_NS 1000 /* the clocks of two CPUs are some 100 ns apart */

static unsigned last_cpu(void)
{
	return (unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1;
}

static bool set_online(bool online)
{
	char path[80];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", last_cpu());
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, online ? "1" : "0", 1) == 1;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* The kernel drops this when the CPU goes. */
static void pin_to_last(pid_t pid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(last_cpu(), &set);
	sched_setaffinity(pid, sizeof(set), &set);
}

/* One that sleeps often, one that wants the CPU for longer than a tick, and one that is never
 * asleep: the last two have the CPU in turns. */
static const struct kind {
	const char *name;
	unsigned nap_us;
	uint64_t burst_ns;
} kinds[THREADS] = {
	{"sleeps", 700, 300000}, {"works", 2000, 15000000}, {"always runs", 0, 10 * NSEC_PER_SEC}};

struct watched {
	pid_t pid;
	int index;
	struct probe_standing before, after;
	struct flight_thread row;
};

static bool begin(struct flight_kernel *kernel, const struct kind *kind, struct watched *watched)
{
	struct flight_copy copy;

	watched->pid = fork();
	if (!watched->pid)
		work_on(false, kind->nap_us, kind->burst_ns);
	pin_to_last(watched->pid);
	usleep(20000);
	watched->index =
		flight_kernel_watch(kernel, watched->pid, watched->pid, FLIGHT_MOST_BLOCKS);
	usleep(50000);
	if (watched->index < 0 || !stop(watched->pid, &watched->before) ||
	    flight_kernel_read(kernel, (uint32_t)watched->index, 0, 0, &copy))
		return false;
	watched->row = copy.thread;
	return true;
}

static void check(struct flight_kernel *kernel, const char *name, struct watched *watched)
{
	uint64_t begin_ns = watched->before.after_mono_ns, end_ns = watched->after.after_mono_ns;
	uint64_t ran_ns = watched->after.cpu_ns - watched->before.cpu_ns;
	static struct spell spells[SPELLS];
	struct ledger ledger = {0};
	struct flight_copy copy;
	unsigned missed, on_last = 0, elsewhere = 0, moves = 0;
	int64_t more_ns, waited_ns;
	int cpu = -1;
	size_t count = 0;

	if (!tap_ok(!flight_kernel_spells(kernel, (uint32_t)watched->index, begin_ns, end_ns,
					  spells, SPELLS, &count) &&
			    !flight_kernel_read(kernel, (uint32_t)watched->index, begin_ns, end_ns,
						&copy),
		    "%s: read", name))
		return;
	ledger = add_up(spells, count, begin_ns);
	missed = copy.thread.missed - watched->row.missed;
	ran_ns += copy.thread.uncharged_ns - watched->row.uncharged_ns;
	for (size_t i = 0; i < count; i++) {
		if (spells[i].state != SPELL_RUNNING)
			continue;
		on_last += spells[i].cpu == (int)last_cpu();
		elsewhere += spells[i].cpu != (int)last_cpu();
		moves += cpu >= 0 && spells[i].cpu != cpu;
		cpu = spells[i].cpu;
	}
	more_ns = (int64_t)(ran_ns - ledger.ns[SPELL_RUNNING]);
	waited_ns = (int64_t)(ledger.ns[SPELL_RUNNABLE] -
			      (watched->after.delay_ns - watched->before.delay_ns));
	tap_note("%s: %zu spells, %u runs on the CPU that goes and %u elsewhere, %zu times "
		 "preempted; "
		 "%u gaps, %u placed, %lu ns unknown",
		 name, count, on_last, elsewhere, ledger.preempted, missed,
		 copy.thread.placed - watched->row.placed, (unsigned long)ledger.ns[SPELL_UNKNOWN]);
	tap_ok(ledger.whole && ledger.end_ns == end_ns, "%s: the spells fill the window", name);
	tap_ok(on_last && elsewhere, "%s: it ran on that CPU, and elsewhere while that was gone",
	       name);
	tap_ok((missed != 0) == (ledger.ns[SPELL_UNKNOWN] != 0),
	       "%s: what is unknown is counted: %u gaps", name, missed);
	/* Each switch-out is the thread's own, and is shown on each kernel: a CPU that goes makes
	 * no gap. A thread that comes from another CPU has not begun its run before it left that
	 * one, by whose clock that was. */
	tap_ok(!missed && more_ns >= 0 && more_ns <= moves * MOVE_NS,
	       "%s: ran %lu ns, by the kernel's sums %+ld, on %u moves", name,
	       (unsigned long)ledger.ns[SPELL_RUNNING], (long)more_ns, moves);
	/* Not judged: of a thread that moves the kernel counts by the clocks of two run queues,
	 * each as of its last update, up to 0.2 ms a move apart on an emulator; and one that is
	 * moved while it sleeps, and was not yet taken off its queue (Linux 6.12), as queued from
	 * then on. */
	tap_note("%s: it waited for a CPU, %+ld ns to the kernel's sum", name, (long)waited_ns);
}

static void test_cycles(struct flight_kernel *kernel, const char *variant)
{
	struct watched watched[THREADS] = {{0}};
	unsigned begun = 0, gone = 0, back = 0;
	char name[64];

	for (int i = 0; i < THREADS; i++)
		begun += begin(kernel, &kinds[i], &watched[i]);
	tap_ok(begun == THREADS, "%s: %u of %u threads are watched", variant, begun, THREADS);
	for (int i = 0; i < THREADS; i++)
		kill(watched[i].pid, SIGCONT);
	for (int i = 0; i < CYCLES; i++) {
		gone += set_online(false);
		usleep(20000);
		back += set_online(true);
		for (int n = 0; n < THREADS; n++)
			pin_to_last(watched[n].pid);
		usleep(20000);
	}
	set_online(true);
	tap_ok(gone == CYCLES && back == CYCLES, "%s: the CPU went %u times and came %u", variant,
	       gone, back);
	for (int i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "%s: %s", variant, kinds[i].name);
		if (tap_ok(watched[i].index >= 0 && stop(watched[i].pid, &watched[i].after),
			   "%s: it is stopped", name) &&
		    begun == THREADS)
			check(kernel, name, &watched[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		kill(watched[i].pid, SIGKILL);
		waitpid(watched[i].pid, NULL, 0);
		if (watched[i].index >= 0)
			flight_kernel_unwatch(kernel, (uint32_t)watched[i].index);
	}
	usleep(2000);
	flight_kernel_tidy(kernel);
}

static void test_variant(enum program_variant variant)
{
	struct sched_kernel_options options = {.mode = CPU_MODE_SWITCH,
					       .variant = variant,
					       .loopers = true,
					       .flight = true,
					       .max_watched = 64};
	struct looper_kernel_options any = {0};
	struct looper_kernel *loopers = NULL;
	struct flight_kernel *kernel = NULL;
	char reason[160] = "";
	struct sched_kernel *sched = sched_kernel_open(&options, reason, sizeof(reason));

	if (sched)
		loopers = looper_kernel_open(sched, &any, reason, sizeof(reason));
	if (loopers && !looper_kernel_hook_wakeups(loopers))
		kernel = flight_kernel_open(sched, loopers);
	if (tap_ok(kernel, "%s: the programs load %s", program_variant_name(variant), reason))
		test_cycles(kernel, program_variant_name(variant));
	flight_kernel_close(kernel);
	looper_kernel_close(loopers);
	sched_kernel_close(sched);
}

int main(void)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", last_cpu());
	if (!tap_is_emulated() && !getenv("JANKSCOPE_TEST_HOTPLUG")) {
		tap_skip("flight, CPUs offline",
			 "takes a CPU from all programs; guests run it, and "
			 "JANKSCOPE_TEST_HOTPLUG=1");
		return tap_done();
	}
	if (access(path, W_OK)) {
		tap_skip("flight, CPUs offline", "the last CPU cannot be taken down");
		return tap_done();
	}
	test_variant(VARIANT_TP_BTF);
	test_variant(VARIANT_RAW_TP);
	return tap_done();
}
