/* SPDX-License-Identifier: BSD-2-Clause */
#include "endpoint/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void refuse(struct http_request *request, int status)
{
	request->state = HTTP_REFUSED;
	request->status = status;
}

/* RFC 9110, 5.6.2. The locale is that of C. */
static size_t token_length(const char *text, size_t length)
{
	size_t n = 0;

	while (n < length && text[n] &&
	       (isalnum((unsigned char)text[n]) || strchr("!#$%&'*+-.^_`|~", text[n])))
		n++;
	return n;
}

/* ---- the request line ---- */

static bool take_version(struct http_request *request, const char *text, size_t length)
{
	if (length != 8 || memcmp(text, "HTTP/", 5) || !isdigit((unsigned char)text[5]) ||
	    text[6] != '.' || !isdigit((unsigned char)text[7]))
		return false;
	request->old = text[7] == '0';
	if (text[5] != '1')
		refuse(request, 505);
	return true;
}

static void take_request_line(struct http_request *request, const char *line, size_t length)
{
	size_t method = token_length(line, length), target = 0;
	const char *at = line + method + 1, *end = line + length;

	if (!method || method == length || line[method] != ' ') {
		refuse(request, 400);
		return;
	}
	while (at + target < end && at[target] > ' ' && at[target] < 0x7f)
		target++;
	if (at + target >= end || at[target] != ' ' || *at != '/' ||
	    !take_version(request, at + target + 1, (size_t)(end - at) - target - 1)) {
		refuse(request, 400);
		return;
	}
	if (request->state == HTTP_REFUSED)
		return;
	if (target >= sizeof(request->target)) {
		refuse(request, 414);
		return;
	}
	memcpy(request->target, at, target);
	request->target[target] = 0;
	request->get = method == 3 && !memcmp(line, "GET", 3);
	request->head = method == 4 && !memcmp(line, "HEAD", 4);
	request->state = HTTP_HEADER;
}

/* ---- the header ---- */

static bool is_named(const char *name, size_t length, const char *wanted)
{
	return strlen(wanted) == length && !strncasecmp(name, wanted, length);
}

static void take_field(struct http_request *request, const char *line, size_t length)
{
	size_t name = token_length(line, length);
	const char *value = line + name + 1, *end = line + length;

	/* A space before the colon, or at the begin of a line, is what smugglers use. */
	if (!name || name == length || line[name] != ':') {
		refuse(request, 400);
		return;
	}
	for (const char *c = value; c < end; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
			refuse(request, 400);
			return;
		}
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (is_named(line, name, "host")) {
		if (request->hosts++ || (size_t)(end - value) >= sizeof(request->host)) {
			refuse(request, 400);
			return;
		}
		memcpy(request->host, value, (size_t)(end - value));
		request->host[end - value] = 0;
	} else if (is_named(line, name, "transfer-encoding")) {
		request->body = true;
	} else if (is_named(line, name, "content-length")) {
		bool zero = value < end;

		for (const char *c = value; c < end; c++) {
			if (!isdigit((unsigned char)*c)) {
				refuse(request, 400);
				return;
			}
			zero &= *c == '0';
		}
		if (value == end)
			refuse(request, 400);
		request->body |= !zero;
	}
}

static void take_line(struct http_request *request, const char *line, size_t length)
{
	if (request->state == HTTP_HEADER && !length) {
		if (!request->hosts && !request->old)
			refuse(request, 400);
		else
			request->state = HTTP_WHOLE;
	} else if (request->state == HTTP_HEADER) {
		take_field(request, line, length);
	} else if (length) { /* empty lines before a request are let pass (RFC 9112, 2.2) */
		take_request_line(request, line, length);
	}
}

size_t http_room(const struct http_request *request)
{
	return request->state <= HTTP_HEADER ? sizeof(request->bytes) - request->length : 0;
}

void http_take(struct http_request *request, const char *bytes, size_t length)
{
	size_t room = http_room(request);

	if (length > room)
		length = room;
	memcpy(request->bytes + request->length, bytes, length);
	request->length += length;
	while (request->state <= HTTP_HEADER) {
		char *end = memchr(request->bytes + request->looked, '\n',
				   request->length - request->looked);
		size_t line = request->line, at;

		if (!end)
			break;
		at = (size_t)(end - request->bytes);
		request->looked = request->line = at + 1;
		if (at == line || end[-1] != '\r')
			refuse(request, 400);
		else
			take_line(request, request->bytes + line, at - 1 - line);
	}
	if (request->state > HTTP_HEADER)
		return;
	request->looked = request->length;
	if (request->length == sizeof(request->bytes))
		refuse(request, request->state == HTTP_LINE ? 414 : 431);
}

/* ---- which host a request is for ---- */

bool http_is_for_us(const struct http_request *request, unsigned port)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	char number[16];

	if (!port)
		return true;
	snprintf(number, sizeof(number), ":%u", port);
	for (size_t i = 0; request->hosts == 1 && i < sizeof(names) / sizeof(*names); i++) {
		size_t length = strlen(names[i]);
		const char *rest = request->host + length;

		if (strncasecmp(request->host, names[i], length))
			continue;
		if (!strcmp(rest, number) || (port == 80 && !*rest))
			return true;
	}
	return false;
}

/* ---- answers ---- */

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{200, "OK"},
		{400, "Bad Request"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{421, "Misdirected Request"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{503, "Service Unavailable"},
		{505, "HTTP Version Not Supported"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "";
}

size_t http_head(char to[HTTP_HEAD_BYTES], int status, const char *type, size_t body_bytes)
{
	int n = snprintf(to, HTTP_HEAD_BYTES,
			 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			 "Connection: close\r\nCache-Control: no-store\r\n"
			 "X-Content-Type-Options: nosniff\r\n%s%s\r\n",
			 status, http_reason(status), type ? type : "text/plain; charset=utf-8",
			 body_bytes, status == 405 ? "Allow: GET\r\n" : "",
			 status == 503 ? "Retry-After: 1\r\n" : "");

	return n > 0 && n < HTTP_HEAD_BYTES ? (size_t)n : 0;
}
