/* SPDX-License-Identifier: BSD-2-Clause */
/* Late frames of a Perfetto trace. */
#pragma once
#include "sink/perfetto_tracks.h"

struct record_jank;

/* A slice of the frame's window below its process, on a track "late frames", and one below each of
 * its threads, on a track "in late frames", with flows from the frame to them. */
void perfetto_take_jank(struct perfetto_tracks *tracks, const struct record_jank *jank);
