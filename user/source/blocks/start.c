/* SPDX-License-Identifier: BSD-2-Clause */
/* How a watch begins: the prober says what the thread does, the slot is filled by that, and once it
 * is known where the thread waits, the prober puts probes there. Nothing here waits for the target:
 * each step is a request, and its answer takes the next one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/looper_slot.h"
#include "prober/warden.h"
#include "source/blocks/source.h"
#include "util/clock.h"

#define TICK_OF_BOOT_NS 10000000ull
#define RETRY_NS        (20 * NSEC_PER_MSEC)
/* Probes that failed for want of memory or descriptors are tried again. */
#define PROBE_RETRY_NS (5 * NSEC_PER_SEC)
static struct probe_request request_for(const struct watched *watched,
					enum probe_operation operation)
{
	return (struct probe_request){
		.operation = operation,
		.pid = watched->pid,
		.tid = watched->tid,
		.start_ticks = watched->start_boot_ns / TICK_OF_BOOT_NS,
	};
}

static bool try_again(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY || err == -EPIPE || err == -EAGAIN;
}

static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOSPC ||
	       try_again(err);
}

/* ---- what is told ---- */

const char *blocks_loop_name(uint32_t kind)
{
	switch (kind) {
	case LOOPER_WAIT_EPOLL:
		return "epoll";
	case LOOPER_WAIT_POLL:
		return "poll";
	case LOOPER_WAIT_SELECT:
		return "select";
	case LOOPER_WAIT_URING:
		return "io_uring";
	}
	return "none";
}

/* The system calls that threads without a loop sleep in most. NULL: another one. */
static const char *sleep_name(int64_t number)
{
	switch (number) {
	case SYS_futex:
		return "futex";
	case SYS_wait4:
	case SYS_waitid:
		return "wait for a child";
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return "nanosleep";
	case SYS_read:
		return "read";
	case SYS_recvfrom:
	case SYS_recvmsg:
		return "recv";
	case SYS_accept:
	case SYS_accept4:
		return "accept";
	case SYS_ioctl:
		return "ioctl";
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
		return "a wait for signals";
	}
	return NULL;
}

/* Why a thread has no loop as far as can be seen. */
static void explain_none(const struct watched *watched, char *text, size_t size)
{
	const struct probe_standing *standing = &watched->start.standing;

	if (watched->start.stage == WATCHED_REFUSED)
		snprintf(text, size, "%s", watched->probes.refused);
	else if (watched->start.stage != WATCHED_RUNS)
		snprintf(text, size, "the process or the run ended before it could be looked at");
	else if (watched->start.from_birth)
		snprintf(text, size, "the thread has not waited for events since its start");
	else if (sleep_name(standing->syscall_nr))
		snprintf(text, size, "the thread waits in %s, not for events",
			 sleep_name(standing->syscall_nr));
	else if (standing->syscall_nr >= 0)
		snprintf(text, size, "the thread waits in system call %lld, not for events",
			 (long long)standing->syscall_nr);
	else
		snprintf(text, size, "the thread was not seen to wait for events yet");
}

static void add_key(struct record_event *event, const char *name, const char *text, int64_t value)
{
	event->keys[event->key_count++] = (struct event_key){name, text, value};
}

/* target_start, with what the thread waits in; or target_loop, when that is known later. */
static void tell_loop(struct blocks_source *blocks, struct watched *watched, const char *event_name)
{
	struct record_event event = {.event = event_name};
	struct record record = {.type = RECORD_EVENT, .event = &event};
	char why[128];

	add_key(&event, "pid", NULL, watched->pid);
	if (watched->tid != watched->pid)
		add_key(&event, "tid", NULL, watched->tid);
	if (!watched->start.told) {
		add_key(&event, "uid", NULL, watched->uid);
		add_key(&event, "start_boot_ns", NULL, (int64_t)watched->start_boot_ns);
	}
	add_key(&event, "process", watched->process, 0);
	if (watched->package[0])
		add_key(&event, "package", watched->package, 0);
	add_key(&event, "loop", blocks_loop_name(watched->loop_kind), 0);
	if (watched->loop_kind == LOOPER_WAIT_NONE) {
		explain_none(watched, why, sizeof(why));
		add_key(&event, "why", why, 0);
	}
	blocks->context.emit(blocks->context.emit_ctx, &record);
	watched->start.told = true;
}

static void tell_degraded(struct blocks_source *blocks, const struct watched *watched,
			  const char *why)
{
	struct record_event event = {
		.event = "degraded",
		.keys = {{"pid", NULL, watched->pid},
			 {"source", "blocks", 0},
			 {"detector", blocks_detector_name(blocks, watched->detector), 0},
			 {"reason", why, 0}},
		.key_count = 4,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	blocks->context.emit(blocks->context.emit_ctx, &record);
}

void blocks_follow_loop(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot)
{
	uint32_t kind = slot->loop_kind;
	bool is_loop = blocks_is_loop(slot->loop_kind, slot->loop_waits);

	if (is_loop && !watched->is_loop) {
		watched->is_loop = true;
		block_reports_release(&blocks->reports, watched->slot_id);
	}
	if (!watched->start.told)
		return;
	if (is_loop && kind != watched->loop_kind) {
		watched->loop_kind = kind;
		tell_loop(blocks, watched, "target_loop");
	}
	/* Only of a thread that sleeps in its loop's own wait the place of that wait is known. */
	if (is_loop && watched->probes.state == PROBES_NONE && !slot->on_cpu && slot->waiting_own &&
	    slot->waiting_kind == slot->loop_kind)
		blocks_want_probes(blocks, watched, slot->loop_kind, slot->program_counter);
}

/* ---- the slot ---- */

static void tell_sampler(struct blocks_source *blocks, struct watched *watched)
{
	const struct sampler_watch watch = {
		.index = watched->index,
		.slot_id = watched->slot_id,
		.start_boot_ns = watched->tid == watched->pid ? watched->start_boot_ns : 0,
		.pid = watched->pid,
		.tid = watched->tid,
		.from_birth = watched->start.from_birth,
	};

	if (blocks->sampler)
		blocks_sampler_watch(blocks->sampler, &watch, watched->pidfd);
}

static int put_in(struct blocks_source *blocks, struct watched *watched)
{
	uint64_t boot_minus_mono_ns = (uint64_t)blocks_boot_minus_mono_ns();
	const struct looper_slot_start start = {
		.tid = (uint32_t)watched->tid,
		.tgid = (uint32_t)watched->pid,
		.detector = watched->detector,
		.block_ns = blocks->context.block_ns,
		.slot_id = watched->slot_id,
		/* Of a thread that is not the main thread the start is not known. */
		.thread_start_ns =
			watched->tid == watched->pid && watched->start_boot_ns > boot_minus_mono_ns
				? watched->start_boot_ns - boot_minus_mono_ns
				: 0,
		.watching_since_ns = blocks->born_mono_ns,
	};

	looper_slot_fill(&watched->start.slot, &start, &watched->start.standing);
	/* The loop of a thread that was found asleep in epoll is no candidate that gives way to the
	 * first wait inside a message. */
	if (blocks_is_loop(watched->start.slot.loop_kind, 1))
		watched->start.slot.loop_waits = 2;
	/* Its first period begins with the process where that is younger than the recorder. */
	watched->start.from_birth =
		watched->start.slot.busy_since_ns &&
		watched->start.slot.busy_since_ns < watched->start.standing.before_mono_ns;
	return looper_kernel_watch(blocks->kernel, watched->index, &watched->start.slot);
}

static void settle(struct blocks_source *blocks, struct watched *watched,
		   const struct probe_standing *second)
{
	struct looper_slot now;

	watched->start.settled = true;
	if (looper_kernel_read(blocks->kernel, watched->index, &now) &&
	    looper_slot_settle(&now, &watched->start.slot, &watched->start.standing, second))
		looper_kernel_correct(blocks->kernel, watched->index, &now);
}

static void refuse(struct blocks_source *blocks, struct watched *watched, const char *why)
{
	watched->start.stage = WATCHED_REFUSED;
	snprintf(watched->probes.refused, sizeof(watched->probes.refused), "%s", why);
	blocks_wake_at(blocks, 0);
}

void blocks_tell_news(struct blocks_source *blocks, struct watched *watched)
{
	bool known =
		watched->start.stage == WATCHED_RUNS || watched->start.stage == WATCHED_REFUSED;

	if (known && !watched->start.told)
		tell_loop(blocks, watched, "target_start");
	if (watched->probes.refused[0] && !watched->probes.refused_told) {
		watched->probes.refused_told = true;
		if (blocks->options.detector != LOOPER_BY_SWITCH)
			tell_degraded(blocks, watched, watched->probes.refused);
	}
}

void blocks_explain_loops(struct blocks_source *blocks, char *text, size_t size)
{
	unsigned others = 0;
	char why[128];
	size_t n = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < blocks_watch_room(blocks->watch); i++) {
		const struct watched *watched = blocks_watch_at(blocks->watch, i);

		if (!watched || watched->start.stage != WATCHED_RUNS ||
		    watched->loop_kind != LOOPER_WAIT_NONE)
			continue;
		if (n) {
			others++;
			continue;
		}
		explain_none(watched, why, sizeof(why));
		n = (size_t)snprintf(text, size, "loop: none in %d: %s", watched->tid, why);
	}
	if (others && n < size)
		snprintf(text + n, size - n, "; and in %u more", others);
}

static void on_standing(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	bool first = watched->start.stage == WATCHED_ASKED;

	watched->start.request = 0;
	if (!err && answer->length < sizeof(watched->start.standing))
		err = -EIO;
	watched->start.gone = err == -ESRCH || err == -ENOENT;
	if (err) {
		if (first)
			watched->start.stage = WATCHED_WAITS;
		watched->start.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		/* A process that is gone is found by the next scan; others are asked again. */
		if (first && err != -ESRCH && err != -ENOENT && !try_again(err))
			refuse(blocks, watched, strerror(-err));
		return;
	}
	if (!first) {
		/* The thread may have left or entered its wait while the watch began. */
		struct probe_standing now;

		memcpy(&now, answer->data, sizeof(now));
		settle(blocks, watched, &now);
		return;
	}
	memcpy(&watched->start.standing, answer->data, sizeof(watched->start.standing));
	/* Its system calls have other numbers, its stack other words. */
	if (watched->start.standing.is_32_bit) {
		refuse(blocks, watched, "32-bit programs are not watched");
		return;
	}
	if (put_in(blocks, watched)) {
		refuse(blocks, watched, "the map of watched threads is full");
		return;
	}
	watched->start.stage = WATCHED_RUNS;
	watched->loop_kind = watched->start.slot.loop_kind;
	watched->is_loop =
		blocks_is_loop(watched->start.slot.loop_kind, watched->start.slot.loop_waits);
	tell_sampler(blocks, watched);
	if (watched->loop_kind != LOOPER_WAIT_NONE)
		blocks_want_probes(blocks, watched, watched->loop_kind,
				   watched->start.standing.program_counter);
	blocks_start_watch(blocks, watched);
	blocks_wake_at(blocks, 0);
}

void blocks_start_watch(struct blocks_source *blocks, struct watched *watched)
{
	const struct probe_request request = request_for(watched, PROBE_STANDING);
	int64_t id;

	if (watched->start.request || watched->start.stage == WATCHED_REFUSED ||
	    (watched->start.stage == WATCHED_RUNS && watched->start.settled) ||
	    clock_now_ns(CLOCK_MONOTONIC) < watched->start.retry_ns)
		return;
	watched->blocks = blocks;
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, PROBE_ATTACH_NS,
		       on_standing, watched);
	if (id < 0) {
		watched->start.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + RETRY_NS;
		return;
	}
	watched->start.request = id;
	if (watched->start.stage == WATCHED_WAITS)
		watched->start.stage = WATCHED_ASKED;
}

/* ---- the probes ---- */

static void no_probes(struct blocks_source *blocks, struct watched *watched, int err,
		      const char *why)
{
	if (watched->probes.file_fd >= 0)
		close(watched->probes.file_fd);
	watched->probes.file_fd = -1;
	if (is_shortage(err)) {
		/* Never a dearer detector for want of descriptors: the switch program goes on. */
		blocks->probes_delayed++;
		watched->probes.state = PROBES_NONE;
		watched->probes.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + PROBE_RETRY_NS;
		return;
	}
	watched->probes.state = PROBES_REFUSED;
	if (err == -ESRCH)
		return;
	snprintf(watched->probes.refused, sizeof(watched->probes.refused), "no uprobe: %s", why);
	blocks_wake_at(blocks, 0);
}

/* Setting a probe takes the mmap_lock of every process that maps the file, while nobody can fork:
 * as long as one does not give it, the switch program goes on seeing the waits. */
static void hold_off(struct blocks_source *blocks, struct watched *watched, pid_t holder)
{
	char why[96];

	close(watched->probes.file_fd);
	watched->probes.file_fd = -1;
	watched->probes.state = PROBES_NONE;
	watched->probes.retry_ns = clock_now_ns(CLOCK_MONOTONIC) + PROBE_RETRY_NS;
	blocks->probes_held_off++;
	if (watched->probes.held_off_told)
		return;
	watched->probes.held_off_told = true;
	snprintf(why, sizeof(why), "no uprobe yet: process %d holds its memory lock", holder);
	tell_degraded(blocks, watched, why);
}

static void on_attached(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	struct looper_slot *live = looper_kernel_slot(blocks->kernel, watched->index);

	watched->probes.request = 0;
	if (!err && !answer->fd_count && answer->value < 0) {
		hold_off(blocks, watched, (pid_t)-answer->value);
		return;
	}
	if (!err && !answer->fd_count)
		err = -EIO;
	if (!err)
		err = warden_keep(blocks->context.warden, ++blocks->probe_key, answer->fds,
				  answer->fd_count);
	if (err) {
		no_probes(blocks, watched, err, strerror(-err));
		return;
	}
	for (size_t i = 0; i < answer->fd_count; i++)
		answer->fds[i] = -1; /* the warden's now */
	close(watched->probes.file_fd);
	watched->probes.file_fd = -1;
	watched->probes.state = PROBES_SET;
	watched->probes.key = blocks->probe_key;
	watched->detector = LOOPER_BY_UPROBE;
	for (int i = 0; i < LOOPER_PROBED_RETURNS; i++)
		__atomic_store_n(&live->probed_return[i], watched->probes.returns[i],
				 __ATOMIC_RELAXED);
	/* From now on a wait at one of these places is the probes'; one that has begun already is
	 * still the switch program's. */
	__atomic_store_n(&live->detector, LOOPER_BY_UPROBE, __ATOMIC_RELEASE);
}

static void attach(struct blocks_source *blocks, struct watched *watched)
{
	struct probe_request request = request_for(watched, PROBE_ATTACH);
	const struct looper_fds kernel = looper_kernel_fds(blocks->kernel);
	const int fds[] = {watched->probes.file_fd, kernel.programs[LOOPER_PROBE_LEAVE],
			   kernel.programs[watched->probes.kind], kernel.mm_locks};
	int64_t id;

	/* The program behind the wait comes first: one before it alone would see waits begin that
	 * never end. */
	watched->probes.places.program_count = 2;
	watched->probes.places.multi = kernel.multi;
	id = probe_ask(blocks->context.probes, &request, &watched->probes.places,
		       sizeof(watched->probes.places), fds, kernel.mm_locks >= 0 ? 4 : 3,
		       PROBE_ATTACH_NS, on_attached, watched);
	if (id < 0)
		no_probes(blocks, watched, (int)id, strerror((int)-id));
	else
		watched->probes.request = id;
}

static uint32_t kind_of_place(uint32_t wait_kind)
{
	switch (wait_kind) {
	case WAIT_EPOLL:
		return LOOPER_WAIT_EPOLL;
	case WAIT_POLL:
		return LOOPER_WAIT_POLL;
	case WAIT_SELECT:
		return LOOPER_WAIT_SELECT;
	}
	return LOOPER_WAIT_NONE;
}

/* By the order in which attach() gives the programs. */
enum { PROGRAM_LEAVE = 0, PROGRAM_ENTER = 1 };

static void add_place(struct watched *watched, uint64_t offset, uint32_t program)
{
	struct probe_places *places = &watched->probes.places;

	if (places->place_count == PROBE_MAX_PLACES)
		return;
	places->places[places->place_count].offset = offset;
	places->places[places->place_count].program = program;
	places->place_count++;
}

static void add_return(struct watched *watched, size_t *count, uint64_t address)
{
	if (*count < LOOPER_PROBED_RETURNS)
		watched->probes.returns[(*count)++] = address;
}

/* The places of the kind of wait that the thread was seen in. The one that it waits in must be
 * among them: a program with a system call instruction of its own would pass the probes by. */
static void on_places(void *ctx, int err, const struct wait_places *found)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	size_t returns = 0;
	bool here = false;

	if (!err) {
		watched->probes.places = (struct probe_places){0};
		for (uint32_t i = 0; i < found->leave_count; i++) {
			uint64_t address = watched->probes.load_address + found->leave[i].offset;
			uint64_t gap = address - watched->probes.program_counter;

			if (kind_of_place(found->leave[i].kind) != watched->probes.kind)
				continue;
			/* A probe may stand on a jump a few instructions behind the return. */
			here |= gap < 16;
			add_place(watched, found->leave[i].offset, PROGRAM_LEAVE);
			add_return(watched, &returns,
				   gap < 16 ? watched->probes.program_counter : address);
#ifdef __x86_64__
			/* The probe may stand on the jump behind "cmp $-4095, %rax", 6 bytes. */
			if (gap >= 16)
				add_return(watched, &returns, address - 6);
#endif
		}
		for (uint32_t i = 0; i < found->enter_count; i++)
			if (kind_of_place(found->enter[i].kind) == watched->probes.kind)
				add_place(watched, found->enter[i].offset, PROGRAM_ENTER);
	}
	if (err)
		no_probes(blocks, watched, err,
			  err == -ENOENT ? "its wait was not found in the file" : strerror(-err));
	else if (!here)
		no_probes(blocks, watched, -ENOENT,
			  "the thread waits by a system call instruction of its own");
	else
		attach(blocks, watched);
}

static void on_file(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	const struct probe_file *file = answer ? answer->data : NULL;
	int copy;

	watched->probes.request = 0;
	if (!err && (!answer->fd_count || answer->length < sizeof(*file)))
		err = -EIO;
	if (!err && !blocks->unwinder)
		err = -ENOTSUP;
	/* Probes are put into files of the machine's own; a copy would be another file. */
	if (!err && file->copied)
		err = -EXDEV;
	if (err) {
		no_probes(blocks, watched, err,
			  err == -EXDEV ? "the file lies on a file system that may hang"
					: strerror(-err));
		return;
	}
	watched->probes.file_fd = answer->fds[0];
	answer->fds[0] = -1;
	watched->probes.load_address = file->start - file->offset;
	copy = dup(watched->probes.file_fd);
	err = copy < 0 ? -errno
		       : unwinder_find_waits(blocks->unwinder, copy, 0, on_places, watched);
	if (err)
		no_probes(blocks, watched, err, strerror(-err));
}

void blocks_want_probes(struct blocks_source *blocks, struct watched *watched, uint32_t kind,
			uint64_t program_counter)
{
	struct probe_request request = request_for(watched, PROBE_OPEN_AT);
	int64_t id;

	if (watched->probes.state != PROBES_NONE || kind == LOOPER_WAIT_URING || !program_counter ||
	    (blocks->options.detector && blocks->options.detector != LOOPER_BY_UPROBE) ||
	    clock_now_ns(CLOCK_MONOTONIC) < watched->probes.retry_ns)
		return;
	watched->probes.kind = kind;
	watched->probes.program_counter = program_counter;
	request.address = program_counter;
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, PROBE_ATTACH_NS, on_file,
		       watched);
	if (id < 0) {
		no_probes(blocks, watched, (int)id, strerror((int)-id));
		return;
	}
	watched->probes.state = PROBES_ASKED;
	watched->probes.request = id;
}

static void drop_probes(struct blocks_source *blocks, struct watched *watched)
{
	if (watched->probes.request)
		probe_cancel(blocks->context.probes, watched->probes.request);
	watched->probes.request = 0;
	if (blocks->unwinder)
		unwinder_cancel(blocks->unwinder, watched);
	/* Closed by the warden: the last close of a probe waits for grace periods of RCU. */
	if (watched->probes.state == PROBES_SET)
		warden_release(blocks->context.warden, watched->probes.key);
	if (watched->probes.file_fd >= 0)
		close(watched->probes.file_fd);
	watched->probes.file_fd = -1;
	watched->probes.state = PROBES_NONE;
}

void blocks_start_over(struct blocks_source *blocks, struct watched *watched)
{
	drop_probes(blocks, watched);
	memset(watched->probes.returns, 0, sizeof(watched->probes.returns));
	watched->probes.retry_ns = 0;
	watched->detector = blocks->options.detector == LOOPER_BY_SYSCALL ? LOOPER_BY_SYSCALL
									  : LOOPER_BY_SWITCH;
	/* A wait at a place that no probe knows is the switch program's in any case; without a
	 * loop there is nothing to tell. */
	watched->is_loop = false;
	watched->loop_kind = LOOPER_WAIT_NONE;
}

void blocks_tell_start(struct blocks_source *blocks, struct watched *watched)
{
	if (!watched->start.told)
		tell_loop(blocks, watched, "target_start");
}

void blocks_stop_watch(struct blocks_source *blocks, struct watched *watched)
{
	/* A process that was gone before it could be looked at was a target all the same. */
	blocks_tell_start(blocks, watched);
	if (watched->start.request)
		probe_cancel(blocks->context.probes, watched->start.request);
	if (watched->closed.request)
		probe_cancel(blocks->context.probes, watched->closed.request);
	drop_probes(blocks, watched);
	if (watched->start.stage == WATCHED_RUNS)
		looper_kernel_unwatch(blocks->kernel, watched->index, watched->tid);
	if (blocks->sampler)
		blocks_sampler_unwatch(blocks->sampler, watched->index, watched->slot_id);
	block_reports_drop_held(&blocks->reports, watched->slot_id);
	blocks_watch_remove(blocks->watch, watched);
}
