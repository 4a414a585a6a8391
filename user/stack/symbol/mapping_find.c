/* SPDX-License-Identifier: BSD-2-Clause */
/* Which methods of the source a frame stands for. Where the frame does not tell its line or its
 * types, and methods with the same changed name differ, all of them are told: never one by guess.
 */
#include "stack/symbol/mapping_find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_FRAMES 64   /* that were inlined into each other */
#define MAX_TOLD   3    /* methods of which it is one */
#define KEY_BYTES  4096 /* longer names stay as they are */

/* Lines of the mapping that belong together: one place in the changed code, innermost first. */
struct group {
	const struct mapping_method *methods;
	size_t count;
};

struct search {
	struct mapping *mapping;
	struct mapping_symbol symbol;
	size_t method_count, group_count;
	struct group *groups;
};

/* ---- lines of the class that have this changed name ---- */

static struct mapping_method *add_method(struct search *search, const struct mapping_method *method)
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

static int collect(struct search *search, const struct mapping_class *class)
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

static int make_groups(struct search *search)
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
		search->groups[search->group_count++] = (struct group){&methods[i], 1};
	}
	return 0;
}

/* The method that the changed code was made of; others were inlined into it. */
static const struct mapping_method *outermost(const struct group *group)
{
	return &group->methods[group->count - 1];
}

static bool same_method(const struct mapping_method *a, const struct mapping_method *b)
{
	return a->of == b->of && span_equal(a->owner, b->owner) && span_equal(a->name, b->name) &&
	       span_equal(a->type, b->type) && span_equal(a->arguments, b->arguments);
}

/* R8 writes what is true of a method below one of its lines only. */
static void share_comments(struct search *search)
{
	struct mapping_method *methods = search->mapping->methods;

	for (size_t i = 0; i < search->method_count; i++) {
		const struct mapping_method *from = &methods[i];

		if (!from->residual.length && !from->synthesized)
			continue;
		for (size_t k = 0; k < search->method_count; k++) {
			if (!same_method(from, &methods[k]))
				continue;
			if (from->residual.length)
				methods[k].residual = from->residual;
			methods[k].synthesized |= from->synthesized;
		}
	}
}

typedef bool (*group_test)(const struct search *search, const struct group *group, uint32_t line);

static bool has_types(const struct search *search, const struct group *group, uint32_t line)
{
	(void)line;
	return mapping_same_types(search->mapping, &search->symbol, outermost(group));
}

static bool has_line(const struct search *search, const struct group *group, uint32_t line)
{
	const struct mapping_method *method = outermost(group);

	(void)search;
	return method->has_range && method->from <= line && line <= method->to;
}

static bool has_no_range(const struct search *search, const struct group *group, uint32_t line)
{
	(void)search, (void)line;
	return !outermost(group)->has_range;
}

/* Keep the groups that pass; all of them where none does. Returns whether one did. */
static bool narrow(struct search *search, group_test test, uint32_t line)
{
	size_t kept = 0;

	for (size_t i = 0; i < search->group_count; i++)
		if (test(search, &search->groups[i], line)) {
			struct group passed = search->groups[i];

			search->groups[i] = search->groups[kept];
			search->groups[kept++] = passed;
		}
	if (kept)
		search->group_count = kept;
	return kept;
}

/* ---- names ---- */

static struct span owner_of(const struct mapping_method *method)
{
	return method->owner.length ? method->owner : method->of->original;
}

static bool same_name(const struct mapping_method *a, const struct mapping_method *b)
{
	return span_equal(a->name, b->name) && span_equal(owner_of(a), owner_of(b));
}

static bool same_names(const struct group *a, const struct group *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_name(&a->methods[i], &b->methods[i]) ||
		    !span_equal(a->methods[i].arguments, b->methods[i].arguments))
			return false;
	return true;
}

static void put(FILE *out, struct span text)
{
	fwrite(text.at, 1, text.length, out);
}

static void put_types(FILE *out, struct span list)
{
	for (size_t i = 0; i < list.length; i++) {
		if (list.at[i] == ' ')
			continue;
		putc(list.at[i], out);
		if (list.at[i] == ',')
			putc(' ', out);
	}
}

static void put_name(FILE *out, struct span owner, struct span name)
{
	put(out, owner);
	putc('.', out);
	put(out, name);
}

static void put_method(FILE *out, const struct search *search, const struct mapping_method *method)
{
	if (search->symbol.has_signature) {
		put(out, method->type);
		putc(' ', out);
	}
	put_name(out, owner_of(method), method->name);
	if (search->symbol.has_signature) {
		putc('(', out);
		put_types(out, method->arguments);
		putc(')', out);
	}
}

/* A type of the changed code by its name in the source. */
static void put_original(FILE *out, const struct mapping *mapping, struct span type)
{
	size_t length = type.length;
	const struct mapping_class *class;

	while (length > 2 && !memcmp(type.at + length - 2, "[]", 2))
		length -= 2;
	class = mapping_class(mapping, (struct span){type.at, length}, NULL);
	put(out, class ? class->original : (struct span){type.at, length});
	put(out, (struct span){type.at + length, type.length - length});
}

/* A method that kept its name: only its class, and its types, have others. */
static void put_kept(FILE *out, const struct search *search, const struct mapping_class *class)
{
	const struct mapping_symbol *symbol = &search->symbol;
	struct span rest = symbol->arguments;

	if (symbol->has_signature) {
		put_original(out, search->mapping, symbol->type);
		putc(' ', out);
	}
	put_name(out, class->original, symbol->name);
	if (!symbol->has_signature)
		return;
	putc('(', out);
	while (rest.length) {
		const char *comma = memchr(rest.at, ',', rest.length);
		size_t length = comma ? (size_t)(comma - rest.at) : rest.length;

		put_original(out, search->mapping, span_trim((struct span){rest.at, length}));
		rest.at += length + (comma != NULL);
		rest.length -= length + (comma != NULL);
		if (comma)
			fputs(", ", out);
	}
	putc(')', out);
}

/* "a.B.f or g or h or 4 more" */
static void put_all(FILE *out, const struct search *search)
{
	const struct mapping_method *told[MAX_TOLD], *method;
	size_t count = 0, more = 0, k;

	for (size_t i = 0; i < search->group_count; i++) {
		method = outermost(&search->groups[i]);
		for (k = 0; k < i && !same_name(method, outermost(&search->groups[k])); k++)
			;
		if (k < i)
			continue;
		if (count < MAX_TOLD)
			told[count++] = method;
		else
			more++;
	}
	/* Overloads of one name: which of them it is does not show in it. */
	if (count == 1) {
		put_name(out, owner_of(told[0]), told[0]->name);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (i)
			fputs(" or ", out);
		if (i && span_equal(owner_of(told[i]), owner_of(told[i - 1])))
			put(out, told[i]->name);
		else
			put_name(out, owner_of(told[i]), told[i]->name);
	}
	if (more)
		fprintf(out, " or %zu more", more);
}

/* All groups are the same methods: not told apart by anything that a name shows. */
static bool are_same(const struct search *search)
{
	for (size_t i = 1; i < search->group_count; i++)
		if (!same_names(&search->groups[0], &search->groups[i]))
			return false;
	return search->group_count;
}

/* Of different places in one method: the method, and nothing of what was inlined. */
static bool are_of_one(const struct search *search)
{
	for (size_t i = 1; i < search->group_count; i++)
		if (!same_method(outermost(&search->groups[0]), outermost(&search->groups[i])))
			return false;
	return search->group_count;
}

/* One text a line of what is written: the names, innermost first. Returns how many. */
static size_t put_names(FILE *out, const struct search *search, const struct mapping_class *class)
{
	const struct group *group = search->groups;
	size_t count;

	if (are_same(search)) {
		/* What the compiler made is not in the source: what was inlined into it is. */
		count = group->count - (group->count > 1 && outermost(group)->synthesized);
		if (count > MAX_FRAMES)
			count = MAX_FRAMES;
		for (size_t i = 0; i < count; i++) {
			put_method(out, search, &group->methods[i]);
			putc('\n', out);
		}
		return count;
	}
	if (!search->group_count)
		put_kept(out, search, class);
	else if (are_of_one(search))
		put_method(out, search, outermost(group));
	else
		put_all(out, search);
	putc('\n', out);
	return 1;
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
	struct search search = {.mapping = mapping};
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
	share_comments(&search);
	err = make_groups(&search);
	out = err ? NULL : open_memstream(&names, &length);
	if (!out) {
		free(search.groups);
		return -ENOMEM;
	}
	if (search.symbol.has_signature)
		narrow(&search, has_types, 0);
	if (line && !narrow(&search, has_line, line))
		narrow(&search, has_no_range, 0);
	count = put_names(out, &search, first);
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
