/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/sched.h"
#include "stack/files_direct.h"
#include "stack/stack_merge.h"
#include "util/clock.h"

/* Android's main thread has 8 MiB; 256 KiB hold 182 frames of 1.4 KiB (stack-capture.md). */
#define BUFFER_BYTES (256u << 10)
/* What may wait to be unwound, where the machine has no time for it. */
#define WAITING_BYTES   (8u << 20)
#define WORKER_NICENESS 10

struct job {
	struct job *next;
	struct stack_capture *capture; /* unwind this into sample; NULL: finish the report */
	struct block_sample *sample;
	struct block_report *report;
};

struct blocks_stacks {
	struct looper_kernel *kernel;
	enum stack_request request;
	block_index_fn index;
	void *index_ctx;
	struct stack_stash stash;
	struct stack_capturer *capturer;
	struct stack_files files;
	struct stack_unwinder *unwinder;
	struct stack_capture *buffer; /* of the loop's thread: touched, so that it takes no fault */
	int done_fd;
	pthread_t thread;
	bool running;
	/* below: under the lock */
	pthread_mutex_t lock;
	pthread_cond_t work, idle;
	bool stop;
	struct job *first, **last;
	size_t waiting_bytes;
	size_t pending; /* jobs queued or at work */
	struct block_report *done_first, **done_last;
	uint64_t busy;
};

/* ---- registers stashed at switch-out ---- */

/* sched_info.pcount: how often the kernel put it on a CPU. The tracepoint does not show every
 * switch, so this number says whether the stash is still that of its last switch-out. */
static bool arrivals_of(pid_t tid, uint64_t *arrivals)
{
	char path[64], text[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", tid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	return sscanf(text, "%*u %*u %" SCNu64, arrivals) == 1;
}

static int stash_read(void *ctx, pid_t tid, struct looper_registers *out)
{
	struct blocks_stacks *stacks = ctx;
	int index = stacks->index(stacks->index_ctx, tid);
	const struct looper_registers *from;
	const struct looper_slot *slot;
	uint64_t sequence, arrivals;

	if (index < 0)
		return -ENOENT;
	from = looper_kernel_stash(stacks->kernel, (uint32_t)index);
	slot = looper_kernel_slot(stacks->kernel, (uint32_t)index);
	sequence = __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE);
	if (!sequence)
		return -ENOENT;
	if (sequence & 1)
		return -EAGAIN;
	memcpy(out, from, sizeof(*out));
	if (!arrivals_of(tid, &arrivals) ||
	    arrivals != __atomic_load_n(&slot->out_arrivals, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != sequence)
		return -EAGAIN;
	out->sequence = sequence;
	return (pid_t)out->tid == tid ? 0 : -ENOENT;
}

static uint64_t stash_sequence(void *ctx, pid_t tid)
{
	struct blocks_stacks *stacks = ctx;
	int index = stacks->index(stacks->index_ctx, tid);
	const struct looper_slot *slot;
	uint64_t sequence, arrivals;

	if (index < 0)
		return 0;
	slot = looper_kernel_slot(stacks->kernel, (uint32_t)index);
	sequence = __atomic_load_n(&looper_kernel_stash(stacks->kernel, (uint32_t)index)->sequence,
				   __ATOMIC_ACQUIRE);
	/* It ran unseen: as good as another sequence. */
	if (!arrivals_of(tid, &arrivals) ||
	    arrivals != __atomic_load_n(&slot->out_arrivals, __ATOMIC_ACQUIRE))
		return sequence | 1;
	return sequence;
}

/* ---- the unwinding thread ---- */

static void free_samples(struct block_sample *sample)
{
	while (sample) {
		struct block_sample *next = sample->next;

		free(sample->trace);
		free(sample);
		sample = next;
	}
}

static void unwind(struct blocks_stacks *stacks, struct stack_trace *scratch, struct job *job)
{
	struct block_sample *sample = job->sample;

	if (!job->capture->registers.valid)
		sample->trace = unwound_from_kernel(job->capture);
	else if (!stack_unwind(stacks->unwinder, job->capture, scratch) && scratch->count)
		sample->trace = stack_unwound(stacks->unwinder, scratch);
}

static void merge_samples(struct block_report *report, struct stack_merge *merge,
			  struct stack_merge *owner)
{
	struct block_sample *sample = report->first;

	for (size_t i = 0; i < report->sample_count; i++, sample = sample->next) {
		struct unwound *copy;

		if (!sample->trace)
			continue;
		/* The merge owns what it is given; a later report needs the samples again. */
		copy = unwound_copy(sample->trace);
		if (!copy || stack_merge_add(sample->owner ? owner : merge, copy, sample->kind,
					     sample->t_boot_ns, report->weights[i]))
			counter_list_add(&report->block.lost, "stacks_no_memory", 1);
	}
}

static void finish(struct blocks_stacks *stacks, struct block_report *report)
{
	/* Two: the thread's own, and the lock owner's. Kernel frames' names live in them. */
	struct stack_merge *merge = calloc(2, sizeof(*merge));
	struct record_block *block = &report->block;

	report->merge = merge;
	if (!merge || report->drop)
		return;
	merge_samples(report, &merge[0], &merge[1]);
	if (merge[0].count) {
		stack_merge_sort(&merge[0]);
		if (!stack_merge_records(&merge[0], &report->stacks, &block->stack_count))
			block->stacks = report->stacks;
		if (block->stack_count)
			block->top = SOME_U64(0);
	}
	if (merge[1].count) {
		stack_merge_sort(&merge[1]);
		if (!stack_merge_records(&merge[1], &report->owner_stack, &report->owner_count) &&
		    report->owner_count)
			block->owner_stack = report->owner_stack;
	}
	if (!block->stack_count)
		missing_list_set(&block->missing, "stacks",
				 report->sample_count ? "unwinding gave no frame"
						      : "no capture succeeded");
}

static void post(struct blocks_stacks *stacks, struct block_report *report)
{
	uint64_t one = 1;

	pthread_mutex_lock(&stacks->lock);
	report->next = NULL;
	*stacks->done_last = report;
	stacks->done_last = &report->next;
	pthread_mutex_unlock(&stacks->lock);
	if (write(stacks->done_fd, &one, sizeof(one)) != sizeof(one))
		return; /* the counter is full: it is readable anyway */
}

static void *work(void *ctx)
{
	struct blocks_stacks *stacks = ctx;
	struct stack_trace scratch = {0};
	struct job *job;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WORKER_NICENESS);
	if (stack_trace_init(&scratch))
		scratch.frames = NULL;
	pthread_mutex_lock(&stacks->lock);
	for (;;) {
		while (!stacks->first && !stacks->stop)
			pthread_cond_wait(&stacks->work, &stacks->lock);
		job = stacks->first;
		if (!job)
			break;
		stacks->first = job->next;
		if (!stacks->first)
			stacks->last = &stacks->first;
		pthread_mutex_unlock(&stacks->lock);
		if (job->capture) {
			if (scratch.frames)
				unwind(stacks, &scratch, job);
		} else {
			finish(stacks, job->report);
			post(stacks, job->report);
		}
		pthread_mutex_lock(&stacks->lock);
		if (job->capture)
			stacks->waiting_bytes -= job->capture->stack_room;
		if (!--stacks->pending)
			pthread_cond_broadcast(&stacks->idle);
		stack_capture_free(job->capture);
		free(job);
	}
	pthread_mutex_unlock(&stacks->lock);
	stack_trace_free(&scratch);
	return NULL;
}

static int queue(struct blocks_stacks *stacks, struct stack_capture *capture,
		 struct block_sample *sample, struct block_report *report)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	*job = (struct job){.capture = capture, .sample = sample, .report = report};
	pthread_mutex_lock(&stacks->lock);
	*stacks->last = job;
	stacks->last = &job->next;
	stacks->pending++;
	pthread_cond_signal(&stacks->work);
	pthread_mutex_unlock(&stacks->lock);
	return 0;
}

/* ---- for the loop's thread ---- */

struct blocks_stacks *blocks_stacks_new(struct looper_kernel *kernel, enum stack_request request,
					struct bounded_calls *calls, block_index_fn index,
					void *ctx)
{
	struct blocks_stacks *stacks = calloc(1, sizeof(*stacks));
	struct stack_capture_config config = {
		.no_perf = request == STACK_SNAPSHOT || request == STACK_PTRACE,
		.no_ptrace = request == STACK_SNAPSHOT || request == STACK_PERF,
		.calls = calls,
	};
	int err;

	if (!stacks)
		return NULL;
	stacks->kernel = kernel;
	stacks->request = request;
	stacks->index = index;
	stacks->index_ctx = ctx;
	stacks->last = &stacks->first;
	stacks->done_last = &stacks->done_first;
	stacks->stash = (struct stack_stash){stash_read, stash_sequence, stacks};
	config.stash = &stacks->stash;
	pthread_mutex_init(&stacks->lock, NULL);
	pthread_cond_init(&stacks->work, NULL);
	pthread_cond_init(&stacks->idle, NULL);
	stacks->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stacks->done_fd < 0)
		goto fail;
	stacks->capturer = stack_capturer_new(&config);
	if (!stacks->capturer)
		goto fail;
	stacks->files = files_direct("");
	stacks->unwinder = stack_unwinder_new(&(struct stack_unwind_config){&stacks->files, 0});
	if (!stacks->unwinder)
		goto fail;
	stacks->buffer = stack_capture_new(BUFFER_BYTES);
	if (!stacks->buffer)
		goto fail;
	err = pthread_create(&stacks->thread, NULL, work, stacks);
	if (err) {
		errno = err;
		goto fail;
	}
	stacks->running = true;
	return stacks;
fail:
	err = errno;
	blocks_stacks_free(stacks);
	errno = err;
	return NULL;
}

void blocks_stacks_free(struct blocks_stacks *stacks)
{
	struct block_report *report;

	if (!stacks)
		return;
	if (stacks->running) {
		pthread_mutex_lock(&stacks->lock);
		stacks->stop = true;
		pthread_cond_signal(&stacks->work);
		pthread_mutex_unlock(&stacks->lock);
		pthread_join(stacks->thread, NULL);
	}
	while ((report = blocks_stacks_take(stacks)))
		block_report_free(report);
	stack_capture_free(stacks->buffer);
	stack_unwinder_free(stacks->unwinder);
	stack_capturer_free(stacks->capturer);
	if (stacks->done_fd >= 0)
		close(stacks->done_fd);
	pthread_mutex_destroy(&stacks->lock);
	pthread_cond_destroy(&stacks->work);
	pthread_cond_destroy(&stacks->idle);
	free(stacks);
}

/* The capture as small as it is, so that many can wait; what it owned goes over. */
static struct stack_capture *take_out(struct stack_capture *from)
{
	struct stack_capture *to = malloc(sizeof(*to));

	if (!to)
		return NULL;
	*to = *from;
	to->stack = malloc(from->stack_bytes ? from->stack_bytes : 1);
	if (!to->stack) {
		free(to);
		return NULL;
	}
	memcpy(to->stack, from->stack, from->stack_bytes);
	to->stack_room = from->stack_bytes;
	from->kernel_frame_count = 0;
	return to;
}

static int queue_capture(struct blocks_stacks *stacks, struct block_sample *sample)
{
	struct stack_capture *capture;
	bool full;
	int err;

	pthread_mutex_lock(&stacks->lock);
	full = stacks->waiting_bytes + stacks->buffer->stack_bytes > WAITING_BYTES;
	stacks->busy += full;
	if (!full)
		stacks->waiting_bytes += stacks->buffer->stack_bytes;
	pthread_mutex_unlock(&stacks->lock);
	if (full)
		return -EBUSY;
	capture = take_out(stacks->buffer);
	err = capture ? queue(stacks, capture, sample, NULL) : -ENOMEM;
	if (!err)
		return 0;
	pthread_mutex_lock(&stacks->lock);
	stacks->waiting_bytes -= stacks->buffer->stack_bytes;
	pthread_mutex_unlock(&stacks->lock);
	stack_capture_free(capture);
	return err;
}

int blocks_stacks_sample(struct blocks_stacks *stacks, const struct stack_thread *thread,
			 uint64_t spell, bool owner, struct block_samples *samples)
{
	struct stack_capture *capture = stacks->buffer;
	struct block_sample *sample = calloc(1, sizeof(*sample));
	int err;

	if (!sample)
		return -ENOMEM;
	sample->t_ns = clock_now_ns(CLOCK_MONOTONIC);
	err = stack_capture(stacks->capturer, thread,
			    owner && stacks->request == STACK_SNAPSHOT ? STACK_KERNEL
								       : stacks->request,
			    capture);
	if (!err) {
		sample->t_boot_ns = capture->t_boot_ns;
		sample->kind = capture->kind;
		/* It was met on a CPU, whatever it did a moment before. */
		sample->spell = capture->kind == CAPTURE_PERF ? 0 : spell;
		sample->owner = owner;
		err = queue_capture(stacks, sample);
	}
	if (err) {
		free(sample);
		return err;
	}
	if (samples->last)
		samples->last->next = sample;
	else
		samples->first = sample;
	samples->last = sample;
	samples->count++;
	return 0;
}

/* What of [from, to) lies outside of sleeps of their own. */
static uint64_t rest_between(const struct block_spells *spells, uint64_t from, uint64_t to,
			     uint64_t open_since_ns)
{
	uint64_t rest = to > from ? to - from : 0;

	for (size_t i = 0; i < spells->count; i++) {
		const struct block_spell *spell = &spells->items[i];
		uint64_t end_ns = spell->end_ns - spell->wait_ns;
		uint64_t low = spell->begin_ns > from ? spell->begin_ns : from;
		uint64_t high = end_ns < to ? end_ns : to;

		/* Waiting for a CPU is the code's time too: it would have run. */
		if (spell->state != OFF_CPU_RUNNABLE && high > low)
			rest -= high - low < rest ? high - low : rest;
	}
	if (open_since_ns && to > open_since_ns) {
		uint64_t low = open_since_ns > from ? open_since_ns : from;

		rest -= to - low < rest ? to - low : rest;
	}
	return rest;
}

/* When the stack of a sample is known to have stood: at one moment, or as long as a spell. */
struct standing {
	uint64_t from_ns, until_ns;
};

uint64_t block_sample_weights(const struct block_samples *samples,
			      const struct block_spells *spells, uint64_t begin_ns, uint64_t end_ns,
			      uint64_t open_spell, uint64_t open_since_ns, uint64_t *weights)
{
	const struct block_sample *sample = samples->first;
	uint64_t covered_ns = 0, from_ns = begin_ns;
	struct standing last = {0};
	bool have_last = false;
	size_t last_at = 0, i;

	for (i = 0; i < samples->count; i++, sample = sample->next) {
		struct standing now = {sample->t_ns, sample->t_ns};
		const struct block_spell *spell;

		weights[i] = 0;
		if (sample->owner)
			continue;
		spell = sample->spell ? block_spells_find(spells, sample->spell) : NULL;
		if (spell && spell->state != OFF_CPU_RUNNABLE) {
			weights[i] = spell->end_ns - spell->begin_ns - spell->wait_ns;
			covered_ns += weights[i];
			continue;
		}
		if (sample->spell && sample->spell == open_spell && open_since_ns) {
			weights[i] = end_ns > open_since_ns ? end_ns - open_since_ns : 0;
			covered_ns += weights[i];
			continue;
		}
		/* It ran, or waited for a CPU in the middle of it: its time reaches half way to
		 * what is known before and after. */
		if (spell)
			now = (struct standing){spell->begin_ns, spell->end_ns};
		if (have_last) {
			uint64_t middle_ns = last.until_ns;

			if (now.from_ns > middle_ns)
				middle_ns += (now.from_ns - middle_ns) / 2;
			weights[last_at] = rest_between(spells, from_ns, middle_ns, open_since_ns);
			covered_ns += weights[last_at];
			from_ns = middle_ns;
		}
		last = now;
		last_at = i;
		have_last = true;
	}
	if (have_last) {
		weights[last_at] = rest_between(spells, from_ns, end_ns, open_since_ns);
		covered_ns += weights[last_at];
	}
	return end_ns - begin_ns > covered_ns ? end_ns - begin_ns - covered_ns : 0;
}

void blocks_stacks_push(struct blocks_stacks *stacks, struct block_report *report)
{
	if (queue(stacks, NULL, NULL, report))
		post(stacks, report); /* without its stacks, but told */
}

struct block_report *blocks_stacks_take(struct blocks_stacks *stacks)
{
	struct block_report *report;
	uint64_t count;

	if (read(stacks->done_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return NULL;
	pthread_mutex_lock(&stacks->lock);
	report = stacks->done_first;
	if (report) {
		stacks->done_first = report->next;
		if (!stacks->done_first)
			stacks->done_last = &stacks->done_first;
	}
	pthread_mutex_unlock(&stacks->lock);
	return report;
}

int blocks_stacks_fd(const struct blocks_stacks *stacks)
{
	return stacks->done_fd;
}

void blocks_stacks_drain(struct blocks_stacks *stacks, uint64_t timeout_ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_REALTIME) + timeout_ns;
	struct timespec until = {(time_t)(until_ns / NSEC_PER_SEC),
				 (long)(until_ns % NSEC_PER_SEC)};

	pthread_mutex_lock(&stacks->lock);
	while (stacks->pending)
		if (pthread_cond_timedwait(&stacks->idle, &stacks->lock, &until))
			break;
	pthread_mutex_unlock(&stacks->lock);
}

void block_report_free(struct block_report *report)
{
	if (!report)
		return;
	if (report->last)
		free_samples(report->first);
	if (report->merge) {
		stack_merge_free(&report->merge[0]);
		stack_merge_free(&report->merge[1]);
		free(report->merge);
	}
	free(report->stacks);
	free(report->owner_stack);
	free(report->weights);
	free(report->process);
	free(report->package);
	free(report->names);
	block_ledger_free(&report->block);
	free(report);
}

void blocks_stacks_stats(const struct blocks_stacks *stacks, struct stack_stats *stats)
{
	stack_capturer_stats(stacks->capturer, stats);
}

uint64_t blocks_stacks_busy(const struct blocks_stacks *stacks)
{
	return stacks->busy;
}

int blocks_stacks_losses(struct blocks_stacks *stacks, struct counter_list *lost)
{
	struct stack_unwind_losses losses;
	int err;

	stack_unwinder_losses(stacks->unwinder, &losses);
	err = counter_list_add(lost, "elf_unreadable", losses.elf_unreadable);
	err = err ?: counter_list_add(lost, "elf_malformed", losses.elf_malformed);
	err = err ?: counter_list_add(lost, "elf_tables_bad", losses.elf_tables_bad);
	err = err ?: counter_list_add(lost, "symbols_dropped", losses.symbols_dropped);
	err = err ?: counter_list_add(lost, "symbol_names_dropped", losses.names_dropped);
	return err ?: counter_list_add(lost, "modules_full", losses.modules_full);
}
