/* SPDX-License-Identifier: BSD-2-Clause */
/* What a frame is called, from the methods that it can be. */
#include "stack/symbol/mapping_find.h"

#define MAX_FRAMES  64  /* that were inlined into each other */
#define MAX_TOLD    3   /* methods of which it is one */
#define MAX_COUNTED 100 /* of them */

static struct span owner_of(const struct mapping_method *method)
{
	return method->owner.length ? method->owner : method->of->original;
}

static bool same_name(const struct mapping_method *a, const struct mapping_method *b)
{
	return span_equal(a->name, b->name) && span_equal(owner_of(a), owner_of(b));
}

static bool same_names(const struct mapping_group *a, const struct mapping_group *b)
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

static void put_method(FILE *out, const struct mapping_search *search,
		       const struct mapping_method *method)
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
static void put_kept(FILE *out, const struct mapping_search *search,
		     const struct mapping_class *class)
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
static void put_all(FILE *out, const struct mapping_search *search)
{
	const struct mapping_method *told[MAX_TOLD];
	size_t count = 0, distinct = 0, k;

	/* Those with names of their own come to the front. */
	for (size_t i = 0; i < search->group_count && distinct < MAX_COUNTED; i++) {
		struct mapping_group group = search->groups[i];

		for (k = 0; k < distinct; k++)
			if (same_name(mapping_outermost(&group),
				      mapping_outermost(&search->groups[k])))
				break;
		if (k == distinct)
			search->groups[distinct++] = group;
	}
	for (; count < distinct && count < MAX_TOLD; count++)
		told[count] = mapping_outermost(&search->groups[count]);
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
	if (distinct == MAX_COUNTED)
		fputs(" or many more", out);
	else if (distinct > count)
		fprintf(out, " or %zu more", distinct - count);
}

/* All groups are the same methods: not told apart by anything that a name shows. */
static bool are_same(const struct mapping_search *search)
{
	for (size_t i = 1; i < search->group_count; i++)
		if (!same_names(&search->groups[0], &search->groups[i]))
			return false;
	return search->group_count;
}

/* Of different places in one method: the method, and nothing of what was inlined. */
static bool are_of_one(const struct mapping_search *search)
{
	for (size_t i = 1; i < search->group_count; i++)
		if (!mapping_same_method(mapping_outermost(&search->groups[0]),
					 mapping_outermost(&search->groups[i])))
			return false;
	return search->group_count;
}

size_t mapping_put_names(FILE *out, const struct mapping_search *search,
			 const struct mapping_class *class)
{
	const struct mapping_group *group = search->groups;
	size_t count;

	if (are_same(search)) {
		/* What the compiler made is not in the source: what was inlined into it is. */
		count = group->count - (group->count > 1 && mapping_outermost(group)->synthesized);
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
		put_method(out, search, mapping_outermost(group));
	else
		put_all(out, search);
	putc('\n', out);
	return 1;
}
