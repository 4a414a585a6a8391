/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/request.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ERRNO 4095

/* "ok\n" and the text, or "error ERRNO\n" and the text. */
static char *compose(int err, const char *text, size_t *length)
{
	char *answer;
	int n = err ? asprintf(&answer, "error %d\n%s", -err, text)
		    : asprintf(&answer, "ok\n%s", text);

	if (n < 0)
		return NULL;
	*length = (size_t)n;
	return answer;
}

char *request_refusal(int err, const char *text, size_t *length)
{
	return compose(err, text, length);
}

/* The line is printable: no byte of a terminal's control sequences, and whole UTF-8 of at most four
 * bytes a character. */
static bool is_printable(const char *line)
{
	const unsigned char *p = (const unsigned char *)line;

	while (*p) {
		int more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;

		if (*p < 0x20 || *p == 0x7f || (*p >= 0x80 && *p < 0xc2) || *p > 0xf4)
			return false;
		if (*p == 0xc2 && p[1] < 0xa0) /* C1 */
			return false;
		for (p++; more; more--, p++)
			if ((*p & 0xc0) != 0x80)
				return false;
	}
	return true;
}

static const struct control_row *find_row(const struct control_row *rows, size_t row_count,
					  const char *line, const char **argument)
{
	for (size_t i = 0; i < row_count; i++) {
		size_t length = strlen(rows[i].request);

		if (strncmp(line, rows[i].request, length))
			continue;
		*argument = line + length + strspn(line + length, " ");
		if (rows[i].argument ? line[length] == ' ' && **argument : !line[length])
			return &rows[i];
	}
	return NULL;
}

char *request_answer(const struct control_row *rows, size_t row_count, void *ctx, bool gone,
		     const char *received, size_t received_bytes, size_t *length)
{
	const char *end = memchr(received, '\n', received_bytes), *argument = "";
	const struct control_row *row;
	char line[CONTROL_REQUEST_BYTES], *reply, *answer;
	int err;

	if (!end)
		return request_refusal(-EMSGSIZE, "the request is too long", length);
	if (end + 1 != received + received_bytes)
		return request_refusal(-EINVAL, "one request a connection", length);
	memcpy(line, received, (size_t)(end - received));
	line[end - received] = 0;
	if (strlen(line) != (size_t)(end - received) || !is_printable(line))
		return request_refusal(-EINVAL, "a request is a line of printable text", length);
	row = find_row(rows, row_count, line, &argument);
	if (!row)
		return request_refusal(-ENOSYS, "this recorder knows no such request", length);
	if (gone && row->for_who_waits)
		return request_refusal(-ETIMEDOUT, "its client has gone", length);
	reply = calloc(1, CONTROL_REPLY_BYTES);
	if (!reply)
		return NULL;
	err = row->answer(ctx, argument, reply, CONTROL_REPLY_BYTES);
	if (err && !*reply)
		strcpy(reply, strerror(-err));
	answer = compose(err, reply, length);
	free(reply);
	return answer;
}

int request_take_answer(char *answer, size_t length, char **text)
{
	char *end;
	long number;

	if (strlen(answer) != length)
		return -EPROTO;
	if (!strncmp(answer, "ok\n", 3)) {
		*text = answer + 3;
		return 0;
	}
	if (strncmp(answer, "error ", 6) || !isdigit((unsigned char)answer[6]))
		return -EPROTO;
	number = strtol(answer + 6, &end, 10);
	if (*end != '\n' || number < 1 || number > MAX_ERRNO)
		return -EPROTO;
	*text = end + 1;
	return (int)-number;
}
