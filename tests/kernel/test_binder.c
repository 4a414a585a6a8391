/* SPDX-License-Identifier: BSD-2-Clause */
/* Whom synchronous binder calls wait for, through the kernel's own driver;
 * tests/apps/binder_calls.c keeps the truth. Needs a kernel with binder: the guests have one. Where
 * there is none it is proven that there is none. Where the driver is a module without types, the
 * programs are loaded by the types of an Android kernel, for the verifier, and not hooked. usage:
 * test_binder [look|record]   one part; default: both */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/android/binderfs.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/binder_kernel.h"
#include "kernel/btf.h"
#include "kernel/load.h"
#include "tap.h"
#include "util/clock.h"

#define MOUNT     "/dev/binderfs"
#define MOST      512
#define LOOK_NS   (15 * NSEC_PER_MSEC)
#define LIMIT_NS  (100 * NSEC_PER_SEC)
#define ONE_MS_NS NSEC_PER_MSEC
#define CODES     128
#define ODD_NS    (100 * NSEC_PER_MSEC) /* what follows takes 200 ms and more */

/* Of binderfs; or of the module, where the kernel has none (guest/init names its devices). */
static const char *device = MOUNT "/binder";

/* ---- the program and its truth ---- */

struct truth {
	char what[16];
	uint32_t code;
	int32_t tid;
	uint64_t ns, cpu_ns; /* the latter of the thread that says so */
};

static struct {
	pid_t pid;
	int in, out;
	char text[65536];
	size_t length, parsed;
	struct truth truth[MOST];
	size_t count;
	uint64_t long_from_ns;
	bool done, deadlock;
} app;

static void parse_line(const char *line)
{
	struct truth *truth = &app.truth[app.count];
	unsigned long long ns, cpu_ns;

	if (sscanf(line, "case long %llu", &ns) == 1)
		app.long_from_ns = ns;
	app.deadlock |= !strncmp(line, "case deadlock", 13);
	app.done |= !strncmp(line, "done", 4);
	if (app.count < MOST && sscanf(line, "%15s %u %d %llu %llu", truth->what, &truth->code,
				       &truth->tid, &ns, &cpu_ns) == 5) {
		truth->ns = ns;
		truth->cpu_ns = cpu_ns;
		app.count++;
	}
}

static void read_app(void)
{
	ssize_t n = read(app.out, app.text + app.length, sizeof(app.text) - 1 - app.length);
	char *end;

	if (n > 0)
		app.length += (size_t)n;
	app.text[app.length] = 0;
	while ((end = strchr(app.text + app.parsed, '\n'))) {
		*end = 0;
		parse_line(app.text + app.parsed);
		app.parsed = (size_t)(end - app.text) + 1;
	}
}

static const char *find_program(const char *guest, const char *here, char *path, size_t size)
{
	const char *build = getenv("BUILD");

	snprintf(path, size, "%s", guest);
	if (access(path, X_OK))
		snprintf(path, size, "%s/%s", build ? build : "build", here);
	return path;
}

static bool start_app(const char *const *cases)
{
	char path[256], *arguments[32] = {path, (char *)device};
	int in[2], out[2], count = 2;
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + 30 * NSEC_PER_SEC;

	memset(&app, 0, sizeof(app));
	find_program("/payload/apps/binder_calls", "tests/apps/binder_calls", path, sizeof(path));
	while (*cases && count < 31)
		arguments[count++] = (char *)*cases++;
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return false;
	app.pid = fork();
	if (!app.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv(path, arguments);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	app.in = in[1];
	app.out = out[0];
	fcntl(app.out, F_SETFL, O_NONBLOCK);
	while (!strstr(app.text, "ready") && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		read_app();
		usleep(10000);
	}
	return strstr(app.text, "ready") != NULL;
}

static void end_app(void)
{
	kill(app.pid, SIGKILL);
	waitpid(app.pid, NULL, 0);
	close(app.in);
	close(app.out);
	/* The servers die with it, and leave the place of the context manager. */
	usleep(500000);
}

static const struct truth *find_truth(const char *what, uint32_t code, int32_t tid)
{
	for (size_t i = 0; i < app.count; i++)
		if (app.truth[i].code == code && !strcmp(app.truth[i].what, what) &&
		    (!tid || app.truth[i].tid == tid))
			return &app.truth[i];
	return NULL;
}

static int32_t taker(uint32_t code)
{
	const struct truth *truth = find_truth("taken", code, 0);

	return truth ? truth->tid : -1;
}

/* ---- looks at the kernel side ---- */

struct seen {
	uint32_t caller, debug_id, code;
	uint64_t first_ns, last_ns; /* when the caller was seen to wait in it */
	bool queued, served;
	struct binder_look in_queue;
	int32_t tid; /* who served it */
	struct binder_call call;
};

static struct {
	struct seen seen[MOST];
	size_t count, deepest;
} looks;

static struct seen *seen_of(const struct binder_look *look, uint64_t now_ns)
{
	struct seen *seen;

	for (size_t i = 0; i < looks.count; i++)
		if (looks.seen[i].debug_id == look->debug_id)
			return &looks.seen[i];
	if (looks.count == MOST)
		return NULL;
	seen = &looks.seen[looks.count++];
	*seen = (struct seen){.caller = look->tid,
			      .debug_id = look->debug_id,
			      .code = look->code,
			      .first_ns = now_ns};
	return seen;
}

static void look_around(struct binder_kernel *kernel)
{
	const struct binder_fds fds = binder_kernel_fds(kernel);
	struct binder_look look = {.tid = (uint32_t)app.pid, .tgid = (uint32_t)app.pid};
	size_t depth = 0;

	while (depth < 16 && look.tid) {
		uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
		struct seen *seen;

		if (binder_look_ask(&fds, &look) || !look.waits)
			break;
		depth++;
		seen = seen_of(&look, now_ns);
		if (!seen)
			break;
		seen->last_ns = now_ns;
		if (look.to_tid) {
			seen->served = true;
			seen->tid = (int32_t)look.to_tid;
		} else {
			seen->queued = true;
			if (look.at_work)
				seen->in_queue = look;
		}
		look = (struct binder_look){
			.tid = look.to_tid, .tgid = look.to_pid, .process = look.to_process};
	}
	if (depth > looks.deepest)
		looks.deepest = depth;
	for (size_t i = 0; i < looks.count; i++) {
		struct binder_call call;

		if (binder_kernel_call(kernel, (pid_t)looks.seen[i].caller, looks.seen[i].debug_id,
				       &call))
			looks.seen[i].call = call;
	}
}

static const struct seen *find_seen(uint32_t code)
{
	for (size_t i = 0; i < looks.count; i++)
		if (looks.seen[i].code == code)
			return &looks.seen[i];
	return NULL;
}

/* The driver's times lie between those of the programs: a call is sent behind the caller's clock,
 * is received before the callee's and answered behind it. How far they are apart is the time of the
 * system calls, and on a busy machine whatever else ran. */
static void judge_times(void)
{
	uint64_t best_sent = UINT64_MAX, best_taken = UINT64_MAX, best_answered = UINT64_MAX;
	size_t judged = 0, wrong = 0;

	for (size_t i = 0; i < looks.count; i++) {
		const struct seen *seen = &looks.seen[i];
		const struct truth *sent = find_truth("sent", seen->code, (int32_t)seen->caller);
		const struct truth *taken = find_truth("taken", seen->code, seen->tid);
		const struct truth *answered = find_truth("answered", seen->code, seen->tid);

		if (!sent || !taken || !answered || !seen->served || !seen->call.replied_ns)
			continue;
		judged++;
		if (seen->call.sent_ns < sent->ns || seen->call.received_ns > taken->ns ||
		    seen->call.replied_ns < answered->ns ||
		    seen->call.received_ns < seen->call.sent_ns ||
		    (int32_t)seen->call.received_tid != taken->tid) {
			wrong++;
			tap_note("code %u: sent %lld us, taken %lld us, answered %lld us off",
				 seen->code, (long long)(seen->call.sent_ns - sent->ns) / 1000,
				 (long long)(taken->ns - seen->call.received_ns) / 1000,
				 (long long)(seen->call.replied_ns - answered->ns) / 1000);
			continue;
		}
		if (seen->call.sent_ns - sent->ns < best_sent)
			best_sent = seen->call.sent_ns - sent->ns;
		if (taken->ns - seen->call.received_ns < best_taken)
			best_taken = taken->ns - seen->call.received_ns;
		if (seen->call.replied_ns - answered->ns < best_answered)
			best_answered = seen->call.replied_ns - answered->ns;
	}
	tap_ok(judged >= 6 && !wrong,
	       "times: of %zu calls, each between the clocks of caller and callee", judged);
	tap_ok(judged && best_sent + best_taken <= ONE_MS_NS &&
		       best_taken + best_answered <= ONE_MS_NS,
	       "times: sent %.0f us behind, taken %.0f us before, answered %.0f us behind (the "
	       "best)",
	       (double)best_sent / 1000, (double)best_taken / 1000, (double)best_answered / 1000);
}

/* The sums of a thread are as of its last switch or tick: both ends may lack up to a tick (10 ms
 * where CONFIG_HZ is 100), and what the driver does before and behind the program's clocks is in
 * it. */
static bool is_near_cpu(int64_t found_ns, int64_t truth_ns)
{
	/* What an emulator's CPU waits for its turn it runs, as far as its kernel knows. */
	const int64_t slack_ns = (tap_is_emulated() ? 50 : 11) * (int64_t)ONE_MS_NS;

	return found_ns < truth_ns + slack_ns && truth_ns < found_ns + slack_ns;
}

static void judge_cpu(void)
{
	size_t judged = 0, wrong = 0;
	bool work = false;

	for (size_t i = 0; i < looks.count; i++) {
		const struct seen *seen = &looks.seen[i];
		const struct truth *taken = find_truth("taken", seen->code, seen->tid);
		const struct truth *answered = find_truth("answered", seen->code, seen->tid);
		int64_t truth_ns, found_ns = (int64_t)seen->call.served_cpu_ns;

		if (!taken || !answered || !seen->served || !seen->call.replied_ns)
			continue;
		judged++;
		truth_ns = (int64_t)(answered->cpu_ns - taken->cpu_ns);
		work |= truth_ns > 100 * (int64_t)ONE_MS_NS;
		if (is_near_cpu(found_ns, truth_ns))
			continue;
		wrong++;
		tap_note("code %u: %.3f of %.3f ms", seen->code, (double)found_ns / 1e6,
			 (double)truth_ns / 1e6);
	}
	tap_ok(judged >= 6 && work && !wrong,
	       "cpu: of %zu calls, what the thread ran for each, sleepers and one that computes",
	       judged);
}

static void judge_looks(void)
{
	const struct seen *chain = find_seen(11), *lock = find_seen(12), *queued = find_seen(22);
	const struct seen *back = find_seen(41), *inner = find_seen(43), *dead = find_seen(91);
	const struct seen *first = find_seen(61), *second = find_seen(62);
	const struct seen *flooded = find_seen(33);

	tap_ok(chain && lock && chain->tid == taker(11) && lock->tid == taker(12) &&
		       (int32_t)lock->caller == chain->tid,
	       "chain: the thread of each process, in order");
	tap_ok(queued && queued->queued && queued->in_queue.threads == 1 &&
		       queued->in_queue.at_work == 1 && queued->in_queue.all_seen &&
		       (int32_t)queued->in_queue.at_work_tids[0] == taker(21) &&
		       queued->call.received_ns && (int32_t)queued->call.received_tid == taker(22),
	       "queued: its process, who is at work there, and later who took it");
	tap_ok(!find_seen(31) && taker(31) > 0, "one-way: waits for nobody");
	tap_ok(!find_seen(32) && flooded && flooded->tid == taker(33) &&
		       flooded->call.received_ns && flooded->call.replied_ns,
	       "flood: who serves the call behind 500 one-way calls");
	tap_ok(back && inner && inner->caller == (uint32_t)app.pid && inner->tid == taker(43) &&
		       back->caller == (uint32_t)app.pid && back->last_ns > inner->last_ns &&
		       back->call.sent_ns && back->call.sent_ns < inner->call.sent_ns &&
		       back->call.replied_ns > inner->call.replied_ns,
	       "nested: the inner call, then the outer one with its own times");
	tap_ok(first && second && first->tid == taker(61) && second->tid == taker(62) &&
		       first->last_ns < second->first_ns,
	       "two in a row: each by itself");
	tap_ok(dead && dead->tid == taker(91) && app.long_from_ns &&
		       dead->last_ns < app.long_from_ns && !dead->call.replied_ns,
	       "a callee that dies: waited for until then, and not answered");
	tap_ok(looks.deepest >= 11, "long: %zu calls in a row", looks.deepest);
}

static void judge_odd(void)
{
	const struct seen *twin = find_seen(47), *pool = find_seen(52), *outer = find_seen(44);
	const struct seen *inner = find_seen(46), *via = find_seen(48), *died = find_seen(49);
	const struct seen *deepest = find_seen(56);

	tap_ok(twin && twin->tid == taker(47) && twin->call.received_ns &&
		       (pid_t)twin->call.received_tgid == app.pid,
	       "self: another thread of the caller's own process");
	tap_ok(pool && pool->queued && pool->in_queue.threads == 3 && pool->in_queue.at_work == 3 &&
		       pool->in_queue.all_seen && pool->call.received_ns &&
		       (int32_t)pool->call.received_tid == taker(52),
	       "pool: all three threads at work, and later who took it (%u of %u)",
	       pool ? pool->in_queue.at_work : 0, pool ? pool->in_queue.threads : 0);
	tap_ok(outer && inner && inner->caller == (uint32_t)app.pid && inner->tid == taker(46) &&
		       outer->caller == (uint32_t)app.pid && outer->tid == taker(44) &&
		       outer->last_ns > inner->last_ns + ODD_NS,
	       "contexts: a call by another device amid one, then that one again");
	tap_ok(outer && inner && outer->call.sent_ns && outer->call.sent_ns < inner->call.sent_ns &&
		       outer->call.replied_ns > inner->call.replied_ns && inner->call.replied_ns,
	       "contexts: each with its own times");
	tap_ok(via && died && died->caller == (uint32_t)taker(48) && died->tid == taker(49) &&
		       !died->call.replied_ns && via->last_ns > died->last_ns + ODD_NS,
	       "via: a callee that dies amid a chain is waited for until then");
	tap_ok(deepest && deepest->caller == (uint32_t)app.pid && deepest->tid == taker(56),
	       "deep: who serves the innermost of seven calls");
}

static const char *const all_cases[] = {"chain", "queued", "oneway", "flood", "nested",
					"two",   "work",   "dies",   "long",  NULL};
static const char *const odd_cases[] = {"self", "pool", "contexts", "via", "deep", NULL};

static void look_at(struct binder_kernel *kernel, const char *const *cases,
		    void (*judge)(struct binder_kernel *kernel))
{
	uint64_t until_ns;

	memset(&looks, 0, sizeof(looks));
	if (!tap_ok(start_app(cases), "the app's servers are ready"))
		goto cleanup;
	tap_ok(!binder_kernel_watch(kernel, app.pid) && binder_kernel_is_hooked(kernel),
	       "hooked with the first watch");
	if (write(app.in, "x", 1) != 1)
		goto cleanup;
	until_ns = clock_now_ns(CLOCK_MONOTONIC) + LIMIT_NS;
	while (!app.done && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		read_app();
		look_around(kernel);
		usleep(LOOK_NS / 1000);
	}
	tap_ok(app.done, "the app came to its end");
	judge(kernel);
	binder_kernel_sweep(kernel, clock_now_ns(CLOCK_MONOTONIC) + 60 * NSEC_PER_SEC);
	binder_kernel_unwatch(kernel, app.pid);
	tap_ok(!binder_kernel_is_hooked(kernel), "let go with the last watch");
cleanup:
	end_app();
}

static void judge_all(struct binder_kernel *kernel)
{
	uint64_t losses[BINDER_LOSS_MAX];

	judge_looks();
	judge_times();
	judge_cpu();
	tap_ok(!binder_kernel_losses(kernel, losses) && !losses[BINDER_LOSS_THREADS_FULL] &&
		       !losses[BINDER_LOSS_DEPTH],
	       "no call was lost");
}

/* Of the seven calls of the main thread three found no place, and two of server 1's six. */
static void judge_odd_ones(struct binder_kernel *kernel)
{
	uint64_t losses[BINDER_LOSS_MAX];

	judge_odd();
	tap_ok(!binder_kernel_losses(kernel, losses) && !losses[BINDER_LOSS_THREADS_FULL] &&
		       losses[BINDER_LOSS_DEPTH] == 5,
	       "deep: calls too deep are counted (%llu)",
	       (unsigned long long)losses[BINDER_LOSS_DEPTH]);
}

static void part_look(void)
{
	char reason[200];
	struct binder_kernel *kernel = binder_kernel_open(NULL, 16, reason, sizeof(reason));

	if (!tap_ok(kernel, "loaded%s%s", kernel ? "" : ": ", kernel ? "" : reason))
		return;
	tap_ok(!binder_kernel_is_hooked(kernel), "nothing is hooked while nobody is watched");
	look_at(kernel, all_cases, judge_all);
	look_at(kernel, odd_cases, judge_odd_ones);
	binder_kernel_close(kernel);
}

/* ---- records ---- */

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static bool has_frame(json_t *link, const char *symbol)
{
	json_t *frames = json_object_get(json_object_get(link, "stack"), "frames"), *frame;
	size_t i;

	json_array_foreach (frames, i, frame)
		if (!strcmp(text_of(frame, "symbol"), symbol))
			return true;
	return false;
}

static long long number_of(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return value ? json_integer_value(value) : -1;
}

static struct {
	size_t blocks, chains, chain, queued, taken_later, longs, deadlocks, wrong, holder_stacks,
		selves, contexts, later, turns, work;
} records;

static void wrong(const char *why, json_t *block)
{
	json_t *chain = json_object_get(block, "chain"), *link = NULL;
	size_t i;

	records.wrong++;
	tap_note("wrong: %s:", why);
	json_array_foreach (chain, i, link)
		tap_note("  %s %lld, %s: %s", text_of(link, "thread"), number_of(link, "tid"),
			 text_of(link, "how"), text_of(link, "what"));
}

static void judge_chain(json_t *block, json_t *chain)
{
	json_t *second = json_array_get(chain, 1), *third = json_array_get(chain, 2);

	if (number_of(json_array_get(chain, 0), "tid") != taker(11) ||
	    (second && number_of(second, "tid") != taker(12)) ||
	    (third && (strcmp(text_of(third, "thread"), "holder") ||
		       strcmp(text_of(third, "how"), "lock"))) ||
	    json_array_size(chain) > 3)
		wrong("chain", block);
	records.chain += third != NULL;
	records.holder_stacks += third && has_frame(third, "hold_and_sleep");
}

/* The longest that a call was in the queue by the programs' clocks, which is no less than by the
 * driver's. */
static long long longest_queue_ns(void)
{
	const struct truth *taken = NULL;
	long long longest_ns = 0;

	/* The callee writes its line first. */
	for (size_t i = 0; i < app.count; i++) {
		const struct truth *truth = &app.truth[i];

		if (truth->code != 22)
			continue;
		if (!strcmp(truth->what, "taken"))
			taken = truth;
		if (!strcmp(truth->what, "sent") && taken &&
		    (long long)(taken->ns - truth->ns) > longest_ns)
			longest_ns = (long long)(taken->ns - truth->ns);
	}
	return longest_ns;
}

static void judge_queued(json_t *block, json_t *chain)
{
	json_t *call = json_array_get(chain, 0), *other = json_array_get(chain, 1);
	long long tid = number_of(call, "tid"), queued_ns = number_of(call, "queued_ns");

	if ((tid >= 0 && tid != taker(22)) || (other && number_of(other, "tid") != taker(21)) ||
	    (other && number_of(call, "at_work") != 1))
		wrong("queued", block);
	/* Where it was taken the whole time is told. */
	if (tid >= 0 && queued_ns > longest_queue_ns())
		wrong("queued_ns", block);
	records.queued += other != NULL;
	records.taken_later += tid >= 0 && queued_ns > 0;
}

static void judge_long(json_t *block, json_t *chain)
{
	json_t *link = NULL;
	size_t i;

	json_array_foreach (chain, i, link) {
		/* It asks the manager for the next one before its first call. */
		if (!strcmp(text_of(link, "thread"), "manager"))
			break;
		/* Taken only after the look, by a thread that was not named then. */
		if (!*text_of(link, "thread"))
			continue;
		if (strncmp(text_of(link, "thread"), "server-", 7) ||
		    (size_t)atoi(text_of(link, "thread") + 7) != i + 1)
			wrong("long", block);
	}
	records.longs +=
		json_array_size(chain) == 8 && json_is_true(json_object_get(block, "chain_cut"));
}

static void judge_self(json_t *block, json_t *chain)
{
	json_t *link = json_array_get(chain, 0);

	if (number_of(link, "pid") != app.pid || json_array_size(chain) > 1 ||
	    (number_of(link, "tid") >= 0 && number_of(link, "tid") != taker(47)))
		wrong("self", block);
	records.selves += !strcmp(text_of(link, "thread"), "twin");
}

/* A server that computes, but for what it waits for a CPU, and one that sleeps. */
static void judge_work(json_t *block, json_t *chain)
{
	long long served_ns = number_of(json_array_get(chain, 0), "served_ns");
	long long cpu_ns = number_of(json_array_get(chain, 0), "served_cpu_ns");
	const struct truth *taken = find_truth("taken", 71, 0);
	const struct truth *answered = find_truth("answered", 71, 0);

	if (served_ns < 0 || !taken || !answered || strcmp(text_of(block, "state"), "closed"))
		return;
	if (cpu_ns > served_ns || !is_near_cpu(cpu_ns, (int64_t)(answered->cpu_ns - taken->cpu_ns)))
		wrong("work", block);
	records.work++;
}

static void judge_second(json_t *block, json_t *chain)
{
	long long cpu_ns = number_of(json_array_get(chain, 0), "served_cpu_ns");

	if (!is_near_cpu(cpu_ns, 0))
		wrong("a server that sleeps, on a CPU", block);
}

/* Its main thread waits for the other device's server, then for server 1 again. */
static void judge_contexts(json_t *block, json_t *chain)
{
	json_t *link = json_array_get(chain, 0);

	if (number_of(link, "tid") != taker(44) || json_array_size(chain) > 1)
		wrong("contexts", block);
	records.contexts += number_of(link, "served_ns") > (long long)ODD_NS;
}

/* Its server waits for a lock only when the chain was looked at once. */
static void judge_later(json_t *block, json_t *chain)
{
	json_t *lock = json_array_get(chain, 1);

	if (number_of(json_array_get(chain, 0), "tid") != taker(57) ||
	    (lock && strcmp(text_of(lock, "thread"), "holder")))
		wrong("later", block);
	records.later += lock != NULL;
}

/* Between two waits for a lock, which are shorter. */
static void judge_turns(json_t *block, json_t *chain)
{
	if (number_of(json_array_get(chain, 0), "tid") != taker(63) || json_array_size(chain) > 1 ||
	    json_object_get(block, "owner"))
		wrong("turns", block);
	records.turns += !strcmp(text_of(block, "state"), "closed");
}

static void judge_deadlock(json_t *block, json_t *chain)
{
	static const char *const names[] = {"server-1", "caller", "pool"};
	static const char *const hows[] = {"binder", "lock", "binder"};
	json_t *link;
	size_t i;

	json_array_foreach (chain, i, link)
		if (i >= 3 || strcmp(text_of(link, "thread"), names[i]) ||
		    strcmp(text_of(link, "how"), hows[i]))
			wrong("deadlock", block);
	records.deadlocks +=
		json_array_size(chain) == 3 && json_is_true(json_object_get(block, "deadlock"));
}

static void judge_block(json_t *block)
{
	json_t *chain = json_object_get(block, "chain");
	const char *what = text_of(json_array_get(chain, 0), "what");
	unsigned code = 0;

	records.blocks++;
	records.chains += json_array_size(chain) > 0;
	if (getenv("CHAINS"))
		tap_note("chain of %zu: %s, %s", json_array_size(chain), what,
			 text_of(block, "state"));
	if (!json_array_size(chain) || sscanf(what, "code %u", &code) != 1)
		return;
	if (json_is_true(json_object_get(block, "deadlock")) && code != 95)
		wrong("no deadlock", block);
	switch (code) {
	case 11:
		judge_chain(block, chain);
		break;
	case 22:
		judge_queued(block, chain);
		break;
	case 44:
		judge_contexts(block, chain);
		break;
	case 47:
		judge_self(block, chain);
		break;
	case 57:
		judge_later(block, chain);
		break;
	case 63:
		judge_turns(block, chain);
		break;
	case 62:
		judge_second(block, chain);
		break;
	case 71:
		judge_work(block, chain);
		break;
	case 81:
		judge_long(block, chain);
		break;
	case 95:
		judge_deadlock(block, chain);
		break;
	case 31:
	case 32:
		wrong("one-way", block);
		break;
	}
}

static bool read_records(const char *path, bool *started)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	*started = false;
	if (!file)
		return false;
	while (getline(&line, &room, file) > 0) {
		json_t *record = json_loads(line, 0, NULL);

		*started |= !strcmp(text_of(record, "event"), "target_start");
		if (!strcmp(text_of(record, "type"), "block"))
			judge_block(record);
		if (!strcmp(text_of(record, "type"), "footer"))
			tap_note("%zu records of blocks, %zu with a chain; %.400s", records.blocks,
				 records.chains,
				 strstr(line, "\"lost\"") ? strstr(line, "\"lost\"") : "");
		json_decref(record);
	}
	free(line);
	fclose(file);
	return true;
}

static void part_record(void)
{
	/* Several times, because a machine that is busy with others takes samples late or not at
	 * all. */
	static const char *const cases[] = {"chain",  "queued",   "long",   "chain", "queued",
					    "long",   "chain",    "queued", "long",  "chain",
					    "queued", "oneway",   "work",   "long",  "contexts",
					    "self",   "contexts", "self",   "later", "turns",
					    "turns",  "deadlock", NULL};
	static const char out[] = "/tmp/binder.jsonl";
	char path[256], pid[16], text[64];
	uint64_t until_ns;
	pid_t recorder;
	bool started = false;
	int status;

	unlink(out);
	if (!tap_ok(start_app(cases), "the app's servers are ready"))
		return;
	snprintf(pid, sizeof(pid), "%d", (int)app.pid);
	find_program("/bin/jankscope", "jankscope", path, sizeof(path));
	recorder = fork();
	if (!recorder) {
		execl(path, path, "record", "-p", pid, "--block", "60ms", "-i", "1s", "-d", "300s",
		      "--max-lost", "100", "-q", "-o", out, NULL);
		_exit(127);
	}
	until_ns = clock_now_ns(CLOCK_MONOTONIC) + LIMIT_NS;
	while (!started && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		usleep(200000);
		read_records(out, &started);
	}
	memset(&records, 0, sizeof(records));
	usleep(1500000);
	if (write(app.in, "x", 1) != 1)
		goto cleanup;
	while (!app.deadlock && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		read_app();
		usleep(50000);
	}
	/* It lasts: told at the threshold, and again at 5 s. */
	for (int i = 0; i < 40 && !records.deadlocks; i++) {
		usleep(500000);
		read_app();
		memset(&records, 0, sizeof(records));
		read_records(out, &started);
	}
	kill(recorder, SIGINT);
	waitpid(recorder, &status, 0);
	read_app();
	tap_ok(WIFEXITED(status) && !WEXITSTATUS(status), "record ends with 0");
	memset(&records, 0, sizeof(records));
	read_records(out, &started);
	tap_ok(!records.wrong, "records: no link is another thread's");
	tap_ok(records.chain,
	       "records: two calls and the lock behind them (%zu, %zu with the holder's stack)",
	       records.chain, records.holder_stacks);
	tap_ok(records.queued && records.taken_later,
	       "records: a call in the queue, who is at work there, and how long it was (%zu)",
	       records.queued);
	tap_ok(records.longs, "records: a chain that is cut says so (%zu)", records.longs);
	tap_ok(records.selves, "records: a call to the own process (%zu)", records.selves);
	tap_ok(records.work, "records: a server that computes ran for what it says (%zu)",
	       records.work);
	tap_ok(records.contexts, "records: a call that stood while another device was called (%zu)",
	       records.contexts);
	tap_ok(records.later, "records: a lock that a server waits for later (%zu)", records.later);
	tap_ok(records.turns, "records: a call between two waits for a lock is the chain (%zu)",
	       records.turns);
	tap_ok(records.deadlocks,
	       "records: a circle of two calls and two locks is a deadlock (%zu)",
	       records.deadlocks);
	snprintf(text, sizeof(text), "/proc/%d/stat", (int)app.pid);
	tap_ok(!access(text, F_OK), "the app lives");
cleanup:
	end_app();
}

/* ---- kernels without ---- */

static bool file_has(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[256];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, word) != NULL;
	if (file)
		fclose(file);
	return found;
}

static void prove_absence(void)
{
	bool driver = file_has("/proc/filesystems", "binder") || file_has("/proc/misc", "binder") ||
		      !access("/sys/module/binder_linux", F_OK);
	char reason[200];

	tap_ok(!driver, "no binder: its tracepoint cannot be hooked, and the kernel has no driver");
	tap_ok(!binder_kernel_open(NULL, 1, reason, sizeof(reason)) && errno == ENOENT &&
		       !reason[0],
	       "no binder: nothing is loaded, and that is no fault");
	tap_skip("binder calls", "THIS KERNEL HAS NO BINDER DRIVER: the guests of tests/vm have");
}

/* The tracepoints are there, the types are not (5.10: modules have none). */
static void load_by_foreign_types(void)
{
	const struct embedded_btf *list = kernel_btf_embedded();
	char path[] = "/tmp/binder_types_XXXXXX", reason[200];
	struct binder_kernel *kernel;
	int fd;

	if (!list->name) {
		tap_skip("loads by an Android kernel's types", "this build carries none");
		return;
	}
	for (; list->name; list++) {
		size_t size = (size_t)(list->end - list->bytes);

		snprintf(path, sizeof(path), "/tmp/binder_types_XXXXXX");
		fd = mkstemp(path);
		if (fd < 0 || write(fd, list->bytes, size) != (ssize_t)size)
			exit(1);
		close(fd);
		kernel = binder_kernel_open(path, 16, reason, sizeof(reason));
		tap_ok(kernel, "the verifier takes the programs with the types of %s%s%s",
		       list->name, kernel ? "" : ": ", kernel ? "" : reason);
		binder_kernel_close(kernel);
		unlink(path);
	}
}

/* DEVICE2: a context of its own. */
static bool make_second_device(void)
{
	struct binderfs_device made = {.name = "binder2"};
	int control = open(MOUNT "/binder-control", O_RDONLY | O_CLOEXEC);
	bool there = control >= 0 && (!ioctl(control, BINDER_CTL_ADD, &made) || errno == EEXIST);

	if (control >= 0)
		close(control);
	return there;
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	struct binder_kernel *kernel;
	char reason[200];
	int err;

	kernel_log_init(getenv("VERBOSE") != NULL);
	if (geteuid()) {
		tap_skip("binder calls", "needs root");
		return tap_done();
	}
	err = binder_kernel_probe();
	if (err == -ENOENT) {
		prove_absence();
		return tap_done();
	}
	if (!tap_ok(!err, "the tracepoint is there: %s", strerror(-err)))
		return tap_done();
	load_by_foreign_types();
	kernel = binder_kernel_open(NULL, 1, reason, sizeof(reason));
	if (!kernel) {
		tap_ok(!access("/sys/module/binder_linux", F_OK) &&
			       access("/sys/kernel/btf/binder_linux", F_OK),
		       "no types of binder: the driver is a module without BTF: %s", reason);
		tap_skip("binder calls", "this kernel's module has no BTF");
		return tap_done();
	}
	binder_kernel_close(kernel);
	mkdir(MOUNT, 0755);
	if (!access("/dev/binder", F_OK) && !access("/dev/binder2", F_OK)) {
		device = "/dev/binder";
	} else if (access(device, F_OK) && mount("binder", MOUNT, "binder", 0, NULL)) {
		tap_ok(!file_has("/proc/filesystems", "binder"), "binderfs cannot be mounted: %s",
		       strerror(errno));
		tap_skip("binder calls", "this kernel has no binderfs");
		return tap_done();
	}
	if (!strncmp(device, MOUNT, strlen(MOUNT)) && !make_second_device()) {
		tap_ok(false, "a second device: %s", strerror(errno));
		return tap_done();
	}
	if (strcmp(part, "record"))
		part_look();
	if (strcmp(part, "look"))
		part_record();
	return tap_done();
}
