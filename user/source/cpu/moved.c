/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/moved.h"

#include <errno.h>
#include <stdlib.h>

/* From the note to the last write into the slots of both tids (follow_exec). */
#define SLOTS_FOLLOW_NS 1000000ull

int moved_tasks_add(struct moved_tasks *moved, const struct task_death *note)
{
	if (moved->count == moved->room) {
		size_t room = moved->room ? moved->room * 2 : 16;
		struct moved_task *items = realloc(moved->items, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		moved->items = items;
		moved->room = room;
	}
	moved->items[moved->count++] = (struct moved_task){
		.old_tid = (pid_t)note->exec_tid,
		.tid = (pid_t)note->tid,
		.start_boot_ns = note->start_boot_ns,
		.at_boot_ns = note->end_boot_ns,
	};
	return 0;
}

void moved_tasks_free(struct moved_tasks *moved)
{
	free(moved->items);
	*moved = (struct moved_tasks){0};
}

bool moved_tasks_rename(const struct moved_tasks *moved, uint64_t begin_boot_ns,
			struct task_reading *reading)
{
	const struct moved_task *was = NULL;
	bool is_leader = false;

	for (size_t i = 0; i < moved->count; i++) {
		const struct moved_task *one = &moved->items[i];

		if (one->tid != reading->tgid)
			continue;
		/* The leader of before, or the thread that has its name since. */
		if (reading->tid == one->tid)
			is_leader |= one->at_boot_ns + SLOTS_FOLLOW_NS >= begin_boot_ns;
		/* The leader ends under the thread's tid, and another task may have that tid since:
		 * neither of them is the thread. */
		else if (reading->tid == one->old_tid &&
			 reading->start_boot_ns != one->start_boot_ns &&
			 reading->start_boot_ns < one->at_boot_ns)
			was = one;
	}
	if (is_leader)
		return false;
	if (!was)
		return true;
	/* Another thread took the place behind it: this one is no leader any more. */
	for (const struct moved_task *later = was + 1; later < moved->items + moved->count; later++)
		if (later->tid == was->tid)
			return false;
	reading->tid = was->tid;
	reading->start_boot_ns = was->start_boot_ns;
	reading->process_start_boot_ns = was->start_boot_ns;
	return true;
}
