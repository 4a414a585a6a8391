/* SPDX-License-Identifier: BSD-2-Clause */
/* The ladder: which backend takes the capture, and what became of it. */
#include "stack/capturer.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_STACK_BYTES (256u << 10)
#define TOUCHED_BYTES       (64u << 10)
#define MAX_STACK_BYTES     (16u << 20)
#define PERF_WAIT_NS        5000000ull
#define MAX_WAIT_NS         50000000ull
#define PTRACE_DEADLINE_NS  20000000ull
/* A thread that goes on and off the CPU: snapshot and perf take turns this often. */
#define MAX_ROUNDS    6
#define START_WAIT_MS 1000

const char *stack_failure_text(enum stack_failure failure)
{
	static const char *const texts[STACK_FAILURES] = {
		[STACK_OK] = "ok",
		[STACK_GONE] = "thread is gone",
		[STACK_REUSED] = "pid belongs to another process now",
		[STACK_TRACED] = "already traced",
		[STACK_STOPPED] = "stopped by its user",
		[STACK_UNINTERRUPTIBLE] = "in uninterruptible sleep",
		[STACK_IN_POLL] = "waits in a system call that a stop may end",
		[STACK_COMPAT] = "32-bit code",
		[STACK_KERNEL_THREAD] = "kernel thread",
		[STACK_NOT_PERMITTED] = "not permitted",
		[STACK_ON_CPU] = "on a CPU",
		[STACK_OFF_CPU] = "did not run",
		[STACK_MOVED] = "ran while its stack was read",
		[STACK_NOT_WATCHED] = "no registers stashed",
		[STACK_DEADLINE] = "did not stop within the deadline",
		[STACK_WORKER_LOST] = "capture worker was lost and replaced",
		[STACK_NO_MEMORY_READ] = "stack pointer leads to no memory",
		[STACK_UNSUPPORTED] = "not supported here",
		[STACK_HELD_UP] = "a capture of it was held up just before",
		[STACK_THINNED] = "left out: samples had cost 1 % of a core",
	};

	return failure < STACK_FAILURES ? texts[failure] : "unknown";
}

struct stack_capture *stack_capture_new(size_t stack_bytes)
{
	struct stack_capture *capture;

	if (!stack_bytes)
		stack_bytes = DEFAULT_STACK_BYTES;
	if (stack_bytes > MAX_STACK_BYTES) {
		errno = EINVAL;
		return NULL;
	}
	capture = calloc(1, sizeof(*capture));
	if (!capture || !(capture->stack = malloc(stack_bytes))) {
		free(capture);
		errno = ENOMEM;
		return NULL;
	}
	/* The first copy must not wait for pages; few stacks are larger than that. */
	memset(capture->stack, 1, stack_bytes < TOUCHED_BYTES ? stack_bytes : TOUCHED_BYTES);
	capture->stack_room = stack_bytes;
	return capture;
}

void stack_capture_clear(struct stack_capture *capture)
{
	for (size_t i = 0; i < capture->kernel_frame_count; i++)
		free(capture->kernel_frames[i]);
	*capture = (struct stack_capture){
		.stack = capture->stack, .stack_room = capture->stack_room, .kind = CAPTURE_KERNEL};
	capture->registers.syscall_nr = -1;
}

void stack_capture_free(struct stack_capture *capture)
{
	if (!capture)
		return;
	stack_capture_clear(capture);
	free(capture->stack);
	free(capture);
}

struct stack_capturer *stack_capturer_new(const struct stack_capture_config *config)
{
	struct stack_capturer *capturer = calloc(1, sizeof(*capturer));
	int err = -ENOMEM;

	if (!capturer)
		goto fail;
	capturer->config = *config;
	capturer->worker = (struct ptrace_worker){.pid = -1, .socket = -1};
	if (!capturer->config.root)
		capturer->config.root = "";
	if (!capturer->config.perf_wait_ns)
		capturer->config.perf_wait_ns = PERF_WAIT_NS;
	if (capturer->config.perf_wait_ns > MAX_WAIT_NS)
		capturer->config.perf_wait_ns = MAX_WAIT_NS;
	if (!capturer->config.ptrace_deadline_ns ||
	    capturer->config.ptrace_deadline_ns > PTRACE_DEADLINE_NS)
		capturer->config.ptrace_deadline_ns = PTRACE_DEADLINE_NS;
	if (!config->no_ptrace) {
		err = ptrace_worker_start(&capturer->worker);
		if (err)
			goto fail;
		/* Only here there is time for it; if it takes longer, a capture will wait. */
		ptrace_worker_wait(&capturer->worker, START_WAIT_MS);
	}
	return capturer;
fail:
	stack_capturer_free(capturer);
	errno = -err;
	return NULL;
}

void stack_capturer_free(struct stack_capturer *capturer)
{
	if (!capturer)
		return;
	ptrace_worker_stop(&capturer->worker);
	perf_rings_free(&capturer->perf);
	free(capturer);
}

void stack_capturer_rest(struct stack_capturer *capturer)
{
	perf_rings_expire(&capturer->perf, clock_now_ns(CLOCK_MONOTONIC));
}

pid_t stack_capturer_worker(const struct stack_capturer *capturer)
{
	return capturer->worker.pid;
}

static void count_stop(struct stack_capturer *capturer, uint64_t ns)
{
	capturer->stop_ns[capturer->stats.stops++ % STOP_SAMPLES] = ns;
	if (ns > capturer->stats.stop_max_ns)
		capturer->stats.stop_max_ns = ns;
}

static enum stack_failure by_ptrace(struct stack_capturer *capturer,
				    const struct stack_thread *thread,
				    struct stack_capture *capture)
{
	enum stack_failure failure;
	bool eintr_risk = false;

	if (capturer->config.no_ptrace)
		return STACK_UNSUPPORTED;
	/* It could only be recognised after it was stopped for nothing. */
	if (thread_is_compat(capturer->config.root, thread->pid))
		return STACK_COMPAT;
	failure = capture_ptrace(&capturer->worker, thread, capturer->config.ptrace_deadline_ns,
				 capture, &eintr_risk);
	if (capture->stop_ns)
		count_stop(capturer, capture->stop_ns);
	capturer->stats.eintr_risk += eintr_risk;
	capture->eintr_risk = eintr_risk;
	return failure;
}

/* Failures that no other rung can do better about. */
static bool is_final(enum stack_failure failure)
{
	return failure == STACK_GONE || failure == STACK_REUSED || failure == STACK_KERNEL_THREAD ||
	       failure == STACK_COMPAT || failure == STACK_NOT_PERMITTED;
}

/* Snapshot while it waits, perf while it runs, in turns as long as it changes between the two. */
static enum stack_failure without_stop(struct stack_capturer *capturer,
				       const struct stack_thread *thread,
				       struct stack_capture *capture)
{
	const struct stack_stash *stash = capturer->config.stash;
	enum stack_failure failure = STACK_NOT_WATCHED;
	bool perf_missed = false;

	for (unsigned round = 0; round < MAX_ROUNDS; round++) {
		if (stash) {
			failure = capture_snapshot(stash, thread, capture);
			if (!failure || is_final(failure) || failure == STACK_NO_MEMORY_READ)
				return failure;
			capturer->stats.failures[failure]++;
			if (failure == STACK_MOVED)
				continue;
		}
		if (capturer->config.no_perf || (failure != STACK_ON_CPU && stash) || perf_missed)
			break;
		failure = capture_perf(&capturer->perf, thread, capturer->config.perf_wait_ns,
				       capture);
		if (failure != STACK_OFF_CPU)
			return failure;
		capturer->stats.failures[failure]++;
		/* Waiting once is enough: the whole call must stay below 50 ms. */
		perf_missed = true;
		if (!stash)
			break;
	}
	return failure;
}

static enum stack_failure climb_down(struct stack_capturer *capturer,
				     const struct stack_thread *thread,
				     struct stack_capture *capture)
{
	enum stack_failure failure, last;
	struct thread_status status;

	failure = capturer->config.stash ? without_stop(capturer, thread, capture)
					 : STACK_NOT_WATCHED;
	if (!failure || failure == STACK_GONE || failure == STACK_REUSED)
		return failure;
	last = thread_status_read(capturer->config.root, thread->pid, thread->tid, &status);
	if (last)
		return last;
	if (thread->start_boot_ns && status.start_ticks != thread->start_boot_ns / 10000000)
		return STACK_REUSED;
	if (status.kernel_thread)
		failure = STACK_KERNEL_THREAD;
	/* Without a stash, a thread that is runnable now is worth one wait for a sample. */
	if (!is_final(failure) && !capturer->config.stash && !capturer->config.no_perf &&
	    status.state == 'R')
		failure = without_stop(capturer, thread, capture);
	if (failure && !is_final(failure) && thread_is_compat(capturer->config.root, thread->pid))
		failure = STACK_COMPAT;
	/* By itself the ladder stops no thread that sleeps. */
	if (failure && !is_final(failure) && status.state == 'R')
		failure = by_ptrace(capturer, thread, capture);
	if (!failure || failure == STACK_GONE || failure == STACK_REUSED)
		return failure;
	capture->failure = failure;
	capturer->stats.failures[failure]++;
	last = capture_kernel(capturer->config.root, thread, capture);
	/* Why the better ones failed is the reason that counts. */
	return last;
}

static enum stack_failure run_request(struct stack_capturer *capturer,
				      const struct stack_thread *thread, enum stack_request request,
				      struct stack_capture *capture)
{
	struct thread_status status;
	enum stack_failure failure;

	switch (request) {
	case STACK_AUTO:
		return climb_down(capturer, thread, capture);
	case STACK_SNAPSHOT:
		if (!capturer->config.stash)
			return STACK_UNSUPPORTED;
		failure = capture_snapshot(capturer->config.stash, thread, capture);
		for (unsigned round = 1; failure == STACK_MOVED && round < MAX_ROUNDS; round++)
			failure = capture_snapshot(capturer->config.stash, thread, capture);
		return failure;
	case STACK_PERF:
	case STACK_PTRACE:
		failure = thread_status_read(capturer->config.root, thread->pid, thread->tid,
					     &status);
		if (failure)
			return failure;
		if (status.kernel_thread)
			return STACK_KERNEL_THREAD;
		if (request == STACK_PTRACE)
			return by_ptrace(capturer, thread, capture);
		return capture_perf(&capturer->perf, thread, capturer->config.perf_wait_ns,
				    capture);
	case STACK_KERNEL:
		return capture_kernel(capturer->config.root, thread, capture);
	}
	return STACK_UNSUPPORTED;
}

int stack_capture(struct stack_capturer *capturer, const struct stack_thread *thread,
		  enum stack_request request, struct stack_capture *capture)
{
	uint64_t since = clock_now_ns(CLOCK_MONOTONIC);
	enum stack_failure failure;

	stack_capture_clear(capture);
	capture->thread = *thread;
	capture->thread.pidfd = -1;
	failure = thread_identity(capturer->config.root, thread);
	if (!failure)
		failure = run_request(capturer, thread, request, capture);
	/* Whoever had the number before and after is whom we read in between. */
	if (!failure)
		failure = thread_identity(capturer->config.root, thread);
	/* Of a thread that is dying, some calls say EPERM or find no memory any more. */
	else if (failure != STACK_GONE && failure != STACK_REUSED &&
		 thread_identity(capturer->config.root, thread) == STACK_GONE)
		failure = STACK_GONE;
	capture->cost_ns = clock_now_ns(CLOCK_MONOTONIC) - since;
	if (!failure) {
		capturer->stats.captures[capture->kind]++;
		return 0;
	}
	capture->failure = failure;
	capturer->stats.failures[failure]++;
	switch (failure) {
	case STACK_GONE:
	case STACK_REUSED:
		return -ESRCH;
	case STACK_NOT_PERMITTED:
	case STACK_TRACED:
		return -EPERM;
	case STACK_DEADLINE:
	case STACK_WORKER_LOST:
		return -ETIMEDOUT;
	case STACK_ON_CPU:
	case STACK_OFF_CPU:
	case STACK_MOVED:
	case STACK_STOPPED:
	case STACK_UNINTERRUPTIBLE:
	case STACK_IN_POLL:
		return -EAGAIN;
	default:
		return -ENOTSUP;
	}
}

int stack_capture_running(struct stack_capturer *capturer, const struct stack_thread *thread,
			  struct stack_capture *capture)
{
	uint64_t since = clock_now_ns(CLOCK_MONOTONIC);

	if (!perf_rings_have(&capturer->perf, thread))
		return stack_capture(capturer, thread, STACK_PERF, capture);
	stack_capture_clear(capture);
	capture->thread = *thread;
	capture->thread.pidfd = -1;
	capture->failure =
		capture_perf(&capturer->perf, thread, capturer->config.perf_wait_ns, capture);
	capture->cost_ns = clock_now_ns(CLOCK_MONOTONIC) - since;
	if (!capture->failure) {
		capturer->stats.captures[capture->kind]++;
		return 0;
	}
	capturer->stats.failures[capture->failure]++;
	return -EAGAIN;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void stack_capturer_stats(const struct stack_capturer *capturer, struct stack_stats *stats)
{
	size_t count = capturer->stats.stops < STOP_SAMPLES ? capturer->stats.stops : STOP_SAMPLES;
	uint32_t *sorted = malloc(sizeof(capturer->stop_ns));

	*stats = capturer->stats;
	stats->workers_replaced = capturer->worker.replaced;
	if (!sorted || !count) {
		free(sorted);
		return;
	}
	memcpy(sorted, capturer->stop_ns, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_u32);
	stats->stop_p50_ns = sorted[(count - 1) / 2];
	stats->stop_p99_ns = sorted[(count - 1) * 99 / 100];
	free(sorted);
}
