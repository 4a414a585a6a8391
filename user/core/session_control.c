/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recorder answers to requests in its folder (control/README.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/control.h"
#include "control/run_status.h"
#include "core/session_private.h"
#include "record/json_buffer.h"
#include "util/clock.h"

int session_status(const struct session *session, char **to, size_t *bytes)
{
	const struct run_status empty = {.interval_ns = session->options.interval_ns};
	const struct run_status *status = session->options.status ?: &empty;
	struct run_live live = {
		/* Before its header the run waits for its target, or opens its sources. */
		.state = session->seq ? "running" : "starting",
		.pid = getpid(),
		.now_boot_ns = clock_now_ns(CLOCK_BOOTTIME),
	};
	struct json_buffer text = {0};

	run_status_write(status, &live, &text);
	if (text.failed) {
		free(text.text);
		return -ENOMEM;
	}
	*to = text.text;
	*bytes = text.length;
	return 0;
}

static int answer_status(void *ctx, const char *argument, char *reply, size_t room)
{
	size_t bytes;
	char *text;
	int err = session_status(ctx, &text, &bytes);

	if (err)
		return err;
	if (bytes < room)
		memcpy(reply, text, bytes + 1);
	else
		err = -EMSGSIZE;
	free(text);
	return err;
}

static int answer_stop(void *ctx, const char *argument, char *reply, size_t room)
{
	session_stop(ctx);
	return 0;
}

static int tell_mark(int err, char *reply, size_t room)
{
	const char *why = err == -EALREADY ? "this scene is open already"
			  : err == -ENOENT ? "no scene of that name is open"
			  : err == -EINVAL
				  ? "a scene's name has 1 to 64 bytes of printable UTF-8, and is "
				    "none of unknown, mixed, other"
			  : err == -ENOSPC ? "1280 scenes are open"
			  : err == -EAGAIN ? "the recording has not begun, or is over"
					   : "";

	snprintf(reply, room, "%s", why);
	return err;
}

static int answer_mark(void *ctx, const char *argument, char *reply, size_t room)
{
	return tell_mark(session_mark(ctx, argument, false), reply, room);
}

static int answer_mark_end(void *ctx, const char *argument, char *reply, size_t room)
{
	return tell_mark(session_mark(ctx, argument, true), reply, room);
}

static const struct control_row rows[] = {
	{"mark --end", true, answer_mark_end, .for_who_waits = true},
	{"mark", true, answer_mark, .for_who_waits = true},
	{"status", false, answer_status},
	{"stop", false, answer_stop},
};

int session_join_control(struct session *session)
{
	if (!session->options.control)
		return 0;
	return control_join_loop(session->options.control, session->loop, rows,
				 sizeof(rows) / sizeof(*rows), session);
}
