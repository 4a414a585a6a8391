/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of what the unwinder process is to do: jobs come in, wait, and end with their owner's
 * callback. Giving them to the process is in unwinder_helper.c. */
#include "stack/unwinder.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "stack/unwinder_jobs.h"
#include "util/clock.h"

struct unwinder *unwinder_new(struct warden *warden, struct prober_pool *pool, struct loop *loop)
{
	struct unwinder *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return NULL;
	u->warden = warden;
	u->pool = pool;
	u->loop = loop;
	u->helper = (struct helper){.kind = HELPER_UNWINDER, .socket = -1, .pidfd = -1};
	u->schedstat.fd = -1;
	u->last = &u->first;
	u->timer = u->pump = -1;
	err = unwinder_watch(u);
	if (!err)
		return u;
	unwinder_free(u);
	errno = -err;
	return NULL;
}

static uint32_t *job_share(struct unwinder *u, const struct stack_process *process)
{
	return &u->bytes_of[(uint32_t)process->pid % UNWINDER_SHARES];
}

static void free_capture(struct unwinder *u, struct job *job)
{
	u->waiting_bytes -= job->capture->stack_room;
	*job_share(u, &job->process) -= (uint32_t)job->capture->stack_room;
	stack_capture_free(job->capture);
	job->capture = NULL;
}

void unwinder_free_job(struct unwinder *u, struct job *job)
{
	if (job->capture)
		free_capture(u, job);
	if (job->fd >= 0)
		close(job->fd);
	free(job);
}

void unwinder_free(struct unwinder *u)
{
	struct job *job;

	if (!u)
		return;
	unwinder_unwatch(u);
	unwinder_free_kept(u);
	while ((job = u->first)) {
		u->first = job->next;
		unwinder_free_job(u, job);
	}
	while ((job = u->gave_way)) {
		u->gave_way = job->next;
		unwinder_free_job(u, job);
	}
	free(u);
}

/* ---- the queue ---- */

void unwinder_append(struct unwinder *u, struct job *job)
{
	*u->last = job;
	u->last = &job->next;
	if (u->sent < WIRE_WINDOW)
		unwinder_pump_after(u, 0);
}

struct job **unwinder_find_unsent(struct unwinder *u)
{
	struct job **link = &u->first;

	for (size_t i = 0; i < u->sent; i++)
		link = &(*link)->next;
	return link;
}

/* Behind the jobs that the process has, before all others. */
static void prepend(struct unwinder *u, struct job *job)
{
	struct job **link = unwinder_find_unsent(u);

	job->next = *link;
	*link = job;
	if (!job->next)
		u->last = &job->next;
	if (u->sent < WIRE_WINDOW)
		unwinder_pump_after(u, 0);
}

struct job *unwinder_take_first(struct unwinder *u)
{
	struct job *job = u->first;

	if (u->sent && u->current)
		unwinder_charge(u);
	u->first = job->next;
	if (!u->first)
		u->last = &u->first;
	u->current = NULL;
	if (u->sent)
		u->sent--;
	if (u->sent)
		unwinder_begin(u);
	return job;
}

bool unwinder_is_slow(const struct unwinder *u, const struct job *job)
{
	return job->type != WIRE_WAITS &&
	       unwinder_debts_of(&u->debts, &job->process, clock_now_ns(CLOCK_MONOTONIC)) >=
		       DEBT_SLOW_NS;
}

/* Behind all others, but for those of processes that have cost much. */
static void insert(struct unwinder *u, struct job *job)
{
	struct job **link = unwinder_find_unsent(u);

	if (unwinder_is_slow(u, job)) {
		unwinder_append(u, job);
		return;
	}
	while (*link && !unwinder_is_slow(u, *link))
		link = &(*link)->next;
	job->next = *link;
	*link = job;
	if (!job->next)
		u->last = &job->next;
	if (u->sent < WIRE_WINDOW)
		unwinder_pump_after(u, 0);
}

/* The newest capture of the process that has most of what waits gives way, so that a storm of one
 * app's blocks costs no other app its stack. Its owner is told in the loop's next turn. False:
 * the asking process has most itself. */
static bool make_room(struct unwinder *u, const struct stack_process *process, size_t bytes)
{
	uint32_t *most = u->bytes_of;
	struct job **newest, *job;

	while (u->waiting_bytes + bytes > UNWINDER_WAITING_BYTES) {
		for (size_t i = 0; i < UNWINDER_SHARES; i++)
			if (u->bytes_of[i] > *most)
				most = &u->bytes_of[i];
		if (*most <= *job_share(u, process) + bytes)
			return false;
		newest = NULL;
		for (struct job **link = unwinder_find_unsent(u); *link; link = &(*link)->next)
			if ((*link)->capture && job_share(u, &(*link)->process) == most)
				newest = link;
		if (!newest)
			return false;
		job = *newest;
		*newest = job->next;
		if (!job->next)
			u->last = newest;
		free_capture(u, job);
		u->not_unwound++;
		job->next = u->gave_way;
		u->gave_way = job;
		unwinder_pump_after(u, 0);
	}
	return true;
}

int unwinder_push(struct unwinder *u, struct stack_capture *capture, unwound_fn done, void *ctx)
{
	struct job *job;

	const struct stack_process process = {capture->thread.pid,
					      capture->thread.start_boot_ns / 10000000};

	if (unwinder_debts_of(&u->debts, &process, clock_now_ns(CLOCK_MONOTONIC)) >= DEBT_MOST_NS) {
		u->too_costly++;
		stack_capture_free(capture);
		return -EDQUOT;
	}
	if (!make_room(u, &process, capture->stack_room)) {
		u->not_unwound++;
		stack_capture_free(capture);
		return -EBUSY;
	}
	job = malloc(sizeof(*job));
	if (!job) {
		u->no_memory++;
		stack_capture_free(capture);
		return -ENOMEM;
	}
	*job = (struct job){.type = WIRE_UNWIND,
			    .process = process,
			    .ctx = ctx,
			    .capture = capture,
			    .unwound = done,
			    .fd = -1};
	u->waiting_bytes += capture->stack_room;
	*job_share(u, &process) += (uint32_t)capture->stack_room;
	insert(u, job);
	return 0;
}

int unwinder_find_waits(struct unwinder *u, int fd, uint64_t elf_start, wait_places_fn done,
			void *ctx)
{
	struct job *job = malloc(sizeof(*job));

	if (!job) {
		close(fd);
		return -ENOMEM;
	}
	*job = (struct job){
		.type = WIRE_WAITS, .ctx = ctx, .fd = fd, .elf_start = elf_start, .places = done};
	prepend(u, job);
	return 0;
}

void unwinder_cancel(struct unwinder *u, void *ctx)
{
	struct job **link = &u->first;

	for (size_t i = 0; *link; i++) {
		struct job *job = *link;

		if (job->ctx != ctx || job->type == WIRE_PRIME) {
			link = &job->next;
			continue;
		}
		job->unwound = NULL;
		job->places = NULL;
		if (i < u->sent) {
			link = &job->next;
			continue;
		}
		*link = job->next;
		unwinder_free_job(u, job);
	}
	u->last = link;
	for (struct job *job = u->gave_way; job; job = job->next)
		if (job->ctx == ctx)
			job->unwound = NULL;
}

bool unwinder_idle(const struct unwinder *u)
{
	if (u->gave_way)
		return false;
	for (const struct job *job = u->first; job; job = job->next)
		if (job->type != WIRE_PRIME)
			return false;
	return true;
}

/* ---- the end of a job ---- */

/* Take it from the queue and tell its owner. trace is taken over. */
void unwinder_finish_unwind(struct unwinder *u, int err, struct unwound *trace)
{
	struct job *job = unwinder_take_first(u);
	unwound_fn done = job->unwound;
	void *ctx = job->ctx;

	unwinder_free_job(u, job);
	if (done)
		done(ctx, trace ? 0 : err, trace);
	else
		free(trace);
}

void unwinder_finish_gave_way(struct unwinder *u)
{
	struct job *job;

	while ((job = u->gave_way)) {
		unwound_fn done = job->unwound;
		void *ctx = job->ctx;

		u->gave_way = job->next;
		unwinder_free_job(u, job);
		if (done)
			done(ctx, -EBUSY, NULL);
	}
}

void unwinder_finish_waits(struct unwinder *u, int err, const struct wait_places *places)
{
	struct job *job = unwinder_take_first(u);
	wait_places_fn done = job->places;
	void *ctx = job->ctx;

	unwinder_free_job(u, job);
	if (done)
		done(ctx, err, err ? NULL : places);
}

void unwinder_give_up(struct unwinder *u, bool hung)
{
	switch (u->current->type) {
	case WIRE_UNWIND:
		if (hung)
			u->late++;
		else
			u->died++;
		unwinder_finish_unwind(u, hung ? -ETIMEDOUT : -EPIPE, NULL);
		break;
	case WIRE_WAITS:
		unwinder_finish_waits(u, hung ? -ETIMEDOUT : -EPIPE, NULL);
		break;
	default:
		unwinder_free_job(u, unwinder_take_first(u));
	}
}
