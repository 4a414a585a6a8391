/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the epoll that stands as a thread's loop is the thread's own. In an epoll that several
 * threads wait in (a pool of workers, Go's network poller) whoever comes next serves the next
 * event, and the others park elsewhere: none of them owes it to come back, so none has blocks. That
 * is seen and not inferred: another thread of the process waits in the same descriptor at the same
 * time (asked of the prober while the thread is busy), or the wait is the one of Go's runtime (its
 * code, on the main thread's own stack; what a goroutine itself waits in is on the goroutine's
 * stack). Blocks are held back until that is known, for BLOCKS_HOLD_NS at the most. */
#include "source/blocks/source.h"

/* Between one waiter and the next there may be nobody in the epoll, for long where CPUs are scarce:
 * so it is asked several times at first. All threads of the process are looked at, so not for ever.
 */
#define FIRST_ASKS 10
#define FIRST_NS   (50 * NSEC_PER_MSEC)
#define AGAIN_NS   NSEC_PER_SEC

const char *blocks_shared_reason(const struct watched *watched)
{
	switch (watched->own.shared) {
	case SHARED_BY_GO:
		return "the epoll is the Go runtime's: any of its threads may wait in it";
	case SHARED_BY_THREADS:
		return "other threads of the process wait in its epoll too";
	case SHARED_CLOSED:
		return "the thread closed its epoll";
	case SHARED_NO_PLACE:
		return "the thread never came back to a place that it waited in";
	case SHARED_NOT:
		break;
	}
	return NULL;
}

bool blocks_place_pending(const struct watched *watched, uint64_t now_ns)
{
	return watched->own.place_asked && now_ns - watched->own.place_asked_ns < BLOCKS_HOLD_NS;
}

bool blocks_own_pending(const struct watched *watched, uint64_t now_ns)
{
	return (watched->own.request && now_ns - watched->own.asked_ns < BLOCKS_HOLD_NS) ||
	       (watched->closed.request && now_ns - watched->closed.asked_ns < BLOCKS_HOLD_NS) ||
	       blocks_place_pending(watched, now_ns);
}

void blocks_own_settle(struct blocks_source *blocks, struct watched *watched)
{
	if (blocks_own_pending(watched, clock_now_ns(CLOCK_MONOTONIC)))
		return;
	block_reports_trust(&blocks->reports, watched->slot_id);
	blocks_wake_at(blocks, 0);
}

void blocks_own_none(struct blocks_source *blocks, struct watched *watched, enum watched_shared why)
{
	watched->own.shared = why;
	watched->is_loop = false;
	block_reports_drop_held(&blocks->reports, watched->slot_id);
	if (watched->period.tracking)
		blocks_watch_end_period(watched);
	if (watched->loop_kind != LOOPER_WAIT_NONE) {
		watched->loop_kind = LOOPER_WAIT_NONE;
		if (watched->start.told)
			blocks_tell_loop(blocks, watched, "target_loop");
	}
	blocks_wake_at(blocks, 0);
}

void blocks_own_shared(struct blocks_source *blocks, struct watched *watched, int32_t fd,
		       enum watched_shared why)
{
	struct looper_slot *live = looper_kernel_slot(blocks->kernel, watched->index);

	/* As include/abi/looper.h says: from here on the kernel side takes it for nobody's. */
	__atomic_store_n(&live->shared, (uint32_t)fd + 1, __ATOMIC_SEQ_CST);
	blocks_own_none(blocks, watched, why);
}

static void on_waiters(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;

	watched->own.request = 0;
	if (!err && answer->value > 0)
		blocks_own_shared(blocks, watched, watched->own.fd, SHARED_BY_THREADS);
	else
		blocks_own_settle(blocks, watched);
}

void blocks_ask_waiters(struct blocks_source *blocks, struct watched *watched, uint32_t kind,
			int32_t fd, uint64_t now_ns)
{
	struct probe_request request = blocks_request(watched, PROBE_COUNT_WAITERS);
	uint64_t least_ns = watched->own.asks < FIRST_ASKS ? FIRST_NS : AGAIN_NS;
	int64_t id;

	if (kind != LOOPER_WAIT_EPOLL || watched->own.request ||
	    (watched->own.asks && watched->own.fd == fd &&
	     now_ns - watched->own.asked_ns < least_ns))
		return;
	if (watched->own.fd != fd)
		watched->own.asks = 0;
	watched->own.asks++;
	request.argument = (uint32_t)fd;
	watched->own.fd = fd;
	watched->own.asked_ns = now_ns;
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, BLOCKS_HOLD_NS,
		       on_waiters, watched);
	if (id > 0)
		watched->own.request = id;
}
