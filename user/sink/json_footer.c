/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/json_footer.h"

/* An object among the totals, which may have made it already. */
static json_t *part(struct builder *b, json_t *parent, const char *key)
{
	json_t *child = json_object_get(parent, key);

	return json_is_object(child) ? child : json_set_object(b, parent, key);
}

static void usage(struct builder *b, json_t *object, const struct footer_usage *row)
{
	json_set_text(b, object, "thread", row->thread);
	json_set_text(b, object, "process", row->process);
	json_set_text(b, object, "package", row->package);
	if (row->pid)
		json_set_int(b, object, "pid", (uint64_t)row->pid);
	if (row->tid)
		json_set_int(b, object, "tid", (uint64_t)row->tid);
	json_set_int(b, object, "uid", row->uid);
	if (row->start_boot_ns)
		json_set_int(b, object, "start_boot_ns", row->start_boot_ns);
	if (row->count > 1)
		json_set_int(b, object, "count", row->count);
	if (row->threads)
		json_set_int(b, object, "threads", row->threads);
	if (row->partial)
		json_set(b, object, "partial", json_true());
	json_set_int(b, object, "cpu_ns", row->cpu_ns);
	json_set_opt(b, object, "runnable_ns", row->runnable_ns);
	json_set_opt(b, object, "rx_bytes", row->rx_bytes);
	json_set_opt(b, object, "tx_bytes", row->tx_bytes);
}

static void list(struct builder *b, json_t *summary, const char *name,
		 const struct footer_top *rows)
{
	json_t *top, *array, *other;

	if (!rows->present)
		return;
	top = part(b, summary, "top");
	array = json_set_array(b, top, name);
	other = json_set_object(b, part(b, top, "other"), name);

	for (size_t i = 0; i < rows->count; i++)
		usage(b, json_add_object(b, array), &rows->rows[i]);
	json_set_int(b, other, "cpu_ns", rows->other_ns);
	json_set_opt(b, other, "rx_bytes", rows->other_rx_bytes);
	json_set_opt(b, other, "tx_bytes", rows->other_tx_bytes);
}

static void layer(struct builder *b, json_t *object, const struct footer_layer *row)
{
	if (row->pid > 0)
		json_set_int(b, object, "pid", (uint64_t)row->pid);
	json_set_text(b, object, "package", row->package);
	json_set_text(b, object, "layer", row->layer);
	json_set_int(b, object, "shown", row->shown);
	json_set_int(b, object, "dropped", row->dropped);
	json_set_int(b, object, "janky", row->janky);
}

static void block_path(struct builder *b, json_t *object, const struct footer_block_path *row)
{
	json_set_text(b, object, "path", row->path);
	json_set_int(b, object, "count", row->count);
	json_set_int(b, object, "total_ns", row->total_ns);
	json_set_int(b, object, "longest_ns", row->longest_ns);
}

void json_footer_rows(struct builder *b, json_t *summary, const struct record_footer *footer)
{
	json_t *object, *array;

	list(b, summary, "threads", &footer->threads);
	list(b, summary, "processes", &footer->processes);
	list(b, summary, "uids", &footer->uids);
	if (footer->layer_count) {
		object = part(b, summary, "frames");
		array = json_set_array(b, object, "layers");
		for (size_t i = 0; i < footer->layer_count; i++)
			layer(b, json_add_object(b, array), &footer->layers[i]);
		layer(b, json_set_object(b, object, "other"), &footer->other_layers);
	}
	if (footer->block_path_count) {
		object = part(b, summary, "blocks");
		array = json_set_array(b, object, "paths");
		for (size_t i = 0; i < footer->block_path_count; i++)
			block_path(b, json_add_object(b, array), &footer->block_paths[i]);
		block_path(b, json_set_object(b, object, "other"), &footer->other_block_paths);
	}
}
