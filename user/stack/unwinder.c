/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/unwinder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/loop.h"
#include "stack/unwinder_jobs.h"
#include "util/channel.h"
#include "util/clock.h"

#define JOB_NS       NSEC_PER_SEC       /* the process's own time for a job */
#define JOB_TOTAL_NS (5 * NSEC_PER_SEC) /* with the time that it waits for the pool */
#define HELLO_NS     (5 * NSEC_PER_SEC)
#define RETRY_NS     (10 * NSEC_PER_MSEC)
#define RETRY_MAX_NS NSEC_PER_SEC
#define AT_ONCE_NS   1
#define MESSAGES     (2 * WIRE_WINDOW) /* that are taken in one turn */

static int on_pump(void *ctx, uint32_t events);
static int on_timer(void *ctx, uint32_t events);
static int on_socket(void *ctx, uint32_t events);

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
	u->last = &u->first;
	u->retry_ns = RETRY_NS;
	u->pump = -1;
	u->timer = err = loop_add_timer(loop, 0, 0, on_timer, u);
	if (err >= 0)
		u->pump = err = loop_add_timer(loop, 0, 0, on_pump, u);
	if (err >= 0)
		return u;
	unwinder_free(u);
	errno = -err;
	return NULL;
}

void unwinder_free_job(struct unwinder *u, struct job *job)
{
	if (job->capture) {
		u->waiting_bytes -= job->capture->stack_room;
		stack_capture_free(job->capture);
	}
	if (job->fd >= 0)
		close(job->fd);
	free(job);
}

static void drop_process(struct unwinder *u, bool hung)
{
	unwinder_forget_need(u);
	u->sent = 0;
	if (u->helper.socket >= 0)
		loop_remove_fd(u->loop, u->helper.socket);
	warden_drop(u->warden, &u->helper, hung);
	u->helper.kind = HELPER_UNWINDER;
	u->seen = (struct wire_losses){0};
	loop_set_timer(u->loop, u->timer, 0, 0);
}

void unwinder_free(struct unwinder *u)
{
	struct job *job;

	if (!u)
		return;
	if (u->helper.socket >= 0)
		drop_process(u, u->current);
	unwinder_free_kept(u);
	while ((job = u->first)) {
		u->first = job->next;
		unwinder_free_job(u, job);
	}
	if (u->timer >= 0)
		loop_remove_timer(u->loop, u->timer);
	if (u->pump >= 0)
		loop_remove_timer(u->loop, u->pump);
	free(u);
}

/* ---- the queue ---- */

static void pump_after(struct unwinder *u, uint64_t ns)
{
	loop_set_timer(u->loop, u->pump, ns ? ns : AT_ONCE_NS, 0);
}

void unwinder_append(struct unwinder *u, struct job *job)
{
	*u->last = job;
	u->last = &job->next;
	if (u->sent < WIRE_WINDOW)
		pump_after(u, 0);
}

/* Where the first job that was not sent hangs. */
static struct job **find_unsent(struct unwinder *u)
{
	struct job **link = &u->first;

	for (size_t i = 0; i < u->sent; i++)
		link = &(*link)->next;
	return link;
}

/* Behind the jobs that the process has, before all others. */
static void prepend(struct unwinder *u, struct job *job)
{
	struct job **link = find_unsent(u);

	job->next = *link;
	*link = job;
	if (!job->next)
		u->last = &job->next;
	if (u->sent < WIRE_WINDOW)
		pump_after(u, 0);
}

/* The process is at the first job. */
static void begin(struct unwinder *u)
{
	u->current = u->first;
	u->number = u->current->number;
	u->reading_dev = u->reading_inode = 0;
	u->left_ns = JOB_NS;
	u->given_up_ns = clock_now_ns(CLOCK_MONOTONIC) + JOB_TOTAL_NS;
	unwinder_resume(u);
}

struct job *unwinder_take_first(struct unwinder *u)
{
	struct job *job = u->first;

	u->first = job->next;
	if (!u->first)
		u->last = &u->first;
	u->current = NULL;
	if (u->sent)
		u->sent--;
	if (u->sent)
		begin(u);
	return job;
}

int unwinder_push(struct unwinder *u, struct stack_capture *capture, unwound_fn done, void *ctx)
{
	struct job *job;

	if (u->waiting_bytes + capture->stack_room > UNWINDER_WAITING_BYTES) {
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
	*job = (struct job){
		.type = WIRE_UNWIND,
		.process = {capture->thread.pid, capture->thread.start_boot_ns / 10000000},
		.ctx = ctx,
		.capture = capture,
		.unwound = done,
		.fd = -1};
	u->waiting_bytes += capture->stack_room;
	unwinder_append(u, job);
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
}

bool unwinder_idle(const struct unwinder *u)
{
	for (const struct job *job = u->first; job; job = job->next)
		if (job->type != WIRE_PRIME)
			return false;
	return true;
}

/* ---- the end of a job ---- */

/* Take it from the queue and tell its owner. trace is taken over. */
void unwinder_finish_unwind(struct unwinder *u, struct unwound *trace)
{
	struct job *job = unwinder_take_first(u);
	unwound_fn done = job->unwound;
	void *ctx = job->ctx;

	unwinder_free_job(u, job);
	if (done)
		done(ctx, trace);
	else
		free(trace);
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

static void give_up(struct unwinder *u, bool hung)
{
	switch (u->current->type) {
	case WIRE_UNWIND:
		if (hung)
			u->late++;
		else
			u->died++;
		unwinder_finish_unwind(u, NULL);
		break;
	case WIRE_WAITS:
		unwinder_finish_waits(u, hung ? -ETIMEDOUT : -EPIPE, NULL);
		break;
	default:
		unwinder_free_job(u, unwinder_take_first(u));
	}
}

/* The file that the process hung on, or died of twice, is not read again. */
static void refuse_file(struct unwinder *u)
{
	if (!u->reading_inode || unwinder_is_refused(u, u->reading_dev, u->reading_inode))
		return;
	if (u->refused_count < REFUSED) {
		u->refused[u->refused_count].dev = u->reading_dev;
		u->refused[u->refused_count++].inode = u->reading_inode;
	}
}

/* kill: it is still there. late: the job is not tried again, because its time is over. */
static void lose_process(struct unwinder *u, bool kill, bool late)
{
	struct job *job = u->current;

	drop_process(u, kill);
	u->replaced++;
	u->not_before_ns = clock_now_ns(CLOCK_MONOTONIC) + u->retry_ns;
	u->retry_ns = u->retry_ns * 2 < RETRY_MAX_NS ? u->retry_ns * 2 : RETRY_MAX_NS;
	if (job && (late || ++job->deaths > 1)) {
		refuse_file(u);
		give_up(u, late);
	}
	u->current = NULL;
	if (u->first)
		pump_after(u, 0);
}

void unwinder_lose_process(struct unwinder *u)
{
	lose_process(u, true, true);
}

/* An answer that makes no sense. The job is not tried again: what made the process lie would do so
 * the next time. */
static void malformed(struct unwinder *u)
{
	u->malformed++;
	if (u->current)
		u->current->deaths++;
	lose_process(u, true, false);
}

void unwinder_job_done(struct unwinder *u)
{
	loop_set_timer(u->loop, u->timer, 0, 0);
	u->retry_ns = RETRY_NS;
	pump_after(u, 0);
}

/* ---- the process ---- */

void unwinder_resume(struct unwinder *u)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), left_ns = u->left_ns;

	u->resumed_ns = now_ns;
	if (u->given_up_ns < now_ns + left_ns)
		left_ns = u->given_up_ns > now_ns ? u->given_up_ns - now_ns : AT_ONCE_NS;
	loop_set_timer(u->loop, u->timer, left_ns, 0);
}

/* It waits for us now; what it used is gone. */
void unwinder_pause(struct unwinder *u)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), used_ns = now_ns - u->resumed_ns;

	u->left_ns = used_ns < u->left_ns ? u->left_ns - used_ns : AT_ONCE_NS;
	loop_set_timer(u->loop, u->timer,
		       u->given_up_ns > now_ns ? u->given_up_ns - now_ns : AT_ONCE_NS, 0);
}

static int on_timer(void *ctx, uint32_t events)
{
	struct unwinder *u = ctx;

	if (u->helper.socket >= 0)
		lose_process(u, true, true);
	return 0;
}

static int start_process(struct unwinder *u)
{
	int err = warden_spawn(u->warden, HELPER_UNWINDER, &u->helper);

	if (err)
		return err;
	err = loop_add_fd(u->loop, u->helper.socket, EPOLLIN, on_socket, u);
	if (err) {
		warden_drop(u->warden, &u->helper, true);
		return err;
	}
	loop_set_timer(u->loop, u->timer, HELLO_NS, 0);
	return 0;
}

static int memory_file(const void *bytes, size_t length)
{
	int fd = (int)syscall(SYS_memfd_create, "jankscope-stack", MFD_CLOEXEC);

	for (size_t done = 0; fd >= 0 && done < length;) {
		ssize_t n = write(fd, (const char *)bytes + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			close(fd);
			return -ENOMEM;
		}
		done += (size_t)n;
	}
	return fd < 0 ? -errno : fd;
}

static int send_capture(struct unwinder *u, const struct job *job)
{
	const struct stack_capture *capture = job->capture;
	struct wire_unwind wire = {.header = {WIRE_UNWIND, sizeof(wire), job->number},
				   .pid = job->process.pid,
				   .start_ticks = job->process.start_ticks,
				   .arch = capture->registers.arch,
				   .valid = capture->registers.valid,
				   .syscall_nr = capture->registers.syscall_nr,
				   .stack_base = capture->stack_base,
				   .stack_bytes = capture->stack_bytes};
	struct iovec part = {&wire, sizeof(wire)};
	int fd = -1, err;

	memcpy(wire.value, capture->registers.value, sizeof(wire.value));
	if (capture->stack_bytes) {
		fd = memory_file(capture->stack, capture->stack_bytes);
		if (fd < 0)
			return fd;
	}
	err = channel_send(u->helper.socket, &part, 1, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return err;
}

static int send_job(struct unwinder *u, const struct job *job)
{
	struct wire_waits waits = {.header = {WIRE_WAITS, sizeof(waits), job->number},
				   .elf_start = job->elf_start};
	struct wire_prime prime = {.header = {WIRE_PRIME, sizeof(prime), job->number},
				   .pid = job->process.pid,
				   .start_ticks = job->process.start_ticks};
	struct iovec part = {&waits, sizeof(waits)};

	if (job->type == WIRE_UNWIND)
		return send_capture(u, job);
	if (job->type == WIRE_WAITS)
		return channel_send(u->helper.socket, &part, 1, &job->fd, 1);
	part = (struct iovec){&prime, sizeof(prime)};
	return channel_send(u->helper.socket, &part, 1, NULL, 0);
}

/* Frames of the kernel need no unwinder. */
static void finish_kernel(struct unwinder *u)
{
	struct unwound *trace = unwound_from_kernel(u->first->capture);

	u->no_memory += !trace;
	unwinder_finish_unwind(u, trace);
}

/* 0: jobs may be sent. */
static int have_process(struct unwinder *u, uint64_t now_ns)
{
	if (u->helper.socket < 0 && now_ns < u->not_before_ns) {
		pump_after(u, u->not_before_ns - now_ns);
		return -EAGAIN;
	}
	if (u->helper.socket < 0 && start_process(u)) {
		u->not_before_ns = now_ns + u->retry_ns;
		pump_after(u, u->retry_ns);
		return -EAGAIN;
	}
	/* Its hello comes first: the time of the job is the process's own. */
	return u->helper.pid ? 0 : -EAGAIN;
}

/* What could not be sent while the process has others is tried again when it is the first. */
static void cannot_send(struct unwinder *u, int err)
{
	if (u->sent)
		return;
	u->current = u->first;
	if (err == -ENOMEM || err == -EMFILE || err == -ENFILE) {
		u->no_memory++;
		unwinder_finish_unwind(u, NULL);
		if (u->first)
			pump_after(u, 0);
	} else {
		/* -EPIPE: it died meanwhile, and the job is for the next one */
		lose_process(u, true, err != -EPIPE);
	}
}

static int on_pump(void *ctx, uint32_t events)
{
	struct unwinder *u = ctx;
	struct job *job;
	int err = 0;

	while (!u->sent && u->first && u->first->capture && !u->first->capture->registers.valid)
		finish_kernel(u);
	if (!u->first || have_process(u, clock_now_ns(CLOCK_MONOTONIC)))
		return 0;
	for (job = *find_unsent(u); job && !err && u->sent < WIRE_WINDOW; job = job->next) {
		if (job->capture && !job->capture->registers.valid)
			break; /* not for the process: it waits for those before it */
		job->number = ++u->serial;
		err = send_job(u, job);
		if (err)
			break;
		if (!u->sent++)
			begin(u);
	}
	if (err)
		cannot_send(u, err);
	return 0;
}

/* One message. False: there is none, or the process is lost. */
static bool take_one(struct unwinder *u)
{
	int fds[CHANNEL_FDS];
	size_t count;
	ssize_t n = channel_receive(u->helper.socket, u->message, sizeof(u->message), fds, &count);

	if (n == -EAGAIN)
		return false;
	if (n == 0) {
		lose_process(u, false, false);
		return false;
	}
	if (n > 0 && !u->helper.pid &&
	    helper_take_hello(&u->helper, u->message, (size_t)n, fds, count)) {
		loop_set_timer(u->loop, u->timer, 0, 0);
		pump_after(u, 0);
		return true;
	}
	while (count)
		close(fds[--count]);
	if (n < 0 || unwinder_take_message(u, (size_t)n))
		malformed(u);
	return u->helper.socket >= 0;
}

static int on_socket(void *ctx, uint32_t events)
{
	struct unwinder *u = ctx;

	/* Not without end: a process that talks for ever holds up nobody. */
	for (int i = 0; i < MESSAGES && take_one(u); i++)
		;
	return 0;
}
