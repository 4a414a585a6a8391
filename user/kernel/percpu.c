/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/percpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* values: of all CPUs, one element behind the other. f008d732ab18 (5.13) reads arrays of that kind
 * at once; before it they are read one by one. */
static int read_all(int map_fd, uint32_t entries, size_t element, char *values)
{
	uint32_t count = entries, position = 0, *keys = calloc(entries, sizeof(*keys));
	int err = -ENOMEM;

	if (!keys)
		return err;
	err = bpf_map_lookup_batch(map_fd, NULL, &position, keys, values, &count, NULL);
	free(keys);
	if ((!err || err == -ENOENT) && count == entries)
		return 0;
	err = 0;
	for (uint32_t key = 0; key < entries && !err; key++)
		err = bpf_map_lookup_elem(map_fd, &key, values + key * element);
	return err;
}

int percpu_sum(int map_fd, uint32_t entries, size_t words, uint64_t *sums)
{
	int cpus = libbpf_num_possible_cpus(), err;
	uint64_t *values;

	if (cpus < 0)
		return cpus;
	values = malloc(entries * words * sizeof(*values) * (size_t)cpus);
	if (!values)
		return -ENOMEM;
	err = read_all(map_fd, entries, words * sizeof(*values) * (size_t)cpus, (char *)values);
	memset(sums, 0, entries * words * sizeof(*sums));
	for (size_t at = 0; at < entries && !err; at++)
		for (size_t cpu = 0; cpu < (size_t)cpus; cpu++)
			for (size_t word = 0; word < words; word++)
				sums[at * words + word] +=
					values[(at * (size_t)cpus + cpu) * words + word];
	free(values);
	return err;
}
