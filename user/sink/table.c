/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sink/table_private.h"
#include "sink/writer.h"
#include "util/clock.h"
#include "util/talk.h"
#include "why/line.h"

double table_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

double table_core_pct(uint64_t cpu_ns, double dur_ns)
{
	return dur_ns > 0 ? 100 * (double)cpu_ns / dur_ns : 0;
}

struct line table_line(const struct table_sink *table)
{
	return (struct line){.out = table->out,
			     .width = (int)table->options.width,
			     .colour = table->options.colour};
}

/* Folders say less than the name behind them. What is no path stays whole: "kworker/0:1",
 * "sshd: root@pts/0". */
const char *table_process(char buffer[TABLE_NAME], const char *process, const char *package,
			  const char *thread)
{
	const char *name = process && process[0]   ? process
			   : package && package[0] ? package
			   : thread && thread[0]   ? thread
						   : "-";

	if (name[0] == '/' || !strncmp(name, "./", 2) || !strncmp(name, "../", 3)) {
		const char *end = name + strcspn(name, " "), *slash = end;

		while (slash > name && slash[-1] != '/')
			slash--;
		if (slash < end)
			name = slash;
	}
	return text_clean(buffer, TABLE_NAME, name);
}

const char *table_time(const struct table_sink *table, uint64_t boot_ns, char text[TABLE_TIME])
{
	time_t seconds = (time_t)((boot_ns + table->unix_minus_boot_ns) / NSEC_PER_SEC);
	struct tm tm;

	if (table->options.wall_clock && gmtime_r(&seconds, &tm))
		snprintf(text, TABLE_TIME, "%02d:%02d:%02dZ", tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		snprintf(text, TABLE_TIME, "%8.3f",
			 (double)(int64_t)(boot_ns - table->first_boot_ns) / 1e9);
	return text;
}

struct line table_line_at(const struct table_sink *table, uint64_t boot_ns)
{
	struct line line = table_line(table);
	char text[TABLE_TIME];

	line_put(&line, "%s", table_time(table, boot_ns, text));
	return line;
}

void table_put_counters(struct line *line, const char *title, const struct counter_list *list)
{
	char name[96];

	if (list->count)
		line_put(line, "  %s:", title);
	for (size_t i = 0; i < list->count; i++)
		line_put(line, " %s=%llu", text_clean(name, sizeof(name), list->items[i].name),
			 (unsigned long long)list->items[i].value);
}

/* Only what is really lost is told as LOST; the rest interests who asks for it. */
static void put_losses(struct table_sink *table, struct line *line,
		       const struct record_interval *interval)
{
	if (interval->lost.count) {
		line_style(line, LINE_BAD);
		table_put_counters(line, "LOST", &interval->lost);
		line_style(line, LINE_PLAIN);
	} else {
		line_put(line, "  lost: none");
	}
	if (!table->options.verbose)
		return;
	table_put_counters(line, "late", &interval->late);
	table_put_counters(line, "repaired", &interval->repaired);
}

static void print_header(struct table_sink *table, const struct record *record)
{
	const struct record_header *header = record->header;
	struct line line = table_line(table);
	char name[256], source_text[200];

	table->has_targets = header->target_count > 0;
	table->first_boot_ns = record->t_boot_ns;
	table->unix_minus_boot_ns = header->clock.unix_ns - header->clock.boot_ns;
	line_style(&line, LINE_HEAD);
	line_put(&line, "jankscope %s on", JANKSCOPE_VERSION);
	line_put(&line, " %s",
		 text_clean(name, sizeof(name), header->kernel ? header->kernel : "?"));
	line_put(&line, " %s,", text_clean(name, sizeof(name), header->arch ? header->arch : "?"));
	line_put(&line, " every %.3g s:", (double)header->interval_ns / 1e9);
	if (!header->target_count)
		line_put(&line, " whole device");
	for (size_t i = 0; i < header->target_count; i++) {
		const struct header_target *target = &header->targets[i];

		if (target->package)
			line_put(&line, " %s", text_tail(name, sizeof(name), target->package, 70));
		else if (target->pid.present)
			line_put(&line, " pid %u", (unsigned)target->pid.value);
		else
			line_put(&line, " uid %u", (unsigned)target->uid.value);
	}
	line_end(&line);
	line_put(&line, "sources:");
	for (size_t i = 0; i < header->source_count; i++) {
		const struct header_source *source = &header->sources[i];
		bool ok = !strcmp(source->state, "ok");

		snprintf(source_text, sizeof(source_text), "%s%s%s%s%s%s", source->name,
			 source->variant ? "=" : "", source->variant ? source->variant : "",
			 ok ? "" : " (", ok ? "" : source->state, ok ? "" : ")");
		line_put(&line, " %s", text_clean(name, sizeof(name), source_text));
	}
	line_end(&line);
	line_style(&line, LINE_DIM);
	line_put(&line, "%%core: CPU time in %% of one core;");
	line_put(&line, " wait: ready, no CPU;");
	line_put(&line, " all words: --legend");
	line_end(&line);
}

/* How much of the machine, and apart from it how much of one core the targets used. */
static void put_shares(struct table_sink *table, struct line *line,
		       const struct record_interval *interval)
{
	const struct record_cpu *cpu = &interval->cpu;
	double capacity_ns = (double)cpu->online_cpus * (double)interval->dur_ns;
	uint64_t targets_ns = 0;

	if (!cpu->present || capacity_ns <= 0)
		return;
	for (size_t i = 0; i < cpu->process_count; i++)
		targets_ns += cpu->processes[i].cpu_ns;
	if (table->has_targets)
		line_put(line, "  target %.1f %%core",
			 table_core_pct(targets_ns, (double)interval->dur_ns));
	line_put(line, "  busy %.1f %%", 100 * (double)cpu->busy_ns / capacity_ns);
	if (cpu->idle_ns.present)
		line_put(line, "  idle %.1f %%", 100 * (double)cpu->idle_ns.value / capacity_ns);
	line_put(line, " of %u CPUs", cpu->online_cpus);
}

static void print_interval(struct table_sink *table, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	struct line line = table_line(table);
	char text[TABLE_TIME];

	line_style(&line, LINE_HEAD);
	line_put(&line, "%s", table_time(table, record->t_boot_ns, text));
	line_put(&line, "  %.3f s", (double)interval->dur_ns / 1e9);
	put_shares(table, &line, interval);
	line_end(&line);
	if (interval->cpu.present) {
		table_print_cpu(table, record);
		table_print_clusters(table, &interval->cpu);
	}
	if (interval->net.present)
		table_print_net(table, &interval->net);
	if (interval->frames.present)
		table_print_frames(table, &interval->frames);
	if (interval->power.present)
		table_print_power(table, &interval->power);
	if (interval->memory.present)
		table_print_memory(table, &interval->memory);
	if (interval->disk.present)
		table_print_disk(table, &interval->disk);
	put_losses(table, &line, interval);
	if (interval->self.memory_bytes.present)
		line_put(&line, "  self: %.2f ms CPU, %.1f MiB", table_ms(interval->self.cpu_ns),
			 (double)interval->self.memory_bytes.value / 1048576);
	else
		line_put(&line, "  self: %.2f ms CPU", table_ms(interval->self.cpu_ns));
	line_end(&line);
}

/* "first_idle_ns" as "first_idle 812.3 ms". */
static void put_time(struct line *line, const struct event_key *key)
{
	int length = (int)strlen(key->name) - 3;

	line_put(line, " %.*s %.1f ms", length, key->name, table_ms((uint64_t)key->value));
}

static void print_startup(struct line *line, const struct record_event *event)
{
	char text[128];

	line_put(line, "  * %s", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		const struct event_key *key = &event->keys[i];
		size_t length = strlen(key->name);

		if (!strcmp(key->name, "start_boot_ns") || !strcmp(key->name, "parent"))
			continue;
		if (!strncmp(key->name, "no_", 3)) {
			line_put(line, "; %s:", text_clean(text, sizeof(text), key->name));
			text[0] = ' ';
			text_clean(text + 1, sizeof(text) - 1, key->text);
			line_put_words(line, text);
		} else if (key->text) {
			line_put(line, " %s", text_tail(text, sizeof(text), key->text, 40));
		} else if (length > 3 && !strcmp(key->name + length - 3, "_ns")) {
			put_time(line, key);
		} else {
			line_put(line, " %s=%lld", key->name, (long long)key->value);
		}
	}
	line_end(line);
}

static void print_event(struct table_sink *table, const struct record *record)
{
	const struct record_event *event = record->event;
	struct line line = table_line_at(table, record->t_boot_ns);
	char text[128];

	line_style(&line, LINE_NOTE);
	if (!strcmp(event->event, "startup") || !strcmp(event->event, "launch")) {
		print_startup(&line, event);
		return;
	}
	line_put(&line, "  * %s", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		if (!strcmp(event->keys[i].name, "start_boot_ns"))
			continue;
		/* The reason is told whole; other texts by their ends. */
		if (!strcmp(event->keys[i].name, "why")) {
			line_put(&line, ": ");
			line_put_words(&line, text_clean(text, sizeof(text), event->keys[i].text));
		} else if (!strcmp(event->keys[i].name, "loop"))
			line_put(&line, " loop %s", event->keys[i].text);
		else if (event->keys[i].text)
			line_put(&line, " %s",
				 text_tail(text, sizeof(text), event->keys[i].text, 40));
		else if (event->keys[i].real)
			line_put(&line, " %s=%.4g", event->keys[i].name, event->keys[i].number);
		else
			line_put(&line, " %s=%lld", event->keys[i].name,
				 (long long)event->keys[i].value);
	}
	line_end(&line);
}

/* A frame that was late: when it was to be ready, and why it was not. */
static void print_jank(struct table_sink *table, const struct record *record)
{
	struct line line = table_line_at(table, record->jank->window_end_ns);
	char text[512], clean[512];

	line_style(&line, LINE_NOTE);
	line_put(&line, "  LATE ");
	line_put_words(&line, text_clean(clean, sizeof(clean),
					 why_line(record->jank, text, sizeof(text))));
	line_end(&line);
}

static void print(struct table_sink *table, const struct record *record)
{
	switch (record->type) {
	case RECORD_HEADER:
		print_header(table, record);
		break;
	case RECORD_INTERVAL:
		print_interval(table, record);
		break;
	case RECORD_BLOCK:
		table_print_block(table, record);
		break;
	case RECORD_EVENT:
		print_event(table, record);
		break;
	case RECORD_FOOTER:
		table_print_footer(table, record->footer);
		break;
	case RECORD_STACK:
		table_print_addition(table, record->addition);
		break;
	case RECORD_JANK:
		print_jank(table, record);
		break;
	}
}

/* A reader that went away is no error; any other is said once. */
static int tell(struct table_sink *table, int err)
{
	if (err && err != -EPIPE && !table->told) {
		table->told = true;
		talk("error: cannot write the table: %s\n", strerror(-err));
	}
	return err;
}

static void print_not_printed(const struct table_sink *table)
{
	uint64_t others = table->not_printed - table->intervals_not_printed;

	fputs("  ... ", table->out);
	if (table->intervals_not_printed)
		fprintf(table->out, "%" PRIu64 " intervals%s", table->intervals_not_printed,
			others ? " and " : "");
	if (others)
		fprintf(table->out, "%" PRIu64 " other records", others);
	fputs(" were not printed: stdout was not read\n", table->out);
}

/* A record's text is queued whole or not at all. */
static int queue_text(struct table_sink *table, const struct record *record)
{
	bool last = record->type == RECORD_FOOTER;
	char *text = NULL;
	size_t size;
	int err;

	table->out = open_memstream(&text, &size);
	if (!table->out)
		return -ENOMEM;
	if (table->not_printed)
		print_not_printed(table);
	print(table, record);
	err = fclose(table->out) ? -ENOMEM : 0;
	table->out = NULL;
	if (!err && table->options.ascii)
		size = text_to_ascii(text, size);
	if (!err)
		err = writer_put(table->writer, text, size, last);
	free(text);
	if (last)
		writer_end(table->writer);
	if (err == -EAGAIN) {
		table->not_printed++;
		table->intervals_not_printed += record->type == RECORD_INTERVAL;
		table->base.dropped++;
		return 0;
	}
	if (!err)
		table->not_printed = table->intervals_not_printed = 0;
	return tell(table, err);
}

static int print_ascii(struct table_sink *table, const struct record *record)
{
	FILE *to = table->out;
	char *text = NULL;
	int err = -ENOMEM;
	size_t size;

	table->out = open_memstream(&text, &size);
	if (table->out) {
		print(table, record);
		err = fclose(table->out) ? -ENOMEM : 0;
	}
	table->out = to;
	if (!err)
		fwrite(text, 1, text_to_ascii(text, size), to);
	free(text);
	return err;
}

static int table_write(struct sink *sink, const struct record *record)
{
	struct table_sink *table = (struct table_sink *)sink;

	if (table->writer)
		return queue_text(table, record);
	errno = 0;
	if (!table->options.ascii)
		print(table, record);
	else if (print_ascii(table, record))
		return tell(table, -ENOMEM);
	if (fflush(table->out) || ferror(table->out))
		return tell(table, errno ? -errno : -EIO);
	return 0;
}

static int table_fd(const struct sink *sink)
{
	return writer_fd(((const struct table_sink *)sink)->writer);
}

static int table_check(struct sink *sink)
{
	struct table_sink *table = (struct table_sink *)sink;

	return tell(table, writer_error(table->writer));
}

/* Tables that are not read are no loss of the run: it does not fail for them. */
static int table_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct table_sink *table = (struct table_sink *)sink;
	uint64_t left;
	int err;

	writer_end(table->writer);
	err = writer_wait(table->writer, deadline_mono_ns);
	left = sink->dropped + (err == -ETIMEDOUT ? writer_unwritten(table->writer) : 0);
	if (left && err != -EPIPE)
		talk("warn: %" PRIu64 " records were not printed: stdout was not read\n", left);
	return err == -ETIMEDOUT ? 0 : tell(table, err);
}

static void table_hold(struct sink *sink, bool held)
{
	writer_hold(((struct table_sink *)sink)->writer, held);
}

static void table_close(struct sink *sink)
{
	struct table_sink *table = (struct table_sink *)sink;

	writer_free(table->writer, table->is_terminal);
	free(table);
}

static const struct sink_ops table_ops = {
	.name = "table",
	.write = table_write,
	.close = table_close,
};

static const struct sink_ops table_writer_ops = {
	.name = "table",
	.write = table_write,
	.fd = table_fd,
	.check = table_check,
	.hold = table_hold,
	.finish = table_finish,
	.close = table_close,
};

struct sink *table_sink_new(FILE *out, const struct table_options *options)
{
	struct table_sink *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->base.ops = &table_ops;
	table->out = out;
	table->options = *options;
	if (table->options.width < TABLE_MIN_WIDTH)
		table->options.width = TABLE_MIN_WIDTH;
	return &table->base;
}

struct sink *table_sink_fd(int fd, const struct table_options *options)
{
	const struct writer_options writer = {.fd = fd, .queue_bytes = WRITER_TABLE_BYTES};
	struct sink *sink = table_sink_new(NULL, options);
	struct table_sink *table = (struct table_sink *)sink;
	char why[8];
	int err;

	if (!sink)
		return NULL;
	sink->ops = &table_writer_ops;
	table->is_terminal = isatty(fd);
	table->writer = writer_start(&writer, why, sizeof(why));
	if (!table->writer) {
		err = errno;
		free(table);
		errno = err;
		return NULL;
	}
	sink->helper = writer_pid(table->writer);
	return sink;
}
