/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Whom a thread waits for now, by the driver's own stack of its transactions, and who is at work in
 * a process that has not taken a call. User space runs the program (BPF_PROG_TEST_RUN); nobody else
 * pays for it. The driver's locks are not taken: each read is fault-proof, and what was read counts
 * where the thread still waits for the same transaction behind it. */
#pragma once
#include "binder_maps.bpf.h"

static __always_inline struct binder_thread *thread_of(struct rb_node *node)
{
	return (void *)node - bpf_core_field_offset(struct binder_thread, rb_node);
}

/* binder_get_thread_ilocked: the tree is in the order of tids. */
static __always_inline struct binder_thread *find_in(struct binder_proc *process, int tid)
{
	struct rb_node *node = BPF_CORE_READ(process, threads.rb_node);

	for (int i = 0; i < 24 && node; i++) {
		int pid = BPF_CORE_READ(thread_of(node), pid);

		if (pid == tid)
			return thread_of(node);
		node = tid < pid ? BPF_CORE_READ(node, rb_left) : BPF_CORE_READ(node, rb_right);
	}
	return NULL;
}

/* It waits for work where it waits for the driver and has no transaction; one that is in no call of
 * the driver at all does what it was woken for, maybe a one-way call. Of a thread that polls the
 * driver nothing is known but its transaction. */
static __always_inline void look_at_thread(struct binder_look *look, struct binder_thread *thread)
{
	int looper = BPF_CORE_READ(thread, looper);

	if (!(looper & (LOOPER_REGISTERED | LOOPER_ENTERED)) || looper & LOOPER_EXITED)
		return;
	look->threads++;
	if (!BPF_CORE_READ(thread, transaction_stack) && looper & (LOOPER_WAITING | LOOPER_POLL))
		return;
	if (look->at_work < BINDER_AT_WORK)
		look->at_work_tids[look->at_work & (BINDER_AT_WORK - 1)] =
			BPF_CORE_READ(thread, pid);
	look->at_work++;
}

/* All threads of the tree, by its own links: down to the left, then to the right, then up. */
static __always_inline void look_at_process(struct binder_look *look, struct binder_proc *process)
{
	struct rb_node *node = BPF_CORE_READ(process, threads.rb_node), *next, *parent;
	bool down = true;

	for (int i = 0; i < BINDER_MAX_STEPS && node; i++) {
		if (down) {
			look_at_thread(look, thread_of(node));
			next = BPF_CORE_READ(node, rb_left);
			if (!next)
				next = BPF_CORE_READ(node, rb_right);
			if (next)
				node = next;
			else
				down = false;
			continue;
		}
		parent = (struct rb_node *)(BPF_CORE_READ(node, __rb_parent_color) & ~3ul);
		next = parent ? BPF_CORE_READ(parent, rb_right) : NULL;
		down = next && next != node;
		node = down ? next : parent;
	}
	look->all_seen = !node;
}

static __always_inline void add_times(struct binder_look *look,
				      struct binder_transaction *transaction)
{
	struct binder_thread_calls *entry = bpf_map_lookup_elem(&binder_threads, &look->tid);
	struct task_struct *task;

	if (!entry)
		return;
	for (__u32 i = 0; i < BINDER_DEPTH; i++) {
		const struct binder_call *call = &entry->calls[i];

		if (call->debug_id != look->debug_id || call->transaction != (__u64)transaction)
			continue;
		look->sent_ns = call->sent_ns;
		look->received_ns = call->received_ns;
		task = (struct task_struct *)call->task;
		if (!look->received_ns || !look->to_tid || look->to_tid != call->received_tid ||
		    (__u32)BPF_CORE_READ(task, pid) != look->to_tid)
			continue;
		look->task_cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime) - call->task_cpu_ns;
		look->has_cpu = 1;
	}
}

/* The call that the thread waits for with this struct of it; NULL: none. It may serve one, and then
 * waits for nobody here. */
static __always_inline struct binder_transaction *call_of(struct binder_thread *thread,
							  const struct binder_look *look)
{
	struct binder_transaction *transaction;

	if (!thread || (__u32)BPF_CORE_READ(thread, pid) != look->tid ||
	    (__u32)BPF_CORE_READ(thread, proc, pid) != look->tgid)
		return NULL;
	transaction = BPF_CORE_READ(thread, transaction_stack);
	if (!transaction || BPF_CORE_READ(transaction, from) != thread)
		return NULL;
	return transaction;
}

SEC("?raw_tp/binder_look")
int binder_look(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 reader = (__u32)bpf_get_current_pid_tgid();
	struct binder_look *look = bpf_map_lookup_elem(&binder_questions, &reader);
	struct binder_transaction *transaction;
	struct binder_thread *thread = NULL;
	struct binder_thread_calls *entry;
	struct binder_proc *process;

	if (!HAS_DRIVER_TYPES)
		return BINDER_NO_TYPES;
	if (!look)
		return 0;
	entry = bpf_map_lookup_elem(&binder_threads, &look->tid);
	if (entry && entry->thread)
		thread = (struct binder_thread *)entry->thread;
	else if (look->process)
		thread = find_in((struct binder_proc *)look->process, look->tid);
	transaction = call_of(thread, look);
	if (!transaction && entry && entry->other) {
		thread = (struct binder_thread *)entry->other;
		transaction = call_of(thread, look);
	}
	if (!transaction)
		return 0;
	process = BPF_CORE_READ(transaction, to_proc);
	look->to_process = (__u64)process;
	look->debug_id = BPF_CORE_READ(transaction, debug_id);
	look->code = BPF_CORE_READ(transaction, code);
	look->to_pid = BPF_CORE_READ(process, pid);
	look->to_tid = BPF_CORE_READ(transaction, to_thread, pid);
	add_times(look, transaction);
	if (!look->to_tid)
		look_at_process(look, process);
	if (BPF_CORE_READ(thread, transaction_stack) == transaction &&
	    (__u32)BPF_CORE_READ(transaction, debug_id) == look->debug_id)
		look->waits = 1;
	return 0;
}
