/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"

struct place {
	struct loop *loop;
	int fds[4], timer, calls, calls_of_other, fail;
	uint32_t events;
};

static void pipes(struct place *place)
{
	cr_assert_eq(pipe(place->fds), 0);
	cr_assert_eq(pipe(place->fds + 2), 0);
	place->loop = loop_new();
	cr_assert_not_null(place->loop);
}

static void done(struct place *place)
{
	loop_free(place->loop);
	for (int i = 0; i < 4; i++)
		close(place->fds[i]);
}

static int give_up(void *ctx, uint32_t events)
{
	loop_stop(((struct place *)ctx)->loop);
	return 0;
}

static int count(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	place->events = events;
	loop_stop(place->loop);
	return place->fail;
}

Test(loop, reads_stops_and_hands_errors_on)
{
	struct place place = {.fail = 0};

	pipes(&place);
	cr_assert_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, count, &place), 0);
	cr_expect_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, count, &place), -EEXIST);
	cr_expect_eq(loop_add_fd(place.loop, -1, EPOLLIN, count, &place), -EBADF);
	cr_expect_eq(loop_remove_fd(place.loop, place.fds[2]), -ENOENT);
	cr_assert_eq(write(place.fds[1], "x", 1), 1);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 1);
	cr_expect(place.events & EPOLLIN);
	place.fail = -EIO;
	cr_expect_eq(loop_run(place.loop), -EIO, "and it can run again");
	cr_expect_eq(place.calls, 2);
	done(&place);
}

Test(loop, hang_up_reaches_the_callback)
{
	struct place place = {0};

	pipes(&place);
	cr_assert_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, count, &place), 0);
	close(place.fds[1]);
	place.fds[1] = -1;
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect(place.events & EPOLLHUP);
	done(&place);
}

/* Both are ready in one batch; whichever comes first removes the other, which must stay silent. */
static int remove_first(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	loop_remove_fd(place->loop, place->fds[0]);
	loop_remove_fd(place->loop, place->fds[2]);
	loop_stop(place->loop);
	return 0;
}

Test(loop, one_callback_removes_itself_and_the_other)
{
	struct place place = {0};

	pipes(&place);
	cr_assert_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, remove_first, &place), 0);
	cr_assert_eq(loop_add_fd(place.loop, place.fds[2], EPOLLIN, remove_first, &place), 0);
	cr_assert_eq(write(place.fds[1], "x", 1), 1);
	cr_assert_eq(write(place.fds[3], "x", 1), 1);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 1);
	cr_expect_eq(loop_remove_fd(place.loop, place.fds[0]), -ENOENT);
	/* A removed descriptor can be watched again. */
	cr_expect_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, count, &place), 0);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 2);
	done(&place);
}

/* A descriptor's number is used again within the batch that still names the old one. */
static int replace_other(void *ctx, uint32_t events)
{
	struct place *place = ctx;
	int other = place->fds[2];

	if (place->calls++)
		return -EPROTO;
	loop_remove_fd(place->loop, place->fds[0]);
	loop_remove_fd(place->loop, other);
	close(other);
	cr_expect_eq(open("/dev/null", O_RDONLY), other);
	loop_stop(place->loop);
	return 0;
}

Test(loop, number_used_again_inside_a_batch)
{
	struct place place = {0};

	pipes(&place);
	/* The same function for both: whoever is first replaces the descriptor of fds[2]. */
	cr_assert_eq(loop_add_fd(place.loop, place.fds[0], EPOLLIN, replace_other, &place), 0);
	cr_assert_eq(loop_add_fd(place.loop, place.fds[2], EPOLLIN, replace_other, &place), 0);
	cr_assert_eq(write(place.fds[1], "x", 1), 1);
	cr_assert_eq(write(place.fds[3], "x", 1), 1);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 1);
	done(&place);
}

static int third_time(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls += (int)events;
	if (place->calls >= 3)
		loop_stop(place->loop);
	return 0;
}

static uint64_t mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

Test(loop, periodic_timer_keeps_its_beat)
{
	struct place place = {.loop = loop_new()};
	uint64_t begin = mono_ns();

	place.timer = loop_add_timer(place.loop, 5000000, 10000000, third_time, &place);
	cr_assert_geq(place.timer, 0);
	cr_expect_eq(loop_run(place.loop), 0);
	/* 5, 15, 25 ms: never earlier, whatever the load; periods that went by are counted. */
	cr_expect_geq(mono_ns() - begin, 25000000);
	cr_expect_eq(loop_remove_timer(place.loop, place.timer), 0);
	cr_expect_eq(loop_remove_timer(place.loop, place.timer), -ENOENT);
	loop_free(place.loop);
}

static int slow(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	if (place->calls == 1) {
		usleep(60000);
		return 0;
	}
	place->events = events;
	loop_stop(place->loop);
	return 0;
}

Test(loop, periods_that_went_by_are_told)
{
	struct place place = {.loop = loop_new()};

	cr_assert_geq(loop_add_timer(place.loop, 10000000, 10000000, slow, &place), 0);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_geq(place.events, 5, "%u", place.events);
	loop_free(place.loop);
}

static int remove_own_timer(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	cr_expect_eq(loop_remove_timer(place->loop, place->timer), 0);
	place->timer = loop_add_timer(place->loop, 1000000, 0, give_up, place);
	return place->timer < 0 ? place->timer : 0;
}

Test(loop, timer_replaces_itself_in_its_callback)
{
	struct place place = {.loop = loop_new()};

	place.timer = loop_add_timer(place.loop, 1000000, 1000000, remove_own_timer, &place);
	cr_assert_geq(place.timer, 0);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 1);
	loop_free(place.loop);
}

static int disarm(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	return loop_set_timer(place->loop, place->timer, 0, 0);
}

Test(loop, timer_is_set_again_and_stopped)
{
	struct place place = {.loop = loop_new()};

	place.timer = loop_add_timer(place.loop, 3600000000000ull, 0, disarm, &place);
	cr_assert_eq(loop_set_timer(place.loop, place.timer, 1000000, 1000000), 0);
	cr_assert_geq(loop_add_timer(place.loop, 40000000, 0, give_up, &place), 0);
	cr_expect_eq(loop_run(place.loop), 0);
	cr_expect_eq(place.calls, 1);
	loop_free(place.loop);
	loop_free(NULL);
}

static int storm(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	return 0;
}

static int urgent(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls_of_other++;
	place->events += events;
	return 0;
}

/* A timer each millisecond for 600 ms, which wakes a loop that is not paced 600 times. */
static void run_storm(struct place *place)
{
	place->loop = loop_new();
	cr_assert_geq(loop_add_timer(place->loop, 1000000, 1000000, storm, place), 0);
	place->timer = loop_add_timer(place->loop, 600000000, 0, give_up, place);
	cr_assert_geq(place->timer, 0);
}

Test(loop, events_without_end_are_taken_by_the_credit)
{
	struct place place = {.fail = 0};

	run_storm(&place);
	cr_expect_eq(loop_run(place.loop), 0);
	/* 8 at once and one each 40 ms; a busy machine makes them fewer. */
	cr_expect_leq(place.calls, 45, "%d", place.calls);
	cr_expect_geq(place.calls, 5, "%d", place.calls);
	loop_free(place.loop);
}

static int in_a_hurry(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls++;
	loop_hurry(place->loop);
	return 0;
}

/* A busy machine makes turns fewer: what can be is shown by one run of some. */
#define ROUNDS 6

static int turns_in_a_hurry(void)
{
	struct place place = {.loop = loop_new()};

	cr_assert_geq(loop_add_timer(place.loop, 1000000, 1000000, in_a_hurry, &place), 0);
	cr_assert_geq(loop_add_timer(place.loop, 600000000, 0, give_up, &place), 0);
	cr_expect_eq(loop_run(place.loop), 0);
	loop_free(place.loop);
	return place.calls;
}

Test(loop, a_hurry_is_not_paced)
{
	int calls = 0;

	for (int i = 0; i < ROUNDS && calls < 60; i++)
		calls = turns_in_a_hurry();
	cr_expect_geq(calls, 60, "%d", calls);
}

static int hurry_at_first(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	if (place->calls++ < 200)
		loop_hurry(place->loop);
	return 0;
}

static int turns_behind_a_hurry(void)
{
	struct place place = {.loop = loop_new()};

	cr_assert_geq(loop_add_timer(place.loop, 1000000, 1000000, hurry_at_first, &place), 0);
	cr_assert_geq(loop_add_timer(place.loop, 1000000000, 0, urgent, &place), 0);
	cr_assert_geq(loop_add_timer(place.loop, 2000000000, 0, give_up, &place), 0);
	cr_expect_eq(loop_run(place.loop), 0);
	loop_free(place.loop);
	return place.calls;
}

Test(loop, a_hurry_leaves_no_debt)
{
	int calls = 0;

	for (int i = 0; i < ROUNDS && calls < 220; i++)
		calls = turns_behind_a_hurry();
	/* 200 turns cost 8 s of credits, were they to be paid back. */
	cr_expect_geq(calls, 220, "%d", calls);
}

static void run_urgent(struct place *place)
{
	int timer;

	*place = (struct place){.fail = 0};
	run_storm(place);
	cr_expect_eq(loop_urgent_fd(place->loop, -1), -EBADF);
	cr_expect_eq(loop_urgent_timer(place->loop, 99), -ENOENT);
	timer = loop_add_timer(place->loop, 3000000, 3000000, urgent, place);
	cr_assert_eq(loop_urgent_timer(place->loop, timer), 0);
	cr_expect_eq(loop_run(place->loop), 0);
	cr_expect_eq(loop_remove_timer(place->loop, timer), 0);
	loop_free(place->loop);
}

Test(loop, what_is_urgent_comes_at_once)
{
	struct place place = {.fail = 0};

	for (int i = 0; i < ROUNDS && place.calls_of_other < 60; i++)
		run_urgent(&place);
	/* Paced it would be told some 40 times, of several periods each. */
	cr_expect_geq(place.calls_of_other, 60, "%d", place.calls_of_other);
	cr_expect_geq(place.events, 150, "%u", place.events);
}

/* What has slack comes with the other timer: 200 ms in which two timers of 20 ms that are 10 ms
 * apart take 10 turns together, and not 20. */
static int beat(void *ctx, uint32_t events)
{
	struct place *place = ctx;

	place->calls += (int)events;
	return 0;
}

static void count_turn(void *ctx)
{
	((struct place *)ctx)->calls_of_other++;
}

/* *fair: neither timer was left out, and no pause between the reads of the two made the second one
 * look faster. */
static int turns_of_two_timers(uint64_t slack_ns, bool *fair)
{
	struct place exact = {.loop = loop_new()}, loose = {.loop = exact.loop}, turns = {0};
	int timer;

	cr_assert_geq(loop_add_timer(exact.loop, 20000000, 20000000, beat, &exact), 0);
	timer = loop_add_timer(exact.loop, 30000000, 20000000, beat, &loose);
	cr_assert_geq(timer, 0);
	cr_expect_eq(loop_set_slack(exact.loop, timer, slack_ns), 0);
	cr_expect_eq(loop_set_slack(exact.loop, 99, slack_ns), -ENOENT);
	cr_assert_geq(loop_add_timer(exact.loop, 205000000, 0, give_up, &exact), 0);
	loop_on_turn(exact.loop, NULL, count_turn, &turns);
	while (exact.calls < 10)
		cr_assert_eq(loop_turn(exact.loop, 1000000000), 0);
	*fair = loose.calls >= exact.calls - 2 && loose.calls <= exact.calls;
	loop_free(exact.loop);
	return turns.calls_of_other;
}

Test(loop, what_has_slack_shares_a_turn)
{
	int apart = 0, together = 99;
	bool fair_apart = false, fair = false;

	for (int i = 0; i < ROUNDS && (!fair_apart || !fair || together > 12 || together > apart);
	     i++) {
		apart = turns_of_two_timers(0, &fair_apart);
		together = turns_of_two_timers(12000000, &fair);
	}
	cr_expect(fair_apart && fair);
	cr_expect_leq(together, 12, "%d", together);
	cr_expect_leq(together, apart, "%d, %d", together, apart);
}
