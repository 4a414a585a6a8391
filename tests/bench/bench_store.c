/* SPDX-License-Identifier: BSD-2-Clause */
/* A recording in a folder, made of intervals with 50 rows whose numbers are all new: what an
 * interval costs to write, how small it gets, how fast verify reads, and how long it takes to open
 * a folder of 72 hours. usage: bench_store */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "record/json_write.h"
#include "store/folder.h"
#include "store/line.h"
#include "store/store.h"
#include "store/thin.h"
#include "store/verify.h"
#include "store/write.h"
#include "util/clock.h"

#define ROWS      50
#define INTERVALS 4000
#define OPENS     21
/* 72 h at 1 s, 14.7 KiB an interval, 8 MiB a segment. */
#define SEGMENTS_72H 465

static char *make_line(uint64_t seq, unsigned *seed, size_t *length)
{
	struct record_task tasks[ROWS] = {0};
	struct record_interval interval = {.dur_ns = 1000000000 + (uint64_t)rand_r(seed) % 100000};
	const struct record record = {.type = RECORD_INTERVAL,
				      .seq = seq,
				      .t_boot_ns = seq * 1000000000,
				      .interval = &interval};

	for (int i = 0; i < ROWS; i++) {
		struct record_task *task = &tasks[i];
		uint64_t cpu_ns = (uint64_t)rand_r(seed) % 20000000;
		uint64_t runnable_ns = (uint64_t)rand_r(seed) % 2000000;

		task->tid = 4000 + i;
		task->pid = 4000;
		task->uid = 10123;
		task->start_boot_ns = 5000000000ull + (uint64_t)i * 1234567;
		snprintf(task->thread, sizeof(task->thread), "worker-%d", i);
		task->process = task->package = "com.example.application";
		task->cpu_ns = cpu_ns;
		task->runnable_ns = SOME_U64(runnable_ns);
		task->sleeping_ns = SOME_U64(interval.dur_ns - cpu_ns - runnable_ns);
		task->uninterruptible_ns = task->stopped_ns = SOME_U64(0);
		task->switches_voluntary = SOME_U64((uint64_t)rand_r(seed) % 60);
		task->switches_involuntary = SOME_U64((uint64_t)rand_r(seed) % 4);
		interval.cpu.busy_ns += cpu_ns;
	}
	interval.cpu.present = true;
	interval.cpu.tasks = tasks;
	interval.cpu.task_count = ROWS;
	return record_to_line(&record, length);
}

static char *make_header(size_t *length)
{
	struct record_header header = {.kernel = "Linux", .arch = "arm64"};
	const struct record record = {.type = RECORD_HEADER, .header = &header};

	strcpy(header.session, "11111111-2222-3333-4444-555555555555");
	strcpy(header.boot_id, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
	return record_to_line(&record, length);
}

static double seconds(uint64_t since_ns)
{
	return (double)(clock_now_ns(CLOCK_MONOTONIC) - since_ns) / NSEC_PER_SEC;
}

static void put(struct store_writer *writer, char *line, size_t length)
{
	if (!line || store_writer_put(writer, line, length)) {
		fprintf(stderr, "bench_store: cannot write\n");
		exit(1);
	}
	free(line);
}

/* Until each closed segment is compressed; one is open. On a busy machine that takes its time, and
 * plain segments among them would be told as the size of compressed ones. */
static void wait_for_packing(int dir_fd)
{
	struct store_list list;
	uint64_t plain = 2, begin_ns = clock_now_ns(CLOCK_MONOTONIC);

	while (plain > 1) {
		if (seconds(begin_ns) > 300) {
			fprintf(stderr,
				"bench_store: %llu segments are not compressed after 300 s\n",
				(unsigned long long)plain - 1);
			exit(1);
		}
		usleep(100000);
		if (store_list_read(&list, dir_fd))
			exit(1);
		plain = 0;
		for (size_t i = 0; i < list.count; i++)
			plain += list.items[i].plain;
		store_list_free(&list);
	}
}

static void row_us(const char *name, uint64_t sum_ns, uint64_t count, size_t length)
{
	char value[32], spread[48];

	snprintf(value, sizeof(value), "%.1f us", (double)sum_ns / (double)count / 1e3);
	snprintf(spread, sizeof(spread), "CPU, mean of %llu, %zu B", (unsigned long long)count,
		 length);
	bench_row(name, value, spread, "<= 200 us in all");
}

static void write_folder(const char *path, int dir_fd, uint64_t intervals)
{
	static struct store_notices notices;
	const struct store_options options = {0};
	char why[128];
	struct store_writer *writer = store_writer_open(path, &options, &notices, why, sizeof(why));
	uint64_t make_ns = 0, put_ns = 0;
	unsigned seed = 1;
	char *header;
	size_t length;

	if (!writer) {
		fprintf(stderr, "bench_store: %s: %s %s\n", path, why, strerror(errno));
		exit(1);
	}
	header = make_header(&length);
	put(writer, header, length);
	for (uint64_t seq = 1; seq <= intervals; seq++) {
		uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);
		char *line = make_line(seq, &seed, &length);
		uint64_t made_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

		put(writer, line, length);
		make_ns += made_ns - begin_ns;
		put_ns += clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - made_ns;
	}
	row_us("an interval of 50 rows as text", make_ns, intervals, length);
	row_us("  in the writer (write, CRC, limits)", put_ns, intervals, length);
	wait_for_packing(dir_fd);
	store_writer_end(writer);
}

static void read_folder(int dir_fd, const char *what)
{
	struct verifier *verifier = verifier_new();
	uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), file_bytes = 0, bytes = 0;
	uint64_t closed = 0, content;
	struct store_list list;
	char value[32], spread[48];
	double took_s, per_interval;
	bool packed;

	if (!verifier || store_list_read(&list, dir_fd))
		exit(1);
	for (size_t i = 0; i < list.count; i++) {
		FILE *in = segment_open(dir_fd, list.items[i].number, &packed);

		verifier_begin(verifier, list.items[i].number);
		content = bytes;
		if (!in || verifier_stream(verifier, in, &bytes, NULL))
			exit(1);
		fclose(in);
		/* The one that was open is not compressed. */
		if (list.count > 1 && i + 1 == list.count)
			continue;
		file_bytes += list.items[i].file_bytes;
		closed += bytes - content;
	}
	took_s = seconds(begin_ns);
	per_interval = (double)file_bytes / (double)closed * (double)bytes / INTERVALS;
	verifier_end(verifier, true, 0);
	snprintf(value, sizeof(value), "%.0f MB/s", (double)bytes / took_s / 1e6);
	snprintf(spread, sizeof(spread), "of records, %.1f MB", (double)bytes / 1e6);
	bench_row(what, value, spread, ">= 300 MB/s");
	snprintf(value, sizeof(value), "%.0f B", per_interval);
	snprintf(spread, sizeof(spread), "72 h at 1 s: %.0f MiB, the bound",
		 per_interval * 259200 / (1 << 20));
	bench_row("  an interval on disk", value, spread, "bench_size has an app's");
	if (verifier_counts(verifier)->unexplained)
		exit(1);
	verifier_free(verifier);
	store_list_free(&list);
}

static int count_line(void *ctx, const char *line, size_t length)
{
	*(uint64_t *)ctx += length;
	return 0;
}

/* What --keep costs: intervals of 1 s, ten of which become one, without the writing. */
static void merge_folder(int dir_fd)
{
	uint64_t begin_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID), left = 0, intervals = 0, took_ns;
	struct store_list list;
	char value[32], spread[64];
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	if (store_list_read(&list, dir_fd))
		exit(1);
	for (size_t i = 0; i < list.count; i++) {
		struct thinner *thinner = thinner_new(10 * NSEC_PER_SEC, count_line, &left);
		bool packed;
		FILE *in = segment_open(dir_fd, list.items[i].number, &packed);

		if (!in || !thinner)
			exit(1);
		while ((length = line_read(in, &line, &room)) > 0) {
			if (thinner_line(thinner, line, (size_t)length))
				exit(1);
			intervals++;
		}
		if (thinner_end(thinner))
			exit(1);
		intervals--; /* the header */
		thinner_free(thinner);
		fclose(in);
	}
	took_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	snprintf(value, sizeof(value), "%.0f us", (double)took_ns / (double)intervals / 1e3);
	snprintf(spread, sizeof(spread), "CPU an interval; 1 s to 10 s: %.1f MB left",
		 (double)left / 1e6);
	bench_row("merging old intervals (--keep)", value, spread, "");
	free(line);
	store_list_free(&list);
}

/* As many segments as 72 h have; how long they are does not matter to who opens the folder. */
static void open_72h(int dir_fd)
{
	char name[SEGMENT_NAME], line[INDEX_MAX_LINE];
	int index = openat(dir_fd, INDEX_NAME, O_WRONLY | O_APPEND | O_CREAT, 0600);
	double times[OPENS];
	char value[32], spread[48];
	struct store_list list;

	for (uint64_t i = 1000; i < 1000 + SEGMENTS_72H; i++) {
		const struct segment_facts facts = {.number = i, .bytes = 0, .lines = 1};
		int fd = openat(dir_fd, segment_name(name, i, false), O_WRONLY | O_CREAT, 0600);
		size_t length = index_format(line, &facts);

		if (fd < 0 || write(index, line, length) != (ssize_t)length)
			exit(1);
		close(fd);
	}
	close(index);
	for (int turn = 0; turn < OPENS; turn++) {
		uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC), took_ns;

		if (store_list_read(&list, dir_fd))
			exit(1);
		took_ns = clock_now_ns(CLOCK_MONOTONIC) - begin_ns;
		times[turn] = (double)took_ns / 1e6;
		store_list_free(&list);
	}
	snprintf(value, sizeof(value), "%.2f ms", bench_quantile(times, OPENS, 0.5));
	snprintf(spread, sizeof(spread), "max %.2f, %d segments", times[OPENS - 1], SEGMENTS_72H);
	bench_row("opening a folder of 72 h", value, spread, "<= 100 ms");
}

int main(void)
{
	char path[] = "/tmp/jankscope-bench-XXXXXX", command[64];
	int dir_fd;

	if (!mkdtemp(path))
		return 1;
	puts("store: a recording in a folder, 50 rows with new numbers an interval");
	dir_fd = open(path, O_RDONLY | O_DIRECTORY);
	write_folder(path, dir_fd, INTERVALS);
	read_folder(dir_fd, "verify of compressed segments");
	merge_folder(dir_fd);
	snprintf(command, sizeof(command), "cd %s && zstd -dq --rm *.zst", path);
	if (!system(command))
		read_folder(dir_fd, "verify of plain segments");
	open_72h(dir_fd);
	snprintf(command, sizeof(command), "rm -rf %s", path);
	return system(command);
}
