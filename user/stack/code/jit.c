/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/jit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/jit_table.h"
#include "stack/code/names.h"
#include "stack/code/runtime.h"
#include "util/clock.h"
#include "util/hash.h"

#define MAX_PROCESSES 32
#define MAX_WORKING   64 /* ELF files with tables at hand */
/* A runtime gives the memory of code that it has dropped to other code, so that what is known is
 * looked at again; and sooner where an address is not known. Looks take a twentieth of the time at
 * the most. */
#define FRESH_NS   (10 * NSEC_PER_MSEC)
#define MISSED_NS  NSEC_PER_MSEC
#define LOOK_SHARE 20
/* A look that failed took longest, and is worth another one. */
#define MAX_REST_NS NSEC_PER_SEC
#define WHOLE_NS    (10 * NSEC_PER_SEC)

struct jit_process {
	struct stack_process process; /* pid 0: the slot is free */
	struct runtime_search list;
	uint64_t looked_ns, cost_ns; /* 0: never */
	uint64_t whole_ns;           /* of the last look at all of it */
	uint64_t version, timestamp; /* of the list */
	uint32_t missing;
	int err; /* of the last look */
	struct jit_table table;
	uint64_t used;
};

struct jit_code {
	const struct stack_files *files;
	struct modules *modules;
	struct jit_process processes[MAX_PROCESSES];
	struct jit_entry *working[MAX_WORKING];
	size_t working_bytes;
	struct frame_name *names;
	uint64_t unwinding, uses, lists_unread, elf_malformed, elf_dropped;
};

struct jit_code *jit_code_new(const struct stack_files *files, struct modules *modules)
{
	struct jit_code *code = calloc(1, sizeof(*code));

	if (code) {
		code->files = files;
		code->modules = modules;
	}
	return code;
}

void jit_code_losses(const struct jit_code *code, struct stack_unwind_losses *losses)
{
	losses->jit_lists_unread += code->lists_unread;
	losses->jit_elf_malformed += code->elf_malformed;
	losses->jit_elf_dropped += code->elf_dropped;
}

size_t jit_code_bytes(const struct jit_code *code)
{
	size_t bytes = code->working_bytes;

	for (size_t i = 0; i < MAX_PROCESSES; i++)
		bytes += code->processes[i].table.bytes;
	return bytes;
}

/* ---- files at work ---- */

static void put_away(void *ctx, struct jit_entry *entry)
{
	struct jit_code *code = ctx;

	if (!entry->elf)
		return;
	for (size_t i = 0; i < MAX_WORKING; i++)
		if (code->working[i] == entry)
			code->working[i] = NULL;
	code->working_bytes -= jit_elf_bytes(entry->elf);
	jit_elf_free(entry->elf);
	entry->elf = NULL;
}

/* A free slot, or that of the file that was not used for longest. */
static struct jit_entry **oldest_slot(struct jit_code *code)
{
	struct jit_entry **oldest = &code->working[0];

	for (size_t i = 0; i < MAX_WORKING; i++) {
		if (!code->working[i])
			return &code->working[i];
		if (code->working[i]->used < (*oldest)->used)
			oldest = &code->working[i];
	}
	return oldest;
}

static struct jit_elf *elf_of(struct jit_code *code, struct jit_process *p, struct jit_entry *entry)
{
	size_t unpack = JIT_UNPACK_BYTES;
	struct jit_entry **slot;

	entry->used = ++code->uses;
	if (entry->elf)
		return entry->elf;
	slot = oldest_slot(code);
	if (*slot)
		put_away(code, *slot);
	entry->elf = jit_elf_new(entry->bytes, entry->key.size, p->table.arch, &unpack);
	if (entry->elf) {
		*slot = entry;
		code->working_bytes += jit_elf_bytes(entry->elf);
	}
	return entry->elf;
}

/* ---- processes ---- */

static void forget(struct jit_code *code, struct jit_process *p)
{
	jit_table_free(&p->table, put_away, code);
	*p = (struct jit_process){0};
}

/* The process with a table that was not met for longest, but not keep. */
static size_t oldest_process(const struct jit_code *code, const struct jit_process *keep)
{
	size_t oldest = MAX_PROCESSES;

	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		const struct jit_process *p = &code->processes[i];

		if (p != keep && p->table.bytes &&
		    (oldest == MAX_PROCESSES || p->used < code->processes[oldest].used))
			oldest = i;
	}
	return oldest;
}

static uint64_t oldest_use(const void *self)
{
	const struct jit_code *code = self;
	size_t oldest = oldest_process(code, NULL);

	return oldest == MAX_PROCESSES ? UINT64_MAX : code->processes[oldest].used;
}

static bool give_back(void *self)
{
	struct jit_code *code = self;
	size_t oldest = oldest_process(code, NULL);

	if (oldest == MAX_PROCESSES)
		return false;
	forget(code, &code->processes[oldest]);
	return true;
}

/* Keep within the budget of its own, and what keep has. */
static void make_room(struct jit_code *code, const struct jit_process *keep)
{
	while (jit_code_bytes(code) > JIT_KEPT_BYTES) {
		size_t oldest = oldest_process(code, keep);

		if (oldest == MAX_PROCESSES)
			break;
		forget(code, &code->processes[oldest]);
	}
	for (size_t i = 0; i < MAX_WORKING && jit_code_bytes(code) > JIT_KEPT_BYTES; i++)
		if (code->working[i])
			put_away(code, code->working[i]);
}

static struct jit_process *process_of(struct jit_code *code, const struct module_scope *scope)
{
	struct jit_process *oldest = &code->processes[0];

	for (size_t i = 0; i < MAX_PROCESSES; i++) {
		struct jit_process *p = &code->processes[i];

		if (p->process.pid == scope->process.pid &&
		    p->process.start_ticks == scope->process.start_ticks &&
		    p->table.arch == scope->arch) {
			p->used = ++code->uses;
			return p;
		}
		if (p->used < oldest->used)
			oldest = p;
	}
	forget(code, oldest);
	oldest->process = scope->process;
	oldest->table.arch = scope->arch;
	oldest->used = ++code->uses;
	return oldest;
}

/* ---- looks ---- */

static bool is_due(const struct jit_process *p, uint64_t least_ns)
{
	uint64_t rest_ns = LOOK_SHARE * p->cost_ns;

	if (rest_ns > MAX_REST_NS)
		rest_ns = MAX_REST_NS;
	return !p->looked_ns || clock_now_ns(CLOCK_MONOTONIC) - p->looked_ns > least_ns + rest_ns;
}

/* Have the list as it is now in the table. 1: it is; 0: it was before; or -errno. */
static int ask(struct jit_code *code, struct jit_process *p, bool whole)
{
	struct jit_list_request request = {.descriptor = p->list.list,
					   .known = whole ? 0 : p->version,
					   .since = whole ? 0 : p->timestamp,
					   .symfiles = true};
	size_t length, kept = jit_code_bytes(code) - p->table.bytes;
	uint64_t malformed = p->table.malformed;
	struct jit_list list;
	uint8_t *message;
	int err = code->files->jit_list(code->files->ctx, &p->process, &request, &message, &length);

	if (err <= 0)
		return err;
	if (jit_list_view(message, length, &list)) {
		/* Others go for it, later. */
		kept = kept < JIT_KEPT_BYTES / 2 ? kept : JIT_KEPT_BYTES / 2;
		kept += p->table.bytes;
		jit_table_take(&p->table, &list, kept < JIT_KEPT_BYTES ? JIT_KEPT_BYTES - kept : 0,
			       put_away, code);
		p->version = list.header.version;
		p->timestamp = list.header.timestamp;
		code->elf_malformed += p->table.malformed - malformed;
	} else {
		err = -EBADMSG;
	}
	free(message);
	return err;
}

/* What a process that is gone, or cannot be asked now, had before is still right. */
static void look(struct jit_code *code, struct jit_process *p)
{
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);
	bool whole = !p->looked_ns;
	int err = ask(code, p, whole);

	/* An entry that is older than the last look, and was missed by it. */
	if (err > 0 && !whole && p->table.missing &&
	    (!p->missing || since_ns - p->whole_ns > WHOLE_NS)) {
		whole = true;
		err = ask(code, p, true);
	}
	p->looked_ns = clock_now_ns(CLOCK_MONOTONIC);
	p->cost_ns = p->looked_ns - since_ns;
	if (whole)
		p->whole_ns = p->looked_ns;
	if (err > 0 && p->table.missing > p->missing)
		code->elf_dropped += p->table.missing - p->missing;
	if (err > 0)
		p->missing = p->table.missing;
	p->err = err < 0 ? err : 0;
	make_room(code, p);
}

/* Whether the table is the list as it is now: the list could be read, and nobody changed it
 * meanwhile. An address that is not in such a table is in no entry. */
static bool is_whole(const struct jit_process *p)
{
	return !p->err && p->version && clock_now_ns(CLOCK_MONOTONIC) - p->looked_ns < FRESH_NS;
}

static struct jit_entry *find(struct jit_code *code, struct jit_process *p,
			      const struct module_scope *scope, uint64_t address)
{
	struct jit_entry *entry;

	if (!runtime_find_list(&p->list, code->modules, scope, RUNTIME_JIT))
		return NULL;
	if (is_due(p, FRESH_NS))
		look(code, p);
	entry = jit_table_find(&p->table, address);
	if (!entry && is_due(p, MISSED_NS)) {
		look(code, p);
		entry = jit_table_find(&p->table, address);
	}
	code->lists_unread += !entry && !is_whole(p);
	return entry;
}

/* ---- the provider ---- */

static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	struct jit_code *code = self;
	struct jit_process *p;
	struct jit_entry *entry;
	struct jit_elf *elf;
	uint64_t start;
	size_t before;
	char *name;
	int err;

	if (!code->files->jit_list)
		return -ENOENT;
	p = process_of(code, scope);
	entry = find(code, p, scope, address);
	elf = entry && entry->bytes ? elf_of(code, p, entry) : NULL;
	if (!elf)
		return -ENOENT;
	frame->kind = FRAME_JIT;
	name = jit_elf_name(elf, address, &start);
	if (name) {
		/* Code moves when it is compiled again: the name is what stays the same. */
		frame->function = hash_bytes(name, strlen(name), 2);
		frame->function_pc = start;
		frame_names_keep(&code->names, frame->pc, name);
		free(name);
	}
	before = jit_elf_bytes(elf);
	err = jit_elf_row(elf, address, row);
	code->working_bytes += jit_elf_bytes(elf) - before;
	return err ? -ENODEV : 0;
}

static const char *name_of(void *self, const struct stack_frame *frame)
{
	const struct jit_code *code = self;

	return frame_names_find(code->names, frame->pc);
}

static void begin(void *self)
{
	struct jit_code *code = self;

	code->uses = CODE_USE(++code->unwinding);
	frame_names_clear(&code->names);
	make_room(code, NULL);
}

static void free_code(void *self)
{
	struct jit_code *code = self;

	begin(code);
	for (size_t i = 0; i < MAX_PROCESSES; i++)
		forget(code, &code->processes[i]);
	free(code);
}

static size_t bytes_of(const void *self)
{
	return jit_code_bytes(self);
}

const struct code_provider jit_code_provider = {.locate = locate,
						.name = name_of,
						.begin = begin,
						.free = free_code,
						.bytes = bytes_of,
						.oldest = oldest_use,
						.give_back = give_back};
