/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/html.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "record/fields.h"
#include "record/json_write.h"
#include "sink/hole.h"
#include "sink/html_blocks.h"
#include "sink/html_interval.h"
#include "sink/html_janks.h"
#include "sink/html_page.h"
#include "sink/thinned.h"
#include "sink/table.h"
#include "why/line.h"

#define SERIES_SHOWN 12 /* of a group and kind */

/* Bytes that a part of the data takes at the most: with all of them and the page the file is below
 * HTML_MAX_BYTES. The series are bounded by their number and THINNED_ROWS. */
#define RUN_BYTES     (256u << 10) /* header and summary of one run */
#define RUNS_BYTES    (768u << 10)
#define EVENTS_BYTES  (128u << 10)
#define HOLES         1000
#define SUMMARY_WIDTH 100

struct html {
	struct sink base;
	FILE *to;
	struct thinned *thinned;
	struct html_blocks *blocks;
	struct html_janks *janks;
	struct json_buffer runs, events, holes;
	uint64_t runs_left_out, events_left_out, holes_left_out, hole_count;
	/* of the run */
	char *header; /* its JSON, and the text of its head */
	char *text;
	size_t header_length, text_length;
	struct sink *table;
	FILE *table_to;
	uint64_t boot_ns, unix_ns;
	uint64_t end_boot_ns; /* of the interval before; 0: there was none */
	uint64_t last_x_ns;   /* of the run before */
	bool suspended;       /* since the interval before */
	bool judges_frames;   /* each late frame has its cause */
};

/* Where a moment of the boot clock is on the x axis: wall time where that is known. */
static uint64_t x_of(const struct html *html, uint64_t t_boot_ns)
{
	return html->unix_ns ? html->unix_ns + (t_boot_ns - html->boot_ns) : t_boot_ns;
}

/* ---- runs: header and summary ---- */

static int begin_text(struct html *html)
{
	const struct table_options options = {
		.width = SUMMARY_WIDTH, .wall_clock = true, .top = 15};

	html->table_to = open_memstream(&html->text, &html->text_length);
	if (!html->table_to)
		return -ENOMEM;
	html->table = table_sink_new(html->table_to, &options);
	return html->table ? 0 : -ENOMEM;
}

static void end_text(struct html *html)
{
	if (html->table)
		html->table->ops->close(html->table);
	if (html->table_to)
		fclose(html->table_to);
	html->table = NULL;
	html->table_to = NULL;
}

static void forget_run(struct html *html)
{
	end_text(html);
	free(html->header);
	free(html->text);
	html->header = html->text = NULL;
	html->header_length = html->text_length = 0;
	html->end_boot_ns = 0;
	html->suspended = false;
}

static int take_header(struct html *html, const struct record *record)
{
	struct json_buffer json = {0};
	int err;

	forget_run(html);
	html->boot_ns = record->header->clock.boot_ns;
	html->unix_ns = record->header->clock.unix_ns;
	html->judges_frames = record_header_judges_frames(record->header);
	json_put_fields(&json, record_types[RECORD_HEADER], record->header);
	html->header = json.text;
	html->header_length = json.length;
	err = json.failed ? -ENOMEM : begin_text(html);
	return err ? err : html->table->ops->write(html->table, record);
}

/* The text is what the summary of `report` prints, so that a figure is made in one place. */
static int take_footer(struct html *html, const struct record *record)
{
	struct json_buffer json = {0};
	int err = html->table ? 0 : begin_text(html);

	if (!err)
		err = html->table->ops->write(html->table, record);
	end_text(html);
	if (!err && !html->text)
		err = -ENOMEM;
	if (err)
		return err;
	json_put_mark(&json, '{');
	json_put_key(&json, "header");
	json_put_mark(&json, '{');
	json_put_raw(&json, html->header ? html->header : "", html->header_length);
	json_put_mark(&json, '}');
	json_put_key(&json, "footer");
	json_put_mark(&json, '{');
	json_put_fields(&json, record_types[RECORD_FOOTER], record->footer);
	json_put_mark(&json, '}');
	json_put_key(&json, "text");
	json_put_text(&json, html->text, html->text_length);
	json_put_mark(&json, '}');
	if (json.failed)
		err = -ENOMEM;
	else if (json.length > RUN_BYTES || html->runs.length + json.length > RUNS_BYTES)
		html->runs_left_out++;
	else {
		if (html->runs.length)
			json_put_raw(&html->runs, ",", 1);
		json_put_raw(&html->runs, json.text, json.length);
		err = html->runs.failed ? -ENOMEM : 0;
	}
	free(json.text);
	html->last_x_ns = html->end_boot_ns ? x_of(html, html->end_boot_ns) : html->last_x_ns;
	forget_run(html);
	return err;
}

/* ---- intervals ---- */

/* A time without records. */
static void add_hole(struct html *html, uint64_t from_ns, uint64_t to_ns, const char *why)
{
	struct json_buffer *json = &html->holes;

	if (html->hole_count++ >= HOLES) {
		html->holes_left_out++;
		return;
	}
	json_put_mark(json, '[');
	json_put_u64(json, from_ns / 1000000);
	json_put_u64(json, to_ns / 1000000);
	json_put_text(json, why, SIZE_MAX);
	json_put_mark(json, ']');
}

static uint64_t find_hole(struct html *html, const struct record_interval *interval,
			  uint64_t end_boot_ns)
{
	uint64_t begin_ns,
		hole_ns = hole_before(html->end_boot_ns, interval, end_boot_ns, &begin_ns);

	if (hole_ns)
		add_hole(html, x_of(html, begin_ns - hole_ns), x_of(html, begin_ns),
			 html->suspended ? "suspended" : "not recorded");
	else if (!html->end_boot_ns && html->last_x_ns && x_of(html, begin_ns) > html->last_x_ns)
		add_hole(html, html->last_x_ns, x_of(html, begin_ns), "no recorder");
	return begin_ns;
}

static int take_interval(struct html *html, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	int err;
	uint64_t begin_boot_ns = find_hole(html, interval, record->t_boot_ns);

	thinned_begin(html->thinned, x_of(html, begin_boot_ns), x_of(html, record->t_boot_ns),
		      interval->dur_ns);
	err = html_interval_add(html->thinned, interval, html->judges_frames);
	thinned_end(html->thinned);
	html->end_boot_ns = record->t_boot_ns;
	html->suspended = false;
	return err;
}

/* ---- events and blocks ---- */

static int take_event(struct html *html, const struct record *record)
{
	struct json_buffer *json = &html->events;

	if (!strcmp(record->event->event, "suspend"))
		html->suspended = true;
	if (json->length > EVENTS_BYTES) {
		html->events_left_out++;
		return 0;
	}
	json_put_mark(json, '{');
	json_put_key(json, "x");
	json_put_u64(json, x_of(html, record->t_boot_ns) / 1000000);
	json_put_fields(json, record_types[RECORD_EVENT], record->event);
	json_put_mark(json, '}');
	return json->failed ? -ENOMEM : 0;
}

static int take_block(struct html *html, const struct record_block *block)
{
	uint64_t end_ns = x_of(html, block->start_boot_ns + block->wall_ns);
	int err = html_blocks_add(html->blocks, block, x_of(html, block->start_boot_ns));

	html->base.dropped += err == -ENOSPC;
	if (err && err != -ENOSPC)
		return err;
	return thinned_add_at(html->thinned, GROUP_BLOCKS, "ns", "main threads blocked", end_ns,
			      (double)block->wall_ns);
}

static int take_jank(struct html *html, const struct record_jank *jank)
{
	uint64_t begin_ns = x_of(html, jank->window_start_ns);
	int err = html_janks_add(html->janks, jank, begin_ns);

	return err ? err
		   : thinned_add_at(html->thinned, GROUP_LATE, "ns", why_cause_words(jank->cause),
				    begin_ns, (double)jank->late_ns);
}

static int html_write(struct sink *sink, const struct record *record)
{
	struct html *html = (struct html *)sink;

	switch (record->type) {
	case RECORD_HEADER:
		return take_header(html, record);
	case RECORD_INTERVAL:
		return take_interval(html, record);
	case RECORD_BLOCK:
		return take_block(html, record->block);
	case RECORD_EVENT:
		return take_event(html, record);
	case RECORD_FOOTER:
		return take_footer(html, record);
	case RECORD_JANK:
		return take_jank(html, record->jank);
	case RECORD_STACK:
		return 0;
	}
	return 0;
}

/* ---- the file ---- */

/* JSON has this byte in texts only, where the escape means the same: no name ends the script that
 * the data is in, or begins a comment in it. */
static void put_escaped(FILE *to, const char *text, size_t length)
{
	const char *end = text + length, *next;

	for (; text < end; text = next + 1) {
		next = memchr(text, '<', (size_t)(end - text));
		fwrite(text, 1, (size_t)((next ? next : end) - text), to);
		if (!next)
			return;
		fputs("\\u003c", to);
	}
}

static void put_list(struct json_buffer *json, const char *key, const struct json_buffer *list)
{
	json_put_key(json, key);
	json_put_mark(json, '[');
	json_put_raw(json, list->text ? list->text : "", list->length);
	json_put_mark(json, ']');
}

static int put_data(struct html *html)
{
	struct json_buffer json = {0};
	int err;

	json_put_mark(&json, '{');
	json_put_key(&json, "version");
	json_put_text(&json, JANKSCOPE_VERSION, SIZE_MAX);
	put_list(&json, "runs", &html->runs);
	put_list(&json, "events", &html->events);
	put_list(&json, "holes", &html->holes);
	thinned_put(html->thinned, SERIES_SHOWN, &json);
	err = html_blocks_put(html->blocks, &json);
	html_janks_put(html->janks, &json);
	json_put_key(&json, "left_out");
	json_put_mark(&json, '{');
	json_put_key(&json, "runs");
	json_put_u64(&json, html->runs_left_out);
	json_put_key(&json, "events");
	json_put_u64(&json, html->events_left_out);
	json_put_key(&json, "holes");
	json_put_u64(&json, html->holes_left_out);
	json_put_mark(&json, '}');
	json_put_mark(&json, '}');
	if (json.failed)
		err = -ENOMEM;
	if (!err)
		put_escaped(html->to, json.text, json.length);
	free(json.text);
	return err;
}

static int html_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct html *html = (struct html *)sink;
	char *page = malloc(html_page.size);
	int err = 0;

	if (!page || ZSTD_decompress(page, html_page.size, html_page.packed,
				     html_page.packed_size) != html_page.size) {
		free(page);
		return -ENOMEM;
	}
	errno = 0;
	fwrite(page, 1, html_page.head_size, html->to);
	err = put_data(html);
	fwrite(page + html_page.head_size, 1, html_page.size - html_page.head_size, html->to);
	free(page);
	if (!err && ferror(html->to))
		err = errno ? -errno : -EIO;
	return err;
}

static void html_close(struct sink *sink)
{
	struct html *html = (struct html *)sink;

	forget_run(html);
	thinned_free(html->thinned);
	html_blocks_free(html->blocks);
	html_janks_free(html->janks);
	free(html->runs.text);
	free(html->events.text);
	free(html->holes.text);
	free(html);
}

struct sink *html_sink_new(FILE *to)
{
	static const struct sink_ops ops = {
		.name = "html", .write = html_write, .finish = html_finish, .close = html_close};
	struct html *html = calloc(1, sizeof(*html));

	if (!html)
		return NULL;
	html->base.ops = &ops;
	html->to = to;
	html->thinned = thinned_new();
	html->blocks = html_blocks_new();
	html->janks = html_janks_new();
	if (html->thinned && html->blocks && html->janks)
		return &html->base;
	html_close(&html->base);
	errno = ENOMEM;
	return NULL;
}
