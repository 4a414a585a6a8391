/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/jit_told.h"

#include <stdlib.h>
#include <string.h>

#include "stack/code/art_method.h"
#include "stack/code/dex_file.h"
#include "stack/code/process_bytes.h"
#include "util/hash.h"

#define MAX_OATS 8
#define NO_PLACE UINT32_MAX

static bool has_end(const struct module_scope *scope, const struct map_entry *entry,
		    const char *end)
{
	size_t length = strlen(end), path = maps_file_length(scope->maps, entry);

	return path > length && !memcmp(maps_path(scope->maps, entry) + path - length, end, length);
}

unsigned jit_oat_version(struct jit_oat *known, struct modules *modules,
			 const struct module_scope *scope)
{
	unsigned asked = 0, version;

	if (known->version || (scope->maps->serial && known->serial == scope->maps->serial))
		return known->version;
	known->serial = scope->maps->serial;
	for (size_t i = 0; i < scope->maps->count && asked < MAX_OATS; i++) {
		const struct map_entry *entry = &scope->maps->entries[i];
		struct module_oat oat;

		if (!(entry->flags & MAP_EXEC) ||
		    (!has_end(scope, entry, ".oat") && !has_end(scope, entry, ".odex")))
			continue;
		asked++;
		if (modules_oat(modules, scope, entry->start, &oat) &&
		    !oat_file_version(oat.elf, oat.oatdata, &version))
			return known->version = version;
	}
	return 0;
}

/* The name of a method, and the line of its byte code at dex_pc, 0: not known. What does not fit
 * together is not told: the layout may be another one, and the memory is the app's. */
static bool find_method(const struct jit_asked *asked, const struct byte_source *memory,
			uint64_t art_method, uint32_t dex_pc, char name[DEX_NAME_BYTES],
			uint32_t *line)
{
	struct art_method method;
	struct dex_place place;
	struct dex_file dex;

	if (art_method_read(memory, asked->scope->arch, asked->version, art_method, &method) ||
	    dex_code_open(asked->dex, asked->scope, memory, method.dex, &dex) ||
	    dex_method_place(&dex, method.number, &place) || !place.code ||
	    (dex_pc != NO_PLACE && dex_pc >= place.instructions) ||
	    dex_method_name(&dex, method.number, name))
		return false;
	place.pc = dex_pc;
	if (dex_pc == NO_PLACE || dex_line(&dex, &place, line))
		*line = 0;
	return true;
}

/* The method itself, and its line. Its frame has its ArtMethod at the stack pointer where it makes
 * calls that may throw (art/compiler/optimizing/code_generator.h, RequiresCurrentMethod); the names
 * in the list have the signature in front and behind, or not. */
static bool find_own(const struct jit_asked *asked, const struct byte_source *memory,
		     uint32_t dex_pc, uint32_t *line)
{
	char name[DEX_NAME_BYTES];
	const char *found;

	if (!asked->art_method ||
	    !find_method(asked, memory, asked->art_method, dex_pc, name, line))
		return false;
	found = strstr(asked->name, name);
	if (!found || (found != asked->name && found[-1] != ' '))
		return false;
	found += strlen(name);
	return !*found || *found == '(';
}

/* 0; -ENOENT: nothing is kept of the place, or it makes no sense; -errno: it could not be read. */
static int find_place(const struct jit_asked *asked, const struct byte_source *memory,
		      struct code_place *place)
{
	struct code_info_layout layout;
	struct code_info info;
	int err;

	if (!oat_version_layout(asked->version, &layout) || layout.format == CODE_INFO_HEADER)
		return -ENOENT;
	err = code_info_open(&info, &layout, memory, asked->code,
			     asked->scope->arch == STACK_ARM64 ? 4 : 1);
	if (!err)
		err = asked->offset > info.code_bytes ? -ENOENT
						      : code_info_find(&info, asked->offset, place);
	return err == -EBADMSG ? -ENOENT : err;
}

int jit_tell(const struct jit_asked *asked, struct oat_told *told)
{
	struct process_bytes bytes = {asked->files, &asked->scope->process, 0};
	const struct byte_source memory = process_bytes_source(&bytes);
	struct code_place place;
	char name[DEX_NAME_BYTES];
	int err = find_place(asked, &memory, &place);

	*told = (struct oat_told){0};
	if (err)
		return err == -ENOENT ? 0 : err;
	if (place.dex_pc != NO_PLACE) {
		told->dex_place = place.dex_pc + 1;
		/* Another stack may have it. */
		told->partial = !find_own(asked, &memory, place.dex_pc, &told->line);
		if (told->partial)
			told->line = 0;
	}
	if (!place.count)
		return 0;
	told->inlined = calloc(place.count, sizeof(*told->inlined));
	if (!told->inlined)
		return -ENOMEM;
	told->inlined_count = place.count;
	for (unsigned i = 0; i < place.count; i++) {
		const struct code_inlined *from = &place.inlined[i];
		struct oat_inlined *to = &told->inlined[i];

		if (from->dex_pc != NO_PLACE)
			to->dex_place = from->dex_pc + 1;
		if (from->unnamed &&
		    find_method(asked, &memory, from->art_method, from->dex_pc, name, &to->line))
			to->name = strdup(name);
		to->function = to->name ? hash_bytes(to->name, strlen(to->name), 7)
					: hash_u64(asked->code << 8 ^ i);
		told->partial |= !to->name;
	}
	return 0;
}
