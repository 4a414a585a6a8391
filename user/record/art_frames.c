/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/art_frames.h"

#include <string.h>

/* What leads from one method to the next, as backtraces of Android 8 to 15 show it: names of
 * assembly, and of C++ without the type that is returned, its arguments and template arguments.
 * One that ends in '*' stands for all names that begin so. From art/runtime: arch/ARCH/
 * quick_entrypoints_ARCH.S, entrypoints/quick/quick_trampoline_entrypoints.cc, interpreter/,
 * jni/jni_internal.cc, reflection.cc, art_method.cc. */
static const char *const ways[] = {
	/* trampolines */
	"art_quick_*",
	"art_jni_*",
	"art_invoke_*",
	"artQuick*",
	"artInterpreterToCompiledCodeBridge",
	"artInvoke*",
	"artMethod*Bridge*",
	/* interpreters: nterp (from 12 on), mterp (8 to 13), the switch */
	"ExecuteNterpImpl",
	"ExecuteNterpWithClinitImpl",
	"EndExecuteNterp*",
	"nterp_*",
	"Nterp*",
	"ExecuteMterpImpl",
	"artMterp*",
	"Mterp*",
	"mterp_*",
	"ExecuteSwitchImplAsm",
	"art::interpreter::*",
	/* invocations, of the runtime and of JNI */
	"art::ArtMethod::Invoke*",
	"art::InvokeMethod*",
	"art::InvokeVirtual*",
	"art::InvokeWith*",
	"art::InvokeConstructor*",
	"art::(anonymous namespace)::InvokeWith*",
	"art::(anonymous namespace)::CheckJNI::Call*",
	"art::(anonymous namespace)::ScopedCheck::*",
	"art::JNI::Call*",
	"art::JNI<*",
	"art::CheckJNI::Call*",
	"art::Method_invoke*",
	"art::Constructor_newInstance*",
	"art::JniMethodStart*",
	"art::JniMethodEnd*",
	"art::EnterInterpreter*",
	"art::Thread::CreateCallback*",
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool ends(const char *text, const char *with)
{
	size_t length = strlen(text), wanted = strlen(with);

	return length >= wanted && !strcmp(text + length - wanted, with);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* libart.so, libartd.so and the libraries that are parts of them. */
static bool is_art_file(const char *module)
{
	const char *name = base_name(module);

	return begins(name, "libart.") || begins(name, "libartd.") || begins(name, "libart-") ||
	       begins(name, "libartd-") || begins(name, "libartbase") ||
	       begins(name, "libartpalette");
}

/* Code that was compiled ahead: of the boot image, of an app, and of Android 5 to 9. */
static bool is_compiled_file(const char *module)
{
	return ends(module, ".oat") || ends(module, ".odex") || ends(module, "@classes.dex") ||
	       ends(module, ".art");
}

/* Whether a name, whole or behind the type that is returned, stands in the list. The name begins
 * with the whole text, or behind a blank that is in no bracket. */
static bool is_way(const char *symbol)
{
	const char *name = symbol;
	int depth = 0;

	for (const char *p = symbol; *p; p++) {
		/* The arguments begin; "(anonymous namespace)" is part of the name. */
		if (*p == '(' && !depth && p != name && !begins(p, "(anonymous namespace)"))
			break;
		depth += *p == '<' || *p == '(';
		depth -= *p == '>' || *p == ')';
		if (*p == ' ' && !depth)
			name = p + 1;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		size_t length = strlen(ways[i]);

		if (ways[i][length - 1] == '*') {
			if (!strncmp(name, ways[i], length - 1))
				return true;
		} else if (!strncmp(name, ways[i], length) &&
			   (!name[length] || name[length] == '(')) {
			return true;
		}
	}
	return false;
}

static bool has_name(const struct record_frame *frame)
{
	return frame->symbol && frame->symbol[0] && !frame->shared;
}

bool frame_is_java(const struct record_frame *frame)
{
	switch (frame->kind) {
	case FRAME_DEX:
		return true;
	case FRAME_JIT:
		return has_name(frame) && !is_way(frame->symbol);
	case FRAME_NATIVE:
		/* All code of such a file is a method's, but for the trampolines. */
		return frame->module && is_compiled_file(frame->module) &&
		       !(frame->symbol && is_way(frame->symbol));
	case FRAME_KERNEL:
	case FRAME_VDSO:
		break;
	}
	return false;
}

bool stack_has_java(const struct record_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++)
		if (frame_is_java(&stack->frames[i]))
			return true;
	return false;
}

bool frame_is_art(const struct record_frame *frame)
{
	bool named_so = frame->symbol && is_way(frame->symbol);

	if (frame->kind == FRAME_JIT)
		return named_so;
	if (frame->kind != FRAME_NATIVE)
		return false;
	if (!frame->module)
		return named_so;
	/* A function of the app may have such a name, too. */
	return is_art_file(frame->module) || (is_compiled_file(frame->module) && named_so);
}

/* Of code without a name in ART's own library nothing is told by its place. */
static bool can_fold(const struct record_frame *frame)
{
	if (!frame_is_art(frame))
		return false;
	return !has_name(frame) || is_way(frame->symbol);
}

size_t art_mark_folded(const struct record_stack *stack, bool *folded)
{
	size_t count = 0, end;

	memset(folded, 0, stack->frame_count * sizeof(*folded));
	for (size_t i = 0; i < stack->frame_count; i = end) {
		bool beside = i && frame_is_java(&stack->frames[i - 1]);

		end = i + 1;
		if (!can_fold(&stack->frames[i]))
			continue;
		while (end < stack->frame_count && can_fold(&stack->frames[end]))
			end++;
		beside |= end < stack->frame_count && frame_is_java(&stack->frames[end]);
		for (size_t k = i; beside && k < end; k++, count++)
			folded[k] = true;
	}
	return count;
}
