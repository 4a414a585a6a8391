/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of DEX files over bytes made here: each kind of file, names, lines, and damage. */
#include <criterion/criterion.h>

#include "stack/code/dex_file.h"
#include "unit/made_dex.h"

static const char *name_at(const struct byte_source *source, uint64_t start, uint64_t at,
			   struct dex_place *place, uint32_t *line)
{
	static char name[DEX_NAME_BYTES];
	struct dex_file dex;
	struct dex_index index;
	int err;

	*line = 0;
	cr_assert_eq(dex_file_open(&dex, source, start), 0);
	cr_assert_eq(dex_index_build(&index, &dex), 0);
	cr_expect_eq(index.count, 2, "%zu", index.count);
	err = dex_index_find(&index, &dex, at, place);
	if (!err) {
		cr_assert_eq(dex_method_name(&dex, place->method, name), 0);
		if (dex_line(&dex, place, line))
			*line = 0;
	}
	dex_index_free(&index);
	return err ? NULL : name;
}

static void expect_all(const struct made_bytes *made, const struct made_dex_facts *facts)
{
	struct byte_source source = made_source(made->bytes, made->size);
	struct dex_place place;
	uint32_t line;
	const char *name = name_at(&source, facts->start, facts->code[0], &place, &line);

	cr_assert_not_null(name);
	cr_expect_str_eq(name, "app.Db$Inner.open");
	cr_expect(place.shared, "with last");
	cr_expect_eq(place.pc, 0);
	cr_expect_eq(place.instructions, 40);
	cr_expect_eq(line, 10);
	name_at(&source, facts->start, facts->code[0] + 8, &place, &line);
	cr_expect_eq(line, 10);
	name_at(&source, facts->start, facts->code[0] + 10, &place, &line);
	cr_expect_eq(line, 12);
	name_at(&source, facts->start, facts->code[0] + 79, &place, &line);
	cr_expect_eq(place.pc, 39, "in the middle of a unit");
	cr_expect_eq(line, 8);
	cr_expect_null(name_at(&source, facts->start, facts->code[0] + 80, &place, &line));
	cr_expect_null(name_at(&source, facts->start, facts->code[0] - 1, &place, &line));
	name = name_at(&source, facts->start, facts->code[1] + 2 * 2999, &place, &line);
	cr_assert_not_null(name);
	cr_expect_str_eq(name, "app.Db$Inner.sleep");
	cr_expect_eq(place.pc, 2999);
	cr_expect_eq(place.instructions, 3000);
	cr_expect_not(place.shared);
	cr_expect_eq(line, 300);
	cr_expect_null(name_at(&source, facts->start, facts->code[1] + 6000, &place, &line));
	cr_expect_null(name_at(&source, facts->start, facts->start, &place, &line));
}

Test(dex_file, each_kind)
{
	for (enum made_kind kind = MADE_035; kind <= MADE_COMPACT; kind++) {
		struct made_bytes made = {.size = 0};
		struct made_dex_facts facts;

		made_dex(&made, kind, 0, &facts);
		expect_all(&made, &facts);
	}
}

/* Behind other bytes, as in a vdex or an APK; the offsets stay those of the file. */
Test(dex_file, not_at_the_start)
{
	for (enum made_kind kind = MADE_035; kind <= MADE_COMPACT; kind++) {
		struct made_bytes made = {.size = 64};
		struct made_dex_facts facts;

		made_dex(&made, kind, 0, &facts);
		expect_all(&made, &facts);
	}
}

/* 041: all offsets of the second file of a container count from the first one's header. */
Test(dex_file, container)
{
	struct made_bytes made = {.size = 32};
	struct made_dex_facts first, second;

	made_dex(&made, MADE_041, 0, &first);
	made_dex(&made, MADE_041, (uint32_t)(made.size - first.start), &second);
	made_set32(&made, first.start + 112, (uint32_t)(made.size - first.start));
	expect_all(&made, &first);
	expect_all(&made, &second);
}

/* A container that begins before the bytes that there are. */
Test(dex_file, container_outside)
{
	struct made_bytes made = {.size = 0};
	struct made_dex_facts facts;
	struct byte_source source;
	struct dex_file dex;

	made_dex(&made, MADE_041, 0, &facts);
	made_set32(&made, 116, 1);
	source = made_source(made.bytes, made.size);
	cr_expect_eq(dex_file_open(&dex, &source, 0), -EBADMSG);
}

static int open_with(size_t at, uint32_t value)
{
	struct made_bytes made = {.size = 0};
	struct made_dex_facts facts;
	struct byte_source source;
	struct dex_index index;
	struct dex_file dex;
	int err;

	made_dex(&made, MADE_035, 0, &facts);
	made_set32(&made, at, value);
	source = made_source(made.bytes, made.size);
	err = dex_file_open(&dex, &source, 0);
	if (!err)
		err = dex_index_build(&index, &dex);
	if (!err)
		dex_index_free(&index);
	return err;
}

Test(dex_file, headers_that_make_no_sense)
{
	struct made_bytes made = {.size = 0};
	struct made_dex_facts facts;

	made_dex(&made, MADE_035, 0, &facts);
	cr_expect_eq(open_with(8, 0xdeadbeef), 0, "a wrong checksum says nothing");
	cr_expect_eq(open_with(0, 0x464c457f), -ENOEXEC);
	cr_expect_eq(open_with(4, 0x00343330), -ENOTSUP, "034");
	cr_expect_eq(open_with(4, 0x00323430), -ENOTSUP, "042");
	cr_expect_eq(open_with(4, 0x20353330), -ENOEXEC);
	cr_expect_eq(open_with(36, 111), -EBADMSG, "header size");
	cr_expect_eq(open_with(40, 0x78563412), -EBADMSG, "big-endian");
	cr_expect_eq(open_with(56, 0x40000000), -EBADMSG, "more strings than bytes");
	cr_expect_eq(open_with(60, 0xfffffff0), -EBADMSG, "strings outside");
	cr_expect_eq(open_with(64, 65537), -EBADMSG, "types");
	cr_expect_eq(open_with(88, 65537), -EBADMSG, "methods");
	cr_expect_eq(open_with(96, 1 << 20), -EBADMSG, "classes");
	cr_expect_eq(open_with(100, 0xffffffff), -EBADMSG, "classes outside");
	cr_expect_eq(open_with(facts.class_data, 0x02020001), 0, "as it is");
	cr_expect_eq(open_with(facts.class_data, 0x02020003), -EBADMSG, "more than the file has");
	cr_expect_eq(open_with(facts.class_data, 0x7f020001), -EBADMSG, "virtual methods");
	cr_expect_eq(open_with(facts.class_data, 0xffffffff), -EBADMSG, "a number without an end");
}

/* All classes name the same data: what is gone through is bounded by what the header tells. */
Test(dex_file, data_of_two_classes)
{
	struct made_bytes made = {.size = 0}, twice;
	struct made_dex_facts facts;
	struct byte_source source;
	struct dex_index index;
	struct dex_file dex;
	size_t classes;

	made_dex(&made, MADE_035, 0, &facts);
	twice = made;
	classes = twice.size;
	made_put(&twice, made.bytes + facts.strings + 24 + 8 * MADE_METHODS, 32);
	made_put(&twice, made.bytes + facts.strings + 24 + 8 * MADE_METHODS, 32);
	made_set32(&twice, 32, (uint32_t)twice.size);
	made_set32(&twice, 96, 2);
	made_set32(&twice, 100, (uint32_t)classes);
	source = made_source(twice.bytes, twice.size);
	cr_assert_eq(dex_file_open(&dex, &source, 0), 0);
	cr_expect_eq(dex_index_build(&index, &dex), -EBADMSG);
}

/* Everything that there is to ask of a file, whatever it is. */
static int ask_all(const uint8_t *bytes, size_t size)
{
	struct byte_source source = made_source(bytes, size);
	char name[DEX_NAME_BYTES];
	struct dex_index index;
	struct dex_place place;
	struct dex_file dex;
	uint32_t line;
	int err = dex_file_open(&dex, &source, 0), bad = 0;

	if (!err)
		err = dex_index_build(&index, &dex);
	if (err)
		return err;
	for (size_t i = 0; i < index.count; i++) {
		if (dex_index_place(&index, &dex, i, &place))
			bad++;
		else if (dex_line(&dex, &place, &line))
			bad++;
		if (dex_method_name(&dex, index.code[i].method & ~DEX_SHARED, name))
			bad++;
	}
	dex_index_free(&index);
	return bad;
}

/* The copy ends where the file does, so that a byte behind it is found by the sanitizers. */
Test(dex_file, each_length)
{
	for (enum made_kind kind = MADE_035; kind <= MADE_COMPACT; kind++) {
		struct made_bytes made = {.size = 0};
		struct made_dex_facts facts;

		made_dex(&made, kind, 0, &facts);
		cr_expect_eq(ask_all(made.bytes, made.size), 0);
		for (size_t length = 0; length < made.size; length++) {
			uint8_t *cut = malloc(length ? length : 1);

			memcpy(cut, made.bytes, length);
			if (length < facts.class_data + 6)
				cr_expect_neq(ask_all(cut, length), 0, "%d cut at %zu", kind,
					      length);
			else
				ask_all(cut, length);
			free(cut);
		}
	}
}

static int name_with(const char *class, const char *method, char name[DEX_NAME_BYTES])
{
	struct made_bytes made = {.size = 0};
	struct made_dex_facts facts;
	struct byte_source source;
	struct dex_file dex;

	made_dex(&made, MADE_035, 0, &facts);
	made_set32(&made, facts.strings, (uint32_t)made.size);
	made_uleb(&made, (uint32_t)strlen(class));
	made_put(&made, class, strlen(class) + 1);
	made_set32(&made, facts.strings + 4, (uint32_t)made.size);
	made_uleb(&made, (uint32_t)strlen(method));
	made_put(&made, method, strlen(method) + 1);
	made_set32(&made, 32, (uint32_t)made.size);
	source = made_source(made.bytes, made.size);
	cr_assert_eq(dex_file_open(&dex, &source, 0), 0);
	return dex_method_name(&dex, 0, name);
}

Test(dex_file, names)
{
	char name[DEX_NAME_BYTES], big[2000];

	cr_expect_eq(name_with("La;", "<init>", name), 0);
	cr_expect_str_eq(name, "a.<init>");
	cr_expect_eq(name_with("[I", "clone", name), 0);
	cr_expect_str_eq(name, "[I.clone");
	cr_expect_eq(name_with("Lkotlin/\xc3\xa4\xe2\x82\xac;", "-a;b", name), 0);
	cr_expect_str_eq(name, "kotlin.\xc3\xa4\xe2\x82\xac.-a;b");
	/* U+1F600 as two surrogates, one alone, a NUL, a newline, a torn and a wrong sequence */
	cr_expect_eq(name_with("La/\xed\xa0\xbd\xed\xb8\x80;", "\xed\xa0\xbd|\xc0\x80|\n|\xff|\xe2",
			       name),
		     0);
	cr_expect_str_eq(name,
			 "a.\xf0\x9f\x98\x80.\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|"
			 "\xef\xbf\xbd");
	cr_expect_eq(name_with("", "", name), 0);
	cr_expect_str_eq(name, ".");
	for (size_t i = 0; i + 3 < sizeof(big); i += 3)
		memcpy(big + i, "\xe2\x82\xac", 4);
	cr_expect_eq(name_with(big, big, name), 0);
	cr_expect_eq(strlen(name), 348 + 1 + 162, "%zu: whole characters", strlen(name));
}

/* Lines whose program is torn or has no end are no lines. */
Test(dex_file, lines_that_make_no_sense)
{
	static const struct {
		const char *program;
		size_t size;
		int err;
	} cases[] = {
		{"\x0a\x00\x00", 3, -ENODATA},
		{"\x0a\x00\x01\xff\xff\xff\xff\xff\x0e", 9, -EBADMSG},
		{"\x0a\x80\x02\x0e\x00", 5, -EBADMSG}, /* 256 parameters */
		{"\x0a\x00\x03\x01\x01\x01\x04\x01\x01\x01\x01\x05\x01\x06\x01\x08\x09\x01\x0e\x00",
		 20, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_bytes made = {.size = 0};
		struct made_dex_facts facts;
		struct byte_source source;
		struct dex_place place = {0};
		struct dex_file dex;
		uint32_t line = 0;

		made_dex(&made, MADE_035, 0, &facts);
		place.debug_info = made.size;
		made_put(&made, cases[i].program, cases[i].size);
		made_set32(&made, 32, (uint32_t)made.size);
		source = made_source(made.bytes, made.size);
		cr_assert_eq(dex_file_open(&dex, &source, 0), 0);
		cr_expect_eq(dex_line(&dex, &place, &line), cases[i].err, "%zu", i);
		cr_expect_eq(line, cases[i].err ? 0 : 10, "%zu: %u", i, line);
		place.debug_info = made.size + 1000;
		cr_expect_eq(dex_line(&dex, &place, &line), -EBADMSG);
		place.debug_info = 0;
		cr_expect_eq(dex_line(&dex, &place, &line), -ENODATA);
	}
}
