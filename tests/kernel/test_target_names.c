/* SPDX-License-Identifier: BSD-2-Clause */
/* -p NAME: the time of every process of that name, and no other's, however short they live. The
 * truth is each process's own: wait4's rusage of the child, which the kernel takes from the same
 * sums (cputime_adjust scales user + system to sum_exec_runtime, cut to microseconds), less what
 * the process ran before it took the name. It reads its own clock just before and just after
 * execve, prctl or setresuid; the event lies between, and so must what is listed. */
/* Runs beside others (20 s) */
#include "target_rig.h"
#include "util/resident.h"

/* ---- the loads ---- */

#define SHORT_RUNS 40

static pid_t start(const char *name, const char *role, const char *number)
{
	pid_t pid = fork();

	if (!pid)
		exec_role(name, role, number);
	return pid;
}

static uint64_t run_as(const char *name, const char *role, const char *number)
{
	return reap(start(name, role, number));
}

static void test_short_processes(const struct cpu_variant *variant, const char *spec,
				 const char *what)
{
	struct seen seen = {0};
	uint64_t sum_ns = 0;
	struct run run;

	if (!begin_named(&run, variant, spec))
		return;
	for (int i = 0; i < SHORT_RUNS; i++) {
		sum_ns += run_as(target_name, "burn", "2");
		run_as(other_name, "burn", "1");
	}
	expect(&run, what, &seen, truth_of(sum_ns, SHORT_RUNS));
	tap_ok(seen.processes >= SHORT_RUNS, "%s: %s: %u of %d processes", variant->name, what,
	       seen.processes, SHORT_RUNS);
}

/* A target that forks children which never exec, some of which fork again: all are of its name. The
 * children of another program are not. */
static void test_forks(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	uint64_t sum_ns;
	struct run run;
	pid_t target, other;

	if (!begin_named(&run, variant, target_name))
		return;
	target = start(target_name, "forks", "60");
	other = start(other_name, "forks", "60");
	/* rusage of the parent holds that of its children, which it waited for. */
	sum_ns = reap(target);
	reap(other);
	expect(&run, "forked children of the name", &seen, truth_of(sum_ns, 1 + 75));
}

/* other, target, other, target: each part is what it is. */
static void test_exec_chain(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	struct truth truth;
	struct run run;
	pid_t pid;

	if (!begin_named(&run, variant, target_name))
		return;
	pid = fork();
	if (!pid) {
		burn_ms(20);
		exec_role(other_name, "chain", "3");
	}
	reap(pid);
	truth = (struct truth){atomic_load(&shared->after_ns) - 4 * EVENT_ERROR_NS,
			       (uint64_t)-atomic_load(&shared->before_ns) + 4 * EVENT_ERROR_NS};
	expect(&run, "a chain of execs", &seen, truth);
}

/* prctl in a process of one thread. What it is called later does not matter: it took the name. */
static void test_renamed(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	struct run run;
	uint64_t sum_ns;
	pid_t pid;

	if (!begin_named(&run, variant, target_name))
		return;
	pid = fork();
	if (!pid) {
		burn_ms(30);
		atomic_store(&shared->before_ns, clock_now_ns(CLOCK_PROCESS_CPUTIME_ID));
		prctl(PR_SET_NAME, target_name);
		atomic_store(&shared->after_ns, clock_now_ns(CLOCK_PROCESS_CPUTIME_ID));
		burn_ms(30);
		prctl(PR_SET_NAME, "renamed-again");
		burn_ms(10);
		_exit(0);
	}
	sum_ns = reap(pid);
	may_be_misnamed = true; /* its argv[0] is this test's */
	expect(&run, "renamed by prctl", &seen, truth_of(sum_ns, 1));
	may_be_misnamed = false;
}

static void test_zygote(const struct cpu_variant *variant, uid_t uid)
{
	struct target_spec spec = {.kind = TARGET_UID, .uid = uid};
	struct seen seen = {0};
	uint64_t sum_ns = 0;
	struct run run;

	if (!begin_spec(&run, variant, &spec))
		return;
	for (int i = 0; i < 12; i++) {
		pid_t pid = fork();

		if (!pid) {
			burn_ms(20);
			atomic_fetch_add(&shared->before_ns,
					 clock_now_ns(CLOCK_PROCESS_CPUTIME_ID));
			if (setresuid(uid, uid, uid))
				_exit(1);
			atomic_fetch_add(&shared->after_ns, clock_now_ns(CLOCK_PROCESS_CPUTIME_ID));
			prctl(PR_SET_NAME, target_name);
			burn_ms(10);
			_exit(0);
		}
		sum_ns += reap(pid);
	}
	may_be_misnamed = true;
	expect(&run, "-u: fork, setresuid, rename", &seen, truth_of(sum_ns, 12));
	may_be_misnamed = false;
}

static void *exec_in_thread(void *number)
{
	burn_ms(50); /* more than its leader, so that the two sums cannot pass for each other */
	exec_role(target_name, "burn", number);
	return NULL;
}

/* A thread other than the leader runs the target: it takes the leader's place. */
static void test_thread_execs(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	struct run run;
	uint64_t sum_ns;
	pid_t pid;

	if (!begin_named(&run, variant, target_name))
		return;
	pid = fork();
	if (!pid) {
		pthread_t thread;

		burn_ms(20);
		pthread_create(&thread, NULL, exec_in_thread, "30");
		for (;;)
			pause();
	}
	sum_ns = reap(pid);
	expect(&run, "a thread that calls execve", &seen, truth_of(sum_ns, 1));
}

static void *burn_thread(void *unused)
{
	burn_ms(40);
	return NULL;
}

/* The main thread of a target ends and leaves its threads behind. */
static void test_leader_gone(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	struct run run;
	uint64_t sum_ns;

	if (!begin_named(&run, variant, target_name))
		return;
	sum_ns = run_as(target_name, "leader", "0");
	expect(&run, "threads that outlive their leader", &seen, truth_of(sum_ns, 1));
}

static int in_namespace(void *unused)
{
	exec_role(target_name, "burn", "30");
	return 0;
}

/* In a pid namespace of its own, where it is pid 1. */
static void test_pid_namespace(const struct cpu_variant *variant)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct seen seen = {0};
	struct run run;
	uint64_t sum_ns;
	pid_t pid;

	if (!begin_named(&run, variant, target_name))
		return;
	pid = clone(in_namespace, stack + sizeof(stack), CLONE_NEWPID | SIGCHLD, NULL);
	if (pid < 0) {
		tap_skip(variant->name, "no pid namespaces");
		end(&run);
		return;
	}
	sum_ns = reap(pid);
	expect(&run, "in a pid namespace", &seen, truth_of(sum_ns, 1));
}

/* The pid of a target, at once used by another program, and the other way round. */
static void test_pid_reuse(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	uint64_t sum_ns = 0;
	unsigned reused = 0;
	struct run run;

	if (access("/proc/sys/kernel/ns_last_pid", W_OK)) {
		tap_skip(variant->name, "no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)");
		return;
	}
	if (!begin_named(&run, variant, target_name))
		return;
	for (int i = 0; i < 20; i++) {
		pid_t first = start(target_name, "burn", "3"), second;

		sum_ns += reap(first);
		set_next_tid(first);
		second = start(other_name, "burn", "5");
		reused += second == first;
		reap(second);
		set_next_tid(first);
		sum_ns += run_as(target_name, "burn", "3");
	}
	expect(&run, "pids that are used again", &seen, truth_of(sum_ns, 40));
	tap_ok(reused > 0, "%s: %u of 20 pids could be had again", variant->name, reused);
}

/* Beside a storm of processes of another name. */
static void test_storm(const struct cpu_variant *variant)
{
	struct seen seen = {0};
	uint64_t sum_ns = 0;
	struct run run;
	pid_t storm;

	if (!begin_named(&run, variant, target_name))
		return;
	storm = fork();
	if (!storm)
		for (;;) {
			pid_t pid = fork();

			if (!pid)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
	for (int i = 0; i < 100; i++) {
		sum_ns += run_as(target_name, "burn", "1");
		if (i % 10 == 9)
			look(&run, &seen);
	}
	kill(storm, SIGKILL);
	reap(storm);
	expect(&run, "beside a fork storm", &seen, truth_of(sum_ns, 100));
}

/* ---- what the programs do ---- */

static int run_forks(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			pid_t again = i % 4 ? -1 : fork();

			if (again > 0)
				waitpid(again, NULL, 0);
			burn_ms(1);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* The marks are sums here: after_ns of the target's parts as its main sees them, before_ns (less
 * than 0) of what lies between the others'. */
static int run_chain(unsigned left, uint64_t began_ns)
{
	bool is_other = left % 2;
	char next[12];

	if (is_other && left < 3)
		atomic_fetch_sub(&shared->before_ns, began_ns);
	burn_ms(is_other ? 40 : 30);
	if (!is_other)
		atomic_fetch_add(&shared->after_ns,
				 clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns);
	if (!left) {
		/* to the very end, and a bit of exit that nobody reads */
		atomic_fetch_sub(&shared->before_ns,
				 clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) + 2 * NSEC_PER_MSEC);
		return 0;
	}
	snprintf(next, sizeof(next), "%u", left - 1);
	exec_role(is_other ? target_name : other_name, "chain", next);
	return 1;
}

static int run_role(const char *name, const char *role, const char *number)
{
	uint64_t began_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	unsigned n = (unsigned)atoi(number);
	pthread_t thread;

	if (!strcmp(role, "chain"))
		return run_chain(n, began_ns);
	if (!strcmp(name, target_name))
		atomic_fetch_add(&shared->after_ns, began_ns);
	if (!strcmp(role, "forks"))
		return run_forks(n);
	if (!strcmp(role, "leader")) {
		pthread_create(&thread, NULL, burn_thread, NULL);
		pthread_create(&thread, NULL, burn_thread, NULL);
		burn_ms(5);
		pthread_exit(NULL);
	}
	burn_ms(n);
	return 0;
}

static bool map_shared(void)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/shared", work_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(*shared)))
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared != MAP_FAILED;
}

static void own_names(pid_t pid)
{
	/* comm holds 15 bytes */
	snprintf(target_name, sizeof(target_name), "jt%d", pid);
	snprintf(other_name, sizeof(other_name), "jo%d", pid);
	snprintf(glob, sizeof(glob), "jt%d*", pid);
}

int main(int argc, char **argv)
{
	const char *own = getenv("JANKSCOPE_TEST_DIR"), *pid = getenv("JANKSCOPE_TEST_PID");
	char text[16], path[96];

	if (argc == 3 && own && pid) {
		snprintf(work_dir, sizeof(work_dir), "%s", own);
		own_names((pid_t)atoi(pid));
		return map_shared() ? run_role(argv[0], argv[1], argv[2]) : 1;
	}
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	if (!mkdtemp(work_dir) || !map_shared())
		return 1;
	own_names(getpid());
	snprintf(text, sizeof(text), "%d", getpid());
	setenv("JANKSCOPE_TEST_DIR", work_dir, 1);
	setenv("JANKSCOPE_TEST_PID", text, 1);
	chmod(work_dir, 0755);
	make_program(target_name);
	make_program(other_name);
	for (size_t i = 0; i < CPU_TWINS; i++) {
		test_short_processes(&cpu_twins[i], target_name, "short processes by name");
		test_short_processes(&cpu_twins[i], glob, "short processes by glob");
		test_forks(&cpu_twins[i]);
		test_exec_chain(&cpu_twins[i]);
		test_renamed(&cpu_twins[i]);
		test_zygote(&cpu_twins[i], own_uid(3));
		test_thread_execs(&cpu_twins[i]);
		test_leader_gone(&cpu_twins[i]);
		test_pid_namespace(&cpu_twins[i]);
		test_pid_reuse(&cpu_twins[i]);
		test_storm(&cpu_twins[i]);
	}
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", work_dir,
			 i == 0   ? target_name
			 : i == 1 ? other_name
				  : "shared");
		unlink(path);
	}
	rmdir(work_dir);
	return tap_done();
}
