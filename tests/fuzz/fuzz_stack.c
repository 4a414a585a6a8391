/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer targets of the stack readers, one for each way in:
 *
 * FUZZ_MAPS    any bytes as /proc/PID/maps, once more as the picture after it
 *
 * FUZZ_ELF     any bytes as an ELF file: headers, symbols, names, MiniDebugInfo
 *
 * FUZZ_WIRE    any bytes as a message of the unwinder process to the recorder, and the other way
 *
 * FUZZ_NAMES   any bytes as a symbol's name, and as a perf-PID.map
 *
 * FUZZ_DEX     any bytes as a DEX file: index, methods, names, lines
 *
 * FUZZ_VDEX    any bytes as a vdex file, and what it says where DEX files are
 *
 * FUZZ_ZIP     any bytes as an APK, and the same
 *
 * FUZZ_OAT     any bytes as the oat data of an ELF file, and as the code in it; and as memory with
 * an ArtMethod
 *
 * FUZZ_JIT     any bytes as the memory of a process with a list of a runtime's code (a descriptor
 * first), as the message that such a list becomes, and as an ELF file of it
 *
 * FUZZ_TOLD    any bytes as the memory of a process with code of ART's JIT compiler, what is kept
 * of it, the ArtMethods that it names and their DEX files: 16 bytes of choice, then memory
 *
 * FUZZ_UNWIND  tables, registers and memory together: 64 bytes of registers and choice, then
 * memory, then .eh_frame (inside a well-formed ELF, so that every input gets there) */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "prober/jit_list.h"
#include "stack/code/art_method.h"
#include "stack/code/dex_archive.h"
#include "stack/code/dex_file.h"
#include "stack/code/jit_table.h"
#include "stack/code/jit_told.h"
#include "stack/code/oat_file.h"
#include "stack/code/quick_frame.h"
#include "stack/code/vdex_file.h"
#include "stack/code/zip_file.h"
#include "stack/demangle.h"
#include "stack/jit_names.h"
#include "stack/maps.h"
#include "stack/modules.h"
#include "stack/unwind.h"
#include "stack/unwinder_wire.h"
#include "stack/wait_places.h"
#include "unit/stack_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#if defined(FUZZ_MAPS)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 2;
	char *first = malloc(half + 1), *second = malloc(size + 1);
	struct stack_maps *maps, *next;

	memcpy(first, data, half);
	memcpy(second, data, size);
	maps = maps_parse(first, half, NULL);
	next = maps_parse(second, size, maps);
	for (size_t i = 0; next && i < next->count; i++) {
		const struct map_entry *entry = &next->entries[i];

		if (maps_find(next, entry->start) != entry ||
		    maps_find(next, entry->end - 1) != entry)
			abort();
		maps_path_is(next, entry, "[vdso]");
	}
	maps_address_bits(next);
	maps_put(maps);
	maps_put(next);
	return 0;
}
#elif defined(FUZZ_OAT)
static void look_at(const struct oat_file *oat, const struct oat_method *method,
		    struct code_info *info, struct code_place *place)
{
	struct byte_source source = oat_file_source(oat);
	struct quick_row row;

	for (unsigned arch = 0; arch < 4; arch++) {
		struct quick_frame frame = {.arch = arch & 1 ? STACK_ARM64 : STACK_X86_64,
					    .stub = arch & 2};

		if (code_info_open(info, &oat->code_info, &source, method->code, arch & 1 ? 4 : 1))
			return;
		frame.code_bytes = info->code_bytes;
		frame.frame_bytes = info->frame_bytes;
		frame.core_spills = info->core_spills;
		for (uint32_t at = 0; at < 128; at++) {
			code_info_find(info, at, place);
			if (!quick_frame_row(&frame, &source, method->code, at, at & 1, &row) &&
			    row.rule_count > QUICK_MAX_RULES)
				abort();
		}
	}
}

struct bytes {
	const uint8_t *data;
	size_t size;
};

static int read_bytes(void *ctx, uint64_t offset, void *to, size_t length)
{
	const struct bytes *bytes = ctx;

	memcpy(to, bytes->data + offset, length);
	return 0;
}

static void look_at_method(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	const struct byte_source source = {read_bytes, &bytes, size};
	struct art_method method;

	for (unsigned i = 0; i < 4; i++)
		if (!art_method_read(&source, i & 1 ? STACK_ARM64 : STACK_X86_64, i & 2 ? 183 : 239,
				     size / 2, &method) &&
		    method.number >= DEX_MAX_IDS)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct code_info info;
	static struct code_place place;
	struct elf_load load = {.address = 0x1000, .file_bytes = size, .exec = true};
	struct elf_file elf = {.fd = -1, .memory = (uint8_t *)data, .size = size};
	struct oat_index index;
	struct oat_file oat;
	size_t count;

	elf.loads[0] = load;
	elf.load_count = 1;
	look_at_method(data, size);
	if (oat_file_open(&oat, &elf, 0x1000))
		return 0;
	if (!oat_index_build(&index, &oat)) {
		for (size_t i = 0; i < index.count && i < 16; i++)
			look_at(&oat, &index.methods[i], &info, &place);
		for (uint32_t at = 0; at < size; at += 7)
			oat_index_find(&index, at, &count);
		oat_index_free(&index);
	}
	oat_file_free(&oat);
	return 0;
}
#elif defined(FUZZ_ELF)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size ? size : 1);
	char name[ELF_INDEX_NAME_BYTES];
	struct elf_file elf, mini;
	struct elf_index index;
	struct cfi_tables *tables;
	struct wait_places places;
	bool has_mini;

	memcpy(bytes, data, size);
	if (elf_file_open_memory(&elf, bytes, size))
		return 0;
	has_mini = !elf_file_open_minidebug(&elf, 1 << 20, &mini);
	if (!elf_index_build(&index, &elf, has_mini ? &mini : NULL)) {
		for (size_t i = 0; i < index.count && i < 64; i++) {
			elf_index_name(&index, &elf, &index.symbols[i], name);
			elf_index_find(&index, index.symbols[i].address + 1, 0);
		}
		elf_index_free(&index);
	}
	if (!cfi_tables_new(&elf, has_mini ? &mini : NULL, &tables)) {
		for (uint64_t at = 0; at < 4; at++) {
			struct cfi_row *row;

			if (!cfi_row_at(tables, elf.first_exec_address + at * 16, &row))
				cfi_row_free(row);
		}
		cfi_tables_free(tables);
	}
	wait_places_find(&elf, &places);
	if (has_mini)
		elf_file_close(&mini);
	elf_file_close(&elf);
	return 0;
}
#elif defined(FUZZ_WIRE)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_losses losses;
	struct wire_unwind unwind;
	struct wait_places places;
	struct wire_need need;
	struct unwound *trace;
	uint8_t *bytes = malloc(size ? size : 1);
	int error;

	memcpy(bytes, data, size);
	/* The length in the message is what would stop nearly all inputs. */
	if (size >= sizeof(struct wire_header)) {
		uint32_t length = (uint32_t)size;

		memcpy(bytes + offsetof(struct wire_header, bytes), &length, sizeof(length));
	}
	if (!wire_take_trace(bytes, size, &trace, &losses) && trace) {
		static uint8_t back[WIRE_MAX_BYTES] __attribute__((aligned(8)));
		size_t total = 0;

		for (size_t i = 0; i < trace->count; i++) {
			const struct unwound_frame *frame = &trace->frames[i];

			total += frame->symbol ? strlen(frame->symbol) : 0;
			total += frame->module ? strlen(frame->module) : 0;
			total += frame->build_id ? strlen(frame->build_id) : 0;
			if (frame->method >= METHOD_COUNT || frame->kind > FRAME_VDSO)
				abort();
		}
		if (total && wire_put_trace(back, 1, 0, trace, 0, &losses) > sizeof(back))
			abort();
		free(trace);
	}
	if (!wire_take_places(bytes, size, &error, &places) &&
	    (places.enter_count > WAIT_PLACES_MAX || places.leave_count > WAIT_PLACES_MAX))
		abort();
	if (!wire_take_need(bytes, size, &need) && strlen(need.path) >= sizeof(need.path))
		abort();
	if (!wire_take_unwind(bytes, size, size & 1, &unwind) && unwind.arch > STACK_ARM64)
		abort();
	free(bytes);
	return 0;
}
#elif defined(FUZZ_JIT)
#define JIT_BASE 0x1000

struct jit_world {
	const uint8_t *bytes;
	size_t size;
	unsigned reads;
};

static int read_jit(void *ctx, const struct jit_part *parts, size_t count)
{
	struct jit_world *w = ctx;

	w->reads++;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = parts[i].address - JIT_BASE;

		if (at > w->size || parts[i].length > w->size - at)
			return (int)i;
		memcpy(parts[i].to, w->bytes + at, parts[i].length);
	}
	return (int)count;
}

static void gone(void *ctx, struct jit_entry *entry)
{
}

static void take(const struct jit_list *list)
{
	struct jit_table table = {.arch = STACK_X86_64};

	jit_table_take(&table, list, 1 << 20, gone, NULL);
	if (table.bytes > (1 << 20) + (8 << 20))
		abort();
	for (size_t i = 0; i < table.place_count && i < 64; i++)
		if (!jit_table_find(&table, table.places[i].start))
			abort();
	jit_table_free(&table, gone, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_world w = {data, size, 0};
	struct jit_memory memory = {read_jit, &w};
	struct jit_list_request request = {.descriptor = JIT_BASE, .symfiles = true};
	uint8_t *copy = malloc(size ? size : 1);
	size_t unpack = 1 << 20;
	struct jit_range *ranges;
	const struct cfi_row *row;
	struct jit_list list;
	struct jit_elf *elf;
	uint64_t start;

	if (jit_list_read(&memory, &request, &list) == 1) {
		take(&list);
		jit_list_free(&list);
	}
	if (w.reads > 100000)
		abort();
	memcpy(copy, data, size);
	if (jit_list_view(copy, size, &list))
		take(&list);
	elf = jit_elf_new(copy, size, STACK_X86_64, &unpack);
	if (elf) {
		int count = jit_elf_ranges(elf, &ranges);

		for (int i = 0; i < count && i < 64; i++) {
			free(jit_elf_name(elf, ranges[i].start, &start));
			jit_elf_row(elf, ranges[i].start, &row);
		}
		if (count >= 0)
			free(ranges);
	}
	jit_elf_free(elf);
	free(copy);
	return 0;
}
#elif defined(FUZZ_TOLD)
#define TOLD_BASE 0x10000000ull

struct told_world {
	const uint8_t *bytes;
	size_t size;
};

static ssize_t read_told(void *ctx, const struct stack_process *process, uint64_t address, void *to,
			 size_t length)
{
	const struct told_world *w = ctx;
	uint64_t at = address - TOLD_BASE;

	if (at >= w->size)
		return -EFAULT;
	length = length < w->size - at ? length : w->size - at;
	memcpy(to, w->bytes + at, length);
	return (ssize_t)length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned versions[] = {138, 170, 183, 195, 199, 225, 239, 259};
	struct told_world w = {0};
	struct stack_files files = {.memory = read_told, .ctx = &w};
	struct module_scope scope = {.process = {1, 1}};
	struct jit_asked asked = {.files = &files, .scope = &scope, .name = "a.b.c"};
	struct oat_told told;
	struct stack_maps *maps;
	struct modules *modules;
	uint16_t code, method;

	if (size < 32)
		return 0;
	w = (struct told_world){data + 16, size - 16};
	modules = modules_new(&files, 1 << 20);
	scope.arch = data[0] & 1 ? STACK_ARM64 : STACK_X86_64;
	scope.maps = maps = maps_parse(strdup(""), 0, NULL);
	memcpy(&code, data + 2, sizeof(code));
	memcpy(&method, data + 4, sizeof(method));
	asked.dex = dex_code_new(&files, modules);
	asked.version = versions[data[1] % (sizeof(versions) / sizeof(versions[0]))];
	asked.code = TOLD_BASE + code;
	asked.offset = data[6];
	asked.art_method = TOLD_BASE + method;
	for (unsigned turn = 0; turn < 2; turn++) {
		jit_tell(&asked, &told);
		for (unsigned i = 0; i < told.inlined_count; i++)
			if (told.inlined[i].name && strlen(told.inlined[i].name) >= DEX_NAME_BYTES)
				abort();
		oat_told_free(&told);
	}
	dex_code_provider.free(asked.dex);
	modules_free(modules);
	maps_put(maps);
	return 0;
}
#elif defined(FUZZ_NAMES)
#include <sys/mman.h>
#include <unistd.h>

static int open_names(void *ctx, const struct stack_process *process)
{
	return dup(*(int *)ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory = -1;
	struct stack_files files = {.open_jit_names = open_names, .ctx = &memory};
	struct jit_names *names = jit_names_new(&files);
	char *text = malloc(size + 3), *readable;
	uint64_t start;

	memcpy(text, "_R", 2);
	memcpy(text + 2, data, size);
	text[size + 2] = 0;
	readable = demangle_rust_v0(text);
	if (readable && strlen(readable) > DEMANGLE_MAX)
		abort();
	free(readable);
	free(text);
	if (memory < 0)
		memory = memfd_create("names", 0);
	if (ftruncate(memory, 0) || pwrite(memory, data, size, 0) != (ssize_t)size)
		abort();
	for (uint64_t at = 0; at < 64; at++) {
		const char *name = jit_names_find(names, &(struct stack_process){1, 1}, at, &start);

		if (name && (start > at || strlen(name) > 1024))
			abort();
	}
	jit_names_free(names);
	return 0;
}
#elif defined(FUZZ_DEX) || defined(FUZZ_VDEX) || defined(FUZZ_ZIP)
/* The copy of libFuzzer ends where the input does, so that a byte behind it is seen. */
static int read_input(void *ctx, uint64_t offset, void *to, size_t length)
{
	memcpy(to, (const uint8_t *)ctx + offset, length);
	return 0;
}

static void ask_dex(const struct byte_source *source, uint64_t at)
{
	char name[DEX_NAME_BYTES];
	struct dex_place place, again;
	struct dex_index index;
	struct dex_file dex;
	uint32_t line;

	if (dex_file_open(&dex, source, at) || dex_index_build(&index, &dex))
		return;
	if (index.count > dex.methods.count)
		abort();
	for (size_t i = 0; i < index.count && i < 64; i++) {
		if (!dex_method_name(&dex, index.code[i].method & ~DEX_SHARED, name) &&
		    strlen(name) >= sizeof(name))
			abort();
		if (dex_index_place(&index, &dex, i, &place))
			continue;
		dex_line(&dex, &place, &line);
		if (!dex_index_find(&index, &dex, place.code, &again) &&
		    again.pc >= again.instructions)
			abort();
	}
	for (uint32_t i = 0; i < 256; i++) {
		dex_class_method(&dex, i % 8, i / 8, &place);
		if (!dex_method_place(&dex, i, &place) && place.method != i)
			abort();
	}
	dex_index_free(&index);
}

#if defined(FUZZ_ZIP)
#include <sys/mman.h>
#include <unistd.h>

/* All that is found in a file of any kind, as for a mapping of it. */
static void open_archive(const uint8_t *data, size_t size)
{
	static int memory = -1;
	struct dex_archive *archive;

	if (memory < 0)
		memory = memfd_create("archive", 0);
	if (ftruncate(memory, 0) || pwrite(memory, data, size, 0) != (ssize_t)size)
		abort();
	archive = dex_archive_open(&(struct stack_file){.fd = dup(memory), .size_bytes = size});
	for (unsigned i = 0; archive && i < archive->count; i++)
		if (archive->files[i].start > size || archive->files[i].end > size)
			abort();
	if (archive && archive->count > DEX_ARCHIVE_FILES)
		abort();
	dex_archive_free(archive);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct byte_source source = {read_input, (void *)data, size};
#if defined(FUZZ_DEX)
	ask_dex(&source, 0);
#elif defined(FUZZ_VDEX)
	struct vdex_file vdex;
	struct vdex_dex dex;

	if (vdex_file_open(&vdex, &source))
		return 0;
	while (!vdex_file_next(&vdex, &dex)) {
		if (dex.size > size || dex.at > size - dex.size)
			abort();
		ask_dex(&source, dex.at);
	}
#else
	struct zip_file zip;
	struct zip_dex dex;

	open_archive(data, size);
	if (zip_file_open(&zip, &source))
		return 0;
	while (!zip_file_next(&zip, &dex)) {
		if (dex.stored_bytes > size || dex.at > size - dex.stored_bytes)
			abort();
		if (dex.stored)
			ask_dex(&source, dex.at);
	}
#endif
	return 0;
}
#else

#define STACK_BASE 0x7ffc00000000ull

struct world {
	struct cfi_tables *tables;
	struct cfi_row *row;
	const uint8_t *memory;
	size_t memory_size;
};

static bool word(void *ctx, uint64_t address, uint64_t *value)
{
	struct world *w = ctx;
	uint64_t at = address - STACK_BASE;

	if (w->memory_size < 8 || at > w->memory_size - 8)
		return false;
	memcpy(value, w->memory + at, 8);
	return true;
}

static bool executable(void *ctx, uint64_t address)
{
	return address >= ELF_TEXT && address < ELF_TEXT + 0x10000;
}

static int locate(void *ctx, uint64_t address, struct stack_frame *frame,
		  const struct cfi_row **row)
{
	struct world *w = ctx;
	int err;

	if (!executable(ctx, address))
		return -EFAULT;
	cfi_row_free(w->row);
	w->row = NULL;
	err = w->tables ? cfi_row_at(w->tables, address, &w->row) : -ENODATA;
	*row = w->row;
	return err;
}

static void locate_dex(void *ctx, struct stack_frame *frame)
{
	frame->module = 1;
}

static int code(void *ctx, uint64_t address, void *to, size_t len)
{
	struct world *w = ctx;

	if (len > w->memory_size)
		return -EFAULT;
	memcpy(to, w->memory, len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct made_elf made;
	static struct stack_frame frames[STACK_MAX_FRAMES];
	struct stack_trace trace = {.frames = frames};
	struct stack_registers registers = {.valid = (1ull << STACK_REGISTERS) - 1};
	struct world w = {0};
	struct unwind_reader reader = {.word = word,
				       .locate = locate,
				       .locate_dex = locate_dex,
				       .code = code,
				       .executable = executable,
				       .ctx = &w,
				       .address_bits = 48};
	struct elf_file elf;
	uint8_t *bytes;
	size_t tables_size;

	if (size < 64)
		return 0;
	registers.arch = data[0] & 1 ? STACK_ARM64 : STACK_X86_64;
	for (unsigned i = 0; i < STACK_REGISTERS; i++) {
		uint8_t choice = data[1 + i];

		registers.value[i] = choice & 1 ? STACK_BASE + choice * 8 : ELF_TEXT + choice * 64;
	}
	registers.value[registers.arch == STACK_ARM64 ? 31 : 7] = STACK_BASE + data[40] * 8;
	registers.value[registers.arch == STACK_ARM64 ? 32 : 16] = ELF_TEXT + data[41];
	registers.valid &= ~(uint64_t)data[42];
	w.memory_size = data[43] * 8;
	if (w.memory_size > size - 64)
		w.memory_size = size - 64;
	w.memory = data + 64;
	tables_size = size - 64 - w.memory_size;
	if (tables_size > 32768)
		tables_size = 32768;
	made_start(&made);
	made_section(&made, data[44] & 1 ? ".debug_frame" : ".eh_frame", SHT_PROGBITS,
		     data + 64 + w.memory_size, tables_size, 0x500000, 0, 0);
	made_end(&made, registers.arch == STACK_ARM64 ? EM_AARCH64 : EM_X86_64);
	bytes = malloc(made.size);
	memcpy(bytes, made.bytes, made.size);
	if (elf_file_open_memory(&elf, bytes, made.size))
		abort();
	cfi_tables_new(&elf, NULL, &w.tables);
	unwind_run(&reader, &registers, &trace);
	if (trace.count > STACK_MAX_FRAMES)
		abort();
	cfi_row_free(w.row);
	cfi_tables_free(w.tables);
	elf_file_close(&elf);
	return 0;
}
#endif
