/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/histogram.h"
#include "core/paths.h"

enum distribution {
	DISTRIBUTION_DUR,
	DISTRIBUTION_BUSY,
	DISTRIBUTION_SELF,
	DISTRIBUTION_BLOCK_WALL,
	DISTRIBUTION_MAX,
};

static const char *const distribution_names[DISTRIBUTION_MAX] = {
	[DISTRIBUTION_DUR] = "interval.dur_ns",
	[DISTRIBUTION_BUSY] = "cpu.interval_busy_ns",
	[DISTRIBUTION_SELF] = "self.interval_cpu_ns",
	[DISTRIBUTION_BLOCK_WALL] = "blocks.wall_ns",
};

#define TOP_PATHS 10

struct summary {
	struct paths *paths;
	struct histogram *histograms[DISTRIBUTION_MAX];
	struct record_footer footer;
	struct record_distribution distributions[DISTRIBUTION_MAX];
	uint64_t intervals, blocks, exits;
	double dur_ns;
};

struct summary *summary_new(void)
{
	struct summary *summary = calloc(1, sizeof(*summary));

	if (!summary)
		return NULL;
	summary->paths = paths_new();
	if (!summary->paths) {
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
	for (int i = 0; i < DISTRIBUTION_MAX; i++)
		histogram_free(summary->histograms[i]);
	for (size_t i = 0; i < summary->footer.total_count; i++)
		free(summary->footer.totals[i].key);
	free(summary->footer.totals);
	counter_list_free(&summary->footer.lost);
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
	return 0;
}

static double get(const struct summary *summary, const char *key)
{
	for (size_t i = 0; i < summary->footer.total_count; i++)
		if (!strcmp(summary->footer.totals[i].key, key))
			return summary->footer.totals[i].value;
	return 0;
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
	if (!err && cpu->unaccounted_ns.present)
		err = add(summary, "cpu.unaccounted_ns", (double)cpu->unaccounted_ns.value);
	for (size_t i = 0; i < cpu->task_count; i++)
		summary->exits += cpu->tasks[i].exited;
	if (!err)
		err = histogram_add(summary->histograms[DISTRIBUTION_BUSY], cpu->busy_ns);
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

static int add_interval(struct summary *summary, const struct record_interval *interval)
{
	int err = counter_list_merge(&summary->footer.lost, &interval->lost);

	summary->intervals++;
	summary->dur_ns += (double)interval->dur_ns;
	for (size_t i = 0; i < interval->missing.count && !err; i++)
		err = missing_list_set(&summary->footer.missing, interval->missing.items[i].key,
				       interval->missing.items[i].reason);
	if (!err)
		err = histogram_add(summary->histograms[DISTRIBUTION_DUR], interval->dur_ns);
	if (!err)
		err = histogram_add(summary->histograms[DISTRIBUTION_SELF], interval->self.cpu_ns);
	if (!err)
		err = add(summary, "self.cpu_ns", (double)interval->self.cpu_ns);
	if (!err)
		err = add(summary, "self.stops", (double)interval->self.stops);
	if (!err && (double)interval->self.stop_max_ns > get(summary, "self.stop_max_ns"))
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
	return err;
}

int summary_add(struct summary *summary, const struct record *record)
{
	int err = 0;

	switch (record->type) {
	case RECORD_INTERVAL:
		return add_interval(summary, record->interval);
	case RECORD_BLOCK:
		/* An open period is told again when it ends. */
		if (record->block->state == BLOCK_OPEN)
			return 0;
		summary->blocks++;
		err = paths_add(summary->paths, record->block);
		if (!err)
			err = add(summary, "blocks.total_ns", (double)record->block->wall_ns);
		if (!err)
			err = histogram_add(summary->histograms[DISTRIBUTION_BLOCK_WALL],
					    record->block->wall_ns);
		return err ? err : counter_list_merge(&summary->footer.lost, &record->block->lost);
	case RECORD_EVENT:
		return add(summary, "events", 1);
	case RECORD_HEADER:
	case RECORD_FOOTER:
		return 0;
	}
	return 0;
}

static bool is_missing(const struct missing_list *list, const char *key)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i].key, key))
			return true;
	return false;
}

const struct record_footer *summary_footer(struct summary *summary)
{
	struct record_footer *footer = &summary->footer;
	int err = summary_set_total(summary, "intervals", (double)summary->intervals);

	if (!err)
		err = summary_set_total(summary, "dur_ns", summary->dur_ns);
	if (!err)
		err = summary_set_total(summary, "blocks.count", (double)summary->blocks);
	if (!err && !is_missing(&footer->missing, "cpu.tasks_exited"))
		err = summary_set_total(summary, "cpu.tasks_exited", (double)summary->exits);
	if (!err)
		err = summary_set_total(summary, "lost_pct", summary_lost_pct(summary));
	if (err) {
		errno = -err;
		return NULL;
	}
	footer->path_count = paths_top(summary->paths, TOP_PATHS, &footer->paths);
	footer->distributions = summary->distributions;
	footer->distribution_count = 0;
	for (int i = 0; i < DISTRIBUTION_MAX; i++) {
		const struct histogram *histogram = summary->histograms[i];

		if (!histogram_count(histogram))
			continue;
		footer->distributions[footer->distribution_count++] = (struct record_distribution){
			.name = distribution_names[i],
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
	return footer;
}

static double share(double lost, double of)
{
	if (lost <= 0)
		return 0;
	return of > lost ? 100 * lost / of : 100;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

double summary_lost_pct(const struct summary *summary)
{
	const struct counter_list *lost = &summary->footer.lost;
	double busy_ns = get(summary, "cpu.busy_ns"), pct = 0;
	double overflow_ns = (double)counter_list_get(lost, "cpu_overflow_map_full_ns") +
			     (double)counter_list_get(lost, "cpu_untold_at_most_ns");
	double bytes = get(summary, "net.rx_bytes") + get(summary, "net.tx_bytes") +
		       get(summary, "net.unattributed.rx_bytes") +
		       get(summary, "net.unattributed.tx_bytes");
	double overruns = (double)counter_list_get(lost, "interval_overruns");

	pct = larger(pct,
		     share(get(summary, "cpu.overflow_ns") + overflow_ns, busy_ns + overflow_ns));
	/* A switch that was not seen loses nothing: the sums are the kernel's, read at the next. */
	pct = larger(pct, share((double)counter_list_get(lost, "cpu_dead_slot_reused"),
				(double)summary->exits));
	pct = larger(pct, share((double)counter_list_get(lost, "net_lost_bytes"), bytes));
	return larger(pct, share(overruns, (double)summary->intervals + overruns));
}
