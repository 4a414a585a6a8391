/* SPDX-License-Identifier: BSD-2-Clause */
/* Markers of system_server become launches. */
#include "frames/launches.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define SERVER 900
#define APP    7000
#define LIAR   7001

static void play(struct launches *launches, enum mark_kind kind, int32_t pid, int64_t ts_ns,
		 const char *name)
{
	const struct trace_mark mark = {.kind = kind,
					.has_pid = true,
					.tid = pid,
					.pid = pid,
					.ts_ns = ts_ns,
					.name = name,
					.name_size = strlen(name)};

	launches_mark(launches, &mark);
}

static const char *process(void *ctx, int32_t pid)
{
	return pid == SERVER ? "system_server" : pid == APP ? "com.example" : "com.liar";
}

static bool take(struct launches *launches, struct launch *launch)
{
	size_t at = 0;

	return launches_next(launches, process, NULL, &at, launch);
}

Test(launches, markers_come_in_any_order)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play(launches, MARK_INSTANT, SERVER, 5000, "launchingActivity#3:completed-hot:com.example");
	play(launches, MARK_ASYNC_END, SERVER, 4000, "launchingActivity#3");
	cr_assert(!take(launches, &launch));
	play(launches, MARK_ASYNC_BEGIN, SERVER, 1000, "launchingActivity#3");
	cr_assert(take(launches, &launch));
	cr_assert_eq(launch.number, 3);
	cr_assert_eq(launch.kind, LAUNCH_HOT);
	cr_assert_eq(launch.start_ns, 1000);
	cr_assert_eq(launch.end_ns, 4000);
	cr_assert_str_eq(launch.package, "com.example");
	launches_free(launches);
}

static void play_launch(struct launches *launches, int64_t start_ns)
{
	play(launches, MARK_ASYNC_BEGIN, SERVER, start_ns, "launchingActivity#4");
	play(launches, MARK_BEGIN, APP, start_ns + 500, "activityStart");
	play(launches, MARK_BEGIN, APP, start_ns + 600, "activityResume");
	play(launches, MARK_BEGIN, LIAR, start_ns + 700, "bindApplication");
	play(launches, MARK_ASYNC_END, SERVER, start_ns + 1000, "launchingActivity#4");
	play(launches, MARK_INSTANT, SERVER, start_ns + 1001,
	     "launchingActivity#4:completed:com.example");
}

/* Of steps that are not all there any more nothing is concluded. */
Test(launches, a_kind_whose_steps_were_forgotten_is_unknown)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play_launch(launches, 1000);
	for (int i = 0; i < 1022; i++)
		play(launches, MARK_BEGIN, APP, 5000 + i, "activityResume");
	cr_assert(take(launches, &launch));
	cr_assert_eq(launch.kind, LAUNCH_UNKNOWN);
	launches_free(launches);
}

Test(launches, the_kind_is_what_the_main_thread_did)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play(launches, MARK_BEGIN, APP, 500, "bindApplication"); /* of a launch before */
	play_launch(launches, 1000);
	cr_assert(take(launches, &launch));
	cr_assert_eq(launch.kind, LAUNCH_WARM);
	launches_free(launches);
}

Test(launches, what_an_app_writes_or_was_given_up_is_not_told)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play(launches, MARK_ASYNC_BEGIN, LIAR, 1000, "launchingActivity#5");
	play(launches, MARK_ASYNC_END, LIAR, 2000, "launchingActivity#5");
	play(launches, MARK_INSTANT, LIAR, 2001, "launchingActivity#5:completed-hot:com.example");
	play(launches, MARK_ASYNC_BEGIN, SERVER, 1000, "launchingActivity#6");
	play(launches, MARK_ASYNC_END, SERVER, 2000, "launchingActivity#6");
	play(launches, MARK_INSTANT, SERVER, 2001, "launchingActivity#:completed-hot:com.example");
	play(launches, MARK_INSTANT, SERVER, 2001, "launchingActivity#6:completed-hot:");
	cr_assert(!take(launches, &launch));
	launches_free(launches);
}

Test(launches, a_flood_of_them_is_bounded_and_counted)
{
	struct launches *launches = launches_new();
	struct launch launch;
	size_t taken = 0, at = 0;

	for (int i = 0; i < 1000; i++) {
		char name[64];

		snprintf(name, sizeof(name), "launchingActivity#%d", i);
		play(launches, MARK_ASYNC_BEGIN, SERVER, 1000 + i, name);
		play(launches, MARK_ASYNC_END, SERVER, 2000 + i, name);
		snprintf(name, sizeof(name), "launchingActivity#%d:completed-cold:com.example", i);
		play(launches, MARK_INSTANT, SERVER, 2000 + i, name);
	}
	for (; launches_next(launches, process, NULL, &at, &launch); taken++)
		cr_assert_eq(launch.number, 1000 - 128 + taken);
	cr_assert_eq(taken, 128);
	cr_assert_eq(launches_lost(launches), 1000 - 128);
	launches_free(launches);
}

static void play_whole(struct launches *launches, int number, int64_t start_ns)
{
	char name[64];

	snprintf(name, sizeof(name), "launchingActivity#%d", number);
	play(launches, MARK_ASYNC_BEGIN, SERVER, start_ns, name);
	play(launches, MARK_ASYNC_END, SERVER, start_ns + 1000, name);
	snprintf(name, sizeof(name), "launchingActivity#%d:completed-hot:com.example", number);
	play(launches, MARK_INSTANT, SERVER, start_ns + 1001, name);
}

Test(launches, a_launch_waits_for_the_earliest_frame_of_its_package)
{
	struct launches *launches = launches_new();
	struct launch launch;

	cr_assert(!launches_want_frame(launches, 10000));
	play(launches, MARK_ASYNC_BEGIN, SERVER, 10000, "launchingActivity#1");
	cr_assert(launches_want_frame(launches, 10500));
	cr_assert(!launches_want_frame(launches, 9999));
	/* before anybody knows whose launch it is, and in the order of layers, not of time */
	launches_frame(launches, "com.other", 10100);
	launches_frame(launches, "com.example", 9999);
	launches_frame(launches, "com.example", 10700);
	play_whole(launches, 1, 10000);
	cr_assert(!launches_take(launches, process, NULL, 1, 100, false, &launch));
	launches_frame(launches, "com.example", 10600);
	cr_assert(!launches_take(launches, process, NULL, 100, 100, false, &launch));
	cr_assert(launches_take(launches, process, NULL, 101, 100, false, &launch));
	cr_assert_eq(launch.first_frame_ns, 10600);
	cr_assert_eq(launch.number, 1);
	cr_assert(!launches_take(launches, process, NULL, 1000, 100, true, &launch));
	cr_assert(!launches_want_frame(launches, 10700));
	launches_free(launches);
}

Test(launches, one_without_a_frame_is_told_later_or_at_the_end)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play_whole(launches, 1, 10000);
	launches_frame(launches, "com.example", 10000 + 60000000001LL); /* not its first */
	cr_assert(!launches_take(launches, process, NULL, 1, 100, false, &launch));
	/* a later one is not kept back by it */
	play_whole(launches, 2, 20000);
	launches_frame(launches, "com.example", 20500);
	cr_assert(launches_take(launches, process, NULL, 500, 100, false, &launch));
	cr_assert_eq(launch.number,
		     1); /* the frame of the second is one behind the first's begin */
	cr_assert_eq(launch.first_frame_ns, 20500);
	cr_assert(!launches_take(launches, process, NULL, 599, 100, false, &launch));
	cr_assert(!launches_take(launches, process, NULL, 698, 100, false, &launch));
	cr_assert(launches_take(launches, process, NULL, 699, 100, false, &launch));
	cr_assert_eq(launch.number, 2);
	play_whole(launches, 3, 30000);
	cr_assert(!launches_take(launches, process, NULL, 700, 100, false, &launch));
	cr_assert(!launches_take(launches, process, NULL, LAUNCH_FRAME_NS + 799, 100, false,
				 &launch));
	cr_assert(
		launches_take(launches, process, NULL, LAUNCH_FRAME_NS + 800, 100, false, &launch));
	cr_assert_eq(launch.first_frame_ns, 0);
	launches_free(launches);
}

Test(launches, frames_of_more_packages_than_are_kept)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play(launches, MARK_ASYNC_BEGIN, SERVER, 10000, "launchingActivity#1");
	for (int i = 0; i < 8; i++) {
		char package[] = "com.a";

		package[4] = (char)('a' + i);
		launches_frame(launches, package, 10100 + i);
	}
	launches_frame(launches, "com.example", 10200);
	play_whole(launches, 1, 10000);
	cr_assert(launches_take(launches, process, NULL, 1, 100, true, &launch));
	/* 10200 was not kept, so that a later one would be a lie */
	cr_assert_eq(launch.first_frame_ns, 0);
	play_whole(launches, 2, 50000);
	for (int i = 0; i < 8; i++) {
		char package[] = "com.a";

		package[4] = (char)('a' + i);
		launches_frame(launches, package, 50100 + i);
	}
	launches_frame(launches, "com.example", 50200);
	cr_assert(launches_take(launches, process, NULL, 1, 100, true, &launch));
	cr_assert_eq(launch.first_frame_ns, 50200);
	launches_free(launches);
}

Test(launches, those_that_were_taken_are_not_lost)
{
	struct launches *launches = launches_new();
	struct launch launch;

	for (int i = 0; i < 1000; i++) {
		play_whole(launches, i, 10000 * (i + 1));
		cr_assert(launches_take(launches, process, NULL, 1, 100, true, &launch));
	}
	cr_assert_eq(launches_lost(launches), 0);
	launches_free(launches);
}
