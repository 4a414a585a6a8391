/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/context/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "core/loop.h"
#include "jankscope/target.h"
#include "source/context/screen.h"
#include "util/clock.h"

#define MAX_PROCESSES 4096

/* In longer intervals a process may come and go between two readings: up to LOOKED_AT of them are
 * looked at so often. */
#define LOOK_NS       NSEC_PER_SEC
#define LOOK_SLACK_NS (100 * NSEC_PER_MSEC)
#define LOOKED_AT     64

/* What a process was at the reading before. */
struct known {
	UT_hash_handle hh;
	struct {
		pid_t pid;
		uint32_t zero; /* no padding in a hash key */
		uint64_t start_boot_ns;
	} key;
	enum context_state state;
	bool moved; /* since then it was seen in another state */
	uint64_t reading;
};

struct context_source {
	struct source base;
	struct target_set *targets;
	struct loop *loop;
	int timer; /* of the looks; -1: there are none */
	struct screen screen;
	bool has_screen;
	struct opt_u64 panel_brightness; /* as power's last reading told it */
	struct known *known;
	uint64_t reading;
	struct record_process_context *rows;
	size_t room;
};

static void drop(struct context_source *source, struct known *known)
{
	HASH_DEL(source->known, known);
	free(known);
}

static int take_state(struct context_source *source, struct record_process_context *row)
{
	struct known *known, wanted = {.key = {row->pid, 0, row->start_boot_ns}};

	HASH_FIND(hh, source->known, &wanted.key, sizeof(wanted.key), known);
	row->changed = !known || known->moved || known->state != row->state ||
		       known->reading + 1 != source->reading;
	if (!known) {
		known = calloc(1, sizeof(*known));
		if (!known)
			return -ENOMEM;
		known->key = wanted.key;
		HASH_ADD(hh, source->known, key, sizeof(known->key), known);
	}
	known->state = row->state;
	known->moved = false;
	known->reading = source->reading;
	return 0;
}

static struct record_process_context *add_row(struct context_source *source, size_t count)
{
	if (count == source->room) {
		size_t room = source->room ? 2 * source->room : 16;
		struct record_process_context *rows = realloc(source->rows, room * sizeof(*rows));

		if (!rows)
			return NULL;
		source->rows = rows;
		source->room = room;
	}
	source->rows[count] = (struct record_process_context){0};
	return &source->rows[count];
}

/* 0; -ENOTSUP: no Android; -ENOENT: the process is gone; -EBADMSG: it is there, and cannot be read.
 */
static int read_state(const struct context_source *source, pid_t pid,
		      struct record_process_context *row)
{
	int score, is = target_is_foreground(source->targets, pid), err;

	if (is == -ENOTSUP)
		return is;
	/* Each process that lives has that file. */
	err = target_oom_score_adj(source->targets, pid, &score);
	if (err == -ENOENT || err == -ESRCH)
		return -ENOENT;
	if (err || is < 0)
		return -EBADMSG;
	row->oom_score_adj = score;
	row->state = is                                            ? CONTEXT_FOREGROUND
		     : target_is_frozen(source->targets, pid) == 1 ? CONTEXT_FROZEN
		     : score >= TARGET_CACHED_ADJ                  ? CONTEXT_CACHED
								   : CONTEXT_BACKGROUND;
	return 0;
}

static int take_processes(struct context_source *source, struct record_interval *interval)
{
	const struct target_process *process;
	struct known *known, *next;
	const char *why = NULL;
	size_t count = 0;
	int err = 0;

	source->reading++;
	for (size_t i = 0; (process = target_set_at(source->targets, i)) && err != -ENOTSUP; i++) {
		struct record_process_context *row;

		if (count == MAX_PROCESSES) {
			why = "there are more than 4096 processes: not all are told";
			break;
		}
		row = add_row(source, count);
		if (!row)
			return -ENOMEM;
		err = read_state(source, process->pid, row);
		if (err == -ENOTSUP)
			why = "no cpuset top-app: not Android";
		else if (err == -EBADMSG)
			why = "oom_score_adj or cpuset of a process cannot be read, or makes no "
			      "sense";
		if (err)
			continue; /* or it ended a moment ago */
		row->pid = process->pid;
		row->uid = process->uid;
		row->start_boot_ns = process->start_boot_ns;
		row->process = process->process;
		row->package = process->package;
		err = take_state(source, row);
		if (err)
			return err;
		count++;
	}
	if (why && missing_list_set(&interval->missing, "context.processes", why))
		return -ENOMEM;
	HASH_ITER (hh, source->known, known, next)
		if (known->reading != source->reading)
			drop(source, known);
	interval->context.processes = source->rows;
	interval->context.process_count = count;
	return 0;
}

static int on_look(void *ctx, uint32_t events)
{
	struct context_source *source = ctx;
	struct record_process_context row;

	if (HASH_COUNT(source->known) > LOOKED_AT)
		return 0;
	for (struct known *known = source->known; known; known = known->hh.next) {
		int err = known->moved ? 0 : read_state(source, known->key.pid, &row);

		/* Of one that is gone nothing is known any more. */
		known->moved |= err ? err != -ENOENT : !known->moved && row.state != known->state;
	}
	return 0;
}

static int context_open(struct source *base, const struct source_context *context)
{
	struct context_source *source = (struct context_source *)base;

	source->targets = context->targets;
	source->loop = context->loop;
	if (context->loop && context->interval_ns > LOOK_NS) {
		source->timer = loop_add_timer(context->loop, LOOK_NS, LOOK_NS, on_look, source);
		if (source->timer >= 0)
			loop_set_slack(context->loop, source->timer, LOOK_SLACK_NS);
	}
	source->has_screen = !screen_find(&source->screen, "");
	base->variant = source->has_screen ? source->screen.by : NULL;
	return 0;
}

/* Whether what power tells says that the device runs from its battery: the battery does, or each
 * plug is out. */
static bool runs_from_battery(const struct record_power *power)
{
	const char *status = power->battery.status;
	size_t plugs = 0, out = 0;

	if (!power->battery_present)
		return false;
	if (status && strcmp(status, "Unknown") != 0)
		return true;
	for (size_t i = 0; i < power->supply_count; i++) {
		const struct record_supply *supply = &power->supplies[i];

		if (supply->type && !strcmp(supply->type, "Battery"))
			continue;
		plugs++;
		out += supply->online.present;
	}
	return plugs && out == plugs;
}

/* The power source has looked already: it stands before this one in source/declarations.c. */
static void take_charging(struct record_interval *interval)
{
	const struct record_power *power = &interval->power;

	if (power->present && power->external)
		interval->context.charging = "yes";
	else if (power->present && runs_from_battery(power))
		interval->context.charging = "no";
	else
		missing_list_set(&interval->missing, "context.charging",
				 power->present && power->battery_present
					 ? "neither the battery nor each of its supplies says it"
					 : "the power source told nothing of a battery");
}

static int context_sample(struct source *base, struct record_interval *interval)
{
	struct context_source *source = (struct context_source *)base;
	int on;

	/* Where an interval is shorter than a second, not each of them has a reading. */
	if (interval->power.present)
		source->panel_brightness = interval->power.panel_brightness;
	on = source->has_screen ? screen_is_on(&source->screen, source->panel_brightness) : -ENOENT;
	interval->context.present = true;
	if (on >= 0)
		interval->context.screen = on ? "on" : "off";
	else
		missing_list_set(&interval->missing, "context.screen",
				 on == -ENOENT ? "no backlight and no display in /sys"
					       : "no backlight or display told it");
	take_charging(interval);
	return target_set_is_all(source->targets) ? 0 : take_processes(source, interval);
}

static void context_close(struct source *base)
{
	struct context_source *source = (struct context_source *)base;
	struct known *known, *next;

	if (source->timer >= 0)
		loop_remove_timer(source->loop, source->timer);
	HASH_ITER (hh, source->known, known, next)
		drop(source, known);
	free(source->rows);
	free(source);
}

static const struct source_ops ops = {
	.name = "context",
	.open = context_open,
	.sample = context_sample,
	.close = context_close,
};

struct source *context_source_new(void)
{
	struct context_source *source = calloc(1, sizeof(*source));

	if (!source)
		return NULL;
	source->base.ops = &ops;
	source->timer = -1;
	return &source->base;
}
