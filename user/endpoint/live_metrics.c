/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint/live_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/openmetrics.h"
#include "sink/openmetrics_page.h"
#include "endpoint/series_set.h"

#define MEMORY_ROWS 6
#define LOSS_WEIGHT 1000000

enum family { LOSSES, TASKS, PROCESSES, UIDS, NETWORK, LAYERS, FAMILIES };

static const struct family_description {
	const char *name, *unit, *help;
	struct metrics_kind kind;
	size_t rows; /* with the rest */
	double factor;
	const char *rest[SERIES_LABELS];
} families[FAMILIES] = {
	[LOSSES] = {"jankscope_losses",
		    NULL,
		    "what is lost, late or repaired, in the unit of its reason",
		    {{"kind", "reason"}, NULL, {NULL}, 1},
		    24,
		    1,
		    {"lost", "_other"}},
	[TASKS] = {"jankscope_task_cpu_seconds",
		   "seconds",
		   "CPU time by thread name",
		   {{"package", "process", "thread"}, NULL, {NULL}, 1},
		   16,
		   1e-9,
		   {NULL, NULL, "_other"}},
	[PROCESSES] = {"jankscope_process_cpu_seconds",
		       "seconds",
		       "CPU time by process name",
		       {{"package", "process"}, NULL, {NULL}, 1},
		       12,
		       1e-9,
		       {NULL, "_other"}},
	[UIDS] = {"jankscope_uid_cpu_seconds",
		  "seconds",
		  "CPU time, as cpu.uids",
		  {{"package", "uid"}, NULL, {NULL}, 1},
		  8,
		  1e-9,
		  {NULL, "_other"}},
	[NETWORK] = {"jankscope_uid_network_bytes",
		     "bytes",
		     "bytes over the network, as net.uids",
		     {{"package", "uid"}, "direction", {"receive", "transmit"}, 2},
		     8,
		     1,
		     {NULL, "_other"}},
	[LAYERS] = {"jankscope_layer_frames",
		    NULL,
		    "frames of a layer, as frames.layers; janky ones were late or not shown",
		    {{"package", "layer"}, "outcome", {"shown", "dropped", "janky"}, 3},
		    4,
		    1,
		    {NULL, "_other"}},
};

struct live_metrics {
	char *target; /* target_info; NULL: the run has no header yet */
	size_t target_bytes;
	struct series_set *sets[FAMILIES];
	bool any[FAMILIES]; /* was measured */
	struct memory_row {
		char package[METRICS_LABEL_BYTES], process[METRICS_LABEL_BYTES];
		struct opt_u64 pss, rss;
	} memory[MEMORY_ROWS];
	size_t memory_count;
};

struct live_metrics *live_metrics_new(void)
{
	struct live_metrics *metrics = calloc(1, sizeof(*metrics));

	for (size_t i = 0; metrics && i < FAMILIES; i++) {
		metrics->sets[i] = series_set_new(families[i].rows, families[i].rest, i == LOSSES);
		if (!metrics->sets[i]) {
			live_metrics_free(metrics);
			return NULL;
		}
	}
	return metrics;
}

void live_metrics_free(struct live_metrics *metrics)
{
	if (!metrics)
		return;
	for (size_t i = 0; i < FAMILIES; i++)
		series_set_free(metrics->sets[i]);
	free(metrics->target);
	free(metrics);
}

static void count(struct live_metrics *metrics, enum family family,
		  const char *const labels[SERIES_LABELS], const uint64_t values[SERIES_VALUES])
{
	uint64_t weight = 0;

	for (size_t i = 0; i < families[family].kind.value_count; i++)
		weight += values[i];
	/* Losses are in units that cannot be compared. */
	if (weight || family == LAYERS)
		series_set_add(metrics->sets[family], labels, values,
			       family == LOSSES ? LOSS_WEIGHT : weight);
}

/* ---- an interval ---- */

static const char *package_of(const struct record_interval *interval, uid_t uid)
{
	for (size_t i = 0; interval->net.present && i < interval->net.uid_count; i++)
		if (interval->net.uids[i].uid == uid && interval->net.uids[i].package)
			return interval->net.uids[i].package;
	for (size_t i = 0; i < interval->cpu.process_count; i++)
		if (interval->cpu.processes[i].uid == uid && interval->cpu.processes[i].package)
			return interval->cpu.processes[i].package;
	return NULL;
}

static void count_uid(struct live_metrics *metrics, enum family family,
		      const struct record_interval *interval, uid_t uid,
		      const uint64_t values[SERIES_VALUES])
{
	char number[16];
	const char *labels[SERIES_LABELS] = {package_of(interval, uid), number};

	snprintf(number, sizeof(number), "%u", uid);
	count(metrics, family, labels, values);
}

/* What no row has of the busy time is the rest. */
static void take_cpu(struct live_metrics *metrics, const struct record_interval *interval)
{
	const struct record_cpu *cpu = &interval->cpu;
	uint64_t rest_ns[] = {cpu->busy_ns, cpu->busy_ns, cpu->busy_ns};

	for (size_t i = 0; i < cpu->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];
		const char *labels[SERIES_LABELS] = {task->package, task->process, task->thread};

		count(metrics, TASKS, labels, (uint64_t[SERIES_VALUES]){task->cpu_ns});
		rest_ns[0] -= task->cpu_ns < rest_ns[0] ? task->cpu_ns : rest_ns[0];
	}
	for (size_t i = 0; i < cpu->process_count; i++) {
		const struct record_process_cpu *process = &cpu->processes[i];
		const char *labels[SERIES_LABELS] = {process->package, process->process};

		count(metrics, PROCESSES, labels, (uint64_t[SERIES_VALUES]){process->cpu_ns});
		rest_ns[1] -= process->cpu_ns < rest_ns[1] ? process->cpu_ns : rest_ns[1];
	}
	for (size_t i = 0; i < cpu->uid_count; i++) {
		uint64_t cpu_ns = cpu->uids[i].cpu_ns;

		count_uid(metrics, UIDS, interval, cpu->uids[i].uid,
			  (uint64_t[SERIES_VALUES]){cpu_ns});
		rest_ns[2] -= cpu_ns < rest_ns[2] ? cpu_ns : rest_ns[2];
	}
	for (size_t i = 0; i < 3; i++) {
		metrics->any[TASKS + i] = true;
		series_set_add_rest(metrics->sets[TASKS + i],
				    (uint64_t[SERIES_VALUES]){rest_ns[i]});
	}
}

static void take_net(struct live_metrics *metrics, const struct record_interval *interval)
{
	const struct record_net *net = &interval->net;

	metrics->any[NETWORK] = true;
	for (size_t i = 0; i < net->uid_count; i++)
		count_uid(metrics, NETWORK, interval, net->uids[i].uid,
			  (uint64_t[SERIES_VALUES]){net->uids[i].bytes.rx_bytes,
						    net->uids[i].bytes.tx_bytes});
}

static void take_layers(struct live_metrics *metrics, const struct record_frames *frames)
{
	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *layer = &frames->layers[i];
		const char *labels[SERIES_LABELS] = {layer->package, layer->layer};

		metrics->any[LAYERS] = true;
		count(metrics, LAYERS, labels,
		      (uint64_t[SERIES_VALUES]){layer->shown, layer->dropped, layer->janky});
	}
}

static void take_losses(struct live_metrics *metrics, const char *kind,
			const struct counter_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const char *labels[SERIES_LABELS] = {kind, list->items[i].name};

		count(metrics, LOSSES, labels, (uint64_t[SERIES_VALUES]){list->items[i].value});
	}
}

/* ---- memory ---- */

static void add_optional(struct opt_u64 *to, struct opt_u64 from)
{
	if (from.present)
		*to = SOME_U64(to->value + from.value);
}

static uint64_t weight_of(const struct memory_row *row)
{
	return row->pss.present ? row->pss.value : row->rss.value;
}

/* Where its names are already, a free place, or that of a lighter one; NULL: there is none. */
static struct memory_row *find_row(struct live_metrics *metrics, const struct memory_row *row)
{
	struct memory_row *lightest = &metrics->memory[0];

	for (size_t i = 0; i < metrics->memory_count; i++) {
		struct memory_row *at = &metrics->memory[i];

		if (!strcmp(at->package, row->package) && !strcmp(at->process, row->process))
			return at;
		if (weight_of(at) < weight_of(lightest))
			lightest = at;
	}
	if (metrics->memory_count < MEMORY_ROWS)
		lightest = &metrics->memory[metrics->memory_count++];
	else if (weight_of(lightest) >= weight_of(row))
		return NULL;
	*lightest = *row;
	lightest->pss = lightest->rss = (struct opt_u64){0};
	return lightest;
}

/* PSS is read every --smaps only: in the intervals between, the last one of these names stands. */
static void keep_pss(struct live_metrics *metrics, const struct memory_row *before, size_t count)
{
	for (size_t i = 0; i < metrics->memory_count; i++) {
		struct memory_row *row = &metrics->memory[i];

		for (size_t k = 0; k < count && !row->pss.present; k++)
			if (!strcmp(row->package, before[k].package) &&
			    !strcmp(row->process, before[k].process))
				row->pss = before[k].pss;
	}
}

static void take_memory(struct live_metrics *metrics, const struct record_memory *memory)
{
	struct memory_row before[MEMORY_ROWS];
	size_t count = metrics->memory_count;

	memcpy(before, metrics->memory, sizeof(before));
	metrics->memory_count = 0;
	for (size_t i = 0; i < memory->process_count; i++) {
		const struct record_memory_process *process = &memory->processes[i];
		struct memory_row row = {.pss = process->pss_bytes, .rss = process->rss_bytes};
		struct memory_row *at;

		metrics_clean(row.package, process->package ?: "");
		metrics_clean(row.process, process->process ?: "");
		at = find_row(metrics, &row);
		if (!at)
			continue;
		add_optional(&at->pss, row.pss);
		add_optional(&at->rss, row.rss);
	}
	keep_pss(metrics, before, count);
}

static void put_memory(struct metrics_page *page, const struct live_metrics *metrics)
{
	static const struct metrics_kind kind = {{"package", "process"}, "kind", {"pss", "rss"}, 2};
	struct metrics_row rows[MEMORY_ROWS] = {0};

	for (size_t i = 0; i < metrics->memory_count; i++) {
		const struct memory_row *row = &metrics->memory[i];

		rows[i] = (struct metrics_row){
			.labels = {*row->package ? row->package : NULL,
				   *row->process ? row->process : NULL},
			.values = {(double)row->pss.value, (double)row->rss.value},
			.present = {row->pss.present, row->rss.present},
		};
	}
	metrics_put_family(page, "jankscope_process_memory_bytes", "gauge", "bytes",
			   "as last measured; of processes of one name the sum", &kind, rows,
			   metrics->memory_count);
}

/* ---- records ---- */

static void take_header(struct live_metrics *metrics, const struct record_header *header)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	metrics_put_target(out, header);
	if (fclose(out)) {
		free(text);
		return;
	}
	free(metrics->target);
	metrics->target = text;
	metrics->target_bytes = bytes;
}

static void take_interval(struct live_metrics *metrics, const struct record_interval *interval)
{
	if (interval->cpu.present)
		take_cpu(metrics, interval);
	if (interval->net.present)
		take_net(metrics, interval);
	if (interval->frames.present)
		take_layers(metrics, &interval->frames);
	if (interval->memory.present)
		take_memory(metrics, &interval->memory);
	take_losses(metrics, "lost", &interval->lost);
	take_losses(metrics, "late", &interval->late);
	take_losses(metrics, "repaired", &interval->repaired);
	for (size_t i = 0; i < FAMILIES; i++)
		series_set_settle(metrics->sets[i], interval->dur_ns);
}

void live_metrics_take(struct live_metrics *metrics, const struct record *record)
{
	if (record->type == RECORD_HEADER) {
		take_header(metrics, record->header);
		metrics->any[LOSSES] = true;
	} else if (record->type == RECORD_INTERVAL) {
		take_interval(metrics, record->interval);
	} else if (record->type == RECORD_BLOCK && record->block->state != BLOCK_OPEN) {
		take_losses(metrics, "lost", &record->block->lost);
	} else if (record->type == RECORD_JANK) {
		take_losses(metrics, "lost", &record->jank->lost);
	}
}

/* ---- the page ---- */

int live_metrics_write(const struct live_metrics *metrics, const struct record_footer *sums,
		       char **text, size_t *bytes)
{
	struct metrics_page page = {.series = 1}; /* target_info */
	struct metrics_row rows[SERIES_ROOM];

	page.out = open_memstream(text, bytes);
	if (!page.out)
		return -errno;
	if (metrics->target)
		fwrite(metrics->target, 1, metrics->target_bytes, page.out);
	for (size_t i = 0; i < FAMILIES; i++) {
		const struct family_description *family = &families[i];

		if (metrics->any[i])
			metrics_put_family(&page, family->name, "counter", family->unit,
					   family->help, &family->kind, rows,
					   series_set_rows(metrics->sets[i], family->factor, rows));
	}
	put_memory(&page, metrics);
	if (sums)
		metrics_put_summary(&page, sums);
	fputs("# EOF\n", page.out);
	free(page.families);
	if (fclose(page.out) || page.failed) {
		free(*text);
		*text = NULL;
		return -ENOMEM;
	}
	return 0;
}
