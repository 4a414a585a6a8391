/* SPDX-License-Identifier: BSD-2-Clause */
#include "why/line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "record/telling.h"

#define LEAST_NS 50000 /* what a line tells in tenths of a millisecond */
#define NAME_LEN 64    /* of a process in a chain */

struct text {
	char *to;
	size_t size, length;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->to + text->length, text->size - text->length, format, arguments);
	va_end(arguments);
	if (length > 0)
		text->length += (size_t)length;
	if (text->length >= text->size)
		text->length = text->size - 1;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

const char *why_cause_words(enum jank_cause cause)
{
	static const char *const words[JANK_CAUSES] = {
		[JANK_CAUSE_UNKNOWN] = "unknown",
		[JANK_CAUSE_MAIN_CPU] = "CPU-bound main",
		[JANK_CAUSE_RENDER_CPU] = "CPU-bound render",
		[JANK_CAUSE_NO_CPU] = "no CPU",
		[JANK_CAUSE_BINDER] = "binder",
		[JANK_CAUSE_LOCK] = "lock",
		[JANK_CAUSE_IO] = "I/O",
		[JANK_CAUSE_PAGE_FAULT] = "page faults",
		[JANK_CAUSE_GPU] = "GPU wait",
		[JANK_CAUSE_SURFACEFLINGER] = "SurfaceFlinger",
		[JANK_CAUSE_HWC] = "display HAL",
		[JANK_CAUSE_STUFFING] = "buffer stuffing",
	};

	return words[cause < JANK_CAUSES ? cause : JANK_CAUSE_UNKNOWN];
}

static uint64_t reason_ns(const struct jank_thread *thread, const char *reason)
{
	for (size_t i = 0; i < thread->reason_count; i++)
		if (!strcmp(thread->reasons[i].reason, reason))
			return thread->reasons[i].ns;
	return 0;
}

static void put_thread(struct text *text, const struct jank_thread *thread)
{
	if (thread->role == JANK_ROLE_MAIN)
		put(text, "main");
	else
		put(text, "%.*s", RECORD_COMM_LEN, thread->thread);
}

/* In how many of the samples the function that tells was met, of those in the same state. */
static void put_samples(struct text *text, const struct record_jank *jank,
			const struct record_stack *stack)
{
	uint64_t all = 0, of_it = 0;

	for (size_t i = 0; i < jank->stack_count; i++) {
		const struct record_stack *other = &jank->stacks[i];

		if (other->tid != stack->tid || other->asleep != stack->asleep)
			continue;
		all += other->samples;
		if (other == stack || telling_same(other, stack))
			of_it += other->samples;
	}
	if (of_it && !stack->asleep)
		put(text, " (%llu of %llu sample%s)", (unsigned long long)of_it,
		    (unsigned long long)all, all == 1 ? "" : "s");
}

static void put_stack(struct text *text, const struct record_jank *jank)
{
	const struct record_stack *stack;
	size_t frames[2], count;

	if (!jank->top.present || jank->top.value >= jank->stack_count)
		return;
	stack = &jank->stacks[jank->top.value];
	count = telling_path(stack, false, frames, 2);
	for (size_t i = count; i > 0; i--) {
		char name[120];

		frame_name(name, sizeof(name), &stack->frames[frames[i - 1]]);
		put(text, "%s%s", i == count ? ": " : " < ", name);
	}
	if (count)
		put_samples(text, jank, stack);
}

/* The chain: each waits for the next. words: before the holder of a lock that is its first. False:
 * there is none, or it is one of another wait. */
static bool put_chain(struct text *text, const struct record_jank *jank, const char *words)
{
	bool is_call = jank->chain_count && jank->chain[0].how == LINK_BINDER;
	/* Who serves the call is said before. */
	size_t from = jank->cause == JANK_CAUSE_BINDER;

	if (is_call != (jank->cause == JANK_CAUSE_BINDER))
		return false;
	for (size_t i = from; i < jank->chain_count; i++) {
		const struct block_link *link = &jank->chain[i];
		const char *name = link->thread;

		if (link->how == LINK_BINDER && link->process)
			name = link->process;
		put(text, "%s%.*s",
		    link->how == LINK_BINDER ? ", which calls "
		    : i > from               ? ", which waits for "
		    : link->how == LINK_LOCK ? words
					     : ", for ",
		    NAME_LEN, name);
	}
	if (jank->chain_cut)
		put(text, " and so on");
	if (jank->deadlock)
		put(text, " (deadlock)");
	return jank->chain_count > from || jank->deadlock;
}

/* The last word on a wait: who ended it, or who served the call. */
static void put_culprit(struct text *text, const struct record_jank *jank, const char *words)
{
	const struct record_thread *culprit = &jank->culprit;

	if (culprit->present && culprit->process)
		put(text, "%s%.*s of %s", words, RECORD_COMM_LEN, culprit->thread,
		    culprit->process);
	else if (culprit->present)
		put(text, "%s%.*s", words, RECORD_COMM_LEN, culprit->thread);
}

static void put_binder(struct text *text, const struct record_jank *jank,
		       const struct jank_thread *thread)
{
	const struct block_link *link = jank->chain_count ? &jank->chain[0] : NULL;

	put_thread(text, thread);
	put(text, " in binder");
	if (link && link->how == LINK_BINDER && link->process)
		put(text, " to %s", link->process);
	put(text, " %.1f ms", ms(reason_ns(thread, "binder")));
	if (link && link->queued_ns.present)
		put(text, " (queued %.1f)", ms(link->queued_ns.value));
	if (!put_chain(text, jank, ": lock held by "))
		put_culprit(text, jank, ", ended by ");
}

static void put_no_cpu(struct text *text, const struct jank_thread *thread)
{
	uint64_t throttled_ns = reason_ns(thread, "throttled");
	bool throttled = throttled_ns >= LEAST_NS, any = false;

	put_thread(text, thread);
	put(text, " waited %.1f ms for a CPU", ms(thread->ledger.runnable_ns));
	if (throttled)
		put(text, ": throttled by its cgroup (%.1f)", ms(throttled_ns));
	for (size_t i = 0;
	     i < thread->preemptor_count && i < 3 && thread->preemptors[i].ns >= LEAST_NS; i++) {
		const struct block_preemptor *row = &thread->preemptors[i];

		/* The others' time is the throttled one's. */
		if (throttled && !row->tid)
			continue;
		put(text, "%s%.*s (%.1f)",
		    any         ? ", "
		    : throttled ? ", behind "
				: ": behind ",
		    RECORD_COMM_LEN, row->thread, ms(row->ns));
		any = true;
	}
}

static void put_cause(struct text *text, const struct record_jank *jank,
		      const struct jank_thread *thread)
{
	double window = ms(jank->window_end_ns - jank->window_start_ns);

	switch (jank->cause) {
	case JANK_CAUSE_MAIN_CPU:
	case JANK_CAUSE_RENDER_CPU:
		put_thread(text, thread);
		put(text, " ran %.1f of %.1f ms", ms(thread->ledger.running_ns), window);
		put_stack(text, jank);
		return;
	case JANK_CAUSE_NO_CPU:
		put_no_cpu(text, thread);
		return;
	case JANK_CAUSE_BINDER:
		put_binder(text, jank, thread);
		return;
	case JANK_CAUSE_LOCK:
		put_thread(text, thread);
		put(text, " waited %.1f ms for a lock", ms(reason_ns(thread, "futex")));
		if (!put_chain(text, jank, " held by "))
			put_culprit(text, jank, ", ended by ");
		put_stack(text, jank);
		return;
	case JANK_CAUSE_IO:
		put_thread(text, thread);
		put(text, " waited %.1f ms for I/O",
		    ms(reason_ns(thread, "io") + reason_ns(thread, "read") +
		       reason_ns(thread, "poll")));
		put_culprit(text, jank, ", ended by ");
		return;
	case JANK_CAUSE_PAGE_FAULT:
		put_thread(text, thread);
		put(text, " waited %.1f ms for page faults", ms(reason_ns(thread, "page_fault")));
		return;
	case JANK_CAUSE_SURFACEFLINGER:
	case JANK_CAUSE_HWC:
		put_thread(text, thread);
		put(text, " ran %.1f ms", ms(thread->ledger.running_ns));
		if (thread->ledger.runnable_ns >= 1000000)
			put(text, ", waited %.1f for a CPU", ms(thread->ledger.runnable_ns));
		return;
	default:
		put(text, "%s", why_cause_words(jank->cause));
	}
}

/* What the frame waited for longest, which nothing explains. */
static void put_unknown(struct text *text, const struct record_jank *jank)
{
	const struct jank_thread *thread = NULL;
	const struct jank_ledger *ledger;
	uint64_t asleep_ns;

	put(text, "cause not known");
	for (size_t i = 0; i < jank->thread_count; i++) {
		const struct jank_thread *one = &jank->threads[i];

		if (one->critical_ns.present &&
		    (!thread || one->critical_ns.value > thread->critical_ns.value))
			thread = one;
	}
	if (!thread)
		return;
	put(text, ": ");
	put_thread(text, thread);
	ledger = &thread->ledger;
	asleep_ns = ledger->sleeping_ns + ledger->uninterruptible_ns;
	if (ledger->unknown_ns > asleep_ns && ledger->unknown_ns > ledger->stopped_ns) {
		put(text, " was not recorded for %.1f ms", ms(ledger->unknown_ns));
	} else if (ledger->stopped_ns > asleep_ns) {
		put(text, " was stopped for %.1f ms", ms(ledger->stopped_ns));
	} else {
		put(text, " slept %.1f of %.1f ms", ms(asleep_ns),
		    ms(jank->window_end_ns - jank->window_start_ns));
		if (thread->waker.present)
			put(text, ", ended by %.*s", RECORD_COMM_LEN, thread->waker.thread);
	}
}

const char *why_line(const struct record_jank *jank, char *to, size_t size)
{
	struct text text = {to, size, 0};
	bool display = jank->cause == JANK_CAUSE_SURFACEFLINGER || jank->cause == JANK_CAUSE_HWC;
	const struct jank_thread *thread = NULL;

	to[0] = 0;
	if (jank->cause_thread.present && jank->cause_thread.value < jank->thread_count)
		thread = &jank->threads[jank->cause_thread.value];
	if (jank->dropped)
		put(&text, "dropped  ");
	else
		put(&text, "+%4.1f ms ", ms(jank->late_ns));
	put(&text, " %-5s ", display ? "sf" : "app");
	if (!jank->cause)
		put_unknown(&text, jank);
	else if (thread)
		put_cause(&text, jank, thread);
	else
		put(&text, "%s", why_cause_words(jank->cause));
	if (jank->second_cause)
		put(&text, "; and %s", why_cause_words(jank->second_cause));
	if (display && jank->expected_end_ns.present &&
	    jank->actual_end_ns <= jank->expected_end_ns.value)
		put(&text, "; app was in time");
	return to;
}

void why_totals_add(struct why_totals *totals, const struct record_jank *jank)
{
	struct why_total *total =
		&totals->causes[jank->cause < JANK_CAUSES ? jank->cause : JANK_CAUSE_UNKNOWN];

	totals->frames++;
	totals->late_ns += jank->late_ns;
	total->frames++;
	total->late_ns += jank->late_ns;
}

const char *why_totals_line(const struct why_totals *totals, char *to, size_t size)
{
	struct text text = {to, size, 0};
	bool told[JANK_CAUSES] = {false}, first = true;

	to[0] = 0;
	put(&text, "why late: %llu frame%s, %.0f ms ", (unsigned long long)totals->frames,
	    totals->frames == 1 ? "" : "s", ms(totals->late_ns));
	for (int n = 0; n < JANK_CAUSES; n++) {
		int most = -1;

		for (int i = 0; i < JANK_CAUSES; i++)
			if (!told[i] && totals->causes[i].frames &&
			    (most < 0 || totals->causes[i].late_ns > totals->causes[most].late_ns))
				most = i;
		if (most < 0)
			break;
		told[most] = true;
		put(&text, "  %s %llu (%.0f%s)", why_cause_words((enum jank_cause)most),
		    (unsigned long long)totals->causes[most].frames,
		    ms(totals->causes[most].late_ns), first ? " ms" : "");
		first = false;
	}
	return to;
}
