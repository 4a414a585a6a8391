/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which tasks ran in place of watched threads that waited for a CPU: the switch program books it
 * when such a task leaves the CPU. */
#pragma once
#include "looper_maps.bpf.h"
#include "bits.bpf.h"
#include "sched_maps.bpf.h"

/* Few rows for many tasks: a new one takes the place of the lightest, whose time goes to the
 * others, so that a task that runs for long stays (the space-saving way of heavy hitters).
 * Not static, so that it is verified by itself: where the row is used its number must be followed
 * exactly, and each way through this loop would be verified to the end. */
__noinline int lightest_row(__u32 index)
{
	struct looper_slot *slot = bpf_map_lookup_elem(&looper_slots, &index);
	__u64 least_ns = ~0ull;
	int least = 0;

	if (!slot)
		return 0;
	for (int i = 0; i < LOOPER_PREEMPTORS; i++) {
		if (slot->preemptors[i].ns < least_ns) {
			least_ns = slot->preemptors[i].ns;
			least = i;
		}
	}
	return least;
}

/* Not static, so that it is verified once and not in each place that calls it. The task that
 * leaves the CPU is still the current one. */
__noinline int book_in_row(__u32 index, __u32 tid, __u64 ns)
{
	struct looper_slot *slot = bpf_map_lookup_elem(&looper_slots, &index);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct looper_preemptor *row;

	if (!slot)
		return 0;
	for (__u32 i = 0; i < LOOPER_PREEMPTORS; i++) {
		row = &slot->preemptors[i];
		if (row->ns && row->tid == tid) {
			row->ns += ns;
			return 0;
		}
	}
	row = &slot->preemptors[lightest_row(index) & (LOOPER_PREEMPTORS - 1)];
	slot->preempted_other_ns += row->ns;
	row->ns = ns;
	row->tid = tid;
	row->tgid = BPF_CORE_READ(task, tgid);
	bpf_probe_read_kernel(row->comm, LOOPER_COMM_LEN, &task->comm);
	return 0;
}

/* The current task leaves a CPU on which watched threads wait to run: it ran in their place. Not
 * static, so that its loop is verified once. */
__noinline int book_preemptors(__u32 cpu_id, __u64 now_ns)
{
	struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);
	__u32 tid = (__u32)bpf_get_current_pid_tgid(), waiting;
	__u64 last_ns;

	if (!cpu)
		return 0;
	waiting = cpu->looper_waiting;
	last_ns = cpu->looper_since_ns;
	cpu->looper_since_ns = now_ns;
	for (int i = 0; i < SCHED_MAX_WAITERS && waiting; i++) {
		__u32 row = first_bit(waiting) & (SCHED_MAX_WAITERS - 1);
		__u32 index = cpu->waiters[row];
		struct looper_slot *slot;
		__u64 since_ns;

		waiting &= waiting - 1;
		slot = bpf_map_lookup_elem(&looper_slots, &index);
		if (!slot || !slot->waiting || slot->waiting_cpu != cpu_id) {
			cpu->looper_waiting &= ~(1u << row);
			continue;
		}
		/* The last switch that this was called for may be older than the wait. */
		since_ns = slot->waiting_since_ns > last_ns ? slot->waiting_since_ns : last_ns;
		if (tid && tid != slot->tid && now_ns > since_ns)
			book_in_row(index, tid, now_ns - since_ns);
		/* It may have two rows, here or at two CPUs: once is enough. */
		slot->waiting_since_ns = now_ns;
	}
	return 0;
}
