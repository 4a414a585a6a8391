/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "record/telling.h"
#include "sink/table_private.h"
#include "sink/text.h"

static void expect_short(const char *symbol, const char *wanted)
{
	char text[TELLING_NAME];

	cr_expect_str_eq(function_short(text, sizeof(text), symbol), wanted, "%s: %s", symbol,
			 text);
}

/* The function stays, arguments and template arguments go. */
Test(telling, short_names)
{
	expect_short("main", "main");
	expect_short("ns::Class::fn(int, std::vector<int, std::allocator<int> > const&)",
		     "ns::Class::fn(...)");
	expect_short("ns::f()", "ns::f()");
	expect_short("void ns::Map<int, A>::put<B>(int, B&&) const", "ns::Map<...>::put<...>(...)");
	expect_short("std::map<int, long>::iterator ns::find<int>(int)", "ns::find<...>(...)");
	expect_short("(anonymous namespace)::Loop::turn(int)",
		     "(anonymous namespace)::Loop::turn(...)");
	expect_short("ns::Stream::operator<<(char const*)", "ns::Stream::operator<<(...)");
	expect_short("ns::F::operator()(int) const", "ns::F::operator()(...)");
	expect_short("bool ns::operator< <int>(ns::A<int> const&, int)",
		     "ns::operator< <...>(...)");
	expect_short("ns::A::operator->() const", "ns::A::operator->()");
	expect_short("operator new(unsigned long)", "operator new(...)");
	expect_short("ns::operators(int)", "ns::operators(...)");
	expect_short("ns::f(int)::{lambda(char)#1}::operator()(char) const",
		     "ns::f(...)::{lambda(...)#1}::operator()(...)");
	expect_short("non-virtual thunk to ns::A::run(int)", "ns::A::run(...)");
	expect_short("<alloc::vec::Vec<u8> as core::clone::Clone>::clone",
		     "<alloc::vec::Vec<...> as core::clone::Clone>::clone");
	expect_short("mycrate::run::{closure#0}", "mycrate::run::{closure#0}");
	expect_short("void com.example.Main.onCreate(android.os.Bundle)",
		     "com.example.Main.onCreate(...)");
	expect_short("com.example.Main.onCreate", "com.example.Main.onCreate");
	expect_short("LazyCompile:*work /tmp/a.js:12", "LazyCompile:*work /tmp/a.js:12");
	/* what no compiler writes */
	expect_short("", "");
	expect_short("f(", "f(");
	expect_short("f<<<<", "f<<<<");
	expect_short(")f>", ")f>");
	expect_short("a<b(c>d)", "a<b(...)");
}

/* Whatever the bytes: nothing is written beyond the buffer, and it ends. */
Test(telling, hostile_names)
{
	char symbol[2100], text[32];

	for (unsigned seed = 1; seed < 3000; seed++) {
		uint32_t state = seed * 2654435761u;
		size_t length = seed % 2000;

		for (size_t i = 0; i < length; i++) {
			state = state * 1664525 + 1013904223;
			symbol[i] = "()<>{}[] :;~operator,->_a\xc3\x1b"[(state >> 27) % 27];
		}
		symbol[length] = 0;
		function_short(text, sizeof(text), symbol);
		cr_assert_lt(strlen(text), sizeof(text));
	}
}

static struct record_frame named(const char *module, const char *symbol)
{
	return (struct record_frame){.module = module, .symbol = symbol};
}

/* The list in record/telling.c, by what it is there for. */
Test(telling, stubs_do_not_tell)
{
	static const char *const silent[] = {
		"__epoll_pwait",
		"epoll_wait",
		"__GI___poll",
		"clock_nanosleep@@GLIBC_2.17",
		"__futex_abstimed_wait_common64",
		"pthread_mutex_lock",
		"___pthread_mutex_lock",
		"__pthread_cond_wait",
		"__lll_lock_wait",
		"malloc",
		"operator new(unsigned long)",
		"std::__1::mutex::lock()",
		"std::unique_lock<std::mutex>::lock()",
		"void std::this_thread::sleep_for<long, std::ratio<1l, 1000l> >(int)",
		"android::IPCThreadState::talkWithDriver(bool)",
		"art::ConditionVariable::WaitHoldingLocks(art::Thread*)",
		"java.lang.Object.wait",
		"void java.lang.Object.wait(long, int)",
		"jdk.internal.misc.Unsafe.park",
		"<std::sync::mutex::Mutex<T>>::lock",
		"_start",
		"__libc_start_main_impl",
		"je_malloc_default",
		"__memcpy_avx_unaligned_erms",
	};
	static const char *const telling[] = {
		"main",
		"wait_for_answer",
		"ns::read(int)",
		"my_malloc_user",
		"sleepy",
		"pollute",
		"android::Looper::pollInner(int)",
		"start",
		"std::filesystem::remove(int)",
		"com.example.Main.wait",
	};

	for (size_t i = 0; i < sizeof(silent) / sizeof(*silent); i++) {
		struct record_frame frame = named("/data/app/libapp.so", silent[i]);

		cr_expect_not(frame_tells(&frame), "%s", silent[i]);
	}
	for (size_t i = 0; i < sizeof(telling) / sizeof(*telling); i++) {
		struct record_frame frame = named("/data/app/libapp.so", telling[i]);

		cr_expect(frame_tells(&frame), "%s", telling[i]);
	}
}

Test(telling, the_frame_that_tells_and_its_callers)
{
	struct record_frame frames[] = {
		named("/usr/lib/libc.so.6", "whatever"),
		named("/apex/com.android.runtime/lib64/bionic/libc.so", NULL),
		{.module = "/data/app/libgame.so",
		 .symbol = "[DEDUPED]",
		 .offset = 0x10,
		 .shared = true},
		{.symbol = "schedule", .kind = FRAME_KERNEL},
		named("/data/app/libgame.so", "compute(int)"),
		named("/usr/lib/libc.so.6", "qsort"),
		named("/data/app/libgame.so", "frame()"),
	};
	struct record_stack stack = {.frames = frames, .frame_count = 7};
	size_t path[TELLING_FRAMES];
	char text[TELLING_NAME];

	cr_expect_eq(telling_frame(&stack, false), 2,
		     "code without a name of its own is the program's");
	cr_expect_eq(telling_path(&stack, false, path, TELLING_FRAMES), 3);
	cr_expect(path[0] == 2 && path[1] == 4 && path[2] == 6);
	cr_expect_str_eq(frame_name(text, sizeof(text), &frames[2]), "libgame.so+0x10",
			 "[DEDUPED] is no function");
	frames[4].by = FRAME_BY_SCAN;
	cr_expect_str_eq(frame_name(text, sizeof(text), &frames[4]), "compute(int)?");
	/* Where nothing tells: the innermost name; then the innermost place. */
	stack.frame_count = 2;
	cr_expect_eq(telling_frame(&stack, false), 0);
	stack.frames = frames + 1;
	stack.frame_count = 1;
	cr_expect_eq(telling_path(&stack, false, path, TELLING_FRAMES), 1);
	cr_expect_str_eq(frame_name(text, sizeof(text), &frames[1]), "libc.so+0x0");
	stack.frame_count = 0;
	cr_expect_eq(telling_path(&stack, false, path, TELLING_FRAMES), 0);
}

Test(text, what_a_terminal_is_given)
{
	char text[64];

	cr_expect_str_eq(text_clean(text, sizeof(text), "\x1b[2J\x07 a\x7f\xc2\x9b"), "?[2J? a??");
	/* right-to-left override and isolate, zero width, line separator, soft hyphen, tag */
	cr_expect_str_eq(text_clean(text, sizeof(text),
				    "\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b\xe2\x80\xa8\xc2\xad"
				    "\xf3\xa0\x81\x81x"),
			 "??????x");
	cr_expect_str_eq(
		text_clean(text, sizeof(text), "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"),
		"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80");
	cr_expect_str_eq(text_clean(text, sizeof(text), "\xc3(\xed\xa0\x80"), "?(???");
	cr_expect_eq(text_columns("caf\xc3\xa9"), 4);
	cr_expect_eq(text_columns("\xe6\xbc\xa2\xe5\xad\x97"), 4);
	cr_expect_eq(text_columns("e\xcc\x81"), 1, "a mark takes no column");
	cr_expect_eq(text_fitting("\xe6\xbc\xa2\xe5\xad\x97", 3), 3);
	cr_expect_str_eq(text_tail(text, sizeof(text), "com.example.app", 9), "..ple.app");
	cr_expect_str_eq(text_tail(text, sizeof(text), "com", 9), "com");
	/* 8 columns of 12 bytes: two are cut off, and never half of a character */
	cr_expect_str_eq(text_tail(text, sizeof(text),
				   "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 7),
			 "..\xe6\xbc\xa2\xe5\xad\x97");
	for (int width = 0; width < 12; width++)
		cr_expect_leq(text_columns(text_tail(text, sizeof(text),
						     "a\xe6\xbc\xa2"
						     "b\xcc\x81"
						     "c\xe5\xad\x97"
						     "defg",
						     width)),
			      width < 3 ? 3 : width);
}

static void expect_function(const char *symbol, const char *wanted)
{
	char text[TABLE_NAME];

	cr_expect_str_eq(table_function(text, symbol, 40), wanted, "%s: %s", symbol, text);
}

/* JIT compilers write where a function stands behind its name: the place gives way first. */
Test(telling, functions_of_scripts)
{
	expect_function("JS:~work /srv/shop/a.js:12:3", "JS:~work /srv/shop/a.js:12:3");
	expect_function("JS:~blockForAWhile /home/user/projects/shop/lib/server.js:120:15",
			"JS:~blockForAWhile server.js:120:15");
	expect_function("LazyCompile:*blockForAWhileInTheHandler /home/user/shop/server.js:120:15",
			"LazyCompile:*blockForAWhileInTheHandler");
	expect_function("JS:*blockForAWhile file:///home/user/projects/shop/lib/server.mjs:120:15",
			"JS:*blockForAWhile server.mjs:120:15");
	expect_function("JS:^processTicksAndRejections node:internal/process/task_queues:67:35",
			"JS:^processTicksAndRejections");
	expect_function("py::block_for_a_while:/home/user/projects/shop/a/b/lib/server.py",
			"py::block_for_a_while server.py");
	expect_function("JS:~ /home/user/projects/shop/lib/some/where/server.js:120:15",
			"JS:~ server.js:120:15");
	expect_function(
		"JS:~ /home/user/a-module-whose-file-has-a-very-long-name-of-its-own.js:1:1",
		"..has-a-very-long-name-of-its-own.js:1:1");
	/* no places */
	expect_function("com.example.shop.checkout.payment.PaymentActivity.onCreate",
			"..payment.PaymentActivity.onCreate");
	expect_function("ns::a_name_that_is_long::another_one_that_is_as_long::operator/(int)",
			"..operator/(...)");
}
