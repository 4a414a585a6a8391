/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack/symbol/mapping.h"

static struct mapping *load(const char *text)
{
	struct mapping_error error;
	struct mapping *mapping = mapping_new(strdup(text), strlen(text), &error);

	cr_assert_not_null(mapping, "line %llu: %s", (unsigned long long)error.line, error.why);
	return mapping;
}

/* The names of a frame, innermost first, joined by " < "; "-": the mapping does not have it. line
 * 0: not known. */
static void expect(struct mapping *mapping, const char *symbol, uint32_t line, const char *wanted)
{
	const struct mapping_name *names;
	ssize_t count = mapping_find(mapping, symbol, line ? line : MAPPING_NO_LINE, &names);
	char text[4096] = "-";
	size_t n = 0;

	cr_assert_geq(count, 0);
	for (ssize_t i = 0; i < count; i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " < " : "",
				      names[i].symbol);
		cr_assert_lt(n, sizeof(text));
		cr_expect_eq(names[i].inlined, i + 1 < count, "%s: the last one is the frame's own",
			     symbol);
	}
	cr_expect_str_eq(text, wanted, "%s:%u: %s", symbol, line, text);
}

/* The example of ProGuard's manual, ReTrace, "mapping file", in short. */
Test(mapping, proguard)
{
	struct mapping *mapping =
		load("com.example.application.ArgumentWordReader -> com.example.a.a:\n"
		     "    java.lang.String[] arguments -> a\n"
		     "    int index -> a\n"
		     "    36:57:void <init>(java.lang.String[],java.io.File) -> <init>\n"
		     "    64:64:java.lang.String nextLine() -> a\n"
		     "    72:72:java.lang.String lineLocationDescription() -> b\n"
		     "com.example.application.Main -> com.example.application.Main:\n"
		     "    50:66:void <init>(com.example.application.Configuration) -> <init>\n"
		     "    74:228:void execute() -> a\n"
		     "    2039:2056:void com.example.application.GPL.check():39:56 -> a\n"
		     "    2039:2056:void execute():76 -> a\n"
		     "    2236:2252:void printConfiguration():236:252 -> a\n"
		     "    2236:2252:void execute():80 -> a\n"
		     "    3040:3042:java.io.PrintWriter com.example.application.util.Printer."
		     "createPrintWriterOut(java.io.File):40:42 -> a\n"
		     "    3040:3042:void printConfiguration():243 -> a\n"
		     "    3040:3042:void execute():80 -> a\n"
		     "    260:266:void readInput() -> b\n");

	cr_expect_eq(mapping_classes(mapping), 2);
	expect(mapping, "com.example.a.a.a", 64,
	       "com.example.application.ArgumentWordReader.nextLine");
	expect(mapping, "com.example.a.a.<init>", 0,
	       "com.example.application.ArgumentWordReader.<init>");
	expect(mapping, "com.example.application.Main.a", 75,
	       "com.example.application.Main.execute");
	expect(mapping, "com.example.application.Main.a", 2040,
	       "com.example.application.GPL.check < com.example.application.Main.execute");
	expect(mapping, "com.example.application.Main.a", 3041,
	       "com.example.application.util.Printer.createPrintWriterOut < "
	       "com.example.application.Main.printConfiguration < "
	       "com.example.application.Main.execute");
	/* Without a line: what was inlined at that place is not known, the method is. */
	expect(mapping, "com.example.application.Main.a", 0,
	       "com.example.application.Main.execute");
	/* A line of which nothing is said: as without one. */
	expect(mapping, "com.example.application.Main.a", 9999,
	       "com.example.application.Main.execute");
	/* A method that kept its name, and a class that is not in it. */
	expect(mapping, "com.example.a.a.toString", 0,
	       "com.example.application.ArgumentWordReader.toString");
	expect(mapping, "com.example.b.a", 0, "-");
	mapping_free(mapping);
}

/* Methods of one changed name: all of them are told, unless lines or types tell them apart. */
Test(mapping, ambiguous)
{
	struct mapping *mapping = load("com.example.Store -> a.a:\n"
				       "    void load(int) -> a\n"
				       "    void save(int,com.example.Item) -> a\n"
				       "    void one() -> b\n"
				       "    void two() -> b\n"
				       "    void three() -> b\n"
				       "    void four() -> b\n"
				       "    void five() -> b\n"
				       "    void get(int) -> c\n"
				       "    void get(long) -> c\n"
				       "    1:5:void up():10:14 -> d\n"
				       "    6:9:void down():20:23 -> d\n"
				       "com.example.Item -> a.b:\n");

	expect(mapping, "a.a.a", 0, "com.example.Store.load or save");
	expect(mapping, "void a.a.a(int)", 0, "void com.example.Store.load(int)");
	expect(mapping, "void a.a.a(int, a.b)", 0,
	       "void com.example.Store.save(int, com.example.Item)");
	/* types that no candidate has */
	expect(mapping, "void a.a.a(long)", 0, "com.example.Store.load or save");
	expect(mapping, "int a.a.a(int)", 0, "com.example.Store.load or save");
	expect(mapping, "a.a.b", 0, "com.example.Store.one or two or three or 2 more");
	expect(mapping, "a.a.c", 0, "com.example.Store.get");
	expect(mapping, "void a.a.c(long)", 0, "void com.example.Store.get(long)");
	expect(mapping, "a.a.d", 5, "com.example.Store.up");
	expect(mapping, "a.a.d", 6, "com.example.Store.down");
	expect(mapping, "a.a.d", 0, "com.example.Store.up or down");
	expect(mapping, "a.a.d", 10, "com.example.Store.up or down");
	/* a method that kept its name has the source's types all the same */
	expect(mapping, "a.b[] a.a.list(a.b, a.b[][])", 0,
	       "com.example.Item[] com.example.Store.list(com.example.Item, "
	       "com.example.Item[][])");
	mapping_free(mapping);
}

/* As in R8's test AmbiguousMultipleInlineStackTrace: two overloads have lines 10 to 10, each with
 * something else inlined. Which was it? The name of the method is sure. */
Test(mapping, ambiguous_inlines)
{
	struct mapping *mapping = load("com.example.Internal -> com.example.Internal:\n"
				       "  10:10:void some.inlinee1(int):10:10 -> zza\n"
				       "  10:10:void foo(int):10 -> zza\n"
				       "  11:12:void foo(int):11:12 -> zza\n"
				       "  10:10:void some.inlinee2(int, int):20:20 -> zza\n"
				       "  10:10:void foo(int, int):42 -> zza\n");

	expect(mapping, "com.example.Internal.zza", 10, "com.example.Internal.foo");
	expect(mapping, "void com.example.Internal.zza(int, int)", 10,
	       "void some.inlinee2(int, int) < void com.example.Internal.foo(int, int)");
	expect(mapping, "com.example.Internal.zza", 11, "com.example.Internal.foo");
	mapping_free(mapping);
}

/* Comments of R8 (doc/retrace.md): JSON in either quotes, and ids that nobody knows yet. */
Test(mapping, comments)
{
	struct mapping *mapping =
		load("# compiler: R8\n"
		     "# {\"id\":\"com.android.tools.r8.mapping\",\"version\":\"2.2\"}\n"
		     "\n"
		     "some.pkg.Lambda -> foo.a:\r\n"
		     "# {\"id\":\"sourceFile\",\"fileName\":\"R8Test.kt\"}\r\n"
		     "# {'id':'com.android.tools.r8.synthesized'}\r\n"
		     "    4:4:void example.Foo.lambda$main$0():225 -> a\r\n"
		     "    4:4:void run(example.Foo):2 -> a\r\n"
		     "      # {'id':'com.android.tools.r8.synthesized'}\r\n"
		     "    5:5:void example.Foo.lambda$main$1():228 -> a\r\n"
		     "    5:5:void run(example.Foo):4 -> a\r\n"
		     "    0:65535:void only():33:33 -> b\r\n"
		     "    void alone() -> c\r\n"
		     "    # {'id':'com.android.tools.r8.synthesized'}\r\n"
		     "outline.Class -> a:\r\n"
		     "  1:2:int outline() -> a\r\n"
		     "# { 'id':'com.android.tools.r8.outline' }\r\n"
		     "some.Class -> b:\r\n"
		     "  1:1:void foo.bar.Baz.qux():42:42 -> s\r\n"
		     "  4:4:int outlineCaller(int):98:98 -> s\r\n"
		     "  27:27:int outlineCaller(int):0:0 -> s\r\n"
		     "# { 'id':'com.android.tools.r8.outlineCallsite', 'positions': { '1': 4, '2': "
		     "5 } }\r\n"
		     "# { 'id':'com.example.of.the.future', 'signature': 7 }\r\n");

	/* The compiler made run(): what was inlined into it is all that the source has of it. */
	expect(mapping, "foo.a.a", 4, "example.Foo.lambda$main$0");
	expect(mapping, "foo.a.a", 5, "example.Foo.lambda$main$1");
	expect(mapping, "foo.a.a", 0, "some.pkg.Lambda.run");
	expect(mapping, "foo.a.b", 0, "some.pkg.Lambda.only");
	expect(mapping, "foo.a.b", 17, "some.pkg.Lambda.only");
	expect(mapping, "foo.a.c", 0, "some.pkg.Lambda.alone");
	expect(mapping, "a.a", 1, "outline.Class.outline");
	expect(mapping, "b.s", 27, "some.Class.outlineCaller");
	expect(mapping, "b.s", 1, "foo.bar.Baz.qux");
	mapping_free(mapping);
}

/* The types of the changed code, where they are not those of the source under their new names. */
Test(mapping, residual_signature)
{
	struct mapping *mapping =
		load("com.example.Map -> c.m:\n"
		     "    1:1:com.example.Map build(com.example.Key,int[]):5:5 -> a\n"
		     "      # {\"id\":\"com.android.tools.r8.residualsignature\","
		     "\"signature\":\"(Lc/k;[I)V\"}\n"
		     "    2:2:com.example.Map build(com.example.Key,int[]):6:6 -> a\n"
		     "    1:9:void clear(com.example.Key):7:15 -> a\n"
		     "com.example.Key -> c.k:\n");

	expect(mapping, "void c.m.a(c.k, int[])", 0,
	       "com.example.Map com.example.Map.build(com.example.Key, int[])");
	expect(mapping, "void c.m.a(c.k, int[])", 2,
	       "com.example.Map com.example.Map.build(com.example.Key, int[])");
	expect(mapping, "void c.m.a(c.k)", 0, "void com.example.Map.clear(com.example.Key)");
	expect(mapping, "void c.m.a(c.k, long[])", 0, "com.example.Map.build or clear");
	expect(mapping, "c.m.a", 0, "com.example.Map.build or clear");
	mapping_free(mapping);
}

/* Several classes under one name: files that somebody joined. */
Test(mapping, joined_files)
{
	struct mapping *mapping = load("com.example.One -> a.a:\n"
				       "    void first() -> a\n"
				       "com.example.Two -> a.a:\n"
				       "    void second() -> a\n");

	expect(mapping, "a.a.a", 0, "com.example.One.first or com.example.Two.second");
	mapping_free(mapping);
}

/* What is no Java method, and what a hostile recording may hold. */
Test(mapping, other_names)
{
	struct mapping *mapping = load("com.example.A -> a:\n    void f() -> a\n");
	char *giant = malloc(100001);

	expect(mapping, "", 0, "-");
	expect(mapping, "main", 0, "-");
	expect(mapping, "a", 0, "-");
	expect(mapping, ".a", 0, "-");
	expect(mapping, "a.", 0, "-");
	expect(mapping, "a.a(", 0, "-");
	expect(mapping, "a.a() const", 0, "-");
	expect(mapping, "a.a extra", 0, "-");
	expect(mapping, "(a.a)", 0, "-");
	expect(mapping, "a.a()", 0, "com.example.A.f");
	cr_assert_not_null(giant);
	memset(giant, '.', 100000);
	giant[100000] = 0;
	expect(mapping, giant, 0, "-");
	memcpy(giant, "a.", 2);
	expect(mapping, giant, 0, "-");
	free(giant);
	mapping_free(mapping);
}

static void expect_error(const char *text, size_t length, uint64_t line, const char *why)
{
	struct mapping_error error = {0};
	char *copy = malloc(length + 1);

	cr_assert_not_null(copy);
	memcpy(copy, text, length);
	errno = 0;
	cr_expect_null(mapping_new(copy, length, &error));
	cr_expect_eq(errno, EINVAL);
	cr_expect_eq(error.line, line, "%.40s: line %llu", text, (unsigned long long)error.line);
	cr_expect(strstr(error.why, why) != NULL, "%s", error.why);
}

#define EXPECT_ERROR(text, line, why) expect_error(text, sizeof(text) - 1, line, why)

Test(mapping, files_that_are_none)
{
	EXPECT_ERROR("", 0, "no class");
	EXPECT_ERROR("# only a comment\n\n", 0, "no class");
	EXPECT_ERROR("{\"type\":\"header\"}\n", 1, "no line of a mapping");
	EXPECT_ERROR("    void f() -> a\n", 1, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    void f() => a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    f() -> a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    1:void f() -> a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    1:2:void f():x -> a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    1:99999999999:void f() -> a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    void f(int -> a\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    void f() -> \n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\nB -> b\n", 2, "no line of a mapping");
	EXPECT_ERROR("A -> a:\nB -> :\n", 2, "no line of a mapping");
	EXPECT_ERROR("\0\0\0\0\n\0", 1, "no line of a mapping");
	EXPECT_ERROR("A -> a:\n    void f\0g() -> a\n", 2, "no line of a mapping");
}

/* Whatever the bytes: it ends, and reads nothing beyond them (run with ASan). */
Test(mapping, hostile_bytes)
{
	static const char parts[][24] = {
		"a.b", " -> ", ":",  "\n", "    ",         "1:2:", "void ",   "f(", ")",
		",",   "#",    "[]", "0",  "'signature':", "'",    "com.x.C", "\"", "L;"};
	static const char residual[] = "# com.android.tools.r8.residualsignature ";
	const struct mapping_name *names;
	struct mapping_error error;
	unsigned loaded = 0;

	for (uint32_t seed = 1; seed < 20000; seed++) {
		uint32_t state = seed * 2654435761u;
		char *text = malloc(4096);
		size_t length = (size_t)snprintf(text, 4096, "c.C -> a:\n    void f(a) -> b\n");
		struct mapping *mapping;

		for (unsigned i = 0; i < seed % 40; i++) {
			const char *part;

			state = state * 1664525 + 1013904223;
			part = (state >> 20) % 20 ? parts[(state >> 24) % 18] : residual;
			length += (size_t)snprintf(text + length, 4096 - length, "%s", part);
		}
		text = realloc(text, length);
		mapping = mapping_new(text, length, &error);
		if (!mapping)
			continue;
		loaded++;
		mapping_find(mapping, "void a.b(a)", seed % 3, &names);
		mapping_find(mapping, "a.b", 0, &names);
		mapping_find(mapping, "a.b[] a.f(a.b[], int)", 1, &names);
		mapping_free(mapping);
	}
	cr_expect_gt(loaded, 500, "some of them are mappings: %u", loaded);
}

/* As large as that of a large app: each class and method is found, by one pass over the bytes. */
Test(mapping, many_classes)
{
	const unsigned classes = 20000;
	char *text = NULL, changed[64], wanted[64];
	struct mapping_error error;
	struct mapping *mapping;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; i < classes; i++) {
		fprintf(out, "com.example.p%u.Class%u -> x%x.y:\n", i % 100, i, i);
		for (unsigned k = 0; k < 10; k++)
			fprintf(out, "    %u:%u:void method%u(int):%u:%u -> m%u\n", k, k, k, k, k,
				k);
	}
	fclose(out);
	mapping = mapping_new(text, size, &error);
	cr_assert_not_null(mapping);
	cr_expect_eq(mapping_classes(mapping), classes);
	for (unsigned i = 0; i < classes; i += 37) {
		snprintf(changed, sizeof(changed), "x%x.y.m%u", i, i % 10);
		snprintf(wanted, sizeof(wanted), "com.example.p%u.Class%u.method%u", i % 100, i,
			 i % 10);
		expect(mapping, changed, 0, wanted);
	}
	mapping_free(mapping);
}

/* Names that are kept have a bound; what finds no room keeps the name that it has. */
Test(mapping, kept_names_are_bounded)
{
	struct mapping *mapping = load("com.example.A -> a:\n    void f() -> a\n");
	const struct mapping_name *names;
	char symbol[2048];
	uint32_t n = 0;

	memset(symbol, 'm', sizeof(symbol));
	memcpy(symbol, "a.", 2);
	symbol[sizeof(symbol) - 1] = 0;
	while (mapping_find(mapping, symbol, ++n, &names) > 0)
		cr_assert_lt(n, 100000);
	cr_expect_gt(n, 5000);
	cr_expect_eq(mapping_left_out(mapping), 1);
	cr_expect_eq(mapping_find(mapping, symbol, 1, &names), 1, "what was kept is found");
	mapping_free(mapping);
}

/* R8 leaves lines out for Android 8 and later; who wrote the file else has none to leave out. */
Test(mapping, places_in_byte_code)
{
	static const struct {
		const char *head;
		bool has;
	} cases[] = {{"", false},
		     {"# compiler: R8\n", false},
		     {"# compiler: R8\n# min_api: 25\n", false},
		     {"# compiler: R8\n# min_api: 26\r\n", true},
		     {"# min_api: 9999999999999999999999\n", true},
		     {"# min_api: \n", false},
		     {"# min_api: 34\na -> b:\n# min_api: 21\n", false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mapping *mapping;
		char text[256];

		snprintf(text, sizeof(text), "%scom.A -> a.a:\n    0:3:void f():7:7 -> a\n",
			 cases[i].head);
		mapping = load(text);
		cr_expect_eq(mapping_has_places(mapping), cases[i].has, "%s", cases[i].head);
		mapping_free(mapping);
	}
}
