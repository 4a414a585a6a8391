/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The synchronous binder calls of watched processes, and of the threads that serve them, and so on:
 * when each was sent, received and answered, and by whom. Both tracepoints run in the context of
 * the thread that does it. Only raw_tp programs: they read nothing for transactions of others, and
 * a typed tracepoint of a module would need the number of that module's BTF. */
#include "binder_maps.bpf.h"
#include "binder_look.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline struct binder_thread_calls *find_thread(__u32 tid)
{
	return bpf_map_lookup_elem(&binder_threads, &tid);
}

static __always_inline struct binder_thread_calls *add_thread(__u32 tid, __u32 tgid)
{
	struct binder_thread_calls *entry = find_thread(tid);

	if (entry)
		return entry;
	if (bpf_map_update_elem(&binder_threads, &tid, &binder_new_thread, BPF_NOEXIST)) {
		loss_add(&binder_losses, BINDER_LOSS_THREADS_FULL, 1);
		return NULL;
	}
	__sync_fetch_and_add(&binder_filter_ids[tid & (BINDER_FILTER - 1)], 1);
	entry = find_thread(tid);
	if (!entry)
		return NULL;
	entry->tid = tid;
	entry->tgid = tgid;
	return entry;
}

/* The call is not to be received any more, or was. Another transaction may have its address by now.
 */
static __always_inline void forget_waiting(__u64 transaction, __u32 debug_id)
{
	struct binder_waiting *waiting = bpf_map_lookup_elem(&binder_waiting, &transaction);

	if (!waiting || waiting->debug_id != debug_id)
		return;
	if (!bpf_map_delete_elem(&binder_waiting, &transaction))
		__sync_fetch_and_add(&binder_filter_transactions[transaction_bits(transaction)],
				     (__u32)-1);
}

/* Behind the last call that has no answer; of one that failed there is none either. */
static __always_inline __u32 behind_unanswered(const struct binder_thread_calls *entry)
{
	__u32 place = 0;

	for (__u32 i = 0; i < BINDER_DEPTH; i++)
		if (entry->calls[i].transaction && !entry->calls[i].replied_ns)
			place = i + 1;
	return place;
}

/* Its place among the calls of the thread that stand: behind the one whose callee calls back. In
 * another context than the last call's the driver's stack does not lead to those. */
static __always_inline __u32 find_place(const struct binder_thread_calls *entry,
					struct binder_thread *thread)
{
	struct binder_transaction *served = BPF_CORE_READ(thread, transaction_stack), *below;
	__u32 debug_id;

	if (entry->thread && entry->thread != (__u64)thread)
		return behind_unanswered(entry);
	below = served ? BPF_CORE_READ(served, to_parent) : NULL;
	if (!below)
		return 0;
	debug_id = BPF_CORE_READ(below, debug_id);
	for (__u32 i = 0; i < BINDER_DEPTH; i++)
		if (entry->calls[i].transaction == (__u64)below &&
		    entry->calls[i].debug_id == debug_id)
			return i + 1;
	/* It is not known, or found no place itself. */
	return behind_unanswered(entry);
}

static __always_inline void on_call(struct binder_transaction *transaction, __u32 tid, __u32 tgid)
{
	struct binder_thread_calls *entry = find_thread(tid);
	struct binder_waiting waiting = {};
	struct binder_thread *thread;
	struct binder_call *call;
	__u64 address = (__u64)transaction;
	__u32 place;

	if (!(entry && entry->serving) && !bpf_map_lookup_elem(&binder_watched, &tgid))
		return;
	if (BPF_CORE_READ(transaction, flags) & TF_ONE_WAY)
		return;
	thread = BPF_CORE_READ(transaction, from);
	if (!entry)
		entry = add_thread(tid, tgid);
	if (!thread || !entry)
		return;
	place = find_place(entry, thread);
	if (place >= BINDER_DEPTH) {
		loss_add(&binder_losses, BINDER_LOSS_DEPTH, 1);
		return;
	}
	for (__u32 i = 0; i < BINDER_DEPTH; i++) {
		if (i < place)
			continue;
		if (entry->calls[i].transaction && !entry->calls[i].received_ns)
			forget_waiting(entry->calls[i].transaction, entry->calls[i].debug_id);
		entry->calls[i].transaction = 0;
		entry->calls[i].debug_id = 0;
	}
	if (entry->thread != (__u64)thread)
		entry->other = entry->thread;
	entry->thread = (__u64)thread;
	call = &entry->calls[place & (BINDER_DEPTH - 1)];
	call->received_ns = call->replied_ns = call->served_cpu_ns = 0;
	call->received_tid = call->received_tgid = 0;
	call->task = 0;
	call->code = BPF_CORE_READ(transaction, code);
	call->debug_id = BPF_CORE_READ(transaction, debug_id);
	call->transaction = address;
	waiting.caller_tid = tid;
	waiting.place = place;
	waiting.debug_id = call->debug_id;
	/* One that has the address stands for a transaction that is gone. */
	if (!bpf_map_update_elem(&binder_waiting, &address, &waiting, BPF_NOEXIST))
		__sync_fetch_and_add(&binder_filter_transactions[transaction_bits(address)], 1);
	else if (bpf_map_update_elem(&binder_waiting, &address, &waiting, BPF_EXIST))
		loss_add(&binder_losses, BINDER_LOSS_THREADS_FULL, 1);
	call->sent_ns = entry->touched_ns = bpf_ktime_get_ns();
}

/* Whoever waits for this thread has its answer. Calls that were served within that one are over,
 * too: their callers died. */
static __always_inline void on_reply(struct binder_transaction *transaction, __u32 tid)
{
	struct binder_thread_calls *entry = find_thread(tid), *caller;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 caller_tid, debug_id = 0, serving;
	__u64 now_ns;

	if (!entry || !entry->serving)
		return;
	caller_tid = BPF_CORE_READ(transaction, to_thread, pid);
	serving = entry->serving;
	for (__u32 i = 0; i < BINDER_DEPTH; i++) {
		__u32 at = BINDER_DEPTH - 1 - i;

		if (at >= serving || debug_id || entry->served[at].caller_tid != caller_tid)
			continue;
		debug_id = entry->served[at].debug_id;
		entry->serving = at;
	}
	now_ns = bpf_ktime_get_ns();
	entry->touched_ns = now_ns;
	caller = debug_id ? find_thread(caller_tid) : NULL;
	if (!caller)
		return;
	for (__u32 i = 0; i < BINDER_DEPTH; i++) {
		struct binder_call *call = &caller->calls[i];

		if (call->debug_id != debug_id)
			continue;
		/* Before the time that says that it is there. */
		if (call->task == (__u64)task)
			call->served_cpu_ns =
				BPF_CORE_READ(task, se.sum_exec_runtime) - call->task_cpu_ns;
		call->replied_ns = now_ns;
	}
}

SEC("?raw_tp/binder_transaction")
int binder_transaction_raw(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)ids, tgid = ids >> 32;

	if (!HAS_DRIVER_TYPES)
		return 0;
	if (!binder_filter_ids[tid & (BINDER_FILTER - 1)] &&
	    !binder_filter_ids[tgid & (BINDER_FILTER - 1)])
		return 0;
	if ((__u8)ctx->args[0])
		on_reply((struct binder_transaction *)ctx->args[1], tid);
	else
		on_call((struct binder_transaction *)ctx->args[1], tid, tgid);
	return 0;
}

static __always_inline void serve(const struct binder_waiting *waiting, __u32 tid, __u32 tgid,
				  __u64 now_ns)
{
	struct binder_thread_calls *entry = add_thread(tid, tgid);
	__u32 place;

	if (!entry)
		return;
	place = entry->serving;
	/* What it served so deep in each other is over: a caller that died is told by no reply. */
	if (place >= BINDER_DEPTH)
		place = 0;
	entry->served[place & (BINDER_DEPTH - 1)].caller_tid = waiting->caller_tid;
	entry->served[place & (BINDER_DEPTH - 1)].debug_id = waiting->debug_id;
	entry->serving = place + 1;
	entry->touched_ns = now_ns;
}

SEC("?raw_tp/binder_transaction_received")
int binder_received_raw(struct bpf_raw_tracepoint_args *ctx)
{
	struct binder_transaction *transaction = (struct binder_transaction *)ctx->args[0];
	__u64 address = (__u64)transaction, ids, now_ns;
	struct binder_waiting *found, waiting;
	struct binder_thread_calls *caller;
	struct task_struct *task;
	struct binder_call *call;

	if (!HAS_DRIVER_TYPES)
		return 0;
	if (!binder_filter_transactions[transaction_bits(address)])
		return 0;
	found = bpf_map_lookup_elem(&binder_waiting, &address);
	if (!found || found->debug_id != (__u32)BPF_CORE_READ(transaction, debug_id))
		return 0;
	waiting = *found;
	ids = bpf_get_current_pid_tgid();
	now_ns = bpf_ktime_get_ns();
	forget_waiting(address, waiting.debug_id);
	caller = find_thread(waiting.caller_tid);
	if (!caller)
		return 0;
	call = &caller->calls[waiting.place & (BINDER_DEPTH - 1)];
	if (call->debug_id != waiting.debug_id)
		return 0;
	task = (struct task_struct *)bpf_get_current_task();
	call->task = (__u64)task;
	call->task_cpu_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	call->received_tgid = ids >> 32;
	call->received_tid = (__u32)ids;
	call->received_ns = now_ns;
	caller->touched_ns = now_ns;
	serve(&waiting, (__u32)ids, ids >> 32, now_ns);
	return 0;
}
