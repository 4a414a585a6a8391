/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"
#include "source/memory/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/loop.h"
#include "core/rights.h"
#include "jankscope/target.h"
#include "source/memory/private.h"
#include "util/clock.h"

static struct memory_source *memory_source(struct source *source)
{
	return (struct memory_source *)source;
}

static int on_rested(void *ctx, uint32_t events)
{
	memory_ask_next(ctx);
	return 0;
}

static size_t most_kept(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 4 < MEMORY_KEPT
		       ? limit.rlim_cur / 4
		       : MEMORY_KEPT;
}

static int memory_open(struct source *source, const struct source_context *context)
{
	struct memory_source *memory = memory_source(source);
	struct stat st;

	memory->context = context;
	memory->most_kept = most_kept();
	memory->counts_files = !stat("/proc/self/fd", &st) && st.st_size > 0;
	memory_system_open(memory);
	memory->timer = loop_add_timer(context->loop, 0, 0, on_rested, memory);
	if (memory->timer >= 0)
		return loop_set_slack(context->loop, memory->timer, MEMORY_REST_SLACK_NS);
	snprintf(source->reason, sizeof(source->reason), "no timer: %s", strerror(-memory->timer));
	return memory->timer;
}

static bool memory_take_target(struct source *source, const struct target_process *target)
{
	if (memory_find(memory_source(source), target))
		memory_ask_next(memory_source(source));
	return false;
}

/* The rows' own lists of what is missing. */
static void free_rows(struct memory_source *memory)
{
	for (size_t i = 0; i < memory->row_count; i++)
		missing_list_free(&memory->rows[i].missing);
	memory->row_count = 0;
}

static int make_room(struct memory_source *memory, size_t count)
{
	struct record_memory_process *more;

	if (count <= memory->row_room)
		return 0;
	more = realloc(memory->rows, 2 * count * sizeof(*more));
	if (!more)
		return -ENOMEM;
	memory->rows = more;
	memory->row_room = 2 * count;
	return 0;
}

static int sample_processes(struct memory_source *memory, bool final)
{
	const struct target_process *target;
	struct memory_process *process, *next;
	int err = 0;

	memory->turn++;
	for (size_t n = 0; !err && (target = target_set_at(memory->context->targets, n)); n++) {
		process = memory_find(memory, target);
		if (!process)
			return -ENOMEM;
		process->turn = memory->turn;
		err = make_room(memory, memory->row_count + 1);
		if (!err)
			err = memory_add_row(process, target, final);
	}
	HASH_ITER (hh, memory->processes, process, next)
		if (process->turn != memory->turn)
			memory_drop(process);
	return err;
}

static int memory_sample(struct source *source, struct record_interval *interval)
{
	struct memory_source *memory = memory_source(source);
	int err;

	free_rows(memory);
	interval->memory = (struct record_memory){.present = true};
	err = memory_system_read(memory, &interval->memory.system, &interval->missing);
	if (!err && !target_set_is_all(memory->context->targets))
		err = sample_processes(memory, interval->final);
	interval->memory.processes = memory->rows;
	interval->memory.process_count = memory->row_count;
	if (!err)
		err = counter_list_add(&interval->lost, "memory_unread", memory->unread);
	memory->unread = 0;
	/* Their answers go with the next interval. */
	if (!interval->final)
		memory_ask_next(memory);
	return err;
}

static void memory_close(struct source *source)
{
	struct memory_source *memory = memory_source(source);
	struct memory_process *process, *next;

	if (!memory)
		return;
	HASH_ITER (hh, memory->processes, process, next)
		memory_drop(process);
	if (memory->timer >= 0)
		loop_remove_timer(memory->context->loop, memory->timer);
	memory_system_close(memory);
	free_rows(memory);
	free(memory->rows);
	free(memory->gpus);
	free(memory);
}

/* Readings of a process that gave nothing; the row's `missing` says why. */
static const struct loss_info loss_items[] = {
	{"memory_unread", LOSS_LOST, LOSS_OF_NOTHING},
};
const struct loss_table memory_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items),
					 NULL};

static const struct source_ops memory_ops = {
	.name = "memory",
	.losses = &memory_losses,
	.open = memory_open,
	.sample = memory_sample,
	.take_target = memory_take_target,
	.close = memory_close,
};

struct source *memory_source_new(const struct memory_options *options)
{
	struct memory_source *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->base.ops = &memory_ops;
	memory->base.rights = RIGHT_MAPS;
	memory->options = *options;
	memory->meminfo = memory->pressure = memory->gpu_map = -ENOENT;
	memory->timer = -1;
	return &memory->base;
}
