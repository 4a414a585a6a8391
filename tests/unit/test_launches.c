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

static const char *layer_package(void *ctx, uint32_t layer, char *buffer, size_t size)
{
	return layer == 1 ? "com.example" : layer == 2 ? "com.android.systemui" : NULL;
}

static const struct launch_names names = {process, layer_package, NULL};

Test(launches, one_waits_for_its_frame_and_not_for_that_of_others)
{
	struct launches *launches = launches_new();
	struct launch launch;

	/* in the order in which two CPUs' buffers are read */
	play(launches, MARK_INSTANT, SERVER, 5000, "launchingActivity#3:completed-hot:com.example");
	play(launches, MARK_ASYNC_END, SERVER, 4000, "launchingActivity#3");
	launches_frame(launches, 1, 900);
	play(launches, MARK_ASYNC_BEGIN, SERVER, 1000, "launchingActivity#3");
	launches_frame(launches, 1, 950); /* before the launch */
	launches_frame(launches, 2, 1500);
	cr_assert(!launches_take(launches, &names, false, &launch));
	launches_frame(launches, 1, 3000);
	launches_frame(launches, 1, 2500);
	cr_assert(launches_take(launches, &names, false, &launch));
	cr_assert_eq(launch.number, 3);
	cr_assert_eq(launch.kind, LAUNCH_HOT);
	cr_assert_eq(launch.start_ns, 1000);
	cr_assert_eq(launch.end_ns, 4000);
	cr_assert_eq(launch.first_frame_ns, 2500);
	cr_assert_str_eq(launch.package, "com.example");
	cr_assert(!launches_take(launches, &names, true, &launch));
	launches_free(launches);
}

Test(launches, the_kind_is_what_the_main_thread_did)
{
	struct launches *launches = launches_new();
	struct launch launch;

	play(launches, MARK_BEGIN, APP, 500, "bindApplication"); /* of a launch before */
	play(launches, MARK_ASYNC_BEGIN, SERVER, 1000, "launchingActivity#4");
	play(launches, MARK_BEGIN, APP, 1500, "activityStart");
	play(launches, MARK_BEGIN, APP, 1600, "activityResume");
	play(launches, MARK_BEGIN, LIAR, 1700, "bindApplication");
	play(launches, MARK_ASYNC_END, SERVER, 2000, "launchingActivity#4");
	play(launches, MARK_INSTANT, SERVER, 2001, "launchingActivity#4:completed:com.example");
	cr_assert(launches_take(launches, &names, true, &launch));
	cr_assert_eq(launch.kind, LAUNCH_WARM);
	cr_assert_eq(launch.first_frame_ns, 0);
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
	cr_assert(!launches_take(launches, &names, true, &launch));
	launches_free(launches);
}

Test(launches, a_flood_of_them_is_bounded_and_counted)
{
	struct launches *launches = launches_new();
	struct launch launch;
	size_t taken = 0;

	for (int i = 0; i < 1000; i++) {
		char name[64];

		snprintf(name, sizeof(name), "launchingActivity#%d", i);
		play(launches, MARK_ASYNC_BEGIN, SERVER, 1000 + i, name);
		play(launches, MARK_ASYNC_END, SERVER, 2000 + i, name);
		snprintf(name, sizeof(name), "launchingActivity#%d:completed-cold:com.example", i);
		play(launches, MARK_INSTANT, SERVER, 2000 + i, name);
	}
	while (launches_take(launches, &names, true, &launch))
		taken++;
	cr_assert_gt(taken, 0);
	cr_assert_eq(taken + launches_lost(launches), 1000);
	launches_free(launches);
}
