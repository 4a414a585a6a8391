/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uthash.h>

#define MAX_MODULES (1u << 16)
#define MAX_OPEN    256  /* files held open at a time */
#define PC_SLOTS    8192 /* addresses remembered; a power of two */
#define ENTRY_SLOTS 1024 /* mappings remembered; a power of two */
#define ROW_BUCKETS 1024
#define MAX_ROWS    32768       /* rows of all modules */
#define MINI_LIMIT  (64u << 20) /* unpacked MiniDebugInfo */
#define VDSO_LIMIT  (256u << 10)

/* The file as it was when it was opened: an inode number alone may be used again. */
struct module_key {
	uint64_t dev, inode, start, size, mtime_ns;
};

struct row_node {
	struct row_node *next;
	uint64_t address;
	struct cfi_row *row; /* NULL: err says why */
	int err;
};

struct module {
	struct module_key key;
	UT_hash_handle hh;
	uint32_t id;
	enum frame_kind kind;
	char *path, *build_id;
	uint64_t function_seed;
	struct elf_file *elf; /* NULL: unreadable, no ELF, or retired */
	struct cfi_tables *tables;
	int tables_err;
	struct elf_index index;
	bool loaded, listed;
	struct row_node *rows[ROW_BUCKETS];
	size_t bytes;
	uint64_t used;
};

struct pc_slot {
	uint64_t serial, address, offset, function;
	const struct cfi_row *row;
	uint32_t module;
	int16_t err;
	uint8_t kind;
};

struct entry_slot {
	uint64_t serial;
	uint32_t entry, module;
};

struct modules {
	struct module *by_key;
	struct module **table; /* by id; 0 is "no module" */
	uint32_t count, open;
	size_t bytes, budget, rows;
	uint64_t uses;
	struct pc_slot *pcs;
	struct entry_slot *entries;
	uint64_t elf_unreadable, elf_malformed, modules_full, symbols_dropped, tables_bad;
};

struct modules *modules_new(size_t cache_bytes)
{
	struct modules *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->budget = cache_bytes;
	m->pcs = calloc(PC_SLOTS, sizeof(*m->pcs));
	m->entries = calloc(ENTRY_SLOTS, sizeof(*m->entries));
	m->table = calloc(MAX_MODULES, sizeof(*m->table));
	m->count = 1;
	if (!m->pcs || !m->entries || !m->table) {
		modules_free(m);
		errno = ENOMEM;
		return NULL;
	}
	return m;
}

static void drop_rows(struct modules *m, struct module *module)
{
	for (unsigned i = 0; i < ROW_BUCKETS; i++) {
		for (struct row_node *node = module->rows[i], *next; node; node = next) {
			next = node->next;
			cfi_row_free(node->row);
			free(node);
			m->rows--;
		}
		module->rows[i] = NULL;
	}
}

/* Give back everything but what frames refer to: path and build-id. */
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
	module->bytes = 0;
	if (module->listed)
		HASH_DEL(m->by_key, module);
	module->listed = false;
	/* What was remembered may point to the rows that are gone. */
	memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	memset(m->entries, 0, ENTRY_SLOTS * sizeof(*m->entries));
}

void modules_free(struct modules *m)
{
	if (!m)
		return;
	for (uint32_t i = 1; i < m->count && m->table; i++) {
		retire(m, m->table[i]);
		free(m->table[i]->path);
		free(m->table[i]->build_id);
		free(m->table[i]);
	}
	free(m->table);
	free(m->entries);
	free(m->pcs);
	free(m);
}

/* Keep within the budget by retiring what was not used for longest, but not keep. */
static void make_room(struct modules *m, const struct module *keep)
{
	while (m->bytes > m->budget || m->open > MAX_OPEN || m->rows > MAX_ROWS) {
		struct module *oldest = NULL;

		for (uint32_t i = 1; i < m->count; i++) {
			struct module *module = m->table[i];

			if (module != keep && module->elf &&
			    (!oldest || module->used < oldest->used))
				oldest = module;
		}
		if (!oldest)
			break;
		retire(m, oldest);
	}
	if (m->rows > MAX_ROWS && keep) {
		drop_rows(m, m->table[keep->id]);
		memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	}
}

static uint64_t mix(uint64_t value)
{
	/* the finaliser of splitmix64: every bit of the input reaches every bit of the output */
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

static uint64_t hash_bytes(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t hash = len;

	for (size_t i = 0; i < len; i++)
		hash = mix(hash ^ p[i]);
	return hash;
}

/* Take over elf (NULL: there is none) as the module of a mapping. NULL: no memory or no room. */
static struct module *add_module(struct modules *m, const struct module_key *key, const char *path,
				 size_t path_len, struct elf_file *elf)
{
	struct module *module = NULL;
	struct elf_file *own = elf ? malloc(sizeof(*own)) : NULL;

	if (m->count == MAX_MODULES) {
		m->modules_full++;
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
		module->function_seed = hash_bytes(elf->build_id, elf->build_id_bytes);
	} else {
		module->function_seed = hash_bytes(path, path_len) ^ mix(key->start);
	}
	if (elf) {
		*own = *elf;
		module->elf = own;
		m->open++;
	}
	module->key = *key;
	module->tables_err = -ENODATA;
	module->id = m->count;
	m->table[m->count++] = module;
	HASH_ADD(hh, m->by_key, key, sizeof(module->key), module);
	module->listed = true;
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

/* Open the file behind a mapping: by map_files, which also reaches deleted files and other mount
 * namespaces; else by its path there, if that still is the same file. */
static int open_mapping(const struct module_scope *scope, const struct map_entry *entry)
{
	char path[4600];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%d/map_files/%llx-%llx", scope->root, scope->pid,
		 (unsigned long long)entry->start, (unsigned long long)entry->end);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		return fd;
	if (entry->path_len > 4096)
		return -ENAMETOOLONG;
	for (unsigned own = 0; own < 2; own++) {
		int n = own ? snprintf(path, sizeof(path), "%s", scope->root)
			    : snprintf(path, sizeof(path), "%s/proc/%d/root", scope->root,
				       scope->pid);

		snprintf(path + n, sizeof(path) - n, "%.*s", (int)entry->path_len,
			 maps_path(scope->maps, entry));
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd < 0)
			continue;
		/* The device number of maps is the superblock's, which some file systems do not
		 * report by stat: the inode must do. */
		if (!fstat(fd, &st) && st.st_ino == entry->inode)
			return fd;
		close(fd);
	}
	return -ENOENT;
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

static ssize_t read_process(pid_t pid, uint64_t address, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)address, len};

	return process_vm_readv(pid, &local, 1, &remote, 1, 0);
}

/* The vdso has no file: take it from the process, or, when that is gone, our own, which is the same
 * page of the same kernel. */
static struct module *vdso_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry)
{
	struct module_key key = {.dev = UINT64_MAX, .inode = 1, .start = scope->arch};
	size_t len = entry->end - entry->start;
	struct elf_file elf;
	struct module *module;
	uint8_t *bytes;
	int fd;

	HASH_FIND(hh, m->by_key, &key, sizeof(key), module);
	if (module || len > VDSO_LIMIT)
		return module;
	bytes = malloc(len);
	if (!bytes)
		return NULL;
	if (read_process(scope->pid, entry->start, bytes, len) != (ssize_t)len) {
		uint64_t own = getauxval(AT_SYSINFO_EHDR);
		ssize_t n = -1;

		fd = own ? open("/proc/self/mem", O_RDONLY | O_CLOEXEC) : -1;
		if (fd >= 0) {
			n = pread(fd, bytes, len, own);
			close(fd);
		}
		if (n != (ssize_t)len) {
			free(bytes);
			return NULL;
		}
	}
	if (elf_file_open_memory(&elf, bytes, len) || elf.arch != scope->arch)
		return NULL;
	module = add_module(m, &key, "[vdso]", strlen("[vdso]"), &elf);
	if (module)
		module->kind = FRAME_VDSO;
	return module;
}

/* A module that has no bytes to look at: it only names the mapping. */
static struct module *bare_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry)
{
	const char *path = maps_path(scope->maps, entry);
	struct module_key key = {.dev = UINT64_MAX - 1 - entry->dev,
				 .inode = entry->inode ?: hash_bytes(path, entry->path_len)};
	struct module *module;

	if (!entry->path_len)
		return NULL;
	HASH_FIND(hh, m->by_key, &key, sizeof(key), module);
	return module
		       ?: add_module(m, &key, path, entry->path_len < 4096 ? entry->path_len : 4096,
				     NULL);
}

static struct module *file_module(struct modules *m, const struct module_scope *scope,
				  const struct map_entry *entry)
{
	struct module *module;
	struct elf_file elf;
	struct module_key key;
	struct stat st;
	uint64_t start;
	int fd, err;

	/* Opening a device may do something. */
	if (entry->path_len > 5 && !memcmp(maps_path(scope->maps, entry), "/dev/", 5))
		return bare_module(m, scope, entry);
	fd = open_mapping(scope, entry);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		m->elf_unreadable++;
		return bare_module(m, scope, entry);
	}
	/* Code that no ELF holds (a JIT's memfd) is no loss. */
	if (!elf_start(scope->maps, entry, fd, &start)) {
		close(fd);
		return bare_module(m, scope, entry);
	}
	key = (struct module_key){st.st_dev, st.st_ino, start, st.st_size,
				  st.st_mtim.tv_sec * 1000000000ull + st.st_mtim.tv_nsec};
	HASH_FIND(hh, m->by_key, &key, sizeof(key), module);
	if (module) {
		close(fd);
		return module;
	}
	err = elf_file_open(&elf, fd, key.start);
	if (err) {
		m->elf_malformed++;
		return bare_module(m, scope, entry);
	}
	return add_module(m, &key, maps_path(scope->maps, entry),
			  entry->path_len < 4096 ? entry->path_len : 4096, &elf);
}

static struct module *module_of(struct modules *m, const struct module_scope *scope,
				const struct map_entry *entry)
{
	uint32_t number = entry - scope->maps->entries;
	struct entry_slot *slot =
		&m->entries[mix(scope->maps->serial << 32 ^ number) & (ENTRY_SLOTS - 1)];
	struct module *module;

	if (scope->maps->serial && slot->serial == scope->maps->serial && slot->entry == number)
		return slot->module ? m->table[slot->module] : NULL;
	if (maps_path_is(scope->maps, entry, "[vdso]"))
		module = vdso_module(m, scope, entry);
	else if (entry->inode)
		module = file_module(m, scope, entry);
	else
		module = bare_module(m, scope, entry);
	if (module)
		make_room(m, module);
	*slot = (struct entry_slot){scope->maps->serial, number, module ? module->id : 0};
	return module;
}

/* Read tables and symbols the first time that a module is met. */
static void load(struct modules *m, struct module *module)
{
	struct elf_file mini;
	bool has_mini;

	module->used = ++m->uses;
	if (module->loaded || !module->elf)
		return;
	module->loaded = true;
	has_mini = !elf_file_open_minidebug(module->elf, MINI_LIMIT, &mini);
	module->tables_err = cfi_tables_new(module->elf, has_mini ? &mini : NULL, &module->tables);
	if (module->tables_err && module->tables_err != -ENODATA)
		m->tables_bad++;
	if (elf_index_build(&module->index, module->elf, has_mini ? &mini : NULL))
		m->symbols_dropped++;
	m->symbols_dropped += module->index.dropped;
	if (has_mini)
		elf_file_close(&mini);
	module->bytes = elf_index_bytes(&module->index) +
			(module->tables ? cfi_tables_bytes(module->tables) : 0);
	m->bytes += module->bytes;
	make_room(m, module);
}

static int row_of(struct modules *m, struct module *module, uint64_t address,
		  const struct cfi_row **row)
{
	struct row_node **bucket = &module->rows[mix(address) & (ROW_BUCKETS - 1)], *node;

	for (node = *bucket; node; node = node->next) {
		if (node->address == address) {
			*row = node->row;
			return node->err;
		}
	}
	if (!module->tables)
		return module->tables_err == -ENODATA ? -ENODATA : -EBADMSG;
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->address = address;
	node->err = cfi_row_at(module->tables, address, &node->row);
	if (m->rows++ >= MAX_ROWS) {
		drop_rows(m, module);
		make_room(m, module);
		memset(m->pcs, 0, PC_SLOTS * sizeof(*m->pcs));
	}
	node->next = *bucket;
	*bucket = node;
	*row = node->row;
	return node->err;
}

static int locate_slowly(struct modules *m, const struct module_scope *scope, uint64_t address,
			 struct stack_frame *frame, const struct cfi_row **row)
{
	const struct map_entry *entry = maps_find(scope->maps, address);
	const struct elf_symbol *symbol;
	struct module *module;
	uint64_t in_file, at;
	int err;

	if (!entry || !(entry->flags & MAP_EXEC))
		return -EFAULT;
	module = module_of(m, scope, entry);
	in_file = address - entry->start + entry->offset;
	if (!module)
		return -ENOEXEC;
	frame->module = module->id;
	frame->kind = module->kind;
	frame->offset = in_file + (frame->pc - address);
	frame->function = mix(module->function_seed ^ frame->offset);
	if (!module->elf || module->elf->arch != scope->arch)
		return -ENOEXEC;
	load(m, module);
	if (!elf_file_address(module->elf,
			      in_file - module->key.start * (module->kind != FRAME_VDSO), &at))
		return -ENOEXEC;
	frame->offset = at + (frame->pc - address);
	err = row_of(m, module, at, row);
	symbol = elf_index_find(&module->index, at);
	frame->function = mix(module->function_seed ^ (symbol                     ? symbol->address
						       : !err && (*row)->function ? (*row)->function
										  : frame->offset));
	return err;
}

int modules_locate(struct modules *m, const struct module_scope *scope, uint64_t address,
		   struct stack_frame *frame, const struct cfi_row **row)
{
	uint64_t serial = scope->maps->serial;
	struct pc_slot *slot = &m->pcs[(mix(address) + serial) & (PC_SLOTS - 1)];
	int err;

	if (serial && slot->serial == serial && slot->address == address) {
		frame->module = slot->module;
		frame->kind = slot->kind;
		frame->function = slot->function;
		frame->offset = slot->offset + (frame->pc - address);
		*row = slot->row;
		return slot->err;
	}
	*row = NULL;
	err = locate_slowly(m, scope, address, frame, row);
	if (err != -EFAULT && err != -ENOMEM)
		*slot = (struct pc_slot){serial,
					 address,
					 frame->offset - (frame->pc - address),
					 frame->function,
					 *row,
					 frame->module,
					 err,
					 frame->kind};
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
	if (module && module->elf && in_file >= module->key.start)
		return elf_file_read(module->elf, in_file - module->key.start, to, len);
	return read_process(scope->pid, address, to, len) == (ssize_t)len ? 0 : -EFAULT;
}

struct stack_module modules_describe(const struct modules *m, uint32_t module)
{
	if (!module || module >= m->count)
		return (struct stack_module){0};
	return (struct stack_module){m->table[module]->path, m->table[module]->build_id};
}

int modules_symbol(struct modules *m, uint32_t module, uint64_t offset,
		   char name[ELF_INDEX_NAME_BYTES])
{
	const struct elf_symbol *symbol;

	if (!module || module >= m->count || !m->table[module]->elf)
		return -ENOENT;
	load(m, m->table[module]);
	symbol = elf_index_find(&m->table[module]->index, offset);
	if (!symbol ||
	    elf_index_name(&m->table[module]->index, m->table[module]->elf, symbol, name))
		return -ENOENT;
	return 0;
}

int modules_losses(const struct modules *m, struct counter_list *lost)
{
	int err = counter_list_add(lost, "elf_unreadable", m->elf_unreadable);

	err = err ?: counter_list_add(lost, "elf_malformed", m->elf_malformed);
	err = err ?: counter_list_add(lost, "elf_tables_bad", m->tables_bad);
	err = err ?: counter_list_add(lost, "symbols_dropped", m->symbols_dropped);
	return err ?: counter_list_add(lost, "modules_full", m->modules_full);
}
