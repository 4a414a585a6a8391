/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/address.h"
#include "endpoint/http.h"

/* What becomes of a text that comes in two pieces, and of one that comes byte by byte. */
static struct http_request *take(const char *text, size_t length, size_t split)
{
	struct http_request *request = calloc(1, sizeof(*request));

	cr_assert(request);
	if (split > length) {
		for (size_t i = 0; i < length; i++)
			http_take(request, text + i, 1);
		return request;
	}
	http_take(request, text, split);
	http_take(request, text + split, length - split);
	return request;
}

static const struct {
	const char *text;
	int status; /* 200: whole; 0: more is waited for */
	const char *target;
} cases[] = {
	{"GET /metrics HTTP/1.1\r\nHost: localhost:9101\r\n\r\n", 200, "/metrics"},
	{"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", 200, "/metrics?a=b"},
	{"\r\nGET / HTTP/1.1\r\nhOST:\tx \r\nX:\r\n\r\n", 200, "/"},
	{"GET / HTTP/1.0\r\n\r\n", 200, "/"},
	{"GET / HTTP/1.9\r\nHost: x\r\n\r\n", 200, "/"},
	{"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 000\r\n\r\n", 200, "/"},
	{"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\n", 200, "/"},
	{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", 200, "/"},
	{"GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n\r\n", 200, "/"},
	{"", 0, ""},
	{"GET", 0, ""},
	{"GET / HTTP/1.1\r\nHost: x\r\n\r", 0, "/"},
	{"GET / HTTP/1.1\r\n\r\n", 400, NULL}, /* no Host */
	{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\x7f\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\nHost: a\n\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n", 400, NULL},
	{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400, NULL},
	{"GET  / HTTP/1.1\r\n", 400, NULL},
	{"GET /\r\n", 400, NULL}, /* HTTP/0.9 */
	{"GET / HTTP/1.1 \r\n", 400, NULL},
	{"GET / http/1.1\r\n", 400, NULL},
	{"GET / HTTP/11\r\n", 400, NULL},
	{"GET /a b HTTP/1.1\r\n", 400, NULL},
	{"GET /\x80 HTTP/1.1\r\n", 400, NULL},
	{"GET http://localhost/ HTTP/1.1\r\n", 400, NULL},
	{"OPTIONS * HTTP/1.1\r\n", 400, NULL},
	{" GET / HTTP/1.1\r\n", 400, NULL},
	{"G\tT / HTTP/1.1\r\n", 400, NULL},
	{"GET", 0, ""},
	{"\x16\x03\x01\x02\n", 400, NULL}, /* TLS */
	{"GET / HTTP/2.0\r\n", 505, NULL},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, NULL},
};

Test(http, every_split)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t length = strlen(cases[i].text);

		for (size_t split = 0; split <= length + 1; split++) {
			struct http_request *request = take(cases[i].text, length, split);
			int status = request->state == HTTP_WHOLE     ? 200
				     : request->state == HTTP_REFUSED ? request->status
								      : 0;

			cr_expect_eq(status, cases[i].status, "case %zu split %zu: %d", i, split,
				     status);
			if (cases[i].target)
				cr_expect_str_eq(request->target, cases[i].target);
			free(request);
		}
	}
}

Test(http, a_nul_is_no_text)
{
	static const char texts[][40] = {"GET /\0 HTTP/1.1\r\n", "GE\0T / HTTP/1.1\r\n",
					 "GET / HTTP/1.1\r\nHost: a\0b\r\n", "\0\r\n",
					 "GET / HTTP/1.1\r\nHo\0st: a\r\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct http_request *request = take(texts[i], sizeof(texts[i]), 1);

		cr_expect_eq(request->state, HTTP_REFUSED, "%zu", i);
		cr_expect_eq(request->status, 400, "%zu", i);
		free(request);
	}
}

/* A line or a header without an end, in pieces of any size: refused at the cap, and nothing more is
 * taken. */
Test(http, caps)
{
	static const struct {
		const char *begin, *more;
		int status;
	} kinds[] = {
		{"GET /", "a", 414},
		{"GET / HTTP/1.1\r\n", "A: b\r\n", 431},
		{"GET / HTTP/1.1\r\nA: ", "bbbbbbb", 431},
		{"\r\n", "\r\n", 414},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct http_request *request = take(kinds[i].begin, strlen(kinds[i].begin), 0);

		for (size_t k = 0; k < 2 * HTTP_REQUEST_BYTES; k++)
			http_take(request, kinds[i].more, strlen(kinds[i].more));
		cr_expect_eq(request->state, HTTP_REFUSED);
		cr_expect_eq(request->status, kinds[i].status, "%zu: %d", i, request->status);
		cr_expect_leq(request->length, HTTP_REQUEST_BYTES);
		cr_expect_eq(http_room(request), 0);
		free(request);
	}
}

/* Long ones that are in order: a target of 1023 bytes, one of 1024, a Host of 272. */
Test(http, long_parts)
{
	char text[2048], part[1100];
	struct http_request *request;

	for (size_t n = 1022; n <= 1024; n++) {
		memset(part, 'x', sizeof(part));
		part[0] = '/';
		part[n] = 0;
		snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\n\r\n", part);
		request = take(text, strlen(text), 900);
		cr_expect_eq(request->state, n < HTTP_TARGET_BYTES ? HTTP_WHOLE : HTTP_REFUSED);
		cr_expect_eq(request->status, n < HTTP_TARGET_BYTES ? 0 : 414);
		free(request);
	}
	memset(part, 'x', sizeof(part));
	part[272] = 0;
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", part);
	request = take(text, strlen(text), 100);
	cr_expect_eq(request->status, 400);
	free(request);
}

/* Bytes of all kinds never pass the buffer, and end in one of the states. */
Test(http, random_bytes)
{
	static const char words[] = "GET /  HTTP/1.1\r\nHost: x\r\n\r\n:";

	srand(1);
	for (int i = 0; i < 20000; i++) {
		struct http_request *request = calloc(1, sizeof(*request));
		char bytes[64];

		cr_assert(request);
		for (int k = 0; k < 12; k++) {
			size_t n = (size_t)rand() % sizeof(bytes);

			for (size_t m = 0; m < n; m++)
				bytes[m] = rand() % 8 ? words[(size_t)rand() % (sizeof(words) - 1)]
						      : (char)rand();
			http_take(request, bytes, n);
		}
		cr_expect_leq(request->length, HTTP_REQUEST_BYTES);
		cr_expect(request->state != HTTP_REFUSED || *http_reason(request->status));
		free(request);
	}
}

Test(http, hosts)
{
	static const struct {
		const char *host;
		unsigned port;
		bool ours;
	} hosts[] = {
		{"localhost:9101", 9101, true},
		{"LocalHost:9101", 9101, true},
		{"127.0.0.1:9101", 9101, true},
		{"[::1]:9101", 9101, true},
		{"localhost", 80, true},
		{"anything", 0, true}, /* a Unix socket */
		{"localhost", 9101, false},
		{"localhost:9102", 9101, false},
		{"localhost:91010", 9101, false},
		{"localhost:09101", 9101, false},
		{"localhost.:9101", 9101, false},
		{"localhost.evil.example:9101", 9101, false},
		{"evil.example:9101", 9101, false},
		{"evil.example", 80, false},
		{"127.0.0.1.nip.io:9101", 9101, false},
		{"127.0.0.2:9101", 9101, false},
		{"user@localhost:9101", 9101, false},
		{"", 9101, false},
	};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
		struct http_request request = {.hosts = 1};

		strcpy(request.host, hosts[i].host);
		cr_expect_eq(http_is_for_us(&request, hosts[i].port), hosts[i].ours, "%s",
			     hosts[i].host);
	}
	cr_expect_not(http_is_for_us(&(struct http_request){.old = true}, 9101));
}

Test(http, heads)
{
	char head[HTTP_HEAD_BYTES];
	size_t length = http_head(head, 405, NULL, 7);

	cr_expect_eq(length, strlen(head));
	cr_expect(strstr(head, "HTTP/1.1 405 Method Not Allowed\r\n") == head);
	cr_expect(strstr(head, "\r\nAllow: GET\r\n"));
	cr_expect(strstr(head, "\r\nContent-Length: 7\r\n"));
	cr_expect_str_eq(head + length - 4, "\r\n\r\n");
}

Test(endpoint, addresses)
{
	static const struct {
		const char *text;
		bool right;
	} texts[] = {
		{"unix:/run/x", true},
		{"unix:x", true},
		{"@a", true},
		{"127.0.0.1:9101", true},
		{"[::1]:1", true},
		{"127.0.0.1:65535", true},
		{"unix:", false},
		{"unix:/run/", false},
		{"unix:..", false},
		{"@", false},
		{"", false},
		{"9101", false},
		{":9101", false},
		{"0.0.0.0:9101", false},
		{"localhost:9101", false},
		{"192.168.1.2:80", false},
		{"127.0.0.2:80", false},
		{"127.0.0.1:0", false},
		{"127.0.0.1:65536", false},
		{"127.0.0.1:", false},
		{"127.0.0.1:+80", false},
		{"127.0.0.1:80x", false},
		{"127.0.0.1:000080", false},
		{"[::]:80", false},
		{"::1:80", false},
	};
	struct endpoint_address address;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_expect_eq(!endpoint_address_parse(texts[i].text, &address), texts[i].right, "%s",
			     texts[i].text);
	cr_expect_null(endpoint_address_parse("[::1]:9101", &address));
	cr_expect(address.v6 && address.port == 9101 && address.kind == ENDPOINT_TCP);
}
