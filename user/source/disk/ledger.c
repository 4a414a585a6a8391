/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/disk/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/* A task that no walk has met for so many intervals is gone, and its end was not told. */
#define UNSEEN_TURNS 1024
#define SWEEP_TURNS  256

#define SUMS (sizeof(struct disk_sums) / sizeof(uint64_t))

struct known {
	struct disk_task task;
	uint64_t address;
	bool changed, freed;
	uint64_t seen; /* the turn in which a line came last */
	/* Tasks that had the address before, and whose end was not told (yet). */
	struct known *older;
	UT_hash_handle hh; /* by address */
};

struct disk_ledger {
	struct known *known;
	struct known **changed; /* in this interval */
	size_t changed_count, changed_room;
	size_t known_count;
	uint64_t turn;
	bool begun;
	uint64_t begin_boot_ns;
};

struct disk_ledger *disk_ledger_new(void)
{
	return calloc(1, sizeof(struct disk_ledger));
}

void disk_ledger_free(struct disk_ledger *ledger)
{
	struct known *known, *next;

	if (!ledger)
		return;
	disk_ledger_turn(ledger);
	HASH_ITER (hh, ledger->known, known, next) {
		HASH_DEL(ledger->known, known);
		while (known) {
			struct known *older = known->older;

			free(known);
			known = older;
		}
	}
	free(ledger->changed);
	free(ledger);
}

void disk_ledger_begin(struct disk_ledger *ledger, uint64_t at_boot_ns)
{
	ledger->begun = true;
	ledger->begin_boot_ns = at_boot_ns;
}

/* A thread that called execve has its leader's tid and start time from then on, and keeps its own
 * sums (de_thread in fs/exec.c). */
static bool took_its_leaders_place(const struct known *known, const struct disk_line *line)
{
	return line->kind != DISK_LINE_FREE && known->task.tgid == line->tgid &&
	       known->task.tid != known->task.tgid && line->tid == line->tgid;
}

static struct known *find(struct disk_ledger *ledger, const struct disk_line *line)
{
	struct known *known;

	HASH_FIND(hh, ledger->known, &line->task, sizeof(line->task), known);
	for (; known; known = known->older)
		if (known->task.start_boot_ns == line->start_boot_ns ||
		    took_its_leaders_place(known, line))
			return known;
	return NULL;
}

static struct known *add(struct disk_ledger *ledger, const struct disk_line *line)
{
	struct known *known = calloc(1, sizeof(*known)), *older;

	if (!known)
		return NULL;
	known->address = line->task;
	HASH_FIND(hh, ledger->known, &line->task, sizeof(line->task), older);
	if (older)
		HASH_DEL(ledger->known, older);
	known->older = older;
	HASH_ADD(hh, ledger->known, address, sizeof(known->address), known);
	ledger->known_count++;
	return known;
}

/* Its address may be another's from now on. What it did in this interval stays until its end. */
static void take_out(struct disk_ledger *ledger, struct known *known)
{
	struct known *head;

	HASH_FIND(hh, ledger->known, &known->address, sizeof(known->address), head);
	if (head == known) {
		HASH_DEL(ledger->known, known);
		if (known->older)
			HASH_ADD(hh, ledger->known, address, sizeof(known->address), known->older);
	}
	for (; head && head != known; head = head->older)
		if (head->older == known) {
			head->older = known->older;
			break;
		}
	known->older = NULL;
	known->freed = true;
	ledger->known_count--;
	if (!known->changed)
		free(known);
}

static void describe(struct disk_task *task, const struct disk_line *line)
{
	task->tid = line->tid;
	task->tgid = line->tgid;
	task->uid = line->uid;
	task->start_boot_ns = line->start_boot_ns;
	task->process_start_boot_ns = line->process_start_boot_ns;
	memcpy(task->comm, line->comm, sizeof(task->comm));
	if (line->kind != DISK_LINE_ALIVE && !task->end_boot_ns)
		task->end_boot_ns = line->at_boot_ns;
}

static int mark_changed(struct disk_ledger *ledger, struct known *known)
{
	if (known->changed)
		return 0;
	if (ledger->changed_count == ledger->changed_room) {
		size_t room = ledger->changed_room ? 2 * ledger->changed_room : 256;
		struct known **more = realloc(ledger->changed, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		ledger->changed = more;
		ledger->changed_room = room;
	}
	ledger->changed[ledger->changed_count++] = known;
	known->changed = true;
	return 0;
}

/* Each of the sums only grows; one that is read while it grows is at most older. */
static int book(struct disk_ledger *ledger, struct known *known, const struct disk_sums *sums)
{
	uint64_t before[SUMS], part[SUMS], now[SUMS];
	bool more = false;

	memcpy(before, &known->task.now, sizeof(before));
	memcpy(part, &known->task.part, sizeof(part));
	memcpy(now, sums, sizeof(now));
	for (size_t i = 0; i < SUMS; i++) {
		if (now[i] <= before[i])
			continue;
		part[i] += now[i] - before[i];
		before[i] = now[i];
		more = true;
	}
	if (!more)
		return 0;
	if (mark_changed(ledger, known))
		return -ENOMEM;
	memcpy(&known->task.now, before, sizeof(before));
	memcpy(&known->task.part, part, sizeof(part));
	return 0;
}

int disk_ledger_take(struct disk_ledger *ledger, const struct disk_line *line)
{
	struct known *known = find(ledger, line);
	bool is_older = !ledger->begun || line->start_boot_ns < ledger->begin_boot_ns;
	int err = 0;

	/* It had ended before the ledger began. */
	if (!known && line->kind == DISK_LINE_FREE && is_older)
		return 0;
	if (!known) {
		known = add(ledger, line);
		if (!known)
			return -ENOMEM;
		describe(&known->task, line);
		if (!ledger->begun || (line->kind == DISK_LINE_EXIT && is_older &&
				       line->at_boot_ns < ledger->begin_boot_ns))
			known->task.now = line->sums;
	} else if (line->kind != DISK_LINE_FREE) {
		describe(&known->task, line);
	}
	known->seen = ledger->turn;
	if (!ledger->begun)
		known->task.now = line->sums;
	else
		err = book(ledger, known, &line->sums);
	if (line->kind == DISK_LINE_FREE)
		take_out(ledger, known);
	return err;
}

size_t disk_ledger_count(const struct disk_ledger *ledger)
{
	return ledger->changed_count;
}

const struct disk_task *disk_ledger_at(const struct disk_ledger *ledger, size_t n)
{
	return &ledger->changed[n]->task;
}

static void sweep(struct disk_ledger *ledger)
{
	struct known *head, *next, *known, *older;

	HASH_ITER (hh, ledger->known, head, next)
		for (known = head; known; known = older) {
			older = known->older;
			if (known->seen + UNSEEN_TURNS < ledger->turn)
				take_out(ledger, known);
		}
}

void disk_ledger_turn(struct disk_ledger *ledger)
{
	for (size_t i = 0; i < ledger->changed_count; i++) {
		struct known *known = ledger->changed[i];

		known->changed = false;
		known->task.part = (struct disk_sums){0};
		if (known->freed)
			free(known);
	}
	ledger->changed_count = 0;
	if (++ledger->turn % SWEEP_TURNS == 0)
		sweep(ledger);
}

size_t disk_ledger_known(const struct disk_ledger *ledger)
{
	return ledger->known_count;
}
