/* SPDX-License-Identifier: BSD-2-Clause */
/* An interval's CPU time by process and by uid. The arrays that a record gets belong to the sums
 * until the next call. All return 0 or -ENOMEM. */
#pragma once
#include "jankscope/record.h"

struct process_sum;
struct uid_sum;

struct cpu_sums {
	struct uid_sum *uids; /* of the present interval */
	struct process_sum *processes;
	struct record_uid_cpu *out_uids;
	struct record_process_cpu *out_processes;
};

int cpu_sums_add_uid(struct cpu_sums *sums, uid_t uid, uint64_t cpu_ns);
/* What `threads` threads of the task's process did, beside the tasks of the record. */
int cpu_sums_add_process(struct cpu_sums *sums, const struct record_task *task, unsigned threads);
/* From the tasks of the record, before their list is cut, and what was added since the last call.
 */
int cpu_sums_processes(struct cpu_sums *sums, struct record_cpu *cpu);
/* What was added since the last call. */
int cpu_sums_uids(struct cpu_sums *sums, struct record_cpu *cpu);
void cpu_sums_free(struct cpu_sums *sums);
