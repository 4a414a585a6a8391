/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop.h"
#include "abi/flight.h"
#include "kernel/binder_kernel.h"
#include "kernel/looper_kernel.h"
#include "prober/warden.h"
#include "util/channel.h"
#include "util/clock.h"
#include "util/spare_fd.h"

#define PING_NS (500 * NSEC_PER_MSEC)
/* While no watched thread is in a period: each sign of life wakes two processes. */
#define PING_REST_NS (5 * NSEC_PER_SEC)
#define SILENT_NS    NSEC_PER_SEC /* a process that has not answered for this long is replaced */
#define TIMES        4096         /* captures of which the percentiles are told: the last ones */
/* A target that held up a process is left alone for this long, then each time for twice as long. */
#define FIRST_BACKOFF_NS (4 * NSEC_PER_SEC)
#define MAX_BACKOFF_NS   (256 * NSEC_PER_SEC)
/* Another try to have a process made, after one that could not be made. */
#define RETRY_NS NSEC_PER_SEC
/* So many samples at once would fill the socket while the loop rests. */
#define MANY_SAMPLES 8

struct watched_thread {
	struct sampler_watch watch; /* type 0: none */
	int pidfd;                  /* own copy; -1: none */
	uint64_t backoff_ns;
};

struct blocks_sampler {
	struct blocks_sampler_config config;
	struct helper helper;
	uint32_t room;
	struct watched_thread *threads; /* by index */
	uint8_t *message;
	uint64_t ping_serial, pong_serial, pinged_ns, asked_ns;
	uint64_t told_not_taken, told_resynced, told_thinned;
	struct sampler_frames frames; /* type 0: not wanted */
	int frame_fds[2];
	struct sampler_frame_watch frame_watches[FLIGHT_THREADS]; /* type 0: none */
	uint64_t frame_ids;
	int32_t workers[4];
	struct stack_stats stats;
	uint64_t stop_ns[TIMES], snapshot_ns[TIMES];
	struct blocks_sampler_losses losses;
};

static int send_message(struct blocks_sampler *sampler, const void *message, size_t length,
			const int *fds, size_t fd_count)
{
	struct iovec part = {(void *)message, length};

	return sampler->helper.socket < 0
		       ? -EPIPE
		       : channel_send(sampler->helper.socket, &part, 1, fds, fd_count);
}

static int on_message(void *ctx, uint32_t events)
{
	return blocks_sampler_take(ctx);
}

static void drop(struct blocks_sampler *sampler, bool hung)
{
	if (sampler->helper.socket >= 0)
		loop_remove_fd(sampler->config.context->loop, sampler->helper.socket);
	warden_drop(sampler->config.context->warden, &sampler->helper, hung);
}

static int start(struct blocks_sampler *sampler)
{
	const struct source_context *context = sampler->config.context;
	struct sampler_setup setup = {
		.type = SAMPLER_SETUP,
		.room = sampler->room,
		.request = sampler->config.request,
		.block_ns = sampler->config.block_ns,
		.plain = !looper_kernel_has_fetch(sampler->config.kernel),
	};
	const struct looper_fds kernel = looper_kernel_fds(sampler->config.kernel);
	int fds[7] = {kernel.slots, kernel.stash, kernel.wakes};
	size_t fd_count = 3;
	int err;

	if (kernel.registers >= 0) {
		fds[fd_count++] = kernel.registers;
		fds[fd_count++] = kernel.wanted;
		setup.has_registers = 1;
	}
	if (sampler->config.binder) {
		const struct binder_fds binder = binder_kernel_fds(sampler->config.binder);

		fds[fd_count++] = binder.look;
		fds[fd_count++] = binder.questions;
		setup.has_binder = 1;
	}

	sampler->asked_ns = sampler->pinged_ns = clock_now_ns(CLOCK_MONOTONIC);
	sampler->ping_serial = sampler->pong_serial = sampler->told_not_taken = 0;
	sampler->told_resynced = sampler->told_thinned = 0;
	err = warden_spawn(context->warden, HELPER_SAMPLER, &sampler->helper);
	if (err)
		return err;
	err = loop_add_fd(context->loop, sampler->helper.socket, EPOLLIN, on_message, sampler);
	if (!err)
		err = send_message(sampler, &setup, sizeof(setup), fds, fd_count);
	for (uint32_t i = 0; i < sampler->room && !err; i++) {
		const struct watched_thread *thread = &sampler->threads[i];

		if (thread->watch.type)
			err = send_message(sampler, &thread->watch, sizeof(thread->watch),
					   &thread->pidfd, thread->pidfd >= 0);
	}
	if (!err && sampler->frames.type)
		err = send_message(sampler, &sampler->frames, sizeof(sampler->frames),
				   sampler->frame_fds, 2);
	for (uint32_t i = 0; i < FLIGHT_THREADS && !err; i++)
		if (sampler->frame_watches[i].type)
			err = send_message(sampler, &sampler->frame_watches[i],
					   sizeof(sampler->frame_watches[i]), NULL, 0);
	if (err)
		drop(sampler, false);
	return err;
}

static int make_warden(void *ctx, int socket)
{
	const struct sampler_ping request = {.type = SAMPLER_WARDEN};

	return send_message(ctx, &request, sizeof(request), &socket, 1);
}

static void replace(struct blocks_sampler *sampler, bool hung)
{
	sampler->losses.replaced++;
	drop(sampler, hung);
	start(sampler);
}

struct blocks_sampler *blocks_sampler_new(const struct blocks_sampler_config *config)
{
	struct blocks_sampler *sampler = calloc(1, sizeof(*sampler));
	int err = -ENOMEM;

	if (!sampler)
		goto fail;
	sampler->config = *config;
	sampler->helper = (struct helper){.socket = -1, .pidfd = -1};
	sampler->room = looper_kernel_count(config->kernel);
	sampler->threads = calloc(sampler->room, sizeof(*sampler->threads));
	sampler->message = malloc(CHANNEL_BYTES);
	if (!sampler->threads || !sampler->message)
		goto fail;
	for (uint32_t i = 0; i < sampler->room; i++)
		sampler->threads[i].pidfd = -1;
	err = start(sampler);
	/* A run can do without one more who can make a warden. */
	if (!err)
		warden_add_maker(config->context->warden, make_warden, sampler);
	if (!err)
		return sampler;
fail:
	blocks_sampler_free(sampler);
	errno = -err;
	return NULL;
}

static void forget(struct watched_thread *thread)
{
	if (thread->pidfd >= 0)
		close(thread->pidfd);
	*thread = (struct watched_thread){.pidfd = -1};
}

void blocks_sampler_free(struct blocks_sampler *sampler)
{
	if (!sampler)
		return;
	if (sampler->config.context)
		warden_remove_maker(sampler->config.context->warden, sampler);
	drop(sampler, false);
	for (uint32_t i = 0; sampler->threads && i < sampler->room; i++)
		forget(&sampler->threads[i]);
	free(sampler->threads);
	free(sampler->message);
	free(sampler);
}

int blocks_sampler_watch(struct blocks_sampler *sampler, const struct sampler_watch *watch,
			 int pidfd)
{
	struct watched_thread *thread = &sampler->threads[watch->index];
	int err;

	forget(thread);
	thread->watch = *watch;
	thread->watch.type = SAMPLER_WATCH;
	if (pidfd >= 0)
		thread->pidfd = spare_fd(fcntl(pidfd, F_DUPFD_CLOEXEC, 0));
	err = send_message(sampler, &thread->watch, sizeof(thread->watch), &thread->pidfd,
			   thread->pidfd >= 0);
	/* A process that does not read its messages does not sample either. */
	if (err == -EAGAIN)
		replace(sampler, true);
	return 0;
}

void blocks_sampler_unwatch(struct blocks_sampler *sampler, uint32_t index, uint64_t slot_id)
{
	const struct sampler_unwatch unwatch = {SAMPLER_UNWATCH, index, slot_id};

	if (sampler->threads[index].watch.slot_id != slot_id)
		return;
	forget(&sampler->threads[index]);
	if (send_message(sampler, &unwatch, sizeof(unwatch), NULL, 0) == -EAGAIN)
		replace(sampler, true);
}

/* ---- threads that make frames ---- */

static void tell(struct blocks_sampler *sampler, const void *message, size_t length, const int *fds,
		 size_t fd_count)
{
	if (send_message(sampler, message, length, fds, fd_count) == -EAGAIN)
		replace(sampler, true);
}

void blocks_sampler_frames(struct blocks_sampler *sampler, const struct sampler_frames *frames,
			   const int fds[2])
{
	bool first = !sampler->frames.type;

	sampler->frames = *frames;
	sampler->frames.type = SAMPLER_FRAMES;
	memcpy(sampler->frame_fds, fds, sizeof(sampler->frame_fds));
	tell(sampler, &sampler->frames, sizeof(sampler->frames), fds, first ? 2 : 0);
}

void blocks_sampler_watch_frame(struct blocks_sampler *sampler,
				const struct sampler_frame_watch *watch)
{
	struct sampler_frame_watch *own = &sampler->frame_watches[watch->index];

	*own = *watch;
	own->type = SAMPLER_FRAME_WATCH;
	own->slot_id = ++sampler->frame_ids;
	tell(sampler, own, sizeof(*own), NULL, 0);
}

void blocks_sampler_unwatch_frame(struct blocks_sampler *sampler, uint32_t index)
{
	struct sampler_frame_watch *own = &sampler->frame_watches[index];
	const struct sampler_unwatch unwatch = {SAMPLER_FRAME_UNWATCH, index, own->slot_id};

	if (!own->type)
		return;
	own->type = 0;
	tell(sampler, &unwatch, sizeof(unwatch), NULL, 0);
}

const struct sampler_frame_watch *blocks_sampler_frame_of(const struct blocks_sampler *sampler,
							  const struct sampler_sample *sample)
{
	const struct sampler_frame_watch *watch;

	if (!sample->frame || sample->frame > FLIGHT_THREADS)
		return NULL;
	watch = &sampler->frame_watches[sample->frame - 1];
	return watch->type && watch->slot_id == sample->frame_id ? watch : NULL;
}

/* ---- what it says ---- */

static void count_sample(struct blocks_sampler *sampler, const struct sampler_sample *sample)
{
	struct stack_stats *stats = &sampler->stats;

	if (sample->taken && sample->kind == CAPTURE_SNAPSHOT)
		sampler->snapshot_ns[stats->captures[CAPTURE_SNAPSHOT] % TIMES] = sample->cost_ns;
	if (sample->taken && sample->kind <= CAPTURE_KERNEL)
		stats->captures[sample->kind]++;
	if (sample->failure && sample->failure < STACK_FAILURES)
		stats->failures[sample->failure]++;
	stats->eintr_risk += sample->eintr_risk;
	if (!sample->stop_ns)
		return;
	sampler->stop_ns[stats->stops++ % TIMES] = sample->stop_ns;
	if (sample->stop_ns > stats->stop_max_ns)
		stats->stop_max_ns = sample->stop_ns;
}

static void take_sample(struct blocks_sampler *sampler, size_t length)
{
	const struct sampler_sample *sample = (const struct sampler_sample *)sampler->message;
	uint64_t rest = length - sizeof(*sample);
	const uint8_t *stack;
	const char *text;

	if (sample->index >= sampler->room + FLIGHT_THREADS ||
	    (uint64_t)sample->stack_bytes + sample->text_bytes != rest)
		return;
	if (sample->text_bytes && sampler->message[length - 1])
		return;
	count_sample(sampler, sample);
	stack = sampler->message + sizeof(*sample);
	text = (const char *)sampler->message + length - sample->text_bytes;
	if (sample->frame)
		sampler->config.on_frame(sampler->config.ctx, sample, stack, text);
	if (sample->index < sampler->room)
		sampler->config.on_sample(sampler->config.ctx, sample, stack, text);
}

/* The next process is told to leave this target alone for a while. */
static void leave_alone(struct blocks_sampler *sampler, uint64_t slot_id)
{
	for (uint32_t i = 0; i < sampler->room; i++) {
		struct watched_thread *thread = &sampler->threads[i];

		if (!thread->watch.type || thread->watch.slot_id != slot_id)
			continue;
		thread->backoff_ns = thread->backoff_ns ? 2 * thread->backoff_ns : FIRST_BACKOFF_NS;
		if (thread->backoff_ns > MAX_BACKOFF_NS)
			thread->backoff_ns = MAX_BACKOFF_NS;
		thread->watch.left_alone_until_ns =
			clock_now_ns(CLOCK_MONOTONIC) + thread->backoff_ns;
	}
}

/* A hand that waits for a target for 1 s costs the process: its other hands could be held up as
 * well, and what the target holds up ends with it. */
static void take_pong(struct blocks_sampler *sampler)
{
	const struct sampler_pong *pong = (const struct sampler_pong *)sampler->message;

	sampler->pong_serial = pong->serial;
	memcpy(sampler->workers, pong->workers, sizeof(sampler->workers));
	sampler->losses.not_taken += pong->not_taken - sampler->told_not_taken;
	sampler->told_not_taken = pong->not_taken;
	sampler->losses.resynced += pong->resynced - sampler->told_resynced;
	sampler->told_resynced = pong->resynced;
	sampler->losses.frames_thinned += pong->frames_thinned - sampler->told_thinned;
	sampler->told_thinned = pong->frames_thinned;
	if (pong->oldest_stuck_ns < SILENT_NS)
		return;
	sampler->losses.targets_stuck++;
	leave_alone(sampler, pong->stuck_slot_id);
	replace(sampler, true);
}

int blocks_sampler_take(struct blocks_sampler *sampler)
{
	int fds[CHANNEL_FDS];
	unsigned samples = 0;
	size_t fd_count;
	ssize_t n;

	while (sampler->helper.socket >= 0) {
		uint32_t type;

		n = channel_receive(sampler->helper.socket, sampler->message, CHANNEL_BYTES, fds,
				    &fd_count);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0 && n != -EMSGSIZE) {
			/* A process that dies at once is not made again at once. */
			if (clock_now_ns(CLOCK_MONOTONIC) - sampler->asked_ns > RETRY_NS)
				replace(sampler, false);
			else
				drop(sampler, false);
			return 0;
		}
		if (n < (ssize_t)sizeof(type))
			continue;
		if (helper_take_hello(&sampler->helper, sampler->message, (size_t)n, fds, fd_count))
			continue;
		for (size_t i = 0; i < fd_count; i++)
			close(fds[i]);
		memcpy(&type, sampler->message, sizeof(type));
		if (type == SAMPLER_SAMPLE && (size_t)n >= sizeof(struct sampler_sample)) {
			take_sample(sampler, (size_t)n);
			if (++samples == MANY_SAMPLES)
				loop_hurry(sampler->config.context->loop);
		} else if (type == SAMPLER_PONG && (size_t)n >= sizeof(struct sampler_pong))
			take_pong(sampler);
	}
	return 0;
}

static int ping(struct blocks_sampler *sampler, uint64_t now_ns)
{
	const struct sampler_ping ping = {.type = SAMPLER_PING, .serial = ++sampler->ping_serial};

	sampler->pinged_ns = now_ns;
	return send_message(sampler, &ping, sizeof(ping), NULL, 0);
}

void blocks_sampler_ask(struct blocks_sampler *sampler)
{
	if (sampler->helper.socket >= 0)
		ping(sampler, clock_now_ns(CLOCK_MONOTONIC));
}

bool blocks_sampler_answered(const struct blocks_sampler *sampler)
{
	return sampler->helper.socket < 0 || sampler->pong_serial == sampler->ping_serial;
}

void blocks_sampler_check(struct blocks_sampler *sampler, bool rests, uint64_t now_ns)
{
	if (sampler->helper.socket < 0) {
		if (now_ns - sampler->asked_ns > RETRY_NS) {
			sampler->losses.replaced++;
			start(sampler);
		}
		return;
	}
	if (sampler->pong_serial != sampler->ping_serial) {
		if (now_ns - sampler->pinged_ns > SILENT_NS)
			replace(sampler, true);
		return;
	}
	if (now_ns - sampler->pinged_ns < (rests ? PING_REST_NS : PING_NS))
		return;
	if (ping(sampler, now_ns) == -EAGAIN)
		replace(sampler, true);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void percentiles(const uint64_t *times, uint64_t all, uint64_t *p50, uint64_t *p99)
{
	size_t count = all < TIMES ? all : TIMES;
	uint64_t *sorted = count ? malloc(count * sizeof(*sorted)) : NULL;

	if (!sorted)
		return;
	memcpy(sorted, times, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_u64);
	*p50 = sorted[(count - 1) / 2];
	*p99 = sorted[(count - 1) * 99 / 100];
	free(sorted);
}

void blocks_sampler_stats(const struct blocks_sampler *sampler, struct stack_stats *stats)
{
	*stats = sampler->stats;
	stats->workers_replaced = sampler->losses.replaced;
}

void blocks_sampler_percentiles(const struct blocks_sampler *sampler, struct stack_stats *stats)
{
	percentiles(sampler->stop_ns, stats->stops, &stats->stop_p50_ns, &stats->stop_p99_ns);
	percentiles(sampler->snapshot_ns, stats->captures[CAPTURE_SNAPSHOT],
		    &stats->snapshot_p50_ns, &stats->snapshot_p99_ns);
}

struct blocks_sampler_losses blocks_sampler_losses(const struct blocks_sampler *sampler)
{
	return sampler->losses;
}

size_t blocks_sampler_workers(const struct blocks_sampler *sampler, pid_t *pids, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < 4 && count < room; i++)
		if (sampler->workers[i] > 0)
			pids[count++] = sampler->workers[i];
	return count;
}
