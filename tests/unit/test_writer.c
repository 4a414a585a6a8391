/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sink/output_file.h"
#include "sink/writer.h"
#include "util/clock.h"

#define QUEUE (64u << 10)

static uint64_t in_ms(uint64_t ms)
{
	return clock_now_ns(CLOCK_MONOTONIC) + ms * NSEC_PER_MSEC;
}

static struct writer *on_pipe(int ends[2], size_t queue_bytes)
{
	struct writer_options options = {.queue_bytes = queue_bytes};
	struct writer *writer;
	char why[64];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	options.fd = ends[1];
	writer = writer_start(&options, why, sizeof(why));
	cr_assert_not_null(writer);
	close(ends[1]);
	return writer;
}

/* Records of many lengths, around the end of the ring too, arrive whole and in order. */
Test(writer, what_is_queued_arrives_in_order)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	static char line[QUEUE], got[QUEUE];
	FILE *in = fdopen(ends[0], "r");
	unsigned seed = 1, sent = 0, taken = 0;

	while (taken < 3000) {
		/* Up to a few records behind, so that the ring is not always empty. */
		while (sent < 3000 && sent < taken + 1 + sent % 7) {
			size_t length = 20 + (size_t)rand_r(&seed) % (sent % 50 ? 3000 : 60000);

			snprintf(line, sizeof(line), "%u %zu ", sent, length);
			memset(line + strlen(line), 'x', length - strlen(line));
			line[length - 1] = '\n';
			if (writer_put(writer, line, length, false) == -EAGAIN)
				break;
			sent++;
		}
		cr_assert_not_null(fgets(got, sizeof(got), in));
		{
			unsigned number;
			size_t length;

			cr_assert_eq(sscanf(got, "%u %zu", &number, &length), 2);
			cr_assert_eq(number, taken);
			cr_assert_eq(strlen(got), length);
		}
		taken++;
	}
	writer_end(writer);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	cr_expect_eq(writer_unwritten(writer), 0);
	cr_expect_null(fgets(got, sizeof(got), in));
	fclose(in);
	writer_free(writer, false);
}

/* A reader that stops: no call waits, what has no room is refused whole, the rest comes later. */
Test(writer, a_reader_that_stops)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	char line[1000], *all;
	unsigned queued = 0, refused = 0;
	uint64_t begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	size_t size = 0;
	ssize_t n;

	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (int i = 0; i < 1000; i++) {
		int err = writer_put(writer, line, sizeof(line), false);

		cr_assert(err == 0 || err == -EAGAIN);
		queued += !err;
		refused += err != 0;
	}
	cr_expect_gt(refused, 0);
	cr_expect_leq(queued, (QUEUE + (64u << 10)) / 1000 + 100);
	cr_expect_eq(writer_put(writer, "last\n", 5, true), 0, "the last has room of its own");
	cr_expect_lt(clock_now_ns(CLOCK_MONOTONIC) - begin_ns, 5 * NSEC_PER_SEC);
	writer_end(writer);
	cr_expect_eq(writer_wait(writer, in_ms(100)), -ETIMEDOUT);
	cr_expect_gt(writer_unwritten(writer), 0);
	all = malloc(1 << 20);
	while ((n = read(ends[0], all + size, (1 << 20) - size)) > 0)
		size += (size_t)n;
	cr_expect_eq(size, queued * sizeof(line) + 5);
	cr_expect_eq(memcmp(all + size - 6, "\nlast\n", 6), 0);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	free(all);
	close(ends[0]);
	writer_free(writer, false);
}

/* A pipe or terminal is often non-blocking because somebody else who shares it wants it so: when it
 * is full the writer waits, as with any other. */
Test(writer, an_output_that_does_not_block)
{
	int ends[2];
	struct writer_options options = {.queue_bytes = 4 * QUEUE};
	struct writer *writer;
	char why[64], line[3000], part[4096];
	struct pollfd ended;
	size_t size = 0;
	ssize_t n;

	memset(line, 'z', sizeof(line));
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	options.fd = ends[1];
	writer = writer_start(&options, why, sizeof(why));
	cr_assert_not_null(writer);
	close(ends[1]);
	for (int i = 0; i < 60; i++)
		cr_expect_eq(writer_put(writer, line, sizeof(line), false), 0);
	ended = (struct pollfd){writer_fd(writer), POLLIN, 0};
	cr_expect_eq(poll(&ended, 1, 200), 0, "it waits");
	cr_expect_eq(writer_error(writer), 0);
	writer_end(writer);
	while ((n = read(ends[0], part, sizeof(part))) > 0)
		size += (size_t)n;
	cr_expect_eq(size, 60 * sizeof(line), "%zu", size);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	cr_expect_eq(writer_unwritten(writer), 0);
	close(ends[0]);
	writer_free(writer, false);
}

/* A record that is made in the queue arrives as one that is copied; who makes it sees no other. */
Test(writer, records_made_in_the_queue)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	static char got[2 * QUEUE];
	FILE *in = fdopen(ends[0], "r");
	unsigned made = 0;

	for (unsigned i = 0; i < 200; i++) {
		size_t size = 0, length = 100 + i * 331 % QUEUE;
		char *room = writer_room(writer, &size), *line = room ?: got;
		int err;

		made += room != NULL;
		cr_assert(!room || size >= QUEUE);
		if (room && i % 5 == 4) { /* given up: nothing of it is written */
			memset(room, '?', 1000);
			continue;
		}
		memset(line, 'a' + i % 26, length);
		line[length - 1] = '\n';
		/* The one before may be in the pipe, and not be done with. */
		while ((err = writer_put(writer, line, length, false)) == -EAGAIN && !room)
			usleep(100);
		cr_assert_eq(err, 0);
		cr_assert_eq(fread(got, 1, length, in), length);
		for (size_t k = 0; k + 1 < length; k++)
			cr_assert_eq(got[k], 'a' + i % 26);
	}
	cr_expect_gt(made, 20, "%u", made);
	writer_end(writer);
	cr_expect_eq(fread(got, 1, 1, in), 0, "nothing that was not put");
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	fclose(in);
	writer_free(writer, false);
}

/* While records wait there is no room to make one in. */
Test(writer, no_record_is_made_over_those_that_wait)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, 4 * QUEUE);
	size_t size;
	char *big = calloc(1, 2 * QUEUE); /* more than the pipe holds */

	cr_expect_eq(writer_put(writer, big, 2 * QUEUE, false), 0);
	cr_expect_null(writer_room(writer, &size));
	cr_expect_eq(writer_put(writer, big, QUEUE, false), 0);
	writer_free(writer, true);
	close(ends[0]);
	free(big);
}

/* One record may be longer than the queue when nothing else is in it; above that none fits. */
Test(writer, records_longer_than_the_queue)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	char *big = calloc(1, 5 * QUEUE);
	size_t size = 0;
	char part[4096];
	ssize_t n;

	cr_expect_eq(writer_put(writer, big, 3 * QUEUE, false), 0);
	cr_expect_eq(writer_put(writer, big, 5 * QUEUE, false), -EAGAIN);
	writer_end(writer);
	while ((n = read(ends[0], part, sizeof(part))) > 0)
		size += (size_t)n;
	cr_expect_eq(size, 3 * QUEUE);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	close(ends[0]);
	writer_free(writer, false);
	free(big);
}

Test(writer, one_that_is_killed_is_an_error)
{
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	struct pollfd news = {writer_fd(writer), POLLIN, 0};

	cr_expect_eq(writer_put(writer, "a\n", 2, false), 0);
	kill(writer_pid(writer), SIGKILL);
	cr_expect_eq(poll(&news, 1, 20000), 1, "the loop is told");
	cr_expect_eq(writer_error(writer), -EIO);
	cr_expect_eq(writer_put(writer, "b\n", 2, false), -EIO);
	close(ends[0]);
	writer_free(writer, false);
}

/* Records of one turn wake it once. */
Test(writer, is_not_woken_while_it_is_held)
{
	int ends[2], pending = -1;
	struct writer *writer = on_pipe(ends, QUEUE);
	struct pollfd news = {ends[0], POLLIN, 0};
	char got[64];

	/* It sleeps when the first record is through. */
	cr_expect_eq(writer_put(writer, "a\n", 2, false), 0);
	cr_assert_eq(read(ends[0], got, sizeof(got)), 2);
	usleep(50000);
	writer_hold(writer, true);
	cr_expect_eq(writer_put(writer, "b\n", 2, false), 0);
	cr_expect_eq(writer_put(writer, "c\n", 2, false), 0);
	cr_expect_eq(poll(&news, 1, 100), 0, "it was not woken");
	cr_expect_eq(ioctl(ends[0], FIONREAD, &pending), 0);
	cr_expect_eq(pending, 0);
	cr_expect_eq(writer_unwritten(writer), 2);
	writer_hold(writer, false);
	cr_expect_eq(poll(&news, 1, 20000), 1, "let go, it is");
	for (ssize_t n, size = 0; size < 4; size += n)
		cr_assert_gt(n = read(ends[0], got, sizeof(got)), 0);
	/* A lot of them is written at once, and what is held when the run ends, too. */
	writer_hold(writer, true);
	for (int i = 0; i < 30; i++)
		cr_expect_eq(writer_put(writer, (char[1000]){0}, 1000, false), 0);
	cr_expect_eq(poll(&news, 1, 20000), 1);
	writer_end(writer);
	for (ssize_t n, size = 0; size < 30000; size += n)
		cr_assert_gt(n = read(ends[0], (char[4096]){0}, 4096), 0);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	cr_expect_eq(writer_unwritten(writer), 0);
	close(ends[0]);
	writer_free(writer, false);
}

/* The signals of the terminal do not end it: after Ctrl-C there is a footer to write. */
Test(writer, survives_the_signals_of_the_user)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGALRM};
	int ends[2];
	struct writer *writer = on_pipe(ends, QUEUE);
	char got[8];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		kill(writer_pid(writer), numbers[i]);
	cr_expect_eq(writer_put(writer, "footer\n", 7, true), 0);
	writer_end(writer);
	cr_expect_eq(writer_wait(writer, in_ms(20000)), 0);
	cr_expect_eq(read(ends[0], got, sizeof(got)), 7);
	close(ends[0]);
	writer_free(writer, false);
}

/* ---- opening ---- */

static char folder[64];

static void make_folder(void)
{
	strcpy(folder, "/tmp/jankscope-test-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
}

static void remove_folder(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

static int try_open(const char *path, bool overwrite, char why[128])
{
	struct output_file file;
	int err = output_file_open(&file, path, overwrite, why, 128);

	if (!err) {
		close(file.fd);
		if (file.dir_fd >= 0)
			close(file.dir_fd);
	}
	return err;
}

static void put_file(const char *path)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fputs("precious\n", f);
	fclose(f);
}

TestSuite(output_file, .init = make_folder, .fini = remove_folder);

Test(output_file, a_new_file_is_ours_alone)
{
	char why[128];
	struct stat status;

	umask(0);
	cr_expect_eq(try_open("new", false, why), 0);
	cr_assert_eq(stat("new", &status), 0);
	cr_expect_eq(status.st_mode & 07777, 0600);
}

Test(output_file, what_exists_is_refused_unless_asked)
{
	char why[128];
	struct stat status;

	put_file("old");
	chmod("old", 0666);
	cr_expect_eq(try_open("old", false, why), -EEXIST);
	cr_expect(strstr(why, "--overwrite"));
	cr_expect_eq(try_open("./old", true, why), 0);
	cr_assert_eq(stat("old", &status), 0);
	cr_expect_eq(status.st_size, 9, "emptied by the first record only");
	cr_expect_eq(status.st_mode & 07777, 0600);
}

Test(output_file, links_are_not_followed)
{
	char why[128];

	put_file("victim");
	cr_assert_eq(symlink("victim", "planted"), 0);
	cr_assert_eq(symlink("nowhere", "dangling"), 0);
	cr_assert_eq(link("victim", "hard"), 0);
	cr_expect_eq(try_open("planted", false, why), -ELOOP);
	cr_expect_eq(try_open("planted", true, why), -ELOOP);
	cr_expect_eq(try_open("dangling", true, why), -ELOOP);
	cr_expect_neq(access("nowhere", F_OK), 0);
	cr_expect_eq(try_open("hard", true, why), -EPERM);
	/* A folder may be a link. */
	cr_assert_eq(symlink(".", "here"), 0);
	cr_expect_eq(try_open("here/new", false, why), 0);
}

Test(output_file, what_belongs_to_others_is_refused)
{
	char why[128];

	if (geteuid())
		cr_skip("needs root");
	put_file("theirs");
	cr_assert_eq(chown("theirs", 12345, 12345), 0);
	cr_expect_eq(try_open("theirs", true, why), -EPERM);
	cr_expect(strstr(why, "12345"));
	cr_assert_eq(mkfifo("pipe", 0666), 0);
	cr_assert_eq(chown("pipe", 12345, 12345), 0);
	cr_expect_eq(try_open("pipe", false, why), -EPERM);
}

Test(output_file, one_recorder_a_file)
{
	struct output_file first;
	char why[128];

	cr_assert_eq(output_file_open(&first, "x", false, why, sizeof(why)), 0);
	cr_expect_eq(try_open("x", false, why), -EBUSY);
	cr_expect_eq(try_open("x", true, why), -EBUSY);
	cr_expect_str_eq(why, "is being written by another jankscope");
	close(first.fd);
	cr_expect_eq(try_open("x", true, why), 0);
}

Test(output_file, other_kinds_of_files)
{
	char why[128], path[64];
	int ends[2];

	cr_expect_eq(try_open("/dev/null", false, why), 0);
	cr_expect_eq(try_open(".", false, why), -EISDIR);
	cr_expect_eq(try_open("x/", false, why), -EISDIR);
	cr_expect_eq(try_open("missing/x", false, why), -ENOENT);
	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", ends[1]);
	cr_expect_eq(try_open(path, false, why), 0);
	cr_expect_eq(try_open("/dev/stdout", false, why), 0);
	cr_expect_eq(try_open("/dev/fd/999", false, why), -EBADF);
}
