/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/summary_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/fields.h"
#include "record/histogram.h"
#include "record/losses.h"
#include "record/telling.h"
#include "core/paths.h"
#include "summary/blocks.h"
#include "summary/disk.h"
#include "summary/interfaces.h"
#include "summary/memory.h"
#include "summary/usage.h"

static const char *const distribution_names[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DUR] = "interval.dur_ns",
	[DISTRIBUTION_BUSY] = "cpu.interval_busy_ns",
	[DISTRIBUTION_SELF] = "self.interval_cpu_ns",
	[DISTRIBUTION_BLOCK_WALL] = "blocks.wall_ns",
	[DISTRIBUTION_AVAILABLE] = "memory.available_bytes",
	[DISTRIBUTION_TCP_RTT] = "tcp.rtt_ns",
	[DISTRIBUTION_HOTTEST] = "power.hottest_zone_mc",
	[DISTRIBUTION_STARTUP_FRAME] = "startup.first_frame_ns",
	[DISTRIBUTION_STARTUP_IDLE] = "startup.first_idle_ns",
	[DISTRIBUTION_LAUNCH + LAUNCH_COLD] = "launches.cold.first_frame_ns",
	[DISTRIBUTION_LAUNCH + LAUNCH_WARM] = "launches.warm.first_frame_ns",
	[DISTRIBUTION_LAUNCH + LAUNCH_HOT] = "launches.hot.first_frame_ns",
	[DISTRIBUTION_TARGETS_RSS] = "targets.rss_bytes",
	[DISTRIBUTION_TARGETS_PSS] = "targets.pss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_RSS + SPLIT_FOREGROUND] = "foreground.process_rss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_RSS + SPLIT_BACKGROUND] = "background.process_rss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_RSS + SPLIT_MIXED] = "mixed.process_rss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_RSS + SPLIT_UNKNOWN] = "unknown.process_rss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_PSS + SPLIT_FOREGROUND] = "foreground.process_pss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_PSS + SPLIT_BACKGROUND] = "background.process_pss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_PSS + SPLIT_MIXED] = "mixed.process_pss_bytes",
	[DISTRIBUTION_SPLIT + SPLIT_PSS + SPLIT_UNKNOWN] = "unknown.process_pss_bytes",
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
	/* Targets that no scan met alive: their CPU time is told, their start is not. */
	{"targets_unmet", LOSS_LATE, LOSS_OF_NOTHING},
	/* Lines of the list of packages that make no sense: these uids have no package's name. */
	{"package_lines_unread", LOSS_LOST, LOSS_OF_NOTHING},
};

const struct loss_table summary_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items),
					  NULL};

static int add_to_split(void *summary, const char *key, double value);
static int add_value_of_split(void *summary, enum split_value which, uint64_t value);
static void select_for_split(void *summary, uint64_t begin_boot_ns, uint64_t end_boot_ns);
static bool is_target_of_split(void *summary, uid_t uid, const char *package);

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
	summary->late = block_groups_new(false);
	summary->memory = memory_runs_new();
	summary->disk = disk_runs_new();
	summary->scenes = scenes_new();
	summary->split = split_new(&(struct split_sink){summary, &summary->other_tools.clusters,
							add_to_split, add_value_of_split,
							select_for_split, is_target_of_split});
	summary->interfaces = interface_sums_new();
	if (!summary->paths || !summary->usage || !summary->groups || !summary->late ||
	    !summary->memory || !summary->disk || !summary->scenes || !summary->split ||
	    !summary->interfaces) {
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
	block_groups_free(summary->late);
	memory_runs_free(summary->memory);
	disk_runs_free(summary->disk);
	scenes_free(summary->scenes);
	split_free(summary->split);
	interface_sums_free(summary->interfaces);
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

double *summary_total(struct summary *summary, const char *key)
{
	struct record_footer *footer = &summary->footer;
	struct summary_total *more;
	size_t at = summary->last_total;

	/* They come in the order in which they came before. */
	for (size_t i = 0; i < footer->total_count; i++) {
		at = at + 1 < footer->total_count ? at + 1 : 0;
		if (!strcmp(footer->totals[at].key, key)) {
			summary->last_total = at;
			return &footer->totals[at].value;
		}
	}
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
	double *place = summary_total(summary, key);

	if (!place)
		return -ENOMEM;
	*place = value;
	return 0;
}

int summary_ensure_total(struct summary *summary, const char *key)
{
	return summary_total(summary, key) ? 0 : -ENOMEM;
}

int summary_add_to(struct summary *summary, const char *key, double value)
{
	double *place = summary_total(summary, key);

	if (!place)
		return -ENOMEM;
	*place += value;
	return scenes_add(summary->scenes, key, value);
}

int summary_add_value(struct summary *summary, enum distribution which, uint64_t value)
{
	int err = histogram_add(summary->histograms[which], value);

	return err ? err : scenes_add_value(summary->scenes, which, value);
}

int summary_add_bucket(struct summary *summary, enum distribution which, uint64_t low,
		       uint64_t high, uint64_t count)
{
	int err = histogram_add_bucket(summary->histograms[which], low, high, count);

	return err ? err : scenes_add_bucket(summary->scenes, which, low, high, count);
}

static int add_to_split(void *ctx, const char *key, double value)
{
	return summary_add_to(ctx, key, value);
}

static int add_value_of_split(void *ctx, enum split_value which, uint64_t value)
{
	return summary_add_value(ctx, DISTRIBUTION_SPLIT + which, value);
}

static bool is_target_of_split(void *ctx, uid_t uid, const char *package)
{
	return usage_is_of_target(((struct summary *)ctx)->usage, uid, package);
}

static void select_for_split(void *ctx, uint64_t begin_boot_ns, uint64_t end_boot_ns)
{
	scenes_select(((struct summary *)ctx)->scenes, begin_boot_ns, end_boot_ns);
}

double summary_get(const struct summary *summary, const char *key)
{
	for (size_t i = 0; i < summary->footer.total_count; i++)
		if (!strcmp(summary->footer.totals[i].key, key))
			return summary->footer.totals[i].value;
	return 0;
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
	const char *why = missing_reason(&block->missing, "stacks");
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
		err = summary_add_to(summary, "blocks.total_ns", (double)block->wall_ns);
	if (!err)
		err = summary_add_value(summary, DISTRIBUTION_BLOCK_WALL, block->wall_ns);
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

bool summary_scene_is_open(const struct summary *summary, const char *name)
{
	return scenes_is_open(summary->scenes, name);
}

/* Without a list of sources nothing says that nobody watched. */
static bool watches_blocks(const struct record_header *header)
{
	bool watches = !header->source_count;

	for (size_t i = 0; i < header->source_count; i++)
		watches |= !strcmp(header->sources[i].name, "blocks") &&
			   strcmp(header->sources[i].state, "absent") != 0;
	return watches;
}

int summary_add(struct summary *summary, const struct record *record)
{
	if (record->type == RECORD_JANK)
		summary_group_jank(summary, record->jank);
	summary->records++;
	switch (record->type) {
	case RECORD_INTERVAL:
		return summary_add_interval(summary, record->interval, record->t_boot_ns);
	case RECORD_BLOCK:
		return add_block(summary, record);
	case RECORD_STACK:
		return add_addition(summary, record->addition);
	case RECORD_JANK:
		return summary_add_jank(summary, record->jank);
	case RECORD_EVENT:
		return summary_add_event(summary, record);
	case RECORD_HEADER:
		summary->other_tools.block_ns = record->header->block_ns;
		summary->judges_frames |= record_header_judges_frames(record->header);
		summary->watches_blocks |= watches_blocks(record->header);
		return usage_begin(summary->usage, record->header);
	case RECORD_FOOTER:
		return 0;
	}
	return 0;
}

void summary_skip(struct summary *summary, uint64_t begin_boot_ns)
{
	summary->end_boot_ns = begin_boot_ns;
}

static int set_optional(struct summary *summary, const char *key, struct opt_u64 value)
{
	return value.present ? summary_set_total(summary, key, (double)value.value) : 0;
}

static int set_targets(struct summary *summary)
{
	struct usage_targets targets = usage_targets(summary->usage);
	int err = set_optional(summary, "targets.cpu_ns", targets.cpu_ns);

	if (!err)
		err = set_optional(summary, "targets.runnable_ns", targets.runnable_ns);
	if (!err)
		err = set_optional(summary, "targets.rx_bytes", targets.rx_bytes);
	if (!err)
		err = set_optional(summary, "targets.tx_bytes", targets.tx_bytes);
	return err ? err : summary_set_percentages(summary, targets.cpu_ns);
}

static int set_usage(struct summary *summary)
{
	int err = set_targets(summary);

	for (size_t i = 0; i < MAX_FOLLOWED; i++)
		give_up_stack(summary, &summary->followed[i]);
	if (!err)
		err = block_groups_take(summary->groups, BLOCK_PATHS, &summary->footer);
	if (!err)
		err = summary_set_late_paths(summary);
	if (!err)
		err = memory_runs_take(summary->memory, TOP_ROWS, &summary->footer);
	if (!err)
		err = interface_sums_take(summary->interfaces, &summary->footer);
	if (!err)
		err = disk_runs_take(summary->disk, TOP_ROWS, &summary->footer);
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
	/* Where each late frame has a cause, none of a cause is a figure, too. */
	return err || !summary->judges_frames || !causes.judged ? err : summary_set_janks(summary);
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

static int set_counts(struct summary *summary)
{
	int err = summary_set_total(summary, "intervals", (double)summary->intervals);

	if (!err)
		err = summary_set_total(summary, "dur_ns", summary->dur_ns);
	if (!err && (summary->watches_blocks || summary->blocks))
		err = summary_set_total(summary, "blocks.count", (double)summary->blocks);
	if (!err && !missing_reason(&summary->footer.missing, "cpu.tasks_exited"))
		err = summary_set_total(summary, "cpu.tasks_exited", (double)summary->exits);
	return err;
}

static void describe_all(struct summary *summary)
{
	struct record_footer *footer = &summary->footer;

	footer->distributions = summary->distributions;
	footer->distribution_count = 0;
	for (int i = 0; i < DISTRIBUTION_MAX; i++) {
		const struct histogram *histogram = summary->histograms[i];

		if (!histogram_count(histogram))
			continue;
		footer->distributions[footer->distribution_count++] =
			summary_describe(histogram, distribution_names[i]);
	}
}

const struct record_footer *summary_so_far(struct summary *summary)
{
	int err = set_counts(summary);

	if (!err)
		err = set_targets(summary);
	if (!err)
		err = set_causes(summary);
	if (!err)
		err = summary_set_shares(summary);
	if (err) {
		errno = -err;
		return NULL;
	}
	describe_all(summary);
	return &summary->footer;
}

const struct record_footer *summary_footer(struct summary *summary)
{
	struct record_footer *footer = &summary->footer;
	uint64_t bare_told;
	int err = set_counts(summary);

	scenes_select(summary->scenes, summary->end_boot_ns, summary->end_boot_ns);
	if (!err)
		err = split_finish(summary->split);
	if (!err)
		err = scenes_take(summary->scenes, distribution_names, DISTRIBUTION_MAX, footer);
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
	describe_all(summary);
	return footer;
}
