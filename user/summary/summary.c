/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/summary_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/histogram.h"
#include "record/losses.h"
#include "record/telling.h"
#include "core/paths.h"
#include "summary/blocks.h"
#include "summary/memory.h"
#include "summary/usage.h"

static const char *const distribution_names[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DUR] = "interval.dur_ns",
	[DISTRIBUTION_BUSY] = "cpu.interval_busy_ns",
	[DISTRIBUTION_SELF] = "self.interval_cpu_ns",
	[DISTRIBUTION_BLOCK_WALL] = "blocks.wall_ns",
	[DISTRIBUTION_AVAILABLE] = "memory.available_bytes",
};

/* Threads, processes, uids and layers that the footer lists. */
#define TOP_ROWS 20

static const struct loss_info loss_items[] = {
	{"blocks_without_stack", LOSS_LOST, LOSS_OF_NOTHING}, /* is the share of stacks */
	{"records_dropped", LOSS_LOST, LOSS_OF_RECORDS},
	/* The sums of an interval that was not told are in the next one. */
	{"interval_overruns", LOSS_LATE, LOSS_OF_NOTHING},
	/* Processes that /proc could not be asked about; the next scan does. */
	{"processes_unread", LOSS_LATE, LOSS_OF_NOTHING},
	/* Lines of the list of packages that make no sense: these uids have no package's name. */
	{"package_lines_unread", LOSS_LOST, LOSS_OF_NOTHING},
};

const struct loss_table summary_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items),
					  NULL};

static int add_to_split(void *summary, const char *key, double value);

_Static_assert(DISTRIBUTION_MAX <= SCENE_DISTRIBUTIONS, "of scenes");

struct summary *summary_new(const struct loss_registry *registry)
{
	struct summary *summary = calloc(1, sizeof(*summary));

	if (!summary)
		return NULL;
	summary->registry = registry;
	summary->paths = paths_new();
	summary->usage = usage_new();
	summary->groups = block_groups_new(false);
	summary->memory = memory_runs_new();
	summary->scenes = scenes_new();
	summary->split = split_new(add_to_split, summary);
	if (!summary->paths || !summary->usage || !summary->groups || !summary->memory ||
	    !summary->scenes || !summary->split) {
		summary_free(summary);
		return NULL;
	}
	for (int i = 0; i < DISTRIBUTION_MAX; i++) {
		summary->histograms[i] = histogram_new();
		if (!summary->histograms[i]) {
			summary_free(summary);
			return NULL;
		}
	}
	return summary;
}

void summary_free(struct summary *summary)
{
	if (!summary)
		return;
	paths_free(summary->paths);
	usage_free(summary->usage);
	block_groups_free(summary->groups);
	memory_runs_free(summary->memory);
	scenes_free(summary->scenes);
	split_free(summary->split);
	for (int i = 0; i < DISTRIBUTION_MAX; i++)
		histogram_free(summary->histograms[i]);
	for (size_t i = 0; i < summary->footer.total_count; i++)
		free(summary->footer.totals[i].key);
	free(summary->footer.totals);
	counter_list_free(&summary->footer.lost);
	counter_list_free(&summary->footer.late);
	counter_list_free(&summary->footer.repaired);
	missing_list_free(&summary->footer.missing);
	free(summary);
}

static double *total(struct summary *summary, const char *key)
{
	struct record_footer *footer = &summary->footer;
	struct summary_total *more;

	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return &footer->totals[i].value;
	more = realloc(footer->totals, (footer->total_count + 1) * sizeof(*more));
	if (!more)
		return NULL;
	footer->totals = more;
	more[footer->total_count] = (struct summary_total){strdup(key), 0};
	if (!more[footer->total_count].key)
		return NULL;
	return &more[footer->total_count++].value;
}

int summary_set_total(struct summary *summary, const char *key, double value)
{
	double *place = total(summary, key);

	if (!place)
		return -ENOMEM;
	*place = value;
	return 0;
}

static int add(struct summary *summary, const char *key, double value)
{
	double *place = total(summary, key);

	if (!place)
		return -ENOMEM;
	*place += value;
	return scenes_add(summary->scenes, key, value);
}

static int add_value(struct summary *summary, enum distribution which, uint64_t value)
{
	int err = histogram_add(summary->histograms[which], value);

	return err ? err : scenes_add_value(summary->scenes, which, value);
}

static int add_to_split(void *ctx, const char *key, double value)
{
	return add(ctx, key, value);
}

double summary_get(const struct summary *summary, const char *key)
{
	for (size_t i = 0; i < summary->footer.total_count; i++)
		if (!strcmp(summary->footer.totals[i].key, key))
			return summary->footer.totals[i].value;
	return 0;
}

static int add_stat(struct summary *summary, const struct record_cpu_stat *stat)
{
	const struct {
		const char *key;
		struct opt_u64 value;
	} parts[] = {{"cpu.irq_ns", stat->irq_ns},
		     {"cpu.softirq_ns", stat->softirq_ns},
		     {"cpu.steal_ns", stat->steal_ns},
		     {"cpu.iowait_ns", stat->iowait_ns}};
	int err = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !err; i++)
		if (parts[i].value.present)
			err = add(summary, parts[i].key, (double)parts[i].value.value);
	return err;
}

static int add_cpu(struct summary *summary, const struct record_cpu *cpu)
{
	int err = add(summary, "cpu.busy_ns", (double)cpu->busy_ns);

	if (!err)
		err = add(summary, "cpu.other_ns", (double)cpu->other_ns);
	if (!err)
		err = add(summary, "cpu.overflow_ns", (double)cpu->overflow_ns);
	if (!err && cpu->idle_ns.present)
		err = add(summary, "cpu.idle_ns", (double)cpu->idle_ns.value);
	if (!err)
		err = add(summary, "cpu.online_ns", (double)cpu->online_ns);
	if (!err && cpu->stat_present)
		err = add_stat(summary, &cpu->stat);
	if (!err && cpu->unaccounted_ns.present)
		err = add(summary, "cpu.unaccounted_ns", (double)cpu->unaccounted_ns.value);
	for (size_t i = 0; i < cpu->task_count + cpu->cut_count; i++)
		summary->exits += cpu->tasks[i].exited;
	if (!err)
		err = clusters_add(&summary->other_tools.clusters, cpu, add_to_split, summary);
	if (!err)
		err = add_value(summary, DISTRIBUTION_BUSY, cpu->busy_ns);
	return err;
}

static int add_bytes(struct summary *summary, const char *prefix, const struct record_bytes *bytes)
{
	const struct {
		const char *name;
		uint64_t value;
	} parts[] = {
		{"rx_bytes", bytes->rx_bytes},
		{"rx_packets", bytes->rx_packets},
		{"tx_bytes", bytes->tx_bytes},
		{"tx_packets", bytes->tx_packets},
	};
	char key[64];
	int err = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !err; i++) {
		snprintf(key, sizeof(key), "%s.%s", prefix, parts[i].name);
		err = add(summary, key, (double)parts[i].value);
	}
	return err;
}

static int add_net(struct summary *summary, const struct record_net *net)
{
	struct record_bytes sum = {0};
	int err;

	for (size_t i = 0; i < net->uid_count; i++) {
		sum.rx_bytes += net->uids[i].bytes.rx_bytes;
		sum.rx_packets += net->uids[i].bytes.rx_packets;
		sum.tx_bytes += net->uids[i].bytes.tx_bytes;
		sum.tx_packets += net->uids[i].bytes.tx_packets;
	}
	err = add_bytes(summary, "net", &sum);
	if (!err)
		err = add_bytes(summary, "net.loopback", &net->loopback);
	return err ? err : add_bytes(summary, "net.unattributed", &net->unattributed);
}

static int add_memory(struct summary *summary, const struct record_memory *memory,
		      uint64_t end_boot_ns)
{
	const struct record_memory_system *system = &memory->system;
	int err = 0;

	if (system->available_bytes.present)
		err = histogram_add(summary->histograms[DISTRIBUTION_AVAILABLE],
				    system->available_bytes.value);
	if (!err && system->total_bytes.present)
		err = summary_set_total(summary, "memory.total_bytes",
					(double)system->total_bytes.value);
	if (!err && system->pressure_some_ns.present)
		err = add(summary, "memory.pressure_some_ns",
			  (double)system->pressure_some_ns.value);
	if (!err && system->pressure_full_ns.present)
		err = add(summary, "memory.pressure_full_ns",
			  (double)system->pressure_full_ns.value);
	return err ? err : memory_runs_add(summary->memory, memory, end_boot_ns);
}

static int add_part(struct summary *summary, const char *key, struct opt_u64 before,
		    struct opt_u64 after)
{
	return after.present
		       ? scenes_add(summary->scenes, key, (double)(after.value - before.value))
		       : 0;
}

/* What only the footer has of the whole run, scenes have by its growth. */
static int add_usage(struct summary *summary, const struct record_interval *interval,
		     uint64_t end_boot_ns)
{
	struct usage_targets before = usage_targets(summary->usage), after;
	struct scenes *scenes = summary->scenes;
	int err = usage_add(summary->usage, interval, end_boot_ns);

	after = usage_targets(summary->usage);
	if (!err)
		err = add_part(summary, "targets.cpu_ns", before.cpu_ns, after.cpu_ns);
	if (!err)
		err = add_part(summary, "targets.runnable_ns", before.runnable_ns,
			       after.runnable_ns);
	if (!err)
		err = add_part(summary, "targets.rx_bytes", before.rx_bytes, after.rx_bytes);
	if (!err)
		err = add_part(summary, "targets.tx_bytes", before.tx_bytes, after.tx_bytes);
	for (size_t i = 0; i < interval->frames.layer_count && !err; i++) {
		const struct record_layer *layer = &interval->frames.layers[i];

		err = scenes_add(scenes, "frames.shown", (double)layer->shown);
		if (!err)
			err = scenes_add(scenes, "frames.dropped", (double)layer->dropped);
		if (!err)
			err = scenes_add(scenes, "frames.janky", (double)layer->janky);
	}
	if (!err)
		err = scenes_add(scenes, "intervals",
				 interval->merged.present ? (double)interval->merged.intervals : 1);
	return err ? err : scenes_add(scenes, "dur_ns", (double)interval->dur_ns);
}

static int add_interval(struct summary *summary, const struct record_interval *interval,
			uint64_t end_boot_ns)
{
	uint64_t begin_boot_ns = summary->end_boot_ns;
	int err = counter_list_merge(&summary->footer.lost, &interval->lost);

	if (!begin_boot_ns)
		begin_boot_ns = end_boot_ns - interval->dur_ns;
	summary->end_boot_ns = end_boot_ns;
	scenes_select(summary->scenes, begin_boot_ns, end_boot_ns);

	if (!err)
		err = counter_list_merge(&summary->footer.late, &interval->late);
	if (!err)
		err = counter_list_merge(&summary->footer.repaired, &interval->repaired);
	for (size_t i = 0; i < interval->frames.layer_count; i++)
		summary->frames += interval->frames.layers[i].shown;
	summary_follow_frames(summary, interval);
	summary->intervals += interval->merged.present ? interval->merged.intervals : 1;
	summary->dur_ns += (double)interval->dur_ns;
	for (size_t i = 0; i < interval->missing.count && !err; i++)
		err = missing_list_set(&summary->footer.missing, interval->missing.items[i].key,
				       interval->missing.items[i].reason);
	if (!err)
		err = add_value(summary, DISTRIBUTION_DUR, interval->dur_ns);
	if (!err)
		err = add_value(summary, DISTRIBUTION_SELF, interval->self.cpu_ns);
	if (!err)
		err = add(summary, "self.cpu_ns", (double)interval->self.cpu_ns);
	if (!err)
		err = add(summary, "self.stops", (double)interval->self.stops);
	if (!err && (double)interval->self.stop_max_ns > summary_get(summary, "self.stop_max_ns"))
		err = summary_set_total(summary, "self.stop_max_ns",
					(double)interval->self.stop_max_ns);
	if (!err && interval->self.anon_bytes.present)
		err = summary_set_total(summary, "self.anon_bytes",
					(double)interval->self.anon_bytes.value);
	if (!err && interval->self.memory_bytes.present)
		err = summary_set_total(summary, "self.memory_bytes",
					(double)interval->self.memory_bytes.value);
	if (!err && interval->cpu.present)
		err = add_cpu(summary, &interval->cpu);
	if (!err && interval->net.present)
		err = add_net(summary, &interval->net);
	if (!err && interval->memory.present)
		err = add_memory(summary, &interval->memory, end_boot_ns);
	if (!err)
		err = split_interval(summary->split, interval, begin_boot_ns, end_boot_ns);
	return err ? err : add_usage(summary, interval, end_boot_ns);
}

static const char *reason_of(const struct missing_list *list, const char *key)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].key, key))
			return list->items[i].reason;
	return NULL;
}

int summary_add_losses(struct summary *summary, const struct counter_list *list)
{
	struct record_footer *footer = &summary->footer;
	int err = 0;

	for (size_t i = 0; i < list->count && !err; i++) {
		const struct counter *counter = &list->items[i];
		enum loss_kind kind = loss_registry_find(summary->registry, counter->name).kind;

		err = counter_list_add(kind == LOSS_LATE       ? &footer->late
				       : kind == LOSS_REPAIRED ? &footer->repaired
							       : &footer->lost,
				       counter->name, counter->value);
	}
	return err;
}

/* A block whose stack never came is grouped with those that have none. */
static void give_up_stack(struct summary *summary, struct followed *followed)
{
	if (followed->ungrouped)
		block_groups_add(summary->groups, followed->wall_ns, NULL);
	followed->ungrouped = false;
}

static int add_block(struct summary *summary, const struct record *record)
{
	const struct record_block *block = record->block;
	const char *why = reason_of(&block->missing, "stacks");
	bool follows = why && !strcmp(why, MISSING_FOLLOWS);
	bool bare = !block->stack_count && why && strncmp(why, "--stack off", 11);
	int err;

	/* An open period is told again when it ends. */
	if (block->state == BLOCK_OPEN)
		return 0;
	summary_follow_block(summary, block);
	summary->blocks++;
	scenes_select(summary->scenes, block->start_boot_ns, block->start_boot_ns + block->wall_ns);
	summary->blocks_bare += bare;
	if (follows) {
		struct followed *place = &summary->followed[summary->followed_next];

		give_up_stack(summary, place);
		*place = (struct followed){record->seq, block->wall_ns, true, bare,
					   !block->stack_count};
		summary->followed_next = (summary->followed_next + 1) % MAX_FOLLOWED;
	}
	if (!follows || block->stack_count)
		block_groups_add(summary->groups, block->wall_ns, heaviest_stack(block));
	err = paths_add(summary->paths, block);
	if (!err)
		err = scenes_add(summary->scenes, "blocks.count", 1);
	if (!err)
		err = split_block(summary->split, block);
	if (!err)
		err = add(summary, "blocks.total_ns", (double)block->wall_ns);
	if (!err)
		err = add_value(summary, DISTRIBUTION_BLOCK_WALL, block->wall_ns);
	return err ? err : summary_add_losses(summary, &block->lost);
}

/* A stack counts with the last record of its block only: what came for an earlier one is in there
 * again. */
static int add_addition(struct summary *summary, const struct record_addition *addition)
{
	struct record_stack stack = addition->stack;
	struct record_block block = {.stacks = &stack, .stack_count = 1};

	for (size_t i = 0; i < MAX_FOLLOWED; i++) {
		struct followed *followed = &summary->followed[i];

		if (!followed->waits || followed->seq != addition->of)
			continue;
		if (followed->bare)
			summary->blocks_bare--;
		followed->bare = false;
		if (followed->ungrouped)
			block_groups_add(summary->groups, followed->wall_ns, &stack);
		followed->ungrouped = false;
		return paths_add(summary->paths, &block);
	}
	return 0;
}

/* A scene begins where the interval before it was cut for it, else at the event's own time. */
static int add_mark(struct summary *summary, const struct record *record)
{
	const struct record_event *event = record->event;
	uint64_t at_boot_ns = record->t_boot_ns;
	const char *name = NULL, *state = "";
	int err;

	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];

		if (!strcmp(key->name, "name"))
			name = key->text;
		else if (!strcmp(key->name, "state") && key->text)
			state = key->text;
		else if (!strcmp(key->name, "exact") && key->value == 1)
			at_boot_ns = summary->end_boot_ns;
	}
	if (!name)
		return 0;
	err = scenes_mark(summary->scenes, name, !strcmp(state, "end"), at_boot_ns);
	return err == -ENOMEM ? err : 0;
}

static int add_event(struct summary *summary, const struct record *record)
{
	double *events;

	if (strcmp(record->event->event, "mark")) {
		scenes_select(summary->scenes, record->t_boot_ns, record->t_boot_ns);
		return add(summary, "events", 1);
	}
	/* It is between scenes, and in none. */
	events = total(summary, "events");
	if (!events)
		return -ENOMEM;
	++*events;
	return add_mark(summary, record);
}

bool summary_scene_is_open(const struct summary *summary, const char *name)
{
	return scenes_is_open(summary->scenes, name);
}

int summary_add(struct summary *summary, const struct record *record)
{
	summary->records++;
	switch (record->type) {
	case RECORD_INTERVAL:
		return add_interval(summary, record->interval, record->t_boot_ns);
	case RECORD_BLOCK:
		return add_block(summary, record);
	case RECORD_STACK:
		return add_addition(summary, record->addition);
	case RECORD_EVENT:
		return add_event(summary, record);
	case RECORD_HEADER:
		summary->other_tools.block_ns = record->header->block_ns;
		return usage_begin(summary->usage, record->header);
	case RECORD_FOOTER:
		return 0;
	}
	return 0;
}

static int set_optional(struct summary *summary, const char *key, struct opt_u64 value)
{
	return value.present ? summary_set_total(summary, key, (double)value.value) : 0;
}

static int set_usage(struct summary *summary)
{
	struct usage_targets targets = usage_targets(summary->usage);
	int err = set_optional(summary, "targets.cpu_ns", targets.cpu_ns);

	if (!err)
		err = set_optional(summary, "targets.runnable_ns", targets.runnable_ns);
	if (!err)
		err = set_optional(summary, "targets.rx_bytes", targets.rx_bytes);
	if (!err)
		err = set_optional(summary, "targets.tx_bytes", targets.tx_bytes);
	if (!err)
		err = summary_set_percentages(summary, targets.cpu_ns);
	for (size_t i = 0; i < MAX_FOLLOWED; i++)
		give_up_stack(summary, &summary->followed[i]);
	if (!err)
		err = block_groups_take(summary->groups, BLOCK_PATHS, &summary->footer);
	if (!err)
		err = memory_runs_take(summary->memory, TOP_ROWS, &summary->footer);
	return err ? err : usage_take(summary->usage, TOP_ROWS, &summary->footer);
}

static int set_causes(struct summary *summary)
{
	struct usage_causes causes;
	bool any = usage_causes(summary->usage, &causes);
	const struct {
		const char *key;
		uint64_t value;
	} parts[] = {{"frames.causes.app", causes.app},
		     {"frames.causes.sf", causes.sf},
		     {"frames.causes.hw", causes.hw},
		     {"frames.causes.stuffing", causes.stuffing},
		     {"frames.causes.dropped", causes.dropped},
		     {"frames.causes.unknown", causes.unknown}};
	int err = 0;

	for (size_t i = 0; any && i < sizeof(parts) / sizeof(*parts) && !err; i++)
		err = summary_set_total(summary, parts[i].key, (double)parts[i].value);
	return err;
}

struct record_distribution summary_describe(const struct histogram *histogram, const char *name)
{
	return (struct record_distribution){
		.name = name,
		.n = histogram_count(histogram),
		.min = (double)histogram_min(histogram),
		.max = (double)histogram_max(histogram),
		.mean = histogram_mean(histogram),
		.p50 = (double)histogram_percentile(histogram, 50),
		.p90 = (double)histogram_percentile(histogram, 90),
		.p95 = (double)histogram_percentile(histogram, 95),
		.p99 = (double)histogram_percentile(histogram, 99),
	};
}

const struct record_footer *summary_footer(struct summary *summary)
{
	struct record_footer *footer = &summary->footer;
	uint64_t bare_told;
	int err = summary_set_total(summary, "intervals", (double)summary->intervals);

	scenes_select(summary->scenes, summary->end_boot_ns, summary->end_boot_ns);
	if (!err)
		err = split_finish(summary->split);
	if (!err)
		err = scenes_take(summary->scenes, distribution_names, DISTRIBUTION_MAX, footer);
	if (!err)
		err = summary_set_total(summary, "dur_ns", summary->dur_ns);
	if (!err)
		err = summary_set_total(summary, "blocks.count", (double)summary->blocks);
	if (!err && !reason_of(&footer->missing, "cpu.tasks_exited"))
		err = summary_set_total(summary, "cpu.tasks_exited", (double)summary->exits);
	if (!err)
		err = set_usage(summary);
	if (!err)
		err = set_causes(summary);
	if (!err)
		err = summary_set_shares(summary);
	bare_told = counter_list_get(&footer->lost, "blocks_without_stack");
	if (!err && summary->blocks_bare > bare_told)
		err = counter_list_add(&footer->lost, "blocks_without_stack",
				       summary->blocks_bare - bare_told);
	if (err) {
		errno = -err;
		return NULL;
	}
	footer->path_count = paths_top(summary->paths, BLOCK_PATHS, &footer->paths);
	if (paths_dropped_ns(summary->paths))
		summary_set_total(summary, "blocks.paths_dropped_ns",
				  (double)paths_dropped_ns(summary->paths));
	footer->distributions = summary->distributions;
	footer->distribution_count = 0;
	for (int i = 0; i < DISTRIBUTION_MAX; i++) {
		const struct histogram *histogram = summary->histograms[i];

		if (!histogram_count(histogram))
			continue;
		footer->distributions[footer->distribution_count++] =
			summary_describe(histogram, distribution_names[i]);
	}
	return footer;
}
