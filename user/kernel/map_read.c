/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/map_read.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

/* Elements of one call: buffers for all that a table may hold would be mappings, made and unmade
 * with each read of a table that is mostly empty. */
#define PART 256

static bool make_room(uint32_t count, uint32_t key_size, uint32_t value_size, char **keys,
		      char **values)
{
	free(*keys);
	free(*values);
	*keys = malloc((size_t)count * key_size);
	*values = malloc((size_t)count * value_size);
	return *keys && *values;
}

int map_read(int fd, uint32_t key_size, uint32_t value_size, uint32_t max_entries, map_read_fn fn,
	     void *ctx)
{
	uint32_t part = max_entries < PART ? max_entries : PART;
	uint64_t position[8]; /* opaque; a hash uses 4 bytes of it */
	char *keys = NULL, *values = NULL;
	bool begun = false, end = false;
	int err = make_room(part, key_size, value_size, &keys, &values) ? 0 : -ENOMEM;

	while (!err && !end) {
		uint32_t count = part;

		err = bpf_map_lookup_batch(fd, begun ? position : NULL, position, keys, values,
					   &count, NULL);
		end = err == -ENOENT; /* that marks the end of the map, and is no error */
		if (err == -ENOSPC && part < max_entries) {
			/* One bucket is fuller than a part. */
			part = max_entries / 2 > part ? 2 * part : max_entries;
			err = make_room(part, key_size, value_size, &keys, &values) ? 0 : -ENOMEM;
			continue;
		}
		if (err && !end)
			break;
		begun = true;
		err = 0;
		for (uint32_t i = 0; !err && i < count; i++)
			err = fn(ctx, keys + (size_t)i * key_size, values + (size_t)i * value_size);
	}
	free(keys);
	free(values);
	return err;
}

int map_read_some(int fd, uint32_t key_size, uint32_t value_size, uint32_t some,
		  struct map_walk *walk, map_read_fn fn, void *ctx)
{
	uint32_t batch = some, i;
	char *keys = malloc((size_t)some * key_size);
	char *values = malloc((size_t)some * value_size);
	bool end = false;
	int err = -ENOMEM;

	if (!keys || !values)
		goto cleanup;
	err = bpf_map_lookup_batch(fd, walk->begun ? walk->position : NULL, walk->position, keys,
				   values, &batch, NULL);
	end = err == -ENOENT;
	/* -ENOSPC: one bucket is fuller than all that was asked for; begin anew. */
	walk->begun = !err;
	if (err == -ENOENT || err == -ENOSPC)
		err = 0;
	for (i = 0; !err && i < batch; i++)
		err = fn(ctx, keys + (size_t)i * key_size, values + (size_t)i * value_size);
cleanup:
	free(keys);
	free(values);
	return err ? err : end;
}
