/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/code/runtime.h"

#include <string.h>

#include "util/clock.h"

#define MAX_SEARCHED 64 /* files of a process that are looked through for a list */
#define SEARCH_NS    (10 * NSEC_PER_SEC)

/* libart.so, libartd.so, and as Debian has it libart.so.0; an app's own library may begin so, too.
 */
static bool is_libart(const struct module_scope *scope, const struct map_entry *entry)
{
	const char *path = maps_path(scope->maps, entry), *end = path + entry->path_len;
	const char *slash = memrchr(path, '/', entry->path_len);

	if (!slash || end - slash < 10 || memcmp(slash, "/libart", 7))
		return false;
	slash += slash[7] == 'd' ? 8 : 7;
	return end - slash >= 3 && !memcmp(slash, ".so", 3);
}

static uint64_t find_list(struct runtime_search *search, struct modules *modules,
			  const struct module_scope *scope, enum runtime_symbol which)
{
	uint64_t addresses[RUNTIME_SYMBOLS], last_inode = 0;
	unsigned searched = 0;

	for (unsigned art = 2; art-- > 0;) {
		for (size_t i = 0; i < scope->maps->count && searched < MAX_SEARCHED; i++) {
			const struct map_entry *entry = &scope->maps->entries[i];

			if (!(entry->flags & MAP_EXEC) || !entry->inode ||
			    entry->inode == last_inode || is_libart(scope, entry) != art)
				continue;
			last_inode = entry->inode;
			searched++;
			search->start = entry->start;
			search->inode = entry->inode;
			if (modules_runtime(modules, scope, entry, addresses) && addresses[which])
				return addresses[which];
		}
	}
	return 0;
}

bool runtime_find_list(struct runtime_search *search, struct modules *modules,
		       const struct module_scope *scope, enum runtime_symbol which)
{
	const struct map_entry *entry = maps_find(scope->maps, search->start);
	uint64_t now_ns;

	if (search->list &&
	    ((entry && entry->start == search->start && entry->inode == search->inode) ||
	     maps_left_out(scope->maps, search->start)))
		return true;
	if (search->list)
		*search = (struct runtime_search){0};
	now_ns = clock_now_ns(CLOCK_MONOTONIC);
	if (search->searched_ns && (search->searched_serial == scope->maps->serial ||
				    now_ns - search->searched_ns <= SEARCH_NS))
		return false;
	search->searched_ns = now_ns;
	search->searched_serial = scope->maps->serial;
	search->list = find_list(search, modules, scope, which);
	return search->list;
}
