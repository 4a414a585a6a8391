/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/self_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "prober/pool.h"
#include "prober/warden.h"
#include "util/clock.h"

/* A look costs some 2 ms in all. One that found the sum as it was doubles the time to the next; a
 * new process, or memory of this one that moved, makes it short again. */
#define LOOK_NS       (5 * NSEC_PER_SEC)
#define LOOK_MAX_NS   (40 * NSEC_PER_SEC)
#define SAME_PART     64 /* a change by less than such a part is none */
#define MAX_PROCESSES 32
#define MAX_OBJECTS   256
/* What the kernel holds beside the page tables that it tells of: upper page tables, mm, mappings,
 * descriptors and a socket pair; and a stack of 16 KiB with a task_struct. */
#define PROCESS_BYTES (64u << 10)
#define THREAD_BYTES  (32u << 10)

/* One helper, and what was last seen of it. */
struct process {
	struct self_memory *memory;
	pid_t pid;
	bool seen;     /* bytes is known */
	bool listed;   /* it is alive */
	bool other;    /* not a helper of the warden */
	int64_t asked; /* id of the request that is under way; 0: none */
	uint64_t bytes, kernel_bytes;
};

struct self_memory {
	struct warden *warden;
	struct prober_pool *probes;
	struct process processes[MAX_PROCESSES];
	struct opt_u64 own;
	uint64_t kernel_bytes, own_kernel_bytes;
	uint64_t looked_ns, rest_ns; /* when, and how long until the next look */
	uint64_t last_bytes;         /* the sum of the look before the last */
	uint64_t own_bytes;          /* of this process at the last look, by a cheaper count */
	char text[4096];
};

struct self_memory *self_memory_new(struct warden *warden, struct prober_pool *probes)
{
	struct self_memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->warden = warden;
	memory->probes = probes;
	return memory;
}

void self_memory_free(struct self_memory *memory)
{
	if (!memory)
		return;
	for (size_t i = 0; i < MAX_PROCESSES; i++)
		if (memory->processes[i].asked)
			probe_cancel(memory->probes, memory->processes[i].asked);
	free(memory);
}

static struct opt_u64 kib_after(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? SOME_U64(strtoull(line + strlen(key), NULL, 10) * 1024) : (struct opt_u64){0};
}

struct opt_u64 self_memory_parse(const char *text)
{
	/* ee2ad71b0756 (5.4) says the shares of pages; before it, a page that is shared after a
	 * fork counts in each process, and what processes share by intent is not told apart from
	 * files */
	struct opt_u64 private = kib_after(text, "\nPss_Anon:");
	struct opt_u64 shared = kib_after(text, "\nPss_Shmem:");

	if (!private.present)
		return kib_after(text, "\nAnonymous:");
	private.value += shared.value;
	return private;
}

uint64_t self_memory_parse_kernel(const char *text)
{
	const char *threads = strstr(text, "\nThreads:");
	uint64_t count = threads ? strtoull(threads + 9, NULL, 10) : 1;

	return kib_after(text, "\nVmPTE:").value + PROCESS_BYTES + count * THREAD_BYTES;
}

static ssize_t read_text(struct self_memory *memory, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, memory->text, sizeof(memory->text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	memory->text[n > 0 ? n : 0] = 0;
	return n;
}

static bool number_after(const char *text, const char *key, uint64_t *number)
{
	const char *at = strstr(text, key);

	if (at)
		*number = strtoull(at + strlen(key), NULL, 10);
	return at != NULL;
}

/* What the kernel says that the maps and programs of our descriptors hold; several descriptors may
 * be of one. */
static void look_at_kernel(struct self_memory *memory)
{
	uint64_t seen[MAX_OBJECTS], id, bytes;
	size_t count = 0;
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;

	memory->kernel_bytes = 0;
	while (folder && count < MAX_OBJECTS && (entry = readdir(folder))) {
		char target[64], path[300];
		bool is_map, known = false;
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		is_map = !strcmp(target, "anon_inode:bpf-map");
		if (!is_map && strcmp(target, "anon_inode:bpf-prog"))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		if (read_text(memory, path) <= 0 ||
		    !number_after(memory->text, is_map ? "map_id:" : "prog_id:", &id) ||
		    !number_after(memory->text, "memlock:", &bytes))
			continue;
		id = id << 1 | is_map;
		for (size_t i = 0; i < count; i++)
			known |= seen[i] == id;
		if (known)
			continue;
		seen[count++] = id;
		memory->kernel_bytes += bytes;
	}
	if (folder)
		closedir(folder);
}

static void on_answer(void *ctx, int err, const struct probe_answer *answer)
{
	struct process *process = ctx;
	struct self_memory *memory = process->memory;
	struct opt_u64 bytes;
	size_t length;

	process->asked = 0;
	if (err)
		return;
	length = answer->length < sizeof(memory->text) ? answer->length : sizeof(memory->text) - 1;
	memcpy(memory->text, answer->data, length);
	memory->text[length] = 0;
	bytes = self_memory_parse(memory->text);
	process->seen |= bytes.present;
	if (bytes.present)
		process->bytes = bytes.value;
}

/* The row of a pid, or a free one for it. */
static struct process *row_of(struct self_memory *memory, pid_t pid)
{
	struct process *free_row = NULL;

	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		struct process *row = &memory->processes[i];

		if (row->pid == pid)
			return row;
		if (!row->pid && !free_row)
			free_row = row;
	}
	if (free_row) {
		*free_row = (struct process){.memory = memory, .pid = pid};
		memory->rest_ns = LOOK_NS;
	}
	return free_row;
}

/* Mark the rows of the helpers that are alive; those of others become free. */
static void list_processes(struct self_memory *memory)
{
	struct helper list[MAX_PROCESSES];
	size_t count = memory->warden ? warden_list(memory->warden, list, MAX_PROCESSES) : 0;

	for (size_t i = 0; i < MAX_PROCESSES; i++)
		memory->processes[i].listed = false;
	for (size_t i = 0; i < count; i++) {
		struct process *row = row_of(memory, list[i].pid);

		if (row)
			row->listed = true;
	}
	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		struct process *row = &memory->processes[i];

		if (!row->pid || row->listed || (row->other && !kill(row->pid, 0)))
			continue;
		if (row->asked)
			probe_cancel(memory->probes, row->asked);
		*row = (struct process){0};
	}
}

void self_memory_add(struct self_memory *memory, pid_t pid)
{
	struct process *row = row_of(memory, pid);

	if (row && !row->listed)
		row->other = true;
}

/* Whatever else this process has started, where the kernel tells (CONFIG_PROC_CHILDREN). */
static void list_children(struct self_memory *memory)
{
	char path[64], *at = memory->text, *end;
	long pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	if (read_text(memory, path) <= 0)
		return;
	for (; (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
		self_memory_add(memory, (pid_t)pid);
}

static void ask(struct self_memory *memory, struct process *row)
{
	struct probe_request request = {
		.operation = PROBE_READ, .pid = row->pid, .name = "smaps_rollup"};
	int64_t id;

	if (!memory->probes || row->asked)
		return;
	id = probe_ask(memory->probes, &request, NULL, 0, NULL, 0, NSEC_PER_SEC, on_answer, row);
	row->asked = id > 0 ? id : 0;
}

/* Takes no lock of a process. One that is gone has none. */
static uint64_t kernel_bytes_of(struct self_memory *memory, pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return read_text(memory, path) > 0 ? self_memory_parse_kernel(memory->text) : 0;
}

static bool is_same(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) <= b / SAME_PART;
}

/* By what the last look found. */
static void plan_next(struct self_memory *memory)
{
	struct opt_u64 bytes = self_memory_bytes(memory);

	if (bytes.present && is_same(bytes.value, memory->last_bytes))
		memory->rest_ns =
			2 * memory->rest_ns < LOOK_MAX_NS ? 2 * memory->rest_ns : LOOK_MAX_NS;
	else
		memory->rest_ns = LOOK_NS;
	memory->last_bytes = bytes.value;
}

void self_memory_look(struct self_memory *memory, uint64_t own_bytes)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool old;

	if (own_bytes && !is_same(own_bytes, memory->own_bytes))
		memory->rest_ns = LOOK_NS;
	list_processes(memory);
	old = !memory->looked_ns || now_ns - memory->looked_ns >= memory->rest_ns;
	if (old) {
		list_children(memory);
		plan_next(memory);
		memory->own_bytes = own_bytes;
	}
	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		struct process *row = &memory->processes[i];

		if (!row->pid || (!old && row->seen))
			continue;
		row->kernel_bytes = kernel_bytes_of(memory, row->pid);
		ask(memory, row);
	}
	if (!old)
		return;
	memory->looked_ns = now_ns;
	/* free() gives back the end of the heap only: one block above what a busy interval took
	 * holds all of it. */
	malloc_trim(0);
	memory->own = read_text(memory, "/proc/self/smaps_rollup") > 0
			      ? self_memory_parse(memory->text)
			      : (struct opt_u64){0};
	memory->own_kernel_bytes = kernel_bytes_of(memory, getpid());
	look_at_kernel(memory);
}

struct opt_u64 self_memory_bytes(const struct self_memory *memory)
{
	uint64_t bytes = memory->kernel_bytes + memory->own.value + memory->own_kernel_bytes;

	if (!memory->own.present)
		return (struct opt_u64){0};
	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		const struct process *row = &memory->processes[i];

		if (row->pid && !row->seen)
			return (struct opt_u64){0};
		bytes += row->bytes + row->kernel_bytes;
	}
	return SOME_U64(bytes);
}
