/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/dumpsys.h"
#include <string.h>

#define NO_TIME INT64_MAX     /* a fence that did not signal yet */
#define LONGEST 10000000000LL /* JankTracker ignores longer frames too */

enum framestats_column {
	COLUMN_FLAGS = 0,
	COLUMN_INTENDED,
	COLUMN_DEADLINE,
	COLUMN_INTERVAL,
	COLUMN_COMPLETED,
	COLUMN_PRESENT,
	COLUMN_COUNT,
};

static const char *const column_names[COLUMN_COUNT] = {
	"Flags",         "IntendedVsync",  "FrameDeadline",
	"FrameInterval", "FrameCompleted", "DisplayPresentTime",
};

static void loss(struct dumpsys *d, const char *reason)
{
	if (d->events->loss)
		d->events->loss(d->ctx, reason, 1);
}

/* A number that ends at the end of the text or before one of stops. */
static bool number(const char **text, const char *end, int64_t *value)
{
	const char *p = *text;
	uint64_t sum = 0;
	bool negative = p < end && *p == '-';

	p += negative;
	if (p == end || *p < '0' || *p > '9')
		return false;
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (sum > (uint64_t)INT64_MAX / 10)
			return false;
		sum = sum * 10 + (uint64_t)(*p - '0');
	}
	if (sum > INT64_MAX)
		return false;
	*value = negative ? -(int64_t)sum : (int64_t)sum;
	*text = p;
	return true;
}

/* "period" alone on a line, or "desired<TAB>present<TAB>ready". */
static bool latency_line(struct dumpsys *d, const char *line, size_t size)
{
	const char *pos = line, *end = line + size;
	int64_t values[3];
	unsigned n = 0;

	while (pos < end) {
		if (n == 3 || !number(&pos, end, &values[n++]))
			return false;
		if (pos < end && *pos != '\t' && *pos != ' ' && *pos != '\r')
			return false;
		while (pos < end && (*pos == '\t' || *pos == ' ' || *pos == '\r'))
			pos++;
	}
	if (n == 1 && values[0] >= 1000000 && values[0] <= 1000000000) {
		if (d->events->period)
			d->events->period(d->ctx, values[0]);
		return true;
	}
	if (n != 3)
		return false;
	if (values[1] == NO_TIME || values[2] == NO_TIME)
		loss(d, "frames_without_present_time");
	else if (values[1] <= 0)
		loss(d, "empty_latency_rows"); /* of a buffer that asked for no time, [0] is 0 */
	else if (d->events->present)
		d->events->present(d->ctx, values[0], values[1], values[2]);
	return true;
}

static void profile_header(struct dumpsys *d, const char *line, size_t size)
{
	const char *pos = line, *end = line + size;

	d->column_count = 0;
	d->has_header = true;
	while (pos < end && d->column_count < FRAMESTATS_COLUMNS) {
		const char *comma = memchr(pos, ',', (size_t)(end - pos));
		size_t n = (size_t)((comma ? comma : end) - pos);
		int column = -1;

		for (int i = 0; i < COLUMN_COUNT; i++) {
			if (strlen(column_names[i]) == n && !memcmp(pos, column_names[i], n))
				column = i;
		}
		d->columns[d->column_count++] = column;
		pos += n + 1;
	}
}

static void profile_row(struct dumpsys *d, const char *line, size_t size)
{
	const char *pos = line, *end = line + size;
	int64_t values[COLUMN_COUNT] = {0};
	bool seen[COLUMN_COUNT] = {false};

	for (unsigned i = 0; i < d->column_count && pos < end; i++) {
		int64_t value;

		if (!number(&pos, end, &value)) {
			loss(d, "malformed_framestats_rows");
			return;
		}
		if (d->columns[i] >= 0) {
			values[d->columns[i]] = value;
			seen[d->columns[i]] = true;
		}
		if (pos < end && *pos == ',')
			pos++;
	}
	if (!seen[COLUMN_INTENDED] || !seen[COLUMN_COMPLETED]) {
		loss(d, "malformed_framestats_rows");
		return;
	}
	/* flags: first frame, window layout changed, surface canvas: not frames of an animation */
	if (values[COLUMN_FLAGS]) {
		loss(d, "framestats_rows_with_flags");
		return;
	}
	if (values[COLUMN_COMPLETED] == NO_TIME || values[COLUMN_INTENDED] == NO_TIME ||
	    values[COLUMN_INTENDED] <= 0 || values[COLUMN_COMPLETED] < values[COLUMN_INTENDED] ||
	    values[COLUMN_COMPLETED] - values[COLUMN_INTENDED] > LONGEST) {
		loss(d, "framestats_rows_without_times");
		return;
	}
	if (values[COLUMN_PRESENT] == NO_TIME || values[COLUMN_PRESENT] < 0)
		values[COLUMN_PRESENT] = 0;
	d->rows++;
	if (d->events->frame_stats)
		d->events->frame_stats(
			d->ctx,
			&(struct trace_frame_stats){
				.pid = d->pid,
				.package = d->package,
				.package_size = d->package_size,
				.window = d->window,
				.window_size = d->window_size,
				.section = d->summary_lines && d->sections ? d->sections - 1 : 0,
				.intended_ns = values[COLUMN_INTENDED],
				.completed_ns = values[COLUMN_COMPLETED],
				.deadline_ns = values[COLUMN_DEADLINE],
				.interval_ns = values[COLUMN_INTERVAL],
				.present_ns = values[COLUMN_PRESENT],
			});
}

/* Whose rows follow: "\tTitle/android.view.ViewRootImpl@66ac8b1 (visibility=0)" of
 * WindowManagerGlobal, which tells two windows of one title apart, or HWUI's "Window: Title". */
static void window_line(struct dumpsys *d, const char *line, size_t size)
{
	static const char head[] = "Window: ", root[] = "/android.view.ViewRootImpl@";
	const char *end = line + size, *found;

	if (line[0] == '\t') {
		end = memmem(line, size, " (visibility=", 13);
		if (!end)
			return;
		line++;
	} else if (size > sizeof(head) && !memcmp(line, head, sizeof(head) - 1) &&
		   !d->window_size) {
		line += sizeof(head) - 1;
	} else {
		return;
	}
	size = (size_t)(end - line);
	if (!size || size > sizeof(d->window))
		return;
	memcpy(d->window, line, size);
	d->window_size = size;
	found = memmem(d->window, size, root, sizeof(root) - 1);
	if (found) {
		size_t at = (size_t)(found - d->window), cut = sizeof(root) - 2;

		memmove(d->window + at, found + cut, size - at - cut);
		d->window_size -= cut;
	}
}

static const struct {
	const char *head;
	enum gfx_counter counter;
} summary_names[] = {
	{"Total frames rendered: ", GFX_TOTAL},
	{"Janky frames: ", GFX_JANKY},
	{"Janky frames (legacy): ", GFX_JANKY_LEGACY},
	{"50th percentile: ", GFX_P50_MS},
	{"90th percentile: ", GFX_P90_MS},
	{"95th percentile: ", GFX_P95_MS},
	{"99th percentile: ", GFX_P99_MS},
	{"Number Missed Vsync: ", GFX_MISSED_VSYNC},
	{"Number High input latency: ", GFX_HIGH_INPUT_LATENCY},
	{"Number Slow UI thread: ", GFX_SLOW_UI},
	{"Number Slow bitmap uploads: ", GFX_SLOW_BITMAPS},
	{"Number Slow issue draw commands: ", GFX_SLOW_DRAW},
	{"Number Frame deadline missed: ", GFX_DEADLINE_MISSED},
};

/* The first of each counts: the windows of a process have their own further down. */
static bool summary_line(struct dumpsys *d, const char *line, size_t size)
{
	for (size_t i = 0; i < sizeof(summary_names) / sizeof(summary_names[0]); i++) {
		size_t n = strlen(summary_names[i].head);
		const char *pos = line + n;
		int64_t value;

		if (size <= n || memcmp(line, summary_names[i].head, n))
			continue;
		if (!number(&pos, line + size, &value) || value < 0 || value == INT64_MAX)
			return false;
		if (!d->counters[summary_names[i].counter])
			d->counters[summary_names[i].counter] = value + 1;
		return true;
	}
	return false;
}

void dumpsys_finish(struct dumpsys *d)
{
	struct trace_gfx_summary summary = {
		.pid = d->pid, .package = d->package, .package_size = d->package_size};

	for (unsigned i = 0; i < GFX_COUNTERS; i++)
		summary.counters[i] = d->counters[i] - 1;
	if (d->counters[GFX_TOTAL] && d->events->gfx_summary)
		d->events->gfx_summary(d->ctx, &summary);
	memset(d->counters, 0, sizeof(d->counters));
}

/* "** Graphics info for pid 2599 [com.example] **" */
static bool graphics_info(struct dumpsys *d, const char *line, size_t size)
{
	static const char head[] = "** Graphics info for pid ";
	const char *pos = line + sizeof(head) - 1, *end = line + size, *close;
	int64_t pid;

	if (size < sizeof(head) || memcmp(line, head, sizeof(head) - 1) || !number(&pos, end, &pid))
		return false;
	dumpsys_finish(d);
	d->pid = (int32_t)pid;
	d->package_size = 0;
	if (end - pos > 2 && pos[0] == ' ' && pos[1] == '[') {
		pos += 2;
		close = memchr(pos, ']', (size_t)(end - pos));
		if (close && (size_t)(close - pos) < sizeof(d->package)) {
			d->package_size = (size_t)(close - pos);
			memcpy(d->package, pos, d->package_size);
		}
	}
	d->summary_lines++;
	d->sections = 0;
	d->window_size = 0;
	return true;
}

bool dumpsys_line(struct dumpsys *d, const char *line, size_t size)
{
	static const char profile[] = "---PROFILEDATA---";

	while (size && (line[size - 1] == '\r' || line[size - 1] == ' '))
		size--;
	if (size == sizeof(profile) - 1 && !memcmp(line, profile, size)) {
		d->in_profile = !d->in_profile;
		d->has_header = false;
		if (d->in_profile)
			d->sections++;
		else
			d->window_size = 0;
		return true;
	}
	if (d->in_profile) {
		if (!d->has_header)
			profile_header(d, line, size);
		else if (size)
			profile_row(d, line, size);
		return true;
	}
	if (!size)
		return false;
	if (line[0] == '*')
		return graphics_info(d, line, size);
	if (d->summary_lines && summary_line(d, line, size))
		return true;
	if (line[0] >= '0' && line[0] <= '9')
		return latency_line(d, line, size);
	if (d->summary_lines && (line[0] == '\t' || line[0] == 'W'))
		window_line(d, line, size);
	return false;
}
