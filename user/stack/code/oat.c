/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/names.h"
#include "stack/code/oat_dex.h"
#include "stack/code/oat_file.h"
#include "stack/code/quick_frame.h"
#include "util/hash.h"

#define OAT_FILES   16
#define PC_SLOTS    512 /* a power of two */
#define SHOWN_NAMES 3   /* of methods that share code */
#define NAME_BYTES  (SHOWN_NAMES * (DEX_NAME_BYTES + 4) + 48)
#define RETRY_AFTER 64 /* unwindings, where the DEX file was not there */

struct oat_slot {
	uint64_t serial; /* of the module; 0: free */
	struct oat_file oat;
	struct oat_index index;
	int err;
	uint64_t used;
};

struct pc_slot {
	uint64_t serial, pc; /* of the picture of mappings; 0: free */
	uint64_t until;      /* unwinding up to which it stands; 0: for good */
	bool exact;
	uint32_t start; /* how far the address is into its code */
	uint32_t line;
	uint64_t function;
	struct quick_row row;
	char *name; /* NULL: not known */
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
	size_t bytes;
	uint64_t uses, unwinding, malformed, unsupported;
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
	if (slot->err == -ENOTSUP)
		code->unsupported++;
	else if (slot->err && slot->err != -ENOMEM)
		code->malformed++;
	if (slot->err == -ENOMEM)
		slot->serial = 0;
	code->bytes += slot_bytes(slot);
	while (code->bytes > OAT_CACHE_BYTES && (other = oldest(code, slot)))
		drop(code, other);
	return slot;
}

/* ---- names ---- */

/* The names of the methods that have this code, and the line of a call in it where it is one
 * method's. False: no DEX file that is there has them. */
static bool name_methods(struct oat_code *code, const struct module_scope *scope,
			 const struct map_entry *oat_entry, const struct oat_slot *slot,
			 const struct oat_method *methods, size_t count, bool has_place,
			 char name[NAME_BYTES], uint32_t *line)
{
	size_t length = 0, shown = count < SHOWN_NAMES ? count : SHOWN_NAMES;

	for (size_t i = 0; i < shown; i++) {
		struct oat_dex_method found;
		int n;

		if (oat_dex_find(code->dex, scope, oat_entry, &slot->oat.dex[methods[i].dex],
				 slot->index.classes[methods[i].dex], methods[i].class,
				 methods[i].number, &found))
			return false;
		if (count == 1 && has_place && found.place.code) {
			found.place.pc = code->place.dex_pc;
			if (dex_line(&found.dex, &found.place, line))
				*line = 0;
		}
		n = snprintf(name + length, NAME_BYTES - length, "%s%s", i ? " or " : "",
			     found.name);
		if (n < 0 || (size_t)n >= NAME_BYTES - length)
			return false;
		length += (size_t)n;
	}
	if (count > shown)
		length += (size_t)snprintf(name + length, NAME_BYTES - length, " or %zu others",
					   count - shown);
	/* Which of the methods it is, nothing of the code tells. */
	if (count > 1)
		snprintf(name + length, NAME_BYTES - length, " (shared code)");
	return true;
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

static void fill(struct oat_code *code, const struct pc_slot *slot, uint64_t address,
		 struct stack_frame *frame)
{
	frame->provided = true;
	frame->line = slot->line;
	frame->function = slot->function;
	frame->function_pc = address - slot->start;
	if (slot->name)
		frame_names_keep(&code->names, frame->pc, slot->name);
}

/* A stub that calls a native method: the only code that saves the register of the thread (arm64),
 * or that keeps no stack maps. */
static bool is_stub(const struct oat_code *code, enum stack_arch arch)
{
	return arch == STACK_ARM64 ? code->info.core_spills >> 19 & 1 : !code->info.stack_maps.rows;
}

static int look_up(struct oat_code *code, const struct module_scope *scope, uint64_t address,
		   const struct module_oat *file, const struct stack_frame *frame,
		   struct pc_slot *to)
{
	unsigned instruction = scope->arch == STACK_ARM64 ? 4 : 1;
	struct oat_slot *slot = slot_of(code, file);
	uint64_t offset = file->address - file->oatdata;
	const struct oat_method *methods;
	struct byte_source source;
	struct quick_frame quick;
	char name[NAME_BYTES];
	bool has_place;
	size_t count;
	int err;

	if (slot->err)
		return slot->err;
	source = oat_file_source(&slot->oat);
	methods = oat_index_find(&slot->index, offset, &count);
	if (!methods)
		return -ENODATA;
	err = code_info_open(&code->info, &slot->oat.code_info, &source, methods->code,
			     instruction);
	if (err)
		return err;
	to->start = (uint32_t)(offset - methods->code);
	if (to->start >= code->info.code_bytes)
		return -ENODATA;
	quick = (struct quick_frame){.arch = scope->arch,
				     .code_bytes = code->info.code_bytes,
				     .frame_bytes = code->info.frame_bytes,
				     .core_spills = code->info.core_spills,
				     .stub = is_stub(code, scope->arch)};
	/* The place behind a call is where it returns to. */
	err = quick_frame_row(&quick, &source, methods->code,
			      to->start + (uint32_t)(frame->pc - address), frame->exact, &to->row);
	if (err)
		return err;
	has_place = !frame->exact &&
		    !code_info_find(&code->info, to->start + (uint32_t)(frame->pc - address),
				    &code->place);
	to->function = hash_u64(file->serial << 32 ^ methods->code);
	if (name_methods(code, scope, maps_find(scope->maps, address), slot, methods, count,
			 has_place, name, &to->line))
		to->name = strdup(name);
	else
		to->until = code->unwinding + RETRY_AFTER;
	return 0;
}

static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	struct oat_code *code = self;
	uint64_t serial = scope->maps->serial;
	struct pc_slot *slot = &code->pcs[(hash_u64(frame->pc) + serial) & (PC_SLOTS - 1)], found;
	struct module_oat file;
	int err;

	if (!serial || slot->serial != serial || slot->pc != frame->pc ||
	    slot->exact != frame->exact || (slot->until && code->unwinding > slot->until)) {
		found = (struct pc_slot){.serial = serial, .pc = frame->pc, .exact = frame->exact};
		if (!modules_oat(code->modules, scope, address, &file))
			return -ENOENT;
		err = look_up(code, scope, address, &file, frame, &found);
		/* Its registers are used in another way than elsewhere: nothing is guessed. */
		if (err)
			return -EPROTO;
		free(slot->name);
		*slot = found;
	}
	fill(code, slot, address, frame);
	*row = give_row(code, scope->arch, &slot->row);
	return 0;
}

static const char *name_of(void *self, const struct stack_frame *frame)
{
	const struct oat_code *code = self;

	return frame->provided ? frame_names_find(code->names, frame->pc) : NULL;
}

static void begin(void *self)
{
	struct oat_code *code = self;

	code->unwinding++;
	frame_names_clear(&code->names);
}

static void free_code(void *self)
{
	struct oat_code *code = self;

	frame_names_clear(&code->names);
	for (size_t i = 0; i < PC_SLOTS; i++)
		free(code->pcs[i].name);
	for (size_t i = 0; i < OAT_FILES; i++)
		drop(code, &code->slots[i]);
	free(code->row);
	free(code);
}

const struct code_provider oat_code_provider = {
	.locate = locate, .name = name_of, .begin = begin, .free = free_code};
