/* SPDX-License-Identifier: BSD-2-Clause */
/* How a watch begins and ends: the prober says what the thread does, and the slot is filled by
 * that. Nothing here waits for the target: each step is a request, and its answer takes the next
 * one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/looper_slot.h"
#include "source/blocks/source.h"

#define TICK_OF_BOOT_NS 10000000ull
#define RETRY_NS        (20 * NSEC_PER_MSEC)
/* A thread that changed its place of waiting so often without coming back has none. */
#define NO_PLACE_CHANGES 8

struct probe_request blocks_request(const struct watched *watched, enum probe_operation operation)
{
	return (struct probe_request){
		.operation = operation,
		.pid = watched->pid,
		.tid = watched->tid,
		.start_ticks = watched->start_boot_ns / TICK_OF_BOOT_NS,
	};
}

bool blocks_try_again(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY || err == -EPIPE || err == -EAGAIN;
}

void blocks_follow_loop(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot)
{
	uint32_t kind = slot->loop_kind;
	bool is_loop = blocks_is_loop(slot);

	/* The kernel side saw another thread of the process wait there. */
	if (looper_is_shared(slot) && watched->own.shared == SHARED_NOT)
		blocks_own_none(blocks, watched, SHARED_BY_THREADS);
	if (is_loop)
		blocks_want_probes(blocks, watched, slot);
	if (is_loop && blocks_place_pending(watched, clock_now_ns(CLOCK_MONOTONIC)))
		return;
	if (is_loop && !watched->is_loop) {
		watched->is_loop = true;
		watched->own.shared = SHARED_NOT;
	}
	if (is_loop && looper_is_loop(slot))
		block_reports_release(&blocks->reports, watched->slot_id);
	if (!watched->start.told)
		return;
	/* It was found in a wait, and has waited in other places only since. */
	if (!is_loop && watched->loop_kind != LOOPER_WAIT_NONE && kind != LOOPER_WAIT_NONE &&
	    slot->loop_waits < 2 && slot->loop_changes >= NO_PLACE_CHANGES)
		blocks_own_none(blocks, watched, SHARED_NO_PLACE);
	if (is_loop && kind != watched->loop_kind) {
		watched->loop_kind = kind;
		blocks_tell_loop(blocks, watched, "target_loop");
	}
}

/* ---- the slot ---- */

static void tell_sampler(struct blocks_source *blocks, struct watched *watched)
{
	const struct sampler_watch watch = {
		.index = watched->index,
		.slot_id = watched->slot_id,
		.start_boot_ns = watched->tid == watched->pid ? watched->start_boot_ns : 0,
		.pid = watched->pid,
		.tid = watched->tid,
		.from_birth = watched->start.from_birth,
	};

	if (blocks->sampler)
		blocks_sampler_watch(blocks->sampler, &watch, watched->pidfd);
}

static int put_in(struct blocks_source *blocks, struct watched *watched)
{
	uint64_t boot_minus_mono_ns = (uint64_t)blocks_boot_minus_mono_ns();
	const struct looper_slot_start start = {
		.tid = (uint32_t)watched->tid,
		.tgid = (uint32_t)watched->pid,
		.detector = watched->detector,
		.block_ns = blocks->context.block_ns,
		.slot_id = watched->slot_id,
		/* Of a thread that is not the main thread the start is not known. */
		.thread_start_ns =
			watched->tid == watched->pid && watched->start_boot_ns > boot_minus_mono_ns
				? watched->start_boot_ns - boot_minus_mono_ns
				: 0,
		.watching_since_ns = blocks->born_mono_ns,
	};

	looper_slot_fill(&watched->start.slot, &start, &watched->start.standing);
	/* The loop of a thread that was found asleep in epoll is no candidate that gives way to the
	 * first wait inside a message. */
	if (watched->start.slot.loop_kind == LOOPER_WAIT_EPOLL ||
	    watched->start.slot.loop_kind == LOOPER_WAIT_URING)
		watched->start.slot.loop_waits = 2;
	/* Its first period begins with the process where that is younger than the recorder. */
	watched->start.from_birth =
		watched->start.slot.busy_since_ns &&
		watched->start.slot.busy_since_ns < watched->start.standing.before_mono_ns;
	return looper_kernel_watch(blocks->kernel, watched->index, &watched->start.slot);
}

static void settle(struct blocks_source *blocks, struct watched *watched,
		   const struct probe_standing *second)
{
	struct looper_slot now;

	watched->start.settled = true;
	/* A period that is begun so wakes nobody: the sampler looks again when it is told again. */
	if (looper_kernel_read(blocks->kernel, watched->index, &now) &&
	    looper_slot_settle(&now, &watched->start.slot, &watched->start.standing, second) &&
	    looper_kernel_correct(blocks->kernel, watched->index, &now) && now.busy_since_ns)
		tell_sampler(blocks, watched);
}

static void refuse(struct blocks_source *blocks, struct watched *watched, const char *why)
{
	watched->start.stage = WATCHED_REFUSED;
	snprintf(watched->probes.refused, sizeof(watched->probes.refused), "%s", why);
	blocks_wake_at(blocks, 0);
}

static void on_standing(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	bool first = watched->start.stage == WATCHED_ASKED;

	watched->start.request = 0;
	if (!err && answer->length < sizeof(watched->start.standing))
		err = -EIO;
	watched->start.gone = err == -ESRCH || err == -ENOENT;
	if (err) {
		if (first)
			watched->start.stage = WATCHED_WAITS;
		watched->start.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		/* A process that is gone is found by the next scan; others are asked again. */
		if (first && err != -ESRCH && err != -ENOENT && !blocks_try_again(err))
			refuse(blocks, watched, strerror(-err));
		return;
	}
	if (!first) {
		/* The thread may have left or entered its wait while the watch began. */
		struct probe_standing now;

		memcpy(&now, answer->data, sizeof(now));
		settle(blocks, watched, &now);
		return;
	}
	memcpy(&watched->start.standing, answer->data, sizeof(watched->start.standing));
	/* Its system calls have other numbers, its stack other words. */
	if (watched->start.standing.is_32_bit) {
		refuse(blocks, watched, "32-bit programs are not watched");
		return;
	}
	if (put_in(blocks, watched)) {
		refuse(blocks, watched, "the map of watched threads is full");
		return;
	}
	if (blocks->binder)
		binder_kernel_watch(blocks->binder, watched->pid);
	watched->start.stage = WATCHED_RUNS;
	watched->loop_kind = watched->start.slot.loop_kind;
	watched->is_loop = blocks_is_loop(&watched->start.slot);
	tell_sampler(blocks, watched);
	if (watched->loop_kind != LOOPER_WAIT_NONE)
		blocks_want_probes(blocks, watched, &watched->start.slot);
	blocks_start_watch(blocks, watched);
	blocks_wake_at(blocks, 0);
}

void blocks_start_watch(struct blocks_source *blocks, struct watched *watched)
{
	const struct probe_request request = blocks_request(watched, PROBE_STANDING);
	int64_t id;

	if (watched->start.request || watched->start.stage == WATCHED_REFUSED ||
	    (watched->start.stage == WATCHED_RUNS && watched->start.settled) ||
	    clock_now_ns(CLOCK_MONOTONIC) < watched->start.retry_ns)
		return;
	/* Thousands of targets may begin at once: the rest is asked for with a later look. */
	if (!probe_has_room(blocks->context.probes)) {
		watched->start.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		return;
	}
	watched->blocks = blocks;
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, PROBE_ATTACH_NS,
		       on_standing, watched);
	if (id < 0) {
		watched->start.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		return;
	}
	watched->start.request = id;
	if (watched->start.stage == WATCHED_WAITS)
		watched->start.stage = WATCHED_ASKED;
}

void blocks_start_over(struct blocks_source *blocks, struct watched *watched)
{
	/* A loop of the new program proves nothing of what the former one did. */
	block_reports_end(&blocks->reports, watched->slot_id);
	blocks_drop_probes(blocks, watched);
	memset(watched->probes.returns, 0, sizeof(watched->probes.returns));
	watched->probes.retry_ns = 0;
	watched->detector = blocks->options.detector == LOOPER_BY_SYSCALL ? LOOPER_BY_SYSCALL
									  : LOOPER_BY_SWITCH;
	/* A wait at a place that no probe knows is the switch program's in any case; without a
	 * loop there is nothing to tell. */
	watched->is_loop = false;
	watched->loop_kind = LOOPER_WAIT_NONE;
	if (watched->own.request)
		probe_cancel(blocks->context.probes, watched->own.request);
	memset(&watched->own, 0, sizeof(watched->own));
}

void blocks_stop_watch(struct blocks_source *blocks, struct watched *watched)
{
	/* A process that was gone before it could be looked at was a target all the same. */
	blocks_tell_start(blocks, watched);
	if (watched->start.request)
		probe_cancel(blocks->context.probes, watched->start.request);
	if (watched->own.request)
		probe_cancel(blocks->context.probes, watched->own.request);
	if (watched->closed.request)
		probe_cancel(blocks->context.probes, watched->closed.request);
	blocks_drop_probes(blocks, watched);
	if (watched->start.stage == WATCHED_RUNS)
		looper_kernel_unwatch(blocks->kernel, watched->index, watched->tid);
	if (watched->start.stage == WATCHED_RUNS && blocks->binder)
		binder_kernel_unwatch(blocks->binder, watched->pid);
	if (blocks->sampler)
		blocks_sampler_unwatch(blocks->sampler, watched->index, watched->slot_id);
	block_reports_end(&blocks->reports, watched->slot_id);
	blocks_watch_remove(blocks->watch, watched);
}
