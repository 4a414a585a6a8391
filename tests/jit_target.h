/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a process keeps the list of its code: for tests and benches that read it by themselves. */
#pragma once
#include "stack/files_direct.h"
#include "stack/modules.h"
#include "stack/registers.h"

/* The address of its descriptor, found by its symbol; 0: none. */
static inline uint64_t jit_descriptor_of(pid_t pid)
{
	struct stack_files files = files_direct("");
	struct modules *modules = modules_new(&files, 16 << 20);
	struct maps_cache *cache = maps_cache_new(&files);
	struct module_scope scope = {.process = {.pid = pid}, .arch = STACK_HOST_ARCH};
	struct stack_maps *maps = maps_cache_get(cache, &scope.process, 0);
	uint64_t addresses[RUNTIME_SYMBOLS], found = 0;

	scope.maps = maps;
	for (size_t i = 0; maps && i < maps->count && !found; i++)
		if (maps->entries[i].flags & MAP_EXEC && maps->entries[i].inode &&
		    modules_runtime(modules, &scope, &maps->entries[i], addresses))
			found = addresses[RUNTIME_JIT];
	maps_put(maps);
	maps_cache_free(cache);
	modules_free(modules);
	return found;
}
