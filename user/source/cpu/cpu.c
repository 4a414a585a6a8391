/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"
#include "source/cpu/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/looper.h"
#include "core/loop.h"
#include "core/rights.h"
#include "summary/summary.h"
#include "jankscope/target.h"
#include "proc/machine.h"
#include "source/cpu/ledger.h"
#include "source/cpu/losses.h"
#include "source/cpu/names.h"
#include "source/cpu/proc.h"
#include "source/cpu/read_out.h"
#include "source/cpu/split.h"
#include "source/cpu/stat.h"
#include "util/clock.h"

#define ITERATOR_FROM_NS NSEC_PER_SEC
/* A walk takes some 1.1 us a task (10,000 tasks, `make bench PARTS=interval`), a hooked switch 10
 * to 25 ns (bpf/README.md): with more tasks than these for each second of an interval a walk takes
 * more than 0.1 % of a core, which is 50,000 switches a second. */
#define ITERATOR_TASKS_PER_S 1000

struct cpu_source {
	struct source base;
	struct cpu_options options;
	size_t thin_top; /* in the place of options.top; 0: none */
	const struct source_context *context;
	struct source_context context_copy;
	struct sched_kernel *kernel; /* NULL: /proc only */
	struct cpu_ledger *ledger;
	struct cpu_ledger_names listing;
	struct cpu_reader *reader;
	struct cpu_names names;
	uint64_t last_mono_ns, idle_ns, offline_ns;
	struct cpu_losses_told told;
	bool have_idle;
	struct cpu_split *split; /* NULL: nobody asked where tasks ran */
	uint64_t idle_without_irqs_ns;
	bool have_idle_without_irqs;
	struct cpu_stat *stat;
	int stat_err; /* of its last reading */
};

static struct cpu_source *cpu_source(struct source *source)
{
	return (struct cpu_source *)source;
}

/* Sums of all CPUs since the attach (without the kernel side: since boot, and in 10 ms ticks). */
struct cpu_times {
	unsigned online;
	uint64_t idle_ns, offline_ns;
	bool idle_known;
	unsigned possible;
	/* the same without the interrupts that came in it, and those interrupts */
	uint64_t idle_without_irqs_ns;
	bool idle_without_irqs_known, irqs_known;
	struct cpu_stat_sums irqs[CPU_STAT_MAX];
};

static void read_times(struct cpu_source *cpu, struct cpu_times *times)
{
	struct sched_cpu one;

	*times = (struct cpu_times){.idle_known = true};
	if (!cpu->kernel) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN); /* reads a file */

		times->possible = times->online = cpus > 0 ? (unsigned)cpus : 1;
		times->idle_known = cpu_proc_idle_ns(&times->idle_ns) == 0;
		return;
	}
	times->possible = sched_kernel_cpu_count(cpu->kernel);
	times->idle_without_irqs_known = times->irqs_known = true;
	for (unsigned i = 0; i < times->possible; i++) {
		sched_kernel_cpu(cpu->kernel, i, &one);
		times->online += one.online;
		times->idle_ns += one.idle_ns;
		times->offline_ns += one.offline_ns;
		times->idle_known &= one.idle_known;
		times->idle_without_irqs_ns += one.idle_without_irqs_ns;
		times->idle_without_irqs_known &= one.idle_without_irqs_known;
		times->irqs_known &= one.irqs_known;
		times->irqs[i] = (struct cpu_stat_sums){one.irq_ns, one.softirq_ns, one.steal_ns};
	}
}

static const char *name_of_process(void *ctx, pid_t pid, uint64_t start_boot_ns)
{
	struct cpu_source *cpu = ctx;

	return cpu_names_find(&cpu->names, cpu->context->targets, pid, start_boot_ns);
}

static const char *name_of_package(void *ctx, uid_t uid)
{
	struct cpu_source *cpu = ctx;

	return target_package_of_uid(cpu->context->targets, uid);
}

static bool is_listed(void *ctx, const struct record_task *task, uint64_t end_boot_ns)
{
	struct cpu_source *cpu = ctx;
	const struct target_set *targets = cpu->context->targets;

	return target_set_is_all(targets) || target_set_has_uid(targets, task->uid) ||
	       target_set_means(targets, task->pid, task->process_start_boot_ns, end_boot_ns,
				task->tid == task->pid ? task->thread : NULL);
}

/* What is left of unaccounted_ns when its parts are known. */
static void set_rest(struct cpu_source *cpu, const struct cpu_times *times,
		     struct record_cpu *record)
{
	const struct record_cpu_stat *stat = &record->stat;
	uint64_t idle_ns = times->idle_without_irqs_ns - cpu->idle_without_irqs_ns;

	if (record->stat_present && record->stat_by == CPU_STAT_EXACT && stat->irq_ns.present &&
	    stat->softirq_ns.present && stat->steal_ns.present && times->idle_without_irqs_known &&
	    cpu->have_idle_without_irqs)
		record->stat_rest_ns =
			SOME_I64((int64_t)record->online_ns - (int64_t)record->busy_ns -
				 (int64_t)idle_ns - (int64_t)stat->irq_ns.value -
				 (int64_t)stat->softirq_ns.value - (int64_t)stat->steal_ns.value);
	cpu->idle_without_irqs_ns = times->idle_without_irqs_ns;
	cpu->have_idle_without_irqs = times->idle_without_irqs_known;
}

static int close_interval(struct cpu_source *cpu, uint64_t mono_ns, uint64_t dur_ns,
			  struct record_cpu *record)
{
	struct cpu_times times;
	uint64_t offline_ns;
	int err;

	read_times(cpu, &times);
	cpu_names_apply(&cpu->names, cpu->context->targets);
	err = cpu_ledger_close(cpu->ledger, mono_ns + clock_suspended_ns(), dur_ns,
			       cpu->thin_top ? cpu->thin_top : cpu->options.top, &cpu->listing,
			       record);
	cpu_names_turn(&cpu->names);
	if (err)
		return err;
	record->present = true;
	record->online_cpus = times.online;
	offline_ns = times.offline_ns - cpu->offline_ns;
	record->online_ns = times.possible * dur_ns;
	record->online_ns -= offline_ns < record->online_ns ? offline_ns : record->online_ns;
	if (times.idle_known && cpu->have_idle) {
		record->idle_ns =
			SOME_U64(times.idle_ns > cpu->idle_ns ? times.idle_ns - cpu->idle_ns : 0);
		record->unaccounted_ns =
			SOME_I64((int64_t)record->online_ns - (int64_t)record->busy_ns -
				 (int64_t)record->idle_ns.value);
	}
	cpu->have_idle = times.idle_known;
	cpu->stat_err =
		cpu_stat_take(cpu->stat, cpu->kernel && sched_kernel_times_irqs(cpu->kernel),
			      times.irqs_known ? times.irqs : NULL, times.possible, record);
	set_rest(cpu, &times, record);
	cpu->offline_ns = times.offline_ns;
	if (times.idle_ns > cpu->idle_ns)
		cpu->idle_ns = times.idle_ns;
	cpu->last_mono_ns = mono_ns;
	target_set_turn(cpu->context->targets);
	return cpu->split ? cpu_split_fill(cpu->split, mono_ns, record) : 0;
}

static void add_losses(struct cpu_source *cpu, struct counter_list *lost)
{
	const struct cpu_losses_of of = {cpu->kernel, cpu->ledger, cpu->reader, &cpu->names,
					 cpu->context->targets};

	cpu_losses_add(&cpu->told, &of, lost);
}

/* The first read-out is thrown away: it is the moment that everything counts from. */
static int take_baseline(struct cpu_source *cpu)
{
	struct record_cpu ignored = {0};
	struct counter_list lost = {0};
	uint64_t mono_ns;
	int err;

	if (cpu->split)
		cpu_split_watch(cpu->split, cpu->context->targets);
	err = cpu_reader_baseline(cpu->reader, &mono_ns);
	if (err)
		return err;
	cpu->last_mono_ns = mono_ns;
	err = close_interval(cpu, mono_ns, 0, &ignored);
	/* What happened while we attached is not part of the run. */
	add_losses(cpu, &lost);
	counter_list_free(&lost);
	return err;
}

static int on_renamed(void *ctx, pid_t pid, uint64_t start_boot_ns, const char *comm)
{
	struct cpu_source *cpu = ctx;

	return cpu_names_add(&cpu->names, pid, start_boot_ns, comm);
}

/* The ledger splits the process's time where it begins or ends to be a target's. */
static int on_told(void *ctx, const struct task_death *note, const struct task_reading *reading)
{
	const struct task_program *program = (const struct task_program *)note;
	struct target_set *targets = ((struct cpu_source *)ctx)->context->targets;
	char comm[SCHED_COMM_LEN + 1] = {0};
	const struct target_told told = {
		.pid = (pid_t)note->tgid,
		.start_boot_ns = note->start_boot_ns,
		.at_boot_ns = note->end_boot_ns,
		.uid = note->uid,
		.comm = comm,
		.argv0 = note->kind == TASK_NOTE_PROGRAM && program->argv0_bytes > 0
				 ? program->argv0
				 : NULL,
	};
	struct target_turn turn;
	int turned;

	memcpy(comm, note->comm, SCHED_COMM_LEN);
	if (note->kind == TASK_NOTE_BORN)
		return target_told_birth(targets, &told, (pid_t)note->parent_pid,
					 note->process_start_boot_ns);
	if (note->kind == TASK_NOTE_DEATH) {
		target_told_death(targets, told.pid, told.start_boot_ns, told.uid, told.at_boot_ns);
		return 0;
	}
	turned = target_told_name(targets, &told, note->kind == TASK_NOTE_PROGRAM, &turn);
	if (turned <= 0)
		return turned;
	return cpu_ledger_split(((struct cpu_source *)ctx)->ledger, reading, turn.was_target,
				turn.name);
}

static int on_cpu_changed(void *ctx, unsigned number, bool online, uint64_t boot_ns)
{
	struct cpu_source *cpu = ctx;
	const struct record_event event = {
		.event = online ? "cpu_online" : "cpu_offline",
		.keys = {{"cpu", NULL, number}, {"at_boot_ns", NULL, (int64_t)boot_ns}},
		.key_count = 2,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};
	struct sched_cpu state;

	sched_kernel_cpu(cpu->kernel, number, &state);
	/* One that was never there before. */
	if (online && !state.idle_known)
		sched_kernel_find_idle(cpu->kernel);
	if (cpu->context->emit)
		cpu->context->emit(cpu->context->emit_ctx, &record);
	return 0;
}

static int on_ring_half_full(void *ctx, uint32_t events)
{
	struct cpu_source *cpu = ctx;

	return cpu_reader_deaths(cpu->reader);
}

/* Slots for watched threads are made before the targets of the run are known: twice those of its
 * start. The map of 4,096 slots has 7 MiB. */
static uint32_t room_for_watched(const struct target_set *targets)
{
	size_t count = targets ? target_set_expected(targets) : 0;
	uint32_t room = 64;

	while (room < 2 * count && room < LOOPER_MAX_WATCHED)
		room *= 2;
	return room;
}

static bool is_for_iterator(const struct cpu_options *options, uint64_t interval_ns)
{
	struct proc_load load = {0};

	if (interval_ns < ITERATOR_FROM_NS || options->need_switch ||
	    options->kernel.variant == VARIANT_RAW_TP)
		return false;
	/* Of a machine that does not tell nothing speaks against it. */
	return proc_read_load(&load) ||
	       load.tasks <= interval_ns / NSEC_PER_SEC * ITERATOR_TASKS_PER_S;
}

static int cpu_open(struct source *source, const struct source_context *context)
{
	struct cpu_source *cpu = cpu_source(source);
	struct sched_kernel_options *kernel = &cpu->options.kernel;
	bool automatic = kernel->mode == CPU_MODE_AUTO;
	const struct cpu_reader_events events = {cpu, on_renamed, on_cpu_changed, on_told};
	int err;

	cpu->context_copy = *context;
	if (!kernel->max_watched)
		kernel->max_watched = room_for_watched(context->targets);
	cpu->context = &cpu->context_copy;
	if (automatic)
		kernel->mode = is_for_iterator(&cpu->options, context->interval_ns)
				       ? CPU_MODE_ITER
				       : CPU_MODE_SWITCH;
	kernel->names = context->targets && target_set_follows(context->targets);
	kernel->loopers = cpu->options.need_switch && kernel->mode == CPU_MODE_SWITCH;
	cpu->ledger = cpu_ledger_new(clock_now_ns(CLOCK_BOOTTIME));
	cpu->stat = cpu_stat_new();
	if (!cpu->ledger || !cpu->stat)
		return -ENOMEM;
	if (cpu->options.test_fold_rows)
		cpu_ledger_set_fold_rows(cpu->ledger, cpu->options.test_fold_rows);
	if (kernel->mode == CPU_MODE_SWITCH && context->targets &&
	    !target_set_is_all(context->targets)) {
		cpu->split =
			cpu_split_new(cpu->options.test_sys_root ? cpu->options.test_sys_root : "",
				      sched_kernel_possible_cpus());
		if (!cpu->split)
			return -ENOMEM;
		kernel->time_layout = cpu_split_layout(cpu->split);
	}
	cpu->listing = (struct cpu_ledger_names){cpu, name_of_process, name_of_package, is_listed};
	if (context->targets && !target_set_is_all(context->targets))
		cpu_ledger_want(cpu->ledger, &cpu->listing);
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
	/* Where only /proc is left nothing tells where a task ran. */
	if (cpu->split && !cpu->kernel) {
		cpu_split_free(cpu->split);
		cpu->split = NULL;
	}
	if (cpu->split)
		cpu_split_begin(cpu->split, cpu->kernel);
	cpu->reader =
		cpu_reader_new(cpu->kernel, kernel->mode == CPU_MODE_ITER, cpu->ledger, &events);
	err = cpu->reader ? take_baseline(cpu) : -ENOMEM;
	if (!err && cpu->kernel && context->loop)
		err = loop_add_fd(context->loop, sched_kernel_deaths_fd(cpu->kernel), EPOLLIN,
				  on_ring_half_full, cpu)
			      ?: loop_urgent_fd(context->loop, sched_kernel_deaths_fd(cpu->kernel));
	if (err && !source->reason[0])
		snprintf(source->reason, sizeof(source->reason), "CPU baseline: %s",
			 strerror(-err));
	return err;
}

static int cpu_sample(struct source *source, struct record_interval *interval)
{
	struct cpu_source *cpu = cpu_source(source);
	uint64_t mono_ns, dur_ns = 0;
	int err;

	if (cpu->kernel && sched_kernel_want_names(cpu->kernel)) {
		target_set_is_told(cpu->context->targets);
		target_set_look_again(cpu->context->targets);
	}
	if (cpu->split)
		cpu_split_watch(cpu->split, cpu->context->targets);
	err = cpu_reader_read_out(cpu->reader, &mono_ns);
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
		missing_list_set(&interval->missing, "cpu.idle_ns",
				 "a CPU's idle time is not known yet");
	if (cpu->stat_err)
		missing_list_set(&interval->missing, "cpu.stat", strerror(-cpu->stat_err));
	else if (!interval->cpu.stat_rest_ns.present)
		missing_list_set(
			&interval->missing, "cpu.stat.rest_ns",
			"exact sums of interrupts, and idle time without them, are not to be had "
			"here");
	if (cpu->split)
		cpu_split_explain(cpu->split, &interval->missing);
	else if (!target_set_is_all(cpu->context->targets))
		missing_list_set(&interval->missing, "cpu.tasks.cpus", "it needs --cpu switch");
	if (!cpu->kernel || cpu->options.kernel.mode == CPU_MODE_ITER)
		missing_list_set(&interval->missing, "cpu.tasks.sleeping_ns",
				 "the off-CPU split needs --cpu switch");
	return 0;
}

/* The dead whom the kernel had not freed when the run ended are not in its records. */
static int cpu_summarise(struct source *source, struct summary *summary)
{
	const struct cpu_source *cpu = cpu_source(source);
	int64_t in_flight;

	if (!cpu->kernel || cpu->options.kernel.mode != CPU_MODE_ITER)
		return 0;
	in_flight = cpu_reader_counts(cpu->reader)->deaths_in_flight;
	return summary_set_total(summary, "cpu.deaths_in_flight",
				 in_flight > 0 ? (double)in_flight : 0);
}

static void cpu_close(struct source *source)
{
	struct cpu_source *cpu = cpu_source(source);

	if (!source)
		return;
	if (cpu->kernel && cpu->context && cpu->context->loop)
		loop_remove_fd(cpu->context->loop, sched_kernel_deaths_fd(cpu->kernel));
	sched_kernel_close(cpu->kernel);
	cpu_ledger_free(cpu->ledger);
	cpu_reader_free(cpu->reader);
	cpu_names_free(&cpu->names);
	cpu_stat_free(cpu->stat);
	cpu_split_free(cpu->split);
	free(cpu);
}

static void cpu_thin(struct source *source, unsigned steps)
{
	struct cpu_source *cpu = cpu_source(source);
	bool more = !cpu->options.top || cpu->options.top > THIN_LISTED_TASKS;

	cpu->thin_top = steps & THIN_TASKS && more ? THIN_LISTED_TASKS : 0;
}

static const struct source_ops cpu_ops = {
	.name = "cpu",
	.losses = &cpu_losses,
	.open = cpu_open,
	.sample = cpu_sample,
	.summarise = cpu_summarise,
	.thin = cpu_thin,
	.close = cpu_close,
};

struct source *cpu_source_new(const struct cpu_options *options)
{
	struct cpu_source *cpu = calloc(1, sizeof(*cpu));

	if (!cpu)
		return NULL;
	cpu->base.ops = &cpu_ops;
	cpu->base.rights = RIGHT_MAPS;
	cpu->options = *options;
	return &cpu->base;
}

void cpu_source_want_flight(struct source *source)
{
	cpu_source(source)->options.kernel.flight = true;
}

struct sched_kernel *cpu_source_kernel(struct source *source)
{
	return cpu_source(source)->kernel;
}
