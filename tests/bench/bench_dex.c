/* SPDX-License-Identifier: BSD-2-Clause */
/* What byte code costs: the index of a DEX file of 60,000 methods, a method by its address with the
 * name and the line, from a file with pread.  usage: bench_dex */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "stack/code/byte_file.h"
#include "stack/code/dex_file.h"
#include "unit/made_dex.h"

#define METHODS 60000
#define ROUNDS  101
#define LOOKS   10001

static void row_us(const char *name, double *ns, size_t n, const char *target)
{
	char value[32], spread[48];
	double p90 = bench_quantile(ns, n, 0.9), p99 = bench_quantile(ns, n, 0.99);

	snprintf(value, sizeof(value), "%.1f us", bench_quantile(ns, n, 0.5) / 1000);
	snprintf(spread, sizeof(spread), "p90 %.1f p99 %.1f n %zu", p90 / 1000, p99 / 1000, n);
	bench_row(name, value, spread, target);
}

int main(void)
{
	static double build[ROUNDS], find[LOOKS], name[LOOKS], line[LOOKS];
	char text[DEX_NAME_BYTES], value[32], spread[48];
	int fd = memfd_create("classes.dex", MFD_CLOEXEC);
	struct dex_index index = {0};
	struct byte_source source;
	struct dex_place place;
	struct dex_file dex;
	uint32_t number;
	uint8_t *bytes;
	size_t size;

	bytes = made_big_dex(METHODS, 1, &size);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		return 1;
	free(bytes);
	source = byte_file_source(&fd, size);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t from = bench_now_ns(CLOCK_MONOTONIC);

		dex_index_free(&index);
		if (dex_file_open(&dex, &source, 0) || dex_index_build(&index, &dex))
			return 1;
		build[i] = bench_now_ns(CLOCK_MONOTONIC) - from;
	}
	for (size_t i = 0; i < LOOKS; i++) {
		size_t method = i * 7919 % METHODS;
		uint64_t at[4];

		if (dex_index_place(&index, &dex, method, &place))
			return 1;
		at[0] = bench_now_ns(CLOCK_MONOTONIC);
		if (dex_index_find(&index, &dex, place.code + 6, &place) || place.method != method)
			return 1;
		at[1] = bench_now_ns(CLOCK_MONOTONIC);
		if (dex_method_name(&dex, place.method, text))
			return 1;
		at[2] = bench_now_ns(CLOCK_MONOTONIC);
		if (dex_line(&dex, &place, &number) || number != 0x4000 + method)
			return 1;
		at[3] = bench_now_ns(CLOCK_MONOTONIC);
		find[i] = at[1] - at[0];
		name[i] = at[2] - at[1];
		line[i] = at[3] - at[2];
	}
	snprintf(value, sizeof(value), "%.1f bytes", (double)dex_index_bytes(&index) / METHODS);
	snprintf(spread, sizeof(spread), "%zu methods in %zu bytes", index.count, size);
	row_us("DEX of 60000 methods: index", build, ROUNDS, "<= 10000 us");
	bench_row("DEX of 60000 methods: a method in the index", value, spread, "<= 16 bytes");
	row_us("DEX: a method by its byte code", find, LOOKS, "");
	row_us("DEX: its name", name, LOOKS, "");
	row_us("DEX: its line", line, LOOKS, "");
	dex_index_free(&index);
	close(fd);
	return 0;
}
