/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc_reference.h"
#include "golden_records.h"
#include "record/json_buffer.h"
#include "record/json_write.h"
#include "sink/jsonl.h"
#include "util/clock.h"

static char *temporary(void)
{
	static char path[64];
	int fd;

	strcpy(path, "/tmp/jankscope-test-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
	unlink(path);
	return path;
}

static char *read_file(const char *path, size_t *size)
{
	char *text = malloc(1 << 20);
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f);
	*size = fread(text, 1, (1 << 20) - 1, f);
	text[*size] = 0;
	fclose(f);
	return text;
}

static struct sink *open_file(const char *path, bool overwrite)
{
	char why[128];

	return jsonl_sink_open(path, overwrite, why, sizeof(why));
}

static int finish(struct sink *sink)
{
	return sink->ops->finish(sink, clock_now_ns(CLOCK_MONOTONIC) + 20 * NSEC_PER_SEC);
}

/* All records, written when it returns. */
static int write_run(struct sink *sink, const struct golden *run)
{
	int err = 0;

	for (size_t i = 0; i < run->count && !err; i++)
		err = sink->ops->write(sink, &run->records[i]);
	return err ? err : finish(sink);
}

/* Number of lines; each is a whole JSON object whose last key is a right crc, seq without a gap. */
static size_t check_lines(const char *text)
{
	size_t n = 0;

	for (const char *end; (end = strchr(text, '\n')); text = end + 1, n++) {
		static const char key[] = ",\"crc\":\"";
		const char *crc = end - 10 - (sizeof(key) - 1);
		json_error_t error;
		json_t *line =
			json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, &error);
		char want[9];

		cr_assert_not_null(line, "line %zu: %s", n, error.text);
		cr_expect_eq(json_integer_value(json_object_get(line, "seq")), (json_int_t)n);
		cr_assert_geq(crc, text);
		cr_expect_eq(memcmp(crc, key, sizeof(key) - 1), 0);
		snprintf(want, sizeof(want), "%08x", reference_crc32c(text, (size_t)(crc - text)));
		cr_expect_str_eq(json_string_value(json_object_get(line, "crc")), want);
		json_decref(line);
	}
	cr_expect_str_empty(text, "half a line");
	return n;
}

Test(jsonl, golden)
{
	const struct golden *runs;
	size_t count, size;

	runs = golden_runs(&count);
	for (size_t i = 0; i < count; i++) {
		char *path = temporary(), file[64], *text;
		struct sink *sink = open_file(path, false);

		cr_assert_not_null(sink);
		cr_expect_eq(write_run(sink, &runs[i]), 0);
		sink->ops->close(sink);
		text = read_file(path, &size);
		snprintf(file, sizeof(file), "%s.jsonl", runs[i].name);
		cr_expect(golden_equal(file, text, size), "%s", file);
		cr_expect_eq(check_lines(text), runs[i].count);
		free(text);
		unlink(path);
	}
}

Test(jsonl, path_that_cannot_be_written)
{
	char why[128];

	errno = 0;
	cr_expect_null(jsonl_sink_open("/tmp", false, why, sizeof(why)));
	cr_expect_eq(errno, EISDIR);
	cr_expect_str_eq(why, "is a folder: name a file in it");
	cr_expect_null(jsonl_sink_open("/nonexistent/x.jsonl", false, why, sizeof(why)));
	cr_expect_eq(errno, ENOENT);
	cr_expect_str_empty(why);
}

Test(jsonl, file_is_emptied_by_the_first_record_only)
{
	size_t count, size;
	const struct golden *run = &golden_runs(&count)[1];
	char *path = temporary(), *text;
	struct sink *sink;
	FILE *f = fopen(path, "w");

	for (int i = 0; i < 2000; i++)
		fputs("an older recording\n", f);
	fclose(f);
	cr_expect_null(open_file(path, false));
	cr_expect_eq(errno, EEXIST);
	sink = open_file(path, true);
	cr_assert_not_null(sink);
	cr_expect_eq(finish(sink), 0);
	sink->ops->close(sink);
	text = read_file(path, &size);
	cr_expect_eq(size, 2000 * 19, "no record, nothing is lost");
	free(text);
	sink = open_file(path, true);
	cr_expect_eq(write_run(sink, run), 0);
	sink->ops->close(sink);
	text = read_file(path, &size);
	cr_expect_eq(check_lines(text), run->count);
	free(text);
	unlink(path);
	sink = open_file(path, false);
	cr_assert_not_null(sink);
	cr_expect_eq(access(path, F_OK), 0, "known to be writable before the run");
	cr_expect_eq(finish(sink), 0);
	sink->ops->close(sink);
	cr_expect_neq(access(path, F_OK), 0, "no empty file is left");
}

/* A disk that fills up in the middle of a line, by a limit on the size of files. */
Test(jsonl, no_half_line_on_a_full_disk, .init = cr_redirect_stderr)
{
	size_t count, size;
	const struct golden *run = &golden_runs(&count)[0];
	char *path = temporary(), *text;
	struct rlimit limit = {4000, RLIM_INFINITY};
	struct sink *sink;
	size_t lines;
	int err;

	/* Of the process that writes, which inherits it. */
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	sink = open_file(path, false);
	err = write_run(sink, run);
	sink->ops->close(sink);
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(err, -EFBIG);
	text = read_file(path, &size);
	lines = check_lines(text);
	cr_expect(lines > 0 && lines < run->count, "%zu lines", lines);
	free(text);
	unlink(path);
}

Test(jsonl, reader_that_went_away, .init = cr_redirect_stderr)
{
	size_t count;
	const struct golden *run = &golden_runs(&count)[0];
	struct sink *sink;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(fds), 0);
	close(fds[0]);
	sink = jsonl_sink_fd(fds[1]);
	cr_expect_eq(sink->ops->write(sink, &run->records[0]), 0, "the writer's to find out");
	cr_expect_eq(finish(sink), -EPIPE);
	sink->ops->close(sink);
	cr_expect_eq(close(fds[1]), 0, "the descriptor stays the caller's");
	fflush(stderr);
	cr_expect_stderr_eq_str("");
}

/* The record as its line says it, without the checksum. */
static json_t *record_to_json(const struct record *record)
{
	size_t length;
	char *line = record_to_line(record, &length);
	json_t *object = json_loadb(line, length, 0, NULL);

	cr_assert_not_null(object, "%s", line);
	cr_assert_eq(json_object_del(object, "crc"), 0);
	free(line);
	return object;
}

/* In room that holds it and its NUL the line is made there, else elsewhere; it is the same line. */
Test(json_record, in_given_room)
{
	size_t count, length, again;
	const struct record *record = &golden_runs(&count)[0].records[1];
	char *line = record_to_line(record, &length), *room = malloc(length + 1), *other;

	for (size_t size = 1; size <= length + 1; size += size < length ? length / 3 : 1) {
		memset(room, '#', length + 1);
		other = record_to_line_in(room, size, record, &again);
		cr_assert_not_null(other);
		cr_expect_eq(other == room, size > length, "%zu of %zu", size, length);
		cr_expect_eq(again, length);
		cr_expect_arr_eq(other, line, length);
		for (size_t i = size; i < length + 1; i++)
			cr_assert_eq(room[i], '#', "written behind its end");
		if (other != room)
			free(other);
	}
	free(room);
	free(line);
}

/* The keys of an object in order, as one text. */
static const char *keys(const json_t *object)
{
	static char text[1024];
	const char *key;
	json_t *value;

	text[0] = 0;
	json_object_foreach ((json_t *)object, key, value) {
		strcat(text, key);
		strcat(text, " ");
		cr_expect(!json_is_null(value), "%s is null", key);
	}
	return text;
}

/* What is absent has no key; what is 0 has one. */
Test(json_record, absent_is_no_key)
{
	size_t count;
	const struct record *bare = golden_runs(&count)[1].records;
	json_t *header = record_to_json(&bare[0]), *nothing = record_to_json(&bare[1]);
	json_t *some = record_to_json(&bare[2]), *block = record_to_json(&bare[3]);
	json_t *footer = record_to_json(&bare[5]), *cpu = json_object_get(some, "cpu");
	json_t *stack = record_to_json(&bare[4]);

	cr_expect_str_eq(keys(header),
			 "type seq t_boot_ns schema version session boot_id kernel arch "
			 "clock interval_ns block_ns targets sources ");
	cr_expect_str_eq(keys(nothing),
			 "type seq t_boot_ns dur_ns lost late repaired missing self ");
	cr_expect_str_eq(keys(json_object_get(nothing, "self")), "cpu_ns stops stop_max_ns ");
	cr_expect_str_eq(keys(cpu),
			 "online_cpus busy_ns other_ns overflow_ns tasks processes uids ");
	cr_expect_str_eq(keys(json_array_get(json_object_get(cpu, "tasks"), 0)),
			 "tid pid uid start_boot_ns thread cpu_ns ");
	cr_expect_eq(json_integer_value(json_object_get(cpu, "other_ns")), 0);
	cr_expect_str_eq(keys(json_object_get(some, "net")), "uids loopback unattributed ");
	cr_expect_str_eq(keys(block),
			 "type seq t_boot_ns pid tid start_boot_ns wall_ns state class ledger "
			 "reasons preemptors stacks lost missing ");
	cr_expect_str_eq(keys(footer), "type seq t_boot_ns summary lost late repaired missing ");
	cr_expect_str_eq(keys(stack), "type seq t_boot_ns of weight_ns capture complete frames ");
	json_decref(stack);
	json_decref(header);
	json_decref(nothing);
	json_decref(some);
	json_decref(block);
	json_decref(footer);
}

Test(json_record, values_in_their_places)
{
	size_t count;
	const struct record *full = golden_runs(&count)[0].records;
	json_t *interval = record_to_json(&full[3]), *footer = record_to_json(&full[14]);
	json_t *cpu = json_object_get(interval, "cpu"), *net = json_object_get(interval, "net");
	json_t *summary = json_object_get(footer, "summary"), *part;
	json_int_t busy = json_integer_value(json_object_get(cpu, "busy_ns")), sum;
	json_t *row;
	size_t i;

	sum = json_integer_value(json_object_get(cpu, "other_ns")) +
	      json_integer_value(json_object_get(cpu, "overflow_ns"));
	json_array_foreach (json_object_get(cpu, "tasks"), i, row)
		sum += json_integer_value(json_object_get(row, "cpu_ns"));
	cr_expect_eq(sum, busy);
	cr_expect_eq(json_integer_value(json_object_get(cpu, "unaccounted_ns")), -246913);
	part = json_object_get(net, "unattributed");
	cr_expect_eq(json_integer_value(json_object_get(part, "tx_packets")), 4);
	part = json_object_get(part, "no_socket");
	cr_expect_eq(json_integer_value(json_object_get(part, "rx_bytes")), 200);
	cr_expect_eq(json_integer_value(
			     json_object_get(json_object_get(interval, "lost"), "net_lost_bytes")),
		     1ll << 40);
	/* Key paths are nested at their dots; whole numbers have no fraction. */
	part = json_object_get(summary, "cpu");
	cr_expect_eq(json_integer_value(json_object_get(part, "busy_ns")), 4838399875000000);
	cr_expect_eq(json_real_value(json_object_get(
			     json_object_get(json_object_get(part, "deep"), "er"), "path")),
		     0.5);
	part = json_object_get(json_object_get(summary, "blocks"), "wall_ns");
	cr_expect_eq(json_integer_value(json_object_get(part, "p99")), 2000000000);
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(summary, "blocks"), "count")),
		2);
	json_decref(interval);
	json_decref(footer);
}

Test(json_record, texts_of_all_kinds)
{
	struct json_buffer b = {0};

	json_put_mark(&b, '{');
	json_put_key(&b, "plain");
	json_put_text(&b, "a b~", 3);
	json_put_key(&b, "two\"quotes");
	json_put_text(&b, "a\nb\\\x01\x7f", SIZE_MAX);
	json_put_key(&b, "\xc3\xa9");
	json_put_text(&b, "\xff\xc3\xa9", SIZE_MAX);
	json_put_key(&b, "");
	json_put_u64(&b, UINT64_MAX);
	json_put_key(&b, "list");
	json_put_mark(&b, '[');
	json_put_u64(&b, 0);
	json_put_text(&b, "", SIZE_MAX);
	json_put_mark(&b, '{');
	json_put_mark(&b, '}');
	json_put_mark(&b, ']');
	json_put_mark(&b, '}');
	cr_assert_not(b.failed);
	cr_expect_str_eq(b.text, "{\"plain\":\"a b\",\"two\\\"quotes\":\"a\\nb\\\\\\u0001\x7f\","
				 "\"\xc3\xa9\":\"\xef\xbf\xbd\xc3\xa9\",\"\":18446744073709551615,"
				 "\"list\":[0,\"\",{}]}");
	free(b.text);
}
