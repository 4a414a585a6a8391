/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/session.h"

#define MS 1000000ull

/* A source whose losses and records the test chooses, and a sink that looks at what comes. */
struct fake {
	struct source base;
	const struct source_context *context;
	unsigned samples;
	uint64_t block_seq;
};

static const struct loss_info items[] = {{"fake_late", LOSS_LATE, LOSS_OF_NOTHING}};
static const struct loss_table table = {items, 1, NULL};

static int fake_open(struct source *source, const struct source_context *context)
{
	((struct fake *)source)->context = context;
	return 0;
}

/* Each reading loses something, the one of the baseline too. */
static int fake_sample(struct source *source, struct record_interval *interval)
{
	struct fake *fake = (struct fake *)source;
	struct record_block block = {.state = BLOCK_CLOSED};
	struct record record = {.type = RECORD_BLOCK, .block = &block};

	fake->samples++;
	if (counter_list_add(&interval->lost, "fake_not_watched", fake->samples == 1 ? 45 : 1) ||
	    counter_list_add(&interval->lost, "fake_late", 2))
		return -ENOMEM;
	if (fake->samples != 2)
		return 0;
	fake->context->emit(fake->context->emit_ctx, &record);
	fake->block_seq = record.seq;
	return 0;
}

static void fake_close(struct source *source)
{
}

static const struct source_ops fake_ops = {
	.name = "fake",
	.losses = &table,
	.open = fake_open,
	.sample = fake_sample,
	.close = fake_close,
};

struct watcher {
	struct sink base;
	unsigned intervals, last, final;
	uint64_t next_seq, block_seq, first_lost, lost, late, shortest_ns;
	uint64_t footer_lost, footer_late, footer_dropped;
	bool drops_last; /* has no room for the last interval, as a recording on a disk that hangs
			  */
};

static int watch(struct sink *sink, const struct record *record)
{
	struct watcher *watcher = (struct watcher *)sink;
	const struct record_interval *interval = record->interval;

	cr_expect_eq(record->seq, watcher->next_seq);
	watcher->next_seq++;
	if (record->type == RECORD_BLOCK)
		watcher->block_seq = record->seq;
	if (record->type == RECORD_FOOTER) {
		watcher->footer_lost = counter_list_get(&record->footer->lost, "fake_not_watched");
		watcher->footer_late = counter_list_get(&record->footer->late, "fake_late");
		watcher->footer_dropped =
			counter_list_get(&record->footer->lost, "records_dropped");
	}
	if (watcher->drops_last && record->type == RECORD_INTERVAL && interval->final)
		sink->dropped++;
	if (record->type != RECORD_INTERVAL)
		return 0;
	if (!watcher->intervals++)
		watcher->first_lost = counter_list_get(&interval->lost, "fake_not_watched");
	watcher->lost += counter_list_get(&interval->lost, "fake_not_watched");
	watcher->late += counter_list_get(&interval->late, "fake_late");
	cr_expect_eq(counter_list_get(&interval->lost, "fake_late"), 0);
	watcher->last += interval->last;
	watcher->final += interval->final;
	if (!watcher->shortest_ns || interval->dur_ns < watcher->shortest_ns)
		watcher->shortest_ns = interval->dur_ns;
	return 0;
}

static void close_watcher(struct sink *sink)
{
}

static const struct sink_ops watcher_ops = {
	.name = "watcher", .write = watch, .close = close_watcher};

static enum exit_code run(struct session_options *options, struct fake *fake,
			  struct watcher *watcher)
{
	struct target_set *targets = target_set_new(NULL, 0, "");
	struct session *session = session_new(options, targets);
	enum exit_code code;

	cr_assert_not_null(session);
	*fake = (struct fake){.base.ops = &fake_ops};
	*watcher = (struct watcher){.base = {.ops = &watcher_ops, .keeps = true},
				    .drops_last = watcher->drops_last};
	cr_assert_eq(session_add_source(session, &fake->base, true), 0);
	cr_assert_eq(session_add_sink(session, &watcher->base), 0);
	code = session_run(session);
	session_free(session);
	target_set_free(targets);
	return code;
}

/* What was lost while the sources opened (a process that finds no room stays unwatched) is told. */
Test(session, losses_of_the_baseline_are_told)
{
	struct session_options options = {.interval_ns = 50 * MS, .count = 3, .max_lost_pct = 100};
	struct watcher watcher = {0};
	struct fake fake;

	cr_expect_eq(run(&options, &fake, &watcher), EXIT_FINE);
	cr_expect_eq(watcher.intervals, 3);
	cr_expect_eq(watcher.first_lost, 46);
	cr_expect_eq(watcher.lost, 48);
	cr_expect_eq(watcher.footer_lost, 48);
	cr_expect_eq(watcher.late, 8);
	cr_expect_eq(watcher.footer_late, 8);
	cr_expect_eq(watcher.final, 1, "the last reading is told that it is");
}

/* No interval comes after it that could tell. */
Test(session, the_footer_tells_that_the_last_interval_was_dropped)
{
	struct session_options options = {.interval_ns = 50 * MS, .count = 2, .max_lost_pct = 100};
	struct watcher watcher = {.drops_last = true};
	struct fake fake;

	cr_expect_eq(run(&options, &fake, &watcher), EXIT_FINE);
	cr_expect_eq(watcher.intervals, 2);
	cr_expect_eq(watcher.footer_dropped, 1);
}

/* A stack that follows must name its block's seq: emit gives it back. */
Test(session, emit_gives_the_seq_back)
{
	struct session_options options = {.interval_ns = 50 * MS, .count = 2, .max_lost_pct = 100};
	struct watcher watcher = {0};
	struct fake fake;

	cr_expect_eq(run(&options, &fake, &watcher), EXIT_FINE);
	cr_expect_gt(fake.block_seq, 0);
	cr_expect_eq(fake.block_seq, watcher.block_seq);
}

Test(session, a_duration_is_cut_as_planned)
{
	struct session_options options = {
		.interval_ns = 100 * MS, .duration_ns = 300 * MS, .max_lost_pct = 100};
	struct watcher watcher = {0};
	struct fake fake;

	cr_expect_eq(run(&options, &fake, &watcher), EXIT_FINE);
	/* An interval that this machine overran is in the next. */
	cr_expect_leq(watcher.intervals, 3);
	cr_expect_eq(watcher.last, 0);
	cr_expect_eq(watcher.final, 1);
	cr_expect_gt(watcher.shortest_ns, 50 * MS);
	options.duration_ns = 240 * MS;
	cr_expect_eq(run(&options, &fake, &watcher), EXIT_FINE);
	cr_expect_leq(watcher.intervals, 2);
	cr_expect_eq(watcher.last, 1);
	cr_expect_eq(watcher.final, 1);
	cr_expect_gt(watcher.shortest_ns, 50 * MS);
}
