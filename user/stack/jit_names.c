/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/jit_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/hash.h"
#include "util/hex.h"

#define MAX_FILE_BYTES (16u << 20)
#define MAX_ENTRIES    (1u << 19)
#define MAX_NAME       1024
#define AGAIN_NS       NSEC_PER_SEC
/* An address that is in no entry may be of code that was compiled since the file was read: it is
 * looked at again so much sooner, and for a twentieth of the time at the most. */
#define MISSED_NS    (50 * NSEC_PER_MSEC)
#define MISSED_SHARE 20
#define LOOK_BACK    16 /* overlapping entries that are looked at */

struct jit_entry {
	uint64_t start;
	uint32_t size, line;
	const char *name; /* in the text; ends with 0 */
};

struct jit_names {
	const struct stack_files *files;
	struct stack_process process;
	uint64_t looked_ns; /* 0: never */
	uint64_t cost_ns;   /* of the last look */
	/* the file as it was read */
	struct file_version {
		ino_t ino;
		off_t size;
		struct timespec changed;
	} version;
	char *text;
	struct jit_entry *entries;
	size_t count;
};

struct jit_names *jit_names_new(const struct stack_files *files)
{
	struct jit_names *names = calloc(1, sizeof(*names));

	if (names)
		names->files = files;
	return names;
}

static void forget(struct jit_names *names)
{
	free(names->text);
	free(names->entries);
	names->text = NULL;
	names->entries = NULL;
	names->count = 0;
}

void jit_names_free(struct jit_names *names)
{
	if (!names)
		return;
	forget(names);
	free(names);
}

/* The whole file, ended by 0. It may grow while it is read: then its end is left out. */
static char *read_text(int fd, size_t size)
{
	char *text = malloc(size + 1);
	size_t done = 0;

	while (text && done < size) {
		ssize_t n = pread(fd, text + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (text)
		text[done] = 0;
	return text;
}

static const char *hex(const char *p, const char *end, uint64_t *value)
{
	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	p = hex_read(p, end, value);
	return p && p < end && *p == ' ' ? p + 1 : NULL;
}

static int compare(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* "start size name" a line, the first two in hexadecimal. The text becomes the entries' names. */
static void parse(struct jit_names *names)
{
	size_t room = 0;
	uint32_t line = 0;
	char *rest = names->text, *text;

	/* What no line end follows is being written still: half a name is another one. */
	while ((text = strsep(&rest, "\n")) && rest && names->count < MAX_ENTRIES) {
		uint64_t start, size;
		const char *end = text + strlen(text), *p = hex(text, end, &start);

		line++;
		p = p ? hex(p, end, &size) : NULL;
		if (!p || !*p || !size || size > UINT32_MAX || strlen(p) > MAX_NAME)
			continue;
		if (names->count == room) {
			struct jit_entry *more;

			room = room ? room * 2 : 1024;
			more = realloc(names->entries, room * sizeof(*more));
			if (!more)
				break;
			names->entries = more;
		}
		names->entries[names->count++] = (struct jit_entry){start, (uint32_t)size, line, p};
	}
	if (names->count)
		qsort(names->entries, names->count, sizeof(*names->entries), compare);
}

/* Read the file, if it is not the one that was read. */
static void look(struct jit_names *names, const struct stack_process *process)
{
	int fd = names->files->open_jit_names
			 ? names->files->open_jit_names(names->files->ctx, process)
			 : -ENOENT;
	bool same = names->looked_ns && names->process.pid == process->pid &&
		    names->process.start_ticks == process->start_ticks;
	struct file_version version;
	struct stat st;

	names->looked_ns = clock_now_ns(CLOCK_MONOTONIC);
	/* What a process that is gone, or cannot be asked now, had before is still right. */
	if (fd < 0 && same)
		return;
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -EINVAL;
	}
	if (fd >= 0) {
		version = (struct file_version){st.st_ino, st.st_size, st.st_mtim};
		if (same && version.ino == names->version.ino &&
		    version.size == names->version.size &&
		    version.changed.tv_sec == names->version.changed.tv_sec &&
		    version.changed.tv_nsec == names->version.changed.tv_nsec) {
			close(fd);
			return;
		}
	}
	forget(names);
	names->process = *process;
	names->version = (struct file_version){0};
	if (fd < 0)
		return;
	names->version = version;
	if (version.size > 0 && (uint64_t)version.size <= MAX_FILE_BYTES)
		names->text = read_text(fd, (size_t)version.size);
	close(fd);
	if (names->text)
		parse(names);
}

/* Code memory is used again: of several entries the last line counts. */
static const struct jit_entry *find(const struct jit_names *names, uint64_t address)
{
	const struct jit_entry *best = NULL;
	size_t low = 0, high = names->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (names->entries[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t back = 0; back < LOOK_BACK && back < low; back++) {
		const struct jit_entry *entry = &names->entries[low - 1 - back];

		if (address - entry->start < entry->size && (!best || entry->line > best->line))
			best = entry;
	}
	return best;
}

static bool is_due(const struct jit_names *names, const struct stack_process *process,
		   uint64_t least_ns)
{
	return !names->looked_ns || names->process.pid != process->pid ||
	       names->process.start_ticks != process->start_ticks ||
	       clock_now_ns(CLOCK_MONOTONIC) - names->looked_ns > least_ns;
}

static void look_again(struct jit_names *names, const struct stack_process *process)
{
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);

	look(names, process);
	names->looked_ns = clock_now_ns(CLOCK_MONOTONIC);
	names->cost_ns = names->looked_ns - since_ns;
}

const char *jit_names_find(struct jit_names *names, const struct stack_process *process,
			   uint64_t address, uint64_t *start)
{
	const struct jit_entry *entry;

	/* Also where an entry is known: its memory may have become another function's since. */
	if (is_due(names, process, AGAIN_NS))
		look_again(names, process);
	entry = find(names, address);
	if (!entry && names->text &&
	    is_due(names, process, MISSED_NS + MISSED_SHARE * names->cost_ns)) {
		look_again(names, process);
		entry = find(names, address);
	}
	if (!entry)
		return NULL;
	*start = entry->start;
	return entry->name;
}

/* ---- the provider ---- */

static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	uint64_t start;
	const char *name = jit_names_find(self, &scope->process, address, &start);

	if (!name)
		return -ENOENT;
	/* Code moves when it is compiled again: the name is what stays the same. */
	frame->kind = FRAME_JIT;
	frame->function = hash_bytes(name, strlen(name), 2);
	frame->function_pc = start;
	return -ENODEV;
}

static const char *name_of(void *self, const struct stack_frame *frame)
{
	struct jit_names *names = self;
	uint64_t start;

	/* The process of the frames that were located. */
	if (frame->inlined)
		return NULL;
	return jit_names_find(names, &names->process, frame->pc - !frame->exact, &start);
}

static void free_names(void *self)
{
	jit_names_free(self);
}

const struct code_provider jit_names_provider = {
	.locate = locate, .name = name_of, .free = free_names};
