/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the footer: a row for each scene, and what the targets did in the foreground and in the
 * background. */
#include <stdio.h>

#include "sink/table_private.h"

#define MANY 12 /* scenes that are shown; a recording has all */

/* The columns, by the keys of a scene and of a state ("foreground"): a process-second is a second
 * of one process. */
static const struct column {
	const char *of_scene, *of_state;
	int width, digits;
	double unit;
} columns[] = {
	{"dur_ns", "process_dur_ns", 8, 3, 1e9},
	{"cpu.busy_ns", NULL, 7, 3, 1e9},
	{"targets.cpu_ns", "cpu_ns", 8, 3, 1e9},
	{"frames.shown", "frames.shown", 6, 0, 1},
	{"frames.janky", "frames.janky", 6, 0, 1},
	{"blocks.count", "blocks.count", 6, 0, 1},
	{"blocks.total_ns", "blocks.total_ns", 6, 2, 1e9},
};

/* What was not measured while the scene was open, or in that state, is no 0. state NULL: the sums
 * are a scene's. */
static void put_columns(struct line *line, const struct record_footer *sums, const char *state)
{
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		const struct column *column = &columns[i];
		const struct summary_total *total = NULL;
		char key[48];

		snprintf(key, sizeof(key), "%s.%s", state ?: "", column->of_state ?: "");
		if (!state || column->of_state)
			total = table_find_total(sums, state ? key : column->of_scene);
		if (total)
			line_put(line, " %*.*f", column->width, column->digits,
				 total->value / column->unit);
		else
			line_put(line, " %*s", column->width, "-");
	}
}

static void print_states(struct table_sink *table, const struct record_footer *footer)
{
	static const char *const states[] = {"foreground", "background", "mixed", "unknown"};
	struct line line = table_line(table);
	char key[32];
	bool any = false;

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		snprintf(key, sizeof(key), "%s.process_dur_ns", states[i]);
		if (!table_find_total(footer, key))
			continue;
		if (!any) {
			line_style(&line, LINE_DIM);
			line_put(&line,
				 "   PROC s         TARGET s  SHOWN  JANKY BLOCKS   in s  WHILE");
			line_end(&line);
		}
		any = true;
		line = table_line(table);
		put_columns(&line, footer, states[i]);
		line_put(&line, "  %s", states[i]);
		line_end(&line);
	}
}

void table_print_scenes(struct table_sink *table, const struct record_footer *footer)
{
	size_t shown = footer->scene_count < MANY ? footer->scene_count : MANY;
	struct line line = table_line(table);

	print_states(table, footer);
	if (!footer->scene_count)
		return;
	line_style(&line, LINE_DIM);
	line_put(&line, "   TIME s   CPU s TARGET s  SHOWN  JANKY BLOCKS   in s  SCENE, times");
	line_end(&line);
	for (size_t i = 0; i < shown; i++) {
		const struct footer_scene *scene = &footer->scenes[i];
		char name[TABLE_NAME];

		line = table_line(table);
		put_columns(&line, &scene->sums, NULL);
		line_put(&line, "  %s", text_tail(name, sizeof(name), scene->name, 20));
		if (scene->times)
			line_put(&line, " x%llu", (unsigned long long)scene->times);
		line_end(&line);
	}
	if (shown < footer->scene_count) {
		line = table_line(table);
		line_put(&line, "  and %zu scenes more (a recording has them all)",
			 footer->scene_count - shown);
		line_end(&line);
	}
}
