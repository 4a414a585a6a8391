/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* CPU time and run-queue wait per task: the kernel's own sums, which put_prev_task brought up to
 * date before the tracepoint fires, so there is no clock call, no atomic and, below pid_max 131072,
 * no hash. They are copied when a task that leaves is first seen to have run since a read-out, and
 * when it dies; those that ran on are asked for by the read-out (sched_read_tasks). */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sched_slot.bpf.h"
#include "flight.bpf.h"
#include "looper_preemptors.bpf.h"
#include "looper_switch.bpf.h"
#include "sched_events.bpf.h"
#include "sched_fast.bpf.h"
#include "sched_names.bpf.h"
#include "sched_read.bpf.h"
#include "sched_repair.bpf.h"
#include "sched_slot.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A task of the array has its mark in its own slot; the reader cannot write into a hash's. */
static __always_inline __u32 watch_of(__u32 tid)
{
	struct task_slot *slot;
	__u32 *index, mark = 0;

	if (!is_hashed(tid)) {
		slot = bpf_map_lookup_elem(&tasks, &tid);
		return slot ? slot->watch : 0;
	}
	if (watch_flight && flight_near_of(tid) && bpf_map_lookup_elem(&flight_watched, &tid))
		mark = FLIGHT_MARK;
	index = bpf_map_lookup_elem(&looper_watched, &tid);
	return index ? mark | (*index + 1) : mark;
}

/* What watch_of says, less the flight recorder's mark. */
static __always_inline __u32 looper_of(__u32 watch)
{
	return watch & (FLIGHT_MARK - 1);
}

static __always_inline __u32 watch_switch(struct cpu_slot *cpu, __u32 cpu_id,
					  const struct switch_out *out, struct task_struct *prev,
					  struct task_struct *next, __u32 state_bits, bool direct)
{
	__u32 leaving = is_hashed(out->tid) ? watch_of(out->tid) : out->watch;
	__u32 coming = watch_of(TASK_FIELD(direct, next, pid));
	struct looper_switch at;
	struct looper_slot *slot;
	__u32 flight = 0;

	if (watch_flight)
		flight = (leaving & FLIGHT_MARK ? FLIGHT_LEAVES : 0) |
			 (coming & FLIGHT_MARK ? FLIGHT_COMES : 0) |
			 (cpu->flight_waits ? FLIGHT_WAITS : 0);
	leaving = looper_of(leaving);
	coming = looper_of(coming);
	if (!leaving && !coming && !cpu->looper_waiting)
		return flight;
	at.now_ns = bpf_ktime_get_ns();
	if (cpu->looper_waiting)
		book_preemptors(cpu_id, at.now_ns);
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
	return flight;
}

/* Fills view, where prev is not idle and loads are not direct. Without a probe read for the tid:
 * the task that came is the one that leaves, under the tid that it came with. Where that is not so
 * (it called execve, or its memory is another task's now) its start time is not the one that this
 * tid's slot has, because de_thread in fs/exec.c changes both at once. */
static __always_inline __u32 tid_of_prev(const struct cpu_slot *cpu, struct task_struct *prev,
					 struct task_view *view, bool direct)
{
	bool came = cpu->task == (__u64)prev && cpu->since_ns;
	struct task_slot *slot;
	__u32 tid;

	if (direct)
		return prev->pid;
	tid = came ? cpu->tid : BPF_CORE_READ(prev, pid);
	if (!tid)
		return 0;
	view_task(prev, view, direct);
	if (!came)
		return tid;
	slot = known_slot(tid);
	if (unlikely(!slot || slot->start_boot_ns != view->start_boot_ns))
		tid = BPF_CORE_READ(prev, pid);
	return tid;
}

static __always_inline void switch_whole(bool preempted, struct task_struct *prev,
					 struct task_struct *next, __u32 prev_state,
					 struct flight_call *flight, bool direct)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct switch_out out;
	/* The verifier of kernels before 6.3 follows the way on which prev is idle, nothing is
	 * viewed and repair() names a task, and refuses words of the stack that were never written.
	 */
	struct task_view view = {};
	struct task_ids coming;

	flight->what = 0;
	if (!slot)
		return;
	out.now_ns = 0;
	out.watch = 0;
	out.slice = slot->sequence;
	out.in_cpu_ns = slot->in_cpu_ns;
	out.tid = tid_of_prev(slot, prev, &view, direct);
	out.off_state = OFF_CPU_RUNNABLE;
	if (!has_prev_state && out.tid)
		prev_state = task_state(prev, direct);
	if (out.tid && !preempted && prev_state)
		out.off_state = blocked_state_of(prev_state);
	read_ids(next, &coming, direct);

	ordered_add(&slot->sequence, 1); /* odd: being written */
	if (unlikely(slot->tid != out.tid || !slot->since_ns))
		repair(slot, prev, &out);
	/* The clock lies three pointers away: it is read only where something is timed by it. */
	if (!out.tid || !coming.tid || !slot->since_ns || off_time_counts(out.off_state) ||
	    !HAS_RQ_CLOCK) {
		out.now_ns = rq_clock_of(prev, direct);
		if (!out.tid && !slot->tid && slot->since_ns)
			slot->idle_ns += out.now_ns - slot->since_ns;
		slot->since_ns = out.now_ns;
		if (HAS_RQ_CLOCK && unlikely(!slot->rq))
			slot->rq = (__u64)BPF_CORE_READ(prev, se.cfs_rq, rq);
	}
	slot->tid = coming.tid;
	slot->tgid = coming.tgid;
	slot->in_cpu_ns = TASK_FIELD(direct, next, se.sum_exec_runtime);
	slot->task = (__u64)next;
	ordered_add(&slot->sequence, 1);

	if (out.tid)
		book_slice(prev, &view, &out, direct);
	if (watch_loopers)
		flight->what = watch_switch(slot, cpu, &out, prev, next, prev_state, direct);
	flight->tid = out.tid;
}

/* ctx: the tracepoint's arguments. One copy of this in each program: behind both ways. */
static __always_inline void switch_flight(__u64 *ctx, const struct flight_call *flight, bool direct)
{
	__u32 cpu_id = bpf_get_smp_processor_id();
	struct cpu_slot *cpu = bpf_map_lookup_elem(&cpus, &cpu_id);
	struct task_struct *prev = (struct task_struct *)ctx[1];

	if (!cpu)
		return;
	flight_switch(cpu, cpu_id, prev, (struct task_struct *)ctx[2], flight,
		      has_prev_state ? ctx[3] : task_state(prev, direct), ctx[0], direct);
}

/* For the compiler these are other arguments: it must not keep those of the fast way in registers
 * for the whole one, whose adds that fetch may not be in a subprogram. */
#define FORGET(ctx) asm volatile("" : "+r"(ctx))

SEC("?tp_btf/sched_switch")
int sched_switch_btf(__u64 *ctx)
{
	struct flight_call flight = {};

	if (!switch_fast(ctx, &flight, true)) {
		FORGET(ctx);
		switch_whole(ctx[0], (struct task_struct *)ctx[1], (struct task_struct *)ctx[2],
			     has_prev_state ? ctx[3] : 0, &flight, true);
	}
	if (watch_flight && flight.what)
		switch_flight(ctx, &flight, true);
	return 0;
}

SEC("?raw_tp/sched_switch")
int sched_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	struct flight_call flight = {};

	if (!switch_fast(ctx->args, &flight, false)) {
		FORGET(ctx);
		switch_whole(ctx->args[0], (struct task_struct *)ctx->args[1],
			     (struct task_struct *)ctx->args[2], has_prev_state ? ctx->args[3] : 0,
			     &flight, false);
	}
	if (watch_flight && flight.what)
		switch_flight(ctx->args, &flight, false);
	return 0;
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
	struct task_slot *slot, now = {};

	/* Its name is another one from here on. */
	now.start_boot_ns = BPF_CORE_READ(task, start_boottime);
	now.process_start_boot_ns = now.start_boot_ns; /* a leader, or one now */
	now.tgid = tid;
	copy_comm(now.comm, task, false);
	if (!tell(&now, tid, 0, TASK_NOTE_EXEC))
		loss_add(&losses, SCHED_LOSS_EXEC_UNTOLD, 1);
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
	/* The leader of this thread may be freed already, so its start is not read here: userspace
	 * has it from the thread's earlier reports. */
	if (TASK_FIELD(direct, task, pid) == TASK_FIELD(direct, task, tgid))
		final.process_start_boot_ns = final.start_boot_ns;
	read_sums(task, &final.sums, direct);
	final.tgid = TASK_FIELD(direct, task, tgid);
	final.uid = task_uid(task, direct);
	copy_comm(final.comm, task, direct);
	/* How much of it a read-out has seen is not known here: an upper bound is counted. */
	if (!report_death(&final, TASK_FIELD(direct, task, pid), 0))
		loss_add(&losses, SCHED_LOSS_UNTOLD_NS, final.sums.cpu_ns);
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

/* Births are counted of tasks that started at or after this moment; what is older the reader's
 * first walk has counted. */
__u64 births_from_boot_ns;

/* Births against deaths told: a free that the kernel did not show (bpf/README.md) is then a counted
 * loss. */
SEC("?tp_btf/sched_process_fork")
int sched_fork_btf(__u64 *ctx)
{
	if (((struct task_struct *)ctx[1])->start_boottime >= births_from_boot_ns)
		loss_add(&losses, SCHED_COUNT_BIRTHS, 1);
	return 0;
}
