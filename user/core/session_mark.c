/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenes of a run: `jankscope mark` begins and ends them. */
#include <errno.h>

#include "core/session_private.h"
#include "summary/scenes.h"
#include "summary/summary.h"

int session_mark(struct session *session, const char *name, bool end)
{
	struct record_event event = {
		.event = "mark",
		.keys = {{.name = "name", .text = name},
			 {.name = "state", .text = end ? "end" : "begin"}},
		.key_count = 2,
	};

	/* Between the baseline and the last interval. */
	if (!session->last_mono_ns || session->final_taken || session->stop)
		return -EAGAIN;
	if (!scene_name_is_good(name))
		return -EINVAL;
	if (summary_scene_is_open(session->summary, name) != end)
		return end ? -ENOENT : -EALREADY;
	if (session_cut_interval(session))
		event.keys[event.key_count++] = (struct event_key){.name = "exact", .value = 1};
	session_emit_event(session, &event);
	if (!end && !summary_scene_is_open(session->summary, name))
		return -ENOSPC;
	return session->error ? -ENOMEM : 0;
}
