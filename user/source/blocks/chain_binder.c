/* SPDX-License-Identifier: BSD-2-Clause */
/* Binder calls in a chain: who takes them and how long that takes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/blocks/source.h"

#define NOT_COUNTED "the process that is to serve the call has more threads than are looked at"
#define NOT_SEEN    "the call was sent before its process was watched, or too many were followed"

void blocks_open_binder(struct blocks_source *blocks, char *reason, size_t size)
{
	blocks->binder = binder_kernel_open(blocks->options.btf_path,
					    looper_kernel_count(blocks->kernel), reason, size);
}

/* The caller waits for the answer of this very call at this moment. */
static bool stands(const struct blocks_source *blocks, const struct block_chain_link *link,
		   struct binder_look *look)
{
	const struct binder_fds fds = binder_kernel_fds(blocks->binder);

	*look = (struct binder_look){
		.tid = (uint32_t)link->caller_tid,
		.tgid = (uint32_t)link->caller_pid,
	};
	return !binder_look_ask(&fds, look) && look->waits && look->debug_id == link->debug_id;
}

void blocks_refresh_calls(const struct blocks_source *blocks, struct block_chain *chain, bool ended)
{
	for (size_t i = 0; blocks->binder && i < chain->count; i++) {
		struct block_chain_link *link = &chain->links[i];
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct binder_look look;
		struct binder_call call;
		bool known;

		if (link->how != LINK_BY_BINDER)
			continue;
		if (!ended && stands(blocks, link, &look)) {
			link->until_ns = now_ns;
			if (look.has_cpu)
				link->served_cpu_ns = SOME_U64(look.task_cpu_ns);
		}
		known = binder_kernel_call(blocks->binder, link->caller_tid, link->debug_id, &call);
		if (!known)
			continue;
		link->sent_ns = call.sent_ns;
		link->received_ns = call.received_ns;
		/* Taken since the look, which found it in the queue. */
		if (!link->tid && call.received_ns)
			link->tid = (pid_t)call.received_tid;
		if (call.replied_ns) {
			link->until_ns = call.replied_ns;
			link->served_cpu_ns = SOME_U64(call.served_cpu_ns);
		}
	}
}

void block_chain_fill_call(struct record_block *block, struct block_link *link,
			   const struct block_chain_link *from, char what[BLOCK_WHAT_LEN])
{
	link->how = LINK_BINDER;
	link->what = what;
	if (from->how == LINK_AT_WORK) {
		snprintf(what, BLOCK_WHAT_LEN, "at work on another call");
		return;
	}
	snprintf(what, BLOCK_WHAT_LEN, "code %u", from->code);
	if (from->threads == SAMPLER_NOT_COUNTED) {
		if (!from->tid)
			missing_list_set(&block->missing, "threads", NOT_COUNTED);
	} else if (from->threads || !from->tid) {
		link->threads = SOME_U64(from->threads);
		link->at_work = SOME_U64(from->at_work);
	}
	if (!from->sent_ns) {
		missing_list_set(&block->missing, "queued_ns", NOT_SEEN);
		return;
	}
	if (from->received_ns >= from->sent_ns)
		link->queued_ns = SOME_U64(from->received_ns - from->sent_ns);
	else if (!from->tid && from->until_ns >= from->sent_ns)
		link->queued_ns = SOME_U64(from->until_ns - from->sent_ns);
	if (from->received_ns && from->until_ns >= from->received_ns)
		link->served_ns = SOME_U64(from->until_ns - from->received_ns);
	/* The thread's sum is as of its last switch or tick. */
	if (link->served_ns.present && from->served_cpu_ns.present) {
		link->served_cpu_ns = from->served_cpu_ns;
		if (link->served_cpu_ns.value > link->served_ns.value)
			link->served_cpu_ns.value = link->served_ns.value;
	}
}
