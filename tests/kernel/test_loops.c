/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is a loop, and its busy periods, by each detector: the real programs on processes that say
 * when they entered and left each wait (tests/apps/loops.c). All modes of a detector run at once.
 * No time is judged: a period lies between what its process said before and after a system call. */
/* Runs beside others (24 s) */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/looper_kernel.h"
#include "kernel/looper_slot.h"
#include "standing.h"
#include "tap.h"
#include "util/clock.h"

#define BLOCK_NS    (50 * NSEC_PER_MSEC)
#define MUST_NS     (60 * NSEC_PER_MSEC) /* a gap of so much must be told */
#define MAX_WAITS   256
#define MAX_PERIODS 256
#define MAX_LOOPS   64
#define DEADLINE_NS (90 * NSEC_PER_SEC)

enum about {
	LATE = 1,          /* the watch begins while it waits */
	BOTH_OWN = 2,      /* loops A and B are at one depth */
	NO_LOOP = 4,       /* its main thread is none */
	ADOPTS = 8,        /* B becomes the loop some time */
	CLOSES = 16,       /* because A's descriptor is closed, which user space finds */
	EXECS = 32,        /* another program after some time, with "ready" */
	HELPER = 64,       /* the loop is in another thread */
	STARTS_SLOW = 128, /* B is waited in once before, and a block follows */
	B_FIRST = 256,     /* the watch begins in B, which is left for A */
};

static const struct mode {
	const char *name;
	unsigned about;
	enum looper_wait kind;
} modes[] = {
	{"epoll", 0, LOOPER_WAIT_EPOLL},
	{"poll", 0, LOOPER_WAIT_POLL},
	{"select", 0, LOOPER_WAIT_SELECT},
	{"uring", 0, LOOPER_WAIT_URING},
	{"raw", 0, LOOPER_WAIT_EPOLL},
	{"nested", 0, LOOPER_WAIT_EPOLL},
	{"nested_poll", 0, LOOPER_WAIT_POLL},
	{"in_nested", LATE | B_FIRST, LOOPER_WAIT_EPOLL},
	{"second_same", BOTH_OWN, LOOPER_WAIT_EPOLL},
	{"second_deeper", ADOPTS, LOOPER_WAIT_EPOLL},
	{"modal", ADOPTS, LOOPER_WAIT_EPOLL},
	{"closed", ADOPTS | CLOSES, LOOPER_WAIT_EPOLL},
	{"early", STARTS_SLOW, LOOPER_WAIT_EPOLL},
	{"helper", HELPER, LOOPER_WAIT_EPOLL},
	{"sleeps", NO_LOOP, LOOPER_WAIT_NONE},
	{"exec", EXECS, LOOPER_WAIT_POLL},
};
#define MODES (sizeof(modes) / sizeof(*modes))

struct period {
	uint64_t begin_ns, end_ns;
	uint32_t flags, kind;
};

struct app {
	const struct mode *mode;
	pid_t pid, tid;
	int to, from;
	bool running, skipped;
	struct looper_place places[LOOPER_MAX_PLACES];
	uint64_t returns[LOOPER_PROBED_RETURNS];
	size_t place_count, return_count;
	struct looper_probes *probes;
	/* what it said */
	char text[1 << 17];
	size_t length;
	struct app_wait {
		char loop;
		bool own;
		uint64_t entered_ns, left_ns;
	} waits[MAX_WAITS];
	size_t wait_count;
	/* what was seen */
	struct period periods[MAX_PERIODS];
	struct looper_loop_event loops[MAX_LOOPS];
	size_t period_count, loop_count;
	unsigned wakes, spells, parks, looks, unread;
	struct looper_slot last;
};

struct rig {
	struct sched_kernel *sched;
	struct looper_kernel *kernel;
	enum looper_detector detector;
	struct app apps[MODES];
	char program[512];
};

/* ---- processes ---- */

static bool spawn(struct rig *rig, struct app *app)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return false;
	app->pid = app->tid = fork();
	if (!app->pid) {
		setpriority(PRIO_PROCESS, 0, 0);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(rig->program, "loops", app->mode->name,
		      app->mode->about & LATE ? "now" : NULL, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	app->to = in[1];
	app->from = out[0];
	app->running = app->pid > 0;
	return app->running;
}

/* What it wrote until a line begins so; false: it ended first. */
static bool read_until(struct app *app, const char *line)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "\n%s ", line);
	while (app->length < sizeof(app->text) - 1) {
		ssize_t n;

		app->text[app->length] = 0;
		if (strstr(app->text, begin) && app->text[app->length - 1] == '\n')
			return true;
		n = read(app->from, app->text + app->length, sizeof(app->text) - 1 - app->length);
		if (n <= 0)
			return false;
		app->length += (size_t)n;
	}
	return false;
}

static void read_places(struct app *app)
{
	char *text = strdup(app->text);

	for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n")) {
		uint64_t offset, address;
		char what[16];
		enum looper_probe probe;

		if (sscanf(line, "place %15s %" SCNu64 " %" SCNu64, what, &offset, &address) != 3)
			continue;
		probe = *what == 'l'   ? LOOPER_PROBE_LEAVE
			: *what == 'e' ? LOOPER_PROBE_EPOLL
			: *what == 'p' ? LOOPER_PROBE_POLL
				       : LOOPER_PROBE_SELECT;
		app->places[app->place_count++] = (struct looper_place){offset, probe};
		if (probe == LOOPER_PROBE_LEAVE)
			app->returns[app->return_count++] = address;
	}
	free(text);
}

/* ---- what is seen ---- */

static int on_event(void *ctx, const struct looper_event *event, size_t size)
{
	struct rig *rig = ctx;
	struct app *app = event->index < MODES ? &rig->apps[event->index] : NULL;

	if (!app || event->slot_id != (uint64_t)app->pid)
		return 0;
	if (event->type == LOOPER_EVENT_PERIOD && app->period_count < MAX_PERIODS) {
		const struct looper_period_event *period = (const void *)event;

		app->periods[app->period_count++] = (struct period){
			event->begin_ns, event->end_ns, period->flags, period->loop_kind};
	} else if (event->type == LOOPER_EVENT_LOOP && app->loop_count < MAX_LOOPS) {
		app->loops[app->loop_count++] = *(const struct looper_loop_event *)event;
	} else if (event->type == LOOPER_EVENT_SPELL) {
		app->spells++;
	} else if (event->type == LOOPER_EVENT_BUSY) {
		app->wakes++;
	}
	return 0;
}

static bool is_open(pid_t pid, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	return !access(path, F_OK);
}

/* What the recorder does at each look: park who is idle, ask for the descriptor of who is nested.
 */
static void look_at(struct rig *rig, struct app *app)
{
	uint32_t index = (uint32_t)(app - rig->apps);
	struct looper_slot slot;

	looper_kernel_mark(rig->kernel, index, app->tid);
	app->looks++;
	if (!looper_kernel_read(rig->kernel, index, &slot)) {
		app->unread++;
		return;
	}
	app->last = slot;
	if (slot.waiting_kind && !slot.waiting_own && !slot.on_cpu && slot.loop_fd >= 0 &&
	    slot.loop_closed != slot.loop_changes + 1 && !is_open(app->pid, slot.loop_fd))
		looper_kernel_loop_closed(rig->kernel, index);
	if (looper_is_idle(&slot)) {
		app->parks++;
		__atomic_store_n(&looper_kernel_slot(rig->kernel, index)->parked, 1,
				 __ATOMIC_SEQ_CST);
	}
}

static bool watch(struct rig *rig, struct app *app)
{
	struct looper_slot_start start = {
		.tid = (uint32_t)app->tid,
		.tgid = (uint32_t)app->pid,
		.detector = rig->detector,
		.block_ns = BLOCK_NS,
		.slot_id = (uint64_t)app->pid,
		.probed_return = app->returns,
	};
	uint32_t index = (uint32_t)(app - rig->apps);
	struct probe_standing first, second;
	struct looper_slot slot, now;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", app->pid);
	if (rig->detector == LOOPER_BY_UPROBE) {
		app->probes = looper_kernel_probe(rig->kernel, app->pid, path, app->places,
						  app->place_count);
		if (!app->probes)
			return false;
	}
	if (standing_read(app->pid, app->tid, &first))
		return false;
	looper_slot_fill(&slot, &start, &first);
	if (looper_kernel_watch(rig->kernel, index, &slot))
		return false;
	if (!standing_read(app->pid, app->tid, &second) &&
	    looper_kernel_read(rig->kernel, index, &now) &&
	    looper_slot_settle(&now, &slot, &first, &second))
		looper_kernel_correct(rig->kernel, index, &now);
	/* The first wake-up does not hang on how often this process gets a CPU. */
	app->parks = 1;
	__atomic_store_n(&looper_kernel_slot(rig->kernel, index)->parked, 1, __ATOMIC_SEQ_CST);
	return true;
}

static bool all_ended(struct rig *rig)
{
	bool ended = true;

	for (size_t i = 0; i < MODES; i++) {
		struct app *app = &rig->apps[i];
		struct pollfd ready = {app->from, POLLIN, 0};

		while (app->running && poll(&ready, 1, 0) > 0) {
			ssize_t n = read(app->from, app->text + app->length,
					 sizeof(app->text) - 1 - app->length);

			if (n > 0) {
				app->length += (size_t)n;
			} else {
				waitpid(app->pid, NULL, 0);
				app->running = false;
			}
		}
		ended &= !app->running;
	}
	return ended;
}

/* ---- judging ---- */

static const struct looper_loop_event *loop_event(const struct app *app, enum looper_loop_how how)
{
	for (size_t i = 0; i < app->loop_count; i++)
		if (app->loops[i].how == how)
			return &app->loops[i];
	return NULL;
}

static void read_waits(struct app *app)
{
	const struct looper_loop_event *adopted = loop_event(app, LOOPER_LOOP_ADOPTED);
	unsigned programs = 0;
	bool second_program;

	if (app->mode->about & CLOSES)
		adopted = loop_event(app, LOOPER_LOOP_CLOSED);
	app->text[app->length] = 0;
	for (char *line = strtok(app->text, "\n"); line; line = strtok(NULL, "\n")) {
		struct app_wait *wait = &app->waits[app->wait_count];

		app->skipped |= !strncmp(line, "skip ", 5);
		programs += !strncmp(line, "ready ", 6);
		second_program = programs > 1;
		if (app->wait_count == MAX_WAITS ||
		    sscanf(line, "wait %c %" SCNu64 " %" SCNu64, &wait->loop, &wait->entered_ns,
			   &wait->left_ns) != 3)
			continue;
		if (app->mode->about & EXECS)
			wait->own = (wait->loop == 'A') == second_program;
		else if (wait->loop == 'A' || app->mode->about & BOTH_OWN)
			wait->own = true;
		else
			wait->own = adopted && wait->left_ns > adopted->head.end_ns;
		app->wait_count++;
	}
}

/* Between two own waits, one behind the other; nothing that was found to be no period. */
static bool gap_is(const struct app *app, size_t from, size_t *to)
{
	*to = from + 1;
	while (*to < app->wait_count && !app->waits[*to].own)
		++*to;
	if (*to >= app->wait_count || !app->waits[from].own)
		return false;
	/* The execve took the place of the message's end. */
	if (app->mode->about & EXECS && app->waits[from].loop == 'B' && app->waits[*to].loop == 'A')
		return false;
	/* A's message never ended: B took its place. */
	if (app->mode->about & ADOPTS && app->waits[from].loop == 'A' &&
	    app->waits[*to].loop == 'B')
		return false;
	return true;
}

static bool lies_in(const struct app *app, const struct period *period, size_t from, size_t to)
{
	const struct app_wait *before = &app->waits[from], *behind = &app->waits[to];

	/* Where the kernel did not show a switch, its sums tell the time: they miss interrupts. */
	uint64_t off_ns = period->flags & LOOPER_EVENT_ESTIMATED ? NSEC_PER_MSEC : 0;

	return period->begin_ns + off_ns >= before->entered_ns &&
	       period->begin_ns <= before->left_ns + off_ns &&
	       period->end_ns + off_ns >= behind->entered_ns &&
	       period->end_ns <= behind->left_ns + off_ns;
}

/* Each gap that must be told is, once; what is told is a gap. The switch detector does not see a
 * wait that did not sleep (the timer was quicker), and may join two messages. */
static void judge_periods(const struct app *app, const char *by, bool may_join)
{
	bool used[MAX_PERIODS] = {false};
	unsigned gaps = 0, missed = 0, wrong = 0;
	size_t to;

	for (size_t from = 0; from < app->wait_count; from++) {
		uint64_t ns;
		bool found = false;

		if (!gap_is(app, from, &to))
			continue;
		ns = app->waits[to].entered_ns - app->waits[from].left_ns;
		for (size_t i = 0; i < app->period_count; i++) {
			const struct period *period = &app->periods[i];
			bool joined = may_join && period->flags & LOOPER_EVENT_MERGED &&
				      period->begin_ns <= app->waits[from].left_ns &&
				      period->end_ns >= app->waits[to].entered_ns;

			if (lies_in(app, period, from, to) || joined) {
				found = true;
				used[i] = true;
			}
		}
		gaps += ns >= MUST_NS;
		if (ns >= MUST_NS && !found) {
			missed++;
			tap_note("%s: missed %" PRIu64 " ms at %" PRIu64 " (wait %zu of %zu)",
				 app->mode->name, ns / 1000000, app->waits[from].left_ns, from,
				 app->wait_count);
		}
	}
	for (size_t i = 0; i < app->period_count; i++) {
		const struct period *period = &app->periods[i];

		if (used[i] || period->flags & (LOOPER_EVENT_UNKNOWN_LOOP | LOOPER_EVENT_EXITED))
			continue;
		wrong++;
		tap_note("%s: told %" PRIu64 " ms from %" PRIu64 ", flags %u", app->mode->name,
			 (period->end_ns - period->begin_ns) / 1000000, period->begin_ns,
			 period->flags);
	}
	tap_ok(gaps && !missed && !wrong, "%s by %s: %u long messages, %u missed, %u wrong",
	       app->mode->name, by, gaps, missed, wrong);
}

static void judge_in_nested(const struct app *app, const char *by)
{
	/* B was all that could be known until A was waited in. */
	tap_ok(loop_event(app, LOOPER_LOOP_OUTER) != NULL, "in_nested by %s: A is found", by);
}

static void judge_early(const struct app *app, const char *by)
{
	bool held = false;

	for (size_t i = 0; i < app->period_count; i++)
		held |= app->wait_count > 1 &&
			(app->periods[i].flags & LOOPER_EVENT_UNKNOWN_LOOP) &&
			lies_in(app, &app->periods[i], 0, 1);
	tap_ok(held && loop_event(app, LOOPER_LOOP_FOUND),
	       "early by %s: the start is told as of an unknown loop, and then the loop", by);
}

static void judge(struct rig *rig, struct app *app, const char *by)
{
	const struct mode *mode = app->mode;

	read_waits(app);
	if (app->skipped) {
		tap_skip(mode->name, strstr(app->text, "skip"));
		return;
	}
	if (mode->about & NO_LOOP) {
		tap_ok(app->last.loop_kind == LOOPER_WAIT_NONE && !app->period_count &&
			       !app->loop_count && !app->wakes &&
			       app->spells <= LOOPER_UNKNOWN_SPELLS,
		       "%s by %s: kind %u, %zu periods, %zu loops, %u wakes, %u spells", mode->name,
		       by, app->last.loop_kind, app->period_count, app->loop_count, app->wakes,
		       app->spells);
		return;
	}
	judge_periods(app, by, rig->detector == LOOPER_BY_SWITCH);
	tap_ok(looper_is_loop(&app->last) && app->last.loop_kind == mode->kind && app->wakes &&
		       app->wakes <= app->parks,
	       "%s by %s: a loop of kind %u, waited in %" PRIu64 " times, %u wakes of %u parks",
	       mode->name, by, app->last.loop_kind, (uint64_t)app->last.loop_waits, app->wakes,
	       app->parks);
	tap_note("%s by %s: looked at %u times, %u unread", mode->name, by, app->looks,
		 app->unread);
	if (mode->about & STARTS_SLOW)
		judge_early(app, by);
	if (mode->about & B_FIRST)
		judge_in_nested(app, by);
	if (mode->about & ADOPTS)
		tap_ok(loop_event(app, mode->about & CLOSES ? LOOPER_LOOP_CLOSED
							    : LOOPER_LOOP_ADOPTED) != NULL,
		       "%s by %s: the nested loop is taken over, and told", mode->name, by);
	if (mode->about & EXECS)
		tap_ok(loop_event(app, LOOPER_LOOP_EXEC) != NULL, "exec by %s: is told", by);
}

static void run_detector(struct rig *rig, enum looper_detector detector, const char *by)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + DEADLINE_NS;
	uint64_t losses[LOOPER_LOSS_MAX] = {0};

	rig->detector = detector;
	memset(rig->apps, 0, sizeof(rig->apps));
	for (size_t i = 0; i < MODES; i++) {
		struct app *app = &rig->apps[i];

		app->mode = &modes[i];
		if (!spawn(rig, app) || !read_until(app, "ready")) {
			tap_ok(false, "%s by %s: runs", app->mode->name, by);
			return;
		}
		read_places(app);
		if (app->mode->about & LATE)
			usleep(300000);
		if (app->mode->about & HELPER) {
			if (write(app->to, "g", 1) != 1 || !read_until(app, "thread"))
				return;
			app->tid = atoi(strstr(app->text, "\nthread ") + 8);
		}
		if (!watch(rig, app))
			tap_ok(false, "%s by %s: is watched: %s", app->mode->name, by,
			       strerror(errno));
	}
	for (size_t i = 0; i < MODES; i++)
		if (write(rig->apps[i].to, "g", 1) != 1)
			tap_note("%s does not listen", modes[i].name);
	while (!all_ended(rig) && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		for (size_t i = 0; i < MODES; i++)
			if (rig->apps[i].running)
				look_at(rig, &rig->apps[i]);
		looper_kernel_events(rig->kernel, on_event, rig);
		looper_kernel_wakes(rig->kernel, on_event, rig);
		usleep(5000);
	}
	looper_kernel_events(rig->kernel, on_event, rig);
	looper_kernel_wakes(rig->kernel, on_event, rig);
	for (size_t i = 0; i < MODES; i++) {
		struct app *app = &rig->apps[i];

		if (app->running) {
			kill(app->pid, SIGKILL);
			waitpid(app->pid, NULL, 0);
			tap_ok(false, "%s by %s: ended in time", app->mode->name, by);
		} else {
			/* The slot stays as the thread left it. */
			look_at(rig, app);
			judge(rig, app, by);
		}
		looper_kernel_unwatch(rig->kernel, (uint32_t)i, app->tid);
		looper_probes_free(app->probes);
		close(app->to);
		close(app->from);
	}
	looper_kernel_losses(rig->kernel, losses);
	tap_ok(!losses[LOOPER_LOSS_EVENT_RING_FULL], "%s: no event was lost", by);
	tap_note("%s: %" PRIu64 " missed entries, %" PRIu64 " missed exits, %" PRIu64
		 " missed switches so far; %" PRIu64 " resynced",
		 by, losses[LOOPER_LOSS_MISSED_ENTRY], losses[LOOPER_LOSS_MISSED_EXIT],
		 losses[LOOPER_LOSS_MISSED_SWITCH], looper_kernel_resynced(rig->kernel));
}

int main(int argc, char **argv)
{
	static const char *const names[] = {"uprobe", "sys_enter", "switch"};
	struct sched_kernel_options options = {
		.mode = CPU_MODE_SWITCH, .loopers = true, .max_watched = 64};
	struct looper_kernel_options any = {0};
	struct rig *rig = calloc(1, sizeof(*rig));
	char reason[160] = "";

	signal(SIGPIPE, SIG_IGN);
	/* As the sampler does; the processes are put back to 0. */
	setpriority(PRIO_PROCESS, 0, -20);
	if (!rig)
		return 1;
	for (int i = 1; i < argc; i++) {
		any.test_plain_atomics |= !strcmp(argv[i], "plain");
		options.test_hash |= !strcmp(argv[i], "hash");
		any.test_one_by_one |= !strcmp(argv[i], "one");
		if (!strcmp(argv[i], "raw_tp"))
			options.variant = VARIANT_RAW_TP;
	}
	options.test_plain_atomics = any.test_plain_atomics;
	snprintf(rig->program, sizeof(rig->program), "%.400s", argv[0]);
	snprintf(strrchr(rig->program, '/'), 32, "/../apps/loops");
	if (geteuid()) {
		tap_skip("loops", "needs root");
		return 0;
	}
	rig->sched = sched_kernel_open(&options, reason, sizeof(reason));
	if (rig->sched)
		rig->kernel = looper_kernel_open(rig->sched, &any, reason, sizeof(reason));
	if (!tap_ok(rig->kernel, "the programs load%s%s", *reason ? ": " : "", reason))
		return tap_done();
	tap_ok(looper_kernel_count(rig->kernel) == 64, "as many slots as were asked for");
	tap_ok(!looper_kernel_hook_wakeups(rig->kernel), "wake-ups are hooked");
	tap_ok(!looper_kernel_hook_syscalls(rig->kernel), "system calls are hooked");
	for (int i = 0; i < 3; i++)
		run_detector(rig, (enum looper_detector)(i + 1), names[i]);
	looper_kernel_close(rig->kernel);
	sched_kernel_close(rig->sched);
	free(rig);
	return tap_done();
}
