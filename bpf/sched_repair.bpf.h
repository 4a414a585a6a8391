/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What sched_switch did not show, and tasks that change their tid: the slots follow the kernel. */
#pragma once
#include "sched_slot.bpf.h"

/* The tracepoint does not show every switch (bpf/README.md says which kernels keep some back). Who
 * should have left this CPU has left unseen: its sums are the kernel's own, so they are taken now,
 * late but whole. It may run elsewhere and be booked there at this moment; then that booking, which
 * is newer, is made again at its next switch. */
ordering_part void catch_up(struct cpu_slot *cpu)
{
	struct task_struct *task = (struct task_struct *)cpu->task;
	__u32 tid = cpu->tid, sequence;
	struct task_slot *slot = known_slot(tid);
	struct task_sums sums;

	if (!slot || !task || !slot->start_boot_ns || (slot->flags & TASK_SLOT_DEAD) ||
	    BPF_CORE_READ(task, start_boottime) != slot->start_boot_ns ||
	    (__u32)BPF_CORE_READ(task, pid) != tid)
		return;
	read_sums(task, &sums, false);
	if (sums.cpu_ns <= slot->sums.cpu_ns)
		return;
	sequence = slot_begin(slot);
	if (slot->epoch != read_epoch)
		begin_epoch(slot, tid, cpu->in_cpu_ns);
	slot->sums = sums;
	slot->off_state = OFF_CPU_UNKNOWN; /* nor when */
	slot_end(slot, sequence);
	if (split_time && (slot->flags & TASK_SLOT_TIMED))
		leave_unseen(tid, cpu->in_cpu_ns);
}

/* The CPU went idle unseen after the task that its slot still names: since that task's time ended.
 */
static __always_inline __u64 idle_after(const struct cpu_slot *cpu, __u64 now_ns)
{
	struct task_struct *task = (struct task_struct *)cpu->task;
	__u64 cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime), left_ns;

	left_ns = BPF_CORE_READ(task, sched_info.last_arrival) + cpu_ns - cpu->in_cpu_ns;
	if ((__u32)BPF_CORE_READ(task, pid) != cpu->tid)
		return 0;
	return now_ns > left_ns ? now_ns - left_ns : 0;
}

/* A thread that calls execve (the current task) gets the tid and the start time of its leader, but
 * keeps its own sums (de_thread in fs/exec.c): the slots and the reader's ledger follow the task.
 */
ordering_part void follow_exec(struct task_struct *task, __u32 old_tid, __u32 flags)
{
	__u32 tid = BPF_CORE_READ(task, pid), key = !flags;
	struct task_slot *now = bpf_map_lookup_elem(&exec_slots, &key), *old, *slot;

	if (!now)
		return;
	__builtin_memset(now, 0, sizeof(*now));
	now->start_boot_ns = BPF_CORE_READ(task, start_boottime);
	read_sums(task, &now->sums, false);
	now->tgid = tid;
	now->process_start_boot_ns = now->start_boot_ns; /* a leader now */
	now->uid = task_uid(task, false);
	copy_comm(now->comm, task, false);
	report_death(now, tid, old_tid);
	/* Under both tids: the rows have other sums than the task. The slice that is not over goes
	 * to the row that it gets behind it. */
	if (split_time) {
		__u32 cpu_id = bpf_get_smp_processor_id();
		struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);

		if (cpu)
			book_time(old_tid, cpu->in_cpu_ns, cpu->in_cpu_ns, 0);
		end_time(tid);
		end_time(old_tid);
	}
	/* The leader may have died under the old tid already: then that slot is its own. */
	old = known_slot(old_tid);
	if (old && old->start_boot_ns != now->start_boot_ns) {
		now->uninterruptible_ns = old->uninterruptible_ns;
		now->stopped_ns = old->stopped_ns;
		if (is_hashed(old_tid))
			bpf_map_delete_elem(&tasks_hash, &old_tid);
		else
			old->flags = TASK_SLOT_DEAD;
	}
	/* The mark of having been told needs a slot, also where the leader left none. */
	slot = flags ? find_slot(tid, true) : known_slot(tid);
	if (slot && (flags || slot->start_boot_ns == now->start_boot_ns)) {
		__u32 sequence;

		retire_slot(slot);
		sequence = slot_begin(slot);
		if (slot->start_boot_ns != now->start_boot_ns) {
			slot->start_boot_ns = now->start_boot_ns;
			if (slot->tgid)
				slot->watch = 0;
			slot->tgid = tid;
			__builtin_memcpy(slot->comm, now->comm, SCHED_COMM_LEN);
		}
		slot->sums = now->sums;
		slot->uninterruptible_ns = now->uninterruptible_ns;
		slot->stopped_ns = now->stopped_ns;
		slot->off_state = OFF_CPU_RUNNABLE;
		slot->flags = flags;
		slot->task = bpf_get_current_task();
		begin_epoch(slot, tid, now->sums.cpu_ns);
		slot->uid = now->uid;
		slot->process_start_boot_ns = now->start_boot_ns;
		slot_end(slot, sequence);
	}
}

/* Not another task in the memory of one that is gone: a leader now, of whose process the old tid
 * was. The old tid's own slot tells nothing: the leader may have died under that tid meanwhile.
 */
static __always_inline bool was_its_thread(const struct cpu_slot *slot, struct task_struct *task,
					   __u32 tid)
{
	__u32 tgid = BPF_CORE_READ(task, tgid), its_tgid = slot->tgid;

	if (!its_tgid) {
		const struct task_slot *its_slot = known_slot(slot->tid);

		its_tgid = its_slot ? its_slot->tgid : 0;
	}
	return slot->task == (__u64)task && slot->tid && tid == tgid && its_tgid == tgid;
}

/* The switch that the slot of this CPU waits for was not shown: another task leaves than came. */
ordering_part int repair(struct cpu_slot *slot, struct task_struct *prev, struct switch_out *out)
{
	__u64 now_ns = rq_clock_of(prev, false), arrival_ns;

	if (out->tid && was_its_thread(slot, prev, out->tid)) {
		follow_exec(prev, slot->tid, TASK_SLOT_FOLLOWED);
		return 0;
	}
	out->in_cpu_ns = out->tid ? BPF_CORE_READ(prev, se.sum_exec_runtime) : 0;
	if (!slot->since_ns) /* first sight of this CPU */
		return 0;
	loss_add(&losses, SCHED_LOSS_MISSED_SWITCH, 1);
	if (slot->tid)
		catch_up(slot);
	if (!out->tid) {
		slot->idle_ns += idle_after(slot, now_ns);
		return 0;
	}
	/* sched_info_arrive stamped the run-queue clock when prev came. */
	arrival_ns = BPF_CORE_READ(prev, sched_info.last_arrival);
	if (arrival_ns < slot->since_ns || arrival_ns > now_ns)
		return 0;
	if (now_ns - arrival_ns < out->in_cpu_ns)
		out->in_cpu_ns -= now_ns - arrival_ns;
	else
		out->in_cpu_ns = 0;
	if (!slot->tid)
		slot->idle_ns += arrival_ns - slot->since_ns;
	return 0;
}
