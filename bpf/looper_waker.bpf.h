/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Who wakes a watched thread: whether it is the task that runs at that moment, and, where the sleep
 * was long, that task's registers and a copy of its stack. All of it runs in the wake-up, under the
 * sleeper's pi_lock with interrupts off: nothing here may fault or wait. */
#pragma once
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "abi/sched.h"
#include "compat.bpf.h"
#include "looper_maps.bpf.h"
#include "looper_registers.bpf.h"
#include "looper_words.bpf.h"

#define PF_EXITING_BIT    0x00000004
#define IN_INTERRUPT_BITS 0x00ff0100 /* NMI, hard and soft interrupt: include/linux/preempt.h */
#define WAKER_PAGE        4096ull

/* Seven wake-ups with a stack. Its reader looks every 50 ms at a thread that is in a period. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 17);
} looper_wakers SEC(".maps");

/* Set by user space where stacks are wanted. */
__u32 waker_stacks;

/* self: the current task, which the helper has to be given as its own typed pointer. */
static __always_inline void *current_registers(struct task_struct *self, bool direct)
{
	if (direct && bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return (void *)((__u64)BPF_CORE_READ(self, stack) + registers_offset);
}

#ifdef __TARGET_ARCH_x86
/* preempt_count is a variable of each CPU, which kernels without KALLSYMS_ALL do not name. The
 * kernel's BTF says how far it lies from the CPU's run queue, and each task points to that one.
 * Set before load (kernel/types.h). */
enum { COUNT_UNKNOWN = 0, COUNT_IS_VARIABLE = 1, COUNT_IN_HOT = 2 };
const volatile __u32 preempt_count_place;
const volatile __s64 preempt_count_distance;

/* c22ac2a3d4bd (6.2) to 46e8fff6d45f (6.15) kept it in here */
struct pcpu_hot___since_6_2 {
	int preempt_count;
} __attribute__((preserve_access_index));

static __always_inline bool read_preempt_count(struct task_struct *self, __u32 *count)
{
	__u64 at;

	if (preempt_count_place == COUNT_UNKNOWN ||
	    !bpf_core_field_exists(((struct sched_entity *)0)->cfs_rq))
		return false;
	at = (__u64)BPF_CORE_READ(self, se.cfs_rq, rq);
	if (!at)
		return false;
	at += preempt_count_distance;
	if (preempt_count_place == COUNT_IN_HOT) {
		struct pcpu_hot___since_6_2 *hot = (void *)at;

		if (!bpf_core_field_exists(hot->preempt_count))
			return false;
		at = (__u64)&hot->preempt_count;
	}
	return !bpf_probe_read_kernel(count, sizeof(*count), (void *)at);
}

/* System calls that wake others. A timer that hits amid one of them is taken for it where
 * preempt_count is not known: a kernel without BTF. */
static __always_inline bool call_wakes(__s64 nr)
{
	switch (nr) {
	case 0:   /* read: room in a pipe */
	case 1:   /* write */
	case 3:   /* close */
	case 16:  /* ioctl: binder */
	case 20:  /* writev */
	case 44:  /* sendto */
	case 46:  /* sendmsg */
	case 48:  /* shutdown */
	case 60:  /* exit */
	case 62:  /* kill */
	case 65:  /* semop */
	case 69:  /* msgsnd */
	case 200: /* tkill */
	case 202: /* futex */
	case 231: /* exit_group */
	case 234: /* tgkill */
	case 307: /* sendmmsg */
		return true;
	}
	return false;
}
#endif

/* A wake-up out of an interrupt (a timer, a packet) happens to whoever runs: it is no waker's. */
static __always_inline bool in_interrupt(struct task_struct *self, bool direct)
{
#ifdef __TARGET_ARCH_x86
	__u32 count, flags = BPF_CORE_READ(self, flags);
	__u64 nr = 0, *words;

	/* The idle task does nothing but by interrupts, and those on its way out of a CPU's sleep
	 * are booked to it. */
	if ((flags & PF_KTHREAD_BIT) && !BPF_CORE_READ(self, pid))
		return true;
	if (read_preempt_count(self, &count))
		return count & IN_INTERRUPT_BITS;
	if (flags & PF_KTHREAD_BIT)
		return false;
	words = current_registers(self, direct);
	bpf_probe_read_kernel(&nr, sizeof(nr), words + WORD_SYSCALL);
	return !call_wakes((__s64)nr);
#else
	return BPF_CORE_READ(self, thread_info.preempt.count) & IN_INTERRUPT_BITS;
#endif
}

/* The stack from its pointer on, page by page, each at the place in `to` that it has in the first
 * page. Returns how many bytes were read: a page that is not in memory ends it. */
static __always_inline __u32 copy_stack(__u8 *to, __u64 stack)
{
	__u64 skip = stack & (WAKER_PAGE - 1), base = stack - skip;
	__u32 bytes;

	asm volatile("" : "+r"(skip));
	skip &= WAKER_PAGE - 1;
	bytes = WAKER_PAGE - skip;
	if (bpf_probe_read_user(to + skip, bytes, (void *)stack))
		return 0;
	for (int i = 1; i < LOOPER_WAKER_PAGES; i++) {
		if (bpf_probe_read_user(to + i * WAKER_PAGE, WAKER_PAGE,
					(void *)(base + i * WAKER_PAGE)))
			break;
		bytes += WAKER_PAGE;
	}
	return bytes;
}

static __always_inline void fill_waker(struct looper_waker_event *event,
				       const struct looper_slot *slot, __u32 index,
				       struct task_struct *self, __u64 now_ns)
{
	event->head.type = LOOPER_EVENT_WAKER;
	event->head.index = index;
	event->head.slot_id = slot->slot_id;
	event->head.period = slot->periods;
	event->head.begin_ns = slot->off_ns;
	event->head.end_ns = now_ns;
	event->spell = slot->spell;
	event->process_start_boot_ns = task_process_start(self, false);
	event->tid = slot->waker_tid;
	event->tgid = slot->waker_tgid;
	event->exiting = !!(BPF_CORE_READ(self, flags) & PF_EXITING_BIT);
	event->stack_bytes = 0;
	event->reserved = 0;
}

/* Told without a stack: the task has no memory of user space, and what is mapped at this moment may
 * be that of the task that ran before it. */
static __always_inline void tell_stackless(const struct looper_slot *slot, __u32 index,
					   struct task_struct *self, __u64 now_ns, __u32 failure)
{
	struct looper_waker_event *event = bpf_ringbuf_reserve(&looper_wakers, sizeof(*event), 0);

	if (!event) {
		looper_loss(LOOPER_LOSS_WAKER_RING_FULL);
		return;
	}
	fill_waker(event, slot, index, self, now_ns);
	event->failure = failure;
	__builtin_memset(event->words, 0, sizeof(event->words));
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* slot has the waker by now. */
static __always_inline void tell_waker(const struct looper_slot *slot, __u32 index,
				       struct task_struct *self, __u64 now_ns, bool direct)
{
	struct looper_waker_stack *event;
	void *registers;

	if (!waker_stacks || !slot->busy_since_ns || slot->loop_kind == LOOPER_WAIT_NONE ||
	    (slot->off_state != OFF_CPU_SLEEPING && slot->off_state != OFF_CPU_UNINTERRUPTIBLE) ||
	    now_ns < slot->off_ns || now_ns - slot->off_ns < slot->block_ns / 2)
		return;
	if (BPF_CORE_READ(self, flags) & PF_KTHREAD_BIT) {
		tell_stackless(slot, index, self, now_ns, LOOPER_WAKER_IS_KERNEL);
		return;
	}
	if (!BPF_CORE_READ(self, mm)) {
		tell_stackless(slot, index, self, now_ns, LOOPER_WAKER_ENDED);
		return;
	}
	event = bpf_ringbuf_reserve(&looper_wakers, sizeof(*event), 0);
	if (!event) {
		looper_loss(LOOPER_LOSS_WAKER_RING_FULL);
		return;
	}
	fill_waker(&event->event, slot, index, self, now_ns);
	event->event.failure = LOOPER_WAKER_UNREADABLE;
	registers = current_registers(self, direct);
	__builtin_memset(event->event.words, 0, sizeof(event->event.words));
	if (!bpf_probe_read_kernel(event->event.words, REGISTER_WORDS * 8, registers)) {
#ifndef __TARGET_ARCH_x86
		event->event.words[WORD_SYSCALL] = (__s64)(__s32)event->event.words[WORD_SYSCALL];
#endif
		event->event.stack_bytes =
			copy_stack(event->stack, event->event.words[WORD_STACK_POINTER]);
		if (event->event.stack_bytes)
			event->event.failure = LOOPER_WAKER_TAKEN;
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}
