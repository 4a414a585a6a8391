/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/startup/startup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop.h"
#include "core/rights.h"
#include "jankscope/target.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "source/blocks/blocks.h"
#include "source/cpu/cpu.h"
#include "source/frames/frames.h"
#include "summary/summary.h"
#include "source/declarations.h"
#include "util/clock.h"

/* The main thread is idle when it has waited in its own loop for so long without a break. */
#define IDLE_NS (200 * NSEC_PER_MSEC)
/* How often those that start are looked at. */
#define LOOK_NS (50 * NSEC_PER_MSEC)
/* A process that has not come to rest by then does not. */
#define GIVE_UP_NS (60 * NSEC_PER_SEC)
/* How long a frame may come behind the idle; a trace tells of it seconds later. */
#define FRAME_NS (10 * NSEC_PER_SEC)
/* More than these at a time are counted. */
#define MAX_STARTS 64
/* Of so many targets the pids are known, of those that have ended too. */
#define MAX_PIDS 256

struct start {
	struct start *next;
	struct target_process process; /* its package is the one below */
	char package[256], parent[PROC_COMM_LEN + 1];
	uint64_t came_ns; /* CLOCK_MONOTONIC */
	uint64_t idle_ns; /* when its first idle was known, or that there is none; 0: not yet */
	uint64_t gone_boot_ns; /* when it was seen to have ended */
	/* exact; 0: not known */
	uint64_t start_boot_ns, first_idle_boot_ns, first_frame_boot_ns;
	bool has_ledger, gone;
	uint64_t running_ns, runnable_ns, sleeping_ns, uninterruptible_ns, stopped_ns;
	const char *no_idle; /* why first_idle_boot_ns is 0 */
};

struct startup_source {
	struct source base;
	struct source *cpu, *blocks, *frames;
	const struct source_context *context;
	struct source_context context_copy;
	struct start *starts;
	size_t count;
	int timer;
	uint64_t opened_boot_ns, told, crowded;
	pid_t pids[MAX_PIDS]; /* of targets, the newest ones */
	size_t pid_count;
};

static struct startup_source *startup_source(struct source *source)
{
	return (struct startup_source *)source;
}

/* ---- the ledger ---- */

/* "cpu_ns runnable_ns slices", which the kernel has as of the last switch of a thread that sleeps.
 */
static int read_schedstat(pid_t pid, pid_t tid, uint64_t *cpu_ns, uint64_t *runnable_ns)
{
	char text[96], *end;
	ssize_t n = proc_read_of_thread("", pid, tid, "schedstat", text, sizeof(text));

	if (n <= 0)
		return n ? (int)n : -EBADMSG;
	*cpu_ns = strtoull(text, &end, 10);
	if (*end != ' ')
		return -EBADMSG;
	*runnable_ns = strtoull(end + 1, &end, 10);
	return *end == ' ' ? 0 : -EBADMSG;
}

/* What the switch program has of the main thread. */
static bool read_slot(const struct startup_source *startup, const struct start *start,
		      struct task_slot *slot)
{
	struct sched_kernel *kernel = cpu_source_kernel(startup->cpu);

	return kernel && sched_kernel_slot(kernel, start->process.pid, slot) &&
	       slot->start_boot_ns / PROC_TICK_NS == start->process.start_boot_ns / PROC_TICK_NS;
}

/* The thread has slept since its first idle. Its sums since its birth are those of the window,
 * because it was born with it. */
static void take_ledger(struct startup_source *startup, struct start *start, pid_t tid)
{
	uint64_t wall_ns, awake_ns;
	struct task_slot slot;

	if (tid != start->process.pid || !read_slot(startup, start, &slot))
		return;
	if (start->first_idle_boot_ns <= slot.start_boot_ns ||
	    read_schedstat(start->process.pid, tid, &start->running_ns, &start->runnable_ns))
		return;
	wall_ns = start->first_idle_boot_ns - slot.start_boot_ns;
	start->uninterruptible_ns = slot.uninterruptible_ns;
	start->stopped_ns = slot.stopped_ns;
	awake_ns = start->running_ns + start->runnable_ns + start->uninterruptible_ns +
		   start->stopped_ns;
	/* Clocks of the run queue and of boot are read some microseconds apart. */
	if (awake_ns > wall_ns && start->runnable_ns >= awake_ns - wall_ns) {
		start->runnable_ns -= awake_ns - wall_ns;
		awake_ns = wall_ns;
	}
	start->has_ledger = awake_ns <= wall_ns;
	start->sleeping_ns = wall_ns - (start->has_ledger ? awake_ns : 0);
}

/* ---- telling ---- */

static void add_number(struct record_event *event, const char *name, uint64_t value)
{
	event->keys[event->key_count++] = (struct event_key){.name = name, .value = (int64_t)value};
}

static void add_text(struct record_event *event, const char *name, const char *text)
{
	event->keys[event->key_count++] = (struct event_key){.name = name, .text = text};
}

static const char *no_frame(const struct startup_source *startup, const struct start *start)
{
	if (!startup->frames || startup->frames->state == SOURCE_ABSENT)
		return "no source of frames: --frames";
	if (start->first_frame_boot_ns)
		return "its exact start is not known";
	return start->gone ? "it ended without one" : "none was shown by then";
}

static void tell(struct startup_source *startup, struct start *start)
{
	struct record_event event = {.event = "startup"};
	struct record record = {.type = RECORD_EVENT, .event = &event};
	uint64_t begin_ns = start->start_boot_ns ?: start->process.start_boot_ns;

	add_number(&event, "pid", (uint64_t)start->process.pid);
	add_number(&event, "start_boot_ns", begin_ns);
	add_text(&event, "process", start->process.process);
	if (start->package[0])
		add_text(&event, "package", start->package);
	add_text(&event, "kind", "cold");
	if (start->parent[0])
		add_text(&event, "parent", start->parent);
	if (start->first_frame_boot_ns && start->start_boot_ns)
		add_number(&event, "first_frame_ns", start->first_frame_boot_ns - begin_ns);
	else
		add_text(&event, "no_first_frame", no_frame(startup, start));
	if (start->first_idle_boot_ns && start->start_boot_ns)
		add_number(&event, "first_idle_ns", start->first_idle_boot_ns - begin_ns);
	else
		add_text(&event, "no_first_idle", start->no_idle ?: "its exact start is not known");
	if (start->has_ledger) {
		add_number(&event, "running_ns", start->running_ns);
		add_number(&event, "runnable_ns", start->runnable_ns);
		add_number(&event, "sleeping_ns", start->sleeping_ns);
		add_number(&event, "uninterruptible_ns", start->uninterruptible_ns);
		add_number(&event, "stopped_ns", start->stopped_ns);
	}
	startup->told++;
	startup->context->emit(startup->context->emit_ctx, &record);
}

static void remove_start(struct startup_source *startup, struct start **place)
{
	struct start *start = *place;

	*place = start->next;
	startup->count--;
	free(start);
}

/* ---- looking ---- */

/* /proc tells it in whole ticks. */
static void find_birth(const struct startup_source *startup, struct start *start)
{
	struct task_slot slot;

	if (!start->start_boot_ns && !start->gone && read_slot(startup, start, &slot))
		start->start_boot_ns = slot.start_boot_ns;
}

static void look_for_idle(struct startup_source *startup, struct start *start, uint64_t now_ns)
{
	struct blocks_wait wait, again;

	if (start->idle_ns || start->gone ||
	    !blocks_source_waits(startup->blocks, start->process.pid, start->process.start_boot_ns,
				 &wait) ||
	    now_ns < wait.since_mono_ns + IDLE_NS)
		return;
	start->idle_ns = now_ns;
	if (!wait.exact) {
		start->no_idle = "it was idle before it could be looked at";
		return;
	}
	start->first_idle_boot_ns = wait.since_mono_ns + clock_suspended_ns();
	take_ledger(startup, start, wait.tid);
	/* It woke up while its sums were read. */
	if (start->has_ledger && (!blocks_source_waits(startup->blocks, start->process.pid,
						       start->process.start_boot_ns, &again) ||
				  again.since_mono_ns != wait.since_mono_ns))
		start->has_ledger = false;
}

static bool is_done(const struct startup_source *startup, struct start *start, uint64_t now_ns,
		    bool final)
{
	bool frames = startup->frames && startup->frames->state != SOURCE_ABSENT;

	if (!start->idle_ns && (start->gone || final))
		start->no_idle = start->gone ? "it ended before" : "the run ended before";
	else if (!start->idle_ns && now_ns >= start->came_ns + GIVE_UP_NS)
		start->no_idle = "its main thread did not come to rest in a loop within 60 s";
	if (!start->idle_ns && start->no_idle)
		start->idle_ns = now_ns;
	return final || (start->idle_ns && (!frames || start->first_frame_boot_ns ||
					    now_ns >= start->idle_ns + FRAME_NS));
}

static void look(struct startup_source *startup, bool final)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct start **place = &startup->starts;

	while (*place) {
		struct start *start = *place;
		const struct target_process *process =
			target_set_find(startup->context->targets, start->process.pid);

		start->gone |= !process || process->start_boot_ns != start->process.start_boot_ns;
		if (start->gone && !start->gone_boot_ns)
			start->gone_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
		if (process && !start->gone && strcmp(start->process.process, process->process))
			memcpy(start->process.process, process->process,
			       sizeof(start->process.process));
		find_birth(startup, start);
		look_for_idle(startup, start, now_ns);
		if (is_done(startup, start, now_ns, final)) {
			tell(startup, start);
			remove_start(startup, place);
		} else {
			place = &start->next;
		}
	}
}

static int on_look(void *ctx, uint32_t events)
{
	struct startup_source *startup = ctx;

	look(startup, false);
	if (!startup->starts)
		loop_set_timer(startup->context->loop, startup->timer, 0, 0);
	return 0;
}

/* ---- the source ---- */

static int startup_open(struct source *source, const struct source_context *context)
{
	struct startup_source *startup = startup_source(source);

	startup->context_copy = *context;
	startup->context = &startup->context_copy;
	if (!startup->blocks) {
		snprintf(source->reason, sizeof(source->reason),
			 "--startup needs a target: name one with -p or -u");
		return -ENOTSUP;
	}
	if (startup->blocks->state == SOURCE_ABSENT || !cpu_source_kernel(startup->cpu)) {
		snprintf(source->reason, sizeof(source->reason),
			 "--startup needs the source blocks: %.110s", startup->blocks->reason);
		return -ENOTSUP;
	}
	startup->opened_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	startup->timer = loop_add_timer(context->loop, 0, 0, on_look, startup);
	return startup->timer < 0 ? startup->timer : 0;
}

static void find_parent(struct start *start)
{
	int dir = proc_open("", start->process.pid);
	struct proc_stat stat;
	pid_t parent;

	if (dir < 0)
		return;
	parent = proc_stat(dir, &stat) ? 0 : stat.ppid;
	close(dir);
	dir = parent ? proc_open("", parent) : -ENOENT;
	if (dir < 0)
		return;
	if (!proc_stat(dir, &stat))
		memcpy(start->parent, stat.comm, sizeof(stat.comm));
	close(dir);
}

/* One that has ended, whose frame is waited for, gives way. */
static void make_room(struct startup_source *startup)
{
	struct start **place = &startup->starts;

	while (*place && !(*place)->gone)
		place = &(*place)->next;
	if (!*place)
		return;
	tell(startup, *place);
	remove_start(startup, place);
}

static bool startup_take_target(struct source *source, const struct target_process *process)
{
	struct startup_source *startup = startup_source(source);
	struct start *start;

	startup->pids[startup->pid_count++ % MAX_PIDS] = process->pid;
	/* Its start is told in whole ticks, rounded down. */
	if (process->start_boot_ns + PROC_TICK_NS <= startup->opened_boot_ns)
		return false;
	for (start = startup->starts; start; start = start->next)
		if (start->process.pid == process->pid &&
		    start->process.start_boot_ns == process->start_boot_ns)
			return false;
	if (startup->count == MAX_STARTS)
		make_room(startup);
	start = startup->count < MAX_STARTS ? calloc(1, sizeof(*start)) : NULL;
	if (!start) {
		startup->crowded++;
		return false;
	}
	start->process = *process;
	start->process.pidfd = -1;
	snprintf(start->package, sizeof(start->package), "%s", process->package ?: "");
	start->came_ns = clock_now_ns(CLOCK_MONOTONIC);
	find_parent(start);
	start->next = startup->starts;
	startup->starts = start;
	if (!startup->count++)
		loop_set_timer(startup->context->loop, startup->timer, LOOK_NS, LOOK_NS);
	return false;
}

static bool is_target(const struct startup_source *startup, pid_t pid)
{
	for (size_t i = 0; i < MAX_PIDS && i < startup->pid_count; i++)
		if (startup->pids[i] == pid)
			return true;
	return false;
}

/* A layer of its own; or of its package, where the layer is of no target's process: a trace may
 * tell SurfaceFlinger's instead of the app's. */
static bool is_its_layer(const struct startup_source *startup, const struct start *start,
			 const struct record_layer *layer)
{
	if (layer->pid == start->process.pid)
		return true;
	if (!layer->package || is_target(startup, layer->pid))
		return false;
	return (start->package[0] && !strcmp(layer->package, start->package)) ||
	       !strcmp(layer->package, start->process.process);
}

/* The frames source stands before this one in source/declarations.c. */
static void take_frames(struct startup_source *startup, const struct record_frames *frames)
{
	for (size_t i = 0; i < frames->layer_count && !frames->history; i++) {
		const struct record_layer *layer = &frames->layers[i];
		uint64_t shown_ns = layer->first_shown_boot_ns.value;

		for (struct start *start = startup->starts; start; start = start->next)
			if (layer->first_shown_boot_ns.present &&
			    shown_ns > start->process.start_boot_ns &&
			    (!start->gone || shown_ns <= start->gone_boot_ns) &&
			    (!start->first_frame_boot_ns ||
			     shown_ns < start->first_frame_boot_ns) &&
			    is_its_layer(startup, start, layer))
				start->first_frame_boot_ns = shown_ns;
	}
}

static int startup_sample(struct source *source, struct record_interval *interval)
{
	struct startup_source *startup = startup_source(source);

	/* Starts that were told before the run began are in no record. */
	if (interval->baseline)
		startup->told = 0;
	if (interval->frames.present)
		take_frames(startup, &interval->frames);
	if (startup->starts)
		look(startup, interval->final);
	counter_list_add(&interval->lost, "startups_not_followed", startup->crowded);
	startup->crowded = 0;
	return 0;
}

static int startup_summarise(struct source *source, struct summary *summary)
{
	return summary_set_total(summary, "startup.count", (double)startup_source(source)->told);
}

static void startup_close(struct source *source)
{
	struct startup_source *startup = startup_source(source);

	while (startup->starts)
		remove_start(startup, &startup->starts);
	free(startup);
}

static const struct loss_info loss_items[] = {
	/* More targets started at a time than are followed. */
	{"startups_not_followed", LOSS_LOST, LOSS_OF_NOTHING},
};
const struct loss_table startup_losses = {loss_items, 1, NULL};

static const struct source_ops ops = {
	.name = "startup",
	.losses = &startup_losses,
	.open = startup_open,
	.sample = startup_sample,
	.take_target = startup_take_target,
	.summarise = startup_summarise,
	.close = startup_close,
};

struct source *startup_source_new(struct source *cpu, struct source *blocks, struct source *frames)
{
	struct startup_source *startup = calloc(1, sizeof(*startup));

	if (!startup)
		return NULL;
	startup->base.ops = &ops;
	startup->base.rights = RIGHT_MAPS;
	startup->cpu = cpu;
	startup->blocks = blocks;
	startup->frames = frames;
	if (frames)
		frames_source_want_launches(frames);
	startup->timer = -1;
	return &startup->base;
}
