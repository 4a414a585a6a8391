/* SPDX-License-Identifier: BSD-2-Clause */
/* libFuzzer target of the parsers of /proc: every input is given to each of them, as its file. A
 * task names itself, its files and its mappings; a kernel of another version writes other lines. */
#include <stdlib.h>
#include <string.h>

#include "core/rights.h"
#include "core/self_memory.h"
#include "prober/maps_filter.h"
#include "proc/machine.h"
#include "proc/maps.h"
#include "proc/memory.h"
#include "proc/read.h"
#include "proc/stat.h"
#include "proc/status.h"
#include "target/packages.h"

#define CPUS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stat(const char *text, size_t length)
{
	struct proc_stat stat;

	if (proc_parse_stat(text, length, &stat))
		return;
	if (!memchr(stat.comm, 0, sizeof(stat.comm)))
		abort();
	(void)proc_stat_is_over(&stat);
	(void)proc_stat_is_kernel_thread(&stat);
}

static void check_mapping(const char *line, const char *end)
{
	struct proc_mapping mapping;

	if (!proc_parse_mapping(line, end, &mapping) || !mapping.path_length)
		return;
	if (mapping.path < line || mapping.path + mapping.path_length > end)
		abort();
}

static int count_bytes(void *ctx, const char *text, size_t length)
{
	*(size_t *)ctx += length;
	return 0;
}

static void check_lines(const char *text, size_t length)
{
	struct proc_smaps_kinds kinds = {0};
	struct maps_filter filter;
	bool refused = false;
	size_t kept = 0;

	maps_filter_init(&filter, 16 << 10, count_bytes, &kept);
	while (length) {
		const char *newline = memchr(text, '\n', length);
		size_t line = newline ? (size_t)(newline - text) : length;
		/* in memory of its own, so that a read beyond it is found */
		char *copy = malloc(line ? line : 1);

		if (!copy)
			abort();
		memcpy(copy, text, line);
		check_mapping(copy, copy + line);
		proc_take_smaps_line(&kinds, copy, copy + line);
		refused = refused || maps_filter_line(&filter, copy, line);
		free(copy);
		line += newline != NULL;
		text += line;
		length -= line;
	}
	maps_filter_end(&filter);
}

/* The parsers of packages take their text apart in place. */
static void check_packages(const char *text, size_t length)
{
	char *copy = malloc(length + 1);

	if (!copy)
		abort();
	for (int kind = 0; kind < 2; kind++) {
		struct packages packages = {0};

		memcpy(copy, text, length + 1);
		if (kind)
			packages_parse_cmd(&packages, copy);
		else
			packages_parse_list(&packages, copy);
		packages_sort(&packages);
		packages_of_uid(&packages, PACKAGES_FIRST_APP);
		packages_of_name(&packages, "com.example.shop");
		packages_free(&packages);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct proc_machine_cpu all, cpus[CPUS];
	struct proc_schedstat schedstat;
	struct proc_pressure pressure;
	struct proc_meminfo meminfo;
	struct proc_buffer buffer;
	struct proc_memory memory;
	struct proc_status status;
	struct proc_smaps smaps;
	size_t count;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	check_stat(text, size);
	proc_parse_status(text, &status);
	proc_parse_schedstat(text, &schedstat);
	proc_parse_memory(text, size, &memory);
	proc_parse_smaps(text, size, &smaps);
	proc_parse_meminfo(text, size, &meminfo);
	proc_parse_pressure(text, size, &pressure);
	proc_parse_buffer(text, size, &buffer);
	if (!proc_parse_machine(text, size, &all, cpus, CPUS, &count) && count > CPUS)
		abort();
	if (proc_memory_kind(text, size) >= MEMORY_KINDS)
		abort();
	proc_number(text);
	self_memory_parse(text);
	self_memory_parse_kernel(text);
	rights_proc_gid(text);
	check_lines(text, size);
	check_packages(text, size);
	free(text);
	return 0;
}
