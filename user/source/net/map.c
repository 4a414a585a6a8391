/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/net/map.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

/* How many elements fill the buffers; -ENOENT marks the end of the map, not an error. */
static int read_batches(int fd, uint32_t key_size, uint32_t value_size, uint32_t max_entries,
			char *keys, char *values, uint32_t *count)
{
	uint64_t position[8]; /* opaque; a hash uses 4 bytes of it */
	uint32_t got = 0;
	int err = 0;

	while (got < max_entries && !err) {
		uint32_t batch = max_entries - got;

		err = bpf_map_lookup_batch(fd, got ? position : NULL, position,
					   keys + (size_t)got * key_size,
					   values + (size_t)got * value_size, &batch, NULL);
		if (err && err != -ENOENT)
			break;
		got += batch;
	}
	*count = got;
	/* -ENOSPC: the next bucket does not fit any more, so the buffers are as good as full. */
	return err == -ENOENT || (err == -ENOSPC && got) ? 0 : err;
}

int net_map_read(int fd, uint32_t key_size, uint32_t value_size, uint32_t max_entries,
		 net_map_fn fn, void *ctx)
{
	char *keys = malloc((size_t)max_entries * key_size);
	char *values = malloc((size_t)max_entries * value_size);
	uint32_t count = 0, i;
	int err = -ENOMEM;

	if (!keys || !values)
		goto cleanup;
	err = read_batches(fd, key_size, value_size, max_entries, keys, values, &count);
	for (i = 0; !err && i < count; i++)
		err = fn(ctx, keys + (size_t)i * key_size, values + (size_t)i * value_size);
cleanup:
	free(keys);
	free(values);
	return err;
}

int net_map_read_some(int fd, uint32_t key_size, uint32_t value_size, uint32_t some,
		      struct net_map_walk *walk, net_map_fn fn, void *ctx)
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
