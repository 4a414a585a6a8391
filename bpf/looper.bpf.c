/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* When a watched main thread enters and leaves its epoll wait, and who wakes it. What happens in
 * between is the switch program's, in looper_switch.bpf.h. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "looper_period.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* x86 before bcf9033e5449 (5.16) kept the CPU in the task itself */
struct task_struct___before_5_16 {
	unsigned int cpu;
} __attribute__((preserve_access_index));

#define PF_KTHREAD_BIT    0x00200000
#define IN_INTERRUPT_BITS 0x00ff0100 /* NMI, hard and soft interrupt: include/linux/preempt.h */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SCHED_MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_slot);
} cpus SEC(".maps");

/* Only the main thread's waits count, and the probes sit in a library that all threads call. */
static __always_inline struct looper_slot *current_looper(__u32 *index)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)ids, *found;

	if (tid != ids >> 32)
		return NULL;
	found = bpf_map_lookup_elem(&looper_watched, &tid);
	if (!found)
		return NULL;
	*index = *found;
	return bpf_map_lookup_elem(&looper_slots, found);
}

/* At the begin of the C library's stub: the messages are done. */
SEC("?uprobe/enter")
int looper_enter(struct pt_regs *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 index;
	struct looper_slot *slot = current_looper(&index);

	if (!slot)
		return 0;
	looper_came(slot, index, (struct task_struct *)bpf_get_current_task(), now_ns);
	book_unseen_wait(slot, (struct task_struct *)bpf_get_current_task());
	looper_enter_wait(slot, index, (struct task_struct *)bpf_get_current_task(),
			  (__s32)PT_REGS_PARM1(ctx), now_ns, 0);
	return 0;
}

/* Behind its system call instruction: work begins. */
SEC("?uprobe/leave")
int looper_leave(struct pt_regs *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 index;
	struct looper_slot *slot = current_looper(&index);

	/* -1: it was in the wait before we came, or the switch has seen it leave. */
	if (!slot || slot->polling < 0)
		return 0;
	looper_came(slot, index, (struct task_struct *)bpf_get_current_task(), now_ns);
	looper_leave_wait(slot, index, (struct task_struct *)bpf_get_current_task(), now_ns, false);
	return 0;
}

/* Without uprobes: every system call of every task passes here, so epoll is asked for first. A wait
 * that does not sleep has no other end than its begin; one that sleeps ends at the switch-in. */
static __always_inline int on_sys_enter(struct pt_regs *registers, long nr)
{
	__u64 now_ns;
	struct looper_slot *slot;
	__u32 index;

	if (!is_epoll_wait(nr))
		return 0;
	slot = current_looper(&index);
	if (!slot || slot->detector != LOOPER_BY_SYSCALL)
		return 0;
	now_ns = bpf_ktime_get_ns();
	looper_came(slot, index, (struct task_struct *)bpf_get_current_task(), now_ns);
	book_unseen_wait(slot, (struct task_struct *)bpf_get_current_task());
	looper_enter_wait(slot, index, (struct task_struct *)bpf_get_current_task(),
			  (__s32)PT_REGS_PARM1_CORE_SYSCALL(registers), now_ns, 0);
	looper_leave_wait(slot, index, (struct task_struct *)bpf_get_current_task(), now_ns, false);
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

/* A wake-up out of an interrupt (a timer, a packet) happens to whoever runs: it is no waker's. */
static __always_inline bool in_interrupt(bool direct)
{
#ifdef __TARGET_ARCH_x86
	/* Its preempt_count is a variable that kernels without KALLSYMS_ALL do not name. But who
	 * wakes somebody does it in a system call, or is a kernel thread. */
	struct task_struct *self;
	struct pt_regs *registers;

	if (!direct || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return false;
	self = bpf_get_current_task_btf();
	if (self->flags & PF_KTHREAD_BIT)
		return !self->pid;
	registers = (struct pt_regs *)bpf_task_pt_regs(self);
	return (__s64)BPF_CORE_READ(registers, orig_ax) < 0;
#else
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();

	return BPF_CORE_READ(self, thread_info.preempt.count) & IN_INTERRUPT_BITS;
#endif
}

/* In the waker's context. */
static __always_inline int on_waking(struct task_struct *task, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid);
	struct looper_slot *slot;
	__u64 ids;

	if (tid != (__u32)TASK_FIELD(direct, task, tgid))
		return 0;
	slot = looper_find(tid);
	if (!slot || slot->on_cpu)
		return 0;
	if (in_interrupt(direct)) {
		slot->waker_tid = 0;
		slot->woken_ns = bpf_ktime_get_ns();
		return 0;
	}
	ids = bpf_get_current_pid_tgid();
	slot->waker_tid = (__u32)ids;
	slot->waker_tgid = ids >> 32;
	bpf_get_current_comm(slot->waker_comm, LOOPER_COMM_LEN);
	slot->woken_ns = bpf_ktime_get_ns();
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

/* It has a run queue now: who runs there runs in its place. */
static __always_inline int on_wakeup(struct task_struct *task, bool direct)
{
	__u32 tid = TASK_FIELD(direct, task, pid), cpu, *index;
	struct looper_slot *slot;
	struct cpu_slot *place;

	if (tid != (__u32)TASK_FIELD(direct, task, tgid))
		return 0;
	index = bpf_map_lookup_elem(&looper_watched, &tid);
	slot = index ? bpf_map_lookup_elem(&looper_slots, index) : NULL;
	if (!slot || slot->on_cpu)
		return 0;
	if (bpf_core_field_exists(task->thread_info.cpu))
		cpu = TASK_FIELD(direct, task, thread_info.cpu);
	else
		cpu = BPF_CORE_READ((struct task_struct___before_5_16 *)task, cpu);
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
