/* SPDX-License-Identifier: BSD-2-Clause */
/* A CPU source that does not open fails its test, unless the kernel itself lacks what the wanted
 * twin stands on: that is asked by loading an empty program. */
#pragma once
#include <stdint.h>
#include <string.h>

#include "jankscope/source.h"
#include "kernel/features.h"
#include "kernel/sched_kernel.h"
#include "source/cpu/cpu.h"
#include "summary/summary.h"
#include "tap.h"

static inline bool kernel_has(const char *feature)
{
	struct feature rows[64];
	size_t count = features_probe(rows, sizeof(rows) / sizeof(*rows), NULL);
	const struct feature *row = features_find(rows, count, feature);

	return row && row->ok;
}

static inline bool may_be_missing(const struct sched_kernel_options *kernel)
{
	if (kernel->mode == CPU_MODE_ITER && !kernel_has("iter_task"))
		return true;
	return kernel->variant != VARIANT_RAW_TP && !kernel_has("tp_btf");
}

/* A source that has a row for each task, however many end while the machine is busy. */
static inline struct source *source_for_test(const struct cpu_options *options)
{
	struct cpu_options all = *options;

	all.test_fold_rows = SIZE_MAX;
	return cpu_source_new(&all);
}

/* Tasks of --cpu iter that have died, as far as births and walks tell, and whose death was not told
 * yet. */
static inline uint64_t deaths_in_flight(struct source *source)
{
	struct summary *summary = summary_new(NULL);
	const struct record_footer *footer;
	uint64_t count = 0;

	source->ops->summarise(source, summary);
	footer = summary_footer(summary);
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, "cpu.deaths_in_flight"))
			count = (uint64_t)footer->totals[i].value;
	summary_free(summary);
	return count;
}

/* True: it is open, and it is the twin that was wanted. */
static inline bool open_for_test(struct source *source, const struct source_context *context,
				 const struct sched_kernel_options *kernel, const char *name)
{
	const char *wanted = kernel->variant == VARIANT_RAW_TP ? "/raw_tp/" : "/tp_btf/";

	if (source->ops->open(source, context)) {
		if (may_be_missing(kernel))
			tap_skip(name, source->reason);
		else
			tap_ok(false, "%s: opens: %s", name, source->reason);
		return false;
	}
	if (!strstr(source->variant, wanted) && !may_be_missing(kernel))
		return tap_ok(false, "%s: is %s, wanted is%s", name, source->variant, wanted);
	if (source->state != SOURCE_OK)
		return tap_ok(false, "%s: not degraded: %s", name, source->reason);
	return true;
}
