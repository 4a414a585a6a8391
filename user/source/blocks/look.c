/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "abi/sched.h"
#include "source/blocks/source.h"

/* A thread that sleeps in a period may be frozen there, and no switch tells. */
#define FROZEN_TICK_NS (50 * NSEC_PER_MSEC)

static uint64_t stopped_ns(const struct watched *watched, const struct looper_slot *slot,
			   uint64_t now_ns)
{
	uint64_t ns = slot->sums.stopped_ns + watched->period.frozen_ns;

	if (!slot->on_cpu && slot->off_state == OFF_CPU_STOPPED && now_ns > slot->off_ns)
		ns += now_ns - slot->off_ns;
	return ns;
}

/* Looks are some 50 ms apart, and more where the recorder waits for a CPU: a change counts from
 * half way between two of them, and may have been half a gap to either side. */
static bool find_frozen(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot, uint64_t now_ns)
{
	uint64_t looked_ns =
		watched->period.looked_ns > slot->off_ns ? watched->period.looked_ns : slot->off_ns;
	uint64_t gap_ns = 0;
	bool frozen = !slot->on_cpu && slot->off_state != OFF_CPU_RUNNABLE &&
		      slot->off_state != OFF_CPU_STOPPED &&
		      looper_kernel_is_frozen(blocks->kernel, watched->index);

	if (frozen && watched->period.frozen_seen_ns) {
		watched->period.frozen_ns += now_ns - watched->period.frozen_seen_ns;
	} else {
		if (frozen && now_ns > looked_ns)
			gap_ns = now_ns - looked_ns;
		else if (watched->period.frozen_seen_ns)
			gap_ns = now_ns - watched->period.frozen_seen_ns;
		watched->period.frozen_ns += gap_ns / 2;
		watched->period.frozen_unsure_ns += gap_ns / 2;
	}
	watched->period.frozen_seen_ns = frozen ? now_ns : 0;
	watched->period.looked_ns = now_ns;
	return frozen;
}

/* A thread that waits in epoll or io_uring loops: programs do that for nothing else. One that polls
 * may wait for one answer, so it has to come back to its place. */
bool blocks_is_loop(const struct looper_slot *slot)
{
	uint32_t kind = slot->loop_kind;
	uint64_t least = kind == LOOPER_WAIT_EPOLL || kind == LOOPER_WAIT_URING ? 1 : 2;

	return kind != LOOPER_WAIT_NONE && slot->loop_waits >= least && !looper_is_shared(slot) &&
	       !looper_is_closed(slot);
}

/* ---- a loop whose descriptor was closed ---- */

#define ASK_CLOSED_NS NSEC_PER_SEC

static void on_link(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct looper_slot *live = looper_kernel_slot(watched->blocks->kernel, watched->index);
	static const char epoll[] = "anon_inode:[eventpoll]", uring[] = "anon_inode:[io_uring]";

	bool open = !err && ((answer->length >= sizeof(epoll) - 1 &&
			      !memcmp(answer->data, epoll, sizeof(epoll) - 1)) ||
			     (answer->length >= sizeof(uring) - 1 &&
			      !memcmp(answer->data, uring, sizeof(uring) - 1)));

	watched->closed.request = 0;
	/* Nobody had time to look: the loop may be gone all the same, so it is asked at the next
	 * look. */
	if (err == -ETIMEDOUT || err == -EPIPE)
		watched->closed.asked_ns = 0;
	if (open || (err && err != -ENOENT)) {
		blocks_own_settle(watched->blocks, watched);
		return;
	}
	/* As include/abi/looper.h says: the kernel side lets the nested wait be the loop then. */
	__atomic_store_n(&live->loop_closed, watched->closed.changes + 1, __ATOMIC_SEQ_CST);
	if (!watched->closed.nested)
		blocks_own_none(watched->blocks, watched, SHARED_CLOSED);
	else
		blocks_own_settle(watched->blocks, watched);
}

/* A thread that does not come back may have closed its loop's descriptor, and waits in another one
 * (nested), or has no loop any more. */
static void ask_closed(struct blocks_source *blocks, struct watched *watched,
		       const struct looper_slot *slot, uint64_t now_ns)
{
	struct probe_request request = {
		.operation = PROBE_READ_LINK,
		.pid = watched->pid,
		.start_ticks = watched->start_boot_ns / 10000000,
		.length = 64,
	};
	int64_t id;

	if (slot->loop_fd < 0 || watched->closed.request ||
	    (watched->closed.changes == slot->loop_changes && watched->closed.asked_ns &&
	     watched->closed.nested == (slot->nested_kind != LOOPER_WAIT_NONE) &&
	     now_ns - watched->closed.asked_ns < ASK_CLOSED_NS))
		return;
	snprintf(request.name, sizeof(request.name), "fd/%d", slot->loop_fd);
	watched->closed.asked_ns = now_ns;
	watched->closed.changes = slot->loop_changes;
	watched->closed.nested = slot->nested_kind != LOOPER_WAIT_NONE;
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, BLOCKS_HOLD_NS, on_link,
		       watched);
	if (id > 0)
		watched->closed.request = id;
}

/* ---- a period that lasts ---- */

static void sooner(uint64_t *next_ns, uint64_t at_ns)
{
	if (at_ns < *next_ns)
		*next_ns = at_ns;
}

/* A thread that waits again and again inside of one message either serves that message (node's
 * spawnSync) or went over to a loop further in: a dialog, or a program that never comes back. Which
 * of both is known when it comes back, or when the kernel side adopts the inner loop
 * (LOOPER_ADOPT_WAITS). Until then it is told only if it comes to no wait at all for so long that
 * it hangs either way. One wait is no loop. */
static bool is_unproved(struct watched *watched, const struct looper_slot *slot, uint64_t now_ns)
{
	bool waits = slot->waiting_kind != LOOPER_WAIT_NONE && !slot->waiting_own;

	if (slot->nested_kind == LOOPER_WAIT_NONE || slot->nested_waits < 2) {
		watched->period.unproved = false;
		return false;
	}
	if (waits || slot->nested_waits != watched->period.nested_waits)
		watched->period.nested_ns = now_ns;
	watched->period.nested_waits = slot->nested_waits;
	watched->period.unproved = now_ns - watched->period.nested_ns < BLOCK_ANR_NS;
	return watched->period.unproved;
}

/* Tell a period that lasts, at the threshold and when it becomes an ANR. */
static int tell_open(struct blocks_source *blocks, struct watched *watched,
		     const struct looper_slot *slot, uint64_t begin_ns, uint64_t now_ns,
		     uint64_t *next_ns)
{
	uint64_t block_ns = blocks->context.block_ns;
	uint64_t age_ns = now_ns > begin_ns ? now_ns - begin_ns : 0;
	int err = 0;

	if (age_ns >= block_ns && !watched->period.reported_open) {
		watched->period.reported_open = true;
		watched->period.reported_anr = age_ns >= BLOCK_ANR_NS;
		err = blocks_report_open(blocks, watched, slot, now_ns);
	} else if (age_ns >= BLOCK_ANR_NS && watched->period.reported_open &&
		   !watched->period.reported_anr) {
		watched->period.reported_anr = true;
		err = blocks_report_open(blocks, watched, slot, now_ns);
	}
	if (!watched->period.reported_open)
		sooner(next_ns, begin_ns + block_ns);
	else if (!watched->period.reported_anr)
		sooner(next_ns, begin_ns + BLOCK_ANR_NS);
	return err;
}

int blocks_look_at(struct blocks_source *blocks, struct watched *watched, uint64_t now_ns,
		   uint64_t *next_ns)
{
	struct looper_slot slot;
	bool idle, late, frozen, stopped;

	looper_kernel_mark(blocks->kernel, watched->index, watched->tid);
	blocks_start_watch(blocks, watched);
	if (!looper_kernel_read(blocks->kernel, watched->index, &slot)) {
		sooner(next_ns, now_ns + BLOCKS_MIN_TICK_NS);
		return 0;
	}
	/* Others were looked at since: the slot's sums are of now, not of then. */
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	blocks_follow_loop(blocks, watched, &slot);
	idle = looper_is_idle(&slot) || slot.discarded == slot.periods;
	/* The event of its end may have come to the ring since that was emptied last. */
	if (watched->period.tracking && (idle || slot.periods != watched->period.number)) {
		uint64_t number = watched->period.number;
		int err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);

		if (err)
			return err;
		if (watched->period.tracking && watched->period.number == number)
			blocks_watch_end_period(watched);
	}
	if (idle)
		return 0;
	/* An event of a later one was there already: look again at once. */
	if (watched->period.tracking && watched->period.number > slot.periods) {
		sooner(next_ns, now_ns + BLOCKS_MIN_TICK_NS);
		return 0;
	}
	/* A thread that is no loop has no blocks; what a thread does before it is known to loop is
	 * held back until then (LOOPER_EVENT_UNKNOWN_LOOP). */
	if (!blocks_is_loop(&slot))
		return 0;
	blocks_begin_period(blocks, watched, slot.periods, slot.busy_since_ns);
	late = now_ns - slot.busy_since_ns >= blocks->context.block_ns / 2;
	if (late || slot.nested_kind)
		ask_closed(blocks, watched, &slot, now_ns);
	if (late)
		blocks_ask_waiters(blocks, watched, slot.loop_kind, slot.loop_fd, now_ns);
	frozen = find_frozen(blocks, watched, &slot, now_ns);
	stopped = !slot.on_cpu && slot.off_state == OFF_CPU_STOPPED;
	sooner(next_ns, now_ns + FROZEN_TICK_NS);
	if (frozen || stopped || is_unproved(watched, &slot, now_ns))
		return 0;
	if (blocks_own_pending(watched, now_ns)) {
		sooner(next_ns, now_ns + BLOCKS_MIN_TICK_NS);
		return 0;
	}
	return tell_open(blocks, watched, &slot,
			 slot.busy_since_ns + stopped_ns(watched, &slot, now_ns), now_ns, next_ns);
}

/* ---- when nothing happens ---- */

/* The mark of a thread that was found in its first slice is gone with that (bpf/sched_slot.bpf.h),
 * and set again by a look. */
#define YOUNG_NS (2 * NSEC_PER_SEC)

static bool is_at_rest(const struct watched *watched, uint64_t now_ns)
{
	if (watched->start.stage == WATCHED_REFUSED)
		return watched->start.told && !watched->gone_ns;
	return watched->start.stage == WATCHED_RUNS && watched->start.settled &&
	       watched->start.told && !watched->gone_ns &&
	       now_ns - watched->start.standing.after_mono_ns >= YOUNG_NS;
}

uint64_t blocks_idle_tick_ns(const struct blocks_source *blocks, uint64_t now_ns)
{
	/* A thread that is asked for by name may come at any time. */
	if (!blocks->sampler || blocks->options.thread || blocks->unwatched_now)
		return blocks->tick_ns;
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch); i++) {
		const struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (watched && !is_at_rest(watched, now_ns))
			return blocks->tick_ns;
	}
	return REST_TICK_NS;
}
