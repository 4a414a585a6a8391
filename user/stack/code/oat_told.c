/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/oat_told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack/code/oat_dex.h"
#include "util/hash.h"

#define SHOWN_NAMES 3 /* of methods that share code */
#define NAME_BYTES  (SHOWN_NAMES * (DEX_NAME_BYTES + 4) + 48)
/* Of a call that cannot return to byte code: the one method that is inlined across DEX files for
 * what it throws (art/runtime/entrypoints/entrypoint_utils-inl.h, GetResolvedMethod). */
#define NO_PLACE UINT32_MAX
#define CHAR_AT  "java.lang.String.charAt"

static int open_dex(struct dex_code *dex, const struct oat_asked *asked, uint32_t number,
		    struct dex_file *file)
{
	return oat_dex_open(dex, asked->scope, asked->entry, &asked->oat->dex[number],
			    asked->index->classes[number], file);
}

/* ---- the method ---- */

/* The names of the methods that have this code, and the line of a call in it where it is one
 * method's. False: no DEX file that is there has them. */
static bool name_methods(struct dex_code *dex, const struct oat_asked *asked, char name[NAME_BYTES],
			 uint32_t *line)
{
	size_t length = 0, count = asked->count, shown = count < SHOWN_NAMES ? count : SHOWN_NAMES;

	for (size_t i = 0; i < shown; i++) {
		const struct oat_method *method = &asked->methods[i];
		char one[DEX_NAME_BYTES];
		struct dex_place place;
		struct dex_file file;
		int n;

		if (open_dex(dex, asked, method->dex, &file) ||
		    dex_class_method(&file, method->class, method->number, &place) ||
		    dex_method_name(&file, place.method, one))
			return false;
		if (count == 1 && asked->place && place.code) {
			place.pc = asked->place->dex_pc;
			if (place.pc >= place.instructions || dex_line(&file, &place, line))
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

static void tell_inlined(struct dex_code *dex, const struct oat_asked *asked,
			 const struct code_inlined *from, struct oat_told *told,
			 struct oat_inlined *to)
{
	char name[DEX_NAME_BYTES];
	struct dex_place place;
	struct dex_file file;
	uint32_t number;

	*to = (struct oat_inlined){0};
	if (from->dex_pc == NO_PLACE) {
		to->name = strdup(CHAR_AT);
	} else {
		to->dex_place = from->dex_pc + 1;
		if (dex_of(asked, from, &number)) {
			if (open_dex(dex, asked, number, &file) ||
			    dex_method_name(&file, from->method, name)) {
				told->partial = true;
			} else {
				to->name = strdup(name);
				if (!dex_method_place(&file, from->method, &place) && place.code) {
					place.pc = from->dex_pc;
					if (place.pc >= place.instructions ||
					    dex_line(&file, &place, &to->line))
						to->line = 0;
				}
			}
		}
	}
	to->function = to->name ? hash_bytes(to->name, strlen(to->name), 7)
				: hash_u64((uint64_t)from->method << 32 ^ from->dex ^ 7);
}

void oat_tell(struct dex_code *dex, const struct oat_asked *asked, struct oat_told *told)
{
	const struct code_place *place = asked->place;
	char name[NAME_BYTES] = "";

	*told = (struct oat_told){.shared = asked->count > 1};
	if (place && place->dex_pc != NO_PLACE)
		told->dex_place = place->dex_pc + 1;
	if (name_methods(dex, asked, name, &told->line))
		told->name = strdup(name);
	else
		told->partial = true;
	if (!place || !place->count)
		return;
	told->inlined = calloc(place->count, sizeof(*told->inlined));
	if (!told->inlined)
		return;
	told->inlined_count = place->count;
	for (unsigned i = 0; i < place->count; i++)
		tell_inlined(dex, asked, &place->inlined[i], told, &told->inlined[i]);
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
