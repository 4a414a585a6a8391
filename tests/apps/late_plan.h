/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frames late_app plays: late ones in an order that is drawn by lot, frames in time among
 * them; and what became of them, as a file. */
#pragma once
#include "late_ways.h"

struct pattern {
	uint8_t ways[CAUSES];
};

static unsigned seed = 1;

static int64_t by_lot(int64_t least, int64_t most)
{
	return least + (int64_t)rand_r(&seed) % (most - least + 1);
}

static bool works(enum way way)
{
	if (way == WAY_DISK || way == WAY_DISK_RENDER || way == WAY_FAULT_DISK)
		return app.has_disk;
	if (way == WAY_FAULT_USER)
		return app.has_fault;
	if (way == WAY_BINDER)
		return app.has_binder;
	return way != WAY_NONE;
}

static bool parse_pattern(char *text, struct pattern *pattern)
{
	char *save, *word = strtok_r(text, "+", &save);

	*pattern = (struct pattern){0};
	for (int i = 0; i < CAUSES && word; i++, word = strtok_r(NULL, "+", &save)) {
		enum way way = 1;

		while (way < WAYS && strcmp(way_names[way].name, word))
			way++;
		if (way == WAYS) {
			fprintf(stderr, "late_app: no way is called %s\n", word);
			exit(2);
		}
		if (!works(way))
			return false;
		pattern->ways[i] = (uint8_t)way;
	}
	return true;
}

static size_t frame_count;

static struct frame *add_frame(int hz)
{
	struct frame *f = &shared->frames[frame_count];

	must(frame_count < MAX_FRAMES, "too many frames");
	f->token = 7000 + (int32_t)frame_count++;
	f->hz = hz;
	f->period_ns = 1000000000ll / hz;
	return f;
}

static void plan_late(const struct pattern *pattern, int hz)
{
	struct frame *f = add_frame(hz);
	bool two = pattern->ways[1];
	/* from a little too much to two refreshes */
	int64_t all_ns = f->period_ns * by_lot(two ? 150 : 115, 220) / 100;
	int64_t share = app.share ? app.share : by_lot(38, 62);

	memcpy(f->ways, pattern->ways, sizeof(f->ways));
	f->planned_ns[0] = two ? all_ns * share / 100 : all_ns;
	f->planned_ns[1] = all_ns - f->planned_ns[0];
	/* the display has a period of its own beside the app's */
	if (two && pattern->ways[1] >= WAY_SF_CPU) {
		f->planned_ns[0] = f->period_ns * by_lot(110, 170) / 100;
		f->planned_ns[1] = f->period_ns * by_lot(110, 170) / 100;
	}
	for (unsigned n = app.calm ? app.calm : (unsigned)by_lot(1, 3); n; n--)
		add_frame(hz);
}

static void plan(const char *argument)
{
	char ways[512] = "", *save, *word;
	struct pattern patterns[64], lot[MAX_FRAMES];
	size_t count = 0, total = 0;
	int hz, frames;

	must(sscanf(argument, "%d:%d:%511s", &hz, &frames, ways) == 3 && hz > 0, argument);
	if (!strcmp(ways, "all"))
		for (enum way way = 1; way < WAYS && count < 64; way++)
			if (works(way))
				patterns[count++] = (struct pattern){{(uint8_t)way}};
	for (word = strcmp(ways, "all") ? strtok_r(ways, ",", &save) : NULL; word && count < 64;
	     word = strtok_r(NULL, ",", &save))
		count += parse_pattern(word, &patterns[count]);
	for (size_t i = 0; i < count; i++)
		for (int n = 0; n < frames && total < MAX_FRAMES; n++)
			lot[total++] = patterns[i];
	add_frame(hz);
	add_frame(hz);
	while (total) {
		size_t i = (size_t)by_lot(0, (int64_t)total - 1);

		plan_late(&lot[i], hz);
		lot[i] = lot[--total];
	}
}

static void tell_truth(const char *folder)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/truth.json", folder);
	file = fopen(path, "w");
	must(file, path);
	for (size_t i = 0; i < frame_count; i++) {
		const struct frame *f = &shared->frames[i];
#define KEY(name) fprintf(file, ",\"%s\":%lld", #name, (long long)f->name)
		fprintf(file, "%s{\"ways\":[", i ? ",\n" : "[");
		for (int n = 0; n < CAUSES && f->ways[n]; n++)
			fprintf(file,
				"%s{\"way\":\"%s\",\"cause\":\"%s\",\"planned_ns\":%lld,"
				"\"took_ns\":%lld,\"off_ns\":%lld}",
				n ? "," : "", way_names[f->ways[n]].name,
				way_names[f->ways[n]].cause, (long long)f->planned_ns[n],
				(long long)f->took_ns[n], (long long)f->off_ns[n]);
		fprintf(file, "],\"hz\":%d", f->hz);
		KEY(token), KEY(period_ns), KEY(expected_start_ns), KEY(expected_end_ns);
		KEY(predicted_ns), KEY(begin_ns), KEY(asked_ns), KEY(end_ns), KEY(queued_ns);
		KEY(ready_ns), KEY(marked_ns), KEY(wake_ns), KEY(finish_ns), KEY(present_ns),
			KEY(main_ran_ns);
		KEY(main_waited_ns), KEY(render_ran_ns), KEY(render_waited_ns), KEY(sf_ran_ns);
		KEY(sf_waited_ns), KEY(stuffed_ns);
		fputc('}', file);
	}
	fputs("]\n", file);
	must(!fclose(file), path);
}
