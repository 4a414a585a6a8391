/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of JSON as places: the same as jansson says, of whole lines and of damaged ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "record/json_tree.h"
#include "util/arena.h"

/* ---- against jansson ---- */

struct check {
	struct json_tree tree;
	struct arena arena;
	bool refused; /* a value is none that jansson would take */
	bool differs;
};

static const char *text_of(struct check *check, uint32_t place)
{
	const char *text = NULL;

	check->refused |= json_tree_text(&check->tree, place, &check->arena, &text) != 0;
	return text;
}

/* Depth-first over both; jansson keeps the last one of equal keys. other NULL: only to be walked.
 */
static void walk(struct check *check, uint32_t place, const json_t *other)
{
	struct json_walk at = json_tree_walk(&check->tree, place);
	bool object = json_tree_is_object(&check->tree, place), flag;
	int64_t whole;
	double number;

	if (object || json_tree_is_list(&check->tree, place)) {
		size_t count = 0;

		while (json_walk_next(&check->tree, &at)) {
			const char *key = object ? text_of(check, at.key) : NULL;

			if (check->refused)
				return;
			walk(check, at.value,
			     !other   ? NULL
			     : object ? json_object_get(other, key)
				      : json_array_get(other, count));
			count++;
		}
		check->differs |= count != json_tree_size(&check->tree, place);
		check->differs |= other && (object ? !json_is_object(other)
						   : json_array_size(other) != count);
	} else if (json_tree_is_text(&check->tree, place)) {
		const char *text = text_of(check, place);

		check->differs |= other && !check->refused &&
				  strcmp(text, json_string_value(other) ?: "") != 0;
	} else if (json_tree_integer(&check->tree, place, &whole)) {
		check->differs |= other && json_integer_value(other) != whole;
	} else if (json_tree_number(&check->tree, place, &number)) {
		check->differs |= other && json_number_value(other) != number;
	} else if (json_tree_bool(&check->tree, place, &flag)) {
		check->differs |= other && (flag ? !json_is_true(other) : !json_is_false(other));
	} else {
		check->refused |= !json_is_null(other);
	}
}

static bool has_equal_keys(const char *text)
{
	json_t *strict = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	json_decref(strict);
	return !strict;
}

/* 1: both take it and it is the same; 0: both refuse it; -1: they differ. */
static int compare(const char *text, size_t length)
{
	json_t *other = json_loadb(text, length, 0, NULL);
	struct check check = {.arena = {0}};
	int err = json_tree_read(&check.tree, text, length), result;

	if (!err)
		walk(&check, 0, json_is_object(other) ? other : NULL);
	if (json_is_object(other))
		result = err || check.refused                     ? -1
			 : check.differs && !has_equal_keys(text) ? -1
								  : 1;
	else
		result = err || check.refused ? 0 : -1;
	json_tree_free(&check.tree);
	arena_free(&check.arena);
	json_decref(other);
	return result;
}

/* Texts are read eight bytes at a time: what ends them, or is refused, at each place of a word, in
 * a value and in a key. */
Test(json_tree, each_byte_of_a_word)
{
	static const char *const parts[] = {"",     "\\\"",     "\\n",  "\x1f", "\x7f",
					    " ",    "\xc3\xa9", "\xff", "\"",   "\\",
					    "\x80", "\\u0022",  "!",    "#"};
	char text[128];

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		for (int before = 0; before < 18; before++)
			for (int behind = 0; behind < 10; behind++) {
				snprintf(text, sizeof(text), "{\"k\":\"%.*s%s%.*s\"}", before,
					 "abcdefghijklmnopqr", parts[i], behind, "0123456789");
				cr_expect_neq(compare(text, strlen(text)), -1, "%s", text);
				snprintf(text, sizeof(text), "{\"%.*s%s%.*s\":1}", before,
					 "abcdefghijklmnopqr", parts[i], behind, "0123456789");
				cr_expect_neq(compare(text, strlen(text)), -1, "%s", text);
			}
}

/* Whole numbers of few digits are read in a short way: at each length, and at the ends of what
 * fits, it is the number that jansson reads, or refused as there. */
Test(json_tree, numbers_of_each_length)
{
	static const char *const before[] = {"", "-", "0", "-0", "+", "0."};
	static const char *const behind[] = {"", ".", ".5", "e", "e1", "x", "-", " "};
	static const char *const digits[] = {"999999999999999999", "123456789012345678",
					     "922337203685477580", "000000000000000000"};
	char text[128];

	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++)
		for (size_t k = 0; k < sizeof(behind) / sizeof(*behind); k++)
			for (size_t d = 0; d < sizeof(digits) / sizeof(*digits); d++)
				for (int length = 0; length <= 18; length++) {
					snprintf(text, sizeof(text), "{\"k\":%s%.*s%s}", before[i],
						 length, digits[d], behind[k]);
					cr_expect_neq(compare(text, strlen(text)), -1, "%s", text);
				}
	cr_expect_eq(compare("{\"k\":9223372036854775807}", 25), 1);
	cr_expect_eq(compare("{\"k\":-9223372036854775808}", 26), 1);
}

/* A key that is there is found whatever the others are, and none is found that is not. */
Test(json_tree, keys_that_are_there)
{
	static const char text[] = "{\"a\":1,\"ab\":2,\"b\":3,\"\\u0061x\":4,\"zz\":{\"q\":5}}";
	static const char *const keys[] = {"a", "ab", "b", "zz"}, *const none[] = {
									  "q",  "z", "ax", "abc",
									  "ba", "c", "zzz"};
	struct json_tree tree;
	uint32_t hint = 0;

	cr_assert_eq(json_tree_read(&tree, text, strlen(text)), 0);
	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
			cr_expect(json_tree_get(&tree, 0, keys[i], &hint), "%s", keys[i]);
		for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
			cr_expect_eq(json_tree_get(&tree, 0, none[i], &hint), 0, "%s", none[i]);
	}
	json_tree_free(&tree);
}

Test(json_tree, like_jansson)
{
	static const char *const texts[] = {
		"{}",
		" { } ",
		"{\"a\":1}",
		"{\"a\":[]}",
		"{\"a\":[1,2,{\"b\":[[]]}],\"c\":-0.5e3}",
		"{\"a\":\"\\u00e9\\ud83d\\ude00\\n\\/\"}",
		"{\"a\":true,\"b\":false,\"c\":null}",
		"{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":-0,\"d\":-7}",
		"{\"a\":9223372036854775808}",
		"{\"a\":-9223372036854775809}",
		"{\"a\":9223372036854775810}",
		"{\"a\":18446744073709551617}",
		"{\"a\":92233720368547758070}",
		/* refused */
		"",
		" ",
		"[]",
		"1",
		"\"a\"",
		"{",
		"}",
		"{]",
		"[}",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\" 1}",
		"{\"a\"::1}",
		"{\"a\":1,}",
		"{,\"a\":1}",
		"{\"a\":1 \"b\":2}",
		"{\"a\":1,,\"b\":2}",
		"{\"a\":[1 2]}",
		"{\"a\":[1,,2]}",
		"{\"a\":[,1]}",
		"{\"a\":[1,]}",
		"{\"a\":01}",
		"{\"a\":+1}",
		"{\"a\":1.}",
		"{\"a\":.5}",
		"{\"a\":1e}",
		"{\"a\":-}",
		"{\"a\":tru}",
		"{\"a\":truee}",
		"{\"a\":nan}",
		"{a:1}",
		"{1:2}",
		"{\"a\":{}:1}",
		"{\"a\":1}}",
		"{\"a\":1}{\"b\":2}",
		"{\"a\":1} x",
		"{\"a\":'b'}",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":\"\\udc00\"}",
		"{\"a\":\"\\u0000\"}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\t\"}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\xc0\x80\"}",
		"{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\":\"\xf4\x90\x80\x80\"}",
		"{\"a\":1e999}",
		"{\"a\":9223372036854775808}",
		"{\"a\":[1,2}",
		"{\"a\":{\"b\":1]}",
		"{\"a\":\"b}",
		"{\"a\",\"b\":1}",
		"{[]:1}",
		"{{}:1}",
		"{\"a\":1:2}",
		"{\"a\":\"b\":\"c\"}",
		"{\"a\":[\"b\":1]}",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_expect_neq(compare(texts[i], strlen(texts[i])), -1, "%s", texts[i]);
	cr_expect_eq(compare("{\"a\":1}\0", 8), 0, "a NUL behind it");
	cr_expect_eq(compare("{\"a\0\":1}", 8), 0, "a NUL in a key");
}

/* Bytes that mean something to JSON are put in, taken out or changed. */
Test(json_tree, like_jansson_of_damaged_records)
{
	static const char bytes[] = "{}[]\",:\\0123456789-+.eEtfn u\t\xc3\xa9\xff";
	FILE *file = fopen("tests/unit/golden/full.jsonl", "r");
	size_t room = 0, taken = 0, refused = 0;
	uint64_t state = 5;
	char *line = NULL, *copy;
	ssize_t length;

	cr_assert(file);
	while ((length = getline(&line, &room, file)) > 0) {
		cr_assert_eq(compare(line, (size_t)length), 1);
		copy = malloc((size_t)length + 8);
		for (int turn = 0; turn < 3000; turn++) {
			size_t n = (size_t)length, changes = 1 + next_random(&state) % 3;
			int result;

			memcpy(copy, line, n + 1);
			while (changes--) {
				size_t at = next_random(&state) % n;
				char byte = bytes[next_random(&state) % (sizeof(bytes) - 1)];
				unsigned how = next_random(&state) % 3;

				if (how) /* an insertion, or a removal */
					memmove(copy + at + (how == 1), copy + at + (how == 2),
						n - at);
				n += how == 1;
				n -= how == 2;
				if (how < 2)
					copy[at] = byte;
			}
			copy[n] = 0;
			result = compare(copy, n);
			cr_assert_neq(result, -1, "%s", copy);
			taken += result == 1;
			refused += !result;
		}
		free(copy);
	}
	cr_expect(taken > 1000 && refused > 1000, "%zu taken, %zu refused", taken, refused);
	free(line);
	fclose(file);
}

/* ---- what costs ---- */

/* 9 MiB of brackets: no recursion, no squares, and an end. */
Test(json_tree, deep_texts, .timeout = 20)
{
	size_t length = 9u << 20;
	struct json_tree tree;
	char *text = malloc(length);

	memset(text, '[', length);
	memcpy(text, "{\"a\":", 5);
	cr_expect_eq(json_tree_read(&tree, text, length), -EMSGSIZE);
	json_tree_free(&tree);
	strcpy(text, "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}");
	cr_expect_eq(json_tree_read(&tree, text, strlen(text)), 0);
	json_tree_free(&tree);
	/* As many as there may be, in a list. */
	memcpy(text, "{\"a\":[", 6);
	for (size_t i = 6; i < length; i++)
		text[i] = i % 2 ? ',' : '1';
	cr_expect_eq(json_tree_read(&tree, text, length), -EMSGSIZE);
	json_tree_free(&tree);
	free(text);
}

Test(json_tree, keys_are_found_in_any_order)
{
	static const char text[] = "{\"a\":1,\"b\":{\"a\":2,\"c\":3},\"c\":[4,5],\"d\":6}";
	struct json_tree tree;
	uint32_t hint = 0, place;
	int64_t value;

	cr_assert_eq(json_tree_read(&tree, text, strlen(text)), 0);
	for (const char *key = "adcabdbca"; *key; key++) {
		char name[2] = {*key};

		place = json_tree_get(&tree, 0, name, &hint);
		cr_expect(place, "%s", name);
		if (*key == 'd')
			cr_expect(json_tree_integer(&tree, place, &value) && value == 6);
		if (*key == 'a')
			cr_expect(json_tree_integer(&tree, place, &value) && value == 1);
		cr_expect_eq(json_tree_get(&tree, 0, "x", &hint), 0);
	}
	json_tree_free(&tree);
}
