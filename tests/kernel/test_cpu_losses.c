/* SPDX-License-Identifier: BSD-2-Clause */
/* Every way in which CPU accounting can lose something is reached, counted, and the totals stay
 * right: maps made tiny by the options that exist for this. */
/* Runs beside others (19 s) */
#include <bpf/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "cpu_run.h"
#include "kernel/sched_private.h"
#include "tap.h"
#include "util/resident.h"

static bool begin_with(struct run *run, const char *name, const struct sched_kernel_options *kernel)
{
	const struct cpu_options options = {.kernel = *kernel};

	return begin(run, name, &options);
}

/* Steal is told in ticks of 10 ms: in 2 s of two CPUs they are a quarter of a per cent. Where no
 * sum of the machine is judged nothing waits for that. */
static void read_out(struct run *run)
{
	uint64_t passed_ns = clock_now_ns(CLOCK_MONOTONIC) - run->begin_ns;

	if (passed_ns < 2 * NSEC_PER_SEC && !tap_is_emulated())
		usleep((unsigned)((2 * NSEC_PER_SEC - passed_ns) / 1000));
	/* A CPU whose last switch was not shown is put right at its next one: make one on each. */
	for (int round = 0; round < 2; round++) {
		cpu_set_t all, one;

		sched_getaffinity(0, sizeof(all), &all);
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			if (CPU_ISSET(cpu, &all) && !sched_setaffinity(0, sizeof(one), &one))
				usleep(1000);
		}
		sched_setaffinity(0, sizeof(all), &all);
	}
	sample(run);
}

static uint64_t lost(const struct run *run, const char *name)
{
	return counter_list_get(&run->interval.lost, name);
}

static uint64_t tid_ns(const struct run *run, pid_t tid)
{
	for (size_t i = 0; i < run->interval.cpu.task_count; i++)
		if (run->interval.cpu.tasks[i].tid == tid)
			return run->interval.cpu.tasks[i].cpu_ns;
	return 0;
}

/* A child of a uid of its own that burns and ends. */
static void burn_as(uid_t uid, unsigned ms)
{
	pid_t pid = fork();

	if (!pid) {
		if (setuid(uid))
			_exit(1);
		burn_ms(ms);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* What all read-outs of a run have told of the machine. */
struct machine_sums {
	uint64_t used_ns, online_ns, skew_ns;
	bool idle;
};

static struct machine_sums machine_sums_add(struct machine_sums sums, const struct run *run)
{
	const struct record_cpu *cpu = &run->interval.cpu;

	sums.used_ns += cpu->busy_ns + cpu->idle_ns.value;
	sums.online_ns += cpu->online_ns;
	/* What is read while the read-out waits for a CPU itself is younger than the interval's
	 * end. */
	sums.skew_ns += run->sample_ns * cpu->online_cpus;
	sums.idle |= cpu->idle_ns.present;
	return sums;
}

/* Nothing is counted twice. That nothing is missing is held against the time of our own tasks: on a
 * busy machine per cents of all time are charged to nobody. early_ns: what may have run before the
 * first interval began and is in it. */
static bool machine_closes(const struct machine_sums *sums, uint64_t early_ns)
{
	tap_note("busy + idle %.1f of %.1f ms, %.1f may be early, %.1f late",
		 (double)sums->used_ns / 1e6, (double)sums->online_ns / 1e6, (double)early_ns / 1e6,
		 (double)sums->skew_ns / 1e6);
	return sums->idle && (double)sums->used_ns < 1.01 * (double)sums->online_ns +
							     (double)(sums->skew_ns + early_ns);
}

/* Processes that sleep and wake until they are killed, so that each has its slot. */
static void start_sleepers(pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		pids[i] = fork();
		if (!pids[i])
			for (;;)
				usleep(50000);
	}
}

static void end_sleepers(const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static void test_task_map_full(const char *name, bool hash)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH,
						    .test_task_slots = 4,
						    .test_hash_slots = 4,
						    .test_hash = hash};
	struct machine_sums sums = {0};
	pid_t sleepers[12];
	struct run run;

	if (!begin_with(&run, name, &kernel))
		return;
	/* On a small machine too there are more than four that run before the one that counts. */
	start_sleepers(sleepers, 8);
	usleep(200000);
	burn_as(own_uid(0), 300);
	usleep(50000);
	read_out(&run);
	sums = machine_sums_add(sums, &run);
	/* A task of the system that died just before may have left its slot to the one that burnt;
	 * it holds no other. */
	for (int i = 0; i < 4 && run.interval.cpu.overflow_ns <= 250 * NSEC_PER_MSEC; i++) {
		start_sleepers(sleepers + 8, 4);
		burn_as(own_uid(0), 300);
		usleep(50000);
		read_out(&run);
		sums = machine_sums_add(sums, &run);
		end_sleepers(sleepers + 8, 4);
	}
	end_sleepers(sleepers, 8);
	tap_ok(lost(&run, "cpu_task_map_full") > 0, "%s: counted (%lu)", name,
	       (unsigned long)lost(&run, "cpu_task_map_full"));
	tap_ok(run.interval.cpu.overflow_ns > 250 * NSEC_PER_MSEC,
	       "%s: the time is in the overflow row", name);
	tap_ok(uid_ns(&run, own_uid(0)) >= 300 * NSEC_PER_MSEC &&
		       uid_ns(&run, own_uid(0)) < 400 * NSEC_PER_MSEC,
	       "%s: its uid has it (%.1f of 300 ms)", name, (double)uid_ns(&run, own_uid(0)) / 1e6);
	/* A slice without a slot counts where it ends, from when the programs were attached. */
	tap_ok(machine_closes(&sums, run.open_ns * run.interval.cpu.online_cpus),
	       "%s: the machine's sum still closes", name);
	end(&run);
}

static uint64_t schedstat_ns(pid_t pid)
{
	unsigned long long cpu_ns = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%llu", &cpu_ns) != 1)
		cpu_ns = 0;
	if (file)
		fclose(file);
	return cpu_ns;
}

/* A task that found no room and finds some later: its slices are not counted in both places. */
static void test_room_again(void)
{
	const struct sched_kernel_options kernel = {
		.mode = CPU_MODE_SWITCH, .test_hash_slots = 64, .test_hash = true};
	const uid_t uid = own_uid(0);
	pid_t sleepers[150], burner;
	struct run run;
	uint64_t truth_ns, measured_ns;

	if (!begin_with(&run, "room again", &kernel))
		return;
	start_sleepers(sleepers, 150);
	usleep(200000);
	burner = fork();
	if (!burner) {
		if (setuid(uid))
			_exit(1);
		for (int i = 0; i < 60; i++) { /* slices before the room, and after it */
			burn_ms(5);
			usleep(5000);
		}
		for (;;)
			pause();
	}
	usleep(250000);
	end_sleepers(sleepers, 150);
	do {
		truth_ns = schedstat_ns(burner);
		usleep(100000);
	} while (truth_ns < 300 * NSEC_PER_MSEC || schedstat_ns(burner) != truth_ns);
	read_out(&run);
	measured_ns = uid_ns(&run, own_uid(0));
	tap_ok(lost(&run, "cpu_task_map_full") > 0 &&
		       measured_ns > truth_ns / 100 * (tap_is_emulated() ? 90 : 99) &&
		       measured_ns < truth_ns / 100 * 101,
	       "room again: a task is counted once (%.1f of %.1f ms)", (double)measured_ns / 1e6,
	       (double)truth_ns / 1e6);
	kill(burner, SIGKILL);
	waitpid(burner, NULL, 0);
	end(&run);
}

static void test_overflow_map_full(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH,
						    .test_task_slots = 1,
						    .test_hash_slots = 1,
						    .test_overflow_uids = 1};
	struct run run;

	if (!begin_with(&run, "overflow map full", &kernel))
		return;
	burn_as(own_uid(0), 50);
	burn_as(own_uid(1), 50);
	read_out(&run);
	tap_ok(lost(&run, "cpu_overflow_map_full_ns") > 40 * NSEC_PER_MSEC,
	       "overflow map full: the lost nanoseconds are counted (%.1f ms)",
	       (double)lost(&run, "cpu_overflow_map_full_ns") / 1e6);
	end(&run);
}

static void *burn_one_ms(void *tid)
{
	*(pid_t *)tid = (pid_t)syscall(SYS_gettid);
	burn_ms(1);
	return NULL;
}

static pid_t run_thread(void)
{
	pthread_t thread;
	pid_t tid = 0;

	if (!pthread_create(&thread, NULL, burn_one_ms, &tid))
		pthread_join(thread, NULL);
	return tid;
}

static void test_death_ring_full(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH,
						    .test_death_ring_bytes = 4096};
	struct machine_sums sums = {0};
	struct run run;
	uint64_t exited = 0, cpu_ns = 0, reused;

	if (!begin_with(&run, "death ring full", &kernel))
		return;
	for (int i = 0; i < 200; i++)
		run_thread();
	usleep(20000);
	read_out(&run);
	for (size_t i = 0; i < run.interval.cpu.task_count; i++) {
		const struct record_task *task = &run.interval.cpu.tasks[i];

		if (task->pid == getpid() && task->tid != getpid() && task->exited) {
			exited++;
			cpu_ns += task->cpu_ns;
		}
	}
	tap_ok(lost(&run, "cpu_death_ring_full") > 0, "death ring full: counted (%lu)",
	       (unsigned long)lost(&run, "cpu_death_ring_full"));
	/* Other tests may set which tid is next, and so give ours away before the read-out: these
	 * deaths are counted, and their time is the overflow row's. */
	reused = lost(&run, "cpu_dead_slot_reused");
	if (reused)
		cpu_ns += run.interval.cpu.overflow_ns;
	tap_ok(exited <= 200 && exited + reused >= 200 && cpu_ns > 200 * NSEC_PER_MSEC,
	       "death ring full: the slots still told of %lu of 200 deaths (%.1f ms), %lu tids had "
	       "another task",
	       (unsigned long)exited, (double)cpu_ns / 1e6, (unsigned long)reused);
	sums = machine_sums_add(sums, &run);
	tap_ok(machine_closes(&sums, 0), "death ring full: the machine's sum closes");
	end(&run);
}

/* A change of the uid that finds no room in the ring costs the split of what the task has run since
 * the last read-out, which is the new uid's then, and no more: what comes after is the new uid's in
 * any case. The hook on credentials is all that shows the change where the switch program does not
 * look. */
static void test_uid_ring_full(void)
{
	const struct sched_kernel_options kernel = {
		.mode = CPU_MODE_SWITCH, .variant = VARIANT_RAW_TP, .test_death_ring_bytes = 4096};
	struct run run;
	/* what the process itself has run: when it takes the uid, and until its longest slice ends
	 */
	struct {
		uint64_t before_ns, longest_ns;
	} *own =
		mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rusage usage = {0};
	const uid_t uid = own_uid(0);
	uint64_t new_ns, after_ns;
	pid_t pid;

	if (!begin_with(&run, "uid, ring full", &kernel))
		return;
	for (int i = 0; i < 200; i++)
		run_thread();
	pid = fork();
	if (!pid) {
		burn_ms(50);
		usleep(1000); /* its slot has the old uid */
		own->before_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (setuid(uid))
			_exit(1);
		for (int i = 0; i < 30; i++) {
			uint64_t slice_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

			burn_ms(10);
			usleep(1000);
			slice_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - slice_ns;
			if (slice_ns > own->longest_ns)
				own->longest_ns = slice_ns;
		}
		_exit(0);
	}
	wait4(pid, NULL, 0, &usage);
	read_out(&run);
	new_ns = uid_ns(&run, own_uid(0));
	after_ns =
		((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * NSEC_PER_SEC +
		((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) *
			NSEC_PER_USEC -
		own->before_ns;
	tap_ok(lost(&run, "cpu_uid_changes_unsplit") > 0, "uid, ring full: counted (%lu)",
	       (unsigned long)lost(&run, "cpu_uid_changes_unsplit"));
	/* The end of the process comes after its last rusage. */
	tap_ok(after_ns >= 300 * NSEC_PER_MSEC && new_ns + own->longest_ns >= after_ns &&
		       new_ns < after_ns + own->before_ns + 5 * NSEC_PER_MSEC,
	       "uid, ring full: all but one slice (%.1f ms) of %.1f ms is the new uid's, and at "
	       "most the %.1f ms before (%.1f ms)",
	       (double)own->longest_ns / 1e6, (double)after_ns / 1e6, (double)own->before_ns / 1e6,
	       (double)new_ns / 1e6);
	munmap(own, sizeof(*own));
	end(&run);
}

static void test_slot_reused(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH,
						    .test_death_ring_bytes = 4096};
	struct machine_sums sums = {0};
	struct run run;
	uint64_t mine_ns = 0;

	if (access("/proc/sys/kernel/ns_last_pid", W_OK)) {
		tap_skip("dead slot reused", "no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)");
		return;
	}
	if (!begin_with(&run, "dead slot reused", &kernel))
		return;
	for (int i = 0; i < 200; i++) {
		set_next_tid(31000);
		run_thread();
	}
	usleep(20000);
	read_out(&run);
	for (size_t i = 0; i < run.interval.cpu.task_count; i++)
		if (run.interval.cpu.tasks[i].pid == getpid() &&
		    run.interval.cpu.tasks[i].tid != getpid())
			mine_ns += run.interval.cpu.tasks[i].cpu_ns;
	tap_ok(lost(&run, "cpu_dead_slot_reused") > 0, "dead slot reused: counted (%lu)",
	       (unsigned long)lost(&run, "cpu_dead_slot_reused"));
	tap_ok(mine_ns + run.interval.cpu.overflow_ns >= 200 * NSEC_PER_MSEC,
	       "dead slot reused: its time is in the overflow row (%.1f ms + %.1f ms of 200)",
	       (double)mine_ns / 1e6, (double)run.interval.cpu.overflow_ns / 1e6);
	sums = machine_sums_add(sums, &run);
	tap_ok(machine_closes(&sums, 0), "dead slot reused: the machine's sum closes");
	end(&run);
}

static void test_freed_ring_full(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_ITER,
						    .test_death_ring_bytes = 4096};
	struct run run;

	if (!begin_with(&run, "ring full, --cpu iter", &kernel))
		return;
	for (int i = 0; i < 200; i++)
		run_thread();
	sleep(1);
	read_out(&run);
	tap_ok(lost(&run, "cpu_death_ring_full") > 0 &&
		       lost(&run, "cpu_untold_at_most_ns") > 100 * NSEC_PER_MSEC,
	       "ring full, --cpu iter: %lu deaths, at most %.1f ms",
	       (unsigned long)lost(&run, "cpu_death_ring_full"),
	       (double)lost(&run, "cpu_untold_at_most_ns") / 1e6);
	end(&run);
}

static void test_missed_switches(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH};
	struct sched_kernel *sched;
	struct run run;
	uint64_t mine_ns, before_ns;

	if (!begin_with(&run, "missed switches", &kernel))
		return;
	before_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID);
	sched = cpu_source_kernel(run.source);
	for (int i = 0; i < 300; i++) {
		/* Now and then the program is off for some switches. */
		if (i % 15 == 0) {
			bpf_link__destroy(sched->switch_link);
			sched->switch_link = NULL;
		}
		burn_ms(1);
		usleep(500);
		if (i % 15 == 1)
			sched->switch_link = bpf_program__attach(sched->switch_program);
	}
	read_out(&run);
	before_ns = clock_now_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns;
	mine_ns = tid_ns(&run, getpid());
	/* Of 20 windows not each shows: where the CPU runs the same task before and after it,
	 * nothing was missed that the slot could tell; on an emulator all may be such. */
	tap_ok(lost(&run, "cpu_missed_switches") > 0 || tap_is_emulated(),
	       "missed switches: counted (%lu)", (unsigned long)lost(&run, "cpu_missed_switches"));
	/* What ran between the baseline and our own first look is in the one and not in the other.
	 */
	tap_ok(mine_ns > 300 * NSEC_PER_MSEC &&
		       (mine_ns <= before_ns + NSEC_PER_MSEC || tap_is_emulated()),
	       "missed switches: no CPU time is lost (%.2f of %.2f ms)", (double)mine_ns / 1e6,
	       (double)before_ns / 1e6);
	end(&run);
}

/* A slot whose two sequence numbers never agree, as if its writer had died in the middle: that of a
 * child which sleeps, so that nobody else writes it. */
static void test_torn_read(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_SWITCH};
	struct sched_bpf *skeleton;
	struct sched_kernel *sched;
	struct task_slot *slot;
	struct run run;
	pid_t tid;

	if (!begin_with(&run, "torn slot", &kernel))
		return;
	sched = cpu_source_kernel(run.source);
	skeleton = sched->skeleton;
	tid = fork();
	if (!tid) {
		for (;;)
			pause();
	}
	slot = (size_t)tid < sched->slot_count ? &sched->slots[tid] : NULL;
	for (int i = 0; slot && i < 2000 && slot->off_state != OFF_CPU_SLEEPING; i++)
		usleep(1000);
	if (tap_ok(slot && slot->tgid == (__u32)tid && slot->off_state == OFF_CPU_SLEEPING,
		   "torn slot: a child sleeps")) {
		usleep(10000);
		read_out(&run);
		read_out(&run);
		skeleton->bss->group_epochs[tid >> SCHED_GROUP_SHIFT] = skeleton->bss->read_epoch;
		slot->epoch = skeleton->bss->read_epoch;
		slot->sums.cpu_ns += NSEC_PER_SEC;
		slot->sequence++;
		read_out(&run);
		tap_ok(lost(&run, "cpu_torn_reads") == 1, "torn slot: counted once (%lu)",
		       (unsigned long)lost(&run, "cpu_torn_reads"));
		tap_ok(!tid_ns(&run, tid), "torn slot: nothing of it is booked");
	}
	kill(tid, SIGKILL);
	waitpid(tid, NULL, 0);
	end(&run);
}

/* An exec whose word does not come, as if another CPU had died while it wrote the record before. */
static void test_walk_skipped(void)
{
	const struct sched_kernel_options kernel = {.mode = CPU_MODE_ITER};
	struct run run;

	if (!begin_with(&run, "walk skipped", &kernel))
		return;
	burn_ms(50);
	/* So many that those of other programs do not make up for it. */
	__sync_fetch_and_add(&cpu_source_kernel(run.source)->skeleton->bss->exec_count, 1 << 20);
	read_out(&run);
	tap_ok(lost(&run, "cpu_walks_skipped") == 1, "walk skipped: counted once (%lu)",
	       (unsigned long)lost(&run, "cpu_walks_skipped"));
	tap_ok(!tid_ns(&run, getpid()), "walk skipped: nothing of it is booked");
	__sync_fetch_and_sub(&cpu_source_kernel(run.source)->skeleton->bss->exec_count, 1 << 20);
	read_out(&run);
	tap_ok(!lost(&run, "cpu_walks_skipped") && tid_ns(&run, getpid()) >= 50 * NSEC_PER_MSEC,
	       "walk skipped: the next one has it all (%.1f of 50 ms)",
	       (double)tid_ns(&run, getpid()) / 1e6);
	end(&run);
}

/* By a run queue's clock that was made fresh long ago the offset is not told. */
static void test_stale_clock(void)
{
	const struct cpu_options options = {.kernel = {CPU_MODE_SWITCH, VARIANT_TP_BTF}};
	LIBBPF_OPTS(bpf_test_run_opts, test);
	struct sched_bpf *skeleton;
	int64_t offset_ns;
	struct run run;
	int program;

	if (!begin(&run, "stale clock", &options))
		return;
	sample(&run);
	skeleton = cpu_source_kernel(run.source)->skeleton;
	program = bpf_program__fd(skeleton->progs.sched_read_clock);
	offset_ns = skeleton->bss->rq_clock_offset_ns;
	skeleton->bss->rq_clock_asked_ns = clock_now_ns(CLOCK_MONOTONIC) - NSEC_PER_MSEC;
	skeleton->bss->rq_clock_late_ns = NSEC_PER_MSEC;
	bpf_prog_test_run_opts(program, &test);
	tap_ok(test.retval == 1 && skeleton->bss->rq_clock_offset_ns == offset_ns,
	       "stale clock: no offset is told by it");
	skeleton->bss->rq_clock_late_ns = NSEC_PER_SEC;
	bpf_prog_test_run_opts(program, &test);
	tap_ok(!test.retval && skeleton->bss->rq_clock_offset_ns != offset_ns,
	       "stale clock: a fresh one tells it");
	end(&run);
}

int main(void)
{
	kernel_log_init(false);
	resident_keep(); /* as the recorder does */
	test_task_map_full("task array full", false);
	test_task_map_full("task hash full", true);
	test_room_again();
	test_overflow_map_full();
	test_death_ring_full();
	test_uid_ring_full();
	test_slot_reused();
	test_freed_ring_full();
	test_missed_switches();
	test_torn_read();
	test_walk_skipped();
	test_stale_clock();
	return tap_done();
}
