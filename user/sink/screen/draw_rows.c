/* SPDX-License-Identifier: BSD-2-Clause */
/* The panes of tasks and blocks, and a frozen block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/screen/draw.h"
#include "sink/table_private.h"
#include "sink/text.h"

/* ---- tasks ---- */

/* Nine columns with the blank before them. */
static void put_ms(struct screen_frame *frame, int row, int end, enum screen_style style,
		   struct opt_u64 ns)
{
	if (!ns.present)
		frame_put(frame, row, end, style, " %8s", "-");
	else if (table_ms(ns.value) < 999999.95)
		frame_put(frame, row, end, style, " %8.1f", table_ms(ns.value));
	else
		frame_put(frame, row, end, style, " %7.0fs", (double)ns.value / 1e9);
}

static void put_count(struct screen_frame *frame, int row, int end, enum screen_style style,
		      struct opt_u64 count)
{
	if (!count.present)
		frame_put(frame, row, end, style, " %6s", "-");
	else if (count.value < 1000000)
		frame_put(frame, row, end, style, " %6llu", (unsigned long long)count.value);
	else
		frame_put(frame, row, end, style, " %5lluM",
			  (unsigned long long)(count.value / 1000000) % 100000);
}

static void put_task(struct screen_frame *frame, int row, int end, int width,
		     const struct screen_task *task, double dur_ns)
{
	double pct = table_core_pct(task->cpu_ns, dur_ns);
	enum screen_style style = pct >= 50 ? STYLE_WARN : STYLE_PLAIN;
	char thread[TABLE_NAME];

	frame_put(frame, row, end, style, "%6.1f", pct < 99999 ? pct : 99999);
	if (width >= 80)
		put_ms(frame, row, end, style, SOME_U64(task->cpu_ns));
	if (width >= 46)
		put_ms(frame, row, end, style, task->runnable_ns);
	if (width >= 64 && task->tid) {
		put_count(frame, row, end, style, task->voluntary);
		put_count(frame, row, end, style, task->involuntary);
	}
	if (width >= 30)
		frame_put(frame, row, end, style, " %7d", task->tid ? task->tid : task->pid);
	frame_put(frame, row, end, style, " ");
	if (task->tid) {
		snprintf(thread, sizeof(thread), "%s%s", task->thread,
			 task->exited ? " ended" : "");
		frame_put_column(frame, row, end, style, width >= 60 ? 16 : 13, thread);
		frame_put(frame, row, end, style, " ");
		frame_put_column(frame, row, end, STYLE_DIM, frame_left(frame, row, end),
				 task->process);
		return;
	}
	if (width >= 46)
		frame_put(frame, row, end, style, "%4u ", task->threads);
	frame_put_column(frame, row, end, style, frame_left(frame, row, end), task->process);
}

static void put_task_heads(struct screen_frame *frame, int row, int end, int width,
			   const struct screen_view *view)
{
	enum screen_style dim = STYLE_DIM;

	frame_put(frame, row, end, dim, "%6s", "%core");
	if (width >= 80)
		frame_put(frame, row, end, dim, " %8s", "CPU ms");
	if (width >= 46)
		frame_put(frame, row, end, dim, " %8s", "wait ms");
	if (width >= 64 && !view->processes)
		frame_put(frame, row, end, dim, " %6s %6s", "vol", "invol");
	if (width >= 30)
		frame_put(frame, row, end, dim, " %7s", view->processes ? "PID" : "TID");
	if (view->processes)
		frame_put(frame, row, end, dim, width >= 46 ? " THRS PROCESS" : " PROCESS");
	else
		frame_put(frame, row, end, dim, " %-*s PROCESS", width >= 60 ? 16 : 13, "THREAD");
}

void draw_tasks(struct screen_frame *frame, struct screen_area area,
		const struct screen_model *model, const struct screen_view *view)
{
	const struct screen_interval *now = model->now;
	int width = area.right - area.left, row = area.top, end = area.right, rows;
	const struct screen_task **tasks;
	size_t count;

	if (area.height < 1)
		return;
	tasks = view_tasks(view, model, &count);
	frame_put(frame, row, end, STYLE_HEAD, view->processes ? "PROCESSES" : "TASKS");
	frame_put(frame, row, end, STYLE_PLAIN, " %zu", count);
	frame_put(frame, row, end, STYLE_DIM, " by %s", view_sort_name(view->sort));
	if (now && now->left_out && !view->processes)
		frame_put(frame, row, end, STYLE_DIM, ", %zu more", now->left_out);
	if (view->filter[0])
		frame_put(frame, row, end, STYLE_WARN, " (filtered)");
	row++;
	rows = area.height - 1;
	/* Where there is little room the title is enough. */
	if (rows > 2) {
		put_task_heads(frame, row++, end, width, view);
		rows--;
	}
	for (int i = 0; tasks && i < rows && i < (int)count; i++)
		put_task(frame, row++, end, width, tasks[i], (double)now->dur_ns);
	free(tasks);
}

/* ---- blocks ---- */

enum screen_style block_style(const struct screen_block *block)
{
	return block->class == BLOCK_ANR ? STYLE_BAD : STYLE_WARN;
}

const char *block_class_name(const struct screen_block *block)
{
	static const char *const names[] = {"short", "long", "ANR"};

	return names[block->class];
}

static void put_block(struct screen_frame *frame, int row, const struct screen_area *area,
		      const struct screen_block *block, bool picked)
{
	static const char *const states[] = {"open", "", "died"};
	int width = area->right - area->left, end = area->right, left;
	enum screen_style style = picked ? STYLE_PICKED : STYLE_PLAIN;

	/* Without colours the mark is what tells. */
	frame_put(frame, row, end, style, picked ? ">" : " ");
	if (width >= 56)
		frame_put(frame, row, end, style, "%s ", block->time);
	frame_put(frame, row, end, picked ? style : block_style(block), "%-5s %8.1f ms",
		  block_class_name(block), table_ms(block->wall_ns));
	frame_put(frame, row, end, style, " %-4s ", states[block->state]);
	if (width >= 100)
		frame_put(frame, row, end, style, "run %u wait %u sleep %u D %u %%  ",
			  block->running_pct, block->runnable_pct, block->sleeping_pct,
			  block->uninterruptible_pct);
	left = frame_left(frame, row, end);
	if (left > 20) {
		int room = left / 3, columns = text_columns(block->process);

		frame_put_column(frame, row, end, style, columns < room ? columns : room,
				 block->process);
		frame_put(frame, row, end, style, " ");
	}
	frame_put(frame, row, end, style, "%s", block->told);
}

void draw_blocks(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, const struct screen_view *view)
{
	struct screen_block *blocks[SCREEN_BLOCKS];
	int count = (int)view_blocks(view, model, blocks), rows = area.height - 1, first = 0;

	if (area.height < 1)
		return;
	if (area.left)
		frame_to_column(frame, area.top, area.left);
	frame_put(frame, area.top, area.right, STYLE_HEAD, "BLOCKS");
	frame_put(frame, area.top, area.right, STYLE_PLAIN, " %llu",
		  (unsigned long long)model->blocks_seen);
	if (!model->has_targets)
		frame_put(frame, area.top, area.right, STYLE_DIM,
			  ": those of targets are told (-p, -u)");
	/* The one that is picked is in sight. */
	for (int i = 0; i < count; i++)
		if (view_is_picked(view, blocks[i]) && i >= rows)
			first = i - rows + 1;
	for (int i = 0; i < rows && first + i < count; i++) {
		if (area.left)
			frame_to_column(frame, area.top + 1 + i, area.left);
		put_block(frame, area.top + 1 + i, &area, blocks[first + i],
			  view_is_picked(view, blocks[first + i]));
	}
}

/* ---- a frozen block ---- */

/* What is too long for a line goes on in the next one. Returns how many lines it takes; those from
 * `skip` on are drawn, `room` at the most. */
static int put_wrapped(struct screen_frame *frame, const struct screen_area *area, int row,
		       int skip, int room, const char *text)
{
	enum screen_style style = (enum screen_style)text[0];
	int width = area->right - area->left, lines = 0;
	char line[4096], clean[4096];
	size_t at = 0, length;

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(text + 1, "\n"), text + 1);
	text_clean(clean, sizeof(clean), line);
	do {
		int indent = lines && width > 12 ? 6 : 0;

		length = text_fitting(clean + at, width - indent);
		/* A character that is wider than the terminal. */
		if (!length && clean[at])
			break;
		if (lines >= skip && lines - skip < room)
			frame_put(frame, row + lines - skip, area->right, style, "%*s%.*s", indent,
				  "", (int)length, clean + at);
		at += length;
		lines++;
	} while (clean[at]);
	return lines;
}

static int count_lines(struct screen_frame *frame, const struct screen_area *area, const char *text)
{
	int lines = 0;

	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
		lines += put_wrapped(frame, area, 0, 0, 0, p);
	return lines;
}

static const struct screen_block *newer_of(const struct screen_model *model,
					   const struct screen_block *block)
{
	for (size_t i = 0; i < model->block_count; i++) {
		const struct screen_block *other = model->blocks[i];

		if (other != block && other->pid == block->pid && other->tid == block->tid &&
		    other->start_boot_ns == block->start_boot_ns)
			return other;
	}
	return NULL;
}

void draw_frozen(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, struct screen_view *view)
{
	const struct screen_block *block = view->frozen, *newer = newer_of(model, block);
	struct screen_area body = {area.top + 1, area.height - 1, area.left, area.right};
	int row = 0, total;

	frame_put(frame, area.top, area.right, block_style(block), "FROZEN %s block",
		  block_class_name(block));
	frame_put(frame, area.top, area.right, STYLE_PLAIN, " of %s", block->time);
	if (newer)
		frame_put(frame, area.top, area.right, STYLE_WARN,
			  " (by now %.1f ms%s: Esc, Enter)", table_ms(newer->wall_ns),
			  newer->state == BLOCK_CLOSED ? ", closed" : "");
	if (body.height < 1)
		return;
	total = count_lines(frame, &body, block->text);
	view->page = body.height;
	view->scroll_max = total > body.height ? total - body.height : 0;
	if (view->scroll > view->scroll_max)
		view->scroll = view->scroll_max;
	if (view->scroll_max)
		frame_put(frame, area.top, area.right, STYLE_DIM, "  %d-%d/%d", view->scroll + 1,
			  view->scroll + body.height, total);
	for (const char *p = block->text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		int at = row - view->scroll, skip = at < 0 ? -at : 0;
		int first = at < 0 ? 0 : at;

		row += put_wrapped(frame, &body, body.top + first, skip,
				   first < body.height ? body.height - first : 0, p);
	}
}
