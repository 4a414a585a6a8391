/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* When a watched thread enters and leaves its loop's wait, who wakes it, and its registers without
 * a stop. What happens in between is the switch program's, in looper_switch.bpf.h. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "flight_maps.bpf.h"
#include "looper_locks.bpf.h"
#include "looper_period.bpf.h"
#include "looper_registers.bpf.h"
#include "looper_waker.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* x86 before bcf9033e5449 (5.16) kept the CPU in the task itself */
struct task_struct___before_5_16 {
	unsigned int cpu;
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

/* Threads beside main threads are watched: without them a look at the ids saves the look-up. */
__u32 any_thread;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct looper_own);
} looper_own SEC(".maps");

/* The probes sit in a library that all threads call. */
static __always_inline struct looper_slot *current_looper(__u32 *index)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)ids, *found;

	if (tid != ids >> 32 && !any_thread)
		return NULL;
	found = bpf_map_lookup_elem(&looper_watched, &tid);
	if (!found)
		return NULL;
	*index = *found;
	return bpf_map_lookup_elem(&looper_slots, found);
}

/* A thread that is not watched waits in an epoll: where that is what the main thread of its process
 * loops in, it is nobody's loop, because who comes next serves it. User space, which asks now and
 * then who waits there, would miss threads that wait for moments. */
static __always_inline void other_waits(__u32 kind, __s32 fd)
{
	__u64 ids = bpf_get_current_pid_tgid();
	struct looper_slot *slot;

	if (kind != LOOPER_WAIT_EPOLL || (__u32)ids == ids >> 32)
		return;
	slot = looper_find(ids >> 32);
	/* One whole store, as include/abi/looper.h says of this word. */
	if (slot && slot->loop_kind == LOOPER_WAIT_EPOLL && slot->loop_fd == fd)
		*(volatile __u32 *)&slot->shared = (__u32)fd + 1;
}

/* At the begin of the C library's stub: the messages are done. The clock is read behind
 * looper_begin: what the thread is preempted for from there on is made good at its next switch-out.
 */
static __always_inline int enter_probed(struct pt_regs *ctx, __u32 kind, __s32 fd)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct wait wait = {.kind = kind, .fd = fd, .way = LOOPER_WAY_PROBE};
	struct looper_slot *slot;
	__u64 now_ns;
	__u32 index;

	slot = current_looper(&index);
	if (!slot)
		other_waits(kind, fd);
	if (!slot || slot->detector != LOOPER_BY_UPROBE)
		return 0;
	wait.stack = PT_REGS_SP(ctx);
	looper_begin(slot);
	now_ns = bpf_ktime_get_ns();
	looper_came(slot, index, task, now_ns);
	/* Its end was not seen: a signal handler of the wait waits itself. */
	if (slot->waiting_kind)
		looper_leave_wait(slot, index, task, now_ns, true);
	book_unseen_wait(slot, task);
	looper_enter_wait(slot, index, task, &wait, now_ns, 0, LOOPER_SEEN_BY_PROBE);
	looper_end(slot);
	return 0;
}

SEC("?uprobe/epoll")
int looper_enter_epoll(struct pt_regs *ctx)
{
	return enter_probed(ctx, LOOPER_WAIT_EPOLL, (__s32)PT_REGS_PARM1(ctx));
}

/* poll(fds, count, timeout), ppoll(fds, count, timeout, mask): without descriptors a sleep. */
SEC("?uprobe/poll")
int looper_enter_poll(struct pt_regs *ctx)
{
	return (__u32)PT_REGS_PARM2(ctx) ? enter_probed(ctx, LOOPER_WAIT_POLL, -1) : 0;
}

/* select(count, ...), pselect(count, ...) */
SEC("?uprobe/select")
int looper_enter_select(struct pt_regs *ctx)
{
	return (__s32)PT_REGS_PARM1(ctx) > 0 ? enter_probed(ctx, LOOPER_WAIT_SELECT, -1) : 0;
}

/* Behind each of their system call instructions: work begins. */
SEC("?uprobe/leave")
int looper_leave(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct looper_slot *slot;
	__u64 now_ns;
	__u32 index;

	slot = current_looper(&index);
	/* Not waiting: the watch began behind the wait, or the switch saw the thread leave it, or
	 * it was no wait. */
	if (!slot || slot->waiting_seen_by != LOOPER_SEEN_BY_PROBE)
		return 0;
	looper_begin(slot);
	now_ns = bpf_ktime_get_ns();
	looper_came(slot, index, task, now_ns);
	looper_leave_wait(slot, index, task, now_ns, false);
	looper_end(slot);
	looper_wake(slot, index);
	return 0;
}

/* Without uprobes: every system call of every task passes here, so the number is asked for first. A
 * wait that does not sleep has no other end than its begin; one that sleeps ends at the switch-in.
 */
static __always_inline int on_sys_enter(struct pt_regs *registers, long nr)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct looper_slot *slot;
	struct wait wait;
	__u64 now_ns;
	__u32 index;

	if (nr != NR_EPOLL_WAIT && nr != NR_EPOLL_PWAIT && nr != NR_EPOLL_PWAIT2 && nr != NR_POLL &&
	    nr != NR_PPOLL && nr != NR_SELECT && nr != NR_PSELECT6 && nr != NR_IO_URING_ENTER)
		return 0;
	slot = current_looper(&index);
	if (slot && slot->detector != LOOPER_BY_SYSCALL)
		return 0;
	if (!wait_of_call(nr, PT_REGS_PARM1_CORE_SYSCALL(registers),
			  PT_REGS_PARM2_CORE_SYSCALL(registers),
			  PT_REGS_PARM3_CORE_SYSCALL(registers),
			  PT_REGS_PARM4_CORE_SYSCALL(registers), &wait))
		return 0;
	if (!slot) {
		other_waits(wait.kind, wait.fd);
		return 0;
	}
	wait.stack = PT_REGS_SP_CORE(registers);
	wait.way = LOOPER_WAY_CALL;
	looper_begin(slot);
	now_ns = bpf_ktime_get_ns();
	looper_came(slot, index, task, now_ns);
	book_unseen_wait(slot, task);
	looper_enter_wait(slot, index, task, &wait, now_ns, 0, LOOPER_SEEN_BY_SWITCH);
	slot->called = 1;
	slot->called_own = slot->waiting_own;
	looper_leave_wait(slot, index, task, now_ns, false);
	looper_end(slot);
	looper_wake(slot, index);
	return 0;
}

SEC("?tp_btf/sys_enter")
int looper_sys_enter_btf(__u64 *ctx)
{
	return on_sys_enter((struct pt_regs *)ctx[0], (long)ctx[1]);
}

SEC("?raw_tp/sys_enter")
int looper_sys_enter_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_sys_enter((struct pt_regs *)ctx->args[0], (long)ctx->args[1]);
}

/* The sampler starts the workers that hold stops when it needs them, and the recorder hears of each
 * only after the first stop: a child of one of its processes is its own as well. */
static __always_inline bool is_own(__u32 tgid, struct task_struct *self)
{
	__u32 zero = 0, parent = BPF_CORE_READ(self, real_parent, tgid);
	struct looper_own *own = bpf_map_lookup_elem(&looper_own, &zero);

	if (!own)
		return false;
	for (int i = 0; i < LOOPER_OWN_PROCESSES; i++)
		if (own->tgids[i] && (own->tgids[i] == tgid || own->tgids[i] == parent))
			return true;
	return false;
}

/* Who wakes a thread of the flight recorder; in the waker's context. One that is on its CPU yet has
 * not slept so far, or its switch-out is about to be told: then its queueing is what counts. */
static __always_inline void flight_waking(__u32 tid, bool direct)
{
	struct flight_thread *thread;
	struct task_struct *self;
	__u32 index;
	__u64 ids;

	thread = flight_of(tid, &index);
	if (!thread || thread->state != FLIGHT_OFF || thread->off_state == OFF_CPU_RUNNABLE)
		return;
	self = (struct task_struct *)bpf_get_current_task();
	ids = bpf_get_current_pid_tgid();
	if (in_interrupt(self, direct) || is_own(ids >> 32, self)) {
		thread->waker_tid = thread->waker_tgid = 0;
		thread->waker_comm[0] = 0;
	} else {
		thread->waker_tid = (__u32)ids;
		thread->waker_tgid = ids >> 32;
		bpf_get_current_comm(thread->waker_comm, FLIGHT_COMM_LEN);
	}
	*(volatile __u64 *)&thread->woken_ns = bpf_ktime_get_ns();
}

/* In the waker's context. */
static __always_inline int on_waking(struct task_struct *task, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid), *index;
	struct task_struct *self;
	struct looper_slot *slot;
	__u64 ids, now_ns;

	flight_waking(tid, direct);
	if (!any_thread && tid != (__u32)TASK_FIELD(direct, task, tgid))
		return 0;
	index = bpf_map_lookup_elem(&looper_watched, &tid);
	slot = index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
	if (!slot || slot->on_cpu)
		return 0;
	ids = bpf_get_current_pid_tgid();
	self = (struct task_struct *)bpf_get_current_task();
	now_ns = bpf_ktime_get_ns();
	slot->woken_ns = now_ns;
	/* The recorder's own doing (a stop, a probe) is nobody's in the target. */
	if (in_interrupt(self, direct) || is_own(ids >> 32, self)) {
		slot->waker_tid = 0;
		return 0;
	}
	slot->waker_tid = (__u32)ids;
	slot->waker_tgid = ids >> 32;
	bpf_get_current_comm(slot->waker_comm, LOOPER_COMM_LEN);
	tell_waker(slot, *index, self, now_ns, direct);
	return 0;
}

SEC("?tp_btf/sched_waking")
int looper_waking_btf(__u64 *ctx)
{
	return on_waking((struct task_struct *)ctx[0], true);
}

SEC("?raw_tp/sched_waking")
int looper_waking_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_waking((struct task_struct *)ctx->args[0], false);
}

static __always_inline __u32 cpu_of(struct task_struct *task, bool direct)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return TASK_FIELD(direct, task, thread_info.cpu);
	return BPF_CORE_READ((struct task_struct___before_5_16 *)task, cpu);
}

static __always_inline void flight_wakeup(struct task_struct *task, __u32 tid, bool direct)
{
	struct flight_thread *thread;
	struct cpu_slot *place;
	__u32 index, cpu;

	thread = flight_of(tid, &index);
	if (!thread || thread->state != FLIGHT_OFF)
		return;
	cpu = cpu_of(task, direct);
	place = bpf_map_lookup_elem(&cpus, &cpu);
	if (place)
		flight_wait_for(thread, place, cpu, index, bpf_ktime_get_ns());
}

/* It has a run queue now: who runs there runs in its place. */
static __always_inline int on_wakeup(struct task_struct *task, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid), cpu, *index;
	struct looper_slot *slot;
	struct cpu_slot *place;

	flight_wakeup(task, tid, direct);
	if (!any_thread && tid != (__u32)TASK_FIELD(direct, task, tgid))
		return 0;
	index = bpf_map_lookup_elem(&looper_watched, &tid);
	slot = index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
	if (!slot || slot->on_cpu)
		return 0;
	cpu = cpu_of(task, direct);
	place = bpf_map_lookup_elem(&cpus, &cpu);
	if (!place)
		return 0;
	looper_wait_for(slot, place, cpu, *index, bpf_ktime_get_ns());
	return 0;
}

SEC("?tp_btf/sched_wakeup")
int looper_wakeup_btf(__u64 *ctx)
{
	return on_wakeup((struct task_struct *)ctx[0], true);
}

SEC("?raw_tp/sched_wakeup")
int looper_wakeup_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_wakeup((struct task_struct *)ctx->args[0], false);
}

/* Another program now: its stack, its descriptors and its loop are others. A block of the former
 * one ends with it. In the execve itself, so the slot is not amid another program of this thread's.
 */
static __always_inline int on_exec(struct task_struct *task, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid), *index;
	struct looper_slot *slot;
	__u64 now_ns;
	bool other;

	index = bpf_map_lookup_elem(&looper_watched, &tid);
	slot = index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
	if (!slot)
		return 0;
	looper_begin(slot);
	now_ns = bpf_ktime_get_ns();
	other = slot->dead || (slot->task && slot->task != (__u64)task);
	if (other)
		leave_to(slot, task);
	/* What may have been told as open (blocks_is_loop in user space) has its end told. */
	if (looper_is_loop(slot) || has_descriptor(slot->loop_kind))
		looper_close(slot, *index, task, now_ns, LOOPER_EVENT_EXITED);
	slot->loop_kind = LOOPER_WAIT_NONE;
	slot->loop_fd = -1;
	slot->loop_waits = 0;
	slot->loop_counter = 0;
	slot->shared = 0;
	slot->loop_stack[LOOPER_WAY_PROBE] = slot->loop_stack[LOOPER_WAY_CALL] = 0;
	slot->loop_how = LOOPER_LOOP_EXEC;
	slot->loop_changes++;
	slot->waiting_kind = LOOPER_WAIT_NONE;
	slot->waiting_fd = -1;
	slot->waiting_seen_by = LOOPER_SEEN_NOT;
	slot->waiting_own = 0;
	slot->called = 0;
	forget_nested(slot);
	for (int i = 0; i < LOOPER_PROBED_RETURNS; i++)
		slot->probed_return[i] = 0;
	tell_loop(slot, *index, now_ns);
	slot->loop_how = LOOPER_LOOP_CANDIDATE;
	if (other)
		take_place(slot, task, now_ns);
	start_period(slot, task, now_ns, false);
	looper_end(slot);
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int looper_exec_btf(__u64 *ctx)
{
	return on_exec((struct task_struct *)ctx[0], true);
}

SEC("?raw_tp/sched_process_exec")
int looper_exec_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_exec((struct task_struct *)ctx->args[0], false);
}
