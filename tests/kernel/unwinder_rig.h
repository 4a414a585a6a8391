/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the unwinder process share: the real warden and probers, a target that waits at
 * a known place, and a loop that runs until a trace is there. One program includes it once. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "prober/pool.h"
#include "prober/warden.h"
#include "stack/unwinder.h"
#include "util/clock.h"
#include "tap.h"

#define UNUSED   __attribute__((unused))
#define NOINLINE __attribute__((noinline, noclone))

static struct loop *loop;
static struct warden *warden;
static struct prober_pool *pool;
static struct unwinder *unwinder;
static struct stack_capturer *capturer;

struct heard {
	unsigned count, wanted, lost, made_room;
	struct unwound *trace; /* the last */
	int err;
	struct wait_places places;
};

static UNUSED void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* ---- the target ---- */

static volatile int sink;
static int ends[2];

static NOINLINE int target_inner(void)
{
	char byte;

	return (int)read(ends[0], &byte, 1) + sink;
}

static NOINLINE int target_middle(void)
{
	return target_inner() + sink;
}

static NOINLINE int target_outer(void)
{
	return target_middle() + sink;
}

static UNUSED void end_target(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[1]);
}

static UNUSED pid_t start_target_of(int (*function)(void))
{
	pid_t pid;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		_exit(function() & 1);
	}
	close(ends[0]);
	nap_ms(50);
	return pid;
}

static UNUSED pid_t start_target(void)
{
	return start_target_of(target_outer);
}

static UNUSED uint64_t start_boot_ns(pid_t pid)
{
	char path[64], text[1024], *p;
	unsigned long long ticks = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	text[file ? fread(text, 1, sizeof(text) - 1, file) : 0] = 0;
	if (file)
		fclose(file);
	p = strrchr(text, ')');
	if (p)
		sscanf(p + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		       "%*d %*d %llu",
		       &ticks);
	return ticks * 10000000;
}

static UNUSED struct stack_capture *capture_of(pid_t pid, enum stack_request request)
{
	struct stack_capture *capture = stack_capture_new(64 << 10);
	struct stack_thread thread = {
		.pid = pid, .tid = pid, .pidfd = -1, .start_boot_ns = start_boot_ns(pid)};

	for (unsigned i = 0; i < 200; i++) {
		if (!stack_capture(capturer, &thread, request, capture))
			return capture;
		nap_ms(5);
	}
	tap_note("no capture: %s", stack_failure_text(capture->failure));
	stack_capture_free(capture);
	return NULL;
}

/* ---- the rig ---- */

static UNUSED int on_over(void *ctx, uint32_t events)
{
	loop_stop(ctx);
	return 0;
}

static UNUSED void run_for(uint64_t ns)
{
	int timer = loop_add_timer(loop, ns, 0, on_over, loop);

	loop_run(loop);
	loop_remove_timer(loop, timer);
}

static UNUSED void on_unwound(void *ctx, int err, struct unwound *trace)
{
	struct heard *heard = ctx;

	free(heard->trace);
	heard->trace = trace;
	heard->lost += !trace;
	heard->made_room += err == -EBUSY;
	if (++heard->count == heard->wanted)
		loop_stop(loop);
}

/* The list may still hold one that was killed a moment ago. */
static UNUSED bool is_alive(pid_t pid)
{
	char path[64], state = 'Z';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	if (file)
		fclose(file);
	return state != 'Z' && state != 'X';
}

static UNUSED pid_t pid_of_unwinder(void)
{
	struct helper list[32];
	size_t count = warden_list(warden, list, 32);

	for (size_t i = 0; i < count; i++)
		if (list[i].kind == HELPER_UNWINDER && list[i].pid > 1 && is_alive(list[i].pid))
			return list[i].pid;
	return 0;
}

/* A number that is no process's would mean many of them. */
static UNUSED bool send_signal(pid_t pid, int number)
{
	return pid > 1 && !kill(pid, number);
}

static UNUSED uint64_t counter(const char *name)
{
	struct counter_list lost = {0};
	uint64_t value;

	unwinder_counters(unwinder, &lost);
	value = counter_list_get(&lost, name);
	counter_list_free(&lost);
	return value;
}

static UNUSED bool is_ours(const struct unwound *trace)
{
	static const char *const names[] = {"target_inner", "target_middle", "target_outer",
					    "main"};
	size_t at = 0;

	for (size_t i = 0; trace && i < trace->count && at < 4; i++)
		if (trace->frames[i].symbol && !strcmp(trace->frames[i].symbol, names[at]))
			at++;
	return at == 4;
}

static UNUSED void print_trace(const struct unwound *trace)
{
	if (!trace) {
		tap_note("no trace");
		return;
	}
	tap_note("%s", stack_end_text(trace->end));
	for (size_t i = 0; i < trace->count; i++)
		tap_note("#%zu %s %s+%#" PRIx64 " method %d", i, trace->frames[i].symbol ?: "?",
			 trace->frames[i].module ?: "?", trace->frames[i].offset,
			 trace->frames[i].method);
}

/* Push it and wait for the trace. */
static UNUSED struct unwound *unwind(struct stack_capture *capture, uint64_t wait_ns)
{
	struct heard heard = {.wanted = 1};

	if (!capture || unwinder_push(unwinder, capture, on_unwound, &heard))
		return NULL;
	run_for(wait_ns);
	unwinder_cancel(unwinder, &heard);
	return heard.trace;
}

static UNUSED bool has(const struct unwound *trace, const char *symbol, size_t *at)
{
	for (size_t i = 0; trace && i < trace->count; i++)
		if (trace->frames[i].symbol && strstr(trace->frames[i].symbol, symbol)) {
			*at = i;
			return true;
		}
	return false;
}

static UNUSED bool rig_start(void)
{
	warden = warden_start();
	pool = warden ? prober_pool_new(warden) : NULL;
	loop = loop_new();
	if (!tap_ok(pool && loop && !warden_join_loop(warden, loop) &&
			    !prober_pool_join_loop(pool, loop),
		    "warden and probers start"))
		return false;
	capturer = stack_capturer_new(&(struct stack_capture_config){0});
	unwinder = unwinder_new(warden, pool, loop);
	return tap_ok(capturer && unwinder, "unwinder starts");
}

static UNUSED void rig_stop(void)
{
	unwinder_free(unwinder);
	stack_capturer_free(capturer);
	prober_pool_free(pool);
	warden_stop(warden);
	loop_free(loop);
	tap_ok(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "no process is left");
}
