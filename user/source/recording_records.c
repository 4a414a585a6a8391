/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/recording_records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How deep totals are nested: "net.unattributed.rx_bytes". */
#define MAX_DEPTH 4

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static struct opt_u64 optional(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return (struct opt_u64){0};
	return SOME_U64((uint64_t)json_integer_value(value));
}

static uint64_t number_of(const json_t *object, const char *key)
{
	return optional(object, key).value;
}

static uint64_t boot_ns_of(const json_t *object)
{
	return number_of(object, "t_boot_ns");
}

int recording_tell_header(const json_t *object, int (*tell)(void *ctx, const struct record *),
			  void *ctx)
{
	const json_t *targets = json_object_get(object, "targets");
	const json_t *sources = json_object_get(object, "sources");
	const json_t *clock = json_object_get(object, "clock");
	struct record_header header = {
		.kernel = text_of(object, "kernel"),
		.arch = text_of(object, "arch"),
		.device = text_of(object, "device"),
		.clock = {number_of(clock, "boot_ns"), number_of(clock, "mono_ns"),
			  number_of(clock, "unix_ns")},
		.interval_ns = number_of(object, "interval_ns"),
		.block_ns = number_of(object, "block_ns"),
		.target_count = json_array_size(targets),
	};
	struct record record = {.type = RECORD_HEADER,
				.seq = number_of(object, "seq"),
				.t_boot_ns = boot_ns_of(object),
				.header = &header};
	int err = -ENOMEM;

	header.targets = calloc(header.target_count + 1, sizeof(*header.targets));
	header.sources = calloc(json_array_size(sources) + 1, sizeof(*header.sources));
	if (!header.targets || !header.sources)
		goto out;
	for (size_t i = 0; i < header.target_count; i++) {
		const json_t *target = json_array_get(targets, i);

		header.targets[i] =
			(struct header_target){text_of(target, "package"), optional(target, "uid"),
					       optional(target, "pid")};
	}
	for (size_t i = 0; i < json_array_size(sources); i++) {
		const json_t *source = json_array_get(sources, i);
		struct header_source *to = &header.sources[header.source_count];

		*to = (struct header_source){text_of(source, "name"), text_of(source, "state"),
					     text_of(source, "variant"), text_of(source, "reason")};
		header.source_count += to->name && to->state;
	}
	err = tell(ctx, &record);
out:
	free(header.targets);
	free(header.sources);
	return err;
}

/* ---- footer ---- */

struct footer_parts {
	struct record_footer footer;
	struct record_distribution longest; /* of blocks.wall_ns */
	struct footer_usage *threads, *processes, *uids;
	struct footer_layer *layers;
	struct footer_block_path *paths;
};

static int add_total(struct record_footer *footer, const char *key, double value)
{
	struct summary_total *more =
		realloc(footer->totals, (footer->total_count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	footer->totals = more;
	more[footer->total_count] = (struct summary_total){strdup(key), value};
	if (!more[footer->total_count].key)
		return -ENOMEM;
	footer->total_count++;
	return 0;
}

/* Numbers of nested objects, by their key paths. */
static int add_totals(struct record_footer *footer, const json_t *object, const char *prefix,
		      int depth)
{
	const char *key;
	json_t *value;
	char path[160];
	int err = 0;

	json_object_foreach ((json_t *)object, key, value) {
		snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] ? "." : "", key);
		if (json_is_number(value))
			err = add_total(footer, path, json_number_value(value));
		else if (json_is_object(value) && depth < MAX_DEPTH)
			err = add_totals(footer, value, path, depth + 1);
		if (err)
			return err;
	}
	return 0;
}

static int read_top(const json_t *top, const char *name, struct footer_usage **rows,
		    struct footer_top *result)
{
	const json_t *array = json_object_get(top, name);
	const json_t *other = json_object_get(json_object_get(top, "other"), name);

	*rows = calloc(json_array_size(array) + 1, sizeof(**rows));
	if (!*rows)
		return -ENOMEM;
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *row = json_array_get(array, i);
		struct opt_u64 count = optional(row, "count");

		(*rows)[i] = (struct footer_usage){
			.pid = (pid_t)number_of(row, "pid"),
			.tid = (pid_t)number_of(row, "tid"),
			.uid = (uid_t)number_of(row, "uid"),
			.thread = text_of(row, "thread"),
			.process = text_of(row, "process"),
			.package = text_of(row, "package"),
			.start_boot_ns = number_of(row, "start_boot_ns"),
			.count = count.present ? count.value : 1,
			.threads = (unsigned)number_of(row, "threads"),
			.partial = json_is_true(json_object_get(row, "partial")),
			.cpu_ns = number_of(row, "cpu_ns"),
			.runnable_ns = optional(row, "runnable_ns"),
			.rx_bytes = optional(row, "rx_bytes"),
			.tx_bytes = optional(row, "tx_bytes"),
		};
	}
	*result = (struct footer_top){
		.rows = *rows,
		.count = json_array_size(array),
		.other_ns = number_of(other, "cpu_ns"),
		.other_rx_bytes = optional(other, "rx_bytes"),
		.other_tx_bytes = optional(other, "tx_bytes"),
		.present = other != NULL,
	};
	return 0;
}

static struct footer_layer layer_of(const json_t *row)
{
	return (struct footer_layer){
		.pid = (pid_t)number_of(row, "pid"),
		.package = text_of(row, "package"),
		.layer = text_of(row, "layer"),
		.shown = number_of(row, "shown"),
		.dropped = number_of(row, "dropped"),
		.janky = number_of(row, "janky"),
	};
}

static struct footer_block_path path_of(const json_t *row)
{
	return (struct footer_block_path){
		.path = text_of(row, "path"),
		.count = number_of(row, "count"),
		.total_ns = number_of(row, "total_ns"),
		.longest_ns = number_of(row, "longest_ns"),
	};
}

static int read_lists(const json_t *summary, struct footer_parts *parts)
{
	const json_t *frames = json_object_get(summary, "frames");
	const json_t *blocks = json_object_get(summary, "blocks");
	const json_t *layers = json_object_get(frames, "layers");
	const json_t *paths = json_object_get(blocks, "paths");
	struct record_footer *footer = &parts->footer;

	parts->layers = calloc(json_array_size(layers) + 1, sizeof(*parts->layers));
	parts->paths = calloc(json_array_size(paths) + 1, sizeof(*parts->paths));
	if (!parts->layers || !parts->paths)
		return -ENOMEM;
	for (size_t i = 0; i < json_array_size(layers); i++)
		parts->layers[i] = layer_of(json_array_get(layers, i));
	for (size_t i = 0; i < json_array_size(paths); i++)
		parts->paths[i] = path_of(json_array_get(paths, i));
	footer->layers = parts->layers;
	footer->layer_count = json_array_size(layers);
	footer->other_layers = layer_of(json_object_get(frames, "other"));
	footer->block_paths = parts->paths;
	footer->block_path_count = json_array_size(paths);
	footer->other_block_paths = path_of(json_object_get(blocks, "other"));
	/* The one distribution that the summary in text tells of. */
	if (json_is_object(json_object_get(blocks, "wall_ns"))) {
		parts->longest = (struct record_distribution){
			.name = "blocks.wall_ns",
			.max = (double)number_of(json_object_get(blocks, "wall_ns"), "max"),
		};
		footer->distributions = &parts->longest;
		footer->distribution_count = 1;
	}
	return 0;
}

static int read_counters(const json_t *object, const char *key, struct counter_list *list)
{
	const char *name;
	json_t *value;
	int err = 0;

	json_object_foreach (json_object_get(object, key), name, value) {
		if (!err && json_is_integer(value) && json_integer_value(value) > 0)
			err = counter_list_add(list, name, (uint64_t)json_integer_value(value));
	}
	return err;
}

static int read_missing(const json_t *object, struct missing_list *list)
{
	const char *key;
	json_t *value;
	int err = 0;

	json_object_foreach (json_object_get(object, "missing"), key, value) {
		if (!err && json_is_string(value))
			err = missing_list_set(list, key, json_string_value(value));
	}
	return err;
}

static void free_parts(struct footer_parts *parts)
{
	struct record_footer *footer = &parts->footer;

	for (size_t i = 0; i < footer->total_count; i++)
		free(footer->totals[i].key);
	free(footer->totals);
	counter_list_free(&footer->lost);
	counter_list_free(&footer->late);
	counter_list_free(&footer->repaired);
	missing_list_free(&footer->missing);
	free(parts->threads);
	free(parts->processes);
	free(parts->uids);
	free(parts->layers);
	free(parts->paths);
}

int recording_tell_footer(const json_t *object, int (*tell)(void *ctx, const struct record *),
			  void *ctx)
{
	const json_t *summary = json_object_get(object, "summary");
	const json_t *top = json_object_get(summary, "top");
	struct footer_parts parts = {0};
	struct record_footer *footer = &parts.footer;
	struct record record = {.type = RECORD_FOOTER,
				.seq = number_of(object, "seq"),
				.t_boot_ns = boot_ns_of(object),
				.footer = footer};
	int err = add_totals(footer, summary, "", 0);

	if (!err)
		err = read_top(top, "threads", &parts.threads, &footer->threads);
	if (!err)
		err = read_top(top, "processes", &parts.processes, &footer->processes);
	if (!err)
		err = read_top(top, "uids", &parts.uids, &footer->uids);
	if (!err)
		err = read_lists(summary, &parts);
	if (!err)
		err = read_counters(object, "lost", &footer->lost);
	if (!err)
		err = read_counters(object, "late", &footer->late);
	if (!err)
		err = read_counters(object, "repaired", &footer->repaired);
	if (!err)
		err = read_missing(object, &footer->missing);
	if (!err)
		err = tell(ctx, &record);
	free_parts(&parts);
	return err;
}
