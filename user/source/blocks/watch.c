/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/blocks/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uthash.h>

#include "util/spare_fd.h"

/* A row by its pid. A look asks for each target, and there may be thousands that have no row. */
struct row {
	struct watched watched;
	UT_hash_handle by_pid;
};

struct blocks_watch {
	struct watched **rows;
	struct row *by_pid;
	uint32_t room, count;
	uint32_t first_free; /* no row before it is free */
	uint64_t serial;
};

struct blocks_watch *blocks_watch_new(uint32_t room)
{
	struct blocks_watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		watch->rows = calloc(room, sizeof(struct watched *));
	if (!watch || !watch->rows) {
		free(watch);
		errno = ENOMEM;
		return NULL;
	}
	watch->room = room;
	return watch;
}

void blocks_watch_free(struct blocks_watch *watch)
{
	if (!watch)
		return;
	free(watch->rows);
	free(watch);
}

uint32_t blocks_watch_room(const struct blocks_watch *watch)
{
	return watch->room;
}

struct watched *blocks_watch_add(struct blocks_watch *watch, const struct target_process *process,
				 pid_t tid)
{
	struct watched *row;
	struct row *made;
	uint32_t index = watch->first_free;

	if (watch->count == watch->room) {
		errno = ENOSPC;
		return NULL;
	}
	while (watch->rows[index])
		index++;
	made = calloc(1, sizeof(*made));
	if (!made) {
		errno = ENOMEM;
		return NULL;
	}
	watch->first_free = index + 1;
	watch->count++;
	row = &made->watched;
	row->index = index;
	row->pid = process->pid;
	row->tid = tid;
	row->uid = process->uid;
	row->start_boot_ns = process->start_boot_ns;
	row->slot_id = ++watch->serial;
	row->pidfd = process->pidfd >= 0 ? spare_fd(fcntl(process->pidfd, F_DUPFD_CLOEXEC, 0)) : -1;
	row->probes.file_fd = -1;
	snprintf(row->process, sizeof(row->process), "%s", process->process);
	snprintf(row->package, sizeof(row->package), "%s",
		 process->package ? process->package : "");
	watch->rows[index] = row;
	HASH_ADD(by_pid, watch->by_pid, watched.pid, sizeof(row->pid), made);
	return row;
}

void blocks_watch_remove(struct blocks_watch *watch, struct watched *watched)
{
	if (watched->pidfd >= 0)
		close(watched->pidfd);
	if (watched->probes.file_fd >= 0)
		close(watched->probes.file_fd);
	block_samples_clear(&watched->period.samples);
	block_spells_free(&watched->period.spells);
	HASH_DELETE(by_pid, watch->by_pid, (struct row *)watched);
	watch->rows[watched->index] = NULL;
	watch->count--;
	if (watched->index < watch->first_free)
		watch->first_free = watched->index;
	free(watched);
}

struct watched *blocks_watch_at(struct blocks_watch *watch, uint32_t index)
{
	return index < watch->room ? watch->rows[index] : NULL;
}

struct watched *blocks_watch_find(struct blocks_watch *watch, pid_t pid)
{
	struct row *row;

	HASH_FIND(by_pid, watch->by_pid, &pid, sizeof(pid), row);
	return row ? &row->watched : NULL;
}

void blocks_watch_end_period(struct watched *watched)
{
	watched->period.tracking = false;
	watched->period.chain = watched->period.chain_before = (struct block_chain){0};
	watched->period.wake = (struct block_wake){0};
	watched->period.failed = 0;
	watched->period.failure = STACK_OK;
	watched->period.frozen_ns = watched->period.frozen_seen_ns = watched->period.looked_ns = 0;
	watched->period.frozen_unsure_ns = 0;
	watched->period.nested_waits = watched->period.nested_ns = 0;
	watched->period.unproved = false;
	watched->period.spells.count = 0;
	watched->period.spells.dropped = 0;
	block_samples_clear(&watched->period.samples);
}
