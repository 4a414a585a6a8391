/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes of a watch: where the thread was seen to wait, the prober opens the file, the unwinder
 * searches it for places, and the prober puts probes there. Each step is a request, and its answer
 * takes the next one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "prober/warden.h"
#include "source/blocks/source.h"

/* Probes that failed for want of memory or descriptors are tried again. */
#define PROBE_RETRY_NS (5 * NSEC_PER_SEC)

static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOSPC ||
	       blocks_try_again(err);
}

static void no_probes(struct blocks_source *blocks, struct watched *watched, int err,
		      const char *why)
{
	watched->probes.asked = false;
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
	if (watched->probes.held_off_told || !blocks->begun)
		return;
	watched->probes.held_off_told = true;
	snprintf(why, sizeof(why), "no uprobe yet: process %d holds its memory lock", holder);
	blocks_tell_degraded(blocks, watched, why);
}

static void on_attached(void *ctx, int err, const struct probe_answer *answer)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;
	struct looper_slot *live = looper_kernel_slot(blocks->kernel, watched->index);

	watched->probes.request = 0;
	watched->probes.asked = false;
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
	struct probe_request request = blocks_request(watched, PROBE_ATTACH);
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

/* The places of the kind of wait that the thread was seen in. True: the one that it waits in is
 * among them; a program with a system call instruction of its own would pass the probes by. */
static bool take_places(struct watched *watched, const struct wait_places *found)
{
	size_t returns = 0;
	bool here = false;

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
			   gap < 16 ? watched->probes.program_counter
				    : address - found->leave[i].back);
	}
	for (uint32_t i = 0; i < found->enter_count; i++)
		if (kind_of_place(found->enter[i].kind) == watched->probes.kind)
			add_place(watched, found->enter[i].offset, PROGRAM_ENTER);
	return here;
}

static bool wants_uprobes(const struct blocks_source *blocks, const struct watched *watched)
{
	return watched->probes.state == PROBES_NONE &&
	       (!blocks->options.detector || blocks->options.detector == LOOPER_BY_UPROBE);
}

static void end_question(struct watched *watched)
{
	watched->probes.asked = false;
	if (watched->probes.file_fd >= 0)
		close(watched->probes.file_fd);
	watched->probes.file_fd = -1;
}

static void place_is_known(struct blocks_source *blocks, struct watched *watched)
{
	watched->own.place_asked = false;
	blocks_own_settle(blocks, watched);
}

/* Where the thread waits cannot be found out. */
static void no_place(struct blocks_source *blocks, struct watched *watched, int err,
		     const char *why)
{
	bool wanted = wants_uprobes(blocks, watched);

	place_is_known(blocks, watched);
	end_question(watched);
	if (wanted)
		no_probes(blocks, watched, err, why);
}

static void on_places(void *ctx, int err, const struct wait_places *found)
{
	struct watched *watched = ctx;
	struct blocks_source *blocks = watched->blocks;

	if (!err && found->go && watched->probes.kind == LOOPER_WAIT_EPOLL &&
	    watched->probes.in_stack && watched->tid == watched->pid) {
		watched->own.place_asked = false;
		end_question(watched);
		blocks_own_shared(blocks, watched, watched->probes.loop_fd, SHARED_BY_GO);
		return;
	}
	if (err || !found->go)
		watched->own.plain_counter = watched->probes.program_counter;
	if (err) {
		no_place(blocks, watched, err,
			 err == -ENOENT ? "its wait was not found in the file" : strerror(-err));
		return;
	}
	place_is_known(blocks, watched);
	if (!wants_uprobes(blocks, watched))
		end_question(watched);
	else if (take_places(watched, found))
		attach(blocks, watched);
	else
		no_place(blocks, watched, -ENOENT,
			 "the thread waits by a system call instruction of its own");
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
		no_place(blocks, watched, err,
			 err == -EXDEV ? "the file lies on a file system that may hang"
				       : strerror(-err));
		return;
	}
	watched->probes.file_fd = answer->fds[0];
	answer->fds[0] = -1;
	watched->probes.in_stack = file->in_stack;
	watched->probes.load_address = file->start - file->offset;
	copy = dup(watched->probes.file_fd);
	err = copy < 0 ? -errno
		       : unwinder_find_waits(blocks->unwinder, copy, 0, on_places, watched);
	if (err)
		no_place(blocks, watched, err, strerror(-err));
}

/* Whose code it is is asked once a place, and of Go's, whose system calls all come from one place,
 * at most once in such a time. */
#define PLACE_AGAIN_NS NSEC_PER_SEC

static bool wants_place(const struct watched *watched, const struct looper_slot *slot,
			uint64_t now_ns)
{
	if (slot->loop_kind != LOOPER_WAIT_EPOLL ||
	    slot->loop_counter == watched->own.plain_counter)
		return false;
	for (int i = 0; i < LOOPER_PROBED_RETURNS && watched->probes.state == PROBES_SET; i++)
		if (watched->probes.returns[i] == slot->loop_counter)
			return false;
	return !watched->own.place_asked_ns ||
	       now_ns - watched->own.place_asked_ns >= PLACE_AGAIN_NS;
}

void blocks_want_probes(struct blocks_source *blocks, struct watched *watched,
			const struct looper_slot *slot)
{
	struct probe_request request = blocks_request(watched, PROBE_OPEN_AT);
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool place = wants_place(watched, slot, now_ns);
	int64_t id;

	if (watched->probes.asked || slot->loop_kind == LOOPER_WAIT_URING || !slot->loop_counter ||
	    (!place && (!wants_uprobes(blocks, watched) || now_ns < watched->probes.retry_ns)) ||
	    !probe_has_room(blocks->context.probes))
		return;
	watched->probes.kind = slot->loop_kind;
	watched->probes.program_counter = slot->loop_counter;
	watched->probes.loop_fd = slot->loop_fd;
	request.address = slot->loop_counter;
	request.end = slot->loop_stack[LOOPER_WAY_CALL];
	watched->probes.asked = true;
	if (place) {
		watched->own.place_asked = true;
		watched->own.place_asked_ns = now_ns;
	}
	id = probe_ask(blocks->context.probes, &request, NULL, 0, NULL, 0, PROBE_ATTACH_NS, on_file,
		       watched);
	if (id < 0)
		no_place(blocks, watched, (int)id, strerror((int)-id));
	else
		watched->probes.request = id;
}

void blocks_drop_probes(struct blocks_source *blocks, struct watched *watched)
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
	watched->probes.asked = watched->own.place_asked = false;
}
