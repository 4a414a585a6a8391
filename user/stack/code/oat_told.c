/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat_told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/oat_dex.h"
#include "util/hash.h"

#define SHOWN_NAMES 3 /* of methods that share code */
#define MAX_OPENS   8 /* DEX files for one place */
#define NAME_BYTES  (SHOWN_NAMES * (DEX_NAME_BYTES + 4) + 48)
/* Of a call that cannot return to byte code: the one method that is inlined across DEX files for
 * what it throws (art/runtime/entrypoints/entrypoint_utils-inl.h, GetResolvedMethod). */
#define NO_PLACE UINT32_MAX
#define CHAR_AT  "java.lang.String.charAt"

/* The DEX file that was asked for last: looking for one goes through all mappings of the process.
 */
struct open_dex {
	struct dex_code *code;
	const struct oat_asked *asked;
	unsigned asked_for;
	uint32_t number;
	int err;
	struct dex_file file;
};

/* NULL: it is not there, or others were asked for too often. */
static const struct dex_file *open_dex(struct open_dex *open, uint32_t number)
{
	const struct oat_asked *asked = open->asked;

	if (!open->asked_for || number != open->number) {
		if (open->asked_for++ >= MAX_OPENS)
			return NULL;
		open->number = number;
		open->err = oat_dex_open(open->code, asked->scope, asked->entry,
					 &asked->oat->dex[number], asked->index->classes[number],
					 &open->file);
	}
	return open->err ? NULL : &open->file;
}

/* ---- the method ---- */

/* The names of the methods that have this code, and the line of a call in it where it is one
 * method's. False: no DEX file that is there has them. */
static bool name_methods(struct open_dex *open, char name[NAME_BYTES], uint32_t *line)
{
	const struct oat_asked *asked = open->asked;
	size_t length = 0, count = asked->count, shown = count < SHOWN_NAMES ? count : SHOWN_NAMES;

	for (size_t i = 0; i < shown; i++) {
		const struct oat_method *method = &asked->methods[i];
		char one[DEX_NAME_BYTES];
		const struct dex_file *file = open_dex(open, method->dex);
		struct dex_place place;
		int n;

		if (!file || dex_class_method(file, method->class, method->number, &place) ||
		    dex_method_name(file, place.method, one))
			return false;
		if (count == 1 && asked->place && place.code) {
			place.pc = asked->place->dex_pc;
			if (place.pc >= place.instructions || dex_line(file, &place, line))
				*line = 0;
		}
		n = snprintf(name + length, NAME_BYTES - length, "%s%s", i ? " or " : "", one);
		if (n < 0 || (size_t)n >= NAME_BYTES - length)
			return false;
		length += (size_t)n;
	}
	if (count > shown)
		length += (size_t)snprintf(name + length, NAME_BYTES - length, " or %zu others",
					   count - shown);
	/* Which of the methods it is, nothing of the code tells. */
	if (count > 1)
		snprintf(name + length, NAME_BYTES - length, " (shared code)");
	return true;
}

/* ---- what was inlined ---- */

/* The DEX file that the number of an inlined method counts in. False: it is not known. */
static bool dex_of(const struct oat_asked *asked, const struct code_inlined *from, uint32_t *number)
{
	*number = from->same_dex ? asked->methods[0].dex : from->dex;
	/* Methods that share code have their numbers in common only in one file. */
	for (size_t i = 1; from->same_dex && i < asked->count; i++)
		if (asked->methods[i].dex != *number)
			return false;
	/* Files of the boot class path are counted in an order that no oat file has. */
	return !from->unnamed && !from->boot && *number < asked->oat->dex_count;
}

static void tell_inlined(struct open_dex *open, const struct code_inlined *from,
			 struct oat_told *told, struct oat_inlined *to)
{
	const struct dex_file *file;
	char name[DEX_NAME_BYTES];
	struct dex_place place;
	uint32_t number;

	to->function = hash_u64((uint64_t)from->method << 32 ^ from->dex ^
				(uint64_t)open->asked->methods->code << 16);
	if (from->dex_pc == NO_PLACE) {
		to->name = strdup(CHAR_AT);
		return;
	}
	to->dex_place = from->dex_pc + 1;
	if (!dex_of(open->asked, from, &number))
		return;
	file = open_dex(open, number);
	if (!file || dex_method_name(file, from->method, name)) {
		told->partial = true;
		return;
	}
	to->name = strdup(name);
	if (dex_method_place(file, from->method, &place) || !place.code ||
	    from->dex_pc >= place.instructions)
		return;
	place.pc = from->dex_pc;
	if (dex_line(file, &place, &to->line))
		to->line = 0;
}

void oat_tell(struct dex_code *dex, const struct oat_asked *asked, struct oat_told *told)
{
	struct open_dex open = {.code = dex, .asked = asked};
	const struct code_place *place = asked->place;
	char name[NAME_BYTES] = "";

	*told = (struct oat_told){.shared = asked->count > 1};
	if (place && place->dex_pc != NO_PLACE)
		told->dex_place = place->dex_pc + 1;
	if (name_methods(&open, name, &told->line))
		told->name = strdup(name);
	else
		told->partial = true;
	if (!place || !place->count)
		return;
	told->inlined = calloc(place->count, sizeof(*told->inlined));
	if (!told->inlined)
		return;
	told->inlined_count = place->count;
	for (unsigned i = 0; i < place->count; i++) {
		struct oat_inlined *to = &told->inlined[i];

		tell_inlined(&open, &place->inlined[i], told, to);
		if (to->name)
			to->function = hash_bytes(to->name, strlen(to->name), 7);
	}
}

void oat_told_free(struct oat_told *told)
{
	for (unsigned i = 0; i < told->inlined_count; i++)
		free(told->inlined[i].name);
	free(told->inlined);
	free(told->name);
	*told = (struct oat_told){0};
}

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

size_t oat_told_bytes(const struct oat_told *told)
{
	size_t bytes = text_bytes(told->name) + told->inlined_count * sizeof(*told->inlined);

	for (unsigned i = 0; i < told->inlined_count; i++)
		bytes += text_bytes(told->inlined[i].name);
	return bytes;
}
