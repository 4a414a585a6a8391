/* SPDX-License-Identifier: BSD-2-Clause */
/* A request of HTTP/1.1 (RFC 9112) from bytes of anybody, without a socket: a bounded buffer and a
 * state. Only what an endpoint of two pages needs: no body, no continued lines, no absolute form.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define HTTP_REQUEST_BYTES 8192 /* of a request line with its header, at the most */
#define HTTP_TARGET_BYTES  1024 /* of a path with its query */
#define HTTP_HEAD_BYTES    512  /* of the head of an answer */

enum http_state {
	HTTP_LINE = 0,   /* the request line is not whole */
	HTTP_HEADER = 1, /* neither is the header */
	HTTP_WHOLE = 2,
	HTTP_REFUSED = 3, /* with `status` */
};

struct http_request {
	enum http_state state;
	int status; /* of a refusal; 0: none */
	char bytes[HTTP_REQUEST_BYTES];
	size_t length; /* of what has come */
	size_t line;   /* where the line that is not whole begins */
	size_t looked; /* up to here no end of that line was found */
	bool old;      /* HTTP/1.0 */
	bool get, head;
	bool body; /* one is announced, which nobody reads */
	char target[HTTP_TARGET_BYTES];
	size_t hosts; /* how many Host fields there are */
	char host[272];
};

/* Take bytes that came behind those before, at most what bytes[] has room for (http_room); 0 bytes:
 * nothing changes. The state says whether more is waited for. Bytes behind a whole request are left
 * alone. */
void http_take(struct http_request *request, const char *bytes, size_t length);
size_t http_room(const struct http_request *request);

/* Whether the Host field names the loopback device and this port, as a browser does that was asked
 * for http://localhost:PORT/. A page of a stranger whose name was made to resolve to 127.0.0.1
 * (DNS rebinding) names itself. port 0: any Host will do, because no browser talks to a Unix
 * socket. */
bool http_is_for_us(const struct http_request *request, unsigned port);

/* "Not Found"; "" of a status that no answer here has. */
const char *http_reason(int status);
/* The head of an answer, which ends the connection; type NULL: of plain text. Its length. */
size_t http_head(char to[HTTP_HEAD_BYTES], int status, const char *type, size_t body_bytes);
