/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/frames/owners.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "jankscope/target.h"
#include "util/clock.h"

#define KEEP_NS (60 * NSEC_PER_SEC)
/* That have ended: of a target that starts over all the time, the last ones. */
#define MOST_ENDED 256
/* A process tells its start in ticks. */
#define TICK_NS (10 * NSEC_PER_MSEC)

struct owner {
	int32_t pid;
	uint64_t start_boot_ns;
	uint64_t ended_ns, ended_boot_ns; /* seen then; 0: it is a target */
	char *package, *process;          /* package NULL: of none */
};

struct owners {
	const struct target_set *targets;
	struct owner *items;
	size_t count, capacity;
};

struct owners *owners_new(const struct target_set *targets)
{
	struct owners *owners = calloc(1, sizeof(*owners));

	if (owners)
		owners->targets = targets;
	return owners;
}

static void let_go(struct owners *owners, size_t n)
{
	free(owners->items[n].package);
	free(owners->items[n].process);
	owners->items[n] = owners->items[--owners->count];
}

void owners_free(struct owners *owners)
{
	if (!owners)
		return;
	while (owners->count)
		let_go(owners, 0);
	free(owners->items);
	free(owners);
}

static struct owner *find(struct owners *owners, const struct target_process *process)
{
	for (size_t i = 0; i < owners->count; i++)
		if (owners->items[i].pid == process->pid &&
		    owners->items[i].start_boot_ns == process->start_boot_ns)
			return &owners->items[i];
	return NULL;
}

/* Its names as of now: a process changes them. */
static int note_names(struct owner *owner, const struct target_process *process)
{
	const char *package = process->package;
	char *copy;

	if (!owner->process || strcmp(owner->process, process->process)) {
		copy = strdup(process->process);
		if (!copy)
			return -ENOMEM;
		free(owner->process);
		owner->process = copy;
	}
	if (package && (!owner->package || strcmp(owner->package, package))) {
		copy = strdup(package);
		if (!copy)
			return -ENOMEM;
		free(owner->package);
		owner->package = copy;
	}
	return 0;
}

static int note(struct owners *owners, const struct target_process *process)
{
	struct owner *owner = find(owners, process), *more;

	if (!owner && owners->count == owners->capacity) {
		size_t capacity = owners->capacity ? owners->capacity * 2 : 8;

		more = reallocarray(owners->items, capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		owners->items = more;
		owners->capacity = capacity;
	}
	if (!owner) {
		owner = &owners->items[owners->count++];
		*owner = (struct owner){.pid = process->pid,
					.start_boot_ns = process->start_boot_ns};
	}
	owner->ended_ns = owner->ended_boot_ns = 0;
	return note_names(owner, process);
}

/* The oldest ones beyond the most, and those of a minute ago. */
static void forget(struct owners *owners, uint64_t now_ns)
{
	size_t ended = 0, oldest = 0;

	for (size_t i = owners->count; i-- > 0;)
		if (owners->items[i].ended_ns && now_ns - owners->items[i].ended_ns > KEEP_NS)
			let_go(owners, i);
	for (size_t i = 0; i < owners->count; i++) {
		if (!owners->items[i].ended_ns)
			continue;
		if (!ended++ || owners->items[i].ended_ns < owners->items[oldest].ended_ns)
			oldest = i;
	}
	if (ended > MOST_ENDED)
		let_go(owners, oldest);
}

static bool has_died(const struct target_process *process)
{
	struct pollfd end = {.fd = process->pidfd, .events = POLLIN};

	return process->pidfd >= 0 && poll(&end, 1, 0) == 1;
}

static int look(struct owners *owners, uint64_t now_ns, bool at_end)
{
	uint64_t now_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	const struct target_process *process;
	int err = 0;

	if (!owners->targets || target_set_is_all(owners->targets))
		return 0;
	for (size_t i = 0; i < owners->count; i++) {
		struct owner *owner = &owners->items[i];

		process = target_set_find(owners->targets, owner->pid);
		if (owner->ended_ns || (process && process->start_boot_ns == owner->start_boot_ns &&
					!(at_end && has_died(process))))
			continue;
		owner->ended_ns = now_ns;
		owner->ended_boot_ns = now_boot_ns;
	}
	for (size_t n = 0; !err && (process = target_set_at(owners->targets, n)); n++)
		if (!at_end || !has_died(process))
			err = note(owners, process);
	forget(owners, now_ns);
	return err;
}

int owners_look(struct owners *owners, uint64_t now_ns)
{
	return look(owners, now_ns, false);
}

int owners_look_at_end(struct owners *owners, uint64_t now_ns)
{
	return look(owners, now_ns, true);
}

/* Of two with this pid the later one: that the first has ended is seen a while after the kernel
 * gave its pid away. */
static const struct owner *owner_at(const struct owners *owners, int32_t pid, uint64_t at_boot_ns)
{
	const struct owner *latest = NULL;

	for (size_t i = 0; i < owners->count; i++) {
		const struct owner *owner = &owners->items[i];

		if (owner->pid != pid)
			continue;
		if (at_boot_ns && (owner->start_boot_ns >= at_boot_ns + TICK_NS ||
				   (owner->ended_ns && at_boot_ns > owner->ended_boot_ns)))
			continue;
		if (!latest || owner->start_boot_ns > latest->start_boot_ns)
			latest = owner;
	}
	return latest;
}

bool owners_have(const struct owners *owners, int32_t pid, uint64_t at_boot_ns)
{
	return !owners->targets || target_set_is_all(owners->targets) ||
	       owner_at(owners, pid, at_boot_ns);
}

const char *owners_name(const struct owners *owners, int32_t pid, uint64_t at_boot_ns)
{
	const struct owner *owner = owner_at(owners, pid, at_boot_ns);

	return owner ? owner->process : NULL;
}

const char *owners_left(const struct owners *owners, int32_t pid, uint64_t at_boot_ns)
{
	const struct owner *owner = owner_at(owners, pid, at_boot_ns);

	return owner && owner->ended_ns ? owner->process : NULL;
}

bool owners_began_later(const struct owners *owners, int32_t pid, uint64_t at_boot_ns)
{
	if (!at_boot_ns || owner_at(owners, pid, at_boot_ns))
		return false;
	for (size_t i = 0; i < owners->count; i++)
		if (owners->items[i].pid == pid &&
		    owners->items[i].start_boot_ns >= at_boot_ns + TICK_NS)
			return true;
	return false;
}

bool owners_are_called(const struct owners *owners, const char *package)
{
	if (!owners->targets || target_set_is_all(owners->targets))
		return true;
	for (size_t i = 0; package && i < owners->count; i++) {
		const struct owner *owner = &owners->items[i];

		if ((owner->package && !strcmp(owner->package, package)) ||
		    !strcmp(owner->process, package))
			return true;
	}
	return false;
}
