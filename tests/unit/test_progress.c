/* SPDX-License-Identifier: BSD-2-Clause */
/* What a terminal is told of a long read. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/progress.h"

static const char *said(int master, char text[512])
{
	ssize_t n = read(master, text, 511);

	text[n > 0 ? n : 0] = 0;
	return text;
}

Test(progress, on_a_terminal)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), fd;
	struct progress progress;
	char text[512];

	cr_assert(master >= 0 && !grantpt(master) && !unlockpt(master));
	fd = open(ptsname(master), O_RDWR | O_NOCTTY);
	cr_assert_geq(fd, 0);
	progress_begin(&progress, fd, "app.jsonl", "records");
	for (int i = 0; i < 10000; i++)
		progress_add(&progress, 1);
	progress_clear(&progress);
	cr_expect_str_eq(said(master, text), "", "not in the first two seconds");
	progress.begun_ns -= 3 * NSEC_PER_SEC;
	for (int i = 0; i < 10000; i++)
		progress_add(&progress, 2);
	cr_expect_str_eq(said(master, text), "\rapp.jsonl: 10480 records so far\033[K\r",
			 "once in a quarter of a second: %s", text);
	progress_clear(&progress);
	cr_expect_str_eq(said(master, text), "\r\033[K");
	progress_clear(&progress);
	cr_expect_str_eq(said(master, text), "");
	close(fd);
	close(master);
}

Test(progress, elsewhere)
{
	struct progress progress;
	char text[512];
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	progress_begin(&progress, ends[1], "app.jsonl", "records");
	progress.begun_ns -= 3 * NSEC_PER_SEC;
	for (int i = 0; i < 10000; i++)
		progress_add(&progress, 1);
	progress_clear(&progress);
	cr_expect_str_eq(said(ends[0], text), "");
	close(ends[0]);
	close(ends[1]);
}
