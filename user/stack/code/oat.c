/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/names.h"
#include "stack/code/oat_file.h"
#include "stack/code/oat_told.h"
#include "stack/code/quick_frame.h"
#include "util/clock.h"
#include "util/hash.h"

#define OAT_FILES   16
#define PC_SLOTS    2048         /* a power of two */
#define TOLD_BYTES  (512u << 10) /* of what is told of all of them */
#define TELL_NS     (200 * NSEC_PER_MSEC)
#define RETRY_AFTER 64 /* unwindings, where the DEX file was not there */

struct oat_slot {
	uint64_t serial; /* of the module; 0: free */
	bool counted;    /* that it cannot be read */
	struct oat_file oat;
	struct oat_index index;
	int err;
	uint64_t used;
};

struct pc_slot {
	uint64_t serial; /* of the picture of mappings; 0: it is not kept */
	uint64_t pc;     /* 0: free */
	uint64_t file;   /* serial of the module */
	uint64_t until;  /* unwinding up to which it stands; 0: for good */
	bool exact;
	uint32_t start; /* how far the address is into its code */
	uint64_t function;
	int err; /* of what follows */
	struct oat_told told;
	int row_err; /* of the row */
	struct quick_row row;
};

struct oat_code {
	struct modules *modules;
	struct dex_code *dex;
	struct oat_slot slots[OAT_FILES];
	struct pc_slot pcs[PC_SLOTS];
	struct cfi_row *row; /* that was given last */
	struct code_info info;
	struct code_place place;
	struct frame_name *names; /* of the unwinding under way */
	size_t bytes, told_bytes;
	uint64_t spent_ns; /* in the unwinding under way, to tell of places */
	uint64_t uses, unwinding, malformed, unsupported, names_dropped;
};

static void free_code(void *self);

struct oat_code *oat_code_new(struct modules *modules, struct dex_code *dex)
{
	struct oat_code *code = calloc(1, sizeof(*code));

	if (!code)
		return NULL;
	code->modules = modules;
	code->dex = dex;
	code->row = calloc(1, sizeof(*code->row) + QUICK_MAX_RULES * sizeof(code->row->rules[0]));
	if (code->row)
		return code;
	free_code(code);
	return NULL;
}

void oat_code_losses(const struct oat_code *code, struct stack_unwind_losses *losses)
{
	losses->oat_malformed += code->malformed;
	losses->oat_unsupported += code->unsupported;
	losses->names_dropped += code->names_dropped;
}

size_t oat_code_bytes(const struct oat_code *code)
{
	return sizeof(*code) + code->bytes + code->told_bytes;
}

/* ---- files ---- */

static size_t slot_bytes(const struct oat_slot *slot)
{
	return oat_index_bytes(&slot->index) + oat_file_bytes(&slot->oat);
}

static void drop(struct oat_code *code, struct oat_slot *slot)
{
	code->bytes -= slot_bytes(slot);
	oat_index_free(&slot->index);
	oat_file_free(&slot->oat);
	*slot = (struct oat_slot){0};
}

static struct oat_slot *oldest(struct oat_code *code, const struct oat_slot *keep)
{
	struct oat_slot *best = NULL;

	for (size_t i = 0; i < OAT_FILES; i++) {
		struct oat_slot *slot = &code->slots[i];

		if (slot != keep && (!best || slot->used < best->used) && (!keep || slot->serial))
			best = slot;
	}
	return best;
}

/* The file with an index that was not used for longest; NULL: none has one. */
static struct oat_slot *oldest_index(const struct oat_code *code)
{
	const struct oat_slot *best = NULL;

	for (size_t i = 0; i < OAT_FILES; i++) {
		const struct oat_slot *slot = &code->slots[i];

		if (slot_bytes(slot) && (!best || slot->used < best->used))
			best = slot;
	}
	return (struct oat_slot *)best;
}

static struct oat_slot *slot_of(struct oat_code *code, const struct module_oat *file)
{
	struct oat_slot *slot, *other;

	for (size_t i = 0; i < OAT_FILES; i++) {
		slot = &code->slots[i];
		if (slot->serial != file->serial)
			continue;
		slot->used = ++code->uses;
		slot->oat.elf = file->elf;
		return slot;
	}
	slot = oldest(code, NULL);
	drop(code, slot);
	slot->serial = file->serial;
	slot->used = ++code->uses;
	slot->err = oat_file_open(&slot->oat, file->elf, file->oatdata);
	if (!slot->err)
		slot->err = oat_index_build(&slot->index, &slot->oat);
	if (slot->err == -ENOMEM)
		slot->serial = 0;
	code->bytes += slot_bytes(slot);
	while (code->bytes > OAT_CACHE_BYTES && (other = oldest(code, slot)))
		drop(code, other);
	return slot;
}

/* ---- the provider ---- */

static const struct cfi_row *give_row(struct oat_code *code, enum stack_arch arch,
				      const struct quick_row *row)
{
	struct cfi_row *to = code->row;

	*to = (struct cfi_row){.cfa_offset = row->cfa_offset,
			       .cfa_register = arch == STACK_ARM64 ? 31 : 7,
			       .return_register = arch == STACK_ARM64 ? 30 : 16,
			       .quick = true,
			       .rule_count = (uint8_t)row->rule_count};
	for (unsigned i = 0; i < row->rule_count; i++) {
		to->rules[i] = (struct cfi_rule){.reg = row->rules[i].reg, .kind = RULE_AT_CFA};
		to->rules[i].offset = row->rules[i].offset;
	}
	return to;
}

/* A stub that calls a native method: the only code that saves the register of the thread (arm64),
 * or that keeps no stack maps. */
static bool is_stub(const struct oat_code *code, enum stack_arch arch)
{
	return arch == STACK_ARM64 ? code->info.core_spills >> 19 & 1 : !code->info.stack_maps.rows;
}

/* A stack of such places may take this long together: each may be in another DEX file, and in the
 * last of many classes. */
static void tell(struct oat_code *code, const struct oat_asked *asked, struct pc_slot *to)
{
	uint64_t since_ns = clock_now_ns(CLOCK_MONOTONIC);

	if (code->spent_ns > TELL_NS) {
		code->names_dropped++;
		to->until = code->unwinding;
		return;
	}
	oat_tell(code->dex, asked, &to->told);
	code->spent_ns += clock_now_ns(CLOCK_MONOTONIC) - since_ns;
	if (to->told.partial)
		to->until = code->unwinding + RETRY_AFTER;
}

static int look_up(struct oat_code *code, const struct module_scope *scope, uint64_t address,
		   const struct module_oat *file, const struct stack_frame *frame,
		   struct pc_slot *to)
{
	unsigned instruction = scope->arch == STACK_ARM64 ? 4 : 1;
	struct oat_slot *slot = slot_of(code, file);
	uint64_t offset = file->address - file->oatdata;
	struct oat_asked asked = {scope, maps_find(scope->maps, address), &slot->oat, &slot->index};
	struct byte_source source;
	struct quick_frame quick;
	uint32_t at;
	int err;

	if (slot->err)
		return slot->err;
	source = oat_file_source(&slot->oat);
	asked.methods = oat_index_find(&slot->index, offset, &asked.count);
	if (!asked.methods)
		return -ENODATA;
	err = code_info_open(&code->info, &slot->oat.code_info, &source, asked.methods->code,
			     instruction);
	if (err)
		return err;
	to->start = (uint32_t)(offset - asked.methods->code);
	if (to->start >= code->info.code_bytes)
		return -ENODATA;
	quick = (struct quick_frame){.arch = scope->arch,
				     .code_bytes = code->info.code_bytes,
				     .frame_bytes = code->info.frame_bytes,
				     .core_spills = code->info.core_spills,
				     .stub = is_stub(code, scope->arch)};
	/* The place behind a call is where it returns to. */
	at = to->start + (uint32_t)(frame->pc - address);
	to->row_err =
		quick_frame_row(&quick, &source, asked.methods->code, at, frame->exact, &to->row);
	if (!frame->exact && !code_info_find(&code->info, at, &code->place))
		asked.place = &code->place;
	to->function = hash_u64(file->serial << 32 ^ asked.methods->code);
	tell(code, &asked, to);
	return 0;
}

/* ---- places that were met ---- */

static void forget_place(struct oat_code *code, struct pc_slot *slot)
{
	code->told_bytes -= oat_told_bytes(&slot->told);
	oat_told_free(&slot->told);
	*slot = (struct pc_slot){0};
}

static struct pc_slot *slot_at(struct oat_code *code, const struct module_scope *scope, uint64_t pc)
{
	return &code->pcs[(hash_u64(pc) + scope->maps->serial) & (PC_SLOTS - 1)];
}

static bool is_of(const struct oat_code *code, const struct pc_slot *slot,
		  const struct module_scope *scope, const struct stack_frame *frame)
{
	return slot->pc == frame->pc && slot->serial == scope->maps->serial &&
	       slot->exact == frame->exact && (!slot->until || code->unwinding <= slot->until);
}

/* What is known of the frame's place, which is in an oat file; NULL: it is in none. */
static struct pc_slot *know(struct oat_code *code, const struct module_scope *scope,
			    uint64_t address, const struct stack_frame *frame)
{
	struct pc_slot *slot = slot_at(code, scope, frame->pc);
	struct module_oat file;
	size_t bytes;

	if (is_of(code, slot, scope, frame))
		return slot;
	if (!modules_oat(code->modules, scope, address, &file))
		return NULL;
	forget_place(code, slot);
	*slot = (struct pc_slot){.serial = scope->maps->serial,
				 .pc = frame->pc,
				 .file = file.serial,
				 .exact = frame->exact};
	slot->err = look_up(code, scope, address, &file, frame, slot);
	if (slot->err)
		slot->until = code->unwinding + (slot->err == -ENOMEM ? 0 : RETRY_AFTER);
	/* Mappings that are not kept are not told from others by a number. */
	if (!slot->serial)
		slot->until = code->unwinding;
	bytes = oat_told_bytes(&slot->told);
	for (size_t i = 0; i < PC_SLOTS && code->told_bytes + bytes > TOLD_BYTES; i++)
		if (&code->pcs[i] != slot)
			forget_place(code, &code->pcs[i]);
	code->told_bytes += bytes;
	return slot;
}

/* A file that its frames need, and that cannot be read, is counted once. */
static void count_file(struct oat_code *code, uint64_t serial)
{
	for (size_t i = 0; i < OAT_FILES; i++) {
		struct oat_slot *slot = &code->slots[i];

		if (slot->serial != serial || !slot->err || slot->counted)
			continue;
		slot->counted = true;
		code->unsupported += slot->err == -ENOTSUP;
		code->malformed += slot->err != -ENOTSUP;
	}
}

static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	struct oat_code *code = self;
	const struct pc_slot *slot = know(code, scope, address, frame);

	if (!slot)
		return -ENOENT;
	if (slot->err)
		count_file(code, slot->file);
	/* Its registers are used in another way than elsewhere: nothing is guessed. */
	if (slot->err || slot->row_err)
		return -EPROTO;
	frame->oat = true;
	frame->provided = true;
	frame->line = slot->told.line;
	frame->dex_place = slot->told.dex_place;
	frame->function = slot->function;
	frame->function_pc = address - slot->start;
	if (slot->told.name)
		frame_names_keep(&code->names, frame->pc, slot->told.name);
	*row = give_row(code, scope->arch, &slot->row);
	return 0;
}

void oat_code_tell(struct oat_code *code, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame)
{
	const struct pc_slot *slot = know(code, scope, address, frame);

	if (!slot || slot->err)
		return;
	frame->line = slot->told.line;
	frame->dex_place = slot->told.dex_place;
	/* The symbol of such code names nothing ("[DEDUPED]"). */
	if (slot->told.name && slot->told.shared) {
		frame->provided = true;
		frame_names_keep(&code->names, frame->pc, slot->told.name);
	}
}

/* User addresses leave the upper byte free. */
static uint64_t key_of(uint64_t pc, unsigned depth)
{
	return pc | (uint64_t)depth << 56;
}

size_t oat_code_inlined(struct oat_code *code, const struct module_scope *scope,
			const struct stack_frame *frame, struct stack_frame *to, size_t room)
{
	const struct pc_slot *slot = slot_at(code, scope, frame->pc);
	size_t count;

	if (!is_of(code, slot, scope, frame) || slot->err)
		return 0;
	count = slot->told.inlined_count < room ? slot->told.inlined_count : 0;
	for (size_t i = 0; i < count; i++) {
		unsigned depth = (unsigned)(count - i);
		const struct oat_inlined *from = &slot->told.inlined[depth - 1];

		to[i] = *frame;
		to[i].provided = true;
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

static const char *name_of(void *self, const struct stack_frame *frame)
{
	const struct oat_code *code = self;

	return frame->provided ? frame_names_find(code->names, key_of(frame->pc, frame->inlined))
			       : NULL;
}

static void begin(void *self)
{
	struct oat_code *code = self;

	code->unwinding++;
	code->uses = CODE_USE(code->unwinding);
	code->spent_ns = 0;
	frame_names_clear(&code->names);
}

static size_t bytes_of(const void *self)
{
	return oat_code_bytes(self);
}

static uint64_t oldest_use(const void *self)
{
	const struct oat_slot *slot = oldest_index(self);

	return slot ? slot->used : UINT64_MAX;
}

static bool give_back(void *self)
{
	struct oat_slot *slot = oldest_index(self);

	if (slot)
		drop(self, slot);
	return slot;
}

static void free_code(void *self)
{
	struct oat_code *code = self;

	frame_names_clear(&code->names);
	for (size_t i = 0; i < PC_SLOTS; i++)
		forget_place(code, &code->pcs[i]);
	for (size_t i = 0; i < OAT_FILES; i++)
		drop(code, &code->slots[i]);
	free(code->row);
	free(code);
}

const struct code_provider oat_code_provider = {.locate = locate,
						.name = name_of,
						.begin = begin,
						.free = free_code,
						.bytes = bytes_of,
						.oldest = oldest_use,
						.give_back = give_back};
