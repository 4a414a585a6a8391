/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/jit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/jit_table.h"
#include "stack/code/jit_told.h"
#include "stack/code/names.h"
#include "stack/code/runtime.h"
#include "util/clock.h"
#include "util/hash.h"

#define MAX_PROCESSES 32
#define MAX_WORKING   64                    /* ELF files with tables at hand */
#define PC_SLOTS      512                   /* places that were met; a power of two */
#define TOLD_BYTES    (256u << 10)          /* of what is told of all of them */
#define TELL_NS       (200 * NSEC_PER_MSEC) /* in one unwinding */
#define RETRY_AFTER   64                    /* unwindings, where something may be known later */
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
	struct jit_oat oat;
	struct jit_table table;
	uint64_t used;
};

/* A place that was met. */
struct jit_pc {
	struct stack_process process;
	struct jit_key key; /* of the entry that has its code */
	uint64_t pc;        /* 0: free */
	uint64_t until;     /* unwinding up to which it stands; 0: for good */
	struct oat_told told;
};

struct jit_code {
	const struct stack_files *files;
	struct modules *modules;
	struct jit_process processes[MAX_PROCESSES];
	struct jit_entry *working[MAX_WORKING];
	struct dex_code *dex; /* NULL: inlined methods are not told */
	struct jit_pc pcs[PC_SLOTS];
	size_t working_bytes, told_bytes;
	uint64_t told_ns; /* spent in the unwinding under way */
	struct frame_name *names;
	uint64_t unwinding, uses, lists_unread, elf_malformed, elf_dropped, names_dropped;
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

void jit_code_use_dex(struct jit_code *code, struct dex_code *dex)
{
	code->dex = dex;
}

void jit_code_losses(const struct jit_code *code, struct stack_unwind_losses *losses)
{
	losses->jit_lists_unread += code->lists_unread;
	losses->jit_elf_malformed += code->elf_malformed;
	losses->jit_elf_dropped += code->elf_dropped;
	losses->names_dropped += code->names_dropped;
}

size_t jit_code_bytes(const struct jit_code *code)
{
	size_t bytes = code->working_bytes + code->told_bytes;

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
	uint64_t before = p->list.list;
	struct jit_entry *entry;

	if (!runtime_find_list(&p->list, code->modules, scope, RUNTIME_JIT))
		return NULL;
	/* Another program's: nothing that is known is of it. */
	if (p->list.list != before) {
		p->looked_ns = 0;
		p->oat = (struct jit_oat){0};
	}
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

/* ---- places in the code of ART ---- */

static void forget_place(struct jit_code *code, struct jit_pc *slot)
{
	code->told_bytes -= oat_told_bytes(&slot->told);
	oat_told_free(&slot->told);
	*slot = (struct jit_pc){0};
}

static struct jit_pc *slot_at(struct jit_code *code, const struct stack_process *process,
			      uint64_t pc)
{
	return &code->pcs[(hash_u64(pc) + (uint64_t)process->pid) & (PC_SLOTS - 1)];
}

static bool is_place(const struct jit_code *code, const struct jit_pc *slot,
		     const struct stack_process *process, uint64_t pc)
{
	return slot->pc == pc && slot->process.pid == process->pid &&
	       slot->process.start_ticks == process->start_ticks &&
	       (!slot->until || code->unwinding <= slot->until);
}

/* What ART knows of the place behind a call in a method of this name; NULL: nothing. */
static const struct jit_pc *know(struct jit_code *code, struct jit_process *p,
				 const struct module_scope *scope, const struct jit_entry *entry,
				 const struct stack_frame *frame, const char *name)
{
	uint64_t pc = frame->pc, since_ns;
	struct jit_pc *slot = slot_at(code, &scope->process, pc);
	struct jit_asked asked = {.files = code->files,
				  .scope = scope,
				  .dex = code->dex,
				  .code = frame->function_pc,
				  .offset = (uint32_t)(pc - frame->function_pc),
				  .art_method = frame->at_sp,
				  .name = name};

	if (is_place(code, slot, &scope->process, pc) &&
	    !memcmp(&slot->key, &entry->key, sizeof(slot->key)))
		return slot;
	forget_place(code, slot);
	asked.version = jit_oat_version(&p->oat, code->modules, scope);
	if (!asked.version)
		return NULL;
	*slot = (struct jit_pc){.process = scope->process, .key = entry->key, .pc = pc};
	since_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (code->told_ns > TELL_NS || jit_tell(&asked, &slot->told)) {
		code->names_dropped++;
		slot->until = code->unwinding;
	}
	code->told_ns += clock_now_ns(CLOCK_MONOTONIC) - since_ns;
	if (slot->told.partial)
		slot->until = code->unwinding + RETRY_AFTER;
	for (size_t i = 0;
	     i < PC_SLOTS && code->told_bytes + oat_told_bytes(&slot->told) > TOLD_BYTES; i++)
		if (&code->pcs[i] != slot)
			forget_place(code, &code->pcs[i]);
	code->told_bytes += oat_told_bytes(&slot->told);
	return slot;
}

/* User addresses leave the upper byte free. */
static uint64_t key_of(uint64_t pc, unsigned depth)
{
	return pc | (uint64_t)depth << 56;
}

size_t jit_code_inlined(struct jit_code *code, const struct module_scope *scope,
			const struct stack_frame *frame, struct stack_frame *to, size_t room)
{
	const struct jit_pc *slot = slot_at(code, &scope->process, frame->pc);
	size_t count = slot->told.inlined_count;

	if (frame->exact || !is_place(code, slot, &scope->process, frame->pc) || count > room)
		return 0;
	for (size_t i = 0; i < count; i++) {
		unsigned depth = (unsigned)(count - i);
		const struct oat_inlined *from = &slot->told.inlined[depth - 1];

		to[i] = *frame;
		to[i].inlined = (uint8_t)depth;
		to[i].function = from->function;
		to[i].function_pc = 0;
		to[i].line = from->line;
		to[i].dex_place = from->dex_place;
		if (from->name)
			frame_names_keep(&code->names, key_of(frame->pc, depth), from->name);
	}
	return count;
}

/* ---- the provider ---- */

static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	struct jit_code *code = self;
	const struct jit_pc *place;
	struct jit_process *p;
	struct jit_entry *entry;
	struct jit_elf *elf;
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
	name = jit_elf_name(elf, address, &frame->function_pc);
	if (name) {
		/* Code moves when it is compiled again: the name is what stays the same. */
		frame->function = hash_bytes(name, strlen(name), 2);
		frame_names_keep(&code->names, frame->pc, name);
		place = code->dex && !frame->exact ? know(code, p, scope, entry, frame, name)
						   : NULL;
		frame->dex_place = place ? place->told.dex_place : 0;
		frame->line = place ? place->told.line : 0;
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

	return frame_names_find(code->names, key_of(frame->pc, frame->inlined));
}

static void begin(void *self)
{
	struct jit_code *code = self;

	code->uses = CODE_USE(++code->unwinding);
	code->told_ns = 0;
	frame_names_clear(&code->names);
	make_room(code, NULL);
}

static void free_code(void *self)
{
	struct jit_code *code = self;

	begin(code);
	for (size_t i = 0; i < MAX_PROCESSES; i++)
		forget(code, &code->processes[i]);
	for (size_t i = 0; i < PC_SLOTS; i++)
		forget_place(code, &code->pcs[i]);
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
