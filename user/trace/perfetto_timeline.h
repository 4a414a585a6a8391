/* SPDX-License-Identifier: BSD-2-Clause */
/* FrameTimelineEvent of a Perfetto trace. */
#pragma once
#include "jankscope/timeline.h"

/* Fill in all of the event but its time and its machine. False where it is none of the five. */
bool frame_timeline_decode(const uint8_t *data, size_t size, struct timeline_event *event);
