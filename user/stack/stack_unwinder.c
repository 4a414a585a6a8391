/* SPDX-License-Identifier: BSD-2-Clause */
/* From a capture to frames, and from frames to names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/budget.h"
#include "stack/code/dex.h"
#include "stack/code/jit.h"
#include "stack/code/oat.h"
#include "stack/jit_names.h"
#include "stack/maps.h"
#include "stack/modules.h"
#include "stack/registers.h"
#include "stack/unwind.h"

#define DEFAULT_CACHE_BYTES (16u << 20)
#define MAPS_MAX_AGE_NS     2000000000ull

/* Who explains code that no file holds, in the order in which they are asked. */
enum { PROVIDER_JIT, PROVIDER_NAMES, PROVIDER_DEX, PROVIDER_OAT, PROVIDERS };

struct stack_unwinder {
	struct maps_cache *maps;
	struct modules *modules;
	struct code_user providers[PROVIDERS]; /* self NULL: could not be made */
	uint64_t mappings_left_out, code_given_back;
};

int stack_trace_init(struct stack_trace *trace)
{
	*trace = (struct stack_trace){.frames = calloc(STACK_MAX_FRAMES, sizeof(*trace->frames))};
	return trace->frames ? 0 : -ENOMEM;
}

void stack_trace_free(struct stack_trace *trace)
{
	free(trace->frames);
	*trace = (struct stack_trace){0};
}

struct stack_unwinder *stack_unwinder_new(const struct stack_unwind_config *config)
{
	struct stack_unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return NULL;
	unwinder->maps = maps_cache_new(config->files);
	unwinder->modules = modules_new(config->files, config->cache_bytes ?: DEFAULT_CACHE_BYTES);
	unwinder->providers[PROVIDER_JIT].is = &jit_code_provider;
	unwinder->providers[PROVIDER_NAMES].is = &jit_names_provider;
	unwinder->providers[PROVIDER_DEX].is = &dex_code_provider;
	unwinder->providers[PROVIDER_OAT].is = &oat_code_provider;
	if (unwinder->modules) {
		unwinder->providers[PROVIDER_JIT].self =
			jit_code_new(config->files, unwinder->modules);
		unwinder->providers[PROVIDER_NAMES].self = jit_names_new(config->files);
		unwinder->providers[PROVIDER_DEX].self =
			dex_code_new(config->files, unwinder->modules);
	}
	if (unwinder->providers[PROVIDER_DEX].self)
		unwinder->providers[PROVIDER_OAT].self =
			oat_code_new(unwinder->modules, unwinder->providers[PROVIDER_DEX].self);
	if (unwinder->providers[PROVIDER_JIT].self)
		jit_code_use_dex(unwinder->providers[PROVIDER_JIT].self,
				 unwinder->providers[PROVIDER_DEX].self);
	if (unwinder->maps && unwinder->providers[PROVIDER_JIT].self &&
	    unwinder->providers[PROVIDER_NAMES].self && unwinder->providers[PROVIDER_OAT].self)
		return unwinder;
	stack_unwinder_free(unwinder);
	errno = ENOMEM;
	return NULL;
}

void stack_unwinder_free(struct stack_unwinder *unwinder)
{
	if (!unwinder)
		return;
	for (unsigned i = 0; i < PROVIDERS; i++)
		if (unwinder->providers[i].self)
			unwinder->providers[i].is->free(unwinder->providers[i].self);
	modules_free(unwinder->modules);
	maps_cache_free(unwinder->maps);
	free(unwinder);
}

/* ---- unwinding ---- */

struct walk {
	struct stack_unwinder *unwinder;
	const struct stack_capture *capture;
	struct module_scope scope;
	/* an address is in no executable mapping; or lies where mappings were too many to keep */
	bool not_mapped, left_out;
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
	int err = modules_locate(walk->unwinder->modules, &walk->scope, address, frame, row);

	if (err == -EFAULT) {
		walk->not_mapped = true;
		walk->left_out |= maps_left_out(walk->scope.maps, address);
	}
	if (!err && frame->oat)
		oat_code_tell(walk->unwinder->providers[PROVIDER_OAT].self, &walk->scope, address,
			      frame);
	if (err == -ENODATA) {
		int told = oat_code_provider.locate(walk->unwinder->providers[PROVIDER_OAT].self,
						    &walk->scope, address, frame, row);

		return told == -ENOENT ? err : told;
	}
	/* A file that is no ELF, or that cannot be read, may hold such code as well. */
	if (err != -ENODEV && err != -ENOEXEC)
		return err;
	for (unsigned i = 0; i < PROVIDERS; i++) {
		void *self = walk->unwinder->providers[i].self;
		int told = walk->unwinder->providers[i].is->locate(self, &walk->scope, address,
								   frame, row);

		if (told != -ENOENT)
			return told;
	}
	return err;
}

static void walk_locate_dex(void *ctx, struct stack_frame *frame)
{
	struct walk *walk = ctx;

	for (unsigned i = 0; i < PROVIDERS; i++) {
		const struct code_provider *is = walk->unwinder->providers[i].is;

		if (is->locate_dex && !is->locate_dex(walk->unwinder->providers[i].self,
						      &walk->scope, frame->pc, frame))
			return;
	}
}

static size_t walk_inlined(void *ctx, const struct stack_frame *frame, struct stack_frame *to,
			   size_t room)
{
	struct walk *walk = ctx;

	if (frame->oat)
		return oat_code_inlined(walk->unwinder->providers[PROVIDER_OAT].self, &walk->scope,
					frame, to, room);
	return frame->kind == FRAME_JIT
		       ? jit_code_inlined(walk->unwinder->providers[PROVIDER_JIT].self,
					  &walk->scope, frame, to, room)
		       : 0;
}

static int walk_code(void *ctx, uint64_t address, void *to, size_t len)
{
	struct walk *walk = ctx;

	return modules_code(walk->unwinder->modules, &walk->scope, address, to, len);
}

static bool walk_executable(void *ctx, uint64_t address)
{
	const struct map_entry *entry = maps_find(((struct walk *)ctx)->scope.maps, address);

	return entry && entry->flags & MAP_EXEC;
}

size_t stack_unwinder_code_bytes(const struct stack_unwinder *unwinder)
{
	return code_kept_bytes(unwinder->providers, PROVIDERS);
}

size_t stack_unwinder_cache_bytes(const struct stack_unwinder *unwinder)
{
	return stack_unwinder_code_bytes(unwinder) + modules_bytes(unwinder->modules);
}

/* Nothing is known but where it is. */
static void trace_of_pc(const struct stack_capture *capture, struct stack_trace *trace)
{
	uint64_t pc = registers_pc(&capture->registers);

	trace->count = 1;
	trace->frames[0] =
		(struct stack_frame){.pc = pc, .offset = pc, .function = pc, .exact = true};
	trace->complete = false;
	trace->end = END_MAPS_UNREAD;
	trace->end_address = pc;
}

int stack_unwind(struct stack_unwinder *unwinder, const struct stack_capture *capture,
		 struct stack_trace *trace)
{
	struct walk walk = {.unwinder = unwinder,
			    .capture = capture,
			    .scope = {.process = {capture->thread.pid,
						  capture->thread.start_boot_ns / 10000000},
				      .arch = capture->registers.arch}};
	struct unwind_reader reader = {.word = walk_word,
				       .locate = walk_locate,
				       .locate_dex = walk_locate_dex,
				       .inlined = walk_inlined,
				       .code = walk_code,
				       .executable = walk_executable,
				       .ctx = &walk};
	struct stack_maps *maps, *used = NULL;

	if (!capture->registers.valid)
		return -EINVAL;
	modules_begin(unwinder->modules);
	for (unsigned i = 0; i < PROVIDERS; i++)
		if (unwinder->providers[i].is->begin)
			unwinder->providers[i].is->begin(unwinder->providers[i].self);
	unwinder->code_given_back +=
		code_keep_within(unwinder->providers, PROVIDERS, CODE_KEPT_BYTES);
	/* The picture is kept for a while; it is read again at once when an address is in no
	 * mapping of it. */
	for (unsigned fresh = 0; fresh < 2; fresh++) {
		maps = maps_cache_get(unwinder->maps, &walk.scope.process,
				      fresh ? 0 : MAPS_MAX_AGE_NS);
		if (!maps || maps == used) {
			maps_put(maps);
			break;
		}
		maps_put(used);
		used = maps;
		walk.scope.maps = maps;
		reader.address_bits = maps_address_bits(maps);
		unwind_run(&reader, &capture->registers, trace);
		/* Another look at so many mappings leaves some out again. */
		if (!walk.not_mapped || walk.left_out)
			break;
		walk.not_mapped = false;
	}
	unwinder->mappings_left_out += walk.left_out;
	if (walk.left_out && trace->end == END_NOT_MAPPED)
		trace->end = END_LEFT_OUT;
	if (!used)
		trace_of_pc(capture, trace);
	maps_put(used);
	return 0;
}

void stack_unwinder_prime(struct stack_unwinder *unwinder, const struct stack_process *process)
{
	struct stack_maps *maps = maps_cache_get(unwinder->maps, process, MAPS_MAX_AGE_NS);
	struct module_scope scope = {.process = *process, .arch = STACK_HOST_ARCH, .maps = maps};

	if (maps)
		modules_prime(unwinder->modules, &scope);
	maps_put(maps);
}

/* ---- naming ---- */

static const char *provided_name(struct stack_unwinder *unwinder, const struct stack_frame *frame)
{
	const char *name = NULL;

	for (unsigned i = 0; i < PROVIDERS && !name; i++)
		name = unwinder->providers[i].is->name(unwinder->providers[i].self, frame);
	return name;
}

struct unwound *stack_unwound(struct stack_unwinder *unwinder, const struct stack_trace *trace)
{
	struct unwound_frame *frames = calloc(trace->count + 1, sizeof(*frames));
	struct unwound *unwound;

	if (!frames)
		return NULL;
	for (size_t i = 0; i < trace->count; i++) {
		const struct stack_frame *from = &trace->frames[i];
		struct module_description module =
			modules_describe(unwinder->modules, from->module);

		frames[i] = (struct unwound_frame){.pc = from->pc,
						   .offset = from->offset,
						   .function = from->function,
						   .module = module.path,
						   .build_id = module.build_id,
						   .kind = from->kind,
						   .method = from->method,
						   .line = from->line,
						   .dex_place = from->dex_place,
						   .inlined = from->inlined,
						   .exact = from->exact};
		if (from->kind == FRAME_JIT || from->kind == FRAME_DEX || from->provided)
			frames[i].symbol = provided_name(unwinder, from);
		else if (from->module)
			/* A return address may already belong to the next function: the call is
			 * before it. */
			frames[i].symbol =
				modules_name(unwinder->modules, from->module, from->function,
					     from->offset - !from->exact);
		/* What ART's compiler (oatdump's DEDUPED) calls code that several methods share. */
		frames[i].shared = frames[i].symbol && !strcmp(frames[i].symbol, "[DEDUPED]");
	}
	unwound = unwound_new(frames, trace->count);
	free(frames);
	if (!unwound)
		return NULL;
	unwound->end = trace->end;
	unwound->complete = trace->complete;
	unwound->end_address = trace->end_address;
	return unwound;
}

void stack_unwinder_losses(const struct stack_unwinder *unwinder,
			   struct stack_unwind_losses *losses)
{
	modules_losses(unwinder->modules, losses);
	losses->mappings_left_out = unwinder->mappings_left_out;
	losses->code_given_back = unwinder->code_given_back;
	jit_code_losses(unwinder->providers[PROVIDER_JIT].self, losses);
	dex_code_losses(unwinder->providers[PROVIDER_DEX].self, losses);
	oat_code_losses(unwinder->providers[PROVIDER_OAT].self, losses);
}
