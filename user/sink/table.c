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
#include "util/units.h"

double table_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

struct line table_line(const struct table_sink *table)
{
	return (struct line){table->out, (int)table->options.width, 0};
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
	if (list->count)
		line_put(line, "  %s:", title);
	for (size_t i = 0; i < list->count; i++)
		line_put(line, " %s=%llu", list->items[i].name,
			 (unsigned long long)list->items[i].value);
}

/* Only what is really lost is told as LOST; the rest interests who asks for it. */
static void put_losses(struct table_sink *table, struct line *line,
		       const struct record_interval *interval)
{
	if (interval->lost.count)
		table_put_counters(line, "LOST", &interval->lost);
	else
		line_put(line, "  lost: none");
	if (!table->options.verbose)
		return;
	table_put_counters(line, "late", &interval->late);
	table_put_counters(line, "repaired", &interval->repaired);
}

static void print_header(struct table_sink *table, const struct record *record)
{
	const struct record_header *header = record->header;
	struct line line = table_line(table);
	char name[96];

	table->first_boot_ns = record->t_boot_ns;
	table->unix_minus_boot_ns = header->clock.unix_ns - header->clock.boot_ns;
	line_put(&line, "jankscope %s on", JANKSCOPE_VERSION);
	line_put(&line, " %s", header->kernel ? header->kernel : "?");
	line_put(&line, " %s,", header->arch ? header->arch : "?");
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

		line_put(&line, " %s%s%s%s%s%s", source->name, source->variant ? "=" : "",
			 source->variant ? source->variant : "", ok ? "" : " (",
			 ok ? "" : source->state, ok ? "" : ")");
	}
	line_end(&line);
}

static void put_opt(FILE *out, int *column, int width, struct opt_u64 value)
{
	*column += value.present ? fprintf(out, "%*llu ", width, (unsigned long long)value.value)
				 : fprintf(out, "%*s ", width, "-");
}

static void print_cpu(struct table_sink *table, const struct record_cpu *cpu)
{
	size_t rows = cpu->task_count;
	char name[256], text[64];
	int column;

	if (table->options.top && rows > table->options.top)
		rows = table->options.top;
	if (rows)
		fprintf(table->out, "  %9s %9s %6s %6s %7s %-15s %s\n", "CPU ms", "wait ms", "vol",
			"invol", "TID", "THREAD", "PROCESS");
	for (size_t i = 0; i < rows; i++) {
		const struct record_task *task = &cpu->tasks[i];
		const char *process = task->package            ? task->package
				      : task->process          ? task->process
				      : task->tid == task->pid ? task->thread
							       : "-";

		column = fprintf(table->out, "  %9.1f ", table_ms(task->cpu_ns));
		column += task->runnable_ns.present
				  ? fprintf(table->out, "%9.1f ", table_ms(task->runnable_ns.value))
				  : fprintf(table->out, "%9s ", "-");
		put_opt(table->out, &column, 6, task->switches_voluntary);
		put_opt(table->out, &column, 6, task->switches_involuntary);
		column += fprintf(table->out, "%7d %-15s ", task->tid,
				  text_clean(text, sizeof(text), task->thread));
		fprintf(table->out, "%s%s\n",
			text_tail(name, sizeof(name), process,
				  (int)table->options.width - 1 - column - (task->exited ? 2 : 0)),
			task->exited ? " x" : "");
	}
	if (rows < cpu->task_count || cpu->other_ns) {
		uint64_t rest_ns = cpu->other_ns;

		for (size_t i = rows; i < cpu->task_count; i++)
			rest_ns += cpu->tasks[i].cpu_ns;
		fprintf(table->out, "  %9.1f  in other tasks\n", table_ms(rest_ns));
	}
	if (cpu->overflow_ns)
		fprintf(table->out, "  %9.1f  in tasks that found no room in the map\n",
			table_ms(cpu->overflow_ns));
}

static int print_bytes(FILE *out, const struct record_bytes *bytes)
{
	char rx[32], tx[32];

	return fprintf(out, "rx %10s %8llu  tx %10s %8llu",
		       format_bytes(rx, sizeof(rx), bytes->rx_bytes),
		       (unsigned long long)bytes->rx_packets,
		       format_bytes(tx, sizeof(tx), bytes->tx_bytes),
		       (unsigned long long)bytes->tx_packets);
}

static bool any_bytes(const struct record_bytes *bytes)
{
	return bytes->rx_packets || bytes->tx_packets;
}

static void print_net(struct table_sink *table, const struct record_net *net)
{
	char name[256];
	int column;

	for (size_t i = 0; i < net->uid_count; i++) {
		const struct record_uid_net *row = &net->uids[i];

		if (!any_bytes(&row->bytes))
			continue;
		column = fprintf(table->out, "  net uid %-6u ", row->uid);
		column += print_bytes(table->out, &row->bytes);
		if (row->package)
			fprintf(table->out, " %s",
				text_tail(name, sizeof(name), row->package,
					  (int)table->options.width - 2 - column));
		fputc('\n', table->out);
	}
	if (any_bytes(&net->loopback)) {
		fputs("  net loopback   ", table->out);
		print_bytes(table->out, &net->loopback);
		fputc('\n', table->out);
	}
	if (any_bytes(&net->unattributed)) {
		fputs("  net no uid     ", table->out);
		print_bytes(table->out, &net->unattributed);
		fputc('\n', table->out);
	}
}

static void print_frames(struct table_sink *table, const struct record_frames *frames)
{
	char name[256];
	int column;

	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *layer = &frames->layers[i];

		column = fprintf(table->out,
				 "  frames %5llu shown %4llu janky %4llu dropped %6.1f fps_active ",
				 (unsigned long long)layer->shown, (unsigned long long)layer->janky,
				 (unsigned long long)layer->dropped, layer->fps_active);
		fprintf(table->out, "%s\n",
			text_tail(name, sizeof(name), layer->layer ? layer->layer : "-",
				  (int)table->options.width - 1 - column));
	}
}

static void print_interval(struct table_sink *table, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	const struct record_cpu *cpu = &interval->cpu;
	double capacity_ns = (double)cpu->online_cpus * (double)interval->dur_ns;
	struct line line;

	line = table_line_at(table, record->t_boot_ns);
	line_put(&line, "  %.3f s", (double)interval->dur_ns / 1e9);
	if (cpu->present && capacity_ns > 0) {
		line_put(&line, "  busy %.1f %%", 100 * (double)cpu->busy_ns / capacity_ns);
		if (cpu->idle_ns.present)
			line_put(&line, "  idle %.1f %%",
				 100 * (double)cpu->idle_ns.value / capacity_ns);
		line_put(&line, " of %u CPUs", cpu->online_cpus);
	}
	line_end(&line);
	if (cpu->present)
		print_cpu(table, cpu);
	if (interval->net.present)
		print_net(table, &interval->net);
	if (interval->frames.present)
		print_frames(table, &interval->frames);
	put_losses(table, &line, interval);
	if (interval->self.memory_bytes.present)
		line_put(&line, "  self: %.2f ms CPU, %.1f MiB", table_ms(interval->self.cpu_ns),
			 (double)interval->self.memory_bytes.value / 1048576);
	else
		line_put(&line, "  self: %.2f ms CPU", table_ms(interval->self.cpu_ns));
	line_end(&line);
}

static void print_event(struct table_sink *table, const struct record *record)
{
	const struct record_event *event = record->event;
	struct line line = table_line_at(table, record->t_boot_ns);
	char text[128];

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
		else
			line_put(&line, " %s=%lld", event->keys[i].name,
				 (long long)event->keys[i].value);
	}
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
	err = fclose(table->out) ? -ENOMEM : writer_put(table->writer, text, size, last);
	table->out = NULL;
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

static int table_write(struct sink *sink, const struct record *record)
{
	struct table_sink *table = (struct table_sink *)sink;

	if (table->writer)
		return queue_text(table, record);
	errno = 0;
	print(table, record);
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
	if (table->options.width < 80)
		table->options.width = 80;
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
