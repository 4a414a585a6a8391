/* SPDX-License-Identifier: BSD-2-Clause */
/* When a watched thread is due: its slot tells since when it is busy, the schedule tells when to
 * sample, and a thread that idles wakes the sampler when it works again. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdint.h>

#include "abi/sched.h"
#include "prober/sampler_private.h"
#include "util/clock.h"

#define NEVER        UINT64_MAX
#define TORN_TICK_NS NSEC_PER_MSEC
/* A process is sampled before it is known to loop for this long after its birth. */
#define BIRTH_NS (10 * NSEC_PER_SEC)
/* How far apart looks at the chain of one sleep are. */
#define CHAIN_FIRST_NS NSEC_PER_SEC
#define CHAIN_MOST_NS  (4 * NSEC_PER_SEC)

static int on_event(void *ctx, void *data, size_t size)
{
	struct sampler_view *view = ctx;

	return size < sizeof(struct looper_event) ? 0 : view->wake(view->wake_ctx, data, size);
}

int sampler_view_open(struct sampler_view *view, const struct sampler_setup *setup, const int *fds,
		      size_t fd_count)
{
	int err;

	if (fd_count < 3 + 2 * (size_t)(!!setup->has_registers + !!setup->has_binder) ||
	    !setup->room || setup->room > LOOPER_MAX_WATCHED)
		return -EINVAL;
	*view = (struct sampler_view){
		.room = setup->room,
		.request = (enum stack_request)setup->request,
		.block_ns = setup->block_ns,
		.first_ns = stack_schedule_first_ns(setup->block_ns),
		.wakes_fd = fds[2],
	};
	err = looper_view_open(&view->loopers, fds[0], fds[1], setup->plain);
	if (err)
		return err;
	if (view->loopers.count < view->room)
		return -EINVAL;
	view->wakes = ring_buffer__new(fds[2], on_event, view, NULL);
	if (!view->wakes)
		return -errno;
	view->has_registers =
		setup->has_registers && !task_registers_open(&view->registers, fds[3], fds[4]);
	view->has_binder = setup->has_binder;
	if (view->has_binder) {
		fds += setup->has_registers ? 5 : 3;
		view->binder = (struct binder_fds){fds[0], fds[1]};
	}
	return 0;
}

void sampler_view_wakes(struct sampler_view *view, sampler_wake_fn wake, void *ctx)
{
	view->wake = wake;
	view->wake_ctx = ctx;
	ring_buffer__consume(view->wakes);
}

/* Have the kernel side say when the thread's next busy period begins. False: one has begun. */
static bool park(const struct sampler_view *view, struct sampler_row *row, uint64_t period)
{
	struct looper_slot *live = &view->loopers.slots[row->index];

	/* As include/abi/looper.h says: the flag is stored before the state is read again, and the
	 * kernel side stores the state before it reads the flag; one of both sees the other's. */
	__atomic_store_n(&live->parked, (uint32_t)period + 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&live->periods, __ATOMIC_SEQ_CST) == period;
}

bool sampler_row_parks(struct sampler_view *view, struct sampler_row *row)
{
	struct looper_slot slot;

	return looper_read_slot(&view->loopers, row->index, &slot) &&
	       slot.slot_id == row->slot_id && slot.loop_kind != LOOPER_WAIT_NONE &&
	       looper_is_idle(&slot) && park(view, row, slot.periods);
}

static bool wait_for_next_period(const struct sampler_view *view, struct sampler_row *row,
				 uint64_t now_ns)
{
	row->next_ns = park(view, row, row->slot.periods) ? NEVER : now_ns + view->first_ns;
	return false;
}

/* Behind 1, 2, 4 s of a wait for a futex, and each 4 s then. Of a binder call too: whom its server
 * waits for may have changed without a word of the driver, behind a lock. */
static bool chain_is_due(struct sampler_row *row, uint64_t now_ns)
{
	uint64_t after_ns = row->chain_ns - row->slot.off_ns;

	if ((row->slot.reason != LOOPER_REASON_FUTEX && row->slot.reason != LOOPER_REASON_BINDER) ||
	    row->chain_ns < row->slot.off_ns)
		return false;
	if (after_ns < CHAIN_FIRST_NS)
		after_ns = CHAIN_FIRST_NS;
	if (after_ns > CHAIN_MOST_NS)
		after_ns = CHAIN_MOST_NS;
	if (now_ns < row->chain_ns + after_ns)
		return false;
	row->chain_ns = now_ns;
	return true;
}

bool sampler_row_is_due(struct sampler_view *view, struct sampler_row *row, uint64_t now_ns)
{
	struct looper_slot *slot = &row->slot;

	row->chain_only = false;
	row->refuse = now_ns < row->left_alone_until_ns;
	if (!looper_read_slot(&view->loopers, row->index, slot)) {
		row->next_ns = now_ns + TORN_TICK_NS;
		return false;
	}
	if (slot->slot_id != row->slot_id) {
		row->next_ns = NEVER;
		return false;
	}
	/* One that has ended is idle too: another thread may take its place by execve. */
	if (looper_is_idle(slot) || slot->discarded == slot->periods)
		return wait_for_next_period(view, row, now_ns);
	if (row->period != slot->periods) {
		row->period = slot->periods;
		row->sampled_spell = SAMPLER_NO_SPELL;
		stack_schedule_start(&row->schedule, view->block_ns, slot->busy_since_ns);
	}
	/* A thread that has waited in no loop is never sampled: its period would not end. */
	if (slot->loop_kind == LOOPER_WAIT_NONE &&
	    !(row->from_birth && now_ns - slot->busy_since_ns < BIRTH_NS))
		return wait_for_next_period(view, row, now_ns);
	if (!slot->on_cpu && slot->off_state == OFF_CPU_STOPPED) {
		row->next_ns = now_ns + view->first_ns;
		return false;
	}
	if (row->schedule.due_ns > now_ns) {
		row->next_ns = row->schedule.due_ns;
		/* The next period may begin, and its first sample be due, before that. */
		if (row->next_ns - now_ns > view->first_ns && !park(view, row, slot->periods))
			row->next_ns = now_ns + view->first_ns;
		return false;
	}
	if (row->refuse) {
		bool again = row->refused_period == slot->periods;

		row->refused_period = slot->periods;
		row->next_ns = row->left_alone_until_ns;
		if (row->next_ns - now_ns > view->first_ns && !park(view, row, slot->periods))
			row->next_ns = now_ns + view->first_ns;
		return !again;
	}
	stack_schedule_taken(&row->schedule, now_ns);
	row->next_ns = row->schedule.due_ns;
	/* A thread that sleeps since its last sample has the same stack still, whose weight grows
	 * by itself. Whom it waits for may do something else by now. */
	row->only_chain = !slot->on_cpu && slot->spell == row->sampled_spell;
	if (row->only_chain && chain_is_due(row, now_ns))
		return true;
	if (row->only_chain) {
		if (!park(view, row, slot->periods))
			row->next_ns = now_ns + view->first_ns;
		/* But others may serve its call by now. */
		row->chain_only = view->has_binder && slot->reason == LOOPER_REASON_BINDER;
		return row->chain_only;
	}
	row->sampled_spell = slot->on_cpu ? SAMPLER_NO_SPELL : slot->spell;
	row->chain_ns = now_ns;
	/* The next period's first sample may be due long before this one's next. */
	if (row->next_ns - now_ns > view->first_ns && !park(view, row, slot->periods))
		row->next_ns = now_ns + view->first_ns;
	return true;
}
