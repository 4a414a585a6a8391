/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that are asked of probers: of many processes, and beside one that holds its name back. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/loop.h"
#include "jankscope/target.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "util/clock.h"

#define CROWD 400

struct rig {
	struct loop *loop;
	struct warden *warden;
	struct prober_pool *pool;
	struct target_set *set;
	pid_t told[CROWD + 1]; /* in the order of their starts */
	size_t told_count, named_right;
	char name[64];
	pid_t crowd[CROWD + 1];
	size_t crowd_count;
};

static void on_change(void *ctx, enum target_change change, const struct target_process *process)
{
	struct rig *rig = ctx;

	if (change != TARGET_STARTED)
		return;
	cr_assert_lt(rig->told_count, CROWD + 1);
	rig->told[rig->told_count++] = process->pid;
	rig->named_right += !strcmp(process->process, rig->name);
}

static void on_names(void *ctx)
{
	struct rig *rig = ctx;

	cr_assert_geq(target_set_take_names(rig->set, on_change, rig), 0);
}

static struct rig *start(void)
{
	struct target_spec spec = {.kind = TARGET_NAME};
	struct rig *rig = calloc(1, sizeof(*rig));

	cr_assert_not_null(rig);
	snprintf(rig->name, sizeof(rig->name), "argv%d", getpid());
	snprintf(spec.name, sizeof(spec.name), "%s", rig->name);
	rig->warden = warden_start();
	cr_assert_not_null(rig->warden);
	rig->pool = prober_pool_new(rig->warden);
	rig->loop = loop_new();
	cr_assert(rig->pool && rig->loop);
	cr_assert_eq(warden_join_loop(rig->warden, rig->loop), 0);
	cr_assert_eq(prober_pool_join_loop(rig->pool, rig->loop), 0);
	rig->set = target_set_new(&spec, 1, "");
	cr_assert_not_null(rig->set);
	target_set_bound(rig->set, rig->pool);
	target_set_on_names(rig->set, on_names, rig);
	return rig;
}

static void stop(struct rig *rig)
{
	for (size_t i = 0; i < rig->crowd_count; i++)
		kill(rig->crowd[i], SIGKILL);
	for (size_t i = 0; i < rig->crowd_count; i++)
		waitpid(rig->crowd[i], NULL, 0);
	target_set_free(rig->set);
	prober_pool_free(rig->pool);
	warden_stop(rig->warden);
	loop_free(rig->loop);
	free(rig);
}

/* Only its argv[0] is the name. */
static void add_sleepers(struct rig *rig, size_t count)
{
	int ready[2];
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	for (size_t i = 0; i < count; i++) {
		pid_t child = fork();

		cr_assert_geq(child, 0);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execl("/bin/sleep", rig->name, "60", NULL);
			_exit(127);
		}
		rig->crowd[rig->crowd_count++] = child;
	}
	close(ready[1]);
	/* The end: all of them have run execve. */
	cr_assert_eq(read(ready[0], &byte, 1), 0);
	close(ready[0]);
}

static void turn_once(struct rig *rig)
{
	cr_assert_eq(loop_turn(rig->loop, 20 * NSEC_PER_MSEC), 0);
	if (target_set_has_names(rig->set))
		on_names(rig);
	if (target_set_is_midway(rig->set))
		cr_assert_geq(target_set_scan(rig->set, on_change, rig), 0);
}

static void turn_until(struct rig *rig, size_t count, uint64_t ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;

	while (rig->told_count < count && clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		turn_once(rig);
}

static uint64_t given_up(struct rig *rig, const char *name)
{
	struct counter_list late = {0};
	uint64_t count;

	cr_assert_eq(prober_pool_counters(rig->pool, &late), 0);
	count = counter_list_get(&late, name);
	counter_list_free(&late);
	return count;
}

Test(target_argv, a_crowd_is_named_without_a_wait_and_without_a_refusal)
{
	struct rig *rig = start();

	add_sleepers(rig, CROWD);
	/* The scan asks and does not wait: no prober's answer can have been read in it. */
	cr_assert_eq(target_set_scan(rig->set, on_change, rig), 0);
	cr_assert_eq(rig->told_count, 0);
	turn_until(rig, CROWD, 20 * NSEC_PER_SEC);
	cr_expect_eq(rig->told_count, CROWD, "%zu", rig->told_count);
	cr_expect_eq(rig->named_right, CROWD, "%zu", rig->named_right);
	cr_expect_eq(given_up(rig, "probe_names_refused"), 0);
	/* Nobody is awaited any more: this is no process that was just forgotten. Other tests may
	 * have some thousand processes, whose names come after those of the crowd. */
	for (int i = 0; i < 1000 && target_set_is_finding(rig->set); i++)
		turn_once(rig);
	cr_expect(!target_set_is_finding(rig->set));
	/* And those that come later are asked for in the same way. */
	cr_assert_eq(kill(rig->crowd[0], SIGKILL), 0);
	cr_assert_eq(waitpid(rig->crowd[0], NULL, 0), rig->crowd[0]);
	rig->crowd[0] = rig->crowd[--rig->crowd_count];
	add_sleepers(rig, 1);
	cr_expect_eq(target_set_scan(rig->set, on_change, rig), CROWD - 1);
	turn_until(rig, CROWD + 1, 20 * NSEC_PER_SEC);
	cr_expect_eq(rig->told_count, CROWD + 1);
	stop(rig);
}

/* The first prober, which is asked first. */
static pid_t prober_of(struct rig *rig)
{
	struct helper helpers[16];
	size_t count = warden_list(rig->warden, helpers, 16);

	for (size_t i = 0; i < count; i++)
		if (helpers[i].kind == HELPER_PROBER)
			return helpers[i].pid;
	return 0;
}

/* False: it was not asked, which shows nothing. */
static bool stands_still(void)
{
	struct rig *rig = start();
	pid_t prober = 0;
	bool was_asked;

	add_sleepers(rig, CROWD);
	for (int i = 0; i < 100 && !(prober = prober_of(rig)); i++)
		cr_assert_eq(loop_turn(rig->loop, 20 * NSEC_PER_MSEC), 0);
	cr_assert_gt(prober, 0);
	cr_assert_eq(kill(prober, SIGSTOP), 0);
	cr_assert_eq(target_set_scan(rig->set, on_change, rig), 0);
	/* As a session does. A scan asks again where no prober could be had for a moment. */
	for (int i = 0; i < 100 && rig->told_count < CROWD; i++) {
		turn_until(rig, CROWD, 200 * NSEC_PER_MSEC);
		cr_assert_geq(target_set_scan(rig->set, on_change, rig), 0);
	}
	cr_expect_eq(rig->told_count, CROWD, "%zu", rig->told_count);
	cr_expect_eq(rig->named_right, CROWD, "%zu", rig->named_right);
	was_asked = given_up(rig, "probe_names_late") > 0;
	stop(rig);
	return was_asked;
}

Test(target_argv, a_prober_that_stands_still_holds_no_name_back)
{
	bool was_asked = false;

	for (int i = 0; i < 5 && !was_asked; i++)
		was_asked = stands_still();
	cr_expect(was_asked);
}
