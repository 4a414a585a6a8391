/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/watched.h"

#include <stdlib.h>

static int by_pid(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

static size_t list_targets(struct cpu_watched *watched, const struct target_set *targets)
{
	const struct target_process *process;
	size_t count = 0;

	while ((process = target_set_at(targets, count))) {
		if (count == watched->next_room) {
			size_t room = watched->next_room ? 2 * watched->next_room : 16;
			pid_t *more = realloc(watched->next, room * sizeof(*more));

			if (!more)
				break;
			watched->next = more;
			watched->next_room = room;
		}
		watched->next[count++] = process->pid;
	}
	if (count)
		qsort(watched->next, count, sizeof(*watched->next), by_pid);
	return count;
}

void cpu_watched_follow(struct cpu_watched *watched, struct sched_kernel *kernel,
			const struct target_set *targets)
{
	size_t count = list_targets(watched, targets), room = watched->room, i = 0, k = 0;
	pid_t *before = watched->pids;

	while (i < watched->count || k < count) {
		if (k == count || (i < watched->count && before[i] < watched->next[k]))
			sched_kernel_time_unwatch(kernel, before[i++]);
		else if (i == watched->count || watched->next[k] < before[i])
			sched_kernel_time_watch(kernel, watched->next[k++]);
		else
			i++, k++;
	}
	watched->pids = watched->next;
	watched->count = count;
	watched->room = watched->next_room;
	watched->next = before;
	watched->next_room = room;
}

void cpu_watched_free(struct cpu_watched *watched)
{
	free(watched->pids);
	free(watched->next);
}
