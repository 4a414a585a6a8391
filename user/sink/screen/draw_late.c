/* SPDX-License-Identifier: BSD-2-Clause */
/* The pane of late frames: what they were late by, and why. */
#include <string.h>

#include "sink/screen/draw.h"

static void put_late(struct screen_frame *frame, int row, const struct screen_area *area,
		     const struct screen_late *late)
{
	int width = area->right - area->left, end = area->right;

	frame_put(frame, row, end, STYLE_PLAIN, " ");
	if (width >= 56)
		frame_put(frame, row, end, STYLE_PLAIN, "%s ", late->time);
	if (width >= 100) {
		frame_put_column(frame, row, end, STYLE_DIM, width / 6, late->process);
		frame_put(frame, row, end, STYLE_PLAIN, " ");
	}
	frame_put(frame, row, end, STYLE_WARN, "%s", late->text);
}

/* How many there are, and by what causes: those of most time come first. */
static void put_title(struct screen_frame *frame, const struct screen_area *area,
		      const struct screen_model *model)
{
	static const char prefix[] = "why late:";
	char totals[512];

	why_totals_line(&model->late_totals, totals, sizeof(totals));
	frame_put(frame, area->top, area->right, STYLE_HEAD, "LATE");
	frame_put(frame, area->top, area->right, STYLE_PLAIN, "%s",
		  totals + (strncmp(totals, prefix, strlen(prefix)) ? 0 : strlen(prefix)));
}

void draw_late(struct screen_frame *frame, struct screen_area area,
	       const struct screen_model *model, const struct screen_view *view)
{
	int row = area.top;

	if (area.height < 1)
		return;
	if (area.left)
		frame_to_column(frame, row, area.left);
	put_title(frame, &area, model);
	for (size_t i = 0; i < model->late_count && ++row < area.top + area.height; i++) {
		const struct screen_late *late = &model->late[i];

		if (!view_matches(view, (const char *const[]){late->process, late->text}, 2)) {
			row--;
			continue;
		}
		if (area.left)
			frame_to_column(frame, row, area.left);
		put_late(frame, row, &area, late);
	}
}
