/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "abi/sched.h"
#include "source/blocks_source.h"
#include "source/lock_owner.h"
#include "source/wait_stub.h"
#include "util/clock.h"

#define FROZEN_TICK_NS (50 * NSEC_PER_MSEC)

static uint64_t first_sample_ns(uint64_t block_ns)
{
	uint64_t fifth_ns = block_ns / 5;

	return fifth_ns < 100 * NSEC_PER_MSEC ? fifth_ns : 100 * NSEC_PER_MSEC;
}

/* ---- events of the kernel side ---- */

static int begin_period(struct blocks_source *blocks, struct watched *watched, uint64_t period,
			uint64_t begin_ns)
{
	int err = 0;

	if (!watched->tracking || watched->period != period) {
		err = blocks_drop_samples(blocks, watched);
		watched->tracking = true;
		watched->period = period;
		watched->begin_ns = 0;
		watched->boot_minus_mono_ns = blocks_boot_minus_mono_ns();
		watched->load = (struct watched_load){0};
		watched->reported_open = watched->reported_anr = false;
		watched->sampled_spell = 0;
	}
	if (!watched->begin_ns && begin_ns) {
		watched->begin_ns = begin_ns;
		stack_schedule_start(&watched->samples.schedule, blocks->context.block_ns,
				     begin_ns);
	}
	return err;
}

/* It ended before the thread was known to be a loop: it is a block if that becomes known. */
static int hold_period(struct watched *watched, const struct looper_period_event *period)
{
	if (!watched->held)
		watched->held = malloc(sizeof(*watched->held));
	if (!watched->held)
		return -ENOMEM;
	*watched->held = *period;
	return 0;
}

static int tell_held(struct blocks_source *blocks, struct watched *watched)
{
	struct looper_period_event *held = watched->held;
	int err;

	if (!held)
		return 0;
	watched->held = NULL;
	err = blocks_report(blocks, watched, held,
			    held->flags & LOOPER_EVENT_EXITED ? BLOCK_EXITED : BLOCK_CLOSED, 0, 0);
	free(held);
	return err;
}

int blocks_on_event(void *ctx, const struct looper_event *event, size_t size)
{
	struct blocks_source *blocks = ctx;
	struct watched *watched = blocks_watch_at(blocks->watch, event->index);

	if (!watched || watched->slot_id != event->start_boot_ns)
		return 0;
	switch (event->type) {
	case LOOPER_EVENT_PERIOD:
		if (size < sizeof(struct looper_period_event))
			return 0;
		if (((const struct looper_period_event *)event)->flags & LOOPER_EVENT_UNKNOWN_LOOP)
			return hold_period(watched, (const struct looper_period_event *)event);
		return blocks_report(blocks, watched, (const struct looper_period_event *)event,
				     ((const struct looper_period_event *)event)->flags &
						     LOOPER_EVENT_EXITED
					     ? BLOCK_EXITED
					     : BLOCK_CLOSED,
				     0, 0);
	case LOOPER_EVENT_LOOP:
		if (size < sizeof(struct looper_loop_event))
			return 0;
		return tell_held(blocks, watched);
	case LOOPER_EVENT_SPELL:
		if (size < sizeof(struct looper_spell_event))
			return 0;
		/* Of the period that is followed, or of one that no tick has met yet. */
		if (begin_period(blocks, watched, event->period, 0))
			return -ENOMEM;
		return block_spells_add(&watched->spells, (const struct looper_spell_event *)event);
	}
	return 0;
}

/* ---- looking at one thread ---- */

static bool spell_is_open(const struct looper_slot *slot, uint64_t *since_ns)
{
	*since_ns = slot->off_ns;
	return !slot->on_cpu && slot->off_state != OFF_CPU_RUNNABLE && slot->off_ns;
}

static void ask_for_owner(struct blocks_source *blocks, struct watched *watched,
			  const struct looper_slot *slot)
{
	struct stack_thread thread = {.pid = watched->pid, .pidfd = watched->pidfd};
	pid_t owner;

	if (slot->reason != LOOPER_REASON_FUTEX)
		return;
	owner = lock_owner(blocks->context.calls, watched->pid, watched->pid, slot->arguments[0],
			   (uint32_t)slot->arguments[1]);
	if (owner <= 0)
		return;
	blocks_watch_set_owner(watched, owner);
	thread.tid = owner;
	if (blocks->stacks)
		blocks_stacks_sample(blocks->stacks, &thread, 0, true, &watched->samples);
}

static void take_sample(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot, uint64_t now_ns)
{
	struct stack_thread thread = {
		.pid = watched->pid,
		.tid = watched->pid,
		.pidfd = watched->pidfd,
		.start_boot_ns = watched->start_boot_ns,
	};
	uint64_t spell = slot->on_cpu ? 0 : slot->spell;

	stack_schedule_taken(&watched->samples.schedule, now_ns);
	/* It has not moved since: the stack is the same, and its weight grows by itself. */
	if (spell && spell == watched->sampled_spell)
		return;
	watched->sampled_spell = spell;
	if (blocks->stacks)
		blocks_stacks_sample(blocks->stacks, &thread, spell, false, &watched->samples);
	if (spell)
		ask_for_owner(blocks, watched, slot);
}

/* The epoll that it was keyed on is gone, and it waits on another: that is its looper now. */
static bool relearn(struct blocks_source *blocks, struct watched *watched,
		    const struct looper_slot *slot)
{
	if (slot->waiting_kind == LOOPER_WAIT_NONE || slot->waiting_own || slot->on_cpu ||
	    slot->loop_kind != LOOPER_WAIT_EPOLL || wait_is_epoll(watched->pid, slot->loop_fd))
		return false;
	looper_kernel_loop_closed(blocks->kernel, watched->index);
	return true;
}

int blocks_report_open(struct blocks_source *blocks, struct watched *watched,
		       const struct looper_slot *slot, uint64_t now_ns)
{
	struct looper_period_event period;
	uint64_t since_ns;
	bool open = spell_is_open(slot, &since_ns);

	block_period_now(slot, now_ns, &period);
	return blocks_report(blocks, watched, &period, BLOCK_OPEN, open ? slot->spell : 0,
			     open ? since_ns : 0);
}

static uint64_t stopped_ns(const struct watched *watched, const struct looper_slot *slot,
			   uint64_t now_ns)
{
	uint64_t ns = slot->sums.stopped_ns + watched->frozen_ns;

	if (!slot->on_cpu && slot->off_state == OFF_CPU_STOPPED && now_ns > slot->off_ns)
		ns += now_ns - slot->off_ns;
	return ns;
}

/* Looks are some 50 ms apart: a change counts from half way between two of them. */
static bool find_frozen(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot, uint64_t now_ns)
{
	uint64_t looked_ns = watched->looked_ns > slot->off_ns ? watched->looked_ns : slot->off_ns;
	bool frozen = !slot->on_cpu && slot->off_state != OFF_CPU_RUNNABLE &&
		      slot->off_state != OFF_CPU_STOPPED &&
		      looper_kernel_is_frozen(blocks->kernel, watched->index);

	if (frozen && watched->frozen_seen_ns)
		watched->frozen_ns += now_ns - watched->frozen_seen_ns;
	else if (frozen && now_ns > looked_ns)
		watched->frozen_ns += (now_ns - looked_ns) / 2;
	else if (watched->frozen_seen_ns)
		watched->frozen_ns += (now_ns - watched->frozen_seen_ns) / 2;
	watched->frozen_seen_ns = frozen ? now_ns : 0;
	watched->looked_ns = now_ns;
	return frozen;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int blocks_look_at(struct blocks_source *blocks, struct watched *watched, uint64_t now_ns,
		   uint64_t *next_ns)
{
	uint64_t block_ns = blocks->context.block_ns, age_ns, begin_ns;
	struct looper_slot slot;
	bool idle, frozen;
	int err = 0;

	looper_kernel_mark(blocks->kernel, watched->index, watched->pid);
	if (!watched->settled)
		blocks_watch_settle(blocks->watch, watched, blocks->kernel);
	if (!looper_kernel_read(blocks->kernel, watched->index, &slot)) {
		*next_ns = sooner(*next_ns, now_ns + BLOCKS_MIN_TICK_NS);
		return 0;
	}
	/* Others were looked at since: the slot's sums are of now, not of then. */
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	idle = looper_is_idle(&slot) || relearn(blocks, watched, &slot);
	/* How its period ended may have come to the ring since that was emptied last. */
	if (watched->tracking && (idle || slot.periods != watched->period)) {
		uint64_t period = watched->period;

		err = looper_kernel_events(blocks->kernel, blocks_on_event, blocks);
		if (!err && watched->tracking && watched->period == period)
			err = blocks_drop_samples(blocks, watched);
		if (err)
			return err;
	}
	if (idle) {
		/* Asleep in its poll: it wakes us when it works again, so an idle app costs
		 * nothing. */
		__atomic_store_n(&looper_kernel_slot(blocks->kernel, watched->index)->parked, 1,
				 __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!looper_is_idle(looper_kernel_slot(blocks->kernel, watched->index)))
			*next_ns = sooner(*next_ns, now_ns + first_sample_ns(block_ns));
		return 0;
	}
	/* It has waited in no loop so far, so what it does is no message. */
	if (slot.loop_kind == LOOPER_WAIT_NONE)
		return 0;
	/* An event of a later one was there already: look again at once. */
	if (watched->tracking && watched->period > slot.periods) {
		*next_ns = sooner(*next_ns, now_ns + BLOCKS_MIN_TICK_NS);
		return 0;
	}
	err = begin_period(blocks, watched, slot.periods, slot.busy_since_ns);
	if (err)
		return err;
	frozen = find_frozen(blocks, watched, &slot, now_ns);
	begin_ns = slot.busy_since_ns + stopped_ns(watched, &slot, now_ns);
	age_ns = now_ns > begin_ns ? now_ns - begin_ns : 0;
	if (frozen || (!slot.on_cpu && slot.off_state == OFF_CPU_STOPPED)) {
		*next_ns = sooner(*next_ns,
				  now_ns + (frozen ? FROZEN_TICK_NS : first_sample_ns(block_ns)));
		return 0;
	}
	if (watched->samples.schedule.due_ns <= now_ns) {
		if (!watched->load.mono_ns)
			watched->load = blocks_watch_load(watched, blocks->sched);
		take_sample(blocks, watched, &slot, now_ns);
	}
	if (age_ns >= block_ns && !watched->reported_open && looper_is_loop(&slot)) {
		watched->reported_open = true;
		watched->reported_anr = age_ns >= BLOCK_ANR_NS;
		err = blocks_report_open(blocks, watched, &slot, now_ns);
	} else if (age_ns >= BLOCK_ANR_NS && watched->reported_open && !watched->reported_anr) {
		watched->reported_anr = true;
		err = blocks_report_open(blocks, watched, &slot, now_ns);
	}
	*next_ns = sooner(*next_ns, watched->samples.schedule.due_ns);
	if (!watched->reported_open)
		*next_ns = sooner(*next_ns, begin_ns + block_ns);
	else if (!watched->reported_anr)
		*next_ns = sooner(*next_ns, begin_ns + BLOCK_ANR_NS);
	return err;
}
