/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the footer: a row for each scene. */
#include <stdio.h>

#include "sink/table_private.h"

#define MANY 12 /* scenes that are shown; a recording has all */

/* What was not measured while the scene was open is no 0. */
static void put(struct line *line, const struct record_footer *sums, const char *key, int width,
		double unit, int digits)
{
	const struct summary_total *total = table_find_total(sums, key);

	if (total)
		line_put(line, " %*.*f", width, digits, total->value / unit);
	else
		line_put(line, " %*s", width, "-");
}

void table_print_scenes(struct table_sink *table, const struct record_footer *footer)
{
	size_t shown = footer->scene_count < MANY ? footer->scene_count : MANY;
	struct line line = table_line(table);

	if (!footer->scene_count)
		return;
	line_style(&line, LINE_DIM);
	line_put(&line, "   TIME s   CPU s TARGET s  SHOWN  JANKY BLOCKS   in s  SCENE, times");
	line_end(&line);
	for (size_t i = 0; i < shown; i++) {
		const struct footer_scene *scene = &footer->scenes[i];
		char name[TABLE_NAME];

		line = table_line(table);
		put(&line, &scene->sums, "dur_ns", 8, 1e9, 3);
		put(&line, &scene->sums, "cpu.busy_ns", 7, 1e9, 3);
		put(&line, &scene->sums, "targets.cpu_ns", 8, 1e9, 3);
		put(&line, &scene->sums, "frames.shown", 6, 1, 0);
		put(&line, &scene->sums, "frames.janky", 6, 1, 0);
		put(&line, &scene->sums, "blocks.count", 6, 1, 0);
		put(&line, &scene->sums, "blocks.total_ns", 6, 1e9, 2);
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
