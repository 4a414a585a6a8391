/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the tasks of the targets ran in an interval, by CPU and by frequency: the rows of the
 * kernel side, and the slices that are not over, become parts that add up to a task's cpu_ns. */
#pragma once
#include "jankscope/record.h"
#include "jankscope/target.h"
#include "kernel/sched_kernel.h"
#include "source/cpu/clusters.h"

struct cpu_split;

/* Reads the clusters; root as of cpu_clusters_read. NULL: no memory. */
struct cpu_split *cpu_split_new(const char *root, unsigned cpu_count);
void cpu_split_free(struct cpu_split *split);

/* For the kernel side's open; owned by the split. */
const struct sched_time_layout *cpu_split_layout(const struct cpu_split *split);
/* The kernel side is open, and stays so while the split is used: it knows no frequency before its
 * first change, so those of the start are told to it. */
void cpu_split_begin(struct cpu_split *split, struct sched_kernel *kernel);
/* Watch the processes that are targets now, and no others. Before each read-out. */
void cpu_split_watch(struct cpu_split *split, const struct target_set *targets);

/* Fill in where the tasks of the record ran; behind the read-out of its tasks, which was at
 * mono_ns. What it points to is valid until the next call. online_ns: of all CPUs. 0, -ENOMEM. */
int cpu_split_fill(struct cpu_split *split, uint64_t mono_ns, struct record_cpu *cpu);
/* Say what is absent, and why. */
void cpu_split_explain(const struct cpu_split *split, struct missing_list *missing);

/* ---- pure ---- */

/* Parts of a task since the last interval, and what it ran in this one: what the parts are too long
 * by is taken from the longest of them (a slice was read out a moment later than its task's sum),
 * what they are too short by is returned. */
uint64_t cpu_split_fit(uint64_t *parts, size_t count, uint64_t cpu_ns);
