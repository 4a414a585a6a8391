/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/telling.h"

#include <stdio.h>
#include <string.h>

#include "record/art_frames.h"

/* Files whose code never tells, by how their names begin: the C library, its loader, the C++
 * runtime and the vDSO. Stripped ones have no names of functions in them either. */
static const char *const library_files[] = {
	"libc.so",      "libc-2.",   "libc.musl",     "libpthread",  "ld-linux",    "ld-musl",
	"ld-2.",        "linker64",  "linker",        "libdl.so",    "librt.so",    "libgcc_s.so",
	"libstdc++.so", "libc++.so", "libc++_shared", "libc++abi",   "[vdso]",      "[vsyscall]",
	"[uprobes]",    "libm.so",   "libjemalloc",   "libtcmalloc", "libmimalloc", "libscudo",
};

/* Functions that wait, sleep, lock, copy or allocate for the function that called them, for
 * programs that are linked statically. Leading underscores do not count. One that ends in '*'
 * stands for all names that begin so. */
static const char *const stubs[] = {
	/* waits and sleeps */
	"epoll_wait*",
	"epoll_pwait*",
	"poll",
	"ppoll*",
	"select",
	"pselect*",
	"io_uring_enter*",
	"nanosleep*",
	"clock_nanosleep*",
	"usleep",
	"sleep",
	"thrd_sleep",
	"pause",
	"sigsuspend*",
	"wait",
	"wait3",
	"wait4*",
	"waitpid",
	"waitid",
	"sched_yield",
	"std::this_thread::*",
	"std::thread::sleep*",
	"java.lang.Thread.sleep*",
	"java.lang.Object.wait*",
	"java.lang.Thread.park*",
	"sun.misc.Unsafe.park",
	"jdk.internal.misc.Unsafe.park",
	/* system calls, and the ways into them */
	"syscall",
	"syscall_cancel*",
	"internal_syscall_cancel*",
	"vsyscall",
	"kernel_vsyscall",
	"read",
	"write",
	"pread*",
	"pwrite*",
	"readv",
	"writev",
	"recv*",
	"send",
	"sendto",
	"sendmsg*",
	"accept",
	"accept4",
	"connect",
	"ioctl",
	"fsync",
	"fdatasync",
	"open",
	"open64",
	"openat*",
	"close",
	"flock",
	"fcntl*",
	"mmap*",
	"munmap",
	"mprotect",
	"madvise",
	"msync",
	"brk",
	"sbrk",
	/* what calls main() or a thread's function */
	"libc_*",
	"start_thread*",
	"pthread_start*",
	"clone",
	"clone3",
	"std::rt::*",
	"std::panicking::*",
	"core::ops::function::*",
	/* locks */
	"futex*",
	"do_futex*",
	"lll_*",
	"pthread_mutex_*",
	"pthread_cond_*",
	"pthread_rwlock_*",
	"pthread_barrier_*",
	"pthread_join*",
	"pthread_timedjoin*",
	"pthread_clockjoin*",
	"pthread_once*",
	"pthread_spin_*",
	"sem_wait*",
	"sem_timedwait*",
	"sem_clockwait*",
	"new_sem_wait*",
	"mtx_*",
	"cnd_*",
	"NonPI::*",
	"NormalMutex*",
	"RecursiveOrErrorcheckMutex*",
	"std::mutex::*",
	"std::recursive_mutex::*",
	"std::timed_mutex::*",
	"std::shared_mutex::*",
	"std::lock_guard<*",
	"std::unique_lock<*",
	"std::scoped_lock<*",
	"std::condition_variable*",
	"std::future<*",
	"std::promise<*",
	"std::thread::join*",
	"gthread_*",
	"android::Mutex::*",
	"android::Condition::*",
	"art::ConditionVariable::*",
	"art::Mutex::*",
	"art::Monitor::*",
	"art::BaseMutex::*",
	"std::sync::*",
	"std::sys::*",
	"parking_lot::*",
	"parking_lot_core::*",
	"lock_api::*",
	"absl::Mutex::*",
	"g_mutex_*",
	"g_cond_*",
	"java.util.concurrent.locks.*",
	/* a transaction of binder: these frames only pass the call on */
	"android::IPCThreadState::*",
	"android::BpBinder::*",
	"android::BpHwBinder::*",
	"android_os_BinderProxy_*",
	"android.os.BinderProxy.*",
	/* allocators, and copies of memory */
	"malloc*",
	"calloc",
	"realloc*",
	"reallocarray",
	"free",
	"cfree",
	"posix_memalign",
	"aligned_alloc",
	"memalign",
	"int_malloc",
	"int_free*",
	"int_realloc",
	"sysmalloc*",
	"systrim*",
	"unlink_chunk*",
	"arena_get*",
	"tcache_*",
	"je_*",
	"scudo*",
	"tc_*",
	"operator new*",
	"operator delete*",
	"alloc::alloc::*",
	"alloc::raw_vec::*",
	"rust_alloc*",
	"rust_dealloc*",
	"rust_realloc*",
	"rdl_alloc*",
	"memcpy*",
	"memmove*",
	"memset*",
	"memcmp*",
	"strlen*",
	"strcpy*",
	"strcmp*",
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static char closing(char open)
{
	return open == '(' ? ')' : open == '<' ? '>' : open == '[' ? ']' : '}';
}

/* Bytes from an opening bracket to behind the one that closes it; 0: it is never closed. "->" and
 * operators close nothing. */
static size_t bracket(const char *text)
{
	char stack[64];
	size_t depth = 0;

	for (size_t i = 0; text[i]; i++) {
		char c = text[i];

		if (c == '(' || c == '<' || c == '{' || c == '[') {
			if (depth == sizeof(stack))
				return 0;
			stack[depth++] = closing(c);
		} else if (c == '>' && i && (text[i - 1] == '-' || text[i - 1] == '=')) {
			continue;
		} else if (depth && c == stack[depth - 1]) {
			if (!--depth)
				return i + 1;
		}
	}
	return 0;
}

static bool is_word(char c)
{
	return c == '_' || c == '$' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* Length of "operator" and the sign that belongs to it, 0 if the text does not begin so. */
static size_t operator_name(const char *text)
{
	static const char *const signs[] = {"<<=", ">>=", "<=>", "->*", "()", "[]", "<<",
					    ">>",  "<=",  ">=",  "->",  "<",  ">"};
	static const char word[] = "operator";

	if (!begins(text, word) || is_word(text[sizeof(word) - 1]))
		return 0;
	text += sizeof(word) - 1;
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
		if (begins(text, signs[i]))
			return sizeof(word) - 1 + strlen(signs[i]);
	return sizeof(word) - 1;
}

/* Where the name begins: behind the last blank before the arguments, which ends the type that the
 * function returns. The blank of "operator new" and of a conversion is part of the name. */
static const char *skip_type(const char *symbol)
{
	const char *name = symbol, *p = symbol;
	bool arguments = false;

	while (*p) {
		size_t length = p == symbol || !is_word(p[-1]) ? operator_name(p) : 0;

		if (!length && strchr("<([{", *p))
			length = bracket(p);
		if (length && begins(p, "operator")) {
			arguments |= strchr(p, '(') != NULL;
			break;
		}
		if (*p == '(' && length && !begins(p, "(anonymous namespace)") &&
		    p[length] != ':') {
			arguments = true;
			break;
		}
		if (*p == ' ')
			name = p + 1;
		p += length ? length : 1;
	}
	/* Without arguments this is C, Java or Rust, whose names have no type before them. */
	return arguments ? name : symbol;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_library(const char *module)
{
	for (size_t i = 0; i < sizeof(library_files) / sizeof(*library_files); i++)
		if (begins(base_name(module), library_files[i]))
			return true;
	return false;
}

/* "std::__1::mutex" and "std::__ndk1::mutex" are std::mutex, as libc++ calls it. */
static const char *skip_inline_namespace(const char *symbol, char buffer[TELLING_NAME])
{
	static const char *const spaces[] = {"std::__1::", "std::__ndk1::", "std::__cxx11::"};

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		if (begins(symbol, spaces[i])) {
			snprintf(buffer, TELLING_NAME, "std::%s", symbol + strlen(spaces[i]));
			return buffer;
		}
	return symbol;
}

static bool is_stub(const char *symbol)
{
	char buffer[TELLING_NAME];
	size_t length;

	if (!strcmp(symbol, "_start"))
		return true;
	symbol = skip_type(symbol);
	symbol += strspn(symbol, "_");
	if (begins(symbol, "GI_")) /* glibc's own copies: __GI___libc_read */
		symbol += 3;
	symbol += strspn(symbol, "_");
	/* Rust's "<std::sync::... as ...>::lock" */
	symbol += *symbol == '<';
	symbol = skip_inline_namespace(symbol, buffer);
	/* C++ has its arguments behind the name, C versions of a symbol their version. */
	length = strcspn(symbol, "(@");
	for (size_t i = 0; i < sizeof(stubs) / sizeof(*stubs); i++) {
		size_t wanted = strlen(stubs[i]);

		if (stubs[i][wanted - 1] == '*'
			    ? !strncmp(symbol, stubs[i], wanted - 1)
			    : wanted == length && !strncmp(symbol, stubs[i], length))
			return true;
	}
	return false;
}

static bool has_name(const struct record_frame *frame)
{
	/* Code that several functions share is named after none of them. */
	return frame->symbol && frame->symbol[0] && !frame->shared;
}

bool frame_tells(const struct record_frame *frame)
{
	if (frame->kind == FRAME_KERNEL || frame->kind == FRAME_VDSO)
		return false;
	if (frame->module && is_library(frame->module))
		return false;
	return has_name(frame) ? !is_stub(frame->symbol) : frame->module && frame->module[0] == '/';
}

/* What the runtime does, it does for a method: where there is one, ART's own code does not tell. */
static bool tells_here(const struct record_frame *frame, bool method)
{
	return frame_tells(frame) && !(method && frame_is_art(frame));
}

size_t telling_frame(const struct record_stack *stack, bool native)
{
	bool method = !native && stack_has_java(stack);

	for (size_t i = 0; i < stack->frame_count; i++)
		if (tells_here(&stack->frames[i], method))
			return i;
	for (size_t i = 0; i < stack->frame_count; i++)
		if (has_name(&stack->frames[i]))
			return i;
	return 0;
}

size_t telling_path(const struct record_stack *stack, bool native, size_t *frames, size_t room)
{
	size_t count = 0, first = telling_frame(stack, native);
	bool method = !native && stack_has_java(stack);

	if (first >= stack->frame_count || !room)
		return 0;
	frames[count++] = first;
	for (size_t i = first + 1; i < stack->frame_count && count < room; i++)
		if (tells_here(&stack->frames[i], method))
			frames[count++] = i;
	return count;
}

bool telling_same(const struct record_stack *a, const struct record_stack *b)
{
	char name[2][2 * TELLING_NAME];
	size_t frame[2];

	if (!telling_path(a, false, &frame[0], 1) || !telling_path(b, false, &frame[1], 1))
		return false;
	frame_name(name[0], sizeof(name[0]), &a->frames[frame[0]]);
	frame_name(name[1], sizeof(name[1]), &b->frames[frame[1]]);
	return !strcmp(name[0], name[1]);
}

const struct record_stack *heaviest_stack(const struct record_block *block)
{
	if (block->top.present && block->top.value < block->stack_count)
		return &block->stacks[block->top.value];
	return block->stack_count ? &block->stacks[0] : NULL;
}

const char *function_short(char *buffer, size_t size, const char *symbol)
{
	const char *p = skip_type(symbol), *first = p;
	size_t n = 0;

	while (*p && n + 1 < size) {
		size_t length = p == first || !is_word(p[-1]) ? operator_name(p) : 0;

		if (length) {
			for (; length && n + 1 < size; length--)
				buffer[n++] = *p++;
			continue;
		}
		if (begins(p, "(anonymous namespace)") || *p == '{') {
			length = begins(p, "(") ? 21 : 0;
		} else if (begins(p, "<init>") || begins(p, "<clinit>")) { /* of Java */
			length = strcspn(p, ">") + 1;
		} else if ((*p == '(' || *p == '<') && p != first && (length = bracket(p))) {
			bool empty = length == 2;
			int wrote = snprintf(buffer + n, size - n, "%c%s%c", *p, empty ? "" : "...",
					     closing(*p));

			if (wrote < 0 || (size_t)wrote >= size - n)
				break;
			n += (size_t)wrote;
			p += length;
			/* " const", " [clone .cold]" and the like behind the arguments */
			if (p[-1] == ')' && *p == ' ')
				break;
			continue;
		}
		for (length = length ? length : 1; length && n + 1 < size; length--)
			buffer[n++] = *p++;
	}
	buffer[n] = 0;
	return buffer;
}

const char *frame_name(char *buffer, size_t size, const struct record_frame *frame)
{
	const char *mark = frame_is_guess(frame->by) ? "?" : frame->inlined ? FRAME_INLINED : "";

	if (has_name(frame))
		snprintf(buffer, size, "%.*s%s", (int)size - 5, frame->symbol, mark);
	else
		snprintf(buffer, size, "%.200s+0x%llx%s",
			 frame->module && frame->module[0] ? base_name(frame->module) : "unknown",
			 (unsigned long long)frame->offset, mark);
	return buffer;
}
