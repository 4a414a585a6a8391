/* SPDX-License-Identifier: BSD-2-Clause */
/* What frames of Java methods cost when they were met before, by kind, with their names; and what
 * is kept of five apps.  usage: bench_java */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "jit_symfile.h"
#include "prober/jit_list.h"
#include "stack/code/budget.h"
#include "stack/code/byte_file.h"
#include "stack/code/dex.h"
#include "stack/code/dex_file.h"
#include "stack/code/jit.h"
#include "stack/code/oat.h"
#include "stack/registers.h"
#include "unit/made_oat.h"

#define APPS        5
#define DEX_FILES   4 /* of an app */
#define DEX_METHODS 60000
#define JIT_METHODS 5000
#define ROUNDS      2001
#define RUNTIME     0x10000000ull
#define DESCRIPTOR  0x8000ull
#define JIT         0x18000000ull
#define OAT         0x20000000ull
#define APK         0x28000000ull
#define DEX         0x40000000ull
#define DEX_STEP    0x01000000ull
#define STACK       0x70000000ull

enum { INODE_RUNTIME = 1, INODE_OAT, INODE_APK, INODE_DEX };

/* Five processes with files of their own, all of them of the same bytes. */
static struct world {
	int runtime, oat, apk, dex[APPS * DEX_FILES];
	uint64_t oat_begin;
	uint8_t *list;
	size_t list_bytes;
} world;

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("made", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		exit(1);
	return fd;
}

static int open_mapping(void *ctx, const struct stack_process *process,
			const struct stack_mapping *mapping, struct stack_file *file)
{
	uint64_t inode = mapping->inode % 100;
	int fd = inode == INODE_RUNTIME ? world.runtime
		 : inode == INODE_OAT   ? world.oat
		 : inode == INODE_APK
			 ? world.apk
			 : world.dex[(process->pid - 1) * DEX_FILES + (int)(inode - INODE_DEX)];

	*file = (struct stack_file){.fd = dup(fd),
				    .inode = mapping->inode,
				    .size_bytes = (uint64_t)lseek(fd, 0, SEEK_END)};
	return 0;
}

static int read_maps(void *ctx, const struct stack_process *process, bool fresh, char **text,
		     size_t *length)
{
	FILE *out = open_memstream(text, length);
	int base = process->pid * 100;

	if (!out)
		return -ENOMEM;
	fprintf(out, "%llx-%llx r-xp 00000000 08:01 %d /apex/libart.so\n", RUNTIME,
		RUNTIME + 0x10000, base + INODE_RUNTIME);
	fprintf(out, "%llx-%llx r-xp 00000000 00:00 0 [anon:dalvik-jit-code-cache]\n", JIT,
		JIT + 0x1000000);
	fprintf(out, "%llx-%llx r-xp 00000000 08:01 %d /data/oat/arm64/base.odex\n", OAT,
		OAT + 0x10000, base + INODE_OAT);
	fprintf(out, "%llx-%llx r--p 00000000 08:01 %d /data/base.apk\n", APK, APK + 0x10000,
		base + INODE_APK);
	for (int i = 0; i < DEX_FILES; i++)
		fprintf(out, "%llx-%llx r--p 00000000 08:01 %d /data/classes%d.dex\n",
			DEX + DEX_STEP * (unsigned)i, DEX + DEX_STEP * (unsigned)(i + 1),
			base + INODE_DEX + i, i);
	return fclose(out) ? -ENOMEM : 0;
}

/* Nothing is kept of a method whose header has no offset. */
static ssize_t give_zeros(void *ctx, const struct stack_process *process, uint64_t address,
			  void *to, size_t length)
{
	memset(to, 0, length);
	return (ssize_t)length;
}

static int no_names(void *ctx, const struct stack_process *process)
{
	return -ENOENT;
}

static int give_list(void *ctx, const struct stack_process *process,
		     const struct jit_list_request *request, uint8_t **message, size_t *length)
{
	if (request->known)
		return 0;
	*message = malloc(world.list_bytes);
	if (!*message)
		return -ENOMEM;
	memcpy(*message, world.list, world.list_bytes);
	*length = world.list_bytes;
	return 1;
}

static void make_list(void)
{
	static uint8_t files[JIT_METHODS][2048];
	struct jit_list_header header = {
		.version = 1, .layout = JIT_ANDROID2, .count = JIT_METHODS};
	size_t entries = JIT_METHODS * sizeof(struct jit_list_entry), at = 0;
	size_t sizes[JIT_METHODS];

	for (size_t i = 0; i < JIT_METHODS; i++) {
		char name[64];
		struct jit_method method = {JIT + 64 * i, 64, name, jit_cfa, sizeof(jit_cfa)};
		uint8_t file[SYMFILE_ROOM];

		snprintf(name, sizeof(name), "void com.example.app.Class%zu.method(int)", i);
		sizes[i] = jit_symfile(file, &method, 1, 0);
		if (sizes[i] > sizeof(files[i]))
			exit(1);
		memcpy(files[i], file, sizes[i]);
		header.bytes += sizes[i];
	}
	world.list_bytes = sizeof(header) + entries + header.bytes;
	world.list = calloc(1, world.list_bytes);
	if (!world.list)
		exit(1);
	memcpy(world.list, &header, sizeof(header));
	for (size_t i = 0; i < JIT_METHODS; i++) {
		struct jit_list_entry entry = {.address = 64 + i,
					       .timestamp = 5,
					       .symfile = 4096,
					       .size = sizes[i],
					       .offset = at + 1,
					       .seqlock = 2};

		memcpy(world.list + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
		memcpy(world.list + sizeof(header) + entries + at, files[i], sizes[i]);
		at += sizes[i];
	}
}

static void make_world(void)
{
	static const char strings[] = "\0__jit_debug_descriptor";
	Elf64_Sym symbols[2] = {{0},
				{.st_name = 1,
				 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				 .st_shndx = 1,
				 .st_value = ELF_TEXT + DESCRIPTOR}};
	uint16_t machine = STACK_HOST_ARCH == STACK_ARM64 ? EM_AARCH64 : EM_X86_64;
	static struct made_elf elf;
	static struct made_bytes dex;
	struct made_dex_facts facts;
	uint8_t oat[0x400];

	made_start(&elf);
	made_section(&elf, ".dynstr", SHT_STRTAB, strings, sizeof(strings), 0, 0, 0);
	made_section(&elf, ".dynsym", SHT_DYNSYM, symbols, sizeof(symbols), 0, 1, sizeof(*symbols));
	made_end(&elf, machine);
	world.runtime = file_of(elf.bytes, sizeof(elf.bytes));
	made_dex(&dex, MADE_035, 0, &facts);
	made_oat(oat, "239", dex.bytes + 12,
		 STACK_HOST_ARCH == STACK_ARM64 ? &made_oat_arm64 : &made_oat_x86_64);
	made_oat_elf(&elf, oat, sizeof(oat), machine, NULL, 0, &world.oat_begin);
	world.oat = file_of(elf.bytes, sizeof(elf.bytes));
	world.apk = file_of(dex.bytes, dex.size);
	for (uint32_t i = 0; i < APPS * DEX_FILES; i++) {
		size_t size;
		uint8_t *bytes = made_big_dex(DEX_METHODS, i + 1, &size);

		world.dex[i] = file_of(bytes, size);
		free(bytes);
	}
	make_list();
}

/* ---- one frame ---- */

static struct stack_files files = {.open = open_mapping,
				   .open_jit_names = no_names,
				   .maps = read_maps,
				   .memory = give_zeros,
				   .jit_list = give_list};

struct asked {
	const struct code_provider *is;
	void *self;
	struct module_scope scope;
};

static bool ask(struct asked *asked, uint64_t pc, bool byte_code)
{
	struct stack_frame frame = {.pc = pc};
	const struct cfi_row *row;
	int err = byte_code ? asked->is->locate_dex(asked->self, &asked->scope, pc, &frame)
			    : asked->is->locate(asked->self, &asked->scope, pc - 1, &frame, &row);

	return !err && asked->is->name(asked->self, &frame);
}

/* Ten frames of one stack, over and over. */
static void warm(const char *name, struct asked *asked, const uint64_t pcs[10], bool byte_code)
{
	static double ns[ROUNDS];
	char value[32], spread[48];

	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		asked->is->begin(asked->self);
		for (size_t f = 0; f < 10; f++)
			if (!ask(asked, pcs[f], byte_code))
				exit(1);
		ns[i] = (bench_now_ns(CLOCK_MONOTONIC) - from) / 10.0;
	}
	snprintf(value, sizeof(value), "%.2f us", bench_quantile(ns, ROUNDS, 0.5) / 1000);
	snprintf(spread, sizeof(spread), "p90 %.2f p99 %.2f n %d",
		 bench_quantile(ns, ROUNDS, 0.9) / 1000, bench_quantile(ns, ROUNDS, 0.99) / 1000,
		 ROUNDS);
	bench_row(name, value, spread, "<= 1 us");
}

struct unwinding {
	struct modules *modules;
	struct maps_cache *cache;
	struct code_user users[3]; /* of JIT, of byte code, of oat files */
};

static void start(struct unwinding *u)
{
	struct dex_code *dex;

	u->modules = modules_new(&files, 16 << 20);
	u->cache = maps_cache_new(&files);
	dex = dex_code_new(&files, u->modules);
	u->users[0] = (struct code_user){&jit_code_provider, jit_code_new(&files, u->modules)};
	jit_code_use_dex(u->users[0].self, dex);
	u->users[1] = (struct code_user){&dex_code_provider, dex};
	u->users[2] = (struct code_user){&oat_code_provider, oat_code_new(u->modules, dex)};
}

static void stop(struct unwinding *u)
{
	for (unsigned i = 3; i-- > 0;)
		u->users[i].is->free(u->users[i].self);
	maps_cache_free(u->cache);
	modules_free(u->modules);
}

static struct module_scope scope_of(struct unwinding *u, int pid)
{
	struct module_scope scope = {.process = {.pid = pid, .start_ticks = 1},
				     .arch = STACK_HOST_ARCH};

	scope.maps = maps_cache_get(u->cache, &scope.process, 0);
	if (!scope.maps)
		exit(1);
	return scope;
}

/* An instruction of this method of the first DEX file. */
static uint64_t byte_code_of(uint32_t method)
{
	static struct dex_index index;
	static struct dex_file dex;
	static struct byte_source source;
	struct dex_place place;

	if (!index.count) {
		source =
			byte_file_source(&world.dex[0], (uint64_t)lseek(world.dex[0], 0, SEEK_END));
		if (dex_file_open(&dex, &source, 0) || dex_index_build(&index, &dex))
			exit(1);
	}
	if (dex_index_place(&index, &dex, method, &place))
		exit(1);
	return DEX + place.code + 4;
}

static void bench_frames(void)
{
	static const char *const names[] = {"warm Java frame: JIT", "warm Java frame: byte code",
					    "warm Java frame: oat file without tables"};
	const struct made_oat_code *code =
		STACK_HOST_ARCH == STACK_ARM64 ? &made_oat_arm64 : &made_oat_x86_64;
	uint64_t pcs[3][10], oat = OAT + (world.oat_begin - ELF_TEXT);
	struct unwinding u;
	struct asked asked;

	start(&u);
	for (unsigned f = 0; f < 10; f++) {
		pcs[0][f] = JIT + 64 * 499 * f + 21;
		pcs[1][f] = byte_code_of(997 * f);
		pcs[2][f] = oat + (f % 2 ? MADE_OAT_OWN : MADE_OAT_SHARED) + code->call;
	}
	asked.scope = scope_of(&u, 1);
	for (unsigned i = 0; i < 3; i++) {
		asked.is = u.users[i].is;
		asked.self = u.users[i].self;
		warm(names[i], &asked, pcs[i], i == 1);
	}
	maps_put((struct stack_maps *)asked.scope.maps);
	stop(&u);
}

/* ---- what is kept ---- */

/* Each app has a stack through code of each kind, one after the other, three times. */
static void bench_kept(void)
{
	size_t most = 0, between = 0;
	char value[32], spread[64];
	struct unwinding u;
	uint64_t freed = 0;

	start(&u);
	for (int round = 0; round < 3 * APPS; round++) {
		struct asked asked = {.scope = scope_of(&u, round % APPS + 1)};

		for (unsigned i = 0; i < 3; i++)
			u.users[i].is->begin(u.users[i].self);
		freed += code_keep_within(u.users, 3, CODE_KEPT_BYTES);
		between = code_kept_bytes(u.users, 3) > between ? code_kept_bytes(u.users, 3)
								: between;
		for (unsigned i = 0; i < 3; i++) {
			asked.is = u.users[i].is;
			asked.self = u.users[i].self;
			for (uint64_t file = 0; file < DEX_FILES; file++)
				if (!ask(&asked,
					 i == 0   ? JIT + 21
					 : i == 1 ? byte_code_of(7) + DEX_STEP * file
						  : OAT + (world.oat_begin - ELF_TEXT) +
							    MADE_OAT_OWN + 19,
					 i == 1))
					exit(1);
			most = code_kept_bytes(u.users, 3) > most ? code_kept_bytes(u.users, 3)
								  : most;
		}
		maps_put((struct stack_maps *)asked.scope.maps);
	}
	snprintf(value, sizeof(value), "%.1f MiB", (double)between / (1 << 20));
	snprintf(spread, sizeof(spread), "in the middle of a stack %.1f", (double)most / (1 << 20));
	bench_row("five apps, 5000 JIT and 240000 DEX methods each", value, spread, "<= 16 MiB");
	snprintf(value, sizeof(value), "%llu", (unsigned long long)freed);
	bench_row("... pieces given back for all of them together", value, "", "");
	stop(&u);
}

int main(void)
{
	make_world();
	bench_frames();
	bench_kept();
	return 0;
}
