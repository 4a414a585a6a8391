/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The slot of one task: its sums, copied from the kernel's own when the task leaves its CPU. */
#pragma once
#include "sched_maps.bpf.h"
#include "compat.bpf.h"
#include "order.bpf.h"
#include "sched_state.bpf.h"
#include "sched_time.bpf.h"
#include "sched_view.bpf.h"

static __always_inline void book_overflow(__u32 uid, __u64 cpu_ns, __u32 reason)
{
	__u64 *sum;

	loss_add(&losses, reason, 1);
	sum = bpf_map_lookup_elem(&overflow, &uid);
	if (!sum) {
		if (!bpf_map_update_elem(&overflow, &uid, &cpu_ns, BPF_NOEXIST))
			return;
		/* Another CPU was the first of this uid, or there is no room. */
		sum = bpf_map_lookup_elem(&overflow, &uid);
	}
	if (sum)
		__sync_fetch_and_add(sum, cpu_ns);
	else
		loss_add(&losses, SCHED_LOSS_OVERFLOW_MAP_FULL, cpu_ns);
}

/* Watched threads wait for this CPU. */
static __always_inline bool somebody_waits(const struct cpu_slot *cpu)
{
	return *(__u64 *)&cpu->looper_waiting;
}

static __always_inline bool is_hashed(__u32 tid)
{
	return tid >= array_slots;
}

/* The slot of a task that has one. Two look-ups one behind the other: clang makes one of those in
 * two branches, which the kernel cannot inline then. */
static __always_inline struct task_slot *known_slot(__u32 tid)
{
	struct task_slot *slot = bpf_map_lookup_elem(&tasks, &tid);

	if (slot || !is_hashed(tid))
		return slot;
	return bpf_map_lookup_elem(&tasks_hash, &tid);
}

static __always_inline struct task_slot *make_slot(__u32 tid, bool first_slice)
{
	__u32 zero = 0;
	struct task_slot *empty = bpf_map_lookup_elem(&empty_slot, &zero);

	if (!is_hashed(tid) || !empty || (hash_was_full && !first_slice))
		return NULL;
	if (bpf_map_update_elem(&tasks_hash, &tid, empty, BPF_NOEXIST)) {
		hash_was_full = 1;
		return NULL;
	}
	hash_was_used = 1;
	return bpf_map_lookup_elem(&tasks_hash, &tid);
}

static __always_inline struct task_slot *find_slot(__u32 tid, bool first_slice)
{
	struct task_slot *slot = known_slot(tid);

	return slot ? slot : make_slot(tid, first_slice);
}

/* Around all that is written into a slot: abi/sched.h says how it is read. A task is on one CPU,
 * but catch_up may come from another one at the same moment: the sums that it writes are as good,
 * and where the numbers differ afterwards the next switch makes them agree. */
static __always_inline __u32 slot_begin(struct task_slot *slot)
{
	__u32 sequence = slot->sequence + 1;

	ordered_add(&slot->sequence, 1);
	return sequence;
}

static __always_inline void slot_end(struct task_slot *slot, __u32 sequence)
{
#ifdef __TARGET_ARCH_x86
	asm volatile("" : : : "memory");
	*(volatile __u32 *)&slot->sequence_end = sequence;
#else
	fetch_add(&slot->sequence_end, 1);
#endif
}

static __always_inline void mark_group(__u32 tid)
{
	if (!is_hashed(tid))
		group_epochs[(tid >> SCHED_GROUP_SHIFT) & (SCHED_GROUPS - 1)] = read_epoch;
}

/* Sleep is what remains of a task's life; only the other ways to be off the CPU are timed. */
static __always_inline bool off_time_counts(__u32 off_state)
{
	return off_state == OFF_CPU_UNINTERRUPTIBLE || off_state == OFF_CPU_STOPPED;
}

static __always_inline __u64 rq_clock_of(struct task_struct *task, bool direct)
{
	if (!HAS_RQ_CLOCK)
		return bpf_ktime_get_ns();
	return direct ? task->se.cfs_rq->rq->clock : BPF_CORE_READ(task, se.cfs_rq, rq, clock);
}

/* False: the ring is full. */
static __always_inline bool tell(const struct task_slot *slot, __u32 tid, __u32 exec_tid,
				 __u32 kind)
{
	struct task_death *death = bpf_ringbuf_reserve(&deaths, sizeof(*death), 0);

	if (!death)
		return false;
	death->kind = kind;
	death->parent_pid = 0;
	death->start_boot_ns = slot->start_boot_ns;
	death->process_start_boot_ns = slot->process_start_boot_ns;
	death->end_boot_ns = bpf_ktime_get_boot_ns();
	death->sums = slot->sums;
	death->uninterruptible_ns = slot->uninterruptible_ns;
	death->stopped_ns = slot->stopped_ns;
	death->tid = tid;
	death->tgid = slot->tgid;
	death->uid = slot->uid;
	death->exec_tid = exec_tid;
	__builtin_memcpy(death->comm, slot->comm, SCHED_COMM_LEN);
	/* Before the submit, which is a full barrier, and so before the kernel clears in_execve:
	 * whoever sees the task out of its execve sees that there is word of it. */
	if (exec_tid)
		__sync_fetch_and_add(&exec_count, 1);
	/* A wake-up per death would cost more than the accounting. */
	bpf_ringbuf_submit(death, bpf_ringbuf_query(&deaths, BPF_RB_AVAIL_DATA) > death_wakeup_bytes
					  ? BPF_RB_FORCE_WAKEUP
					  : BPF_RB_NO_WAKEUP);
	return true;
}

/* False: the ring is full, and the loss is counted. */
static __always_inline bool report_death(const struct task_slot *slot, __u32 tid, __u32 exec_tid)
{
	if (tell(slot, tid, exec_tid, exec_tid ? TASK_NOTE_EXEC_LEADER : TASK_NOTE_DEATH))
		return true;
	loss_add(&losses, SCHED_LOSS_DEATH_RING_FULL, 1);
	return false;
}

static __always_inline void copy_comm(char *to, struct task_struct *task, bool direct)
{
	if (direct) {
		const __u64 *comm = (const void *)&task->comm;

		((__u64 *)to)[0] = comm[0];
		((__u64 *)to)[1] = comm[1];
	} else {
		bpf_probe_read_kernel(to, SCHED_COMM_LEN, &task->comm);
	}
}

/* A dead task whose record found no room is about to be overwritten: what no read-out has seen of
 * it goes to the overflow row of its uid. */
static __always_inline void retire_slot(const struct task_slot *slot)
{
	if ((slot->flags & TASK_SLOT_UNREPORTED) && slot->epoch == read_epoch)
		book_overflow(slot->uid, slot->sums.cpu_ns - slot->epoch_cpu_ns,
			      SCHED_LOSS_SLOT_REUSED);
}

/* The next read-out is the first to see that it ran. */
static __always_inline void begin_epoch(struct task_slot *slot, __u32 tid, __u64 cpu_ns)
{
	slot->epoch = read_epoch;
	slot->epoch_cpu_ns = cpu_ns;
	mark_group(tid);
}

/* One switch-out: which task leaves, when it came and what its sum was then (or the present one,
 * where the switch that brought it was not seen). */
struct switch_out {
	__u32 tid, off_state;
	__u32 watch; /* filled by book_slice: a watched thread's index + 1 */
	__u32 slice; /* sequence of the CPU's slot while it ran */
	__u64 now_ns, in_cpu_ns;
};

/* A new owner of the tid, or the first one: the current task, as at each switch. As rare as births:
 * by itself, and by probe reads. */
static __noinline int claim_slot(struct task_slot *slot, struct task_struct *task, __u64 in_cpu_ns)
{
	__u32 tid = BPF_CORE_READ(task, pid);

	retire_slot(slot);
	slot->start_boot_ns = BPF_CORE_READ(task, start_boottime);
	slot->sums.cpu_ns = in_cpu_ns;
	slot->uninterruptible_ns = 0;
	slot->stopped_ns = 0;
	slot->off_state = OFF_CPU_UNKNOWN;
	slot->flags = 0;
	slot->task = bpf_get_current_task();
	/* The reader may watch a thread before its first switch. */
	if (slot->tgid)
		slot->watch = 0;
	slot->uid = task_uid(task, false);
	slot->tgid = BPF_CORE_READ(task, tgid);
	slot->process_start_boot_ns = task_process_start(task, false);
	copy_comm(slot->comm, task, false);
	begin_epoch(slot, tid, in_cpu_ns);
	return 0;
}

/* From the switch-out to the arrival; the wait for a CPU after the wake-up is run_delay's, not the
 * sleep's. */
static __noinline int book_off_time(struct task_slot *slot, struct task_struct *task)
{
	__u64 waited_ns = BPF_CORE_READ(task, sched_info.run_delay) - slot->sums.runnable_ns;
	__u64 arrival_ns = BPF_CORE_READ(task, sched_info.last_arrival);
	__u64 gone_ns = slot->off_since_ns + waited_ns;
	__u64 off_ns = arrival_ns > gone_ns ? arrival_ns - gone_ns : 0;

	if (slot->off_state == OFF_CPU_UNINTERRUPTIBLE)
		slot->uninterruptible_ns += off_ns;
	else
		slot->stopped_ns += off_ns;
	return 0;
}

/* Its sums are in the slot already. The right to change was asked for, and no change followed: one
 * that it would have been preempted before follows now. */
static __noinline int change_uid(struct task_slot *slot, __u32 tid, __u32 uid)
{
	if (slot->uid == uid) {
		if (slot->off_state != OFF_CPU_RUNNABLE)
			slot->flags &= ~TASK_SLOT_UID_TOLD;
		return 0;
	}
	if (!(slot->flags & TASK_SLOT_UID_TOLD) && !tell(slot, tid, 0, TASK_NOTE_UID))
		loss_add(&losses, SCHED_LOSS_UID_UNSPLIT, 1);
	slot->flags &= ~TASK_SLOT_UID_TOLD;
	slot->uid = uid;
	return 0;
}

/* Not sched_process_exit: 94 % of a short thread's time comes after it. */
static __noinline int book_death(struct task_slot *slot, __u32 tid)
{
	slot->flags = TASK_SLOT_DEAD;
	if (!report_death(slot, tid, 0))
		slot->flags |= TASK_SLOT_UNREPORTED;
	return 0;
}

static __noinline int book_unplaced(struct task_struct *task, __u64 in_cpu_ns)
{
	book_overflow(task_uid(task, false), BPF_CORE_READ(task, se.sum_exec_runtime) - in_cpu_ns,
		      SCHED_LOSS_TASK_MAP_FULL);
	return 0;
}

static __always_inline void book_slice(struct task_struct *task, const struct task_view *view,
				       struct switch_out *out, bool direct)
{
	struct task_slot *slot = find_slot(out->tid, !out->in_cpu_ns);
	__u32 sequence, uid;

	if (unlikely(!slot)) {
		book_unplaced(task, out->in_cpu_ns);
		return;
	}
	sequence = slot_begin(slot);
	if (unlikely(slot->start_boot_ns != VIEWED(start_boottime, start_boot_ns)))
		claim_slot(slot, task, out->in_cpu_ns);
	else if (unlikely(slot->epoch != read_epoch))
		begin_epoch(slot, out->tid, out->in_cpu_ns);
	if (unlikely(off_time_counts(slot->off_state)))
		book_off_time(slot, task);
	slot->sums.cpu_ns = VIEWED(se.sum_exec_runtime, sums.cpu_ns);
	slot->sums.runnable_ns = VIEWED(sched_info.run_delay, sums.runnable_ns);
	slot->sums.switches_voluntary = VIEWED(nvcsw, sums.switches_voluntary);
	slot->sums.switches_involuntary = VIEWED(nivcsw, sums.switches_involuntary);
	if (unlikely(off_time_counts(out->off_state)))
		slot->off_since_ns = out->now_ns;
	slot->off_state = out->off_state;
	/* A thread that took its leader's place is another task under the same identity. */
	slot->task = (__u64)task;
	out->watch = slot->watch;
	/* The address of the cred would not do: RCU may give it to the next one, also without a
	 * switch in between. */
	if (watch_uids) {
		uid = task_uid(task, direct);
		if (unlikely(slot->uid != uid || slot->flags & TASK_SLOT_UID_TOLD))
			change_uid(slot, out->tid, uid);
	} else if (unlikely(slot->flags & TASK_SLOT_UID_TOLD)) {
		change_uid(slot, out->tid, task_uid(task, direct));
	}
	if (split_time &&
	    ((slot->flags & TASK_SLOT_TIMED) || time_filter[slot->tgid & (TIME_FILTER - 1)]))
		time_slice(slot, out->tid, out->in_cpu_ns, out->slice);
	if (unlikely(out->off_state == OFF_CPU_DEAD))
		book_death(slot, out->tid);
	slot_end(slot, sequence);
	if (unlikely(out->off_state == OFF_CPU_DEAD) && slot->flags == TASK_SLOT_DEAD &&
	    is_hashed(out->tid))
		bpf_map_delete_elem(&tasks_hash, &out->tid);
}
