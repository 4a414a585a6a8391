/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack/elf_object.h"
#include "stack/module_table.h"
#include "util/hash.h"

#define VDSO_LIMIT  (256u << 10)
#define MEMORY_STEP (32u << 10) /* asked for at a time */
#define PATH_LIMIT  4096
#define REFUSED_FOR 64 /* unwindings, before a refused file is asked for again */

static size_t path_len(const struct map_entry *entry)
{
	return entry->path_len < PATH_LIMIT ? entry->path_len : PATH_LIMIT;
}

static bool path_begins(const struct module_scope *scope, const struct map_entry *entry,
			const char *with)
{
	size_t len = strlen(with);

	return entry->path_len >= len && !memcmp(maps_path(scope->maps, entry), with, len);
}

/* Where in the file the ELF of this mapping starts: at the nearest mapping up to this one of the
 * same file that begins with the magic; that is how an ELF stored in an APK shows. Between them
 * there may be others ([page size compat] of Android 15). */
static bool elf_start(const struct stack_maps *maps, const struct map_entry *entry, int fd,
		      uint64_t *start)
{
	const struct map_entry *of = entry;
	uint64_t offset = entry->offset;
	char magic[4];

	for (unsigned steps = 0; steps < 64 && entry >= maps->entries; steps++, entry--) {
		if (entry->inode != of->inode || entry->dev != of->dev)
			continue;
		if (entry->offset > offset)
			break;
		offset = entry->offset;
		if (pread(fd, magic, sizeof(magic), offset) == sizeof(magic) &&
		    !memcmp(magic, "\177ELF", sizeof(magic)))
			goto found;
	}
	offset = 0;
	if (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) ||
	    memcmp(magic, "\177ELF", sizeof(magic)))
		return false;
found:
	*start = offset;
	return true;
}

static int read_process(const struct modules *m, const struct module_scope *scope, uint64_t address,
			void *to, size_t len)
{
	for (size_t done = 0; done < len;) {
		size_t ask = len - done < MEMORY_STEP ? len - done : MEMORY_STEP;
		ssize_t n = m->files->memory(m->files->ctx, &scope->process, address + done,
					     (char *)to + done, ask);

		if (n <= 0)
			return n < 0 ? (int)n : -EFAULT;
		done += (size_t)n;
	}
	return 0;
}

/* The vdso has no file. It is known by its bytes: a process can bring one of its own, which must
 * not name the frames of others. */
static struct module *vdso_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry)
{
	size_t len = entry->end - entry->start;
	struct module_key key;
	struct elf_file elf;
	struct module *module;
	uint8_t *bytes;

	if (len > VDSO_LIMIT || !(bytes = malloc(len)))
		return NULL;
	if (read_process(m, scope, entry->start, bytes, len)) {
		free(bytes);
		return NULL;
	}
	key = (struct module_key){.dev = UINT64_MAX,
				  .inode = hash_bytes(bytes, len, 1),
				  .start = scope->arch,
				  .size = len};
	module = module_find(m, &key);
	if (module && module->elf && !memcmp(module->elf->memory, bytes, len)) {
		free(bytes);
		return module;
	}
	if (module || elf_file_open_memory(&elf, bytes, len)) {
		if (module)
			free(bytes);
		return NULL;
	}
	if (elf.arch != scope->arch) {
		elf_file_close(&elf);
		return NULL;
	}
	module = module_add(m, &key, "[vdso]", strlen("[vdso]"), &elf);
	if (module)
		module->kind = FRAME_VDSO;
	return module;
}

/* A module that has no bytes to look at: it only names the mapping. */
static struct module *bare_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry, bool jit)
{
	const char *path = maps_path(scope->maps, entry);
	struct module_key key = {.dev = UINT64_MAX - 1 - entry->dev,
				 .inode = entry->inode,
				 .start = hash_bytes(path, path_len(entry), jit)};
	struct module *module = module_find(m, &key);

	if (module || !entry->path_len)
		return module;
	module = module_add(m, &key, path, path_len(entry), NULL);
	if (module) {
		module->jit = jit;
		module->kind = jit ? FRAME_JIT : FRAME_NATIVE;
	}
	return module;
}

/* The file of a process that is gone, if it was met before: inode numbers are used again, but not
 * while the file is open here. */
static struct module *known_module(struct modules *m, const struct map_entry *entry)
{
	struct module *best = NULL;

	for (uint32_t i = 1; i < m->count; i++) {
		struct module *module = m->table[i];

		if (module && module->listed && module->elf && module->maps_inode == entry->inode &&
		    module->maps_dev == entry->dev && module->key.start <= entry->offset &&
		    (!best || module->key.start > best->key.start))
			best = module;
	}
	return best;
}

/* *until: the last unwinding in which the answer stands, where it is not for good: the target could
 * not be asked now, or the file is one that is left alone for a while (unwinder_needs.c). */
static struct module *file_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry, uint64_t *until)
{
	struct stack_mapping mapping = {entry->start,   entry->end, entry->offset,
					entry->inode,   entry->dev, maps_path(scope->maps, entry),
					entry->path_len};
	struct stack_file_version version;
	struct stack_file file;
	struct module *module;
	struct module_key key;
	struct elf_file elf;
	uint64_t start;
	int err;

	/* Opening a device may do something. Code in one is ashmem, or a shared /dev/zero. */
	if (path_begins(scope, entry, "/dev/"))
		return bare_module(m, scope, entry, true);
	err = m->files->open(m->files->ctx, &scope->process, &mapping, &file);
	if (err) {
		module = known_module(m, entry);
		if (module)
			return module;
		if (err == -EBUSY || err == -ETIMEDOUT || err == -EPIPE || err == -EMFILE)
			*until = m->unwinding;
		else if (err == -EACCES)
			*until = m->unwinding + REFUSED_FOR;
		if (path_begins(scope, entry, "/memfd:"))
			return bare_module(m, scope, entry, true);
		m->losses.elf_unreadable++;
		return bare_module(m, scope, entry, false);
	}
	version = (struct stack_file_version){file.device, file.inode, file.size_bytes,
					      file.ctime_ns};
	if (m->files->reading)
		m->files->reading(m->files->ctx, &version);
	/* Code that no ELF holds (a JIT's memfd) is no loss. */
	if (!elf_start(scope->maps, entry, file.fd, &start)) {
		close(file.fd);
		return bare_module(m, scope, entry, true);
	}
	key = (struct module_key){file.device, file.inode, start, file.size_bytes, file.mtime_ns};
	module = module_find(m, &key);
	if (module) {
		close(file.fd);
		return module;
	}
	if (elf_file_open(&elf, file.fd, key.start)) {
		/* Nor is one whose code happens to begin like an ELF file. */
		if (path_begins(scope, entry, "/memfd:"))
			return bare_module(m, scope, entry, true);
		m->losses.elf_malformed++;
		return bare_module(m, scope, entry, false);
	}
	module = module_add(m, &key, maps_path(scope->maps, entry), path_len(entry), &elf);
	if (module) {
		module->maps_dev = entry->dev;
		module->maps_inode = entry->inode;
		module->file = version;
	}
	return module;
}

/* Names in brackets that are the kernel's own, and no code of a JIT compiler. */
static bool is_special(const struct module_scope *scope, const struct map_entry *entry)
{
	return path_begins(scope, entry, "[v") || path_begins(scope, entry, "[uprobes]") ||
	       path_begins(scope, entry, "[sigpage]");
}

static struct module *module_of(struct modules *m, const struct module_scope *scope,
				const struct map_entry *entry)
{
	uint32_t number = entry - scope->maps->entries;
	uint64_t serial = scope->maps->serial;
	struct entry_slot *slot =
		&m->entries[module_mix(serial << 32 ^ number) & (ENTRY_SLOTS - 1)];
	struct module *module;
	uint64_t until = 0;

	if (serial && slot->serial == serial && slot->entry == number &&
	    (!slot->until || m->unwinding <= slot->until)) {
		module = slot->module ? m->table[slot->module] : NULL;
		if (module)
			module->used = ++m->uses;
		return module;
	}
	if (maps_path_is(scope->maps, entry, "[vdso]"))
		module = vdso_module(m, scope, entry);
	else if (entry->inode)
		module = file_module(m, scope, entry, &until);
	else
		module = bare_module(m, scope, entry, !is_special(scope, entry));
	if (module)
		modules_make_room(m, module);
	*slot = (struct entry_slot){serial, until, number, module ? module->id : 0};
	return module;
}

/* What cannot be read now is not remembered as such. */
static bool is_settled(const struct modules *m, const struct module_scope *scope,
		       const struct map_entry *entry)
{
	uint32_t number = entry - scope->maps->entries;
	uint64_t serial = scope->maps->serial;
	const struct entry_slot *slot =
		&m->entries[module_mix(serial << 32 ^ number) & (ENTRY_SLOTS - 1)];

	return slot->serial == serial && slot->entry == number && !slot->until;
}

/* Where what ART's compiler wrote begins; 0: another one made the file. */
static uint64_t oatdata_of(struct modules *m, struct module *module)
{
	static const char *const name[] = {"oatdata"};

	if (!module->oat_known) {
		module_tell_reading(m, module);
		elf_find_exported(module->elf, name, 1, &module->oatdata);
		module->oat_known = true;
	}
	return module->oatdata;
}

static int locate_slowly(struct modules *m, const struct module_scope *scope, uint64_t address,
			 struct stack_frame *frame, const struct cfi_row **row, bool *settled)
{
	const struct map_entry *entry = maps_find(scope->maps, address);
	const struct elf_symbol *symbol;
	struct module *module;
	uint64_t in_file, at, function;
	int err;

	if (!entry || !(entry->flags & MAP_EXEC))
		return -EFAULT;
	module = module_of(m, scope, entry);
	*settled = is_settled(m, scope, entry);
	in_file = address - entry->start + entry->offset;
	if (!module) {
		if (entry->inode || is_special(scope, entry))
			return -ENOEXEC;
		frame->kind = FRAME_JIT;
		return -ENODEV;
	}
	frame->module = module->id;
	frame->kind = module->kind;
	frame->offset = in_file + (frame->pc - address);
	frame->function = module_mix(module->function_seed ^ frame->offset);
	if (module->jit)
		return -ENODEV;
	if (!module->elf || module->elf->arch != scope->arch)
		return -ENOEXEC;
	module_load(m, module);
	frame->oat = oatdata_of(m, module);
	if (!elf_file_address(module->elf,
			      in_file - module->key.start * (module->kind != FRAME_VDSO), &at))
		return -ENOEXEC;
	frame->offset = at + (frame->pc - address);
	err = module_row(m, module, at, row);
	function = !err && *row ? (*row)->function : 0;
	symbol = elf_index_find(&module->index, at, function);
	if (symbol)
		function = symbol->address;
	frame->function = module_mix(module->function_seed ^ (function ? function : frame->offset));
	frame->function_pc = function ? address - (at - function) : 0;
	return err;
}

int modules_locate(struct modules *m, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame, const struct cfi_row **row)
{
	uint64_t serial = scope->maps->serial;
	struct pc_slot *slot = &m->pcs[(module_mix(address) + serial) & (PC_SLOTS - 1)];
	bool settled = false;
	int err;

	if (serial && slot->serial == serial && slot->address == address) {
		frame->module = slot->module;
		frame->kind = slot->kind;
		frame->oat = slot->oat;
		frame->function = slot->function;
		frame->function_pc = slot->function_pc;
		frame->offset = slot->offset + (frame->pc - address);
		*row = slot->row;
		return slot->err;
	}
	*row = NULL;
	err = locate_slowly(m, scope, address, frame, row, &settled);
	if (settled && err != -EFAULT && err != -ENOMEM)
		*slot = (struct pc_slot){serial,
					 address,
					 frame->offset - (frame->pc - address),
					 frame->function,
					 frame->function_pc,
					 *row,
					 frame->module,
					 err,
					 frame->kind,
					 frame->oat};
	return err;
}

int modules_code(struct modules *m, const struct module_scope *scope, uint64_t address, void *to,
		 size_t len)
{
	const struct map_entry *entry = maps_find(scope->maps, address);
	struct module *module;
	uint64_t in_file;

	if (!entry || len > entry->end - address)
		return -EFAULT;
	module = module_of(m, scope, entry);
	in_file = address - entry->start + entry->offset;
	if (module && module->elf && module->kind == FRAME_VDSO)
		return elf_file_read(module->elf, in_file, to, len);
	if (module && module->elf && in_file >= module->key.start) {
		module_tell_reading(m, module);
		return elf_file_read(module->elf, in_file - module->key.start, to, len);
	}
	return read_process(m, scope, address, to, len);
}

void modules_prime(struct modules *m, const struct module_scope *scope)
{
	for (size_t i = 0; i < scope->maps->count; i++)
		if (maps_path_is(scope->maps, &scope->maps->entries[i], "[vdso]"))
			module_of(m, scope, &scope->maps->entries[i]);
}

static void know_runtime(struct modules *m, struct module *module)
{
	static const char *const names[RUNTIME_SYMBOLS] = {"__jit_debug_descriptor",
							   "__dex_debug_descriptor"};

	if (module->runtime_known)
		return;
	module_tell_reading(m, module);
	elf_find_objects(module->elf, names, RUNTIME_SYMBOLS, module->runtime);
	module->runtime_known = true;
}

bool modules_runtime(struct modules *m, const struct module_scope *scope,
		     const struct map_entry *entry, uint64_t addresses[RUNTIME_SYMBOLS])
{
	struct module *module = module_of(m, scope, entry);
	bool any = false;
	uint64_t at;

	if (!module || !module->elf || module->elf->arch != scope->arch ||
	    !elf_file_address(module->elf, entry->offset - module->key.start, &at))
		return false;
	know_runtime(m, module);
	for (unsigned i = 0; i < RUNTIME_SYMBOLS; i++) {
		addresses[i] = module->runtime[i] ? entry->start - at + module->runtime[i] : 0;
		any |= module->runtime[i] != 0;
	}
	return any;
}

bool modules_oat(struct modules *m, const struct module_scope *scope, uint64_t address,
		 struct module_oat *oat)
{
	const struct map_entry *entry = maps_find(scope->maps, address);
	struct module *module = entry ? module_of(m, scope, entry) : NULL;
	uint64_t in_file;

	/* ART's compiler writes no .eh_frame. */
	if (!module || !module->elf || module->elf->arch != scope->arch ||
	    module->kind == FRAME_VDSO || module->elf->eh_frame.size)
		return false;
	in_file = address - entry->start + entry->offset - module->key.start;
	if (!oatdata_of(m, module) || !elf_file_address(module->elf, in_file, &oat->address))
		return false;
	module_tell_reading(m, module);
	oat->elf = module->elf;
	oat->oatdata = module->oatdata;
	oat->serial = module->serial;
	return true;
}

uint32_t modules_mapping(struct modules *m, const struct module_scope *scope,
			 const struct map_entry *entry)
{
	struct module *module = bare_module(m, scope, entry, false);

	if (!module)
		return 0;
	module->used = ++m->uses;
	modules_make_room(m, module);
	return module->id;
}

struct module_description modules_describe(const struct modules *m, uint32_t module)
{
	if (!module || module >= m->count || !m->table[module])
		return (struct module_description){0};
	return (struct module_description){m->table[module]->path, m->table[module]->build_id,
					   m->table[module]->serial};
}

int modules_symbol(struct modules *m, uint32_t number, uint64_t offset,
		   char name[ELF_INDEX_NAME_BYTES])
{
	const struct cfi_row *row = NULL;
	const struct elf_symbol *symbol;
	struct module *module;

	if (!number || number >= m->count || !(module = m->table[number]) || !module->elf)
		return -ENOENT;
	module_load(m, module);
	if (module_row(m, module, offset, &row))
		row = NULL;
	symbol = elf_index_find(&module->index, offset, row ? row->function : 0);
	if (!symbol)
		return -ENOENT;
	module_tell_reading(m, module);
	if (elf_index_name(&module->index, module->elf, symbol, name))
		return -ENOENT;
	return 0;
}

void modules_losses(const struct modules *m, struct stack_unwind_losses *losses)
{
	*losses = m->losses;
}
