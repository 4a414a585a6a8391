/* SPDX-License-Identifier: BSD-2-Clause */
#include "summary/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "summary/top.h"

/* Rows that are held. Where one more comes, most of the lighter ones are dropped, and what they
 * used is in the footer's `other` sums: a heavy one that comes late has its row. */
#define MAX_UIDS    4096
#define KEPT_UIDS   1024 /* by CPU time, and as many by bytes */
#define MAX_LAYERS  1024
#define KEPT_LAYERS 512

struct uid_row {
	uid_t uid;
	struct footer_usage usage;
	char *package; /* owned */
	bool is_kept;
	UT_hash_handle hh;
};

/* "pid layer": a layer's name and who draws it. */
struct layer_row {
	char *key;
	char *package, *layer; /* owned */
	struct footer_layer sums;
	UT_hash_handle hh;
};

struct usage {
	struct top *threads, *processes;
	struct uid_row *uids;
	struct layer_row *layers;
	bool any_cpu, any_net, any_layer;
	bool uids_dropped, layers_dropped;
	uint64_t busy_ns, rx_bytes, tx_bytes; /* of all uids */
	struct footer_layer frames;           /* of all layers */
	struct usage_causes causes;
	struct usage_targets targets;
	struct {
		char *package; /* NULL: a uid */
		uid_t uid;
	} * wanted;
	size_t wanted_count;
	bool has_targets;
	struct footer_usage *uid_result;
	struct footer_layer *layer_result;
};

struct usage *usage_new(void)
{
	struct usage *usage = calloc(1, sizeof(*usage));

	if (!usage)
		return NULL;
	usage->threads = top_new();
	usage->processes = top_new();
	if (usage->threads && usage->processes)
		return usage;
	usage_free(usage);
	errno = ENOMEM;
	return NULL;
}

static void drop_uid(struct usage *usage, struct uid_row *row)
{
	HASH_DEL(usage->uids, row);
	free(row->package);
	free(row);
}

static void drop_layer(struct usage *usage, struct layer_row *row)
{
	HASH_DEL(usage->layers, row);
	free(row->package);
	free(row->layer);
	free(row->key);
	free(row);
}

void usage_free(struct usage *usage)
{
	struct layer_row *layer, *next_layer;
	struct uid_row *uid, *next_uid;

	if (!usage)
		return;
	HASH_ITER (hh, usage->uids, uid, next_uid)
		drop_uid(usage, uid);
	HASH_ITER (hh, usage->layers, layer, next_layer)
		drop_layer(usage, layer);
	for (size_t i = 0; i < usage->wanted_count; i++)
		free(usage->wanted[i].package);
	free(usage->wanted);
	free(usage->uid_result);
	free(usage->layer_result);
	top_free(usage->threads);
	top_free(usage->processes);
	free(usage);
}

int usage_begin(struct usage *usage, const struct record_header *header)
{
	if (usage->has_targets || !header->target_count)
		return 0;
	usage->has_targets = true;
	usage->targets.cpu_ns = usage->targets.runnable_ns = SOME_U64(0);
	usage->wanted = calloc(header->target_count, sizeof(*usage->wanted));
	if (!usage->wanted)
		return -ENOMEM;
	for (size_t i = 0; i < header->target_count; i++) {
		const struct header_target *target = &header->targets[i];
		size_t n = usage->wanted_count;

		if (target->uid.present)
			usage->wanted[n].uid = (uid_t)target->uid.value;
		else if (!target->package)
			continue;
		else if (!(usage->wanted[n].package = strdup(target->package)))
			return -ENOMEM;
		usage->wanted_count++;
	}
	return 0;
}

/* Bytes are counted by uid: only a uid that belongs to a target alone tells of it. */
bool usage_is_of_target(const struct usage *usage, uid_t uid, const char *package)
{
	for (size_t i = 0; i < usage->wanted_count; i++)
		if (usage->wanted[i].package ? package && !strcmp(usage->wanted[i].package, package)
					     : usage->wanted[i].uid == uid)
			return true;
	return false;
}

/* By CPU time; of equal ones by bytes. */
static int compare_uids(const void *a, const void *b)
{
	const struct footer_usage *x = a, *y = b;
	uint64_t x_bytes = x->rx_bytes.value + x->tx_bytes.value;
	uint64_t y_bytes = y->rx_bytes.value + y->tx_bytes.value;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	if (x_bytes != y_bytes)
		return x_bytes < y_bytes ? 1 : -1;
	return x->uid < y->uid ? -1 : x->uid > y->uid;
}

static int compare_uid_bytes(const void *a, const void *b)
{
	const struct footer_usage *x = a, *y = b;
	uint64_t x_bytes = x->rx_bytes.value + x->tx_bytes.value;
	uint64_t y_bytes = y->rx_bytes.value + y->tx_bytes.value;

	return x_bytes != y_bytes ? (x_bytes < y_bytes ? 1 : -1) : compare_uids(a, b);
}

static int lighter_uid(const struct uid_row *a, const struct uid_row *b)
{
	return compare_uids(&a->usage, &b->usage);
}

static int fewer_bytes(const struct uid_row *a, const struct uid_row *b)
{
	return compare_uid_bytes(&a->usage, &b->usage);
}

static void keep_first_uids(struct usage *usage)
{
	struct uid_row *row = usage->uids;

	for (size_t i = 0; row && i < KEPT_UIDS; row = row->hh.next, i++)
		row->is_kept = true;
}

static void drop_lighter_uids(struct usage *usage)
{
	struct uid_row *row, *next;

	HASH_SORT(usage->uids, lighter_uid);
	keep_first_uids(usage);
	HASH_SORT(usage->uids, fewer_bytes);
	keep_first_uids(usage);
	HASH_ITER (hh, usage->uids, row, next) {
		if (!row->is_kept)
			drop_uid(usage, row);
		else
			row->is_kept = false;
	}
	usage->uids_dropped = true;
}

static struct uid_row *find_uid(struct usage *usage, uid_t uid)
{
	struct uid_row *row;

	HASH_FIND(hh, usage->uids, &uid, sizeof(uid), row);
	if (row)
		return row;
	if (HASH_COUNT(usage->uids) >= MAX_UIDS)
		drop_lighter_uids(usage);
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->uid = row->usage.uid = uid;
	row->usage.count = 1;
	row->usage.partial = usage->uids_dropped;
	HASH_ADD(hh, usage->uids, uid, sizeof(row->uid), row);
	return row;
}

static void name_uid(struct usage *usage, uid_t uid, const char *package)
{
	struct uid_row *row;

	if (!package)
		return;
	HASH_FIND(hh, usage->uids, &uid, sizeof(uid), row);
	if (row && !row->package)
		row->usage.package = row->package = strdup(package);
}

static int add_tasks(struct usage *usage, const struct record_cpu *cpu, uint64_t end_boot_ns)
{
	uint64_t rest_ns = cpu->busy_ns;
	int err = 0;

	for (size_t i = 0; i < cpu->task_count + cpu->cut_count && !err; i++) {
		const struct record_task *task = &cpu->tasks[i];
		const struct top_entry entry = {
			.pid = task->pid,
			.tid = task->tid,
			.uid = task->uid,
			.start_boot_ns = task->start_boot_ns,
			.thread = task->thread,
			.process = task->process,
			.package = task->package,
			.cpu_ns = task->cpu_ns,
			.runnable_ns = task->runnable_ns,
			.exited = task->exited,
		};

		err = top_add(usage->threads, &entry, end_boot_ns);
		rest_ns -= task->cpu_ns < rest_ns ? task->cpu_ns : rest_ns;
		name_uid(usage, task->uid, task->package);
	}
	top_add_other(usage->threads, rest_ns);
	return err;
}

/* The name of a process that /proc did not tell: that of its first thread. */
static const char *comm_of(const struct record_cpu *cpu, pid_t pid)
{
	for (size_t i = 0; i < cpu->task_count + cpu->cut_count; i++)
		if (cpu->tasks[i].tid == pid)
			return cpu->tasks[i].thread;
	return NULL;
}

static int add_processes(struct usage *usage, const struct record_cpu *cpu, uint64_t end_boot_ns)
{
	uint64_t rest_ns = cpu->busy_ns;
	int err = 0;

	for (size_t i = 0; i < cpu->process_count && !err; i++) {
		const struct record_process_cpu *process = &cpu->processes[i];
		const struct top_entry entry = {
			.pid = process->pid,
			.uid = process->uid,
			.start_boot_ns = process->start_boot_ns,
			.process = process->process ? process->process : comm_of(cpu, process->pid),
			.package = process->package,
			.cpu_ns = process->cpu_ns,
			.runnable_ns = process->runnable_ns,
			.threads = process->threads,
			.exited = process->exited,
		};

		err = top_add(usage->processes, &entry, end_boot_ns);
		rest_ns -= process->cpu_ns < rest_ns ? process->cpu_ns : rest_ns;
		if (!usage->has_targets)
			continue;
		usage->targets.cpu_ns.value += process->cpu_ns;
		if (process->runnable_ns.present)
			usage->targets.runnable_ns.value += process->runnable_ns.value;
		else
			usage->targets.runnable_ns.present = false;
	}
	top_add_other(usage->processes, rest_ns);
	return err;
}

static int add_cpu(struct usage *usage, const struct record_cpu *cpu, uint64_t end_boot_ns)
{
	int err;

	usage->any_cpu = true;
	usage->busy_ns += cpu->busy_ns;
	for (size_t i = 0; i < cpu->uid_count; i++) {
		struct uid_row *row = find_uid(usage, cpu->uids[i].uid);

		if (row)
			row->usage.cpu_ns += cpu->uids[i].cpu_ns;
	}
	err = add_tasks(usage, cpu, end_boot_ns);
	return err ? err : add_processes(usage, cpu, end_boot_ns);
}

static void add_net(struct usage *usage, const struct record_net *net)
{
	usage->any_net = true;
	for (size_t i = 0; i < net->uid_count; i++) {
		const struct record_uid_net *from = &net->uids[i];
		struct uid_row *row = find_uid(usage, from->uid);
		struct usage_targets *targets = &usage->targets;

		usage->rx_bytes += from->bytes.rx_bytes;
		usage->tx_bytes += from->bytes.tx_bytes;
		if (row) {
			row->usage.rx_bytes.value += from->bytes.rx_bytes;
			row->usage.tx_bytes.value += from->bytes.tx_bytes;
			name_uid(usage, from->uid, from->package);
		}
		if (usage_is_of_target(usage, from->uid, from->package)) {
			targets->rx_bytes =
				SOME_U64(targets->rx_bytes.value + from->bytes.rx_bytes);
			targets->tx_bytes =
				SOME_U64(targets->tx_bytes.value + from->bytes.tx_bytes);
		}
	}
}

static void add_layer_sums(struct footer_layer *to, const struct record_layer *from)
{
	to->shown += from->shown;
	to->dropped += from->dropped;
	to->janky += from->janky;
}

static int fewer_frames(const struct layer_row *a, const struct layer_row *b)
{
	if (a->sums.shown != b->sums.shown)
		return a->sums.shown < b->sums.shown ? 1 : -1;
	return strcmp(a->key, b->key);
}

static void drop_lighter_layers(struct usage *usage)
{
	struct layer_row *row, *next;
	size_t kept = 0;

	HASH_SORT(usage->layers, fewer_frames);
	HASH_ITER (hh, usage->layers, row, next)
		if (kept++ >= KEPT_LAYERS)
			drop_layer(usage, row);
	usage->layers_dropped = true;
}

static int add_layer(struct usage *usage, const struct record_layer *layer)
{
	struct layer_row *row;
	char key[1100];
	int length = snprintf(key, sizeof(key), "%d %.1000s", layer->pid,
			      layer->layer ? layer->layer : "");

	usage->any_layer = true;
	add_layer_sums(&usage->frames, layer);
	usage->causes.app += layer->jank.app;
	usage->causes.sf += layer->jank.sf;
	usage->causes.hw += layer->jank.hw;
	usage->causes.stuffing += layer->jank.stuffing;
	usage->causes.dropped += layer->jank.dropped;
	usage->causes.unknown += layer->jank.unknown;
	usage->causes.judged += record_layer_judged(layer);
	HASH_FIND(hh, usage->layers, key, (size_t)length, row);
	if (!row) {
		if (HASH_COUNT(usage->layers) >= MAX_LAYERS)
			drop_lighter_layers(usage);
		row = calloc(1, sizeof(*row));
		if (!row || !(row->key = strdup(key))) {
			free(row);
			return -ENOMEM;
		}
		row->sums.pid = layer->pid > 0 ? layer->pid : 0;
		row->sums.layer = row->layer = layer->layer ? strdup(layer->layer) : NULL;
		row->sums.partial = usage->layers_dropped;
		HASH_ADD_KEYPTR(hh, usage->layers, row->key, (size_t)length, row);
	}
	if (!row->package && layer->package)
		row->sums.package = row->package = strdup(layer->package);
	add_layer_sums(&row->sums, layer);
	return 0;
}

int usage_add(struct usage *usage, const struct record_interval *interval, uint64_t end_boot_ns)
{
	int err = interval->cpu.present ? add_cpu(usage, &interval->cpu, end_boot_ns) : 0;

	if (interval->net.present)
		add_net(usage, &interval->net);
	for (size_t i = 0; interval->frames.present && i < interval->frames.layer_count && !err;
	     i++)
		err = add_layer(usage, &interval->frames.layers[i]);
	return err;
}

/* The uids with most CPU time and those with most bytes: `count` of each at most, so that neither
 * hides the other. */
static int take_uids(struct usage *usage, size_t count, struct footer_top *top)
{
	size_t n = 0, kept;
	struct uid_row *row;
	struct footer_usage *rows = calloc(HASH_COUNT(usage->uids) + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (row = usage->uids; row; row = row->hh.next) {
		rows[n] = row->usage;
		rows[n].rx_bytes.present = rows[n].tx_bytes.present = usage->any_net;
		n += rows[n].cpu_ns || rows[n].rx_bytes.value || rows[n].tx_bytes.value;
	}
	qsort(rows, n, sizeof(*rows), compare_uids);
	kept = n < count ? n : count;
	qsort(rows + kept, n - kept, sizeof(*rows), compare_uid_bytes);
	for (size_t i = 0; i < count && kept < n; i++, kept++)
		if (!rows[kept].rx_bytes.value && !rows[kept].tx_bytes.value)
			break;
	free(usage->uid_result);
	usage->uid_result = rows;
	*top = (struct footer_top){.rows = rows, .count = kept, .other_ns = usage->busy_ns};
	if (usage->any_net) {
		top->other_rx_bytes = SOME_U64(usage->rx_bytes);
		top->other_tx_bytes = SOME_U64(usage->tx_bytes);
	}
	for (size_t i = 0; i < kept; i++) {
		top->other_ns -= rows[i].cpu_ns < top->other_ns ? rows[i].cpu_ns : top->other_ns;
		top->other_rx_bytes.value -= rows[i].rx_bytes.value;
		top->other_tx_bytes.value -= rows[i].tx_bytes.value;
	}
	return 0;
}

static int take_layers(struct usage *usage, size_t count, struct record_footer *footer)
{
	struct layer_row *row;
	size_t n = 0;

	free(usage->layer_result);
	usage->layer_result = calloc(count + 1, sizeof(*usage->layer_result));
	if (!usage->layer_result)
		return -ENOMEM;
	HASH_SORT(usage->layers, fewer_frames);
	footer->other_layers = usage->frames;
	for (row = usage->layers; row && n < count; row = row->hh.next) {
		usage->layer_result[n++] = row->sums;
		footer->other_layers.shown -= row->sums.shown;
		footer->other_layers.dropped -= row->sums.dropped;
		footer->other_layers.janky -= row->sums.janky;
	}
	footer->layers = usage->layer_result;
	footer->layer_count = n;
	footer->any_layer = n > 0;
	return 0;
}

int usage_take(struct usage *usage, size_t count, struct record_footer *footer)
{
	int err = top_take(usage->threads, count, &footer->threads);

	if (!err)
		err = top_take(usage->processes, count, &footer->processes);
	footer->top_present = usage->any_cpu;
	if (!err)
		err = take_uids(usage, count, &footer->uids);
	return err ? err : take_layers(usage, count, footer);
}

struct usage_targets usage_targets(const struct usage *usage)
{
	return usage->any_cpu || usage->any_net ? usage->targets : (struct usage_targets){0};
}

bool usage_causes(const struct usage *usage, struct usage_causes *causes)
{
	*causes = usage->causes;
	return usage->any_layer;
}
