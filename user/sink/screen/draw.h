/* SPDX-License-Identifier: BSD-2-Clause */
/* The live screen as a frame of text: model + view + size -> lines. Pure. */
#pragma once
#include "sink/screen/frame.h"
#include "sink/screen/view.h"

/* Draw into a frame that was begun. view->page, scroll and scroll_max are set to what the frame
 * shows of a frozen block. */
void screen_draw(struct screen_frame *frame, const struct screen_model *model,
		 struct screen_view *view);

/* ---- what the files of drawing share ---- */

/* Rows top .. top + height - 1, columns left .. right - 1. */
struct screen_area {
	int top, height, left, right;
};

/* Frames, net, memory and heat in so many lines at the most. Returns how many it took. */
int draw_figures(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, const struct screen_view *view);
void draw_tasks(struct screen_frame *frame, struct screen_area area,
		const struct screen_model *model, const struct screen_view *view);
void draw_blocks(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, const struct screen_view *view);
void draw_late(struct screen_frame *frame, struct screen_area area,
	       const struct screen_model *model, const struct screen_view *view);
void draw_frozen(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, struct screen_view *view);
void draw_help(struct screen_frame *frame, struct screen_area area);
/* The style of a block by its class. */
enum screen_style block_style(const struct screen_block *block);
const char *block_class_name(const struct screen_block *block);
