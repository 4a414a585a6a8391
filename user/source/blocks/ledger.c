/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi/sched.h"

static const char *const reason_texts[LOOPER_REASON_MAX] = {
	[LOOPER_REASON_OTHER] = "other",
	[LOOPER_REASON_FUTEX] = "futex",
	[LOOPER_REASON_BINDER] = "binder",
	[LOOPER_REASON_POLL] = "poll",
	[LOOPER_REASON_READ] = "pipe",
	[LOOPER_REASON_IO] = "io",
	[LOOPER_REASON_PAGE_FAULT] = "page_fault",
	[LOOPER_REASON_SLEEP] = "sleep",
	[LOOPER_REASON_CHILD] = "child",
	[LOOPER_REASON_THROTTLED] = "throttled",
	[LOOPER_REASON_STOPPED] = "stopped",
	[LOOPER_REASON_FROZEN] = "frozen",
	[LOOPER_REASON_UNSEEN] = "unseen",
};

const char *block_reason_text(uint32_t reason)
{
	const char *text = reason < LOOPER_REASON_MAX ? reason_texts[reason] : NULL;

	return text ? text : "other";
}

int block_spells_add(struct block_spells *spells, const struct looper_spell_event *event)
{
	struct block_spell *spell;

	if (spells->count == BLOCK_SPELLS) {
		spells->dropped++;
		return 0;
	}
	if (spells->count == spells->room) {
		size_t room = spells->room ? 2 * spells->room : 16;
		struct block_spell *more = realloc(spells->items, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		spells->items = more;
		spells->room = room;
	}
	spell = &spells->items[spells->count++];
	*spell = (struct block_spell){
		.spell = event->spell,
		.begin_ns = event->head.begin_ns,
		.end_ns = event->head.end_ns,
		.wait_ns = event->wait_ns,
		.state = event->state,
		.reason = event->reason,
		.syscall_nr = event->syscall_nr,
		.waker_tid = event->waker_tid,
		.waker_tgid = event->waker_tgid,
	};
	memcpy(spell->waker, event->waker_comm, sizeof(spell->waker));
	spell->waker[sizeof(spell->waker) - 1] = 0;
	return 0;
}

const struct block_spell *block_spells_find(const struct block_spells *spells, uint64_t spell)
{
	/* In the order of the switches, so the numbers rise. */
	size_t low = 0, high = spells->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (spells->items[middle].spell < spell)
			low = middle + 1;
		else
			high = middle;
	}
	return low < spells->count && spells->items[low].spell == spell ? &spells->items[low]
									: NULL;
}

void block_spells_free(struct block_spells *spells)
{
	free(spells->items);
	*spells = (struct block_spells){0};
}

void block_period_now(const struct looper_slot *slot, uint64_t now_ns,
		      struct looper_period_event *period)
{
	uint64_t switched_ns = slot->on_cpu ? slot->in_ns : slot->off_ns;
	uint64_t cpu_ns = slot->out_cpu_ns, off_ns = 0;

	/* The slot was copied after its reader looked at the clock: its sums reach to its last
	 * switch, and so does the period. */
	if (now_ns < switched_ns)
		now_ns = switched_ns;
	if (slot->on_cpu)
		cpu_ns = slot->in_cpu_ns + (now_ns - slot->in_ns);
	else if (slot->off_ns)
		off_ns = now_ns - slot->off_ns;
	*period = (struct looper_period_event){
		.head = {.type = LOOPER_EVENT_PERIOD,
			 .slot_id = slot->slot_id,
			 .period = slot->periods,
			 .begin_ns = slot->busy_since_ns,
			 .end_ns = now_ns},
		.loop_kind = slot->loop_kind,
		.loop_fd = slot->loop_fd,
		.cpu_ns = cpu_ns > slot->begin_cpu_ns ? cpu_ns - slot->begin_cpu_ns : 0,
		.delay_ns = LOOPER_DELAY_UNKNOWN,
		.sums = slot->sums,
		.preempted_other_ns = slot->preempted_other_ns,
	};
	if (slot->detector == LOOPER_BY_SWITCH || slot->merged)
		period->flags |= LOOPER_EVENT_MERGED;
	memcpy(period->preemptors, slot->preemptors, sizeof(period->preemptors));
	/* A spell that began before the period is the wait in poll that the period came out of. */
	if (off_ns > now_ns - slot->busy_since_ns)
		off_ns = now_ns - slot->busy_since_ns;
	switch (slot->off_state) {
	case OFF_CPU_RUNNABLE:
		period->sums.runnable_ns += off_ns;
		return;
	case OFF_CPU_UNINTERRUPTIBLE:
		period->sums.uninterruptible_ns += off_ns;
		break;
	case OFF_CPU_STOPPED:
		period->sums.stopped_ns += off_ns;
		break;
	default:
		period->sums.sleeping_ns += off_ns;
	}
	period->sums.reason_ns[slot->reason % LOOPER_REASON_MAX] += off_ns;
}

static int compare_reasons(const void *a, const void *b)
{
	const struct block_reason *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static int compare_preemptors(const void *a, const void *b)
{
	const struct block_preemptor *x = a, *y = b;

	return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static int fill_reasons(struct record_block *block, const struct looper_sums *sums)
{
	block->reasons = calloc(LOOPER_REASON_MAX, sizeof(*block->reasons));
	if (!block->reasons)
		return -ENOMEM;
	for (uint32_t i = 0; i < LOOPER_REASON_MAX; i++)
		if (sums->reason_ns[i])
			block->reasons[block->reason_count++] =
				(struct block_reason){block_reason_text(i), sums->reason_ns[i]};
	qsort(block->reasons, block->reason_count, sizeof(*block->reasons), compare_reasons);
	return 0;
}

static int fill_preemptors(struct record_block *block, const struct looper_period_event *period,
			   const char *(*name)(void *ctx, pid_t pid), void *ctx)
{
	block->preemptors = calloc(LOOPER_PREEMPTORS + 1, sizeof(*block->preemptors));
	if (!block->preemptors)
		return -ENOMEM;
	for (int i = 0; i < LOOPER_PREEMPTORS; i++) {
		const struct looper_preemptor *row = &period->preemptors[i];
		struct block_preemptor *out = &block->preemptors[block->preemptor_count];

		if (!row->ns)
			continue;
		out->tid = (pid_t)row->tid;
		out->ns = row->ns;
		memcpy(out->thread, row->comm, sizeof(out->thread) - 1);
		out->process = name ? name(ctx, (pid_t)row->tgid) : NULL;
		block->preemptor_count++;
	}
	if (period->preempted_other_ns)
		block->preemptors[block->preemptor_count++] = (struct block_preemptor){
			.thread = "others", .ns = period->preempted_other_ns};
	qsort(block->preemptors, block->preemptor_count, sizeof(*block->preemptors),
	      compare_preemptors);
	return 0;
}

static uint64_t slept_ns(const struct block_spell *spell)
{
	uint64_t ns = spell->end_ns - spell->begin_ns;

	return ns > spell->wait_ns ? ns - spell->wait_ns : 0;
}

const struct block_spell *block_spells_longest(const struct block_spells *spells)
{
	const struct block_spell *longest = NULL;

	for (size_t i = 0; i < spells->count; i++) {
		const struct block_spell *spell = &spells->items[i];

		if (spell->state != OFF_CPU_RUNNABLE &&
		    (!longest || slept_ns(longest) < slept_ns(spell)))
			longest = spell;
	}
	return longest;
}

/* Insertion into the few longest. */
static int fill_sleeps(struct record_block *block, const struct block_spells *spells,
		       int64_t boot_minus_mono_ns, const char *(*name)(void *ctx, pid_t pid),
		       void *ctx)
{
	const struct block_spell *longest[BLOCK_SLEEPS];
	size_t count = 0;

	for (size_t i = 0; i < spells->count; i++) {
		const struct block_spell *spell = &spells->items[i];
		size_t at = count;

		if (spell->state == OFF_CPU_RUNNABLE)
			continue;
		while (at && slept_ns(longest[at - 1]) < slept_ns(spell))
			at--;
		if (at == BLOCK_SLEEPS)
			continue;
		if (count < BLOCK_SLEEPS)
			count++;
		memmove(&longest[at + 1], &longest[at], (count - at - 1) * sizeof(*longest));
		longest[at] = spell;
	}
	block->sleeps = calloc(count + 1, sizeof(*block->sleeps));
	if (!block->sleeps)
		return -ENOMEM;
	block->sleep_count = count;
	for (size_t i = 0; i < count; i++) {
		struct block_sleep *out = &block->sleeps[i];

		out->t_boot_ns = longest[i]->begin_ns + (uint64_t)boot_minus_mono_ns;
		out->ns = slept_ns(longest[i]);
		out->reason = block_reason_text(longest[i]->reason);
		if (longest[i]->syscall_nr >= 0)
			out->syscall = SOME_I64(longest[i]->syscall_nr);
		out->waker_tid = (pid_t)longest[i]->waker_tid;
		out->waker_pid = (pid_t)longest[i]->waker_tgid;
		memcpy(out->waker, longest[i]->waker, sizeof(out->waker));
	}
	/* One that a timer or an interrupt ended has none. */
	if (count && longest[0]->waker_tid) {
		block->waker.present = true;
		block->waker.tid = (pid_t)longest[0]->waker_tid;
		block->waker.pid = (pid_t)longest[0]->waker_tgid;
		memcpy(block->waker.thread, longest[0]->waker, sizeof(block->waker.thread));
		block->waker.process = name ? name(ctx, block->waker.pid) : NULL;
	}
	return 0;
}

int block_ledger_fill(struct record_block *block, const struct looper_period_event *period,
		      const struct block_spells *spells, int64_t boot_minus_mono_ns,
		      const char *(*name)(void *ctx, pid_t pid), void *ctx)
{
	uint64_t active_ns, off_ns, runnable_ns = period->sums.runnable_ns;
	int err;

	/* The kernel's own sum of its waits for a CPU is right where not all switches were seen
	 * (bpf/README.md says where). Time without quota is in no such sum. */
	if (period->delay_ns != LOOPER_DELAY_UNKNOWN &&
	    (period->delay_ns > runnable_ns || !period->sums.reason_ns[LOOPER_REASON_THROTTLED]))
		runnable_ns = period->delay_ns;
	block->start_boot_ns = period->head.begin_ns + (uint64_t)boot_minus_mono_ns;
	block->wall_ns = period->head.end_ns - period->head.begin_ns;
	block->merged = period->flags & LOOPER_EVENT_MERGED;
	block->cpu_ns = SOME_U64(period->cpu_ns);
	block->ledger.runnable_ns = runnable_ns;
	block->ledger.sleeping_ns = period->sums.sleeping_ns;
	block->ledger.uninterruptible_ns = period->sums.uninterruptible_ns;
	block->ledger.stopped_ns = period->sums.stopped_ns;
	off_ns = runnable_ns + period->sums.sleeping_ns + period->sums.uninterruptible_ns +
		 period->sums.stopped_ns;
	/* What is left it held a CPU; cpu_ns leaves out what interrupts and the hypervisor took. */
	block->ledger.running_ns = block->wall_ns > off_ns ? block->wall_ns - off_ns : 0;
	active_ns = block->wall_ns > period->sums.stopped_ns
			    ? block->wall_ns - period->sums.stopped_ns
			    : 0;
	block->class = active_ns >= BLOCK_ANR_NS    ? BLOCK_ANR
		       : active_ns >= BLOCK_LONG_NS ? BLOCK_LONG
						    : BLOCK_SHORT;
	err = fill_reasons(block, &period->sums);
	if (!err)
		err = fill_preemptors(block, period, name, ctx);
	if (!err && spells)
		err = fill_sleeps(block, spells, boot_minus_mono_ns, name, ctx);
	if (!err && spells)
		err = counter_list_add(&block->lost, "block_spells_dropped", spells->dropped);
	return err;
}

void block_ledger_free(struct record_block *block)
{
	free(block->reasons);
	free(block->preemptors);
	free(block->sleeps);
	block->reasons = NULL;
	block->preemptors = NULL;
	block->sleeps = NULL;
	counter_list_free(&block->lost);
	missing_list_free(&block->missing);
}
