/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the switch program does for watched threads: spells off the CPU by state and reason,
 * the registers at switch-out, waits that nothing else told of. */
#pragma once
#include <bpf/bpf_tracing.h>
#include "looper_period.bpf.h"
#include "looper_words.bpf.h"
#include "abi/syscall_reason.h"

/* Where struct pt_regs lies above task->stack; 0: the helper knows (5.15). Measured at the start by
 * looper_calibrate for kernels without it. */
__u64 pt_regs_offset;

#define PF_FROZEN_BIT          0x00010000 /* until f5d39b020809 (6.1) */
#define JOBCTL_TRAP_FREEZE_BIT (1ul << 23)
/* e1fad12dcb66 (6.18): a cgroup without quota throttles its tasks one by one */
struct task_struct___since_6_18 {
	bool throttled;
} __attribute__((preserve_access_index));

static __always_inline void *task_registers(struct task_struct *task, bool direct)
{
	if (direct && bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (void *)bpf_task_pt_regs(task);
	return (void *)((__u64)BPF_CORE_READ(task, stack) + pt_regs_offset);
}

static __always_inline bool is_throttled(struct task_struct *task, bool direct)
{
	struct task_struct___since_6_18 *new = (void *)task;

	if (bpf_core_field_exists(new->throttled))
		return direct ? new->throttled : BPF_CORE_READ(new, throttled);
	return false;
}

static __always_inline __u32 spell_reason(const struct looper_slot *slot, struct task_struct *task,
					  __u32 state, bool direct)
{
	if (state == OFF_CPU_RUNNABLE && is_throttled(task, direct))
		return LOOPER_REASON_THROTTLED;
	return reason_of_sleep(state, slot->syscall_nr, (__u32)slot->arguments[1]);
}

/* Freezers of cgroup v1, of v2 and of the system each park a task in another state: the
 * refrigerator of before 6.1 sets PF_FROZEN and TASK_UNINTERRUPTIBLE, the trap of v2 sleeps
 * interruptibly. */
static __always_inline bool is_frozen(struct task_struct *task, __u32 state_bits, bool direct)
{
	if (state_bits & TASK_FROZEN_BIT)
		return true;
	if (state_bits & TASK_UNINTERRUPTIBLE_BIT)
		return TASK_FIELD(direct, task, flags) & PF_FROZEN_BIT;
	return TASK_FIELD(direct, task, jobctl) & JOBCTL_TRAP_FREEZE_BIT;
}

/* It went and came without a switch that was shown: the kernel's sums say how long it was away. */
static __always_inline void book_unseen(struct looper_slot *slot, __u32 index, __u64 now_ns,
					__u64 cpu_ns, __u64 wait_ns)
{
	__u64 ran_ns = cpu_ns - slot->in_cpu_ns, passed_ns = now_ns - slot->in_ns;
	__u64 before_ns = slot->sums.reason_ns[LOOPER_REASON_UNSEEN];

	looper_loss(LOOPER_LOSS_MISSED_SWITCH);
	if (passed_ns <= ran_ns)
		return;
	/* It was on a run queue when the watch began, so on_cpu was a guess, and the part of its
	 * wait that lies before was taken for sleep (looper_slot_fill). */
	if (!slot->spell && wait_ns > passed_ns - ran_ns) {
		if (before_ns > wait_ns - (passed_ns - ran_ns))
			before_ns = wait_ns - (passed_ns - ran_ns);
		if (before_ns > slot->sums.sleeping_ns)
			before_ns = slot->sums.sleeping_ns;
		slot->sums.reason_ns[LOOPER_REASON_UNSEEN] -= before_ns;
		slot->sums.sleeping_ns -= before_ns;
		slot->sums.runnable_ns += before_ns;
	}
	slot->off_ns = now_ns - (passed_ns - ran_ns);
	slot->off_state = OFF_CPU_SLEEPING;
	slot->reason = LOOPER_REASON_UNSEEN;
	slot->syscall_nr = -1;
	slot->woken_ns = 0;
	book_spell(slot, index, now_ns, wait_ns);
}

struct looper_switch {
	__u32 index, state, state_bits;
	__u64 now_ns;
};

/* Even: the words are to be believed. Only the switch program writes it, for a thread that is on
 * this CPU: so it is read without more ado. */
static __always_inline void make_odd(struct looper_registers *stash)
{
	if (!(stash->sequence & 1))
		fetch_add(&stash->sequence, 1);
}

/* True: the stash has the registers of prev. */
static __always_inline bool store_registers(struct looper_slot *slot, struct task_struct *prev,
					    const struct looper_switch *at, bool direct)
{
	struct looper_registers *stash = bpf_map_lookup_elem(&looper_stash, &at->index);
	void *registers = task_registers(prev, direct);

	if (!stash)
		return false;
	/* Odd already, unless its coming was not seen. */
	make_odd(stash);
	if (bpf_probe_read_kernel(stash->words, REGISTER_WORDS * 8, registers))
		return false;
#ifndef __TARGET_ARCH_x86
	stash->words[WORD_SYSCALL] = (__s64)(__s32)stash->words[WORD_SYSCALL];
#endif
	stash->switched_out_mono_ns = at->now_ns;
	stash->tid = slot->tid;
	stash->tgid = slot->tgid;
	fetch_add(&stash->sequence, 1);
	return true;
}

/* Which system call the thread sleeps in, from its registers. A timed wait that a stop or the
 * freezer interrupted goes on as restart_syscall, with the arguments of the one that is meant. */
static __always_inline void take_call(struct looper_slot *slot, const struct looper_switch *at)
{
	struct looper_registers *stash = bpf_map_lookup_elem(&looper_stash, &at->index);
	__s32 before = slot->syscall_nr, nr = -1;

	if (!stash)
		return;
#ifdef __TARGET_ARCH_x86
	if (stash->words[17] != USER_CS_COMPAT)
#endif
		nr = (__s32)stash->words[WORD_SYSCALL];
	slot->syscall_nr = nr;
	if (nr == NR_RESTART_SYSCALL && slot->last_nr >= 0)
		slot->syscall_nr = slot->last_nr;
	else if (nr >= 0)
		slot->last_nr = nr;
	else if (before >= 0)
		slot->last_nr = before;
	slot->arguments[0] = stash->words[WORD_ARGUMENT_0];
	slot->arguments[1] = stash->words[WORD_ARGUMENT_1];
	slot->arguments[2] = stash->words[WORD_ARGUMENT_2];
	slot->arguments[3] = stash->words[WORD_ARGUMENT_3];
	slot->program_counter = stash->words[WORD_PROGRAM_COUNTER];
	slot->stack_pointer = stash->words[WORD_STACK_POINTER];
}

static __always_inline bool is_probed(const struct looper_slot *slot)
{
	for (int i = 0; i < LOOPER_PROBED_RETURNS; i++)
		if (slot->probed_return[i] && slot->probed_return[i] == slot->program_counter)
			return true;
	return false;
}

/* The thread goes to sleep in a system call: is it a wait that no probe and no sys_enter told of?
 * (The only way of the switch detector, the net of the others.) */
static __always_inline void enter_by_switch(struct looper_slot *slot, struct task_struct *prev,
					    const struct looper_switch *at)
{
	struct wait wait;
	bool is_wait;

	/* A page fault in the stub, on the way to or from the call, is neither. */
	if (at->state != OFF_CPU_SLEEPING || slot->syscall_nr < 0)
		return;
	is_wait = wait_of_call(slot->syscall_nr, slot->arguments[0], slot->arguments[1],
			       slot->arguments[2], slot->arguments[3], &wait);
	wait.stack = slot->stack_pointer;
	wait.way = LOOPER_WAY_CALL;
	if (slot->waiting_kind && is_wait && slot->waiting_kind == wait.kind &&
	    slot->waiting_fd == wait.fd) {
		/* It is the one that was seen to begin; its depth is known in both ways now. */
		slot->waiting_stack[LOOPER_WAY_CALL] = wait.stack;
		if (slot->waiting_own) {
			slot->loop_stack[LOOPER_WAY_CALL] = wait.stack;
			slot->loop_counter = slot->program_counter;
		}
		return;
	}
	if (slot->waiting_kind) {
		/* Its end was not seen: a signal handler runs, or it was left by a long jump. */
		looper_loss(LOOPER_LOSS_MISSED_EXIT);
		looper_leave_wait(slot, at->index, prev, slot->in_ns, true);
		slot->estimated = 1;
	}
	if (!is_wait)
		return;
	if (slot->called) {
		/* sys_enter counted this one, which may sleep several times. */
		slot->waiting_kind = wait.kind;
		slot->waiting_fd = wait.fd;
		slot->waiting_stack[LOOPER_WAY_CALL] = wait.stack;
		slot->waiting_seen_by = LOOPER_SEEN_BY_SWITCH;
		slot->waiting_own = slot->called_own;
		/* What the thread waited for a CPU on the way to sleep is no message. */
		if (slot->called_own) {
			slot->busy_since_ns = slot->merged = 0;
			slot->loop_counter = slot->program_counter;
		}
		return;
	}
	if (slot->detector == LOOPER_BY_UPROBE && is_probed(slot))
		looper_loss(LOOPER_LOSS_MISSED_ENTRY);
	looper_enter_wait(slot, at->index, prev, &wait, at->now_ns, LOOPER_EVENT_MERGED,
			  LOOPER_SEEN_BY_SWITCH);
	if (slot->waiting_own)
		slot->loop_counter = slot->program_counter;
}

/* Between the change of its tid and the tracepoint of the exec it may be preempted: the switch
 * meets another task than the slot's, and the leader's period ends there. */
static __noinline int looper_replace(struct looper_slot *slot, __u32 index,
				     struct task_struct *task, __u64 now_ns)
{
	leave_to(slot, task);
	looper_close(slot, index, task, now_ns, LOOPER_EVENT_EXITED);
	slot->waiting_kind = LOOPER_WAIT_NONE;
	slot->waiting_seen_by = LOOPER_SEEN_NOT;
	take_place(slot, task, now_ns);
	return 0;
}

static __always_inline bool looper_is_other(const struct looper_slot *slot,
					    const struct task_struct *task)
{
	return slot->task && slot->task != (__u64)task && !slot->dead;
}

static __always_inline void looper_switch_out(struct looper_slot *slot, struct task_struct *prev,
					      struct cpu_slot *cpu, __u32 cpu_id,
					      struct looper_switch *at, bool direct)
{
	__u64 cpu_ns = TASK_FIELD(direct, prev, se.sum_exec_runtime);
	__u64 delay_ns = TASK_FIELD(direct, prev, sched_info.run_delay);
	__u64 switches = TASK_FIELD(direct, prev, nvcsw) + TASK_FIELD(direct, prev, nivcsw);

	bool stored;

	/* These are the switch program's alone, so they are kept amid a probe's program too. */
	slot->out_arrivals = TASK_FIELD(direct, prev, sched_info.pcount);
	stored = store_registers(slot, prev, at, direct);
	if (looper_is_amid(slot))
		return;
	looper_begin(slot);
	if (looper_is_other(slot, prev))
		looper_replace(slot, at->index, prev, at->now_ns);
	if (is_frozen(prev, at->state_bits, direct))
		at->state = OFF_CPU_STOPPED;
	if (!slot->on_cpu && slot->off_ns) {
		/* Its coming was not shown. It came when its time began to count. */
		__u64 ran_ns = cpu_ns - slot->out_cpu_ns;
		__u64 in_ns = at->now_ns > ran_ns ? at->now_ns - ran_ns : 0;

		looper_loss(LOOPER_LOSS_MISSED_SWITCH);
		if (in_ns > slot->off_ns)
			book_spell(slot, at->index, in_ns, delay_ns - slot->out_delay_ns);
		slot->on_cpu = 1;
		slot->in_ns = in_ns;
		slot->in_cpu_ns = slot->out_cpu_ns;
		/* And so was its leaving the wait, which the switch alone tells. */
		if (slot->waiting_seen_by == LOOPER_SEEN_BY_SWITCH) {
			looper_leave_wait(slot, at->index, prev, in_ns,
					  slot->detector != LOOPER_BY_SYSCALL);
			slot->estimated = 1;
		}
	} else if (slot->on_cpu && switches > slot->out_switches + 1) {
		book_unseen(slot, at->index, at->now_ns, cpu_ns, delay_ns - slot->out_delay_ns);
	}
	slot->on_cpu = 0;
	slot->task = (__u64)prev;
	slot->off_ns = at->now_ns;
	slot->off_state = at->state;
	slot->out_cpu_ns = cpu_ns;
	slot->out_delay_ns = delay_ns;
	slot->out_switches = switches;
	slot->woken_ns = 0;
	slot->spell++;
	if (stored)
		take_call(slot, at);
	else
		slot->syscall_nr = -1;
	slot->reason = spell_reason(slot, prev, at->state, direct);
	if (at->state == OFF_CPU_STOPPED && is_frozen(prev, at->state_bits, direct))
		slot->reason = LOOPER_REASON_FROZEN;
	slot->waiting = 0;
	if (at->state == OFF_CPU_RUNNABLE)
		looper_wait_for(slot, cpu, cpu_id, at->index, at->now_ns);
	if (at->state == OFF_CPU_DEAD) {
		looper_close(slot, at->index, prev, at->now_ns, LOOPER_EVENT_EXITED);
		slot->dead = 1;
	} else {
		enter_by_switch(slot, prev, at);
	}
	looper_end(slot);
	looper_wake(slot, at->index);
}

/* What next waited on run queues since the switch-out: the sum so far, and the present wait, which
 * the kernel adds only after the tracepoint. */
static __always_inline __u64 queue_wait(struct looper_slot *slot, struct task_struct *next,
					__u64 rq_clock_ns, bool direct)
{
	__u64 wait_ns = TASK_FIELD(direct, next, sched_info.run_delay) - slot->out_delay_ns;
	__u64 queued_ns = TASK_FIELD(direct, next, sched_info.last_queued);

	if (queued_ns && rq_clock_ns > queued_ns)
		wait_ns += rq_clock_ns - queued_ns;
	return wait_ns;
}

/* It comes out of a wait that it was not seen to go to sleep in: then it has not blocked since. */
static __always_inline void find_unseen_wait(struct looper_slot *slot, __u32 index,
					     struct task_struct *next, __u64 now_ns, bool direct)
{
	__u64 *words = task_registers(next, direct), nr = 0, arguments[4] = {};
	struct wait wait;

	if (slot->waiting_kind || slot->off_ns >= now_ns)
		return;
	wait.stack = 0;
	bpf_probe_read_kernel(&nr, sizeof(nr), words + WORD_SYSCALL);
	bpf_probe_read_kernel(&arguments[0], 8, words + WORD_ARGUMENT_0);
	bpf_probe_read_kernel(&arguments[1], 8, words + WORD_ARGUMENT_1);
	bpf_probe_read_kernel(&arguments[2], 8, words + WORD_ARGUMENT_2);
	bpf_probe_read_kernel(&arguments[3], 8, words + WORD_ARGUMENT_3);
	bpf_probe_read_kernel(&wait.stack, 8, words + WORD_STACK_POINTER);
	if (!wait_of_call((__s32)nr, arguments[0], arguments[1], arguments[2], arguments[3], &wait))
		return;
	wait.way = LOOPER_WAY_CALL;
	looper_enter_wait(slot, index, next, &wait, slot->off_ns,
			  LOOPER_EVENT_MERGED | LOOPER_EVENT_ESTIMATED, LOOPER_SEEN_BY_SWITCH);
	looper_leave_wait(slot, index, next, now_ns, slot->detector != LOOPER_BY_SYSCALL);
}

static __always_inline void looper_switch_in(struct looper_slot *slot, struct task_struct *next,
					     struct cpu_slot *cpu, __u32 index, __u64 now_ns,
					     __u64 rq_clock_ns, bool direct)
{
	__u64 cpu_ns = TASK_FIELD(direct, next, se.sum_exec_runtime);
	__u64 wait_ns = queue_wait(slot, next, rq_clock_ns, direct);
	struct looper_registers *stash = bpf_map_lookup_elem(&looper_stash, &index);
	bool slept_in_wait;

	if (stash && !stash->sequence)
		stash->sequence = 1;
	else if (stash)
		make_odd(stash);
	if (looper_is_amid(slot))
		return;
	looper_begin(slot);
	if (looper_is_other(slot, next)) {
		looper_replace(slot, index, next, now_ns);
		slot->on_cpu = 0;
		slot->off_ns = 0;
	}
	slept_in_wait = !slot->on_cpu && slot->waiting_seen_by == LOOPER_SEEN_BY_SWITCH;
	if (slot->on_cpu && slot->in_ns) {
		book_unseen(slot, index, now_ns, cpu_ns, wait_ns);
		find_unseen_wait(slot, index, next, now_ns, direct);
	} else if (slot->off_ns) {
		book_spell(slot, index, now_ns, wait_ns);
	}
	slot->on_cpu = 1;
	slot->in_ns = now_ns;
	slot->in_cpu_ns = cpu_ns;
	slot->out_delay_ns += wait_ns;
	slot->out_switches = TASK_FIELD(direct, next, nvcsw) + TASK_FIELD(direct, next, nivcsw);
	slot->waiting = 0;
	looper_leave_row(slot, cpu, index);
	if (slept_in_wait)
		looper_leave_wait(slot, index, next, now_ns, slot->detector != LOOPER_BY_SYSCALL);
	looper_end(slot);
	looper_wake(slot, index);
}

/* Since f5d39b020809 (6.1) a task that sleeps is frozen where it sleeps: its state changes and no
 * switch tells. Run by BPF_PROG_TEST_RUN for the slot of that index; 1: frozen. */
SEC("?raw_tp")
int looper_is_frozen(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 index = (__u32)ctx->args[0];
	struct looper_slot *slot = bpf_map_lookup_elem(&looper_slots, &index);
	struct task_struct *task;

	if (!slot || slot->on_cpu || !slot->task)
		return 0;
	task = (struct task_struct *)slot->task;
	if ((__u32)BPF_CORE_READ(task, pid) != slot->tid)
		return 0;
	return (task_state(task, false) & TASK_FROZEN_BIT) != 0;
}

/* Run once by BPF_PROG_TEST_RUN where the kernel has no bpf_task_pt_regs: we are in the bpf()
 * system call, so that the place that holds its number is the right one. */
SEC("?raw_tp")
int looper_calibrate(void *ctx)
{
	struct task_struct *self = (struct task_struct *)bpf_get_current_task();
	__u64 stack = (__u64)BPF_CORE_READ(self, stack);
	__u64 size = bpf_core_type_size(struct pt_regs);

	/* THREAD_SIZE is 16 KiB, twice that with KASAN, 64 KiB with such pages; FRED (6.9) pads 16
	 */
	for (int i = 0; i < 8; i++) {
		__u64 offset = (16384ull << (i & 3)) - size - ((i & 4) ? 16 : 0);
#ifdef __TARGET_ARCH_x86
		__u64 nr = 0;

		bpf_probe_read_kernel(&nr, 8, (void *)(stack + offset + WORD_SYSCALL * 8));
		if (nr == 321) {
#else
		__s32 nr = 0;

		bpf_probe_read_kernel(&nr, 4, (void *)(stack + offset + WORD_SYSCALL * 8));
		if (nr == 280) {
#endif
			pt_regs_offset = offset;
			return 0;
		}
	}
	return 1;
}
