/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The read-out: every task by the iterator, and what runs at this moment. */
#pragma once
#include "sched_cpus.bpf.h"
#include "sched_repair.bpf.h"

/* The baseline at start, and the whole read-out of --cpu iter. */
SEC("?iter/task")
int sched_iterate(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_line line = {};

	if (!task)
		return 0;
	line.start_boot_ns = task->start_boottime;
	line.process_start_boot_ns = task_process_start(task, true);
	read_sums(task, &line.sums, true);
	line.sums.runnable_ns += open_wait_ns(task->sched_info.last_queued, rq_clock_offset_ns);
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
	/* Off its queue it has all its time, though it is on its CPU still (live_sum). */
	line.on_cpu = line.on_cpu && task->on_rq;
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_ASKED);
	__type(key, __u32);
	__type(value, struct asked_task);
} asked SEC(".maps");

__u32 asked_count;

/* The memory of a task that died may be another's: it must be the same task before and behind. */
static __always_inline bool is_still(struct task_struct *task, const struct asked_task *asked)
{
	return BPF_CORE_READ(task, start_boottime) == asked->start_boot_ns &&
	       (__u32)BPF_CORE_READ(task, pid) == asked->tid;
}

/* Kernel threads of some vendors wait for work in state D, for hours: a row in each interval would
 * say nothing. */
static __always_inline bool is_in_d(struct task_struct *task)
{
	return off_state_of(task_state(task, false), false) == OFF_CPU_UNINTERRUPTIBLE &&
	       !(BPF_CORE_READ(task, flags) & PF_KTHREAD_BIT);
}

/* The kernel's sums of a task whose slot names its address. Of one that runs on another CPU they
 * are as of its last tick; sched_read_running tells them exactly. */
ordering_part int read_asked(__u32 index)
{
	struct asked_task *asked_task = bpf_map_lookup_elem(&asked, &index);
	struct task_struct *task;

	if (!asked_task)
		return 0;
	asked_task->valid = 0;
	task = (struct task_struct *)asked_task->task;
	if (!task || !is_still(task, asked_task))
		return 0;
	read_sums(task, &asked_task->sums, false);
	/* Behind the sums: a task that has its slot's uid still had it when they were read, and a
	 * wait that stands now is not in them. */
	order_loads();
	asked_task->queued_ns = BPF_CORE_READ(task, sched_info.last_queued);
	asked_task->uid = task_uid(task, false);
	asked_task->valid = is_still(task, asked_task);
	return 0;
}

/* What else a read-out has to know of a task that was asked for: the wait that is not over, which
 * goes to its sums, and its arrival. A task that waits is asked for by the next read-out again,
 * though it may not switch until then. Global, and taking a number, so that the verifier looks at
 * it once and not 256 times: it charges what it remembers to the recorder's memory (6.18). */
__noinline int look_at_wait(__u32 index)
{
	struct asked_task *asked_task = bpf_map_lookup_elem(&asked, &index);
	struct task_struct *task;
	struct task_slot *slot;
	__u64 wait_ns;
	__u32 tid;

	if (!asked_task || !asked_task->valid)
		return 0;
	task = (struct task_struct *)asked_task->task;
	tid = asked_task->tid;
	asked_task->arrival_ns = BPF_CORE_READ(task, sched_info.last_arrival);
	wait_ns = open_wait_ns(asked_task->queued_ns, rq_clock_offset_ns);
	/* It may have come to its CPU meanwhile: then the kernel has added the wait. */
	if (BPF_CORE_READ(task, sched_info.run_delay) != asked_task->sums.runnable_ns)
		wait_ns = 0;
	asked_task->sums.runnable_ns += wait_ns;
	if (wait_ns || is_in_d(task)) {
		slot = bpf_map_lookup_elem(&tasks, &tid);
		if (slot && slot->task == asked_task->task)
			begin_epoch(slot, tid, asked_task->sums.cpu_ns);
	}
	if (split_time)
		note_time(tid, asked_task->start_boot_ns, asked_task->sums.cpu_ns);
	return 0;
}

/* Run by BPF_PROG_TEST_RUN at each read-out, for the tasks that ran since the last one. */
SEC("?raw_tp")
int sched_read_tasks(void *ctx)
{
	__u32 index;

	for (index = 0; index < SCHED_ASKED; index++) {
		if (index >= asked_count)
			break;
		read_asked(index);
		look_at_wait(index);
	}
	return 0;
}

__u64 read_mono_ns;
/* CONFIG_IRQ_TIME_ACCOUNTING: the kernel times each interrupt, and charges it to no task. */
__u32 times_irqs;

/* One CPU's running task, its unfinished slice included. The addresses come from the switch
 * program; they are only read through fault-proof probes, and believed only if no switch came
 * between. */
static __always_inline void read_one(__u32 cpu, __s64 offset_ns)
{
	struct cpu_slot *slot = bpf_map_lookup_elem(&cpus, &cpu);
	struct running_task *out = bpf_map_lookup_elem(&running, &cpu);
	struct task_struct *task;
	struct rq *rq;
	__u32 sequence;

	if (!slot || !out)
		return;
	out->valid = 0;
	out->unseen_idle_ns = 0;
	sequence = *(volatile __u32 *)&slot->sequence;
	if (sequence & 1)
		return;
	order_loads();
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
	out->process_start_boot_ns = task_process_start(task, false);
	read_sums(task, &out->sums, false);
	bpf_probe_read_kernel(out->comm, SCHED_COMM_LEN, &task->comm);
	out->in_cpu_ns = slot->task == (__u64)task ? slot->in_cpu_ns : 0;
	if (rq) {
		out->sums.cpu_ns = live_sum(task, rq, offset_ns);
		if (BPF_CORE_READ(rq, curr) != task)
			return;
	} else {
		out->sums.cpu_ns = slot->in_cpu_ns + (bpf_ktime_get_ns() - slot->since_ns);
	}
	/* Amid an execve that changed its tid the ledger does not know it yet (follow_exec). */
	if (slot->task == (__u64)task && slot->tid != out->tid)
		return;
	order_loads();
	if (*(volatile __u32 *)&slot->sequence == sequence)
		out->valid = 1;
}

/* CLOCK_MONOTONIC just before the caller had its own run-queue clock made fresh by
 * clock_gettime(CLOCK_THREAD_CPUTIME_ID), and how much later the program may read that clock. */
__u64 rq_clock_asked_ns, rq_clock_late_ns;

/* How far the run queues' clock is from CLOCK_MONOTONIC. Run by BPF_PROG_TEST_RUN (5.10) before
 * each read-out. 1: an interrupt or a pause of the virtual machine came between, by which the clock
 * is too old; the offset stays as it was. */
SEC("?raw_tp")
int sched_read_clock(void *ctx)
{
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();
	__u64 clock_ns, now_ns;

	if (!HAS_RQ_CLOCK)
		return 0;
	clock_ns = BPF_CORE_READ(self, se.cfs_rq, rq, clock);
	now_ns = bpf_ktime_get_ns();
	if (now_ns - rq_clock_asked_ns > rq_clock_late_ns)
		return 1;
	rq_clock_offset_ns = clock_ns - now_ns;
	return 0;
}

/* Run by BPF_PROG_TEST_RUN at each read-out, behind sched_read_clock. */
SEC("?raw_tp")
int sched_read_running(void *ctx)
{
	__s64 offset_ns = rq_clock_offset_ns;
	__u32 cpu;

	times_irqs = bpf_core_field_exists(((struct rq___irq_time *)0)->prev_irq_time);
	read_mono_ns = bpf_ktime_get_ns();
	for (cpu = 0; cpu < SCHED_MAX_CPUS; cpu++) {
		if (cpu >= cpu_count)
			break;
		read_one(cpu, offset_ns);
		read_cpu_state(cpu, read_mono_ns);
	}
	return 0;
}
