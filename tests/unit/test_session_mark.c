/* SPDX-License-Identifier: BSD-2-Clause */
/* A mark ends the interval that it falls in, and the scenes of the footer are whole intervals. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/loop.h"
#include "core/session.h"

#define MS 1000000ull

static struct session *session;
static unsigned marked, marks, exact, steps;
static uint64_t interval_ns_sum, unknown_ns, a_ns, mixed_ns, overruns;
static bool a_open;

/* At 150 ms the scene begins; 150 ms later it ends, and begins again at once, where the interval is
 * too short to be cut. */
static int step(void *ctx, uint32_t events)
{
	switch (steps++) {
	case 0:
		cr_expect_eq(session_mark(session, "a", true), -ENOENT);
		cr_expect_eq(session_mark(session, "mixed", false), -EINVAL);
		cr_expect_eq(session_mark(session, "a", false), 0);
		cr_expect_eq(session_mark(session, "a", false), -EALREADY);
		break;
	case 1:
		cr_expect_eq(session_mark(session, "a", true), 0);
		cr_expect_eq(session_mark(session, "a", false), 0);
		break;
	}
	return 0;
}

static int open_source(struct source *source, const struct source_context *context)
{
	int timer = loop_add_timer(context->loop, 150 * MS, 150 * MS, step, NULL);

	cr_expect_eq(session_mark(session, "a", false), -EAGAIN, "the run has not begun");
	return timer < 0 ? timer : 0;
}

static int sample(struct source *source, struct record_interval *interval)
{
	return 0;
}

static void close_source(struct source *source)
{
}

static const struct source_ops source_ops = {
	.name = "fake", .open = open_source, .sample = sample, .close = close_source};

static uint64_t dur_of(const struct footer_scene *scene)
{
	for (size_t i = 0; i < scene->sums.total_count; i++)
		if (!strcmp(scene->sums.totals[i].key, "dur_ns"))
			return (uint64_t)scene->sums.totals[i].value;
	return 0;
}

static int watch(struct sink *sink, const struct record *record)
{
	if (record->type == RECORD_INTERVAL) {
		marked += record->interval->marked;
		interval_ns_sum += record->interval->dur_ns;
		overruns += counter_list_get(&record->interval->late, "interval_overruns");
	}
	if (record->type == RECORD_EVENT && !strcmp(record->event->event, "mark")) {
		marks++;
		exact += record->event->key_count == 3;
	}
	for (size_t i = 0; record->type == RECORD_FOOTER && i < record->footer->scene_count; i++) {
		const struct footer_scene *scene = &record->footer->scenes[i];

		if (!strcmp(scene->name, "a"))
			a_open = scene->open_at_end;
		*(!strcmp(scene->name, "a")       ? &a_ns
		  : !strcmp(scene->name, "mixed") ? &mixed_ns
						  : &unknown_ns) = dur_of(scene);
	}
	return 0;
}

static void close_sink(struct sink *sink)
{
}

static const struct sink_ops sink_ops = {.name = "watcher", .write = watch, .close = close_sink};

Test(session_mark, cuts_intervals)
{
	const struct session_options options = {
		.interval_ns = 200 * MS, .count = 4, .max_lost_pct = 1};
	struct target_set *targets = target_set_new(NULL, 0, "");
	struct source source = {.ops = &source_ops};
	struct sink sink = {.ops = &sink_ops};

	session = session_new(&options, targets);
	cr_assert_not_null(session);
	cr_assert_eq(session_add_source(session, &source, true), 0);
	cr_assert_eq(session_add_sink(session, &sink), 0);
	cr_assert_eq(session_run(session), EXIT_FINE);
	cr_expect_eq(marks, 3);
	cr_expect_eq(marked, exact);
	cr_expect_geq(marked, 1);
	cr_expect_lt(marked, 3, "the last mark came within 50 ms of another");
	cr_expect(a_open);
	cr_expect_gt(a_ns, 0);
	cr_expect_gt(mixed_ns, 0);
	cr_expect_eq(a_ns + mixed_ns + unknown_ns, interval_ns_sum);
	session_free(session);
	target_set_free(targets);
}
