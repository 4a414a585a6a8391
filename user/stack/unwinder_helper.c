/* SPDX-License-Identifier: BSD-2-Clause */
/* The unwinder process as the recorder sees it: started with the first job, given the jobs of the
 * queue, and replaced when it is late, dead or says what makes no sense. The queue itself is in
 * unwinder.c. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/loop.h"
#include "proc/stat.h"
#include "stack/unwinder_jobs.h"
#include "util/channel.h"
#include "util/clock.h"

#define JOB_NS        NSEC_PER_SEC       /* the process's own time for a job */
#define JOB_TOTAL_NS  (5 * NSEC_PER_SEC) /* with the time that it waits for the pool */
#define LEAST_BACK_NS (10 * NSEC_PER_MSEC)
#define HELLO_NS      (5 * NSEC_PER_SEC)
#define RETRY_NS      (10 * NSEC_PER_MSEC)
#define RETRY_MAX_NS  NSEC_PER_SEC
#define AT_ONCE_NS    1
#define MESSAGES      (2 * WIRE_WINDOW) /* that are taken in one turn */

static int on_socket(void *ctx, uint32_t events);

void unwinder_pump_after(struct unwinder *u, uint64_t ns)
{
	loop_set_timer(u->loop, u->pump, ns ? ns : AT_ONCE_NS, 0);
}

/* The process's CPU time and waits for a CPU so far; zeros where the kernel does not tell. */
static struct proc_schedstat read_schedstat(struct unwinder *u)
{
	struct proc_schedstat now;

	if (proc_schedstat_kept(&u->schedstat, &now))
		now = (struct proc_schedstat){0};
	return now;
}

static bool is_runnable(const struct unwinder *u)
{
	int folder = proc_open("", u->helper.pid);
	struct proc_stat stat;
	bool runnable = folder >= 0 && !proc_stat(folder, &stat) && stat.state == 'R';

	if (folder >= 0)
		close(folder);
	return runnable;
}

void unwinder_begin(struct unwinder *u)
{
	u->current = u->first;
	u->number = u->current->number;
	u->reading = (struct stack_file_version){0};
	u->began = read_schedstat(u);
	u->given_back_ns = 0;
	u->left_ns = JOB_NS;
	u->given_up_ns = clock_now_ns(CLOCK_MONOTONIC) + JOB_TOTAL_NS;
	unwinder_resume(u);
}

void unwinder_charge(struct unwinder *u)
{
	struct proc_schedstat now = read_schedstat(u);

	if (u->began.arrivals && now.arrivals)
		unwinder_debts_add(&u->debts, &u->current->process, now.cpu_ns - u->began.cpu_ns,
				   clock_now_ns(CLOCK_MONOTONIC));
}

static void drop_process(struct unwinder *u, bool hung)
{
	unwinder_forget_need(u);
	proc_drop_kept(&u->schedstat);
	u->sent = 0;
	if (u->helper.socket >= 0)
		loop_remove_fd(u->loop, u->helper.socket);
	warden_drop(u->warden, &u->helper, hung);
	u->helper.kind = HELPER_UNWINDER;
	u->seen = (struct wire_losses){0};
	u->cache_bytes = 0;
	loop_set_timer(u->loop, u->timer, 0, 0);
}

/* kill: it is still there. late: the job is not tried again, because its time is over. */
static void lose_process(struct unwinder *u, bool kill, bool late)
{
	struct job *job = u->current;
	bool waited = u->need.kind; /* for the recorder: no file holds it up */

	if (job && late && !waited)
		unwinder_debts_add(&u->debts, &job->process, JOB_NS, clock_now_ns(CLOCK_MONOTONIC));
	drop_process(u, kill);
	u->replaced++;
	u->not_before_ns = clock_now_ns(CLOCK_MONOTONIC) + u->retry_ns;
	u->retry_ns = u->retry_ns * 2 < RETRY_MAX_NS ? u->retry_ns * 2 : RETRY_MAX_NS;
	if (job && (late || ++job->deaths > 1)) {
		if (!waited)
			refused_files_add(&u->refused, &u->reading, clock_now_ns(CLOCK_MONOTONIC));
		unwinder_give_up(u, late);
	}
	u->current = NULL;
	if (u->first)
		unwinder_pump_after(u, 0);
}

void unwinder_lose_process(struct unwinder *u, int err)
{
	lose_process(u, err != -EPIPE, err != -EPIPE);
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
	unwinder_pump_after(u, 0);
}

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

/* Where all CPUs are busy, the process gets the time back that it waited for one: a file that it
 * reads would be refused as one that hangs. The kernel adds a wait to the sum when it is over
 * (sched_info_arrive, kernel/sched/stats.h), so one that lasts shows by the state alone. */
static bool give_time_back(struct unwinder *u)
{
	struct proc_schedstat now = read_schedstat(u);
	uint64_t cpu_ns = now.cpu_ns - u->began.cpu_ns;
	uint64_t waited_ns = now.runnable_ns - u->began.runnable_ns - u->given_back_ns;

	if (u->need.kind || !u->began.arrivals || !now.arrivals || cpu_ns >= JOB_NS ||
	    clock_now_ns(CLOCK_MONOTONIC) >= u->given_up_ns)
		return false;
	u->given_back_ns += waited_ns;
	if (is_runnable(u) && waited_ns < JOB_NS - cpu_ns)
		waited_ns = JOB_NS - cpu_ns;
	if (waited_ns < LEAST_BACK_NS)
		return false;
	u->left_ns = waited_ns;
	unwinder_resume(u);
	return true;
}

/* The time of what is under way is over, by this process's clock: the answer may have come while it
 * did something else. */
static int on_timer(void *ctx, uint32_t events)
{
	struct unwinder *u = ctx;
	uint64_t number = u->current ? u->number : 0;

	if (u->helper.socket >= 0)
		on_socket(u, 0);
	if (u->helper.socket < 0)
		return 0;
	if (number ? u->current && u->number == number && !give_time_back(u) : !u->helper.pid)
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
	struct iovec parts[] = {{&wire, sizeof(wire)}, {capture->stack, capture->stack_bytes}};
	bool is_inline = capture->stack_bytes <= WIRE_INLINE_BYTES;
	int fd = -1, err;

	memcpy(wire.value, capture->registers.value, sizeof(wire.value));
	if (is_inline) {
		wire.header.bytes += (uint32_t)capture->stack_bytes;
	} else {
		fd = memory_file(capture->stack, capture->stack_bytes);
		if (fd < 0)
			return fd;
	}
	err = channel_send(u->helper.socket, parts, is_inline ? 2 : 1, &fd, fd >= 0);
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
	unwinder_finish_unwind(u, -ENOMEM, trace);
}

/* 0: jobs may be sent. */
static int have_process(struct unwinder *u, uint64_t now_ns)
{
	if (u->helper.socket < 0 && now_ns < u->not_before_ns) {
		unwinder_pump_after(u, u->not_before_ns - now_ns);
		return -EAGAIN;
	}
	if (u->helper.socket < 0 && start_process(u)) {
		u->not_before_ns = now_ns + u->retry_ns;
		unwinder_pump_after(u, u->retry_ns);
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
		if (u->current->type == WIRE_WAITS) {
			unwinder_finish_waits(u, -ENOMEM, NULL);
		} else {
			u->no_memory += u->current->type == WIRE_UNWIND;
			unwinder_finish_unwind(u, -ENOMEM, NULL);
		}
		if (u->first)
			unwinder_pump_after(u, 0);
	} else {
		/* -EPIPE: it died meanwhile, and the job is for the next one */
		lose_process(u, true, err != -EPIPE);
	}
}

static int on_pump(void *ctx, uint32_t events)
{
	struct unwinder *u = ctx;
	struct job *job;
	bool slow;
	int err = 0;

	unwinder_finish_gave_way(u);
	while (!u->sent && u->first && u->first->capture && !u->first->capture->registers.valid)
		finish_kernel(u);
	if (!u->first || have_process(u, clock_now_ns(CLOCK_MONOTONIC)))
		return 0;
	for (job = *unwinder_find_unsent(u); job && !err && u->sent < WIRE_WINDOW;
	     job = job->next) {
		if (job->capture && !job->capture->registers.valid)
			break; /* not for the process: it waits for those before it */
		/* Alone, so that those that come meanwhile pass the rest of its kind. */
		slow = unwinder_is_slow(u, job);
		if (slow && u->sent)
			break;
		job->number = ++u->serial;
		err = send_job(u, job);
		if (err)
			break;
		if (!u->sent++)
			unwinder_begin(u);
		if (slow)
			break;
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
	int err;

	if (n == -EAGAIN)
		return false;
	if (n == 0) {
		lose_process(u, false, false);
		return false;
	}
	if (n > 0 && !u->helper.pid &&
	    helper_take_hello(&u->helper, u->message, (size_t)n, fds, count)) {
		proc_keep(&u->schedstat, u->helper.pid, u->helper.pid);
		loop_set_timer(u->loop, u->timer, 0, 0);
		unwinder_pump_after(u, 0);
		return true;
	}
	while (count)
		close(fds[--count]);
	err = n < 0 ? (int)n : unwinder_take_message(u, (size_t)n);
	/* It may have died before it got what it asked for. */
	if (err == -EPIPE)
		lose_process(u, false, false);
	else if (err)
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

int unwinder_watch(struct unwinder *u)
{
	u->retry_ns = RETRY_NS;
	u->timer = loop_add_timer(u->loop, 0, 0, on_timer, u);
	if (u->timer >= 0)
		u->pump = loop_add_timer(u->loop, 0, 0, on_pump, u);
	return u->timer < 0 ? u->timer : u->pump < 0 ? u->pump : 0;
}

void unwinder_unwatch(struct unwinder *u)
{
	if (u->helper.socket >= 0)
		drop_process(u, u->current);
	if (u->timer >= 0)
		loop_remove_timer(u->loop, u->timer);
	if (u->pump >= 0)
		loop_remove_timer(u->loop, u->pump);
}
