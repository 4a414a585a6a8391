/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines that a second thread reads ahead, against those of the file, and against a pipe, of which
 * nothing is read ahead. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"
#include "record/json_read.h"
#include "record/json_write.h"
#include "source/read_ahead.h"

#define EVENTS 3000
#define LARGE  (3u << 20)

/* Events with a text of any length, some damaged; the last one has no newline. */
static FILE *make_file(uint64_t *seed, size_t most)
{
	FILE *file = tmpfile();

	cr_assert(file);
	for (unsigned i = 0; i < EVENTS; i++) {
		bool large = most == LARGE && i % 500 == 7;
		size_t length = large ? LARGE : (size_t)(uniform(seed) * (double)(most % LARGE));
		size_t size;
		char *text = malloc(length + 1), *line;
		struct event_key key = {.name = "text", .text = text};
		struct record_event event = {.event = "x", .keys = {key}, .key_count = 1};
		struct record record = {RECORD_EVENT, i, 5 * i + 1, .event = &event};

		memset(text, 'a' + (int)(i % 26), length);
		text[length] = 0;
		line = record_to_line(&record, &size);
		cr_assert(line);
		if (i % 97 == 5)
			line[size / 2] ^= 1;
		cr_assert_eq(fwrite(line, 1, i + 1 == EVENTS ? size - 1 : size, file),
			     i + 1 == EVENTS ? size - 1 : size);
		free(line);
		free(text);
	}
	rewind(file);
	return file;
}

static void check(FILE *in, unsigned until)
{
	struct read_ahead *ahead = read_ahead_new(in);
	struct read_line *line;
	int more = 1;

	cr_assert(ahead);
	for (unsigned i = 0; i < until && more > 0; i++) {
		more = read_ahead_next(ahead, &line);
		cr_assert_eq(more, i < EVENTS ? 1 : 0, "%u: %d", i, more);
		if (more <= 0)
			break;
		cr_assert_eq(line->torn, i + 1 == EVENTS, "%u", i);
		if (line->torn)
			continue;
		cr_assert_eq(line->err, i % 97 == 5 ? -EBADMSG : 0, "%u: %s", i, line->why);
		if (line->err)
			continue;
		cr_assert_eq(line->parsed->record.seq, i);
		cr_assert_eq(line->parsed->record.t_boot_ns, 5 * i + 1);
		/* One that is taken over outlives its line. */
		if (i % 11 == 0) {
			parsed_record_free(line->parsed);
			line->parsed = NULL;
		}
	}
	read_ahead_free(ahead);
	fclose(in);
}

Test(read_ahead, each_line_once_and_in_order)
{
	uint64_t seed = 5;

	check(make_file(&seed, 200), UINT32_MAX);
	check(make_file(&seed, 20000), UINT32_MAX);
	/* Some are longer than what is read ahead. */
	check(make_file(&seed, LARGE), UINT32_MAX);
}

/* A caller that has enough of it ends the thread, wherever that is. */
Test(read_ahead, ends_at_any_line)
{
	uint64_t seed = 6;

	for (unsigned until = 0; until < 300; until = until * 3 / 2 + 1)
		check(make_file(&seed, 300), until);
}

Test(read_ahead, a_pipe)
{
	uint64_t seed = 7;
	FILE *file = make_file(&seed, 50);
	char bytes[4096];
	size_t size;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	if (!fork()) {
		close(fds[0]);
		while ((size = fread(bytes, 1, sizeof(bytes), file)))
			if (write(fds[1], bytes, size) < 0)
				break;
		_exit(0);
	}
	close(fds[1]);
	fclose(file);
	check(fdopen(fds[0], "r"), UINT32_MAX);
}

Test(read_ahead, an_empty_file_and_one_that_cannot_be_read)
{
	FILE *file = tmpfile();
	struct read_ahead *ahead = read_ahead_new(file);
	struct read_line *line;

	cr_assert_eq(read_ahead_next(ahead, &line), 0);
	cr_assert_eq(read_ahead_next(ahead, &line), 0);
	read_ahead_free(ahead);
	fclose(file);
	file = fopen("/", "r");
	ahead = read_ahead_new(file);
	cr_assert_eq(read_ahead_next(ahead, &line), -EISDIR);
	read_ahead_free(ahead);
	fclose(file);
	file = fopen("/proc/self/mem", "r");
	ahead = read_ahead_new(file);
	cr_assert_eq(read_ahead_next(ahead, &line), -EIO);
	cr_assert_eq(read_ahead_next(ahead, &line), -EIO);
	read_ahead_free(ahead);
	fclose(file);
}
