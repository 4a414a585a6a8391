/* SPDX-License-Identifier: BSD-2-Clause */
/* The server with clients of the same process: pages that are too large, late or absent, and
 * clients that do not read. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/loop.h"
#include "endpoint/address.h"
#include "endpoint/server.h"
#include "util/clock.h"

struct rig {
	struct loop *loop;
	struct endpoint *endpoint;
	char name[64];
	size_t page_bytes;
	unsigned made, again;
	int err;
};

static int make_page(void *ctx, char **text, size_t *bytes)
{
	struct rig *rig = ctx;

	if (rig->again) {
		rig->again--;
		return -EAGAIN;
	}
	if (rig->err)
		return rig->err;
	rig->made++;
	*text = malloc(rig->page_bytes + 1);
	cr_assert(*text);
	memset(*text, 'x', rig->page_bytes);
	*bytes = rig->page_bytes;
	return 0;
}

static const struct endpoint_page pages[] = {{"/page", "text/plain", make_page}};

static struct rig set_up(size_t page_bytes)
{
	struct rig rig = {.loop = loop_new(), .page_bytes = page_bytes};
	struct endpoint_address address;

	snprintf(rig.name, sizeof(rig.name), "@jankscope-unit-%d", getpid());
	cr_assert_null(endpoint_address_parse(rig.name, &address));
	rig.endpoint = endpoint_new(&address);
	cr_assert(rig.loop && rig.endpoint);
	return rig;
}

static void begin(struct rig *rig)
{
	cr_assert_eq(endpoint_join_loop(rig->endpoint, rig->loop, pages, 1, rig), 0);
}

static void tear_down(struct rig *rig)
{
	endpoint_free(rig->endpoint);
	loop_free(rig->loop);
}

static int dial(const struct rig *rig)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path + 1, rig->name + 1);
	cr_assert_eq(
		connect(fd, (struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(rig->name))),
		0);
	return fd;
}

static void ask(int fd)
{
	static const char request[] = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";

	cr_assert_eq(send(fd, request, sizeof(request) - 1, 0), (ssize_t)sizeof(request) - 1);
}

static void run_for(struct rig *rig, uint64_t ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;

	while (clock_now_ns(CLOCK_MONOTONIC) < until_ns)
		cr_assert_eq(loop_turn(rig->loop, 5 * NSEC_PER_MSEC), 0);
}

/* What comes until the end of the connection, or for so long; the status of the answer, 0: none. */
static int read_answer(struct rig *rig, int fd, size_t *bytes, bool *ended, uint64_t ns)
{
	uint64_t until_ns = clock_now_ns(CLOCK_MONOTONIC) + ns;
	char head[16] = "", text[4096];

	*bytes = 0;
	*ended = false;
	while (!*ended && clock_now_ns(CLOCK_MONOTONIC) < until_ns) {
		ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);

		if (n > 0 && *bytes < sizeof(head) - 1 && n > 15)
			memcpy(head, text, 15);
		if (n > 0)
			*bytes += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			cr_assert_eq(loop_turn(rig->loop, 5 * NSEC_PER_MSEC), 0);
		else
			*ended = true;
	}
	return atoi(head + 9);
}

Test(endpoint, a_large_page_and_its_cache, .timeout = 30)
{
	struct rig rig = set_up(ENDPOINT_PAGE_BYTES);
	size_t bytes;
	bool ended;

	begin(&rig);
	for (int i = 0; i < 3; i++) {
		int fd = dial(&rig);

		ask(fd);
		cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 200);
		cr_expect(ended && bytes > ENDPOINT_PAGE_BYTES &&
			  bytes < ENDPOINT_PAGE_BYTES + 512);
		close(fd);
	}
	cr_expect_leq(rig.made, 3);
	run_for(&rig, 150 * NSEC_PER_MSEC);
	rig.made = 0;
	for (int i = 0; i < 4; i++) {
		int fd = dial(&rig);

		ask(fd);
		run_for(&rig, 5 * NSEC_PER_MSEC);
		close(fd);
	}
	cr_expect_leq(rig.made, 2, "a page is made once in 100 ms: %u", rig.made);
	tear_down(&rig);
}

Test(endpoint, pages_that_cannot_be_made, .timeout = 30)
{
	struct rig rig = set_up(100);
	size_t bytes;
	bool ended;
	int fd;

	begin(&rig);
	rig.again = 3;
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 200);
	close(fd);
	run_for(&rig, 150 * NSEC_PER_MSEC);
	rig.again = 1000;
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 503);
	close(fd);
	rig.again = 0;
	rig.err = -ENOMEM;
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 500);
	close(fd);
	rig.err = 0;
	rig.page_bytes = ENDPOINT_PAGE_BYTES + 1;
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 500);
	close(fd);
	tear_down(&rig);
}

/* Four clients that read nothing of a page that no socket takes at once: a fifth is told so, and
 * after 5 s they are cut off. */
Test(endpoint, clients_that_do_not_read, .timeout = 30)
{
	struct rig rig = set_up(ENDPOINT_PAGE_BYTES);
	int slow[ENDPOINT_CONNECTIONS], fd;
	size_t bytes;
	bool ended;

	begin(&rig);
	for (size_t i = 0; i < ENDPOINT_CONNECTIONS; i++) {
		slow[i] = dial(&rig);
		ask(slow[i]);
	}
	run_for(&rig, 700 * NSEC_PER_MSEC);
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 2 * NSEC_PER_SEC), 503);
	close(fd);
	run_for(&rig, ENDPOINT_TIMEOUT_NS);
	for (size_t i = 0; i < ENDPOINT_CONNECTIONS; i++) {
		read_answer(&rig, slow[i], &bytes, &ended, 50 * NSEC_PER_MSEC);
		cr_expect(ended && bytes < ENDPOINT_PAGE_BYTES, "%zu bytes", bytes);
		close(slow[i]);
	}
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 200);
	close(fd);
	tear_down(&rig);
}

/* Clients that come and go in the middle of everything. */
Test(endpoint, clients_that_leave, .timeout = 60)
{
	static const char request[] = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
	struct rig rig = set_up(ENDPOINT_PAGE_BYTES);
	int fds[12];
	size_t bytes;
	bool ended;
	int fd;

	begin(&rig);
	memset(fds, -1, sizeof(fds));
	srand(5);
	for (int i = 0; i < 3000; i++) {
		int *at = &fds[(size_t)rand() % 12];
		char text[8192];

		if (*at < 0)
			*at = dial(&rig);
		else if (rand() % 3 == 0)
			(void)!send(*at, request, (size_t)rand() % sizeof(request), MSG_NOSIGNAL);
		else if (rand() % 3 == 0)
			(void)!recv(*at, text, sizeof(text), MSG_DONTWAIT);
		else if (rand() % 4 == 0)
			shutdown(*at, SHUT_WR);
		else if (rand() % 3 == 0) {
			close(*at);
			*at = -1;
		}
		cr_assert_eq(loop_turn(rig.loop, 0), 0);
	}
	for (size_t i = 0; i < 12; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	run_for(&rig, 50 * NSEC_PER_MSEC);
	fd = dial(&rig);
	ask(fd);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 200);
	/* It leaves with a client at work. */
	tear_down(&rig);
	close(fd);
}

/* The kernel tells of who waits without a pause. */
Test(endpoint, no_descriptor_left, .timeout = 30)
{
	struct rig rig = set_up(10);
	struct rlimit limit, none;
	uint64_t begin_ns;
	unsigned turns = 0;
	size_t bytes;
	bool ended;
	int fd;

	begin(&rig);
	fd = dial(&rig);
	ask(fd);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = limit.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	begin_ns = clock_now_ns(CLOCK_MONOTONIC);
	while (clock_now_ns(CLOCK_MONOTONIC) - begin_ns < 300 * NSEC_PER_MSEC) {
		cr_assert_eq(loop_turn(rig.loop, 50 * NSEC_PER_MSEC), 0);
		turns++;
	}
	cr_expect_lt(turns, 20, "%u", turns);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(read_answer(&rig, fd, &bytes, &ended, 5 * NSEC_PER_SEC), 200);
	cr_expect(ended);
	close(fd);
	/* It is let go while it is deaf. */
	fd = dial(&rig);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	run_for(&rig, 20 * NSEC_PER_MSEC);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	tear_down(&rig);
	close(fd);
}
