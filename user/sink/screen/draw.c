/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the panes of the live screen are, and the lines around them. */
#include "sink/screen/draw.h"

#include <stdio.h>
#include <string.h>

#include "sink/table_private.h"

/* From this width on blocks stand beside the tasks and not below them. */
#define WIDE 140
/* Lower screens have no line of losses and no events. */
#define LOW 14

static void draw_title(struct screen_frame *frame, const struct screen_model *model,
		       const struct screen_view *view)
{
	const struct screen_interval *now = model->now;
	double dur_ns = now ? (double)now->dur_ns : 0;

	if (view->paused)
		frame_put(frame, 0, frame->width, STYLE_PICKED, "PAUSED");
	if (view->paused)
		frame_put(frame, 0, frame->width, STYLE_PLAIN, " ");
	if (frame->width >= 60)
		frame_put(frame, 0, frame->width, STYLE_HEAD, "jankscope ");
	frame_put(frame, 0, frame->width, STYLE_HEAD, "%s", now ? now->time : "no interval yet");
	if (now && now->has_cpu && model->has_targets)
		frame_put(frame, 0, frame->width, STYLE_HEAD, " %.1f %%core",
			  table_core_pct(now->targets_ns, dur_ns));
	if (now && now->has_cpu && now->online_cpus)
		frame_put(frame, 0, frame->width, STYLE_HEAD, " busy %.1f %% of %u CPUs",
			  table_core_pct(now->busy_ns, dur_ns * now->online_cpus),
			  now->online_cpus);
	frame_put(frame, 0, frame->width, STYLE_HEAD, "  %s", model->title);
}

static void draw_losses(struct screen_frame *frame, int row, const struct screen_model *model)
{
	const struct screen_interval *now = model->now;
	int end = frame->width;

	if (!now)
		return;
	if (now->lost[0])
		frame_put(frame, row, end, STYLE_BAD, "LOST:%s", now->lost);
	else
		frame_put(frame, row, end, STYLE_DIM, "lost: none");
	frame_put(frame, row, end, STYLE_DIM, "  %.3f s  self: %.2f ms CPU",
		  (double)now->dur_ns / 1e9, table_ms(now->self_cpu_ns));
	if (now->self_bytes.present)
		frame_put(frame, row, end, STYLE_DIM, ", %.1f MiB",
			  (double)now->self_bytes.value / 1048576);
	if (model->absent[0])
		frame_put(frame, row, end, STYLE_WARN, "  %s", model->absent);
}

static void draw_events(struct screen_frame *frame, int top, int count,
			const struct screen_model *model)
{
	for (int i = 0; i < count && i < (int)model->event_count; i++) {
		const struct screen_event *event = &model->events[i];

		frame_put(frame, top + count - 1 - i, frame->width,
			  event->bad ? STYLE_WARN : STYLE_NOTE, "* %s", event->text);
	}
}

static void put_hint(struct screen_frame *frame, int row, const char *key, const char *meaning)
{
	/* A hint is whole or not there. */
	if ((int)(strlen(key) + strlen(meaning)) + 2 > frame_left(frame, row, frame->width))
		return;
	frame_put(frame, row, frame->width, STYLE_HEAD, "%s", key);
	frame_put(frame, row, frame->width, STYLE_PLAIN, " %s  ", meaning);
}

static void draw_keys(struct screen_frame *frame, const struct screen_view *view)
{
	int row = frame->height - 1;

	if (view->editing) {
		frame_put(frame, row, frame->width, STYLE_HEAD, "filter: ");
		frame_put(frame, row, frame->width, STYLE_PLAIN, "%s_", view->filter);
		frame_put(frame, row, frame->width, STYLE_DIM, "  Enter, Esc");
		return;
	}
	if (view->help) {
		put_hint(frame, row, "any key", "back");
		return;
	}
	if (view->frozen) {
		put_hint(frame, row, "Esc", "back");
		put_hint(frame, row, "j/k", "scroll");
		put_hint(frame, row, "q", "quit");
		return;
	}
	if (view->filter[0])
		frame_put(frame, row, frame->width, STYLE_WARN, "filter: %s  ", view->filter);
	put_hint(frame, row, "q", "quit");
	put_hint(frame, row, "?", "help");
	put_hint(frame, row, "p", view->paused ? "go on" : "pause");
	put_hint(frame, row, "/", "filter");
	put_hint(frame, row, "s", "sort");
	put_hint(frame, row, "t", view->processes ? "threads" : "processes");
	put_hint(frame, row, "j/k", "block");
	put_hint(frame, row, "Enter", "freeze it");
}

void draw_help(struct screen_frame *frame, struct screen_area area)
{
	static const char *const lines[] = {
		"q  quit: the summary of the run follows",
		"p, space  pause: the screen stays, the run goes on",
		"s  sort tasks: cpu, wait, switches, name",
		"t  threads or processes",
		"/  filter by a part of a name; Enter, Esc",
		"j k, arrows  pick a block",
		"Enter  freeze it and read its stacks",
		"Esc  back; without a frozen block: no filter",
		"Ctrl-L  draw anew   Ctrl-Z  suspend",
		"",
		"LATE: late frames of the targets, and why",
		"%core: CPU time in % of one core",
		"wait: ready to run, but no CPU",
		"vol, invol: switches by its own will or not",
		"shown/s: frames shown a second of the clock",
		"fps_active: while frames came (--legend)",
	};

	for (int i = 0; i < area.height && i < (int)(sizeof(lines) / sizeof(*lines)); i++)
		frame_put(frame, area.top + i, area.right, STYLE_PLAIN, "%s", lines[i]);
}

/* The late frames take the last lines of an area, its `part`th part at the most but for a title and
 * a frame; a run without one has no pane of them. */
static void draw_late_below(struct screen_frame *frame, struct screen_area *area, int part,
			    const struct screen_model *model, const struct screen_view *view)
{
	struct screen_area late = *area;
	int most = area->height / part < 2 ? 2 : area->height / part;

	late.height = model->late_count ? 1 + (int)model->late_count : 0;
	if (late.height > most)
		late.height = most;
	if (late.height > area->height)
		late.height = area->height;
	area->height -= late.height;
	late.top = area->top + area->height;
	draw_late(frame, late, model, view);
}

static void draw_side_by_side(struct screen_frame *frame, struct screen_area area,
			      const struct screen_model *model, const struct screen_view *view)
{
	struct screen_area left = area, right = area;
	int taken;

	left.right = area.right * 45 / 100;
	right.left = left.right + 1;
	draw_tasks(frame, left, model, view);
	right.height = area.height / 2;
	taken = draw_figures(frame, right, model, view);
	/* A blank line, where two panes have their lines without it. */
	taken += !model->late_count || area.height - taken > 4;
	right.top += taken;
	right.height = area.height - taken;
	draw_late_below(frame, &right, 2, model, view);
	draw_blocks(frame, right, model, view);
}

static void draw_stacked(struct screen_frame *frame, struct screen_area area,
			 const struct screen_model *model, const struct screen_view *view)
{
	struct screen_area figures = area, tasks = area, blocks = area;
	int taken;

	figures.height = frame->height >= LOW ? area.height / 3 : area.height < 2 ? area.height : 2;
	taken = draw_figures(frame, figures, model, view);
	area.top += taken;
	area.height -= taken;
	draw_late_below(frame, &area, 4, model, view);
	/* Its title and what there is, two fifths of the room at the most. */
	blocks.height = 1 + (model->block_count ? (int)model->block_count : model->has_targets);
	if (blocks.height > 1 + area.height * 2 / 5)
		blocks.height = 1 + area.height * 2 / 5;
	tasks.top = area.top;
	tasks.height = area.height - blocks.height;
	blocks.top = tasks.top + tasks.height;
	draw_tasks(frame, tasks, model, view);
	draw_blocks(frame, blocks, model, view);
}

void screen_draw(struct screen_frame *frame, const struct screen_model *model,
		 struct screen_view *view)
{
	int height = frame->height, top = height >= LOW ? 2 : 1;
	int events = height >= 50 ? 5 : height >= 24 ? 2 : height >= 16 ? 1 : 0;
	struct screen_area area = {top, height - top - events - 1, 0, frame->width};

	draw_title(frame, model, view);
	if (height >= LOW)
		draw_losses(frame, 1, model);
	if (view->help)
		draw_help(frame, area);
	else if (view->frozen)
		draw_frozen(frame, area, model, view);
	else if (frame->width >= WIDE)
		draw_side_by_side(frame, area, model, view);
	else
		draw_stacked(frame, area, model, view);
	draw_events(frame, height - 1 - events, events, model);
	if (height > 1)
		draw_keys(frame, view);
}
