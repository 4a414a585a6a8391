/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "core/loop.h"
#include "core/summary.h"
#include "jankscope/target.h"
#include "source/cpu_ledger.h"
#include "source/cpu_proc.h"
#include "util/clock.h"

#define ITERATOR_FROM_NS NSEC_PER_SEC
#define UNTOLD_WINDOW    30 /* read-outs */

static const char *const loss_names[SCHED_LOSS_MAX] = {
	[SCHED_LOSS_TASK_MAP_FULL] = "cpu_task_map_full",
	[SCHED_LOSS_DEATH_RING_FULL] = "cpu_death_ring_full",
	[SCHED_LOSS_SLOT_REUSED] = "cpu_dead_slot_reused",
	[SCHED_LOSS_OVERFLOW_MAP_FULL] = "cpu_overflow_map_full_ns",
	[SCHED_LOSS_MISSED_SWITCH] = "cpu_missed_switches",
	[SCHED_LOSS_UNTOLD_NS] = "cpu_untold_at_most_ns",
};

/* Cumulative overflow of a uid as of the last read-out. */
struct overflow_seen {
	uid_t uid;
	uint64_t cpu_ns;
	UT_hash_handle hh;
};

struct cpu_source {
	struct source base;
	struct cpu_options options;
	const struct source_context *context;
	struct source_context context_copy;
	struct sched_kernel *kernel; /* NULL: /proc only */
	struct cpu_ledger *ledger;
	struct overflow_seen *overflow;
	uint64_t last_mono_ns, idle_ns, unreadable, missed_seeds;
	uint64_t losses[SCHED_LOSS_MAX], missed_runs, torn_reads;
	uint64_t sum_busy_ns, sum_idle_ns, sum_overflow_ns;
	bool have_idle;
	/* --cpu iter: tasks alive, forked and told dead, to know how many deaths went untold */
	uint64_t alive, deaths_told, untold_reported;
	int64_t alive_at_begin, in_flight, untold, died[UNTOLD_WINDOW];
	unsigned window_readings;
	pid_t *watched; /* at the end of the last interval */
	size_t watched_count;
};

static struct cpu_source *cpu_source(struct source *source)
{
	return (struct cpu_source *)source;
}

static int book_reading(void *ctx, const struct task_reading *reading)
{
	return cpu_ledger_update(ctx, reading);
}

static int seed_reading(void *ctx, const struct task_reading *reading)
{
	return cpu_ledger_seed(ctx, reading);
}

static struct task_reading reading_of_line(const struct task_line *line)
{
	return (struct task_reading){
		.tid = (pid_t)line->tid,
		.tgid = (pid_t)line->tgid,
		.uid = line->uid,
		.start_boot_ns = line->start_boot_ns,
		.cpu_ns = line->cpu_ns,
		.runnable_ns = SOME_U64(line->runnable_ns),
		.switches_voluntary = SOME_U64(line->switches_voluntary),
		.switches_involuntary = SOME_U64(line->switches_involuntary),
		.comm = line->comm,
	};
}

static int seed_line(void *ctx, const struct task_line *line)
{
	struct task_reading reading = reading_of_line(line);

	return cpu_ledger_seed(ctx, &reading);
}

static int book_line(void *ctx, const struct task_line *line)
{
	struct cpu_source *cpu = ctx;
	struct task_reading reading = reading_of_line(line);

	cpu->alive++;
	if (line->in_execve)
		return 0;
	/* A row for every sleeping task of the machine would be noise. */
	if (cpu_ledger_unchanged(cpu->ledger, reading.tid, reading.start_boot_ns, reading.cpu_ns,
				 line->switches_voluntary + line->switches_involuntary))
		return 0;
	return cpu_ledger_update(cpu->ledger, &reading);
}

static int book_death(void *ctx, const struct task_death *death)
{
	struct cpu_source *cpu = ctx;
	bool iterating = cpu->options.kernel.mode == CPU_MODE_ITER;
	struct task_reading reading = {
		.tid = (pid_t)death->tid,
		.tgid = (pid_t)death->tgid,
		.uid = death->uid,
		.start_boot_ns = death->start_boot_ns,
		.cpu_ns = death->cpu_ns,
		.runnable_ns = SOME_U64(death->runnable_ns),
		.switches_voluntary = SOME_U64(death->switches_voluntary),
		.switches_involuntary = SOME_U64(death->switches_involuntary),
		.comm = death->comm,
		.exited = true,
		.end_boot_ns = death->end_boot_ns,
	};

	if (death->exec_tid)
		return cpu_ledger_exec(cpu->ledger, (pid_t)death->exec_tid, (pid_t)death->tid,
				       death->start_boot_ns);
	cpu->deaths_told++;
	if (!iterating) {
		reading.uninterruptible_ns = SOME_U64(death->uninterruptible_ns);
		reading.stopped_ns = SOME_U64(death->stopped_ns);
	}
	return cpu_ledger_update(cpu->ledger, &reading);
}

static bool slot_unchanged(void *ctx, pid_t tid, const struct task_slot *slot)
{
	struct cpu_source *cpu = ctx;

	return cpu_ledger_unchanged(cpu->ledger, tid, slot->start_boot_ns, slot->cpu_ns,
				    slot->switches_voluntary + slot->switches_involuntary);
}

static int book_slot(void *ctx, pid_t tid, const struct task_slot *slot)
{
	struct cpu_source *cpu = ctx;
	struct task_reading reading = {
		.tid = tid,
		.tgid = (pid_t)slot->tgid,
		.uid = slot->uid,
		.start_boot_ns = slot->start_boot_ns,
		.cpu_ns = slot->cpu_ns,
		.runnable_ns = SOME_U64(slot->runnable_ns),
		.uninterruptible_ns = SOME_U64(slot->uninterruptible_ns),
		.stopped_ns = SOME_U64(slot->stopped_ns),
		.switches_voluntary = SOME_U64(slot->switches_voluntary),
		.switches_involuntary = SOME_U64(slot->switches_involuntary),
		.comm = slot->comm,
	};

	/* A dead slot is booked here only if the ring had no room to tell of the death. */
	if (slot->flags & TASK_SLOT_DEAD) {
		if (!(slot->flags & TASK_SLOT_UNREPORTED))
			return 0;
		reading.exited = true;
		reading.end_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	} else if (slot->off_state == OFF_CPU_UNINTERRUPTIBLE) {
		reading.uninterruptible_ns.value += sched_kernel_open_off_ns(cpu->kernel, slot);
	} else if (slot->off_state == OFF_CPU_STOPPED) {
		reading.stopped_ns.value += sched_kernel_open_off_ns(cpu->kernel, slot);
	}
	return cpu_ledger_update(cpu->ledger, &reading);
}

static int book_running(struct cpu_source *cpu)
{
	int err = 0;

	for (unsigned i = 0; i < sched_kernel_cpu_count(cpu->kernel) && !err; i++) {
		const struct running_task *running = sched_kernel_running(cpu->kernel, i);
		struct task_reading reading;

		if (!running || !running->tid)
			continue;
		reading = (struct task_reading){
			.tid = (pid_t)running->tid,
			.tgid = (pid_t)running->tgid,
			.uid = running->uid,
			.start_boot_ns = running->start_boot_ns,
			.cpu_ns = running->cpu_ns,
			.runnable_ns = SOME_U64(running->runnable_ns),
			.switches_voluntary = SOME_U64(running->switches_voluntary),
			.switches_involuntary = SOME_U64(running->switches_involuntary),
			.comm = running->comm,
		};
		/* Its finished slices go to the overflow row; the present one follows them. */
		if (!sched_kernel_has_slot(cpu->kernel, (pid_t)running->tid))
			continue;
		err = cpu_ledger_update(cpu->ledger, &reading);
	}
	return err;
}

static int book_overflow_row(void *ctx, uid_t uid, uint64_t cpu_ns)
{
	struct cpu_source *cpu = ctx;
	struct overflow_seen *seen;
	uint64_t before;

	HASH_FIND(hh, cpu->overflow, &uid, sizeof(uid), seen);
	if (!seen) {
		seen = calloc(1, sizeof(*seen));
		if (!seen)
			return -ENOMEM;
		seen->uid = uid;
		HASH_ADD(hh, cpu->overflow, uid, sizeof(uid), seen);
	}
	before = seen->cpu_ns;
	seen->cpu_ns = cpu_ns;
	return cpu_ns > before ? cpu_ledger_overflow(cpu->ledger, uid, cpu_ns - before) : 0;
}

/* Whoever was born and is not alive has died; not all are told yet, because RCU frees them later,
 * under load by seconds. Deaths of a whole window ago that are still untold were never shown. */
static int iterate(struct cpu_source *cpu)
{
	uint64_t losses[SCHED_LOSS_MAX] = {0}, unused;
	int64_t died, told, *window;
	int err;

	cpu->alive = 0;
	err = sched_kernel_iterate(cpu->kernel, book_line, cpu);
	/* Births after the walk: who was born during it may count as in flight, none is forgotten.
	 */
	if (!err)
		err = sched_kernel_losses(cpu->kernel, losses, &unused, &unused);
	died = cpu->alive_at_begin + (int64_t)losses[SCHED_COUNT_BIRTHS] - (int64_t)cpu->alive;
	told = (int64_t)cpu->deaths_told + (int64_t)losses[SCHED_LOSS_DEATH_RING_FULL];
	cpu->in_flight = died - told;
	window = &cpu->died[cpu->window_readings++ % UNTOLD_WINDOW];
	if (cpu->window_readings > UNTOLD_WINDOW && *window - told > cpu->untold)
		cpu->untold = *window - told;
	*window = died;
	return err;
}

/* Everything since the last call goes to the ledger; *mono_ns is the moment it is true for. */
static int read_out(struct cpu_source *cpu, uint64_t *mono_ns)
{
	int err;

	if (!cpu->kernel) {
		*mono_ns = clock_now_ns(CLOCK_MONOTONIC);
		return cpu_proc_walk(book_reading, cpu->ledger, &cpu->unreadable);
	}
	err = sched_kernel_begin_read(cpu->kernel, mono_ns);
	/* Deaths first: a slot may already have a new owner. */
	if (!err)
		err = sched_kernel_deaths(cpu->kernel, book_death, cpu);
	if (!err && cpu->options.kernel.mode == CPU_MODE_ITER)
		err = iterate(cpu);
	if (!err)
		err = sched_kernel_slots(cpu->kernel, slot_unchanged, book_slot, cpu);
	if (!err && cpu->options.kernel.mode == CPU_MODE_SWITCH)
		err = book_running(cpu);
	if (!err)
		err = sched_kernel_overflow(cpu->kernel, book_overflow_row, cpu);
	return err;
}

static bool read_idle(struct cpu_source *cpu, uint64_t *idle_ns, unsigned *online)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t one;
	unsigned seen = 0;

	*online = cpus > 0 ? (unsigned)cpus : 1;
	*idle_ns = 0;
	if (!cpu->kernel || cpu->options.kernel.mode == CPU_MODE_ITER)
		return cpu_proc_idle_ns(idle_ns) == 0;
	for (unsigned i = 0; i < sched_kernel_cpu_count(cpu->kernel); i++) {
		if (!sched_kernel_idle_ns(cpu->kernel, i, &one))
			continue;
		*idle_ns += one;
		seen++;
	}
	return seen >= *online;
}

static const char *name_of_process(void *ctx, pid_t pid, uint64_t start_boot_ns)
{
	struct cpu_source *cpu = ctx;

	return target_process_name(cpu->context->targets, pid, start_boot_ns);
}

static const char *name_of_package(void *ctx, uid_t uid)
{
	struct cpu_source *cpu = ctx;

	return target_package_of_uid(cpu->context->targets, uid);
}

static bool is_listed(void *ctx, pid_t pid, uid_t uid)
{
	struct cpu_source *cpu = ctx;
	const struct target_set *targets = cpu->context->targets;

	if (target_set_is_all(targets) || target_set_has_uid(targets, uid) ||
	    target_set_find(targets, pid))
		return true;
	/* It was watched when the interval began, and has exited since. */
	for (size_t i = 0; i < cpu->watched_count; i++)
		if (cpu->watched[i] == pid)
			return true;
	return false;
}

static int remember_watched(struct cpu_source *cpu)
{
	const struct target_process *process;
	size_t count = 0;
	pid_t *watched;

	while (target_set_at(cpu->context->targets, count))
		count++;
	watched = realloc(cpu->watched, (count + 1) * sizeof(*watched));
	if (!watched)
		return -ENOMEM;
	cpu->watched = watched;
	cpu->watched_count = 0;
	while ((process = target_set_at(cpu->context->targets, cpu->watched_count)))
		watched[cpu->watched_count++] = process->pid;
	return 0;
}

static int close_interval(struct cpu_source *cpu, uint64_t mono_ns, uint64_t dur_ns,
			  struct record_cpu *record)
{
	const struct cpu_ledger_names names = {
		.ctx = cpu,
		.process = name_of_process,
		.package = name_of_package,
		.listed = is_listed,
	};
	uint64_t idle_ns;
	bool have_idle = read_idle(cpu, &idle_ns, &record->online_cpus);
	int err = cpu_ledger_close(cpu->ledger, mono_ns + clock_suspended_ns(), dur_ns,
				   cpu->options.top, &names, record);

	if (err)
		return err;
	record->present = true;
	if (have_idle && cpu->have_idle) {
		record->idle_ns = SOME_U64(idle_ns > cpu->idle_ns ? idle_ns - cpu->idle_ns : 0);
		record->unaccounted_ns =
			SOME_I64((int64_t)(record->online_cpus * dur_ns) -
				 (int64_t)record->busy_ns - (int64_t)record->idle_ns.value);
		cpu->sum_idle_ns += record->idle_ns.value;
	}
	cpu->have_idle = have_idle;
	if (idle_ns > cpu->idle_ns)
		cpu->idle_ns = idle_ns;
	cpu->last_mono_ns = mono_ns;
	return remember_watched(cpu);
}

static void add_delta(struct counter_list *lost, const char *name, uint64_t now, uint64_t *before)
{
	if (now > *before)
		counter_list_add(lost, name, now - *before);
	*before = now;
}

static void add_losses(struct cpu_source *cpu, struct counter_list *lost)
{
	uint64_t losses[SCHED_LOSS_MAX], missed_runs, torn_reads, zero;

	add_delta(lost, "cpu_missed_seeds", cpu_ledger_missed_seeds(cpu->ledger),
		  &cpu->missed_seeds);
	zero = 0;
	add_delta(lost, "cpu_unreadable_tasks", cpu->unreadable, &zero);
	cpu->unreadable = 0;
	if (!cpu->kernel || sched_kernel_losses(cpu->kernel, losses, &missed_runs, &torn_reads))
		return;
	for (int i = 0; i < SCHED_LOSS_MAX; i++)
		if (loss_names[i])
			add_delta(lost, loss_names[i], losses[i], &cpu->losses[i]);
	add_delta(lost, "cpu_deaths_untold", (uint64_t)cpu->untold, &cpu->untold_reported);
	add_delta(lost, "cpu_missed_runs", missed_runs, &cpu->missed_runs);
	add_delta(lost, "cpu_torn_reads", torn_reads, &cpu->torn_reads);
}

/* The first read-out is thrown away: it is the moment that everything counts from. */
static int take_baseline(struct cpu_source *cpu)
{
	struct record_cpu ignored = {0};
	struct counter_list lost = {0};
	uint64_t mono_ns;
	int err;

	/* First of all how far the scheduler's clock is from ours (a boot's start, and all that NTP
	 * has slewed since): what runs now is seeded by it. */
	err = cpu->kernel ? sched_kernel_begin_read(cpu->kernel, &mono_ns) : 0;
	if (!err && cpu->kernel && sched_kernel_has_iterator(cpu->kernel))
		err = sched_kernel_iterate(cpu->kernel, seed_line, cpu->ledger);
	else if (!err)
		err = cpu_proc_walk(seed_reading, cpu->ledger, &cpu->unreadable);
	if (!err)
		err = read_out(cpu, &mono_ns);
	if (err)
		return err;
	cpu->alive_at_begin = -cpu->in_flight;
	cpu->window_readings = 0;
	cpu->last_mono_ns = mono_ns;
	err = close_interval(cpu, mono_ns, 0, &ignored);
	/* What happened while we attached is not part of the run. */
	add_losses(cpu, &lost);
	counter_list_free(&lost);
	return err;
}

static int on_ring_half_full(void *ctx, uint32_t events)
{
	struct cpu_source *cpu = ctx;

	return sched_kernel_deaths(cpu->kernel, book_death, cpu);
}

static int cpu_open(struct source *source, const struct source_context *context)
{
	struct cpu_source *cpu = cpu_source(source);
	struct sched_kernel_options *kernel = &cpu->options.kernel;
	bool automatic = kernel->mode == CPU_MODE_AUTO;
	int err;

	cpu->context_copy = *context;
	cpu->context = &cpu->context_copy;
	if (automatic)
		kernel->mode = context->interval_ns >= ITERATOR_FROM_NS &&
					       !cpu->options.need_switch &&
					       kernel->variant != VARIANT_RAW_TP
				       ? CPU_MODE_ITER
				       : CPU_MODE_SWITCH;
	kernel->loopers = cpu->options.need_switch && kernel->mode == CPU_MODE_SWITCH;
	cpu->ledger = cpu_ledger_new(clock_now_ns(CLOCK_BOOTTIME));
	if (!cpu->ledger)
		return -ENOMEM;
	cpu->kernel = sched_kernel_open(kernel, source->reason, sizeof(source->reason));
	if (!cpu->kernel && automatic && kernel->mode == CPU_MODE_ITER) {
		kernel->mode = CPU_MODE_SWITCH;
		cpu->kernel = sched_kernel_open(kernel, source->reason, sizeof(source->reason));
	}
	/* Without BPF in the kernel /proc is what is left; without the right to use it, the user is
	 * to be told. */
	if (!cpu->kernel &&
	    (!automatic || kernel->variant != VARIANT_AUTO || kernel->btf_path || geteuid() != 0))
		return -ENOTSUP;
	if (cpu->kernel) {
		source->variant = sched_kernel_variant(cpu->kernel);
		source->reason[0] = 0;
	} else {
		source->variant = "proc";
		source->state = SOURCE_DEGRADED;
	}
	err = take_baseline(cpu);
	if (!err && cpu->kernel && context->loop)
		err = loop_add_fd(context->loop, sched_kernel_deaths_fd(cpu->kernel), EPOLLIN,
				  on_ring_half_full, cpu);
	if (err && !source->reason[0])
		snprintf(source->reason, sizeof(source->reason), "CPU baseline: %s",
			 strerror(-err));
	return err;
}

static int cpu_sample(struct source *source, struct record_interval *interval)
{
	struct cpu_source *cpu = cpu_source(source);
	uint64_t mono_ns, dur_ns = 0;
	int err = read_out(cpu, &mono_ns);

	if (!err) {
		dur_ns = mono_ns - cpu->last_mono_ns;
		err = close_interval(cpu, mono_ns, dur_ns, &interval->cpu);
	}
	if (err) {
		missing_list_set(&interval->missing, "cpu", strerror(-err));
		return err == -ENOMEM ? err : 0;
	}
	/* Between the session's look at the clock and ours another task may have run: the sums are
	 * true for our own moment. */
	interval->dur_ns = dur_ns;
	add_losses(cpu, &interval->lost);
	if (!cpu->kernel)
		missing_list_set(&interval->missing, "cpu.tasks_exited",
				 "/proc does not show who ended between two looks");
	if (!interval->cpu.idle_ns.present)
		missing_list_set(&interval->missing, "cpu.idle_ns", "a CPU has not switched yet");
	if (!cpu->kernel || cpu->options.kernel.mode == CPU_MODE_ITER)
		missing_list_set(&interval->missing, "cpu.tasks.sleeping_ns",
				 "the off-CPU split needs --cpu switch");
	cpu->sum_busy_ns += interval->cpu.busy_ns;
	cpu->sum_overflow_ns += interval->cpu.overflow_ns;
	return 0;
}

/* The dead whom the kernel had not freed when the run ended are not in its records. */
static int cpu_summarise(struct source *source, struct summary *summary)
{
	const struct cpu_source *cpu = cpu_source(source);

	if (!cpu->kernel || cpu->options.kernel.mode != CPU_MODE_ITER)
		return 0;
	return summary_set_total(summary, "cpu.deaths_in_flight",
				 cpu->in_flight > 0 ? (double)cpu->in_flight : 0);
}

static void cpu_close(struct source *source)
{
	struct cpu_source *cpu = cpu_source(source);
	struct overflow_seen *seen, *next;

	if (!source)
		return;
	if (cpu->kernel && cpu->context && cpu->context->loop)
		loop_remove_fd(cpu->context->loop, sched_kernel_deaths_fd(cpu->kernel));
	sched_kernel_close(cpu->kernel);
	cpu_ledger_free(cpu->ledger);
	HASH_ITER (hh, cpu->overflow, seen, next) {
		HASH_DEL(cpu->overflow, seen);
		free(seen);
	}
	free(cpu->watched);
	free(cpu);
}

static const struct source_ops cpu_ops = {
	.name = "cpu",
	.open = cpu_open,
	.sample = cpu_sample,
	.summarise = cpu_summarise,
	.close = cpu_close,
};

struct source *cpu_source_new(const struct cpu_options *options)
{
	struct cpu_source *cpu = calloc(1, sizeof(*cpu));

	if (!cpu)
		return NULL;
	cpu->base.ops = &cpu_ops;
	cpu->options = *options;
	return &cpu->base;
}

struct sched_kernel *cpu_source_kernel(struct source *source)
{
	return cpu_source(source)->kernel;
}
