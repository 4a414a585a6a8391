/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "record/fields.h"
#include "record/json_write.h"
#include "sink/hole.h"
#include "sink/html_blocks.h"
#include "sink/html_page.h"
#include "sink/thinned.h"
#include "sink/table.h"

#define THREADS_HELD 64 /* candidates for the threads that are shown */
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

struct adder {
	struct thinned *thinned;
	int err;
};

static void add(struct adder *adder, enum thinned_group group, enum series_kind kind,
		const char *unit, const char *name, size_t limit, double value)
{
	if (!adder->err)
		adder->err = thinned_add(adder->thinned, group, kind, unit, name, limit, value);
}

static void add_sum(struct adder *adder, enum thinned_group group, const char *unit,
		    const char *name, uint64_t value)
{
	add(adder, group, SERIES_SUM, unit, name, 0, (double)value);
}

static const char *name_of(const char *process, const char *package)
{
	return process && process[0] ? process : package && package[0] ? package : "-";
}

static void add_cpu(struct adder *adder, const struct record_cpu *cpu)
{
	char name[160];

	thinned_measured(adder->thinned, GROUP_CPU);
	add_sum(adder, GROUP_CPU, "ns busy", "all CPUs, busy", cpu->busy_ns);
	for (size_t i = 0; i < cpu->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];
		const char *process = name_of(task->process, task->package);
		const char *slash = strrchr(process, '/');

		if (!task->cpu_ns)
			continue;
		if (process[0] == '/' && slash && !strchr(process, ' '))
			process = slash + 1;
		snprintf(name, sizeof(name), "%.*s of %.120s", RECORD_COMM_LEN, task->thread,
			 process);
		add(adder, GROUP_CPU, SERIES_SUM, "ns", name, THREADS_HELD, (double)task->cpu_ns);
	}
	add(adder, GROUP_CPU, SERIES_SUM, "ns", NULL, 0,
	    (double)cpu->other_ns + (double)cpu->overflow_ns);
}

static void add_net(struct adder *adder, const struct record_net *net)
{
	thinned_measured(adder->thinned, GROUP_NET);
	for (size_t i = 0; i < net->uid_count; i++) {
		add_sum(adder, GROUP_NET, "bytes", "received", net->uids[i].bytes.rx_bytes);
		add_sum(adder, GROUP_NET, "bytes", "sent", net->uids[i].bytes.tx_bytes);
	}
	add_sum(adder, GROUP_NET, "bytes", "of no uid",
		net->unattributed.rx_bytes + net->unattributed.tx_bytes);
	add_sum(adder, GROUP_NET, "bytes", "loopback",
		net->loopback.rx_bytes + net->loopback.tx_bytes);
}

static void add_frames(struct adder *adder, const struct record_frames *frames)
{
	thinned_measured(adder->thinned, GROUP_FRAMES);
	add_sum(adder, GROUP_FRAMES, "frames", "shown", 0);
	for (size_t i = 0; i < frames->layer_count; i++) {
		add_sum(adder, GROUP_FRAMES, "frames", "shown", frames->layers[i].shown);
		add_sum(adder, GROUP_FRAMES, "frames", "late or dropped (janky)",
			frames->layers[i].janky);
		add_sum(adder, GROUP_FRAMES, "frames", "refreshes dropped",
			frames->layers[i].dropped);
	}
}

static void add_memory(struct adder *adder, const struct record_memory *memory)
{
	char name[160];

	for (size_t i = 0; i < memory->process_count; i++) {
		const struct record_memory_process *process = &memory->processes[i];
		const char *whose = name_of(process->process, process->package);

		snprintf(name, sizeof(name), "RSS of %.120s %d", whose, process->pid);
		if (process->rss_bytes.present)
			add(adder, GROUP_MEMORY, SERIES_LEVEL, "bytes", name, THREADS_HELD,
			    (double)process->rss_bytes.value);
		snprintf(name, sizeof(name), "PSS of %.120s %d", whose, process->pid);
		if (process->pss_bytes.present)
			add(adder, GROUP_MEMORY, SERIES_LEVEL, "bytes", name, THREADS_HELD,
			    (double)process->pss_bytes.value);
	}
	if (memory->system.available_bytes.present)
		add(adder, GROUP_MEMORY, SERIES_LEVEL, "system", "available", 0,
		    (double)memory->system.available_bytes.value);
}

static void add_power(struct adder *adder, const struct record_power *power)
{
	const struct record_supply *battery = &power->battery;
	char name[160];

	if (power->battery_present && battery->current_ua.present)
		add(adder, GROUP_POWER, SERIES_LEVEL, "ua", "battery current", 0,
		    (double)battery->current_ua.value);
	if (power->battery_present && battery->temperature_mc.present)
		add(adder, GROUP_HEAT, SERIES_LEVEL, "mc", "battery", 0,
		    (double)battery->temperature_mc.value);
	for (size_t i = 0; i < power->zone_count; i++) {
		const struct record_zone *zone = &power->zones[i];

		snprintf(name, sizeof(name), "zone %" PRIu32 " %.100s", zone->zone,
			 zone->type ? zone->type : "");
		if (zone->temperature_mc.present)
			add(adder, GROUP_HEAT, SERIES_LEVEL, "mc", name, THREADS_HELD,
			    (double)zone->temperature_mc.value);
	}
}

static void add_losses(struct adder *adder, const struct record_interval *interval)
{
	const struct {
		const char *kind;
		const struct counter_list *list;
	} lists[] = {{"lost", &interval->lost},
		     {"late", &interval->late},
		     {"repaired", &interval->repaired}};
	char name[160];

	thinned_measured(adder->thinned, GROUP_LOSSES);
	for (size_t k = 0; k < sizeof(lists) / sizeof(*lists); k++)
		for (size_t i = 0; i < lists[k].list->count; i++) {
			snprintf(name, sizeof(name), "%s: %.120s", lists[k].kind,
				 lists[k].list->items[i].name);
			add(adder, GROUP_LOSSES, SERIES_SUM, "count", name, 24,
			    (double)lists[k].list->items[i].value);
		}
}

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
	struct adder adder = {html->thinned, 0};
	uint64_t begin_boot_ns = find_hole(html, interval, record->t_boot_ns);

	thinned_begin(html->thinned, x_of(html, begin_boot_ns), x_of(html, record->t_boot_ns),
		      interval->dur_ns);
	if (interval->cpu.present)
		add_cpu(&adder, &interval->cpu);
	if (interval->net.present)
		add_net(&adder, &interval->net);
	if (interval->frames.present)
		add_frames(&adder, &interval->frames);
	if (interval->memory.present)
		add_memory(&adder, &interval->memory);
	if (interval->power.present)
		add_power(&adder, &interval->power);
	add_losses(&adder, interval);
	thinned_end(html->thinned);
	html->end_boot_ns = record->t_boot_ns;
	html->suspended = false;
	return adder.err;
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
	case RECORD_STACK:
	case RECORD_JANK:
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
	if (html->thinned && html->blocks)
		return &html->base;
	html_close(&html->base);
	errno = ENOMEM;
	return NULL;
}
