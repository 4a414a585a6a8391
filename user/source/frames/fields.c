/* SPDX-License-Identifier: BSD-2-Clause */
/* What the frames source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

static const struct field jank_rows[] = {
	FIELD_AS("app", struct record_layer, jank.app, REQUIRED, COUNT, "by the app", MERGED(SUM)),
	FIELD_AS("sf", struct record_layer, jank.sf, REQUIRED, COUNT, "by SurfaceFlinger",
		 MERGED(SUM)),
	FIELD_AS("hw", struct record_layer, jank.hw, REQUIRED, COUNT, "by the display's hardware",
		 MERGED(SUM)),
	FIELD_AS("stuffing", struct record_layer, jank.stuffing, REQUIRED, COUNT,
		 "by buffers that queue up", MERGED(SUM)),
	FIELD_AS("dropped", struct record_layer, jank.dropped, REQUIRED, COUNT, "never shown",
		 MERGED(SUM)),
	FIELD_AS("unknown", struct record_layer, jank.unknown, REQUIRED, COUNT,
		 "by what the trace does not say", MERGED(SUM)),
};
static const struct field_type jank_type = FIELD_TYPE("layer_jank", struct record_layer, jank_rows);

static const struct field layer_rows[] = {
	FIELD(struct record_layer, pid, NONZERO, ID, "process that draws it", MERGED(KEY)),
	FIELD(struct record_layer, package, OPTIONAL, NAME, "package"),
	FIELD(struct record_layer, layer, OPTIONAL, NAME, "name of the layer", MERGED(KEY)),
	FIELD(struct record_layer, period_ns, OPTIONAL, NS,
	      "time between two frames of the display", MERGED(LAST)),
	FIELD(struct record_layer, shown, REQUIRED, COUNT, "frames that were shown", MERGED(SUM)),
	FIELD(struct record_layer, first_shown_boot_ns, OPTIONAL, NS,
	      "when the first of them was on the screen", MERGED(MIN)),
	FIELD(struct record_layer, dropped, REQUIRED, COUNT, "frames that were drawn and not shown",
	      MERGED(SUM)),
	FIELD(struct record_layer, fps_active, NONZERO, PER_SECOND,
	      "frames per second while the layer was drawn; of a single frame there is none",
	      MERGED(ABSENT)),
	FIELD(struct record_layer, janky, REQUIRED, COUNT, "frames that were late or not shown",
	      MERGED(SUM)),
	FIELD(struct record_layer, judged, OPTIONAL, COUNT,
	      "frames that FrameTimeline judged, of which the janky ones are a part", MERGED(SUM)),
	FIELD_GROUP("jank", &jank_type, "janky frames by their cause"),
	FIELD(struct record_layer, interval_hist, OPTIONAL, NS,
	      "[lowest ns, highest ns, count] of each bucket of present-to-present times"),
};
static const struct field_type layer_type = FIELD_TYPE("layer", struct record_layer, layer_rows);

static const struct field frames_rows[] = {
	FIELD_ROWS("layers", struct record_frames, layers, layer_count, REQUIRED, &layer_type,
		   "layers with frames in this interval"),
	FIELD(struct record_frames, history, NONZERO, NONE,
	      "the followed trace held these frames before the run began"),
};
static const struct field_type frames_type =
	FIELD_TYPE("frames", struct record_frames, frames_rows);

const struct field frames_part = FIELD_STRUCT_IF("frames", struct record_interval, frames,
						 frames.present, &frames_type, "frame timing");
