/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of a mapping, and the names of frames, in their parts. */
#include <ctype.h>
#include <errno.h>

#include "stack/symbol/mapping_private.h"

const char *span_find(struct span text, const char *what)
{
	return text.length ? memmem(text.at, text.length, what, strlen(what)) : NULL;
}

struct span span_trim(struct span text)
{
	while (text.length && isspace((unsigned char)text.at[0])) {
		text.at++;
		text.length--;
	}
	while (text.length && isspace((unsigned char)text.at[text.length - 1]))
		text.length--;
	return text;
}

bool span_line(struct span *rest, struct span *line)
{
	const char *end;

	if (!rest->length)
		return false;
	end = memchr(rest->at, '\n', rest->length);
	*line = (struct span){rest->at, end ? (size_t)(end - rest->at) : rest->length};
	rest->at += line->length + (end != NULL);
	rest->length -= line->length + (end != NULL);
	return true;
}

static struct span before(struct span text, const char *end)
{
	return (struct span){text.at, (size_t)(end - text.at)};
}

static struct span behind(struct span text, const char *begin)
{
	return (struct span){begin, (size_t)(text.at + text.length - begin)};
}

/* Take decimal digits off the text. */
static bool take_number(struct span *text, uint32_t *number)
{
	uint64_t value = 0;
	size_t digits = 0;

	while (digits < text->length && isdigit((unsigned char)text->at[digits]) &&
	       value <= UINT32_MAX)
		value = value * 10 + (uint64_t)(text->at[digits++] - '0');
	if (!digits || value > UINT32_MAX)
		return false;
	*number = (uint32_t)value;
	*text = behind(*text, text->at + digits);
	return true;
}

static bool take_char(struct span *text, char c)
{
	if (!text->length || text->at[0] != c)
		return false;
	*text = behind(*text, text->at + 1);
	return true;
}

/* ":12" or ":12:34", as far as it is there. */
static bool take_original(struct span *text, struct mapping_method *method)
{
	if (!take_char(text, ':'))
		return true;
	if (!take_number(text, &method->original_from))
		return false;
	method->has_original = true;
	method->original_to = method->original_from;
	return !take_char(text, ':') || take_number(text, &method->original_to);
}

/* Split "a.b.c" at its last dot. */
static void split_name(struct span text, struct span *owner, struct span *name)
{
	const char *dot = text.length ? memrchr(text.at, '.', text.length) : NULL;

	*owner = dot ? before(text, dot) : before(text, text.at);
	*name = dot ? behind(text, dot + 1) : text;
}

/* [from:to:]type [owner.]name(types)[:from[:to]] -> changed */
int mapping_parse_member(struct span line, struct mapping_method *method)
{
	const char *arrow = span_find(line, " -> "), *blank, *open, *close;
	struct span rest;

	*method = (struct mapping_method){0};
	if (!arrow)
		return -EINVAL;
	method->obfuscated = span_trim(behind(line, arrow + 4));
	rest = before(line, arrow);
	if (!method->obfuscated.length)
		return -EINVAL;
	if (rest.length && isdigit((unsigned char)rest.at[0])) {
		method->has_range = true;
		if (!take_number(&rest, &method->from) || !take_char(&rest, ':') ||
		    !take_number(&rest, &method->to) || !take_char(&rest, ':'))
			return -EINVAL;
	}
	blank = rest.length ? memchr(rest.at, ' ', rest.length) : NULL;
	if (!blank || blank == rest.at)
		return -EINVAL;
	method->type = before(rest, blank);
	rest = span_trim(behind(rest, blank + 1));
	open = rest.length ? memchr(rest.at, '(', rest.length) : NULL;
	if (!open)
		return rest.length ? 0 : -EINVAL;
	split_name(before(rest, open), &method->owner, &method->name);
	rest = behind(rest, open + 1);
	close = rest.length ? memchr(rest.at, ')', rest.length) : NULL;
	if (!close || !method->name.length)
		return -EINVAL;
	method->arguments = before(rest, close);
	rest = behind(rest, close + 1);
	return take_original(&rest, method) && !span_trim(rest).length ? 1 : -EINVAL;
}

/* ART writes "void a.b.c(int, a.d)" or "a.b.c" (ArtMethod::PrettyMethod). */
bool mapping_parse_symbol(const char *text, struct mapping_symbol *symbol)
{
	struct span all = {text, strlen(text)}, name;
	const char *open = strchr(text, '('), *blank;

	*symbol = (struct mapping_symbol){0};
	name = open ? before(all, open) : all;
	if (open) {
		if (all.at[all.length - 1] != ')')
			return false;
		symbol->arguments = before(behind(all, open + 1), all.at + all.length - 1);
		blank = memrchr(name.at, ' ', name.length);
		symbol->has_signature = blank != NULL;
		if (blank) {
			symbol->type = before(name, blank);
			name = behind(name, blank + 1);
		}
	}
	split_name(name, &symbol->owner, &symbol->name);
	return symbol->owner.length && symbol->name.length && !memchr(name.at, ' ', name.length);
}

/* ---- types ---- */

/* Take the next type off a list of them. */
static bool next_type(struct span *list, struct span *type)
{
	const char *comma;

	if (!list->length)
		return false;
	comma = memchr(list->at, ',', list->length);
	*type = span_trim(comma ? before(*list, comma) : *list);
	*list = comma ? behind(*list, comma + 1) : (struct span){0};
	return true;
}

/* A name without its "[]". */
static struct span element_of(struct span type)
{
	while (type.length > 2 && !memcmp(type.at + type.length - 2, "[]", 2))
		type.length -= 2;
	return type;
}

static bool is_original(const struct mapping *mapping, struct span changed, struct span original)
{
	struct span element = element_of(changed), wanted = element_of(original);
	const struct mapping_class *class = mapping_class(mapping, element, NULL);

	if (changed.length - element.length != original.length - wanted.length)
		return false;
	return span_equal(class ? class->original : element, wanted);
}

/* Take one type off a descriptor, and compare: "[La/b;" is "a.b[]". */
static bool is_described(struct span *descriptor, struct span type)
{
	static const char letters[] = "VZBCSIJFD";
	static const char *const words[] = {"void", "boolean", "byte",  "char",  "short",
					    "int",  "long",    "float", "double"};
	struct span element = element_of(type);
	size_t dimensions = 0;
	const char *end, *letter;

	while (take_char(descriptor, '['))
		dimensions++;
	if (dimensions * 2 != type.length - element.length || !descriptor->length)
		return false;
	letter = memchr(letters, descriptor->at[0], sizeof(letters) - 1);
	if (letter) {
		const char *word = words[letter - letters];

		*descriptor = behind(*descriptor, descriptor->at + 1);
		return span_equal((struct span){word, strlen(word)}, element);
	}
	if (!take_char(descriptor, 'L'))
		return false;
	end = descriptor->length ? memchr(descriptor->at, ';', descriptor->length) : NULL;
	if (!end || (size_t)(end - descriptor->at) != element.length)
		return false;
	for (size_t i = 0; i < element.length; i++) {
		char c = descriptor->at[i] == '/' ? '.' : descriptor->at[i];

		if (c != element.at[i])
			return false;
	}
	*descriptor = behind(*descriptor, end + 1);
	return true;
}

static bool same_descriptor(const struct mapping_symbol *symbol, struct span descriptor)
{
	struct span list = symbol->arguments, type;

	if (!take_char(&descriptor, '('))
		return false;
	while (next_type(&list, &type))
		if (!is_described(&descriptor, type))
			return false;
	return take_char(&descriptor, ')') && is_described(&descriptor, symbol->type) &&
	       !descriptor.length;
}

bool mapping_same_types(const struct mapping *mapping, const struct mapping_symbol *symbol,
			const struct mapping_method *method)
{
	struct span ours = symbol->arguments, its = method->arguments, our, it;

	if (method->residual.length)
		return same_descriptor(symbol, method->residual);
	if (!is_original(mapping, symbol->type, method->type))
		return false;
	while (next_type(&ours, &our))
		if (!next_type(&its, &it) || !is_original(mapping, our, it))
			return false;
	return !its.length;
}
