/* SPDX-License-Identifier: BSD-2-Clause */
/* How a sample is taken: the capture of the watched thread, then, where it waits for a futex whose
 * owner can be read, the capture of that thread too. */
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
#include "prober/pool_wire.h"
#include "prober/sampler_private.h"
#include "util/channel.h"
#include "util/clock.h"
#include "proc/read.h"
#include "stack/registers.h"

/* The capturer keeps perf events for 2 s after their last use. */
#define REST_NS (2200 * NSEC_PER_MSEC)
/* Android's main thread has 8 MiB of stack; 256 KiB hold 182 frames of 1.4 KiB. */
#define STACK_BYTES (256u << 10)
#define TEXT_BYTES  4096
/* Of the stacks of those behind the first owner: a whole chain is not to fill what may wait to be
 * unwound. */
#define LINK_BYTES (64u << 10)
/* Watched threads whose files a hand keeps open; those that share a place are opened each time. */
#define KEPT 8

struct sampler_hand {
	const struct sampler_view *view;
	const struct sampler_row *row; /* of the sample that is taken */
	struct stack_stash stash;
	bool by_task;   /* the registers came from the task iterator, not from a stash */
	bool read_once; /* of this sample; the first time did not ask whether it ran unseen */
	struct looper_task task;
	struct stack_capturer *capturer;
	struct stack_capture *capture;
	struct {
		struct proc_kept schedstat, statm;
	} kept[KEPT];
	uint64_t page_bytes;
	uint64_t perf_used_ns; /* when a perf event was used last; 0: none is open */
};

/* ---- where the snapshot finds registers ---- */

static bool is_of_row(const struct sampler_hand *hand, pid_t tid)
{
	return hand->row && hand->row->thread.tid == tid;
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
		struct proc_kept *schedstat = &hand->kept[hand->row->index % KEPT].schedstat;
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
		return looper_stash_sequence(&hand->view->loopers, hand->row->index,
					     &hand->kept[hand->row->index % KEPT].schedstat);
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
	for (size_t i = 0; i < KEPT; i++)
		hand->kept[i].schedstat.fd = hand->kept[i].statm.fd = -1;
	hand->stash = (struct stack_stash){read_stash, stash_sequence, hand};
	hand->capture = stack_capture_new(STACK_BYTES);
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

static int send_sample(const struct sampler_hand *hand, struct sampler_sample *sample, int socket)
{
	const struct stack_capture *capture = hand->capture;
	char text[TEXT_BYTES];
	struct iovec parts[3] = {{sample, sizeof(*sample)}};

	sample->type = SAMPLER_SAMPLE;
	sample->index = hand->row->index;
	sample->slot_id = hand->row->slot_id;
	sample->period = hand->row->period;
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

/* ---- who holds the lock ---- */

/* A thread that waits for a lock, as it was when its registers were read. */
struct waiter {
	pid_t tid;
	uint64_t address, operation; /* of its futex call */
	bool forever;                /* without a time after which it gives up */
	bool known;                  /* task is there */
	struct looper_task task;
};

static bool find_futex(const struct stack_registers *registers, struct waiter *waiter)
{
	static const uint8_t numbers[][3] = {
		[STACK_X86_64] = {5, 4, 10}, /* rdi, rsi, r10 */
		[STACK_ARM64] = {0, 1, 3},
	};
	const uint8_t *number = numbers[registers->arch];

	if (registers->syscall_nr != SYS_futex)
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (!(registers->valid >> number[i] & 1))
			return false;
	waiter->address = registers->value[number[0]];
	waiter->operation = registers->value[number[1]];
	waiter->forever = !registers->value[number[2]];
	return true;
}

/* The watched thread, which the switch program tells about: as its registers say it too. */
static bool find_watched(const struct sampler_hand *hand, struct waiter *waiter)
{
	uint64_t words[LOOPER_REGISTER_WORDS];
	struct stack_registers registers;
	struct waiter now = {0};

	if (!hand->view->has_registers ||
	    task_registers_read(&hand->view->registers, waiter->tid, &waiter->task))
		return false;
	memcpy(words, waiter->task.registers.words, sizeof(words));
	if (registers_from_kernel(&registers, STACK_HOST_ARCH, words, LOOPER_REGISTER_WORDS) ||
	    !find_futex(&registers, &now))
		return false;
	waiter->forever = now.forever;
	return now.address == waiter->address;
}

static bool read_owner(pid_t pid, const struct waiter *waiter, struct probe_owner *owner)
{
	const struct probe_request request = {
		.operation = PROBE_LOCK_OWNER,
		.pid = pid,
		.tid = waiter->tid,
		.address = waiter->address,
		.argument = waiter->operation,
	};
	_Alignas(8) uint8_t data[sizeof(*owner)];
	struct reply reply = {.data = data};

	if (probe_read_lock_owner(&request, &reply) || reply.length < sizeof(*owner))
		return false;
	memcpy(owner, data, sizeof(*owner));
	return owner->tid > 0;
}

/* Each of the waiters waits for the next, and the last for the first. The registers of each were
 * read before the word of the lock that it waits for, and none of these threads has run since, so
 * that none can have let its lock go. */
static bool is_deadlock(const struct sampler_hand *hand, const struct waiter *waiters, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct looper_task now;

		if (!waiters[i].known || !waiters[i].forever ||
		    task_registers_read(&hand->view->registers, waiters[i].tid, &now) ||
		    !task_registers_same(&waiters[i].task, &now) || now.on_cpu ||
		    now.state != OFF_CPU_SLEEPING)
			return false;
	}
	return count;
}

/* Sample the owner of the futex that the watched thread sleeps in, then the thread that this owner
 * waits for, and so on: a lock is explained by the stacks of both sides. */
static int sample_owners(struct sampler_hand *hand, const struct sampler_row *row, int socket)
{
	struct waiter waiters[SAMPLER_CHAIN + 1] = {{
		.tid = row->thread.tid,
		.address = row->slot.arguments[0],
		.operation = row->slot.arguments[1],
	}};
	uint64_t walk_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct probe_owner owner, again;
	int err = 0;

	waiters[0].known = find_watched(hand, &waiters[0]);
	for (size_t depth = 1; depth <= SAMPLER_CHAIN + 1 && !err; depth++) {
		struct waiter *next = &waiters[depth];
		struct sampler_sample sample = {.owner = (uint32_t)depth};
		struct stack_thread thread = row->thread;

		if (!read_owner(row->thread.pid, next - 1, &owner))
			break;
		sample.t_ns = clock_now_ns(CLOCK_MONOTONIC);
		sample.pid = thread.pid;
		sample.tid = thread.tid = owner.tid;
		sample.lock = owner.lock;
		sample.walk_ns = walk_ns;
		memcpy(sample.thread, owner.thread, sizeof(sample.thread));
		for (size_t i = 0; i < depth; i++) {
			if (waiters[i].tid != owner.tid)
				continue;
			stack_capture_clear(hand->capture);
			sample.deadlock = is_deadlock(hand, &waiters[i], depth - i);
			return sample.deadlock ? send_sample(hand, &sample, socket) : 0;
		}
		/* A ninth thread is only asked whether it closes the circle. */
		if (depth > SAMPLER_CHAIN)
			break;
		thread.start_boot_ns = 0;
		hand->by_task = false;
		/* The owner is never stopped: it did not block. */
		sample.taken = !stack_capture(
			hand->capturer, &thread,
			hand->view->has_registers ? STACK_SNAPSHOT : STACK_KERNEL, hand->capture);
		/* Let go meanwhile: what it does now is no answer. */
		if (!read_owner(row->thread.pid, next - 1, &again) || again.tid != owner.tid)
			break;
		if (depth > 1 && hand->capture->stack_bytes > LINK_BYTES)
			hand->capture->stack_bytes = LINK_BYTES;
		next->tid = owner.tid;
		next->known = sample.taken && hand->by_task;
		next->task = hand->task;
		err = send_sample(hand, &sample, socket);
		if (!sample.taken || !find_futex(&hand->capture->registers, next))
			break;
	}
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
	if (row->refuse) {
		stack_capture_clear(hand->capture);
		hand->capture->failure = STACK_HELD_UP;
		return send_sample(hand, &sample, socket);
	}
	proc_keep(&hand->kept[row->index % KEPT].schedstat, row->thread.pid, row->thread.tid);
	proc_keep(&hand->kept[row->index % KEPT].statm, row->thread.pid, row->thread.tid);
	sample.taken =
		!stack_capture(hand->capturer, &row->thread, hand->view->request, hand->capture);
	/* The thread was met on a CPU, whatever it did a moment before. */
	if (sample.taken && hand->capture->kind == CAPTURE_PERF) {
		sample.spell = 0;
		hand->perf_used_ns = sample.t_ns;
	}
	read_load(&hand->kept[row->index % KEPT].statm, hand->page_bytes, &sample);
	err = send_sample(hand, &sample, socket);
	if (sample.spell && row->slot.reason == LOOPER_REASON_FUTEX) {
		int owner_err = sample_owners(hand, row, socket);

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
