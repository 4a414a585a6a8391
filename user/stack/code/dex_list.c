/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "prober/jit_list.h"
#include "stack/code/runtime.h"
#include "util/clock.h"

#define MAX_PROCESSES 16
#define MAX_FILES     4096 /* of one process */
/* Looks take a twentieth of the time at the most. */
#define MISSED_NS  (10 * NSEC_PER_MSEC)
#define LOOK_SHARE 20

struct dex_process {
	struct stack_process process; /* pid 0: the slot is free */
	struct runtime_search list;
	uint64_t looked_ns, cost_ns, version;
	struct dex_range {
		uint64_t start, size;
	} * files;
	size_t count;
	int err; /* of the last look */
	uint64_t used;
};

struct dex_list {
	const struct stack_files *files;
	struct modules *modules;
	struct dex_process processes[MAX_PROCESSES];
	uint64_t uses, unread;
};

struct dex_list *dex_list_new(const struct stack_files *files, struct modules *modules)
{
	struct dex_list *list = calloc(1, sizeof(*list));

	if (list) {
		list->files = files;
		list->modules = modules;
	}
	return list;
}

void dex_list_free(struct dex_list *list)
{
	for (size_t i = 0; list && i < MAX_PROCESSES; i++)
		free(list->processes[i].files);
	free(list);
}

size_t dex_list_bytes(const struct dex_list *list)
{
	size_t bytes = 0;

	for (size_t i = 0; i < MAX_PROCESSES; i++)
		bytes += list->processes[i].count * sizeof(*list->processes[i].files);
	return bytes;
}

uint64_t dex_list_unread(const struct dex_list *list)
{
	return list->unread;
}

static struct dex_process *process_of(struct dex_list *list, const struct module_scope *scope)
{
	struct dex_process *oldest = &list->processes[0];

	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		struct dex_process *p = &list->processes[i];

		if (p->process.pid == scope->process.pid &&
		    p->process.start_ticks == scope->process.start_ticks) {
			p->used = ++list->uses;
			return p;
		}
		if (p->used < oldest->used)
			oldest = p;
	}
	free(oldest->files);
	*oldest = (struct dex_process){.process = scope->process, .used = ++list->uses};
	return oldest;
}

static int take(struct dex_process *p, uint8_t *message, size_t length)
{
	struct dex_range *files;
	struct jit_list said;
	size_t count;

	if (!jit_list_view(message, length, &said))
		return -EBADMSG;
	count = said.header.count < MAX_FILES ? said.header.count : MAX_FILES;
	files = malloc((count ?: 1) * sizeof(*files));
	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		files[i] = (struct dex_range){said.entries[i].symfile, said.entries[i].size};
	free(p->files);
	p->files = files;
	p->count = count;
	p->version = said.header.version;
	return 0;
}

static void look(struct dex_list *list, struct dex_process *p)
{
	struct jit_list_request request = {.descriptor = p->list.list, .known = p->version};
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint8_t *message = NULL;
	size_t length;
	int err = list->files->jit_list(list->files->ctx, &p->process, &request, &message, &length);

	if (err > 0) {
		err = take(p, message, length);
		free(message);
	}
	p->looked_ns = clock_now_ns(CLOCK_MONOTONIC);
	p->cost_ns = p->looked_ns - since_ns;
	/* A process that is gone, or holds up its prober, is no list that cannot be read. */
	if (err < 0 && err != p->err && err != -ESRCH && err != -EBUSY && err != -EPIPE)
		list->unread++;
	p->err = err < 0 ? err : 0;
}

static size_t covering(const struct dex_process *p, uint64_t pc, uint64_t *starts, size_t room)
{
	size_t found = 0;

	for (size_t i = 0; i < p->count && found < room; i++)
		if (pc >= p->files[i].start && pc - p->files[i].start < p->files[i].size)
			starts[found++] = p->files[i].start;
	return found;
}

size_t dex_list_find(struct dex_list *list, const struct module_scope *scope, uint64_t pc,
		     uint64_t *starts, size_t room)
{
	struct dex_process *p;
	uint64_t now_ns, before;
	size_t found;

	if (!list->files->jit_list)
		return 0;
	p = process_of(list, scope);
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	before = p->list.list;
	if (!runtime_find_list(&p->list, list->modules, scope, RUNTIME_DEX))
		return 0;
	/* Another program's: nothing that is known is of it. */
	if (p->list.list != before)
		p->count = p->looked_ns = p->version = 0;
	found = covering(p, pc, starts, room);
	if (found || (p->looked_ns && now_ns - p->looked_ns < MISSED_NS + LOOK_SHARE * p->cost_ns))
		return found;
	look(list, p);
	return covering(p, pc, starts, room);
}
