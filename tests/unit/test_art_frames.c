/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of Java methods as backtraces of Android 8 to 15 have them: the names of ART's frames are
 * those of tombstones and ANR traces in public bug reports. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "record/art_frames.h"
#include "record/folded.h"
#include "record/telling.h"
#include "sink/table.h"

#define ART   "/apex/com.android.art/lib64/libart.so"
#define LIBC  "/apex/com.android.runtime/lib64/bionic/libc.so"
#define BOOT  "/system/framework/arm64/boot-framework.oat"
#define ODEX  "/data/app/~~x==/com.example.shop-y==/oat/arm64/base.odex"
#define VDEX  "/data/app/~~x==/com.example.shop-y==/oat/arm64/base.vdex"
#define LIB   "/data/app/~~x==/com.example.shop-y==/lib/arm64/libshop.so"
#define RT    "/system/lib64/libandroid_runtime.so"
#define CACHE "[anon_shmem:dalvik-jit-code-cache]"

#define NATIVE(file, name)                                               \
	{                                                                \
		.module = (file), .symbol = (name), .kind = FRAME_NATIVE \
	}
#define DEX(file, name)                                               \
	{                                                             \
		.module = (file), .symbol = (name), .kind = FRAME_DEX \
	}
#define JIT(name)                                                    \
	{                                                            \
		.module = CACHE, .symbol = (name), .kind = FRAME_JIT \
	}

/* Each frame with what becomes of it: 'j' a method of Java, 'a' folded away, 'r' ART's own, which
 * stays, ' ' of anybody else. */
struct row {
	struct record_frame frame;
	char is;
};

#define MAX_ROWS 64

static struct record_stack stack_of(const struct row *rows, size_t count,
				    struct record_frame frames[MAX_ROWS])
{
	for (size_t i = 0; i < count; i++)
		frames[i] = rows[i].frame;
	return (struct record_stack){.frames = frames, .frame_count = count, .weight_ns = 1000000};
}

static void check(const struct row *rows, size_t count, const char *path)
{
	struct record_frame frames[MAX_ROWS];
	struct record_stack stack = stack_of(rows, count, frames);
	size_t told[TELLING_FRAMES], n, wanted = 0;
	char text[1024] = "", name[TELLING_NAME];
	bool folded[MAX_ROWS];

	cr_assert_leq(count, MAX_ROWS);
	n = art_mark_folded(&stack, folded);
	for (size_t i = 0; i < count; i++) {
		const char *symbol = frames[i].symbol ? frames[i].symbol : "no name";
		char is = rows[i].is;

		wanted += is == 'a';
		cr_expect_eq(folded[i], is == 'a', "%zu: %s", i, symbol);
		cr_expect_eq(frame_is_java(&frames[i]), is == 'j', "%zu: %s", i, symbol);
		cr_expect_eq(frame_is_art(&frames[i]), is == 'a' || is == 'r', "%zu: %s", i,
			     symbol);
	}
	cr_expect_eq(n, wanted);
	n = telling_path(&stack, false, told, TELLING_FRAMES);
	for (size_t i = 0; i < n; i++) {
		strcat(text, i ? " < " : "");
		strcat(text, frame_name(name, sizeof(name), &frames[told[i]]));
	}
	cr_expect_str_eq(text, path, "%s", text);
}

#define CHECK(rows, path) check(rows, sizeof(rows) / sizeof(*(rows)), path)

/* Android 9: mterp, methods in vdex, an app that sleeps in its own JNI code. */
Test(art_frames, android_9)
{
	static const struct row rows[] = {
		{NATIVE("/system/lib64/libc.so", "nanosleep"), ' '},
		{NATIVE("/system/lib64/libc.so", "usleep"), ' '},
		{NATIVE(LIB, "Java_com_example_shop_Store_load"), ' '},
		{NATIVE("/system/lib64/libart.so", "art_quick_generic_jni_trampoline"), 'a'},
		{NATIVE("/system/lib64/libart.so", "art_quick_invoke_stub"), 'a'},
		{NATIVE("/system/lib64/libart.so",
			"art::ArtMethod::Invoke(art::Thread*, unsigned int*, unsigned int, "
			"art::JValue*, char const*)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so",
			"art::interpreter::ArtInterpreterToCompiledCodeBridge(art::Thread*, "
			"art::ArtMethod*, art::ShadowFrame*, unsigned short, art::JValue*)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so",
			"bool art::interpreter::DoCall<false, false>(art::ArtMethod*, "
			"art::Thread*, art::ShadowFrame&, art::Instruction const*, unsigned "
			"short, art::JValue*)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so", "MterpInvokeVirtual"), 'a'},
		{NATIVE("/system/lib64/libart.so", "ExecuteMterpImpl"), 'a'},
		{DEX("/data/app/com.example.shop-1/oat/arm64/base.vdex",
		     "com.example.shop.Main.onClick"),
		 'j'},
		{NATIVE("/system/lib64/libart.so",
			"art::interpreter::Execute(art::Thread*, art::DexFile::CodeItem const*, "
			"art::ShadowFrame&, art::JValue, bool) (.llvm.2714950048)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so", "artQuickToInterpreterBridge"), 'a'},
		{NATIVE("/system/lib64/libart.so", "art_quick_to_interpreter_bridge"), 'a'},
		{NATIVE("/system/framework/arm64/boot-framework.oat",
			"android.os.Handler.dispatchMessage"),
		 'j'},
		{NATIVE("/system/framework/arm64/boot-framework.oat", "android.os.Looper.loop"),
		 'j'},
		{NATIVE("/system/lib64/libart.so", "art_quick_invoke_static_stub"), 'a'},
		{NATIVE("/system/lib64/libart.so",
			"art::(anonymous namespace)::InvokeWithArgArray("
			"art::ScopedObjectAccessAlreadyRunnable const&, art::ArtMethod*, "
			"art::(anonymous namespace)::ArgArray*, art::JValue*, char const*)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so",
			"art::InvokeWithVarArgs(art::ScopedObjectAccessAlreadyRunnable const&, "
			"_jobject*, _jmethodID*, std::__va_list)"),
		 'a'},
		{NATIVE("/system/lib64/libart.so",
			"art::JNI::CallStaticVoidMethodV(_JNIEnv*, _jclass*, _jmethodID*, "
			"std::__va_list)"),
		 'a'},
		{NATIVE(RT, "_JNIEnv::CallStaticVoidMethod(_jclass*, _jmethodID*, ...)"), ' '},
		{NATIVE(RT, "android::AndroidRuntime::start(char const*)"), ' '},
		{NATIVE("/system/bin/app_process64", "main"), ' '},
	};

	CHECK(rows, "Java_com_example_shop_Store_load < com.example.shop.Main.onClick < "
		    "android.os.Handler.dispatchMessage < android.os.Looper.loop");
}

/* Android 11 and 12: the switch interpreter, reflection, a lock of ART's at the top. */
Test(art_frames, android_12)
{
	static const struct row rows[] = {
		{NATIVE(LIBC, "syscall"), ' '},
		{NATIVE(ART, "art::ConditionVariable::WaitHoldingLocks(art::Thread*)"), 'r'},
		{NATIVE(ART, "art::Monitor::Lock<(art::LockReason)1>(art::Thread*)"), 'r'},
		{NATIVE(ART, "art::Monitor::MonitorEnter(art::Thread*, "
			     "art::ObjPtr<art::mirror::Object>, bool)"),
		 'r'},
		{NATIVE(ART, "artLockObjectFromCode"), 'r'},
		{NATIVE(ART, "art_quick_lock_object"), 'r'},
		{NATIVE(LIB, NULL), ' '},
		{NATIVE(ART, "void art::interpreter::ExecuteSwitchImplCpp<false, false>("
			     "art::interpreter::SwitchImplContext*)"),
		 'a'},
		{NATIVE(ART, "ExecuteSwitchImplAsm"), 'a'},
		{NATIVE(ART, "art::interpreter::ExecuteSwitch(art::Thread*, "
			     "art::CodeItemDataAccessor const&, art::ShadowFrame&, art::JValue, "
			     "bool) (.llvm.6649268296134209133)"),
		 'a'},
		{DEX(VDEX, "com.example.shop.Cart.total"), 'j'},
		{NATIVE(ART, NULL), 'a'},
		{NATIVE(ART, "_jobject* art::InvokeMethod<(art::PointerSize)8>("
			     "art::ScopedObjectAccessAlreadyRunnable const&, _jobject*, "
			     "_jobject*, _jobject*, unsigned long)"),
		 'a'},
		{NATIVE(ART, "art::Method_invoke(_JNIEnv*, _jobject*, _jobject*, "
			     "_jobjectArray*)"),
		 'a'},
		{NATIVE("/apex/com.android.art/javalib/arm64/boot.oat", "art_jni_trampoline"), 'a'},
		{NATIVE(BOOT, "com.android.internal.os.RuntimeInit$MethodAndArgsCaller.run"), 'j'},
		{NATIVE(LIBC, "__libc_init"), ' '},
	};

	CHECK(rows, "libshop.so+0x0 < com.example.shop.Cart.total < "
		    "com.android.internal.os.RuntimeInit$MethodAndArgsCaller.run");
}

/* Android 14: nterp, whose frames lie between methods that it runs; a collection of garbage at the
 * top is what ART does for the method, and stays. */
Test(art_frames, android_14)
{
	static const struct row rows[] = {
		{NATIVE(LIBC, "syscall"), ' '},
		{NATIVE(ART, "art::gc::Heap::WaitForGcToCompleteLocked(art::gc::GcCause, "
			     "art::Thread*)"),
		 'r'},
		{NATIVE(ART, "art::gc::Heap::AllocateInternalWithGc(art::Thread*)"), 'r'},
		{NATIVE(ART, "artAllocArrayFromCodeResolvedRegionTLAB"), 'r'},
		{NATIVE(ART, "art_quick_alloc_array_resolved32_region_tlab"), 'a'},
		{DEX(VDEX, "com.example.shop.Cart.total"), 'j'},
		{NATIVE(ART, "nterp_helper"), 'a'},
		{DEX("/system/framework/framework.jar", "android.view.View.performClick"), 'j'},
		{NATIVE(ART, "ExecuteNterpImpl"), 'a'},
		{JIT("android.os.Handler.handleCallback"), 'j'},
		{NATIVE(ODEX, "com.example.shop.Main.main"), 'j'},
		{NATIVE(ART, "art_quick_invoke_static_stub"), 'a'},
		{NATIVE(ART, "art::JValue art::InvokeWithVarArgs<_jmethodID*>("
			     "art::ScopedObjectAccessAlreadyRunnable const&, _jobject*, "
			     "_jmethodID*, std::__va_list)"),
		 'a'},
		{NATIVE(ART, "art::JNI<true>::CallStaticVoidMethodV(_JNIEnv*, _jclass*, "
			     "_jmethodID*, std::__va_list)"),
		 'a'},
		{NATIVE(RT, "_JNIEnv::CallStaticVoidMethod(_jclass*, _jmethodID*, ...)"), ' '},
	};

	/* The row beside the method has a trampoline and ART's own work: only the former folds. */
	CHECK(rows, "com.example.shop.Cart.total < android.view.View.performClick < "
		    "android.os.Handler.handleCallback < com.example.shop.Main.main");
}

/* Without a method of Java nothing is ART's way to one: a thread of ART's own, and a library of an
 * app whose functions have such names. */
Test(art_frames, without_java)
{
	static const struct row worker[] = {
		{NATIVE(LIBC, "syscall"), ' '},
		{NATIVE(ART, "art::ThreadPool::GetTask(art::Thread*)"), 'r'},
		{NATIVE(ART, "art::interpreter::DoSomething()"), 'r'},
		{NATIVE(LIBC, "__pthread_start(void*)"), ' '},
	};
	static const struct row app[] = {
		{NATIVE(LIB, "nterp_helper"), ' '},
		{NATIVE(LIB, "art::interpreter::Execute(int)"), ' '},
		{NATIVE(LIB, "art_quick_sort"), ' '},
		{{.module = LIB, .symbol = "android.os.Looper.loop", .kind = FRAME_NATIVE}, ' '},
		{{.symbol = "schedule", .kind = FRAME_KERNEL}, ' '},
	};

	CHECK(worker, "art::ThreadPool::GetTask(art::Thread*) < art::interpreter::DoSomething()");
	CHECK(app, "nterp_helper < art::interpreter::Execute(int) < art_quick_sort < "
		   "android.os.Looper.loop");
}

static char *print(const struct record_stack *stack, bool native)
{
	const struct table_options options = {.width = 80, .native = native};
	struct record_stack copy = *stack;
	struct record_block block = {.pid = 7,
				     .process = "com.example.shop",
				     .wall_ns = 600000000,
				     .state = BLOCK_CLOSED,
				     .stacks = &copy,
				     .stack_count = 1,
				     .top = {true, 0}};
	struct record record = {.type = RECORD_BLOCK, .block = &block};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct sink *sink = table_sink_new(out, &options);

	cr_assert_not_null(sink);
	cr_assert_eq(sink->ops->write(sink, &record), 0);
	sink->ops->close(sink);
	fclose(out);
	return text;
}

/* The line of a block says how many frames were left out, and --native leaves out none. */
Test(art_frames, lines_of_blocks)
{
	static const struct row rows[] = {
		{NATIVE(LIBC, "syscall"), ' '},
		{NATIVE(ART, "art::gc::Heap::WaitForGc()"), 'r'},
		{NATIVE(ART, "art_quick_alloc_object"), 'a'},
		{DEX(VDEX, "com.example.shop.Cart.<init>"), 'j'},
		{NATIVE(ART, "nterp_helper"), 'a'},
		{DEX(VDEX, "com.example.shop.Main.run"), 'j'},
		{NATIVE(ART, "art_quick_invoke_stub"), 'a'},
	};
	struct record_frame frames[MAX_ROWS];
	struct record_stack stack = stack_of(rows, sizeof(rows) / sizeof(*rows), frames);
	char *text = print(&stack, false);

	cr_expect(strstr(text, "com.example.shop.Cart.<init>"), "%s", text);
	cr_expect(strstr(text, "< com.example.shop.Main.run\n"), "%s", text);
	cr_expect(strstr(text, " + 3 frames of ART\n"), "%s", text);
	free(text);
	text = print(&stack, true);
	cr_expect(strstr(text, " art::gc::Heap::WaitForGc() < art_quick_alloc_object\n"), "%s",
		  text);
	free(text);
	stack.frames += 3;
	stack.frame_count = 3;
	text = print(&stack, false);
	cr_expect(strstr(text, " + 1 frame of ART\n"), "%s", text);
	free(text);
	stack.frame_count = 1;
	text = print(&stack, false);
	cr_expect_null(strstr(text, "of ART"), "%s", text);
	free(text);
}

/* What a mapping found to be inlined is marked, as flame graphs mark it. */
Test(art_frames, inlined_methods)
{
	struct record_frame frames[] = {
		{.symbol = "com.example.A.f", .kind = FRAME_DEX, .inlined = true},
		{.symbol = "com.example.B.g", .kind = FRAME_DEX},
	};
	struct record_stack stack = {.frames = frames, .frame_count = 2, .weight_ns = 5000};
	char *line = stack_folded_line(&stack), name[TELLING_NAME];

	cr_expect_str_eq(line, "com.example.B.g;com.example.A.f_[i] 5\n", "%s", line);
	cr_expect_str_eq(frame_name(name, sizeof(name), &frames[0]), "com.example.A.f_[i]");
	free(line);
}
