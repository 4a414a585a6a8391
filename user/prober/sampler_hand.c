/* SPDX-License-Identifier: BSD-2-Clause */
/* How a sample of a watched thread is taken; whom it waits for is sampler_chain.c. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "prober/sampler_private.h"
#include "util/channel.h"
#include "util/clock.h"
#include "proc/read.h"

/* The capturer keeps perf events for 2 s after their last use. */
#define REST_NS (2200 * NSEC_PER_MSEC)
/* Android's main thread has 8 MiB of stack; 256 KiB hold 182 frames of 1.4 KiB. */
#define STACK_BYTES (256u << 10)
#define TEXT_BYTES  4096
/* Of the stack of a thread that makes frames: samples of seconds are kept until it is known which
 * of them are wanted. Java is the main thread's. */
#define MAIN_STACK_BYTES   (32u << 10)
#define RENDER_STACK_BYTES (16u << 10)

/* ---- where the snapshot finds registers ---- */

static bool is_of_row(const struct sampler_hand *hand, pid_t tid)
{
	return hand->row && !hand->row->for_frame && hand->row->thread.tid == tid;
}

/* A thread that sleeps since before it was watched, and the owner of a lock, have no stash: the
 * task iterator reads their registers. Its answers have no sequence, so one is made of the counts
 * that change when the thread runs; it is even, as that of a stash. */
static uint64_t sequence_of(const struct looper_task *task)
{
	uint64_t mixed = task->voluntary * 0x9e3779b97f4a7c15ull ^
			 task->involuntary * 0xbf58476d1ce4e5b9ull ^ task->cpu_ns;

	return (mixed << 1) | (1ull << 63);
}

static int read_task(struct sampler_hand *hand, pid_t tid, struct looper_registers *out)
{
	int err = hand->view->has_registers
			  ? task_registers_read(&hand->view->registers, tid, &hand->task)
			  : -ENOENT;

	if (err)
		return err == -EAGAIN ? err : -ENOENT;
	*out = hand->task.registers;
	out->sequence = sequence_of(&hand->task);
	hand->by_task = true;
	return 0;
}

static int read_stash(void *ctx, pid_t tid, struct looper_registers *out)
{
	struct sampler_hand *hand = ctx;

	hand->by_task = false;
	if (is_of_row(hand, tid)) {
		struct proc_kept *schedstat =
			&hand->kept[hand->row->index % SAMPLER_KEPT].schedstat;
		/* A thread that has run unseen shows behind the copy of its stack as well, and only
		 * then it is asked before the next copy: few have. */
		int err = looper_read_stash(&hand->view->loopers, hand->row->index, tid,
					    hand->read_once ? schedstat : NULL, out);

		hand->read_once = true;
		if (err != -ENOENT)
			return err;
	}
	return read_task(hand, tid, out);
}

static uint64_t stash_sequence(void *ctx, pid_t tid)
{
	struct sampler_hand *hand = ctx;
	struct looper_task now;

	if (!hand->by_task)
		return looper_stash_sequence(
			&hand->view->loopers, hand->row->index,
			&hand->kept[hand->row->index % SAMPLER_KEPT].schedstat);
	if (task_registers_read(&hand->view->registers, tid, &now) ||
	    !task_registers_same(&hand->task, &now))
		return 0;
	return sequence_of(&now);
}

static bool has_perf(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

struct sampler_hand *sampler_hand_new(const struct sampler_view *view)
{
	struct sampler_hand *hand = calloc(1, sizeof(*hand));

	if (!hand)
		return NULL;
	hand->view = view;
	hand->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < SAMPLER_KEPT; i++)
		hand->kept[i].schedstat.fd = hand->kept[i].statm.fd = -1;
	hand->stash = (struct stack_stash){read_stash, stash_sequence, hand};
	hand->capture = stack_capture_new(STACK_BYTES);
	/* Where the capturer may stop threads, a thread that runs stays without a stack. */
	hand->link_request = !view->has_registers                        ? STACK_KERNEL
			     : view->request == STACK_AUTO && has_perf() ? STACK_AUTO
									 : STACK_SNAPSHOT;
	hand->capturer = stack_capturer_new(&(struct stack_capture_config){
		.stash = &hand->stash,
		/* By itself the sampler stops threads only where no perf event can be had. */
		.no_perf = view->request == STACK_SNAPSHOT || view->request == STACK_PTRACE,
		.no_ptrace = view->request == STACK_SNAPSHOT || view->request == STACK_PERF ||
			     (view->request == STACK_AUTO && has_perf()),
	});
	if (!hand->capture || !hand->capturer) {
		stack_capturer_free(hand->capturer);
		stack_capture_free(hand->capture);
		free(hand);
		return NULL;
	}
	return hand;
}

/* ---- sending ---- */

static size_t put_text(const struct stack_capture *capture, char text[TEXT_BYTES])
{
	size_t at = 0;

	for (size_t i = 0; i < capture->kernel_frame_count; i++) {
		size_t length = strlen(capture->kernel_frames[i]) + 1;

		if (at + length > TEXT_BYTES)
			break;
		memcpy(text + at, capture->kernel_frames[i], length);
		at += length;
	}
	return at;
}

static void read_load(struct proc_kept *statm, uint64_t page_bytes, struct sampler_sample *sample)
{
	const char *second;
	char text[128];

	if (proc_read_kept(statm, "statm", text, sizeof(text)) <= 0)
		return;
	second = strchr(text, ' ');
	if (second)
		sample->app_rss_bytes = strtoull(second, NULL, 10) * page_bytes;
}

int sampler_hand_send(const struct sampler_hand *hand, struct sampler_sample *sample, int socket)
{
	const struct stack_capture *capture = hand->capture;
	char text[TEXT_BYTES];
	struct iovec parts[3] = {{sample, sizeof(*sample)}};

	sample->type = SAMPLER_SAMPLE;
	sample->index = hand->row->index;
	sample->slot_id = hand->row->slot_id;
	sample->period = hand->row->period;
	sample->frame = hand->row->frame;
	sample->frame_id = hand->row->frame_id;
	sample->cost_ns = capture->cost_ns;
	sample->stop_ns = capture->stop_ns;
	sample->failure = capture->failure;
	sample->eintr_risk = capture->eintr_risk;
	if (sample->taken) {
		sample->t_boot_ns = capture->t_boot_ns;
		sample->kind = capture->kind;
		sample->registers = capture->registers;
		sample->stack_base = capture->stack_base;
		sample->sequence = capture->sequence;
		sample->stack_bytes = (uint32_t)capture->stack_bytes;
		sample->state = capture->state;
		memcpy(sample->wchan, capture->wchan, sizeof(sample->wchan) - 1);
		sample->text_bytes = (uint32_t)put_text(capture, text);
	}
	parts[1] = (struct iovec){capture->stack, sample->stack_bytes};
	parts[2] = (struct iovec){text, sample->text_bytes};
	return channel_send(socket, parts, 3, NULL, 0);
}

/* A thread that runs is met by a perf event or not at all: the app is never stopped for a frame. */
static int sample_frame(struct sampler_hand *hand, struct sampler_row *row,
			struct sampler_sample *sample, int socket)
{
	bool by_perf = hand->view->request == STACK_AUTO || hand->view->request == STACK_PERF;
	size_t most_bytes = row->is_main ? MAIN_STACK_BYTES : RENDER_STACK_BYTES;
	int err;

	if (row->refuse) {
		stack_capture_clear(hand->capture);
		hand->capture->failure = STACK_THINNED;
		return sampler_hand_send(hand, sample, socket);
	}
	if (!row->slot.on_cpu)
		err = stack_capture(hand->capturer, &row->thread, hand->link_request,
				    hand->capture);
	else if (by_perf)
		err = stack_capture_running(hand->capturer, &row->thread, hand->capture);
	else
		err = stack_capture(hand->capturer, &row->thread, STACK_SNAPSHOT, hand->capture);
	sample->taken = !err;
	if (sample->taken && hand->capture->kind == CAPTURE_PERF) {
		sample->spell = 0;
		hand->perf_used_ns = sample->t_ns;
	}
	if (hand->capture->stack_bytes > most_bytes)
		hand->capture->stack_bytes = most_bytes;
	err = sampler_hand_send(hand, sample, socket);
	if (!err && !row->slot.on_cpu &&
	    (row->slot.reason == LOOPER_REASON_FUTEX || row->slot.reason == LOOPER_REASON_BINDER))
		err = sampler_chain_sample(hand, row, socket);
	return err;
}

int sampler_hand_sample(struct sampler_hand *hand, struct sampler_row *row, int socket)
{
	struct sampler_sample sample = {
		.t_ns = clock_now_ns(CLOCK_MONOTONIC),
		.spell = row->slot.on_cpu ? 0 : row->slot.spell,
		.pid = row->thread.pid,
		.tid = row->thread.tid,
	};
	int err;

	hand->row = row;
	hand->read_once = false;
	if (row->for_frame) {
		err = sample_frame(hand, row, &sample, socket);
		hand->row = NULL;
		return err;
	}
	if (row->chain_only) {
		err = sampler_chain_sample(hand, row, socket);
		hand->row = NULL;
		return err;
	}
	if (row->refuse) {
		stack_capture_clear(hand->capture);
		hand->capture->failure = STACK_HELD_UP;
		return sampler_hand_send(hand, &sample, socket);
	}
	if (row->only_chain) {
		err = sampler_chain_sample(hand, row, socket);
		hand->row = NULL;
		return err;
	}
	proc_keep(&hand->kept[row->index % SAMPLER_KEPT].schedstat, row->thread.pid,
		  row->thread.tid);
	proc_keep(&hand->kept[row->index % SAMPLER_KEPT].statm, row->thread.pid, row->thread.tid);
	sample.taken =
		!stack_capture(hand->capturer, &row->thread, hand->view->request, hand->capture);
	/* The thread was met on a CPU, whatever it did a moment before. */
	if (sample.taken && hand->capture->kind == CAPTURE_PERF) {
		sample.spell = 0;
		hand->perf_used_ns = sample.t_ns;
	}
	read_load(&hand->kept[row->index % SAMPLER_KEPT].statm, hand->page_bytes, &sample);
	err = sampler_hand_send(hand, &sample, socket);
	if (sample.spell &&
	    (row->slot.reason == LOOPER_REASON_FUTEX || row->slot.reason == LOOPER_REASON_BINDER)) {
		int owner_err = sampler_chain_sample(hand, row, socket);

		if (owner_err)
			err = owner_err;
	}
	hand->row = NULL;
	return err;
}

pid_t sampler_hand_worker(const struct sampler_hand *hand)
{
	pid_t pid = stack_capturer_worker(hand->capturer);

	return pid > 0 ? pid : 0;
}

uint64_t sampler_hand_rest(struct sampler_hand *hand, uint64_t now_ns)
{
	if (!hand->perf_used_ns)
		return UINT64_MAX;
	if (now_ns < hand->perf_used_ns + REST_NS)
		return hand->perf_used_ns + REST_NS;
	stack_capturer_rest(hand->capturer);
	hand->perf_used_ns = 0;
	return UINT64_MAX;
}
