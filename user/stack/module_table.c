/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/module_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"

#define MAX_OPEN   256         /* files held open at a time */
#define MAX_BARE   256         /* modules without a file from one unwinding to the next */
#define MINI_LIMIT (64u << 20) /* unpacked MiniDebugInfo */

struct modules *modules_new(const struct stack_files *files, size_t cache_bytes)
{
	struct modules *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->files = files;
	m->budget = cache_bytes;
	m->pcs = calloc(PC_SLOTS, sizeof(*m->pcs));
	m->entries = calloc(ENTRY_SLOTS, sizeof(*m->entries));
	m->count = 1;
	if (!m->pcs || !m->entries) {
		modules_free(m);
		errno = ENOMEM;
		return NULL;
	}
	return m;
}

void module_count_bytes(struct modules *m, struct module *module, size_t bytes)
{
	module->bytes += bytes;
	m->bytes += bytes;
}

static void drop_rows(struct modules *m, struct module *module)
{
	for (unsigned i = 0; module->rows && i < ROW_BUCKETS; i++) {
		for (struct row_node *node = module->rows[i], *next; node; node = next) {
			next = node->next;
			cfi_row_free(node->row);
			free(node);
			m->rows--;
		}
	}
	free(module->rows);
	module->rows = NULL;
	m->bytes -= module->row_bytes;
	module->bytes -= module->row_bytes;
	module->row_bytes = 0;
}

/* Give back everything but what frames of the trace in the making refer to. */
static void retire(struct modules *m, struct module *module)
{
	drop_rows(m, module);
	cfi_tables_free(module->tables);
	module->tables = NULL;
	elf_index_free(&module->index);
	if (module->elf) {
		elf_file_close(module->elf);
		free(module->elf);
		module->elf = NULL;
		m->open--;
	}
	m->bytes -= module->bytes;
	module->bytes = module->kept_bytes = 0;
	if (module->listed) {
		HASH_DEL(m->by_key, module);
		m->listed--;
	}
	module->listed = false;
	/* What was remembered may point to the rows that are gone. */
	memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	memset(m->entries, 0, ENTRY_SLOTS * sizeof(*m->entries));
}

static void free_module(struct modules *m, struct module *module)
{
	m->table[module->id] = NULL;
	module_names_free(m, module);
	free(module->path);
	free(module->build_id);
	free(module);
}

void modules_free(struct modules *m)
{
	if (!m)
		return;
	for (uint32_t i = 1; i < m->count; i++) {
		if (!m->table[i])
			continue;
		retire(m, m->table[i]);
		free_module(m, m->table[i]);
	}
	free(m->entries);
	free(m->pcs);
	free(m);
}

size_t modules_bytes(const struct modules *m)
{
	return m->bytes;
}

/* Of those with a file (open), or of those without, the one that was not used for longest. */
static struct module *oldest_module(const struct modules *m, const struct module *keep, bool open)
{
	struct module *oldest = NULL;

	for (uint32_t i = 1; i < m->count; i++) {
		struct module *module = m->table[i];

		if (module && module != keep && module->listed && !module->elf == !open &&
		    (!oldest || module->used < oldest->used))
			oldest = module;
	}
	return oldest;
}

void modules_make_room(struct modules *m, const struct module *keep)
{
	while (m->bytes > m->budget || m->open > MAX_OPEN || m->rows > MAX_ROWS) {
		struct module *oldest = oldest_module(m, keep, true);

		if (!oldest)
			break;
		retire(m, oldest);
	}
	if (m->rows > MAX_ROWS && keep) {
		drop_rows(m, m->table[keep->id]);
		memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	}
}

void modules_begin(struct modules *m)
{
	m->unwinding++;
	if (m->listed - m->open > MAX_BARE) {
		while (m->listed - m->open > MAX_BARE / 4 * 3)
			retire(m, oldest_module(m, NULL, false));
	}
	for (uint32_t i = 1; i < m->count; i++) {
		struct module *module = m->table[i];

		/* What goes with the module only is not to be most of what it is. */
		if (module && module->listed &&
		    module->row_bytes + module->kept_bytes > m->budget / 2)
			retire(m, module);
		if (module && !module->listed)
			free_module(m, module);
	}
	while (m->count > 1 && !m->table[m->count - 1])
		m->count--;
}

uint64_t module_mix(uint64_t value)
{
	return hash_u64(value ^ 0x9e3779b97f4a7c15ull);
}

struct module *module_find(struct modules *m, const struct module_key *key)
{
	struct module *module;

	HASH_FIND(hh, m->by_key, key, sizeof(*key), module);
	if (module)
		module->used = ++m->uses;
	return module;
}

static uint32_t free_id(const struct modules *m)
{
	uint32_t id = m->count;

	if (id < MAX_MODULES)
		return id;
	for (id = 1; id < MAX_MODULES && m->table[id]; id++)
		;
	return id;
}

struct module *module_add(struct modules *m, const struct module_key *key, const char *path,
			  size_t path_len, struct elf_file *elf)
{
	struct module *module = NULL;
	struct elf_file *own = elf ? malloc(sizeof(*own)) : NULL;
	uint32_t id = free_id(m);

	if (id == MAX_MODULES) {
		m->losses.modules_full++;
		goto fail;
	}
	module = calloc(1, sizeof(*module));
	if (!module || (elf && !own) || !(module->path = strndup(path, path_len)))
		goto fail;
	if (elf && elf->build_id_bytes) {
		module->build_id = malloc(elf->build_id_bytes * 2 + 1);
		if (!module->build_id)
			goto fail;
		for (unsigned i = 0; i < elf->build_id_bytes; i++)
			sprintf(module->build_id + i * 2, "%02x", elf->build_id[i]);
		module->function_seed = hash_bytes(elf->build_id, elf->build_id_bytes, 0);
	} else {
		module->function_seed = hash_bytes(path, path_len, 0) ^ module_mix(key->start);
	}
	if (elf) {
		*own = *elf;
		module->elf = own;
		m->open++;
	}
	module->key = *key;
	module->tables_err = -ENODATA;
	module->serial = ++m->serial;
	module->used = ++m->uses;
	module->id = id;
	m->table[id] = module;
	if (id == m->count)
		m->count++;
	HASH_ADD(hh, m->by_key, key, sizeof(module->key), module);
	module->listed = true;
	m->listed++;
	module_count_bytes(m, module, sizeof(*module) + path_len);
	if (elf)
		module_count_bytes(m, module, sizeof(*own) + (elf->fd < 0 ? elf->size : 0));
	return module;
fail:
	if (elf)
		elf_file_close(elf);
	free(own);
	if (module)
		free(module->path);
	free(module);
	return NULL;
}

void module_tell_reading(const struct modules *m, const struct module *module)
{
	if (m->files->reading && module->elf && module->elf->fd >= 0)
		m->files->reading(m->files->ctx, &module->file);
}

void module_load(struct modules *m, struct module *module)
{
	struct elf_file mini;
	bool has_mini;

	module->used = ++m->uses;
	if (module->loaded || !module->elf)
		return;
	module->loaded = true;
	module_tell_reading(m, module);
	has_mini = !elf_file_open_minidebug(module->elf, MINI_LIMIT, &mini);
	module->tables_err = cfi_tables_new(module->elf, has_mini ? &mini : NULL, &module->tables);
	if (module->tables_err && module->tables_err != -ENODATA)
		m->losses.elf_tables_bad++;
	if (elf_index_build(&module->index, module->elf, has_mini ? &mini : NULL))
		m->losses.symbols_dropped++;
	m->losses.symbols_dropped += module->index.dropped;
	if (has_mini)
		elf_file_close(&mini);
	module_count_bytes(m, module,
			   elf_index_bytes(&module->index) +
				   (module->tables ? cfi_tables_bytes(module->tables) : 0));
	modules_make_room(m, module);
}

static void count_row(struct modules *m, struct module *module, size_t bytes)
{
	module_count_bytes(m, module, bytes);
	module->row_bytes += bytes;
}

int module_row(struct modules *m, struct module *module, uint64_t address,
	       const struct cfi_row **row)
{
	struct row_node **bucket, *node;

	if (!module->tables)
		return module->tables_err == -ENODATA ? -ENODATA : -EBADMSG;
	if (!module->rows)
		goto make;
	bucket = &module->rows[module_mix(address) & (ROW_BUCKETS - 1)];
	for (node = *bucket; node; node = node->next) {
		if (node->address == address) {
			*row = node->row;
			return node->err;
		}
	}
make:
	if (m->rows >= MAX_ROWS) {
		drop_rows(m, module);
		modules_make_room(m, module);
		memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	} else if (m->bytes > m->budget) {
		modules_make_room(m, module);
	}
	if (!module->rows) {
		module->rows = calloc(ROW_BUCKETS, sizeof(*module->rows));
		if (!module->rows)
			return -ENOMEM;
		count_row(m, module, ROW_BUCKETS * sizeof(*module->rows));
	}
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->address = address;
	node->err = cfi_row_at(module->tables, address, &node->row);
	m->rows++;
	count_row(m, module, sizeof(*node) + cfi_row_bytes(node->row));
	module_count_bytes(m, module, CFI_LOOK_BYTES);
	module->kept_bytes += CFI_LOOK_BYTES;
	bucket = &module->rows[module_mix(address) & (ROW_BUCKETS - 1)];
	node->next = *bucket;
	*bucket = node;
	*row = node->row;
	return node->err;
}
