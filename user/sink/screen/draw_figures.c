/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames with their graph, bytes, memory and heat. */
#include <stdio.h>

#include "sink/screen/draw.h"
#include "util/units.h"

#define MAX_LAYERS 4
#define MAX_BYTES  4
#define MAX_MEMORY 4
/* Fewer lines have all but the frames in one. */
#define COMPACT 4
/* Up to here the graph is full where nobody tells the refresh rate. */
#define USUAL_RATE 60.0

static void put_graph(struct screen_frame *frame, int row, int end,
		      const struct screen_layer *layer, int columns)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	double most = layer->period_ns.present && layer->period_ns.value
			      ? 1e9 / (double)layer->period_ns.value
			      : USUAL_RATE;
	size_t count = layer->count < (size_t)columns ? layer->count : (size_t)columns;
	size_t first = layer->count - count;

	for (size_t i = first; i < layer->count; i++)
		if (layer->rate[i] > most)
			most = layer->rate[i];
	frame_put(frame, row, end, STYLE_PLAIN, "%*s", columns - (int)count, "");
	for (size_t i = first; i < layer->count; i++) {
		double rate = layer->rate[i];
		/* What is not nothing is seen. */
		int level = rate <= 0 ? 0 : 1 + (int)(7 * rate / most + 0.5);

		frame_put(frame, row, end, layer->late[i] ? STYLE_WARN : STYLE_PLAIN, "%s",
			  (frame->utf8 ? blocks : ascii)[level > 8 ? 8 : level]);
	}
}

static void put_layer(struct screen_frame *frame, int row, const struct screen_area *area,
		      const struct screen_model *model, const struct screen_layer *layer,
		      bool first)
{
	int width = area->right - area->left, graph = width / 4;

	frame_put(frame, row, area->right, STYLE_HEAD, first ? "FRAMES" : "      ");
	if (!layer) {
		frame_put(frame, row, area->right, STYLE_DIM, " %s",
			  model->has_frames ? "none was shown" : "not measured (--frames)");
		return;
	}
	frame_put(frame, row, area->right, STYLE_PLAIN, " %5.1f/s ",
		  layer->count ? (double)layer->rate[layer->count - 1] : 0);
	put_graph(frame, row, area->right, layer, graph > 60 ? 60 : graph);
	frame_put(frame, row, area->right, layer->janky ? STYLE_WARN : STYLE_PLAIN, " %llu janky",
		  (unsigned long long)layer->janky);
	if (width >= 60)
		frame_put(frame, row, area->right, layer->dropped ? STYLE_WARN : STYLE_PLAIN,
			  " %llu dropped", (unsigned long long)layer->dropped);
	if (width >= 70 && layer->fps_active > 0)
		frame_put(frame, row, area->right, STYLE_PLAIN, " fps_active %.1f",
			  layer->fps_active);
	frame_put(frame, row, area->right, STYLE_PLAIN, " ");
	frame_put_column(frame, row, area->right, STYLE_DIM, frame_left(frame, row, area->right),
			 layer->name);
}

/* "1.5 MiB/s" of what came in an interval. */
static const char *rate(char text[40], uint64_t bytes, uint64_t dur_ns)
{
	char amount[32];

	snprintf(text, 40, "%s/s",
		 format_bytes(amount, sizeof(amount),
			      dur_ns ? (uint64_t)((double)bytes * 1e9 / (double)dur_ns) : 0));
	return text;
}

static void put_net(struct screen_frame *frame, int row, int end, const struct screen_interval *now)
{
	char rx[40], tx[40];

	frame_put(frame, row, end, STYLE_HEAD, "NET");
	if (now->has_net)
		frame_put(frame, row, end, STYLE_PLAIN, " rx %s tx %s",
			  rate(rx, now->rx_bytes, now->dur_ns),
			  rate(tx, now->tx_bytes, now->dur_ns));
	else
		frame_put(frame, row, end, STYLE_DIM, " not measured");
}

static void put_system_memory(struct screen_frame *frame, int row, int end,
			      const struct screen_interval *now)
{
	char available[32], total[32];

	frame_put(frame, row, end, STYLE_HEAD, "MEM");
	if (now->available_bytes.present && now->total_bytes.present)
		frame_put(frame, row, end, STYLE_PLAIN, " %s of %s available",
			  format_bytes(available, sizeof(available), now->available_bytes.value),
			  format_bytes(total, sizeof(total), now->total_bytes.value));
	else
		frame_put(frame, row, end, STYLE_DIM, " -");
}

static void put_heat(struct screen_frame *frame, int row, int end,
		     const struct screen_interval *now)
{
	frame_put(frame, row, end, STYLE_HEAD, "HEAT");
	if (now->capped[0])
		frame_put(frame, row, end, STYLE_BAD, " capped%s", now->capped);
	if (now->zones[0])
		frame_put(frame, row, end, STYLE_PLAIN, " %s", now->zones);
	if (now->power[0])
		frame_put(frame, row, end, STYLE_PLAIN, "%s battery%s", now->zones[0] ? "," : "",
			  now->power);
	if (!now->zones[0] && !now->power[0])
		frame_put(frame, row, end, STYLE_DIM, " not told here");
}

static void put_bytes_row(struct screen_frame *frame, int row, int end,
			  const struct screen_bytes *bytes, uint64_t dur_ns)
{
	char rx[40], tx[40];

	frame_put(frame, row, end, STYLE_PLAIN, "  rx %12s tx %12s ",
		  rate(rx, bytes->rx_bytes, dur_ns), rate(tx, bytes->tx_bytes, dur_ns));
	frame_put_column(frame, row, end, STYLE_DIM, frame_left(frame, row, end), bytes->name);
}

static void put_memory_row(struct screen_frame *frame, int row, int end,
			   const struct screen_process *process)
{
	char bytes[32];

	frame_put(frame, row, end, STYLE_PLAIN, " ");
	if (process->pss_bytes.present)
		frame_put(frame, row, end, STYLE_PLAIN, " PSS %9s",
			  format_bytes(bytes, sizeof(bytes), process->pss_bytes.value));
	if (process->rss_bytes.present)
		frame_put(frame, row, end, STYLE_PLAIN, " RSS %9s",
			  format_bytes(bytes, sizeof(bytes), process->rss_bytes.value));
	if (process->swap_bytes.present)
		frame_put(frame, row, end, STYLE_PLAIN, " swap %9s",
			  format_bytes(bytes, sizeof(bytes), process->swap_bytes.value));
	frame_put(frame, row, end, STYLE_PLAIN, " %d ", process->pid);
	frame_put_column(frame, row, end, STYLE_DIM, frame_left(frame, row, end), process->name);
}

static void put_gap(struct screen_frame *frame, int row, const struct screen_area *area)
{
	if (area->left)
		frame_to_column(frame, row, area->left);
}

/* Bytes, memory and heat in one line. */
static int draw_compact(struct screen_frame *frame, struct screen_area area,
			const struct screen_interval *now)
{
	put_gap(frame, area.top, &area);
	if (!now)
		return 1;
	put_net(frame, area.top, area.right, now);
	frame_put(frame, area.top, area.right, STYLE_PLAIN, "  ");
	put_system_memory(frame, area.top, area.right, now);
	frame_put(frame, area.top, area.right, STYLE_PLAIN, "  ");
	put_heat(frame, area.top, area.right, now);
	return 1;
}

/* The indices of the rows that pass the filter. */
static size_t filter_bytes(const struct screen_view *view, const struct screen_interval *now,
			   size_t *rows, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < now->bytes_count && count < room; i++)
		if (view_matches(view, (const char *const[]){now->bytes[i].name}, 1))
			rows[count++] = i;
	return count;
}

static size_t filter_memory(const struct screen_view *view, const struct screen_interval *now,
			    size_t *rows, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < now->memory_count && count < room; i++)
		if (view_matches(view, (const char *const[]){now->memories[i].name}, 1))
			rows[count++] = i;
	return count;
}

/* Of so many lines both get one in turn. */
static void share(int *first, int *second, int lines)
{
	int firsts = 0, seconds = 0;

	for (int i = 0; i < 2 * lines && firsts + seconds < lines; i++) {
		if (i % 2)
			seconds += seconds < *second;
		else
			firsts += firsts < *first;
	}
	*first = firsts;
	*second = seconds;
}

int draw_figures(struct screen_frame *frame, struct screen_area area,
		 const struct screen_model *model, const struct screen_view *view)
{
	const struct screen_interval *now = model->now;
	size_t bytes_rows[MAX_BYTES], memory_rows[MAX_MEMORY];
	int layers = model->layer_count < MAX_LAYERS ? (int)model->layer_count : MAX_LAYERS;
	int bytes = now ? (int)filter_bytes(view, now, bytes_rows, MAX_BYTES) : 0;
	int memory = now ? (int)filter_memory(view, now, memory_rows, MAX_MEMORY) : 0;
	int row = area.top, spare;
	bool compact = area.height < COMPACT;

	if (area.height < 1)
		return 0;
	spare = area.height - (compact ? 2 : 4);
	if (layers > 1 + (spare > 0 ? spare : 0))
		layers = 1 + (spare > 0 ? spare : 0);
	spare -= layers > 1 ? layers - 1 : 0;
	for (int i = 0; i < (layers ? layers : 1); i++) {
		put_gap(frame, row, &area);
		put_layer(frame, row++, &area, model, layers ? &model->layers[i] : NULL, !i);
	}
	if (area.height < 2)
		return row - area.top;
	if (compact || !now)
		return row - area.top +
		       draw_compact(frame, (struct screen_area){row, 1, area.left, area.right},
				    now);
	share(&memory, &bytes, spare);
	put_gap(frame, row, &area);
	put_net(frame, row++, area.right, now);
	for (int i = 0; i < bytes; i++) {
		put_gap(frame, row, &area);
		put_bytes_row(frame, row++, area.right, &now->bytes[bytes_rows[i]], now->dur_ns);
	}
	put_gap(frame, row, &area);
	put_system_memory(frame, row++, area.right, now);
	for (int i = 0; i < memory; i++) {
		put_gap(frame, row, &area);
		put_memory_row(frame, row++, area.right, &now->memories[memory_rows[i]]);
	}
	put_gap(frame, row, &area);
	put_heat(frame, row++, area.right, now);
	return row - area.top;
}
