/* SPDX-License-Identifier: BSD-2-Clause */
/* When a thread that makes frames is due: the flight recorder's ring tells since when it is amid a
 * frame. A sample is wanted when it did not come back to its wait for half a frame's time: what a
 * frame may cost is beyond that only what makes it late (why/README.md). */
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/sched.h"
#include "kernel/flight_kernel.h"
#include "prober/sampler_private.h"
#include "proc/stat.h"
#include "stack/capture.h"
#include "util/clock.h"

#define NEVER UINT64_MAX
/* How far back the begin of a frame is looked for: a longer one is amid it all the same. */
#define LOOK_BACK_NS (100 * NSEC_PER_MSEC)
#define TORN_TICK_NS NSEC_PER_MSEC
#define REST_NS      (250 * NSEC_PER_MSEC)
/* Samples may cost 1 % of a core, and what that is in two seconds at a time. */
#define BUDGET_PART 100
#define BUDGET_NS   (20 * NSEC_PER_MSEC)
/* What the recorder and the unwinder do for a sample costs twice what taking it costs. */
#define COST_TIMES  3
#define FEW_SAMPLES 3

/* The first perf event of a task on a machine takes as long as a grace period of RCU (perf's
 * account_event in kernel/events/core.c), which is as long as a late frame: one that counts nothing
 * stays open. */
static void keep_perf_on(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.disabled = 1,
	};

	/* Where there are none, the samples say so. */
	if (syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
		return;
}

int sampler_frames_set(struct sampler_view *view, struct sampler_row **rows,
		       const struct sampler_frames *message, const int *fds, size_t fd_count)
{
	struct sampler_frame_view *frames = &view->frames;

	if (fd_count >= 2 && !frames->kernel) {
		frames->kernel = flight_kernel_view(fds[0], fds[1], message->plain);
		if (!frames->kernel)
			return -errno;
		if (message->step_ns)
			keep_perf_on();
		frames->budget_ns = BUDGET_NS;
		frames->budget_at_ns = clock_now_ns(CLOCK_MONOTONIC);
	}
	frames->period_ns = message->period_ns;
	frames->step_ns = message->period_ns ? message->step_ns : 0;
	for (uint32_t i = 0; rows && i < FLIGHT_THREADS; i++)
		if (rows[view->room + i])
			rows[view->room + i]->next_ns = 0;
	return 0;
}

struct sampler_row *sampler_frame_new(const struct sampler_view *view,
				      const struct sampler_frame_watch *message)
{
	struct thread_status status;
	struct sampler_row *row;

	/* Its start is what tells it from a later thread of that number. */
	if (thread_status_read("", message->pid, message->tid, &status))
		return NULL;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->index = view->room + message->index;
	row->slot_id = row->frame_id = message->slot_id;
	row->frame = message->index + 1;
	row->for_frame = true;
	row->is_main = message->is_main;
	row->thread = (struct stack_thread){
		.pid = message->pid,
		.tid = message->tid,
		.pidfd = -1,
		.start_boot_ns = status.start_ticks * PROC_TICK_NS,
	};
	return row;
}

/* The thread waits for its next frame: of a sleep (S) for a reason. One that was seen to poll does
 * so in its poll; of others, what lasts: ended_ns 0 where it lasts still. A main thread does not
 * wait for its frames in a lock. */
static bool is_wait(const struct sampler_view *view, struct sampler_row *row, uint8_t state,
		    uint8_t reason, uint64_t began_ns, uint64_t ended_ns)
{
	if (state != OFF_CPU_SLEEPING || reason == LOOPER_REASON_BINDER)
		return false;
	if (reason == LOOPER_REASON_POLL)
		row->polls = true;
	if (row->polls || (reason == LOOPER_REASON_FUTEX && row->is_main))
		return reason == LOOPER_REASON_POLL;
	return !ended_ns || ended_ns - began_ns >= view->frames.period_ns / 4;
}

/* Since when the thread is amid a frame. */
static uint64_t find_begin(const struct sampler_view *view, struct sampler_row *row,
			   const struct flight_copy *copy, uint64_t from_ns)
{
	const struct flight_thread *thread = &copy->thread;

	if (thread->state == FLIGHT_OFF &&
	    is_wait(view, row, thread->off_state, thread->reason, thread->off_ns, thread->woken_ns))
		return thread->woken_ns;
	for (size_t i = copy->count; i-- > 0;) {
		const struct flight_entry *entry = &copy->entries[i];
		uint64_t ended_ns = entry->woken_ns ? entry->woken_ns : entry->in_ns;

		if (ended_ns < from_ns)
			break;
		if (!(entry->flags & FLIGHT_GAP) &&
		    is_wait(view, row, entry->state, entry->reason, entry->off_ns, ended_ns))
			return ended_ns;
	}
	return copy->from_ns > from_ns && copy->from_ns != UINT64_MAX ? copy->from_ns : from_ns;
}

static void refill(struct sampler_frame_view *frames, uint64_t now_ns)
{
	frames->budget_ns += (int64_t)((now_ns - frames->budget_at_ns) / BUDGET_PART);
	frames->budget_at_ns = now_ns;
	if (frames->budget_ns > (int64_t)BUDGET_NS)
		frames->budget_ns = (int64_t)BUDGET_NS;
}

/* Threads that make frames may be of the real-time class (Android's sys.use_fifo_ui), and keep one
 * of no such class on their own CPU from it until the frame is over. In the lowest priority of that
 * class this one preempts none of them, and the kernel puts it on a CPU without any. Where that is
 * not permitted, their samples are late. */
void sampler_frames_queue_first(void)
{
	const struct sched_param lowest = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest))
		return;
}

void sampler_frame_charge(struct sampler_view *view, uint64_t cpu_ns)
{
	view->frames.budget_ns -= (int64_t)(cpu_ns * COST_TIMES);
}

/* A thread that sleeps amid a frame is sampled once in each sleep that lasts: where it waits, and
 * for whom. */
static bool sleeps_long(const struct sampler_view *view, struct sampler_row *row,
			const struct flight_thread *thread, uint64_t now_ns)
{
	uint64_t long_ns = view->frames.period_ns / 4;

	row->next_ns = now_ns + view->frames.step_ns;
	if (thread->woken_ns || thread->off_state == OFF_CPU_RUNNABLE ||
	    thread->off_state == OFF_CPU_STOPPED)
		return false;
	if (row->slept_off_ns == thread->off_ns) {
		row->next_ns = now_ns + view->frames.period_ns / 2;
		return false;
	}
	if (now_ns < thread->off_ns + long_ns) {
		row->next_ns = thread->off_ns + long_ns;
		return false;
	}
	row->slept_off_ns = thread->off_ns;
	return true;
}

/* With half of the budget gone a frame has no more than FEW_SAMPLES, so that the frames behind it
 * have some too. */
static bool is_too_much(const struct sampler_frame_view *frames, const struct sampler_row *row,
			uint64_t begin_ns, uint64_t now_ns)
{
	return frames->budget_ns < 0 || now_ns < row->left_alone_until_ns ||
	       (frames->budget_ns < (int64_t)BUDGET_NS / 2 && row->frame_ns == begin_ns &&
		row->frame_samples >= FEW_SAMPLES);
}

/* The first look at or after ns. All rows are looked at in one go, once a frame's time: when the
 * last frame of a main thread was due, because the next ones begin with the same display. A frame
 * that begins at another time is found within its own length. */
static uint64_t look_from(const struct sampler_frame_view *frames, uint64_t ns)
{
	uint64_t past_ns = (ns - frames->phase_ns) % frames->period_ns;

	return past_ns ? ns + frames->period_ns - past_ns : ns;
}

/* When a thread is due whose frame began then. That of a RenderThread begins behind the main
 * thread's, and may wait a little for the next look: a wake-up costs more than all that it does. */
static uint64_t due_of(struct sampler_frame_view *frames, const struct sampler_row *row,
		       uint64_t begin_ns)
{
	uint64_t due_ns = begin_ns + frames->period_ns / 2, look_ns;

	if (row->is_main)
		frames->phase_ns = due_ns % frames->period_ns;
	look_ns = look_from(frames, due_ns);
	return look_ns - due_ns <= frames->period_ns / 4 ? look_ns : due_ns;
}

/* The thread waits since since_ns: a frame between two looks is seen by that alone. */
static bool wait_for_frame(const struct sampler_view *view, struct sampler_row *row,
			   uint64_t since_ns, uint64_t now_ns)
{
	if (!row->idle || since_ns > row->waited_ns)
		row->idle_ns = now_ns;
	row->idle = true;
	row->waited_ns = now_ns;
	row->next_ns = look_from(&view->frames, now_ns + 1);
	return false;
}

bool sampler_frame_is_due(struct sampler_view *view, struct sampler_row *row, uint64_t now_ns)
{
	struct sampler_frame_view *frames = &view->frames;
	uint64_t first_ns = frames->period_ns / 2, from_ns = now_ns - LOOK_BACK_NS, begin_ns;
	const struct flight_thread *thread;
	struct flight_thread now;
	struct flight_copy copy;
	int err;

	row->next_ns = NEVER;
	if (!frames->kernel || !frames->step_ns)
		return false;
	/* Mostly it waits, since before it was watched or in its poll, and the ring need not be
	 * read. */
	if (flight_kernel_peek(frames->kernel, row->frame - 1, &now) &&
	    now.tid == (uint32_t)row->thread.tid && !now.woken_ns &&
	    (now.state == FLIGHT_UNSEEN ||
	     (now.state == FLIGHT_OFF && now.reason == LOOPER_REASON_POLL &&
	      is_wait(view, row, now.off_state, now.reason, now.off_ns, 0))))
		return wait_for_frame(view, row, now.off_ns, now_ns);
	if (row->waited_ns > from_ns)
		from_ns = row->waited_ns;
	err = flight_kernel_read(frames->kernel, row->frame - 1, from_ns, now_ns, &copy);
	thread = &copy.thread;
	if (!err && (thread->tid != (uint32_t)row->thread.tid || thread->dead))
		return false;
	/* It is being switched, or was seen for the first time just now. */
	if (err || thread->state == FLIGHT_UNSEEN) {
		row->next_ns = now_ns + (err ? TORN_TICK_NS : first_ns);
		return false;
	}
	begin_ns = find_begin(view, row, &copy, from_ns);
	if (!begin_ns)
		return wait_for_frame(view, row, thread->off_ns, now_ns);
	row->idle = false;
	row->next_ns = due_of(frames, row, begin_ns);
	if (row->next_ns < row->sample_ns)
		row->next_ns = row->sample_ns;
	if (row->next_ns > now_ns)
		return false;
	if (thread->state != FLIGHT_ON && !sleeps_long(view, row, thread, now_ns))
		return false;
	row->sample_ns = row->next_ns = now_ns + frames->step_ns;
	/* It sleeps for longer than that still. */
	if (thread->state != FLIGHT_ON)
		row->next_ns = now_ns + first_ns;
	refill(frames, now_ns);
	if (is_too_much(frames, row, begin_ns, now_ns)) {
		frames->thinned++;
		/* Said once a frame. */
		row->refuse = row->thinned_ns != begin_ns;
		row->thinned_ns = begin_ns;
		return row->refuse;
	}
	row->refuse = false;
	if (row->frame_ns != begin_ns)
		row->frame_samples = 0;
	row->frame_ns = begin_ns;
	row->frame_samples++;
	row->slot = (struct looper_slot){
		.on_cpu = thread->state == FLIGHT_ON,
		.off_state = thread->off_state,
		.reason = thread->reason,
		.syscall_nr = thread->syscall_nr,
		.off_ns = thread->off_ns,
		.spell = thread->off_ns,
	};
	return true;
}

/* A process whose main thread rests makes no frames: the kernel side says when that works again. */
void sampler_frames_rest(struct sampler_view *view, struct sampler_row **rows,
			 struct sampler_row *row, uint64_t now_ns)
{
	if (!row->idle || now_ns - row->idle_ns < REST_NS)
		return;
	for (uint32_t i = 0; i < view->room; i++) {
		if (!rows[i] || rows[i]->thread.tid != row->thread.pid)
			continue;
		if (sampler_row_parks(view, rows[i]))
			row->next_ns = NEVER;
		return;
	}
}

void sampler_frames_wake(const struct sampler_view *view, struct sampler_row **rows, pid_t pid,
			 uint64_t begin_ns)
{
	for (uint32_t i = view->room; i < view->room + FLIGHT_THREADS; i++)
		if (rows[i] && rows[i]->thread.pid == pid && rows[i]->next_ns == NEVER)
			rows[i]->next_ns = begin_ns + view->frames.period_ns / 2;
}

static bool is_hot(const struct sampler_view *view, const struct sampler_row *row, uint64_t now_ns)
{
	return view->frames.step_ns && !row->idle && row->sample_ns &&
	       now_ns < row->sample_ns + view->frames.step_ns;
}

void sampler_frames_share(const struct sampler_view *view, struct sampler_row **rows,
			  struct sampler_row *row, uint64_t now_ns)
{
	row->frame = 0;
	for (uint32_t i = view->room; i < view->room + FLIGHT_THREADS; i++) {
		struct sampler_row *frame = rows[i];

		if (!frame || frame->thread.tid != row->thread.tid || !is_hot(view, frame, now_ns))
			continue;
		row->frame = frame->frame;
		row->frame_id = frame->frame_id;
		frame->sample_ns = frame->next_ns = now_ns + view->frames.step_ns;
	}
}

bool sampler_frame_sleeps(const struct sampler_view *view, const struct sampler_row *row)
{
	return flight_kernel_sleeps(view->frames.kernel, row->frame - 1, row->slot.off_ns);
}
