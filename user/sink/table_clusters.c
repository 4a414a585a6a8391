/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's line of where the targets ran: share of each cluster, its mean frequency, and how
 * much of the device at full speed that is. */
#include <stdio.h>
#include <string.h>

#include "sink/table_private.h"

static double mean_khz(const struct record_cluster *cluster)
{
	double sum = 0, ns = 0;

	for (size_t i = 0; i < cluster->frequency_count; i++) {
		const struct record_frequency_time *at = &cluster->frequencies[i];

		if (!at->khz.present)
			continue;
		sum += (double)at->khz.value * (double)at->cpu_ns;
		ns += (double)at->cpu_ns;
	}
	return ns > 0 ? sum / ns : 0;
}

void table_print_clusters(struct table_sink *table, const struct record_cpu *cpu)
{
	struct line line = table_line(table);
	char cpus[TABLE_NAME];
	uint64_t all_ns = 0;

	for (size_t i = 0; i < cpu->cluster_count; i++)
		all_ns += cpu->clusters[i].targets_ns;
	if (!all_ns)
		return;
	line_put(&line, "  target ran");
	for (size_t i = 0; i < cpu->cluster_count; i++) {
		const struct record_cluster *cluster = &cpu->clusters[i];
		double khz = mean_khz(cluster);

		if (!cluster->targets_ns)
			continue;
		line_put(&line, " %.0f %% on", 100 * (double)cluster->targets_ns / (double)all_ns);
		line_put(&line, " CPU %s", text_tail(cpus, sizeof(cpus), cluster->cpus, 16));
		if (khz > 0)
			line_put(&line, " (mean %.0f MHz)", khz / 1e3);
	}
	if (cpu->targets_fnorm_ns.present && cpu->capacity_ns.present && cpu->capacity_ns.value)
		line_put(&line, ", %.1f %%device_fnorm",
			 100 * (double)cpu->targets_fnorm_ns.value /
				 (double)cpu->capacity_ns.value);
	line_end(&line);
}

/* The keys of clusters_add (summary/clusters.c). */
void table_print_cluster_totals(struct table_sink *table, const struct record_footer *footer)
{
	double all_ns = table_total(footer, "targets.cpu_ns"), placed_ns = 0;
	struct line line = table_line(table);
	unsigned number;
	bool any = false;
	int end;

	for (size_t i = 0; i < footer->total_count; i++) {
		const struct summary_total *total = &footer->totals[i];

		end = 0;
		if (sscanf(total->key, "targets.clusters.%u.cpu_ns%n", &number, &end) != 1 ||
		    !end || total->key[end] || all_ns <= 0)
			continue;
		line_put(&line, any ? "," : "  target ran on");
		line_put(&line, " cluster %u", number);
		line_put(&line, " %.1f %%", 100 * total->value / all_ns);
		placed_ns += total->value;
		any = true;
	}
	if (!any)
		return;
	/* Of tasks that were not watched from their birth on, as children that live for a moment.
	 */
	if (all_ns - placed_ns >= all_ns / 1000)
		line_put(&line, ", not known where %.1f %%", 100 * (all_ns - placed_ns) / all_ns);
	if (table_total(footer, "cpu.capacity_ns") > 0)
		line_put(&line, ", %.2f %%device_fnorm",
			 table_total(footer, "targets.device_fnorm_pct"));
	line_end(&line);
}
