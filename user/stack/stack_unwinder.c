/* SPDX-License-Identifier: BSD-2-Clause */
/* From a capture to frames, and from frames to names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "stack/service.h"
#include "stack/unwind.h"

#define MAPS_MAX_AGE_NS 2000000000ull
#define MAX_TEXT_BYTES  (4u << 20)
#define MAX_DEMANGLED   2048

/* From libsupc++, the C++ ABI's own: a NULL buffer is allocated; status 0 is success. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

const char *stack_end_text(enum stack_end end)
{
	static const char *const texts[] = {
		[END_OUTERMOST] = "outermost frame",
		[END_TRUNCATED] = "memory outside snapshot",
		[END_NO_TABLES] = "no unwind tables",
		[END_BAD_TABLES] = "malformed unwind tables",
		[END_NOT_MAPPED] = "return address not mapped",
		[END_NO_MODULE] = "no readable ELF file",
		[END_CYCLE] = "stack does not advance",
		[END_FRAME_LIMIT] = "frame limit",
		[END_KERNEL_ONLY] = "kernel stack only",
		[END_NO_REGISTERS] = "register not known",
		[END_COMPAT] = "32-bit code",
	};

	return end < sizeof(texts) / sizeof(texts[0]) && texts[end] ? texts[end] : "unknown";
}

int stack_trace_init(struct stack_trace *trace)
{
	*trace = (struct stack_trace){.frames = calloc(STACK_MAX_FRAMES, sizeof(*trace->frames))};
	return trace->frames ? 0 : -ENOMEM;
}

void stack_trace_free(struct stack_trace *trace)
{
	free(trace->frames);
	free(trace->text);
	*trace = (struct stack_trace){0};
}

struct walk {
	struct stack_service *service;
	const struct stack_capture *capture;
	struct module_scope scope;
};

static bool walk_word(void *ctx, uint64_t address, uint64_t *value)
{
	const struct stack_capture *capture = ((struct walk *)ctx)->capture;
	uint64_t at = address - capture->stack_base;

	if (capture->stack_bytes < sizeof(*value) || at > capture->stack_bytes - sizeof(*value))
		return false;
	memcpy(value, capture->stack + at, sizeof(*value));
	return true;
}

static int walk_locate(void *ctx, uint64_t address, struct stack_frame *frame,
		       const struct cfi_row **row)
{
	struct walk *walk = ctx;

	return modules_locate(walk->service->modules, &walk->scope, address, frame, row);
}

static int walk_code(void *ctx, uint64_t address, void *to, size_t len)
{
	struct walk *walk = ctx;

	return modules_code(walk->service->modules, &walk->scope, address, to, len);
}

static bool walk_executable(void *ctx, uint64_t address)
{
	const struct map_entry *entry = maps_find(((struct walk *)ctx)->scope.maps, address);

	return entry && entry->flags & MAP_EXEC;
}

/* Frames of CAPTURE_KERNEL are texts, kept in one block. */
static int kernel_trace(const struct stack_capture *capture, struct stack_trace *trace)
{
	size_t bytes = 0, at = 0;

	trace->count = 0;
	trace->complete = false;
	trace->end = capture->failure == STACK_COMPAT ? END_COMPAT : END_KERNEL_ONLY;
	trace->end_address = 0;
	for (size_t i = 0; i < capture->kernel_frame_count; i++)
		bytes += strlen(capture->kernel_frames[i]) + 1;
	free(trace->text);
	trace->text = malloc(bytes ? bytes : 1);
	if (!trace->text)
		return -ENOMEM;
	for (size_t i = 0; i < capture->kernel_frame_count; i++) {
		size_t len = strlen(capture->kernel_frames[i]) + 1;
		uint64_t function = 14695981039346656037ull; /* FNV-1a */

		memcpy(trace->text + at, capture->kernel_frames[i], len);
		for (size_t c = 0; c + 1 < len; c++)
			function = (function ^ (uint8_t)trace->text[at + c]) * 1099511628211ull;
		trace->frames[trace->count++] = (struct stack_frame){
			.kind = FRAME_KERNEL, .function = function, .text = trace->text + at};
		at += len;
	}
	return 0;
}

int stack_unwind(struct stack_service *service, struct stack_capture *capture,
		 struct stack_trace *trace)
{
	uint64_t start_ticks = capture->thread.start_boot_ns / 10000000;
	struct walk walk = {.service = service, .capture = capture};
	struct unwind_reader reader = {.word = walk_word,
				       .locate = walk_locate,
				       .code = walk_code,
				       .executable = walk_executable,
				       .ctx = &walk};

	if (!capture->registers.valid)
		return kernel_trace(capture, trace);
	free(trace->text);
	trace->text = NULL;
	for (unsigned fresh = 0; fresh < 2; fresh++) {
		/* The picture is kept for a while; at once when an address is in no mapping of it.
		 */
		struct stack_maps *maps = maps_cache_get(service->maps, capture->thread.pid,
							 start_ticks, fresh ? 0 : MAPS_MAX_AGE_NS);

		if (!maps && !capture->maps) {
			trace->count = 1;
			trace->frames[0] =
				(struct stack_frame){.pc = registers_pc(&capture->registers),
						     .offset = registers_pc(&capture->registers),
						     .function = registers_pc(&capture->registers),
						     .exact = true};
			trace->complete = false;
			trace->end = END_NOT_MAPPED;
			trace->end_address = trace->frames[0].pc;
			return errno == ENOMEM ? -ENOMEM : 0;
		}
		if (fresh && (!maps || maps == capture->maps)) {
			maps_put(maps);
			return 0;
		}
		if (maps) {
			maps_put(capture->maps);
			capture->maps = maps;
		}
		walk.scope = (struct module_scope){.root = service->config.root,
						   .pid = capture->thread.pid,
						   .arch = capture->registers.arch,
						   .maps = capture->maps};
		reader.address_bits = maps_address_bits(capture->maps);
		unwind_run(&reader, &capture->registers, trace);
		if (trace->end != END_NOT_MAPPED)
			return 0;
	}
	return 0;
}

struct stack_module stack_module(const struct stack_service *service, uint32_t module)
{
	return modules_describe(service->modules, module);
}

struct symbol_text {
	uint64_t function;
	UT_hash_handle hh;
	char text[];
};

/* C++ names become readable; a name that is none, or grows absurd, stays as it is. */
static char *demangle(const char *name)
{
	char *text = NULL;
	int status = -1;

	if (name[0] == '_' && name[1] == 'Z')
		text = __cxa_demangle(name, NULL, NULL, &status);
	if (status == 0 && text && strlen(text) <= MAX_DEMANGLED)
		return text;
	free(text);
	return strndup(name, MAX_DEMANGLED);
}

int stack_symbolise(struct stack_service *service, const struct stack_frame *frame,
		    struct record_frame *out)
{
	struct stack_module module = stack_module(service, frame->module);
	char name[ELF_INDEX_NAME_BYTES], *text;
	struct symbol_text *known;
	uint64_t offset = frame->offset;

	*out = (struct record_frame){.module = module.path,
				     .build_id = module.build_id,
				     .offset = frame->offset,
				     .symbol = frame->text,
				     .kind = frame->kind};
	if (frame->kind == FRAME_KERNEL || !frame->module)
		return 0;
	HASH_FIND(hh, service->texts, &frame->function, sizeof(frame->function), known);
	if (known) {
		out->symbol = known->text;
		return 0;
	}
	/* A return address may already belong to the next function: the call is before it. */
	if (!frame->exact)
		offset--;
	if (modules_symbol(service->modules, frame->module, offset, name))
		return 0;
	text = demangle(name);
	if (!text)
		return -ENOMEM;
	if (service->text_bytes + strlen(text) > MAX_TEXT_BYTES) {
		service->texts_refused++;
		free(text);
		return 0;
	}
	known = malloc(sizeof(*known) + strlen(text) + 1);
	if (!known) {
		free(text);
		return -ENOMEM;
	}
	known->function = frame->function;
	strcpy(known->text, text);
	service->text_bytes += strlen(text) + 1;
	free(text);
	HASH_ADD(hh, service->texts, function, sizeof(known->function), known);
	out->symbol = known->text;
	return 0;
}

void stack_symbols_drop(struct stack_service *service)
{
	struct symbol_text *text, *next;

	HASH_ITER (hh, service->texts, text, next) {
		HASH_DEL(service->texts, text);
		free(text);
	}
	service->text_bytes = 0;
}

int stack_service_losses(const struct stack_service *service, struct counter_list *lost)
{
	int err = modules_losses(service->modules, lost);

	return err ?: counter_list_add(lost, "symbol_texts_refused", service->texts_refused);
}
