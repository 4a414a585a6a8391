/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/dex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/code/dex_archive.h"
#include "stack/code/dex_cache.h"
#include "stack/code/dex_list.h"
#include "stack/code/names.h"
#include "stack/code/process_bytes.h"
#include "util/hash.h"

#define ARCHIVES      32  /* each with an open file */
#define MAPPING_SLOTS 256 /* mappings that are remembered; a power of two */
#define PC_SLOTS      512 /* of byte code in files, remembered; a power of two */
#define REFUSED_FOR   64  /* unwindings, before a file is asked for again */
#define CANDIDATES    4

/* What a mapping is of: as struct entry_slot of the modules. */
struct mapping_slot {
	uint64_t serial, until;
	uint32_t entry;
	struct stack_file_version version; /* inode 0: of no archive */
};

struct pc_slot {
	uint64_t serial, pc;
	uint32_t offset, line;
	char *name;
};

struct dex_code {
	const struct stack_files *files;
	struct modules *modules;
	struct dex_cache *cache;
	struct dex_list *list;
	struct {
		struct dex_archive *is;
		uint64_t used;
	} archives[ARCHIVES];
	struct mapping_slot mappings[MAPPING_SLOTS];
	struct pc_slot pcs[PC_SLOTS];
	struct frame_name *names; /* of the unwinding under way */
	uint64_t uses, unwinding;
	size_t name_bytes; /* of pcs */
};

struct dex_found {
	uint32_t offset, line; /* line 0: the file does not tell */
	char name[DEX_NAME_BYTES + 16];
};

static void free_code(void *self);

struct dex_code *dex_code_new(const struct stack_files *files, struct modules *modules)
{
	struct dex_code *code = calloc(1, sizeof(*code));

	if (!code)
		return NULL;
	code->files = files;
	code->modules = modules;
	code->cache = dex_cache_new();
	code->list = dex_list_new(files, modules);
	if (code->cache && code->list)
		return code;
	free_code(code);
	return NULL;
}

void dex_code_losses(const struct dex_code *code, struct stack_unwind_losses *losses)
{
	dex_cache_losses(code->cache, losses);
	losses->dex_unread += dex_list_unread(code->list);
}

/* ---- in files ---- */

static struct dex_archive *known_archive(struct dex_code *code,
					 const struct stack_file_version *version)
{
	for (size_t i = 0; i < ARCHIVES; i++) {
		struct dex_archive *archive = code->archives[i].is;

		if (!archive || memcmp(&archive->version, version, sizeof(*version)))
			continue;
		code->archives[i].used = ++code->uses;
		return archive;
	}
	return NULL;
}

static void keep_archive(struct dex_code *code, struct dex_archive *archive)
{
	size_t oldest = 0;

	for (size_t i = 1; i < ARCHIVES; i++)
		if (code->archives[i].used < code->archives[oldest].used)
			oldest = i;
	dex_archive_free(code->archives[oldest].is);
	code->archives[oldest].is = archive;
	code->archives[oldest].used = ++code->uses;
}

static void tell_reading(const struct dex_code *code, const struct stack_file_version *version)
{
	if (code->files->reading)
		code->files->reading(code->files->ctx, version);
}

/* *until as in modules.c. */
static struct dex_archive *open_archive(struct dex_code *code, const struct module_scope *scope,
					const struct map_entry *entry, uint64_t *until)
{
	struct stack_mapping mapping = {entry->start,   entry->end, entry->offset,
					entry->inode,   entry->dev, maps_path(scope->maps, entry),
					entry->path_len};
	struct stack_file_version version;
	struct dex_archive *archive;
	struct stack_file file;
	int err = code->files->open(code->files->ctx, &scope->process, &mapping, &file);

	if (err) {
		*until = code->unwinding + (err == -EACCES ? REFUSED_FOR : 0);
		return NULL;
	}
	version = (struct stack_file_version){file.device, file.inode, file.size_bytes,
					      file.ctime_ns};
	archive = known_archive(code, &version);
	if (archive) {
		close(file.fd);
		return archive;
	}
	tell_reading(code, &version);
	archive = dex_archive_open(&file);
	dex_cache_count(code->cache, archive ? archive->wrong : -errno);
	if (!archive)
		return NULL;
	dex_cache_count(code->cache, archive->cut ? -EFBIG : 0);
	keep_archive(code, archive);
	return archive;
}

/* A device's file may do something when it is opened. */
static bool is_device(const struct module_scope *scope, const struct map_entry *entry)
{
	return entry->path_len >= 5 && !memcmp(maps_path(scope->maps, entry), "/dev/", 5);
}

static struct dex_archive *archive_of(struct dex_code *code, const struct module_scope *scope,
				      const struct map_entry *entry)
{
	uint32_t number = (uint32_t)(entry - scope->maps->entries);
	uint64_t serial = scope->maps->serial, until = 0;
	struct mapping_slot *slot =
		&code->mappings[hash_u64(serial << 32 ^ number) & (MAPPING_SLOTS - 1)];
	struct dex_archive *archive = NULL;

	if (!entry->inode || is_device(scope, entry))
		return NULL;
	if (serial && slot->serial == serial && slot->entry == number &&
	    (!slot->until || code->unwinding <= slot->until)) {
		if (slot->version.inode)
			archive = known_archive(code, &slot->version);
		if (archive || !slot->version.inode)
			return archive;
	}
	archive = open_archive(code, scope, entry, &until);
	*slot = (struct mapping_slot){.serial = serial, .until = until, .entry = number};
	if (archive)
		slot->version = archive->version;
	return archive;
}

const struct dex_archive *dex_code_archive(struct dex_code *code, const struct module_scope *scope,
					   const struct map_entry *entry)
{
	struct dex_archive *archive = archive_of(code, scope, entry);

	if (archive)
		tell_reading(code, &archive->version);
	return archive;
}

int dex_code_open(struct dex_code *code, const struct module_scope *scope,
		  const struct byte_source *memory, uint64_t address, struct dex_file *dex)
{
	const struct map_entry *entry = maps_find(scope->maps, address);
	const struct dex_archive *archive = entry ? dex_code_archive(code, scope, entry) : NULL;

	for (unsigned i = 0; archive && i < archive->count; i++)
		if (archive->files[i].start == address - entry->start + entry->offset)
			return dex_file_open(dex, &archive->source, archive->files[i].start);
	return dex_file_open(dex, memory, address);
}

static int finish(struct dex_found *found, const struct dex_place *place, const char *name)
{
	found->offset = place->pc;
	/* Which of the methods it is, nothing of the code tells. */
	snprintf(found->name, sizeof(found->name), "%s%s", name,
		 place->shared ? " (shared code)" : "");
	return 0;
}

static int find_in_file(struct dex_code *code, const struct module_scope *scope,
			const struct map_entry *entry, uint64_t pc, struct dex_found *found)
{
	struct dex_archive *archive = archive_of(code, scope, entry);
	uint64_t offset = pc - entry->start + entry->offset;
	char name[DEX_NAME_BYTES];
	struct dex_place place;
	int err = -ENOENT;

	if (!archive)
		return -ENOENT;
	tell_reading(code, &archive->version);
	for (unsigned i = 0; i < archive->count && err == -ENOENT; i++) {
		const struct dex_span *span = &archive->files[i];
		struct dex_owner owner = {{archive->version.device, archive->version.inode,
					   archive->version.size_bytes, archive->version.ctime_ns}};

		if (offset < span->begin || offset >= span->end)
			continue;
		err = dex_cache_find(code->cache, &owner, &archive->source, span->start, offset,
				     &place, name, &found->line);
	}
	return err ? err : finish(found, &place, name);
}

/* ---- in memory ---- */

static int find_in_memory(struct dex_code *code, const struct module_scope *scope, uint64_t start,
			  uint64_t pc, struct dex_found *found)
{
	struct process_bytes bytes = {code->files, &scope->process, 0};
	struct byte_source source = process_bytes_source(&bytes);
	struct dex_owner owner = {{(uint64_t)scope->process.pid, scope->process.start_ticks, 0, 0}};
	char name[DEX_NAME_BYTES];
	struct dex_place place;
	int err =
		dex_cache_find(code->cache, &owner, &source, start, pc, &place, name, &found->line);

	return err ? err : finish(found, &place, name);
}

/* Where the runtime says that a file is; or at the start of memory without a file, which ART calls
 * after the DEX file that it unpacked into it (MemMap names, "dalvik-classes.dex extracted ..."; of
 * Android 9 it is in /dev/ashmem). */
static int find_by_list(struct dex_code *code, const struct module_scope *scope,
			const struct map_entry *entry, uint64_t pc, struct dex_found *found)
{
	uint64_t starts[CANDIDATES + 1];
	size_t count = dex_list_find(code->list, scope, pc, starts, CANDIDATES);
	int err = -ENOENT;

	if (entry && (!entry->inode || is_device(scope, entry)))
		starts[count++] = entry->start;
	for (size_t i = 0; i < count && err; i++)
		err = find_in_memory(code, scope, starts[i], pc, found);
	return err;
}

/* ---- the provider ---- */

static size_t name_bytes(const struct pc_slot *slot)
{
	return slot->name ? strlen(slot->name) + 1 : 0;
}

static void remember(struct dex_code *code, struct pc_slot *slot, uint64_t serial, uint64_t pc,
		     const struct dex_found *found)
{
	char *name = strdup(found->name);

	if (!serial || !name) {
		free(name);
		return;
	}
	code->name_bytes -= name_bytes(slot);
	free(slot->name);
	slot->serial = serial;
	slot->pc = pc;
	slot->offset = found->offset;
	slot->line = found->line;
	slot->name = name;
	code->name_bytes += name_bytes(slot);
}

static void fill(struct dex_code *code, const struct module_scope *scope,
		 const struct map_entry *entry, uint32_t offset, uint32_t line, const char *name,
		 struct stack_frame *frame)
{
	frame->kind = FRAME_DEX;
	frame->offset = offset;
	frame->line = line;
	frame->function = hash_bytes(name, strlen(name), 5);
	frame->function_pc = frame->pc - 2ull * offset;
	frame->module = entry ? modules_mapping(code->modules, scope, entry) : 0;
	frame_names_keep(&code->names, frame->pc, name);
}

static int locate_dex(void *self, const struct module_scope *scope, uint64_t pc,
		      struct stack_frame *frame)
{
	struct dex_code *code = self;
	const struct map_entry *entry = maps_find(scope->maps, pc);
	uint64_t serial = scope->maps->serial;
	struct pc_slot *slot = &code->pcs[(hash_u64(pc) + serial) & (PC_SLOTS - 1)];
	struct dex_found found;
	int err;

	if (serial && slot->serial == serial && slot->pc == pc) {
		fill(code, scope, entry, slot->offset, slot->line, slot->name, frame);
		return 0;
	}
	err = entry ? find_in_file(code, scope, entry, pc, &found) : -ENOENT;
	/* What is in a file stays as long as its mapping does; memory may be another file's. */
	if (!err)
		remember(code, slot, serial, pc, &found);
	else
		err = find_by_list(code, scope, entry, pc, &found);
	if (!err)
		fill(code, scope, entry, found.offset, found.line, found.name, frame);
	return err;
}

/* Code of the machine is another's affair. */
static int locate(void *self, const struct module_scope *scope, uint64_t address,
		  struct stack_frame *frame, const struct cfi_row **row)
{
	return -ENOENT;
}

static const char *name_of(void *self, const struct stack_frame *frame)
{
	const struct dex_code *code = self;

	if (frame->kind != FRAME_DEX)
		return NULL;
	return frame_names_find(code->names, frame->pc);
}

static void begin(void *self)
{
	struct dex_code *code = self;

	code->unwinding++;
	if (code->cache)
		dex_cache_begin(code->cache, CODE_USE(code->unwinding));
	frame_names_clear(&code->names);
}

static size_t bytes_of(const void *self)
{
	const struct dex_code *code = self;
	size_t bytes = dex_cache_bytes(code->cache) + dex_list_bytes(code->list) + code->name_bytes;

	for (size_t i = 0; i < ARCHIVES; i++)
		bytes += code->archives[i].is ? dex_archive_bytes(code->archives[i].is) : 0;
	return bytes;
}

static uint64_t oldest_use(const void *self)
{
	return dex_cache_oldest(((const struct dex_code *)self)->cache);
}

static bool give_back(void *self)
{
	return dex_cache_give_back(((struct dex_code *)self)->cache);
}

static void free_code(void *self)
{
	struct dex_code *code = self;

	begin(code);
	for (size_t i = 0; i < PC_SLOTS; i++)
		free(code->pcs[i].name);
	for (size_t i = 0; i < ARCHIVES; i++)
		dex_archive_free(code->archives[i].is);
	dex_list_free(code->list);
	dex_cache_free(code->cache);
	free(code);
}

const struct code_provider dex_code_provider = {.locate = locate,
						.locate_dex = locate_dex,
						.name = name_of,
						.begin = begin,
						.free = free_code,
						.bytes = bytes_of,
						.oldest = oldest_use,
						.give_back = give_back};
