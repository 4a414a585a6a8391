/* SPDX-License-Identifier: BSD-2-Clause */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel/percpu.h"
#include "kernel/sched_private.h"
#include "util/clock.h"

#define TORN_TRIES      64
#define HASH_TRIES      8
#define ITERATOR_BUFFER (64 * 1024)
#define GROUP_TIDS      (1u << SCHED_GROUP_SHIFT)

/* How old our run queue's clock may be when the offset is read from it; each try may be twice as
 * late as the one before. */
#define CLOCK_LATE_NS 10000

/* se.sum_exec_runtime of a task that runs is up to one tick old: add what passed since, on the
 * clock that the scheduler itself charges by (bpf/README.md, "A task that runs"). */
static void add_running_slice(struct task_line *line, int64_t rq_clock_offset_ns)
{
	uint64_t clock_task = line->rq_clock_task;
	int64_t passed_ns = (int64_t)(line->now_ns - line->rq_clock) + rq_clock_offset_ns;

	if (!line->on_cpu || !line->rq_clock)
		return;
	if (passed_ns > 0)
		clock_task += (uint64_t)passed_ns;
	if (clock_task > line->exec_start)
		line->sums.cpu_ns += clock_task - line->exec_start;
}

int sched_kernel_iterate(struct sched_kernel *kernel, task_line_fn callback, void *ctx)
{
	struct task_line *lines;
	ssize_t got;
	size_t have = 0;
	int fd, err = 0;

	if (!kernel->iterator_link)
		return -ENOTSUP;
	lines = malloc(ITERATOR_BUFFER);
	if (!lines)
		return -ENOMEM;
	fd = bpf_iter_create(bpf_link__fd(kernel->iterator_link));
	if (fd < 0) {
		free(lines);
		return -errno;
	}
	while (!err) {
		got = read(fd, (char *)lines + have, ITERATOR_BUFFER - have);
		if (got < 0 && errno == EAGAIN)
			continue;
		if (got <= 0) {
			err = got < 0 ? -errno : 0;
			break;
		}
		have += (size_t)got;
		size_t whole = have / sizeof(*lines);

		for (size_t i = 0; i < whole && !err; i++) {
			add_running_slice(&lines[i], kernel->skeleton->bss->rq_clock_offset_ns);
			err = callback(ctx, &lines[i]);
		}
		have -= whole * sizeof(*lines);
		memmove(lines, lines + whole, have);
	}
	close(fd);
	free(lines);
	return err;
}

void sched_kernel_spread_epoch(struct sched_kernel *kernel)
{
	for (unsigned cpu = 0; cpu < kernel->cpu_count; cpu++)
		__atomic_store_n(&kernel->cpus[cpu].epoch, kernel->skeleton->bss->read_epoch,
				 __ATOMIC_RELAXED);
	/* What a switch under the old epoch leaves unsaid is asked for behind this. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* A machine that is slow each time gets its offset in the end, as near as it can be told there. */
static int read_clock(struct sched_kernel *kernel)
{
	int program = bpf_program__fd(kernel->skeleton->progs.sched_read_clock), err;
	LIBBPF_OPTS(bpf_test_run_opts, run);

	kernel->skeleton->bss->rq_clock_late_ns = CLOCK_LATE_NS;
	do {
		kernel->skeleton->bss->rq_clock_asked_ns = clock_now_ns(CLOCK_MONOTONIC);
		clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		err = bpf_prog_test_run_opts(program, &run);
		kernel->skeleton->bss->rq_clock_late_ns *= 2;
	} while (!err && run.retval);
	return err;
}

int sched_kernel_begin_read(struct sched_kernel *kernel, uint64_t *mono_ns)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	int err;

	kernel->skeleton->bss->read_epoch++;
	sched_kernel_spread_epoch(kernel);
	err = read_clock(kernel);
	if (!err)
		err = bpf_prog_test_run_opts(
			bpf_program__fd(kernel->skeleton->progs.sched_read_running), &run);
	*mono_ns = err ? clock_now_ns(CLOCK_MONOTONIC) : kernel->skeleton->bss->read_mono_ns;
	return err;
}

const struct running_task *sched_kernel_running(const struct sched_kernel *kernel, unsigned cpu)
{
	return kernel->running[cpu].valid ? &kernel->running[cpu] : NULL;
}

uint64_t sched_kernel_open_off_ns(const struct sched_kernel *kernel, const struct task_slot *slot)
{
	uint64_t now_ns = kernel->skeleton->bss->read_mono_ns +
			  (uint64_t)kernel->skeleton->bss->rq_clock_offset_ns;

	return now_ns > slot->off_since_ns ? now_ns - slot->off_since_ns : 0;
}

/* The writer may be at it: its two sequence numbers agree around a whole copy. Where the programs'
 * adds do not order, two copies must be the same. */
static bool copy_slot(const struct task_slot *from, struct task_slot *to, bool ordered)
{
	struct task_slot again;

	for (int tries = 0; tries < TORN_TRIES; tries++) {
		uint32_t end = __atomic_load_n(&from->sequence_end, __ATOMIC_ACQUIRE);

		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE) != end ||
		    to->sequence_end != end)
			continue;
		if (ordered)
			return true;
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		memcpy(&again, from, sizeof(again));
		if (!memcmp(to, &again, sizeof(again)))
			return true;
	}
	return false;
}

/* The kernel copies a value of the hash while a program may write it, and in an order of its own,
 * so that one copy's numbers say nothing of its sums. Two copies that are the same are whole: the
 * sums only grow, so one that is the same before and behind was that all the while. */
static int copy_hashed(int fd, uint32_t tid, const struct task_slot *first, struct task_slot *to)
{
	struct task_slot before = *first;

	for (int tries = 0; tries < HASH_TRIES; tries++) {
		if (bpf_map_lookup_elem(fd, &tid, to))
			return -errno;
		if (to->sequence == to->sequence_end && !memcmp(&before, to, sizeof(before)))
			return 0;
		before = *to;
	}
	return -EAGAIN;
}

bool sched_kernel_slot(const struct sched_kernel *kernel, pid_t tid, struct task_slot *slot)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.tasks_hash);
	uint32_t key = (uint32_t)tid;
	struct task_slot first;

	if (!kernel->switch_program || tid <= 0)
		return false;
	if ((size_t)tid < kernel->slot_count)
		return copy_slot(&kernel->slots[tid], slot, kernel->fetch) && slot->start_boot_ns;
	return !bpf_map_lookup_elem(fd, &key, &first) && !copy_hashed(fd, key, &first, slot);
}

static int read_hash(struct sched_kernel *kernel,
		     bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot),
		     task_slot_fn callback, void *ctx)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.tasks_hash), err = 0;
	struct task_slot copy;
	uint32_t batch;
	void *in = NULL;
	int copied;

	for (;;) {
		uint32_t count = (uint32_t)kernel->hash_count;
		int more = bpf_map_lookup_batch(fd, in, &batch, kernel->batch_keys,
						kernel->batch_slots, &count, NULL);

		if (more && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < count && !err; i++) {
			const struct task_slot *slot = &kernel->batch_slots[i];
			uint32_t tid = kernel->batch_keys[i];

			if (!slot->start_boot_ns ||
			    (skip && !(slot->flags & TASK_SLOT_UNREPORTED) &&
			     skip(ctx, (pid_t)tid, slot)))
				continue;
			/* Being written: it is left for the next read-out, as below. One that died
			 * meanwhile is gone from the map, and told by the ring. */
			copied = copy_hashed(fd, tid, slot, &copy);
			kernel->torn_reads += copied == -EAGAIN;
			if (copied)
				continue;
			err = callback(ctx, (pid_t)tid, &copy);
			/* Dead, and no room in the ring to say so: it was left for us to take. */
			if (copy.flags & TASK_SLOT_UNREPORTED)
				bpf_map_delete_elem(fd, &tid);
		}
		if (more || err)
			return err;
		in = &batch;
	}
}

/* Tasks whose slots say that they ran, of which the sums are to be asked for. */
struct asking {
	struct sched_kernel *kernel;
	bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot);
	task_slot_fn callback;
	void *ctx;
	uint32_t count;
};

static int hand_out(const struct asking *asking, pid_t tid, const struct task_slot *slot)
{
	if (asking->skip && asking->skip(asking->ctx, tid, slot))
		return 0;
	return asking->callback(asking->ctx, tid, slot);
}

/* A timed spell off the CPU ends when the task is woken; its slot learns of that at the task's next
 * switch-out (book_off_time in bpf/sched_slot.bpf.h). */
static void end_off_time(struct task_slot *slot, const struct asked_task *answer)
{
	bool is_over = answer->arrival_ns > slot->off_since_ns;
	uint64_t off_ns;

	if (slot->off_state != OFF_CPU_UNINTERRUPTIBLE && slot->off_state != OFF_CPU_STOPPED)
		return;
	/* It was off for that much less: it waited for a CPU. */
	slot->off_since_ns += answer->sums.runnable_ns - slot->sums.runnable_ns;
	if (!is_over)
		return;
	off_ns = answer->arrival_ns > slot->off_since_ns ? answer->arrival_ns - slot->off_since_ns
							 : 0;
	if (slot->off_state == OFF_CPU_UNINTERRUPTIBLE)
		slot->uninterruptible_ns += off_ns;
	else
		slot->stopped_ns += off_ns;
	slot->off_state = OFF_CPU_UNKNOWN;
}

/* Hand out what is asked for, with the kernel's sums of this moment. What cannot be asked (the task
 * has died unseen, or is amid an execve that changes its tid) is handed out as its slot has it. */
static int ask(struct asking *asking)
{
	struct sched_kernel *kernel = asking->kernel;
	LIBBPF_OPTS(bpf_test_run_opts, run);
	int err = 0;

	if (!asking->count)
		return 0;
	kernel->skeleton->bss->asked_count = asking->count;
	err = bpf_prog_test_run_opts(bpf_program__fd(kernel->skeleton->progs.sched_read_tasks),
				     &run);
	for (uint32_t i = 0; i < asking->count && !err; i++) {
		const struct asked_task *answer = &kernel->asked[i];
		struct task_slot *slot = &kernel->asked_slots[i];

		if (answer->valid)
			end_off_time(slot, answer);
		/* One that changed its uid since its last switch-out, perhaps to the slot's own:
		 * what it ran before is told by its note in the ring, and what it ran since may be
		 * another uid's. */
		if (answer->valid && answer->uid == slot->uid &&
		    !(slot->flags & TASK_SLOT_UID_TOLD))
			slot->sums = answer->sums;
		err = hand_out(asking, (pid_t)answer->tid, slot);
	}
	asking->count = 0;
	return err;
}

/* Two epochs back, because a switch may carry the old one over a read-out. */
static bool is_recent(const struct sched_kernel *kernel, uint32_t epoch)
{
	return kernel->skeleton->bss->read_epoch - epoch <= 2;
}

static int read_group(struct asking *asking, size_t first)
{
	struct sched_kernel *kernel = asking->kernel;
	size_t end = first + GROUP_TIDS;
	int err = 0;

	if (end > kernel->slot_count)
		end = kernel->slot_count;
	for (size_t tid = first; tid < end && !err; tid++) {
		const struct task_slot *slot = &kernel->slots[tid];
		struct task_slot *copy = &kernel->asked_slots[asking->count];

		if (!slot->start_boot_ns || !is_recent(kernel, slot->epoch))
			continue;
		/* A torn copy is left for the next read-out: the sums are cumulative. */
		if (!copy_slot(slot, copy, kernel->fetch)) {
			kernel->torn_reads++;
			continue;
		}
		if (copy->flags & TASK_SLOT_DEAD) {
			err = hand_out(asking, (pid_t)tid, copy);
			continue;
		}
		kernel->asked[asking->count++] = (struct asked_task){
			.task = copy->task,
			.start_boot_ns = copy->start_boot_ns,
			.tid = (uint32_t)tid,
		};
		if (asking->count == SCHED_ASKED)
			err = ask(asking);
	}
	return err;
}

int sched_kernel_slots(struct sched_kernel *kernel,
		       bool (*skip)(void *ctx, pid_t tid, const struct task_slot *slot),
		       task_slot_fn callback, void *ctx)
{
	struct asking asking = {.kernel = kernel, .skip = skip, .callback = callback, .ctx = ctx};
	int err = 0;

	if (!kernel->switch_program)
		return 0;
	for (size_t first = 0; first < kernel->slot_count && !err; first += GROUP_TIDS) {
		if (is_recent(kernel,
			      kernel->skeleton->bss->group_epochs[first >> SCHED_GROUP_SHIFT]))
			err = read_group(&asking, first);
	}
	if (!err)
		err = ask(&asking);
	if (!err && kernel->skeleton->bss->hash_was_used)
		err = read_hash(kernel, skip, callback, ctx);
	return err;
}

int sched_kernel_deaths(struct sched_kernel *kernel, task_death_fn callback, void *ctx)
{
	int n;

	kernel->death_callback = callback;
	kernel->death_ctx = ctx;
	n = ring_buffer__consume(kernel->ring);
	return n < 0 ? n : 0;
}

void sched_kernel_count_births(struct sched_kernel *kernel, uint64_t from_boot_ns)
{
	__atomic_store_n(&kernel->skeleton->bss->births_from_boot_ns, from_boot_ns,
			 __ATOMIC_SEQ_CST);
}

uint64_t sched_kernel_execs(const struct sched_kernel *kernel)
{
	return __atomic_load_n(&kernel->skeleton->bss->exec_count, __ATOMIC_ACQUIRE);
}

int sched_kernel_deaths_fd(const struct sched_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->ring);
}

int sched_kernel_overflow(struct sched_kernel *kernel, overflow_fn callback, void *ctx)
{
	int fd = bpf_map__fd(kernel->skeleton->maps.overflow), err = 0;
	uint32_t key, next;
	void *from = NULL;
	uint64_t sum;

	while (!err && !bpf_map_get_next_key(fd, from, &next)) {
		key = next;
		from = &key;
		if (!bpf_map_lookup_elem(fd, &key, &sum))
			err = callback(ctx, key, sum);
	}
	return err;
}

static uint64_t recursion_misses(const struct bpf_program *program)
{
	struct bpf_prog_info info = {0};
	uint32_t length = sizeof(info);

	if (!program || bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &length))
		return 0;
	return info.recursion_misses;
}

int sched_kernel_losses(const struct sched_kernel *kernel, uint64_t losses[SCHED_LOSS_MAX],
			uint64_t *missed_runs, uint64_t *torn_reads)
{
	int err = percpu_sum(bpf_map__fd(kernel->skeleton->maps.losses), SCHED_LOSS_MAX, 1, losses);

	if (err)
		return err;
	*missed_runs =
		recursion_misses(kernel->switch_program) + recursion_misses(kernel->free_program);
	*torn_reads = kernel->torn_reads;
	return 0;
}
