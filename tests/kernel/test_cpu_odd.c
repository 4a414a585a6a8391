/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that a sampler's authors do not think of (odd_births.h, odd_schedules.h). What the tasks
 * of each ran, by the uids that they ran as, is what the kernel's own control group "cpuacct"
 * counted of them. usage: test_cpu_odd [only NAME] */
/* Runs beside others (22 s) */
#include <sched.h>
#include <sys/mman.h>

#include "cpu_machine.h"
#include "cpu_run.h"
#include "odd_births.h"
#include "odd_schedules.h"
#include "util/resident.h"

static const struct odd {
	const char *name;
	int (*run)(void);
} odds[] = {
	{"vfork and exec", vfork_chain},
	{"a chain of execs", exec_chain},
	{"a chain of execs of threads", exec_of_thread},
	{"one pid again and again", same_tid},
	{"one tid again and again", same_thread_tid},
	{"born in another group", into_cgroup},
	{"uids of a user namespace", user_namespace},
	{"threads with uids of their own", lone_setuid},
	{"a time namespace", time_namespace},
	{"a pid namespace", pid_namespace},
	{"born to die", storm},
	{"a uid of a vfork child", uid_in_vfork},
	{"killed while it ran", killed},
	{"a leader that is dead", zombie_leader},
	{"names by the thousand", names},
	{"SCHED_DEADLINE", deadline},
	{"SCHED_FIFO", fifo},
	{"throttled", throttled},
	{"frozen", frozen},
	{"under ptrace", traced},
	{"under strace", strace_like},
	{"from CPU to CPU", moved},
	{"a poller of io_uring", kernel_poller},
	{"stopped", stopped},
	{"sched_yield", yield},
};

/* Whether this errno says that the kernel has no such thing, or keeps it from root. */
static bool is_lacking(int err)
{
	return err == ENOSYS || err == ENOENT || err == EINVAL || err == EPERM;
}

/* Of a run: its uids' time, and by how much sums of the machine are too high. */
struct taken {
	uint64_t ns, ahead_ns;
};

static void take(struct run *run, struct taken *taken)
{
	sample(run);
	for (unsigned i = 0; i < ODD_UIDS; i++)
		taken->ns += uid_ns(run, odd_uid + i);
	taken->ahead_ns += counter_list_get(&run->interval.lost, "cpu_told_ahead_ns");
	for (size_t i = 0; i < run->interval.lost.count; i++)
		if (strcmp(run->interval.lost.items[i].name, "cpu_missed_switches"))
			tap_note("%s %lu", run->interval.lost.items[i].name,
				 (unsigned long)run->interval.lost.items[i].value);
}

static bool is_near(const struct taken *found, uint64_t truth_ns)
{
	uint64_t slack_ns = NSEC_PER_MSEC / 2 + truth_ns / 500;

	return found->ns < truth_ns + slack_ns + found->ahead_ns && truth_ns < found->ns + slack_ns;
}

static void test_odd(const struct cpu_variant *variant, const struct odd *odd)
{
	struct cpu_group group = make_cpu_group();
	struct taken found = {0};
	uint64_t truth_ns = 0;
	int status = 0, err;
	/* What the child runs in the group before it has its uid. */
	uint64_t *before_ns = mmap(NULL, sizeof(*before_ns), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t in_ns = 0, in_group_ns;
	struct run run;
	pid_t pid;

	if (!group.ok) {
		tap_skip(odd->name, "no control group of its own");
		return;
	}
	if (!begin(&run, variant->name, &variant->options))
		return;
	pid = fork();
	if (!pid) {
		alarm(150); /* with eight times as much to do as there are CPUs 60 were not enough
			     */
		if (!join_cpu_group(&group))
			_exit(EIO);
		in_group_ns = joined_ns(&group, &in_ns);
		if (setresuid(odd_uid, 0, 0))
			_exit(EIO);
		*before_ns = in_group_ns + clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - in_ns;
		_exit(odd->run());
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		take(&run, &found);
		usleep(3000);
	}
	read_group_ns(&group, &truth_ns);
	truth_ns -= *before_ns;
	/* --cpu iter tells of a dead task when the kernel has freed it. The second read-out shows
	 * that the source tells of no task twice. */
	for (int i = 0; i < 50 && (i < 2 || !is_near(&found, truth_ns)); i++) {
		usleep(100000);
		take(&run, &found);
		read_group_ns(&group, &truth_ns);
		truth_ns -= *before_ns;
	}
	err = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	if (err && is_lacking(err))
		tap_skip(odd->name, strerror(err));
	else
		tap_ok(!err && is_near(&found, truth_ns), "%s: %s: %.3f of %.3f ms (%+.3f)%s%s",
		       variant->name, odd->name, (double)found.ns / 1e6, (double)truth_ns / 1e6,
		       ((double)found.ns - (double)truth_ns) / 1e6, err ? ": " : "",
		       err ? strerror(err) : "");
	munmap(before_ns, sizeof(*before_ns));
	remove_cpu_group(&group);
	end(&run);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "only"))
		return odd_main(argc, argv);
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	odd_uid = own_uid(0);
	for (size_t o = 0; o < sizeof(odds) / sizeof(*odds); o++) {
		if (argc > 2 && !strstr(odds[o].name, argv[2]))
			continue;
		for (size_t i = 0; i < CPU_TWINS; i++)
			test_odd(&cpu_twins[i], &odds[o]);
	}
	return tap_done();
}
