/* SPDX-License-Identifier: BSD-2-Clause */
/* The ladder: which backend takes the capture, and what became of it. */
#include "stack/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/capture.h"

#define DEFAULT_STACK_BYTES (256u << 10)
#define MAX_STACK_BYTES     (16u << 20)
#define DEFAULT_CACHE_BYTES (16u << 20)
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
		[STACK_IN_POLL] = "waits in its poll, which a stop would end",
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
	memset(capture->stack, 1, stack_bytes);
	capture->stack_room = stack_bytes;
	return capture;
}

static void clear_capture(struct stack_capture *capture)
{
	for (size_t i = 0; i < capture->kernel_frame_count; i++)
		free(capture->kernel_frames[i]);
	maps_put(capture->maps);
	*capture = (struct stack_capture){
		.stack = capture->stack, .stack_room = capture->stack_room, .kind = CAPTURE_KERNEL};
	capture->registers.syscall_nr = -1;
}

void stack_capture_free(struct stack_capture *capture)
{
	if (!capture)
		return;
	clear_capture(capture);
	free(capture->stack);
	free(capture);
}

struct stack_service *stack_service_new(const struct stack_config *config)
{
	struct stack_service *service = calloc(1, sizeof(*service));
	int err = -ENOMEM;

	if (!service)
		goto fail;
	service->config = *config;
	service->worker = (struct ptrace_worker){.pid = -1, .socket = -1};
	if (!service->config.root)
		service->config.root = "";
	if (!service->config.perf_wait_ns)
		service->config.perf_wait_ns = PERF_WAIT_NS;
	if (service->config.perf_wait_ns > MAX_WAIT_NS)
		service->config.perf_wait_ns = MAX_WAIT_NS;
	if (!service->config.ptrace_deadline_ns ||
	    service->config.ptrace_deadline_ns > PTRACE_DEADLINE_NS)
		service->config.ptrace_deadline_ns = PTRACE_DEADLINE_NS;
	service->maps = maps_cache_new(service->config.root);
	service->modules = modules_new(config->cache_bytes ?: DEFAULT_CACHE_BYTES);
	if (!service->maps || !service->modules)
		goto fail;
	if (!config->no_ptrace) {
		err = ptrace_worker_start(&service->worker);
		if (err)
			goto fail;
		/* Only here there is time for it; if it takes longer, a capture will wait. */
		ptrace_worker_wait(&service->worker, START_WAIT_MS);
	}
	return service;
fail:
	stack_service_free(service);
	errno = -err;
	return NULL;
}

void stack_service_free(struct stack_service *service)
{
	if (!service)
		return;
	ptrace_worker_stop(&service->worker);
	stack_symbols_drop(service);
	modules_free(service->modules);
	maps_cache_free(service->maps);
	free(service);
}

pid_t stack_service_worker(const struct stack_service *service)
{
	return service->worker.pid;
}

static void count_stop(struct stack_service *service, uint64_t ns)
{
	service->stop_ns[service->stats.stops++ % STOP_SAMPLES] = ns;
	if (ns > service->stats.stop_max_ns)
		service->stats.stop_max_ns = ns;
}

static enum stack_failure by_ptrace(struct stack_service *service,
				    const struct stack_thread *thread,
				    struct stack_capture *capture)
{
	enum stack_failure failure;
	bool eintr_risk = false;

	if (service->config.no_ptrace)
		return STACK_UNSUPPORTED;
	/* It could only be recognised after it was stopped for nothing. */
	if (thread_is_compat(service->config.root, thread->pid))
		return STACK_COMPAT;
	failure = capture_ptrace(&service->worker, thread, service->config.ptrace_deadline_ns,
				 capture, &eintr_risk);
	if (capture->stop_ns)
		count_stop(service, capture->stop_ns);
	service->stats.eintr_risk += eintr_risk;
	return failure;
}

/* Failures that no other rung can do better about. */
static bool is_final(enum stack_failure failure)
{
	return failure == STACK_GONE || failure == STACK_REUSED || failure == STACK_KERNEL_THREAD ||
	       failure == STACK_COMPAT || failure == STACK_NOT_PERMITTED;
}

/* Snapshot while it waits, perf while it runs, in turns as long as it changes between the two. */
static enum stack_failure without_stop(struct stack_service *service,
				       const struct stack_thread *thread,
				       struct stack_capture *capture)
{
	const struct stack_stash *stash = service->config.stash;
	enum stack_failure failure = STACK_NOT_WATCHED;
	bool perf_missed = false;

	for (unsigned round = 0; round < MAX_ROUNDS; round++) {
		if (stash) {
			failure = capture_snapshot(stash, thread, capture);
			if (!failure || is_final(failure) || failure == STACK_NO_MEMORY_READ)
				return failure;
			service->stats.failures[failure]++;
			if (failure == STACK_MOVED)
				continue;
		}
		if (service->config.no_perf || (failure != STACK_ON_CPU && stash) || perf_missed)
			break;
		failure = capture_perf(thread, service->config.perf_wait_ns, capture);
		if (failure != STACK_OFF_CPU)
			return failure;
		service->stats.failures[failure]++;
		/* Waiting once is enough: the whole call must stay below 50 ms. */
		perf_missed = true;
		if (!stash)
			break;
	}
	return failure;
}

static enum stack_failure climb_down(struct stack_service *service,
				     const struct stack_thread *thread,
				     struct stack_capture *capture)
{
	enum stack_failure failure, last;
	struct thread_status status;

	failure =
		service->config.stash ? without_stop(service, thread, capture) : STACK_NOT_WATCHED;
	if (!failure || failure == STACK_GONE || failure == STACK_REUSED)
		return failure;
	last = thread_status_read(service->config.root, thread->pid, thread->tid, &status);
	if (last)
		return last;
	if (thread->start_boot_ns && status.start_ticks != thread->start_boot_ns / 10000000)
		return STACK_REUSED;
	if (status.kernel_thread)
		failure = STACK_KERNEL_THREAD;
	/* Without a stash, a thread that is runnable now is worth one wait for a sample. */
	if (!is_final(failure) && !service->config.stash && !service->config.no_perf &&
	    status.state == 'R')
		failure = without_stop(service, thread, capture);
	if (failure && !is_final(failure))
		failure = by_ptrace(service, thread, capture);
	if (!failure || failure == STACK_GONE || failure == STACK_REUSED)
		return failure;
	capture->failure = failure;
	service->stats.failures[failure]++;
	last = capture_kernel(service->config.root, service->config.calls, thread, capture);
	/* Why the better ones failed is the reason that counts. */
	return last;
}

static enum stack_failure run_request(struct stack_service *service,
				      const struct stack_thread *thread, enum stack_request request,
				      struct stack_capture *capture)
{
	struct thread_status status;
	enum stack_failure failure;

	switch (request) {
	case STACK_AUTO:
		return climb_down(service, thread, capture);
	case STACK_SNAPSHOT:
		if (!service->config.stash)
			return STACK_UNSUPPORTED;
		failure = capture_snapshot(service->config.stash, thread, capture);
		for (unsigned round = 1; failure == STACK_MOVED && round < MAX_ROUNDS; round++)
			failure = capture_snapshot(service->config.stash, thread, capture);
		return failure;
	case STACK_PERF:
	case STACK_PTRACE:
		failure =
			thread_status_read(service->config.root, thread->pid, thread->tid, &status);
		if (failure)
			return failure;
		if (status.kernel_thread)
			return STACK_KERNEL_THREAD;
		if (request == STACK_PTRACE)
			return by_ptrace(service, thread, capture);
		return capture_perf(thread, service->config.perf_wait_ns, capture);
	case STACK_KERNEL:
		return capture_kernel(service->config.root, service->config.calls, thread, capture);
	}
	return STACK_UNSUPPORTED;
}

int stack_capture(struct stack_service *service, const struct stack_thread *thread,
		  enum stack_request request, struct stack_capture *capture)
{
	uint64_t since = capture_now_mono_ns();
	enum stack_failure failure;

	clear_capture(capture);
	capture->thread = *thread;
	capture->thread.pidfd = -1;
	failure = thread_identity(service->config.root, thread);
	if (!failure)
		failure = run_request(service, thread, request, capture);
	/* Whoever had the number before and after is whom we read in between. */
	if (!failure)
		failure = thread_identity(service->config.root, thread);
	/* Of a thread that is dying, some calls say EPERM or find no memory any more. */
	else if (failure != STACK_GONE && failure != STACK_REUSED &&
		 thread_identity(service->config.root, thread) == STACK_GONE)
		failure = STACK_GONE;
	capture->cost_ns = capture_now_mono_ns() - since;
	if (!failure) {
		service->stats.captures[capture->kind]++;
		/* Read the first time only; it may be dead when it is unwound. */
		if (capture->registers.valid)
			capture->maps = maps_cache_get_bounded(service->maps, service->config.calls,
							       thread->pid,
							       thread->start_boot_ns / 10000000);
		return 0;
	}
	capture->failure = failure;
	service->stats.failures[failure]++;
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

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void stack_service_stats(const struct stack_service *service, struct stack_stats *stats)
{
	size_t count = service->stats.stops < STOP_SAMPLES ? service->stats.stops : STOP_SAMPLES;
	uint32_t *sorted = malloc(sizeof(service->stop_ns));

	*stats = service->stats;
	stats->workers_replaced = service->worker.replaced;
	if (!sorted || !count) {
		free(sorted);
		return;
	}
	memcpy(sorted, service->stop_ns, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_u32);
	stats->stop_p50_ns = sorted[(count - 1) / 2];
	stats->stop_p99_ns = sorted[(count - 1) * 99 / 100];
	free(sorted);
}
