/* SPDX-License-Identifier: BSD-2-Clause */
/* Which methods of the source a frame stands for. Where the frame does not tell its line or its
 * types, and methods with the same changed name differ, all of them are told: never one by guess.
 */
#include "stack/symbol/mapping_find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define KEY_BYTES 4096 /* longer names stay as they are */

/* ---- lines of the class that have this changed name ---- */

static struct mapping_method *add_method(struct mapping_search *search,
					 const struct mapping_method *method)
{
	struct mapping *mapping = search->mapping;
	size_t room = mapping->method_room ? 2 * mapping->method_room : 64;
	struct mapping_method *more;

	if (search->method_count == mapping->method_room) {
		more = reallocarray(mapping->methods, room, sizeof(*more));
		if (!more)
			return NULL;
		mapping->methods = more;
		mapping->method_room = room;
	}
	mapping->methods[search->method_count] = *method;
	return &mapping->methods[search->method_count++];
}

/* The value of "key" in a comment, which is JSON in one kind of quotes or the other. */
static struct span quoted_value(struct span comment, const char *key)
{
	const char *at = span_find(comment, key);
	struct span rest;
	const char *end;

	if (!at)
		return (struct span){0};
	at += strlen(key);
	rest = span_trim((struct span){at, (size_t)(comment.at + comment.length - at)});
	if (!span_begins(rest, ":"))
		return (struct span){0};
	rest.at++;
	rest.length--;
	rest = span_trim(rest);
	if (rest.length < 2 || (rest.at[0] != '"' && rest.at[0] != '\''))
		return (struct span){0};
	end = memchr(rest.at + 1, rest.at[0], rest.length - 1);
	return end ? (struct span){rest.at + 1, (size_t)(end - rest.at - 1)} : (struct span){0};
}

static void take_comment(struct mapping_method *method, struct span comment)
{
	if (span_find(comment, "com.android.tools.r8.synthesized")) {
		method->synthesized = true;
	} else if (span_find(comment, "com.android.tools.r8.residualsignature")) {
		method->residual = quoted_value(comment, "\"signature\"");
		if (!method->residual.length)
			method->residual = quoted_value(comment, "'signature'");
	}
}

static int collect(struct mapping_search *search, const struct mapping_class *class)
{
	struct span rest = class->body, line;
	struct mapping_method method, *last = NULL;

	while (span_line(&rest, &line)) {
		line = span_trim(line);
		if (line.length && line.at[0] == '#') {
			if (last)
				take_comment(last, line);
			continue;
		}
		last = NULL;
		if (mapping_parse_member(line, &method) != 1 ||
		    !span_equal(method.obfuscated, search->symbol.name))
			continue;
		method.of = class;
		last = add_method(search, &method);
		if (!last)
			return -ENOMEM;
	}
	return 0;
}

/* ---- groups ---- */

/* Whether a line goes on with the place of the one before it: as its caller, which has one line in
 * the source, that of the call. */
static bool goes_on(const struct mapping_method *before, const struct mapping_method *method)
{
	return before->of == method->of && before->has_range && method->has_range &&
	       before->from == method->from && before->to == method->to &&
	       (!method->has_original || method->original_from == method->original_to);
}

static int make_groups(struct mapping_search *search)
{
	const struct mapping_method *methods = search->mapping->methods;

	search->groups = calloc(search->method_count + 1, sizeof(*search->groups));
	if (!search->groups)
		return -ENOMEM;
	for (size_t i = 0; i < search->method_count; i++) {
		if (i && goes_on(&methods[i - 1], &methods[i])) {
			search->groups[search->group_count - 1].count++;
			continue;
		}
		search->groups[search->group_count++] = (struct mapping_group){&methods[i], 1};
	}
	return 0;
}

static int compare_spans(struct span a, struct span b)
{
	if (a.length != b.length)
		return a.length < b.length ? -1 : 1;
	return memcmp(a.at, b.at, a.length);
}

/* By the method that a line is of. */
static int compare_methods(const void *left, const void *right)
{
	const struct mapping_method *a = *(const struct mapping_method *const *)left;
	const struct mapping_method *b = *(const struct mapping_method *const *)right;
	int order = compare_spans(a->name, b->name);

	if (a->of != b->of)
		return a->of < b->of ? -1 : 1;
	if (!order)
		order = compare_spans(a->arguments, b->arguments);
	if (!order)
		order = compare_spans(a->type, b->type);
	return order ? order : compare_spans(a->owner, b->owner);
}

bool mapping_same_method(const struct mapping_method *a, const struct mapping_method *b)
{
	return !compare_methods(&a, &b);
}

static void share(struct mapping_method **methods, size_t count)
{
	struct span residual = {0};
	bool synthesized = false;

	for (size_t i = 0; i < count; i++) {
		synthesized |= methods[i]->synthesized;
		if (methods[i]->residual.length)
			residual = methods[i]->residual;
	}
	for (size_t i = 0; i < count; i++) {
		methods[i]->synthesized = synthesized;
		methods[i]->residual = residual;
	}
}

/* R8 writes what is true of a method below one of its lines only. */
static int share_comments(struct mapping_search *search)
{
	struct mapping_method **sorted = calloc(search->method_count + 1, sizeof(*sorted));
	size_t first = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < search->method_count; i++)
		sorted[i] = &search->mapping->methods[i];
	qsort(sorted, search->method_count, sizeof(*sorted), compare_methods);
	for (size_t i = 1; i <= search->method_count; i++) {
		if (i < search->method_count && mapping_same_method(sorted[i - 1], sorted[i]))
			continue;
		share(sorted + first, i - first);
		first = i;
	}
	free(sorted);
	return 0;
}

typedef bool (*group_test)(const struct mapping_search *search, const struct mapping_group *group,
			   uint32_t line);

static bool has_types(const struct mapping_search *search, const struct mapping_group *group,
		      uint32_t line)
{
	(void)line;
	return mapping_same_types(search->mapping, &search->symbol, mapping_outermost(group));
}

static bool has_line(const struct mapping_search *search, const struct mapping_group *group,
		     uint32_t line)
{
	const struct mapping_method *method = mapping_outermost(group);

	(void)search;
	return method->has_range && method->from <= line && line <= method->to;
}

static bool has_no_range(const struct mapping_search *search, const struct mapping_group *group,
			 uint32_t line)
{
	(void)search, (void)line;
	return !mapping_outermost(group)->has_range;
}

/* Keep the groups that pass; all of them where none does. Returns whether one did. */
static bool narrow(struct mapping_search *search, group_test test, uint32_t line)
{
	size_t kept = 0;

	for (size_t i = 0; i < search->group_count; i++)
		if (test(search, &search->groups[i], line)) {
			struct mapping_group passed = search->groups[i];

			search->groups[i] = search->groups[kept];
			search->groups[kept++] = passed;
		}
	if (kept)
		search->group_count = kept;
	return kept;
}

/* ---- */

static int keep(struct mapping *mapping, struct mapping_found *found, const char *text,
		size_t length, size_t count)
{
	char *copy = arena_take(&mapping->names, length + 1);

	found->names = arena_take(&mapping->names, count * sizeof(*found->names));
	if (!copy || !found->names)
		return -ENOMEM;
	memcpy(copy, text, length);
	for (size_t i = 0; i < count; i++) {
		char *end = strchr(copy, '\n');

		found->names[i] = (struct mapping_name){copy, i + 1 < count};
		*end = 0;
		copy = end + 1;
	}
	found->count = count;
	mapping->kept_bytes += length + 1 + count * sizeof(*found->names);
	return 0;
}

static int look(struct mapping *mapping, const char *text, uint32_t line,
		struct mapping_found *found)
{
	struct mapping_search search = {.mapping = mapping};
	const struct mapping_class *class, *first;
	char *names = NULL;
	size_t length, count;
	int err = 0;
	FILE *out;

	if (!mapping_parse_symbol(text, &search.symbol))
		return 0;
	first = mapping_class(mapping, search.symbol.owner, NULL);
	if (!first)
		return 0;
	for (class = first; class && !err;
	     class = mapping_class(mapping, search.symbol.owner, class))
		err = collect(&search, class);
	if (err)
		return err;
	err = share_comments(&search);
	if (!err)
		err = make_groups(&search);
	out = err ? NULL : open_memstream(&names, &length);
	if (!out) {
		free(search.groups);
		return -ENOMEM;
	}
	if (search.symbol.has_signature)
		narrow(&search, has_types, 0);
	if (line != MAPPING_NO_LINE && !narrow(&search, has_line, line))
		narrow(&search, has_no_range, 0);
	count = mapping_put_names(out, &search, first);
	free(search.groups);
	err = fclose(out) ? -ENOMEM : keep(mapping, found, names, length, count);
	free(names);
	return err;
}

ssize_t mapping_find(struct mapping *mapping, const char *symbol, uint32_t line,
		     const struct mapping_name **names)
{
	struct mapping_found *found;
	char key[KEY_BYTES];
	int length = snprintf(key, sizeof(key), "%x %s", line, symbol);
	int err;

	*names = NULL;
	if (length < 0 || (size_t)length >= sizeof(key))
		return 0;
	HASH_FIND(hh, mapping->found, key, (size_t)length, found);
	if (!found) {
		size_t bytes = sizeof(*found) + (size_t)length + 1;

		if (mapping->kept_bytes + bytes > MAPPING_KEPT_BYTES) {
			mapping->left_out++;
			return 0;
		}
		found = arena_take(&mapping->names, bytes);
		if (!found)
			return -ENOMEM;
		mapping->kept_bytes += bytes;
		memcpy(found->key, key, (size_t)length + 1);
		err = look(mapping, symbol, line, found);
		if (err)
			return err;
		HASH_ADD_KEYPTR(hh, mapping->found, found->key, (size_t)length, found);
	}
	*names = found->names;
	return (ssize_t)found->count;
}
