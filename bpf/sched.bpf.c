/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* CPU time and run-queue wait per task, copied at each switch from the kernel's own sums of the
 * task that leaves: put_prev_task brought them up to date before the tracepoint fires, so there is
 * no clock call, no atomic and, below pid_max 131072, no hash. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi/sched.h"
#include "compat.bpf.h"
#include "loss.bpf.h"
#include "looper_switch.bpf.h"

#ifndef unlikely
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load; what is false vanishes from the program. */
const volatile bool use_hash;       /* pid_max is too large for the array */
const volatile bool has_prev_state; /* 9c2136be0878 (5.18): sched_switch's fourth argument */
const volatile __u32 cpu_count = 1;
const volatile __u32 death_wakeup_bytes; /* wake the reader when the ring holds more */
const volatile bool watch_loopers;       /* busy periods of main threads: looper_switch.bpf.h */
const volatile __u32 test_skip_every;    /* tests only: pretend that every n-th switch was missed */

/* The way from a task to its run queue, and so to the scheduler's own clock, needs
 * CONFIG_FAIR_GROUP_SCHED; without it the clock helper is called. */
#define HAS_RQ_CLOCK bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq)

/* Counts read-outs; the reader increments it before it scans. */
__u32 read_epoch;
__u32 group_epochs[SCHED_GROUPS];
__u32 test_skip_count;
/* Once a task found no room: its finished slices are in the overflow row of its uid, and a slot
 * that told its sums from birth would count them again. From then on only a first slice makes a
 * slot. */
__u32 hash_was_full;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* pid_max, set before load */
	__type(key, __u32);
	__type(value, struct task_slot);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task_slot);
} tasks_hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct running_task);
} running SEC(".maps");

/* CPU time by uid of tasks that found no room, so that totals stay right. Never LRU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} overflow SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} deaths SEC(".maps");

DEFINE_LOSSES(losses, SCHED_LOSS_MAX);

/* A zeroed slot to insert into the hash: 128 bytes are too many for some verifiers' stack budget
 * together with the rest, and memset of a per-CPU scratch costs less than a copy from the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task_slot);
} empty_slot SEC(".maps");

static __always_inline void book_overflow(__u32 uid, __u64 cpu_ns, __u32 reason)
{
	__u64 *sum;

	loss_add(&losses, reason, 1);
	sum = bpf_map_lookup_elem(&overflow, &uid);
	if (sum) {
		*sum += cpu_ns;
		return;
	}
	if (bpf_map_update_elem(&overflow, &uid, &cpu_ns, BPF_NOEXIST))
		loss_add(&losses, SCHED_LOSS_OVERFLOW_MAP_FULL, cpu_ns);
}

static __always_inline struct task_slot *find_slot(__u32 tid, bool first_slice)
{
	if (!use_hash)
		return bpf_map_lookup_elem(&tasks, &tid);

	struct task_slot *slot = bpf_map_lookup_elem(&tasks_hash, &tid);
	__u32 zero = 0;

	if (slot)
		return slot;
	if (hash_was_full && !first_slice)
		return NULL;
	slot = bpf_map_lookup_elem(&empty_slot, &zero);
	if (!slot || bpf_map_update_elem(&tasks_hash, &tid, slot, BPF_NOEXIST)) {
		hash_was_full = 1;
		return NULL;
	}
	return bpf_map_lookup_elem(&tasks_hash, &tid);
}

/* The slot of a task that has one. */
static __always_inline struct task_slot *known_slot(__u32 tid)
{
	return use_hash ? bpf_map_lookup_elem(&tasks_hash, &tid)
			: bpf_map_lookup_elem(&tasks, &tid);
}

static __always_inline void mark_group(__u32 tid)
{
	if (!use_hash)
		group_epochs[(tid >> SCHED_GROUP_SHIFT) & (SCHED_GROUPS - 1)] = read_epoch;
}

static __always_inline __u32 off_state_of(__u32 state, bool preempted)
{
	if (preempted || state == 0)
		return OFF_CPU_RUNNABLE;
	if (state & TASK_DEAD_BIT)
		return OFF_CPU_DEAD;
	if (state & (TASK_STOPPED_BIT | TASK_TRACED_BIT | TASK_PARKED_BIT | TASK_FROZEN_BIT))
		return OFF_CPU_STOPPED;
	/* TASK_IDLE is how kernel threads sleep without counting as load. */
	if ((state & (TASK_UNINTERRUPTIBLE_BIT | TASK_RTLOCK_WAIT_BIT)) &&
	    !(state & TASK_NOLOAD_BIT))
		return OFF_CPU_UNINTERRUPTIBLE;
	return OFF_CPU_SLEEPING;
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

/* False: the ring is full, and the loss is counted. */
static __always_inline bool report_death(const struct task_slot *slot, __u32 tid, __u32 exec_tid)
{
	struct task_death *death = bpf_ringbuf_reserve(&deaths, sizeof(*death), 0);

	if (!death) {
		loss_add(&losses, SCHED_LOSS_DEATH_RING_FULL, 1);
		return false;
	}
	death->start_boot_ns = slot->start_boot_ns;
	death->end_boot_ns = bpf_ktime_get_boot_ns();
	death->cpu_ns = slot->cpu_ns;
	death->runnable_ns = slot->runnable_ns;
	death->uninterruptible_ns = slot->uninterruptible_ns;
	death->stopped_ns = slot->stopped_ns;
	death->switches_voluntary = slot->switches_voluntary;
	death->switches_involuntary = slot->switches_involuntary;
	death->tid = tid;
	death->tgid = slot->tgid;
	death->uid = slot->uid;
	death->exec_tid = exec_tid;
	__builtin_memcpy(death->comm, slot->comm, SCHED_COMM_LEN);
	/* A wake-up per death would cost more than the accounting. */
	bpf_ringbuf_submit(death, bpf_ringbuf_query(&deaths, BPF_RB_AVAIL_DATA) > death_wakeup_bytes
					  ? BPF_RB_FORCE_WAKEUP
					  : BPF_RB_NO_WAKEUP);
	return true;
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
		book_overflow(slot->uid, slot->cpu_ns - slot->epoch_cpu_ns, SCHED_LOSS_SLOT_REUSED);
}

/* One switch-out: who leaves, when it came and what its sum was then. since_ns 0 and the present
 * sum where the switch that brought it was not seen. */
struct switch_out {
	__u32 tid, off_state;
	__u32 watch; /* filled by book_slice: a watched main thread's index + 1 */
	__u64 now_ns, since_ns, in_cpu_ns;
};

static __always_inline void book_slice(struct task_struct *prev, struct switch_out *out,
				       bool direct)
{
	__u64 start_boot_ns = TASK_FIELD(direct, prev, start_boottime);
	__u64 cpu_ns = TASK_FIELD(direct, prev, se.sum_exec_runtime);
	__u64 runnable_ns = TASK_FIELD(direct, prev, sched_info.run_delay);
	__u64 cred = (__u64)TASK_FIELD(direct, prev, cred);
	__u32 tid = out->tid, sequence;
	struct task_slot *slot = find_slot(tid, !out->in_cpu_ns);

	if (!slot) {
		book_overflow(task_uid(prev, direct), cpu_ns - out->in_cpu_ns,
			      SCHED_LOSS_TASK_MAP_FULL);
		return;
	}
	mark_group(tid);
	sequence = slot->sequence + 1;
	*(volatile __u32 *)&slot->sequence = sequence;
	if (slot->start_boot_ns != start_boot_ns) {
		retire_slot(slot);
		slot->start_boot_ns = start_boot_ns;
		slot->cpu_ns = out->in_cpu_ns;
		slot->epoch = read_epoch;
		slot->epoch_cpu_ns = out->in_cpu_ns;
		slot->uninterruptible_ns = 0;
		slot->stopped_ns = 0;
		slot->off_since_ns = 0;
		slot->flags = 0;
		/* The reader may watch a thread before its first switch. */
		if (slot->tgid)
			slot->watch = 0;
		slot->cred = 0;
		slot->tgid = TASK_FIELD(direct, prev, tgid);
		copy_comm(slot->comm, prev, direct);
	} else if (slot->epoch != read_epoch) {
		slot->epoch = read_epoch;
		slot->epoch_cpu_ns = slot->cpu_ns;
	}
	if (slot->off_since_ns) {
		/* From the switch-out to the arrival; the wait for a CPU after the wake-up is
		 * run_delay's, not the sleep's. */
		__u64 arrival_ns = TASK_FIELD(direct, prev, sched_info.last_arrival);
		__u64 gone_ns = slot->off_since_ns + (runnable_ns - slot->runnable_ns);
		__u64 off_ns = arrival_ns > gone_ns ? arrival_ns - gone_ns : 0;

		if (slot->off_state == OFF_CPU_UNINTERRUPTIBLE)
			slot->uninterruptible_ns += off_ns;
		else if (slot->off_state == OFF_CPU_STOPPED)
			slot->stopped_ns += off_ns;
	}
	slot->cpu_ns = cpu_ns;
	slot->runnable_ns = runnable_ns;
	slot->off_since_ns = off_time_counts(out->off_state) ? out->now_ns : 0;
	slot->off_state = out->off_state;
	out->watch = slot->watch;
	if (slot->cred != cred) {
		slot->cred = cred;
		slot->uid = task_uid(prev, direct);
	}
	slot->switches_voluntary = TASK_FIELD(direct, prev, nvcsw);
	slot->switches_involuntary = TASK_FIELD(direct, prev, nivcsw);
	if (out->off_state == OFF_CPU_DEAD) {
		/* Not sched_process_exit: 94 % of a short thread's time comes after it. */
		slot->flags = TASK_SLOT_DEAD;
		if (!report_death(slot, tid, 0))
			slot->flags |= TASK_SLOT_UNREPORTED;
	}
	*(volatile __u32 *)&slot->sequence_end = sequence;
	if (use_hash && slot->flags == TASK_SLOT_DEAD)
		bpf_map_delete_elem(&tasks_hash, &tid);
}

/* The tracepoint does not show every switch (on 6.18 some from and to idle are missing, in ftrace
 * too). Who should have left this CPU has left unseen: its sums are the kernel's own, so they are
 * taken now, late but whole. It may run elsewhere and be booked there at this moment; then that
 * booking, which is newer, is made again at its next switch. */
static __noinline void catch_up(struct cpu_slot *cpu)
{
	struct task_struct *task = (struct task_struct *)cpu->task;
	__u32 tid = cpu->tid, sequence;
	struct task_slot *slot = known_slot(tid);
	__u64 cpu_ns;

	if (!slot || !task || !slot->start_boot_ns || (slot->flags & TASK_SLOT_DEAD) ||
	    BPF_CORE_READ(task, start_boottime) != slot->start_boot_ns ||
	    (__u32)BPF_CORE_READ(task, pid) != tid)
		return;
	cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	if (cpu_ns <= slot->cpu_ns)
		return;
	mark_group(tid);
	sequence = slot->sequence + 1;
	*(volatile __u32 *)&slot->sequence = sequence;
	if (slot->epoch != read_epoch) {
		slot->epoch = read_epoch;
		slot->epoch_cpu_ns = slot->cpu_ns;
	}
	slot->cpu_ns = cpu_ns;
	slot->runnable_ns = BPF_CORE_READ(task, sched_info.run_delay);
	slot->switches_voluntary = BPF_CORE_READ(task, nvcsw);
	slot->switches_involuntary = BPF_CORE_READ(task, nivcsw);
	slot->off_since_ns = 0; /* not known when */
	*(volatile __u32 *)&slot->sequence_end = sequence;
}

/* The CPU went idle unseen after the task that its slot still names: since that task's time ended.
 */
static __always_inline __u64 idle_after(const struct cpu_slot *cpu, __u64 now_ns)
{
	struct task_struct *task = (struct task_struct *)cpu->task;
	__u64 left_ns = BPF_CORE_READ(task, sched_info.last_arrival) +
			BPF_CORE_READ(task, se.sum_exec_runtime) - cpu->in_cpu_ns;

	if ((__u32)BPF_CORE_READ(task, pid) != cpu->tid)
		return 0;
	return now_ns > left_ns ? now_ns - left_ns : 0;
}

/* A thread that calls execve gets the tid and the start time of its leader, but keeps its own sums
 * (de_thread in fs/exec.c): the slots and the reader's ledger follow the task. */
static __noinline void follow_exec(struct task_struct *task, __u32 old_tid, __u32 flags)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct task_slot now = {}, *old, *slot;

	now.start_boot_ns = BPF_CORE_READ(task, start_boottime);
	now.cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	now.runnable_ns = BPF_CORE_READ(task, sched_info.run_delay);
	now.switches_voluntary = BPF_CORE_READ(task, nvcsw);
	now.switches_involuntary = BPF_CORE_READ(task, nivcsw);
	now.tgid = tid;
	now.uid = task_uid(task, false);
	copy_comm(now.comm, task, false);
	report_death(&now, tid, old_tid);
	/* The leader may have died under the old tid already: then that slot is its own. */
	old = known_slot(old_tid);
	if (old && old->start_boot_ns != now.start_boot_ns) {
		now.uninterruptible_ns = old->uninterruptible_ns;
		now.stopped_ns = old->stopped_ns;
		if (use_hash)
			bpf_map_delete_elem(&tasks_hash, &old_tid);
		else
			old->flags = TASK_SLOT_DEAD;
	}
	slot = known_slot(tid);
	if (slot && slot->start_boot_ns == now.start_boot_ns) {
		__u32 sequence = slot->sequence + 1;

		retire_slot(slot);
		mark_group(tid);
		*(volatile __u32 *)&slot->sequence = sequence;
		slot->cpu_ns = now.cpu_ns;
		slot->runnable_ns = now.runnable_ns;
		slot->uninterruptible_ns = now.uninterruptible_ns;
		slot->stopped_ns = now.stopped_ns;
		slot->switches_voluntary = now.switches_voluntary;
		slot->switches_involuntary = now.switches_involuntary;
		slot->off_since_ns = 0;
		slot->off_state = OFF_CPU_RUNNABLE;
		slot->flags = flags;
		slot->epoch = read_epoch;
		slot->epoch_cpu_ns = now.cpu_ns;
		slot->cred = 0;
		*(volatile __u32 *)&slot->sequence_end = sequence;
	}
}

/* Not another task in the memory of one that is gone: a leader now, of whose process the old tid
 * was.
 */
static __always_inline bool was_its_thread(struct task_struct *task, __u32 old_tid)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	const struct task_slot *old = known_slot(old_tid);

	return (__u32)BPF_CORE_READ(task, pid) == tgid && old && old->tgid == tgid;
}

/* The switch that the slot of this CPU waits for was not shown: someone else leaves than came. */
static __always_inline void repair(struct cpu_slot *slot, struct task_struct *prev,
				   struct switch_out *out, bool direct)
{
	__u64 now_ns = rq_clock_of(prev, direct), arrival_ns;

	if (out->tid && slot->tid && slot->task == (__u64)prev && was_its_thread(prev, slot->tid)) {
		follow_exec(prev, slot->tid, TASK_SLOT_FOLLOWED);
		return;
	}
	out->in_cpu_ns = out->tid ? TASK_FIELD(direct, prev, se.sum_exec_runtime) : 0;
	if (!slot->since_ns) /* first sight of this CPU */
		return;
	loss_add(&losses, SCHED_LOSS_MISSED_SWITCH, 1);
	if (slot->tid)
		catch_up(slot);
	if (!out->tid) {
		slot->idle_ns += idle_after(slot, now_ns);
		return;
	}
	/* sched_info_arrive stamped the run-queue clock when prev came. */
	arrival_ns = TASK_FIELD(direct, prev, sched_info.last_arrival);
	if (arrival_ns < slot->since_ns || arrival_ns > now_ns)
		return;
	if (now_ns - arrival_ns < out->in_cpu_ns)
		out->in_cpu_ns -= now_ns - arrival_ns;
	else
		out->in_cpu_ns = 0;
	if (!slot->tid)
		slot->idle_ns += arrival_ns - slot->since_ns;
}

/* A task of the array has its mark in its own slot; the reader cannot write into a hash's. */
static __always_inline __u32 watch_of(__u32 tid)
{
	struct task_slot *slot;
	__u32 *index;

	if (!use_hash) {
		slot = bpf_map_lookup_elem(&tasks, &tid);
		return slot ? slot->watch : 0;
	}
	index = bpf_map_lookup_elem(&looper_watched, &tid);
	return index ? *index + 1 : 0;
}

static __always_inline void watch_switch(struct cpu_slot *cpu, __u32 cpu_id,
					 const struct switch_out *out, struct task_struct *prev,
					 struct task_struct *next, __u32 state_bits, bool direct)
{
	__u32 leaving = use_hash ? watch_of(out->tid) : out->watch;
	__u32 coming = watch_of(TASK_FIELD(direct, next, pid));
	struct looper_switch at;
	struct looper_slot *slot;

	if (!leaving && !coming && !*(__u64 *)cpu->waiters)
		return;
	at.now_ns = bpf_ktime_get_ns();
	if (*(__u64 *)cpu->waiters)
		book_preemptors(cpu, cpu_id, prev, at.now_ns, direct);
	at.state = out->off_state;
	at.state_bits = state_bits;
	at.index = leaving - 1;
	slot = leaving ? bpf_map_lookup_elem(&looper_slots, &at.index) : NULL;
	if (slot && slot->tid == out->tid)
		looper_switch_out(slot, prev, cpu, cpu_id, &at, direct);
	at.index = coming - 1;
	slot = coming ? bpf_map_lookup_elem(&looper_slots, &at.index) : NULL;
	if (slot && slot->tid == (__u32)TASK_FIELD(direct, next, pid))
		looper_switch_in(slot, next, cpu, at.index, at.now_ns, rq_clock_of(prev, direct),
				 direct);
}

static __always_inline int on_switch(bool preempted, struct task_struct *prev,
				     struct task_struct *next, __u32 prev_state, bool direct)
{
	__u32 cpu = bpf_get_smp_processor_id(), next_tid;
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct switch_out out = {};

	if (!slot)
		return 0;
	if (test_skip_every && ++test_skip_count % test_skip_every == 0)
		return 0;
	out.tid = TASK_FIELD(direct, prev, pid);
	out.in_cpu_ns = slot->in_cpu_ns;
	next_tid = TASK_FIELD(direct, next, pid);
	out.off_state = OFF_CPU_RUNNABLE;
	out.watch = 0;
	if (!has_prev_state && out.tid)
		prev_state = task_state(prev, direct);
	if (out.tid)
		out.off_state = off_state_of(prev_state, preempted);

	*(volatile __u32 *)&slot->sequence += 1; /* odd: being written */
	if (unlikely(slot->tid != out.tid || !slot->since_ns))
		repair(slot, prev, &out, direct);
	/* The clock lies three pointers away: it is read only where something is timed by it. */
	if (!out.tid || !next_tid || off_time_counts(out.off_state) || !HAS_RQ_CLOCK) {
		out.now_ns = rq_clock_of(prev, direct);
		if (!out.tid && !slot->tid && slot->since_ns)
			slot->idle_ns += out.now_ns - slot->since_ns;
		slot->since_ns = out.now_ns;
	} else if (unlikely(!slot->since_ns)) {
		slot->since_ns = rq_clock_of(prev, direct);
	}
	slot->tid = next_tid;
	slot->in_cpu_ns = TASK_FIELD(direct, next, se.sum_exec_runtime);
	slot->task = (__u64)next;
	if (HAS_RQ_CLOCK && unlikely(!slot->rq))
		slot->rq =
			(__u64)(direct ? prev->se.cfs_rq->rq : BPF_CORE_READ(prev, se.cfs_rq, rq));
	*(volatile __u32 *)&slot->sequence += 1;

	if (out.tid)
		book_slice(prev, &out, direct);
	if (watch_loopers)
		watch_switch(slot, cpu, &out, prev, next, prev_state, direct);
	return 0;
}

SEC("?tp_btf/sched_switch")
int sched_switch_btf(__u64 *ctx)
{
	return on_switch(ctx[0], (struct task_struct *)ctx[1], (struct task_struct *)ctx[2],
			 has_prev_state ? ctx[3] : 0, true);
}

SEC("?raw_tp/sched_switch")
int sched_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_switch(ctx->args[0], (struct task_struct *)ctx->args[1],
			 (struct task_struct *)ctx->args[2], has_prev_state ? ctx->args[3] : 0,
			 false);
}

/* Names change seldom: here, and not at every switch. Fires before the kernel's own copy. */
static __always_inline int on_rename(struct task_struct *task, const char *comm, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid);
	struct task_slot *slot = known_slot(tid);

	if (slot && slot->start_boot_ns == TASK_FIELD(direct, task, start_boottime))
		bpf_probe_read_kernel_str(slot->comm, SCHED_COMM_LEN, comm);
	return 0;
}

SEC("?tp_btf/task_rename")
int sched_rename_btf(__u64 *ctx)
{
	return on_rename((struct task_struct *)ctx[0], (const char *)ctx[1], true);
}

SEC("?raw_tp/task_rename")
int sched_rename_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_rename((struct task_struct *)ctx->args[0], (const char *)ctx->args[1], false);
}

/* A switch since the change of the tid has told of it already: see repair. */
static __always_inline int on_exec(struct task_struct *task, __u32 old_tid, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid), cpu_id = bpf_get_smp_processor_id();
	struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);
	struct task_slot *slot;

	if (old_tid == tid)
		return 0;
	slot = known_slot(tid);
	if (slot && slot->flags & TASK_SLOT_FOLLOWED) {
		slot->flags &= ~TASK_SLOT_FOLLOWED;
		return 0;
	}
	follow_exec(task, old_tid, 0);
	/* It came to this CPU under the old tid, and must not seem to have left unseen. */
	if (cpu && cpu->tid == old_tid && cpu->task == (__u64)task)
		cpu->tid = tid;
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int sched_exec_btf(__u64 *ctx)
{
	return on_exec((struct task_struct *)ctx[0], ctx[1], true);
}

SEC("?raw_tp/sched_process_exec")
int sched_exec_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_exec((struct task_struct *)ctx->args[0], ctx->args[1], false);
}

/* Without the switch hook (--cpu iter) the dead are reported when the kernel frees them; their sums
 * are final then, some 12 ms of RCU after the last switch. */
static __always_inline int on_free(struct task_struct *task, bool direct)
{
	struct task_slot final = {};

	final.start_boot_ns = TASK_FIELD(direct, task, start_boottime);
	final.cpu_ns = TASK_FIELD(direct, task, se.sum_exec_runtime);
	final.runnable_ns = TASK_FIELD(direct, task, sched_info.run_delay);
	final.switches_voluntary = TASK_FIELD(direct, task, nvcsw);
	final.switches_involuntary = TASK_FIELD(direct, task, nivcsw);
	final.tgid = TASK_FIELD(direct, task, tgid);
	final.uid = task_uid(task, direct);
	copy_comm(final.comm, task, direct);
	/* How much of it a read-out has seen is not known here: an upper bound is counted. */
	if (!report_death(&final, TASK_FIELD(direct, task, pid), 0))
		loss_add(&losses, SCHED_LOSS_UNTOLD_NS, final.cpu_ns);
	return 0;
}

SEC("?tp_btf/sched_process_free")
int sched_free_btf(__u64 *ctx)
{
	return on_free((struct task_struct *)ctx[0], true);
}

SEC("?raw_tp/sched_process_free")
int sched_free_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_free((struct task_struct *)ctx->args[0], false);
}

/* Births against deaths told: a free that the kernel did not show (6.18 loses tracepoints that fire
 * on an idle CPU) is then a counted loss. */
SEC("?tp_btf/sched_process_fork")
int sched_fork_btf(void *ctx)
{
	loss_add(&losses, SCHED_COUNT_BIRTHS, 1);
	return 0;
}

/* The baseline at start, and the whole read-out of --cpu iter. */
SEC("?iter/task")
int sched_iterate(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_line line = {};

	if (!task)
		return 0;
	line.start_boot_ns = task->start_boottime;
	line.cpu_ns = task->se.sum_exec_runtime;
	line.runnable_ns = task->sched_info.run_delay;
	line.switches_voluntary = task->nvcsw;
	line.switches_involuntary = task->nivcsw;
	line.tid = task->pid;
	line.tgid = task->tgid;
	line.uid = task_uid(task, true);
	line.state = off_state_of(task_state(task, true), false);
	line.on_cpu = task->on_cpu;
	/* Amid an execve it may have a tid that the reader knows as another's (follow_exec). */
	if (bpf_core_field_exists(task->in_execve))
		line.in_execve = BPF_CORE_READ_BITFIELD(task, in_execve);
	if (line.on_cpu && HAS_RQ_CLOCK) {
		line.now_ns = bpf_ktime_get_ns();
		line.rq_clock = task->se.cfs_rq->rq->clock;
		line.rq_clock_task = task->se.cfs_rq->rq->clock_task;
		line.exec_start = task->se.exec_start;
	}
	copy_comm(line.comm, task, true);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

/* run-queue clock - CLOCK_MONOTONIC as of the last sched_read_running */
__s64 rq_clock_offset_ns;
__u64 read_mono_ns;

struct live_sum {
	__u64 cpu_ns, exec_start, clock, clock_task;
};

static __always_inline void read_sum(struct task_struct *task, struct rq *rq, struct live_sum *sum)
{
	sum->cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	sum->exec_start = BPF_CORE_READ(task, se.exec_start);
	sum->clock = BPF_CORE_READ(rq, clock);
	sum->clock_task = BPF_CORE_READ(rq, clock_task);
}

/* One CPU's running task, its unfinished slice included. The addresses come from the switch
 * program; they are only read through fault-proof probes, and believed only if no switch came
 * between. */
static __always_inline void read_one(__u32 cpu, __s64 offset_ns)
{
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct running_task *out = bpf_map_lookup_elem(&running, &cpu);
	struct task_struct *task;
	struct live_sum sum, again;
	struct rq *rq;
	__u64 now_ns;
	__u32 sequence;

	if (!slot || !out)
		return;
	out->valid = 0;
	out->unseen_idle_ns = 0;
	sequence = *(volatile __u32 *)&slot->sequence;
	if (sequence & 1)
		return;
	rq = (struct rq *)slot->rq;
	/* The run queue knows better than the last switch that was shown. */
	task = rq ? BPF_CORE_READ(rq, curr) : (struct task_struct *)slot->task;
	if (!task)
		return;
	out->tid = BPF_CORE_READ(task, pid);
	if (!out->tid) {
		if (slot->tid && slot->task)
			out->unseen_idle_ns = idle_after(slot, bpf_ktime_get_ns() + offset_ns);
		return;
	}
	out->tgid = BPF_CORE_READ(task, tgid);
	out->uid = task_uid(task, false);
	out->start_boot_ns = BPF_CORE_READ(task, start_boottime);
	out->runnable_ns = BPF_CORE_READ(task, sched_info.run_delay);
	out->switches_voluntary = BPF_CORE_READ(task, nvcsw);
	out->switches_involuntary = BPF_CORE_READ(task, nivcsw);
	bpf_probe_read_kernel(out->comm, SCHED_COMM_LEN, &task->comm);
	if (rq) {
		read_sum(task, rq, &sum);
		/* The tick may have come between the reads: then they do not belong together. */
		read_sum(task, rq, &again);
		if (again.cpu_ns != sum.cpu_ns)
			read_sum(task, rq, &again);
		now_ns = bpf_ktime_get_ns() + offset_ns;
		if (now_ns > again.clock)
			again.clock_task += now_ns - again.clock;
		if (again.clock_task > again.exec_start)
			again.cpu_ns += again.clock_task - again.exec_start;
		out->cpu_ns = again.cpu_ns;
		if (BPF_CORE_READ(rq, curr) != task)
			return;
	} else {
		out->cpu_ns = slot->in_cpu_ns + (bpf_ktime_get_ns() - slot->since_ns);
	}
	/* Amid an execve that changed its tid the ledger does not know it yet (follow_exec). */
	if (slot->task == (__u64)task && slot->tid != out->tid)
		return;
	if (*(volatile __u32 *)&slot->sequence == sequence)
		out->valid = 1;
}

/* Run by BPF_PROG_TEST_RUN (5.10) at each read-out, after the caller's own run-queue clock was made
 * fresh by clock_gettime(CLOCK_THREAD_CPUTIME_ID). */
SEC("?raw_tp")
int sched_read_running(void *ctx)
{
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();
	__s64 offset_ns = 0;
	__u32 cpu;

	if (HAS_RQ_CLOCK)
		offset_ns = BPF_CORE_READ(self, se.cfs_rq, rq, clock) - bpf_ktime_get_ns();
	rq_clock_offset_ns = offset_ns;
	read_mono_ns = bpf_ktime_get_ns();
	for (cpu = 0; cpu < SCHED_MAX_CPUS; cpu++) {
		if (cpu >= cpu_count)
			break;
		read_one(cpu, offset_ns);
	}
	return 0;
}
