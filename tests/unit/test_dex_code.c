/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte code of a made-up process: in its files, and in memory that its runtime lists. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prober/jit_list.h"
#include "stack/code/dex.h"
#include "stack/code/dex_archive.h"
#include "stack/code/dex_cache.h"
#include "unit/made_dex.h"
#include "unit/stack_elf.h"

#define RUNTIME 0x10000000ull
#define APK     0x20000000ull
#define VDEX    0x30000000ull
#define ANON    0x40000000ull
#define ASHMEM  0x48000000ull
#define NOWHERE 0x50000000ull
#define BROKEN  0x60000000ull
#define PC_SLOT 0x800

static const char maps_text[] =
	"10000000-10010000 r-xp 00000000 08:01 7   /apex/libartX.so\n"
	"20000000-20010000 r--p 00001000 08:01 8   /data/app/base.apk\n"
	"30000000-30010000 r--p 00000000 08:01 9   /data/app/base.vdex\n"
	"40000000-40010000 r--p 00000000 00:00 0   [anon:dalvik-classes.dex extracted in memory]\n"
	"48000000-48010000 r--s 00000000 00:05 12   /dev/ashmem/dalvik-classes.dex extracted in "
	"memory "
	"from /data/app/base.apk (deleted)\n"
	"60000000-60010000 r--p 00000000 08:01 10   /data/app/broken.apk\n"
	"70000000-70010000 r--p 00000000 08:01 11   /data/app/gone.jar\n";

struct world {
	struct stack_files files;
	struct modules *modules;
	struct dex_code *code;
	struct module_scope scope;
	int fds[4]; /* of the inodes from 7 on */
	unsigned opened, listed, copied;
	int memory_error;
	uint64_t version;
	struct jit_list_entry entries[4];
	uint32_t entry_count;
	/* memory at ANON, at ASHMEM, and at NOWHERE, which is not in the maps */
	struct made_bytes memory;
};

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	struct world *w = ctx;

	w->opened++;
	if (mapping->inode < 7 || mapping->inode > 10)
		return -ENOENT;
	*file = (struct stack_file){
		.fd = dup(w->fds[mapping->inode - 7]),
		.inode = mapping->inode,
		.size_bytes = (uint64_t)lseek(w->fds[mapping->inode - 7], 0, SEEK_END)};
	return 0;
}

static ssize_t read_memory(void *ctx, const struct stack_process *process, uint64_t address,
			   void *to, size_t length)
{
	struct world *w = ctx;
	uint64_t at = address - (address >= NOWHERE ? NOWHERE : address >= ASHMEM ? ASHMEM : ANON);

	w->copied++;
	if (w->memory_error)
		return w->memory_error;
	if (at >= w->memory.size)
		return -EFAULT;
	/* A page at a time, as where the next one is not there. */
	if (length > 4096 - at % 4096)
		length = 4096 - at % 4096;
	if (length > w->memory.size - at)
		length = w->memory.size - at;
	memcpy(to, w->memory.bytes + at, length);
	return (ssize_t)length;
}

static int read_list(void *ctx, const struct stack_process *process,
		     const struct jit_list_request *request, uint8_t **message, size_t *length)
{
	struct world *w = ctx;
	struct jit_list_header header = {.version = w->version, .layout = JIT_ANDROID2};

	w->listed++;
	cr_assert_eq(request->descriptor, RUNTIME + PC_SLOT);
	cr_assert_not(request->symfiles);
	if (request->known == w->version)
		return 0;
	header.count = w->entry_count;
	*length = sizeof(header) + header.count * sizeof(w->entries[0]);
	*message = malloc(*length);
	memcpy(*message, &header, sizeof(header));
	memcpy(*message + sizeof(header), w->entries, header.count * sizeof(w->entries[0]));
	return 1;
}

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	return fd;
}

static int runtime_file(void)
{
	static struct made_elf elf;
	Elf64_Sym symbols[2] = {{0},
				{.st_name = 1,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				 .st_shndx = 1,
				 .st_value = ELF_TEXT + PC_SLOT,
				 .st_size = 56}};
	static const char names[] = "\0__dex_debug_descriptor";
	unsigned strings;

	made_start(&elf);
	strings = made_section(&elf, ".strtab", SHT_STRTAB, names, sizeof(names), 0, 0, 0);
	made_section(&elf, ".symtab", SHT_SYMTAB, symbols, sizeof(symbols), 0, strings,
		     sizeof(symbols[0]));
	made_end(&elf, EM_X86_64);
	return file_of(elf.bytes, elf.size);
}

/* Where the code of "open" is, as addresses. */
struct places {
	uint64_t apk, vdex[2], memory;
};

static struct world *world_new(struct places *places)
{
	static const struct made_entry entries[] = {{"AndroidManifest.xml", 8, 0, 0, 8000},
						    {"classes.dex", 0, 0, 2, 7000}};
	struct world *w = calloc(1, sizeof(*w));
	static struct made_bytes made, dex;
	struct made_dex_facts facts[2];
	size_t data[2];

	memset(&made, 0, sizeof(made));
	dex.size = 0;
	made_dex(&dex, MADE_035, 0, &facts[0]);
	cr_assert_leq(dex.size, entries[1].size);
	made_zip(&made, entries, 2, "", data);
	memcpy(made.bytes + data[1], dex.bytes, dex.size);
	w->fds[0] = runtime_file();
	w->fds[1] = file_of(made.bytes, made.size);
	places->apk = APK - 0x1000 + data[1] + facts[0].code[0];
	memset(made.bytes + made.size - 22 - 69, 0xff, 4); /* the directory's last entry */
	w->fds[3] = file_of(made.bytes, made.size);
	made_vdex(&made, "027", facts);
	w->fds[2] = file_of(made.bytes, made.size);
	for (unsigned i = 0; i < 2; i++)
		places->vdex[i] = VDEX + facts[i].code[0];
	made_dex(&w->memory, MADE_035, 0, &facts[0]);
	places->memory = facts[0].code[0];
	w->version = 1;
	w->files = (struct stack_files){
		.open = open_mapping, .memory = read_memory, .jit_list = read_list, .ctx = w};
	w->modules = modules_new(&w->files, 1 << 20);
	w->code = dex_code_new(&w->files, w->modules);
	cr_assert(w->modules && w->code);
	w->scope = (struct module_scope){
		.process = {4711, 12},
		.arch = STACK_X86_64,
		.maps = maps_parse(strdup(maps_text), strlen(maps_text), NULL)};
	/* as one that a cache has given out */
	((struct stack_maps *)w->scope.maps)->serial = 1;
	return w;
}

static void world_free(struct world *w)
{
	dex_code_provider.free(w->code);
	modules_free(w->modules);
	maps_put((struct stack_maps *)w->scope.maps);
	for (unsigned i = 0; i < 4; i++)
		close(w->fds[i]);
	free(w);
}

static const char *name_of(struct world *w, uint64_t pc, struct stack_frame *frame)
{
	*frame = (struct stack_frame){.pc = pc, .kind = FRAME_DEX};
	dex_code_provider.begin(w->code);
	if (dex_code_provider.locate_dex(w->code, &w->scope, pc, frame))
		return NULL;
	return dex_code_provider.name(w->code, frame);
}

static void expect(struct world *w, uint64_t pc, const char *path, uint64_t offset)
{
	struct stack_frame frame;
	const char *name = name_of(w, pc, &frame), *module;

	cr_assert_not_null(name, "0x%lx", pc);
	cr_expect_str_eq(name, "app.Db$Inner.open (shared code)");
	cr_expect_eq(frame.kind, FRAME_DEX);
	cr_expect_eq(frame.offset, offset);
	cr_expect_eq(frame.function_pc, pc - 2 * offset);
	module = modules_describe(w->modules, frame.module).path;
	if (path)
		cr_expect_str_eq(module, path);
	else
		cr_expect_null(module);
}

Test(dex_code, in_files)
{
	struct places places;
	struct stack_frame frame, other;
	struct world *w = world_new(&places);

	for (unsigned i = 0; i < 1000; i++) {
		expect(w, places.apk + 2 * (i % 40), "/data/app/base.apk", i % 40);
		expect(w, places.vdex[i % 2], "/data/app/base.vdex", 0);
	}
	cr_expect_eq(w->opened, 2, "each once: %u", w->opened);
	cr_expect_eq(w->copied + w->listed, 0, "no memory is read");
	name_of(w, places.apk, &frame);
	name_of(w, places.vdex[0] + 4, &other);
	cr_expect_eq(frame.function, other.function, "the same method");
	world_free(w);
}

Test(dex_code, in_memory)
{
	struct places places;
	struct world *w = world_new(&places);
	struct stack_frame frame;

	/* at the start of memory that has a name, and in memory that the list says */
	expect(w, ANON + places.memory + 78, "[anon:dalvik-classes.dex extracted in memory]", 39);
	/* as of Android 9; nothing below /dev is opened */
	expect(w, ASHMEM + places.memory,
	       "/dev/ashmem/dalvik-classes.dex extracted in memory from /data/app/base.apk "
	       "(deleted)",
	       0);
	cr_expect_null(name_of(w, NOWHERE + places.memory, &frame));
	cr_expect_eq(frame.module, 0);
	w->entries[0] = (struct jit_list_entry){.symfile = NOWHERE, .size = w->memory.size};
	w->entry_count = 1;
	w->version = 2;
	usleep(200000);
	expect(w, NOWHERE + places.memory, NULL, 0);
	/* Other code is there now. */
	memcpy(w->memory.bytes + 12, "another digest of it", 20);
	for (size_t i = 0; i + 4 < w->memory.size; i++)
		if (!memcmp(w->memory.bytes + i, "\4open", 5))
			memcpy(w->memory.bytes + i, "\4shut", 5);
	cr_expect_str_eq(name_of(w, NOWHERE + places.memory, &frame),
			 "app.Db$Inner.shut (shared code)");
	world_free(w);
}

/* What is not known is not asked for each time. */
Test(dex_code, unknown)
{
	struct stack_unwind_losses losses = {0};
	struct places places;
	struct world *w = world_new(&places);
	struct stack_frame frame;

	w->memory.size = 0;
	for (unsigned i = 0; i < 200; i++) {
		cr_expect_null(name_of(w, BROKEN + i, &frame));
		cr_expect_null(name_of(w, APK + 2 * i, &frame), "before the code");
		cr_expect_null(name_of(w, 0, &frame));
		cr_expect_null(name_of(w, UINT64_MAX, &frame));
	}
	cr_expect_leq(w->opened, 3 + 1, "%u, with the runtime", w->opened);
	dex_code_losses(w->code, &losses);
	cr_expect_eq(losses.dex_malformed, 1, "%lu", losses.dex_malformed);
	cr_expect_eq(losses.dex_unread, 0);
	cr_expect_null(name_of(w, 0x70000000, &frame), "a file that cannot be opened");
	w->memory_error = -EIO;
	cr_expect_null(name_of(w, ANON + places.memory, &frame));
	dex_code_losses(w->code, &losses);
	cr_expect_geq(losses.dex_unread, 1);
	world_free(w);
}

/* A file that has all its classes name far places would have the prober asked without end. */
Test(dex_code, reads_of_memory_are_bounded)
{
	struct places places;
	struct world *w = world_new(&places);
	struct made_dex_facts facts;
	struct stack_frame frame;
	size_t classes;

	w->memory.size = 0;
	made_dex(&w->memory, MADE_035, 0, &facts);
	made_align(&w->memory, 4);
	classes = w->memory.size;
	/* an empty class_data each, at either end by turns */
	for (unsigned i = 0; i < 1500; i++) {
		memset(w->memory.bytes + w->memory.size, 0, 32);
		made_set32(&w->memory, w->memory.size + 24,
			   i % 2 ? 120 : (uint32_t)facts.code[1] + 5000);
		w->memory.size += 32;
	}
	memset(w->memory.bytes + 120, 0, 4);
	made_set32(&w->memory, 32, (uint32_t)w->memory.size);
	made_set32(&w->memory, 96, 1500);
	made_set32(&w->memory, 100, (uint32_t)classes);
	cr_expect_null(name_of(w, ANON + facts.code[0], &frame));
	cr_expect_leq(w->copied, 1100, "%u", w->copied);
	for (unsigned i = 0; i < 100; i++)
		cr_expect_null(name_of(w, ANON + facts.code[0], &frame));
	cr_expect_leq(w->copied, 1100 + 100 * 4, "%u", w->copied);
	world_free(w);
}

Test(dex_cache, budget)
{
	struct dex_cache *cache = dex_cache_new();
	uint8_t *files[12];
	size_t sizes[12];

	for (unsigned i = 0; i < 12; i++)
		files[i] = made_big_dex(65536, i, &sizes[i]);
	for (unsigned round = 0; round < 36; round++) {
		struct byte_source source = made_source(files[round % 12], sizes[round % 12]);
		struct dex_owner owner = {{round % 12, 0, 0, 0}};
		uint32_t method = round * 1000;
		char name[DEX_NAME_BYTES];
		struct dex_place place;
		struct dex_index index;
		struct dex_file dex;
		uint32_t line;

		cr_assert_eq(dex_file_open(&dex, &source, 0), 0);
		cr_assert_eq(dex_index_build(&index, &dex), 0);
		cr_assert_eq(index.count, 65536);
		cr_assert_eq(dex_index_place(&index, &dex, method, &place), 0);
		cr_assert_eq(dex_line(&dex, &place, &line), 0);
		cr_expect_eq(line, 0x4000 + method);
		dex_index_free(&index);
		line = 0;
		cr_assert_eq(dex_cache_find(cache, &owner, &source, 0, place.code + 14, &place,
					    name, &line),
			     0);
		cr_expect_eq(place.method, method);
		cr_expect_eq(line, 0x4000 + method);
		cr_expect_eq(place.pc, 7);
		cr_expect_str_eq(name, "Big.C.m0");
		cr_expect_leq(dex_cache_bytes(cache), DEX_CACHE_BYTES);
	}
	cr_expect_geq(dex_cache_bytes(cache), DEX_CACHE_BYTES - 65536 * 8);
	dex_cache_free(cache);
	for (unsigned i = 0; i < 12; i++)
		free(files[i]);
}

/* The method of code at offset of a file with these bytes, of any of its DEX files. */
static int find_in(const struct made_bytes *made, uint64_t offset, unsigned count, char *name)
{
	struct stack_file file = {.fd = file_of(made->bytes, made->size), .size_bytes = made->size};
	struct dex_archive *archive = dex_archive_open(&file);
	struct dex_cache *cache = dex_cache_new();
	struct dex_place place;
	int err = -ENOENT;
	uint32_t line;

	cr_assert_not_null(archive, "%d", errno);
	cr_expect_eq(archive->count, count);
	for (unsigned i = 0; i < archive->count && err == -ENOENT; i++) {
		const struct dex_span *span = &archive->files[i];

		if (offset >= span->begin && offset < span->end)
			err = dex_cache_find(cache, &(struct dex_owner){{1, 2, 3, 4}},
					     &archive->source, span->start, offset, &place, name,
					     &line);
	}
	dex_cache_free(cache);
	dex_archive_free(archive);
	return err;
}

Test(dex_archive, files_of_a_container)
{
	struct made_dex_facts facts[3];
	struct made_bytes made = {.size = 0};
	char name[DEX_NAME_BYTES];

	for (unsigned i = 0; i < 3; i++)
		made_dex(&made, MADE_041, (uint32_t)made.size, &facts[i]);
	for (unsigned i = 0; i < 3; i++)
		made_set32(&made, facts[i].start + 112, (uint32_t)made.size);
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(find_in(&made, facts[i].code[1], 3, name), 0, "%u", i);
		cr_expect_str_eq(name, "app.Db$Inner.sleep");
		cr_expect_eq(find_in(&made, facts[i].start + 4, 3, name), -ENOENT);
	}
	/* The next one of a file that says it has no length would be itself. */
	made_set32(&made, facts[1].start + 32, 0);
	cr_expect_eq(find_in(&made, facts[1].code[1], 2, name), 0);
}

Test(dex_archive, compact)
{
	struct made_dex_facts facts;
	struct made_bytes made = {.size = 0};
	char name[DEX_NAME_BYTES];

	made_dex(&made, MADE_COMPACT, 0, &facts);
	cr_expect_eq(find_in(&made, facts.code[1] + 5998, 1, name), 0, "behind its file size");
	cr_expect_str_eq(name, "app.Db$Inner.sleep");
}

/* More than one for each library of a large debug build; all entries are of the same bytes. */
Test(dex_archive, many_files)
{
	static struct made_bytes made, dex;
	struct made_entry entries[300];
	char names[300][16], name[DEX_NAME_BYTES];
	struct made_dex_facts facts;
	size_t data[300], at;

	made_dex(&dex, MADE_035, 0, &facts);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(names[i], sizeof(names[i]), i ? "classes%u.dex" : "classes.dex", i + 1);
		entries[i] = (struct made_entry){names[i], 0, 0, 0, i ? 0 : (uint32_t)dex.size};
	}
	made_zip(&made, entries, 300, "", data);
	memcpy(made.bytes + data[0], dex.bytes, dex.size);
	at = data[299];
	for (unsigned i = 0; i < 300; at += 46 + strlen(names[i++]) + 12) {
		made_set32(&made, at + 20, (uint32_t)dex.size);
		made_set32(&made, at + 24, (uint32_t)dex.size);
		made_set32(&made, at + 42, 0);
	}
	cr_expect_eq(find_in(&made, data[0] + facts.code[1], 300, name), 0);
	cr_expect_str_eq(name, "app.Db$Inner.sleep");
}

/* What a packer puts there in place of one takes no other's names. */
Test(dex_archive, one_that_makes_no_sense)
{
	static struct made_bytes made, dex;
	static const struct made_entry entries[] = {{"classes.dex", 0, 0, 0, 200},
						    {"classes2.dex", 0, 0, 2, 7000}};
	struct made_dex_facts facts;
	char name[DEX_NAME_BYTES];
	struct stack_file file;
	size_t data[2];

	made_dex(&dex, MADE_035, 0, &facts);
	for (unsigned kind = 0; kind < 3; kind++) {
		made_zip(&made, entries, 2, "", data);
		memset(made.bytes + data[0], 0, 200);
		if (kind)
			memcpy(made.bytes + data[0], kind == 1 ? "dex\n042" : "dex\n035", 8);
		memcpy(made.bytes + data[1], dex.bytes, dex.size);
		cr_expect_eq(find_in(&made, data[1] + facts.code[1], 1, name), 0, "%u", kind);
		cr_expect_str_eq(name, "app.Db$Inner.sleep");
	}
	/* Where there is no other it is told. */
	made_zip(&made, entries, 1, "", data);
	memset(made.bytes + data[0], 0, 200);
	memcpy(made.bytes + data[0], "dex\n042", 8);
	file = (struct stack_file){.fd = file_of(made.bytes, made.size), .size_bytes = made.size};
	cr_expect_null(dex_archive_open(&file));
	cr_expect_eq(errno, ENOTSUP);
}

Test(dex_archive, none)
{
	static const char text[] = "PK, but nothing else that there should be in an archive";
	struct made_dex_facts facts;
	struct made_bytes made = {.size = 0};
	struct stack_file file = {.fd = file_of(text, sizeof(text)), .size_bytes = sizeof(text)};

	cr_expect_null(dex_archive_open(&file));
	cr_expect_eq(errno, ENOEXEC);
	made_dex(&made, MADE_035, 0, &facts);
	file = (struct stack_file){.fd = file_of(made.bytes, 100), .size_bytes = 100};
	cr_expect_null(dex_archive_open(&file), "a header that is cut");
	cr_expect_eq(errno, EBADMSG);
}
