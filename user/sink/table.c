/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/clock.h"
#include "util/units.h"

struct table_sink {
	struct sink base;
	FILE *out;
	struct table_options options;
	uint64_t first_boot_ns;
	uint64_t unix_minus_boot_ns;
	int name_width; /* of the last column */
};

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* Names come from other processes: no control byte of theirs reaches the terminal. */
static const char *clean(char *buffer, size_t size, const char *text)
{
	size_t n = 0;

	for (; text[n] && n + 1 < size; n++)
		buffer[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
	buffer[n] = 0;
	return buffer;
}

/* The end of a long name tells more than its begin: "...sceneform.sample:remote". */
static const char *tail(char *buffer, size_t size, const char *text, int width)
{
	size_t length = strlen(text);

	if (length <= (size_t)width)
		return clean(buffer, size, text);
	clean(buffer, size, text + length - (size_t)width + 2);
	memmove(buffer + 2, buffer, strlen(buffer) + 1);
	buffer[0] = buffer[1] = '.';
	return buffer;
}

static void print_time(struct table_sink *table, uint64_t boot_ns)
{
	time_t seconds = (time_t)((boot_ns + table->unix_minus_boot_ns) / NSEC_PER_SEC);
	struct tm tm;

	if (table->options.wall_clock && gmtime_r(&seconds, &tm))
		fprintf(table->out, "%02d:%02d:%02dZ", tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		fprintf(table->out, "%8.3f", (double)(boot_ns - table->first_boot_ns) / 1e9);
}

static void print_header(struct table_sink *table, const struct record *record)
{
	const struct record_header *header = record->header;

	table->first_boot_ns = record->t_boot_ns;
	table->unix_minus_boot_ns = header->clock.unix_ns - header->clock.boot_ns;
	fprintf(table->out, "jankscope %s on %s %s, every %.3g s:", JANKSCOPE_VERSION,
		header->kernel ? header->kernel : "?", header->arch ? header->arch : "?",
		(double)header->interval_ns / 1e9);
	if (!header->target_count)
		fputs(" whole device", table->out);
	for (size_t i = 0; i < header->target_count; i++) {
		const struct header_target *target = &header->targets[i];

		if (target->package)
			fprintf(table->out, " %s", target->package);
		else if (target->pid.present)
			fprintf(table->out, " pid %u", (unsigned)target->pid.value);
		else
			fprintf(table->out, " uid %u", (unsigned)target->uid.value);
	}
	fputs("\nsources:", table->out);
	for (size_t i = 0; i < header->source_count; i++) {
		const struct header_source *source = &header->sources[i];

		fprintf(table->out, " %s%s%s", source->name, source->variant ? "=" : "",
			source->variant ? source->variant : "");
		if (strcmp(source->state, "ok"))
			fprintf(table->out, " (%s)", source->state);
	}
	fputc('\n', table->out);
}

static void print_cpu(struct table_sink *table, const struct record_cpu *cpu)
{
	size_t rows = cpu->task_count;
	char name[256], text[64];

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

		fprintf(table->out, "  %9.1f ", ms(task->cpu_ns));
		if (task->runnable_ns.present)
			fprintf(table->out, "%9.1f ", ms(task->runnable_ns.value));
		else
			fprintf(table->out, "%9s ", "-");
		if (task->switches_voluntary.present)
			fprintf(table->out, "%6llu %6llu ",
				(unsigned long long)task->switches_voluntary.value,
				(unsigned long long)task->switches_involuntary.value);
		else
			fprintf(table->out, "%6s %6s ", "-", "-");
		fprintf(table->out, "%7d %-15s %s%s\n", task->tid,
			clean(text, sizeof(text), task->thread),
			tail(name, sizeof(name), process,
			     table->name_width - (task->exited ? 2 : 0)),
			task->exited ? " x" : "");
	}
	if (rows < cpu->task_count || cpu->other_ns) {
		uint64_t rest_ns = cpu->other_ns;

		for (size_t i = rows; i < cpu->task_count; i++)
			rest_ns += cpu->tasks[i].cpu_ns;
		fprintf(table->out, "  %9.1f  in other tasks\n", ms(rest_ns));
	}
	if (cpu->overflow_ns)
		fprintf(table->out, "  %9.1f  in tasks that found no room in the map\n",
			ms(cpu->overflow_ns));
}

static void print_bytes(FILE *out, const struct record_bytes *bytes)
{
	char rx[32], tx[32];

	fprintf(out, "rx %10s %8llu  tx %10s %8llu", format_bytes(rx, sizeof(rx), bytes->rx_bytes),
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
	char name[64];

	for (size_t i = 0; i < net->uid_count; i++) {
		const struct record_uid_net *row = &net->uids[i];

		if (!any_bytes(&row->bytes))
			continue;
		fprintf(table->out, "  net uid %-6u ", row->uid);
		print_bytes(table->out, &row->bytes);
		fprintf(table->out, " %s\n",
			row->package ? tail(name, sizeof(name), row->package, 14) : "");
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

	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *layer = &frames->layers[i];

		fprintf(table->out,
			"  frames %5llu shown %4llu janky %4llu dropped %6.1f fps_active %s\n",
			(unsigned long long)layer->shown, (unsigned long long)layer->janky,
			(unsigned long long)layer->dropped, layer->fps_active,
			tail(name, sizeof(name), layer->layer ? layer->layer : "-", 22));
	}
}

static void print_losses(FILE *out, const struct counter_list *lost)
{
	if (!lost->count) {
		fputs("lost: none", out);
		return;
	}
	fputs("LOST:", out);
	for (size_t i = 0; i < lost->count; i++)
		fprintf(out, " %s=%llu", lost->items[i].name,
			(unsigned long long)lost->items[i].value);
}

static void print_interval(struct table_sink *table, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	const struct record_cpu *cpu = &interval->cpu;
	double capacity_ns = (double)cpu->online_cpus * (double)interval->dur_ns;

	print_time(table, record->t_boot_ns);
	fprintf(table->out, "  %.3f s", (double)interval->dur_ns / 1e9);
	if (cpu->present && capacity_ns > 0) {
		fprintf(table->out, "  busy %.1f %%", 100 * (double)cpu->busy_ns / capacity_ns);
		if (cpu->idle_ns.present)
			fprintf(table->out, "  idle %.1f %%",
				100 * (double)cpu->idle_ns.value / capacity_ns);
		fprintf(table->out, " of %u CPUs", cpu->online_cpus);
	}
	fputc('\n', table->out);
	if (cpu->present)
		print_cpu(table, cpu);
	if (interval->net.present)
		print_net(table, &interval->net);
	if (interval->frames.present)
		print_frames(table, &interval->frames);
	fputs("  ", table->out);
	print_losses(table->out, &interval->lost);
	fprintf(table->out, "  self: %.2f ms CPU", ms(interval->self.cpu_ns));
	if (interval->self.anon_bytes.present)
		fprintf(table->out, ", %.1f MiB",
			(double)interval->self.anon_bytes.value / 1048576);
	fputc('\n', table->out);
}

static void print_block(struct table_sink *table, const struct record *record)
{
	static const char *const classes[] = {"short", "long", "ANR"};
	static const char *const states[] = {" so far", "", ", then it died"};
	const struct record_block *block = record->block;
	double wall_ns = block->wall_ns ? (double)block->wall_ns : 1;
	const struct record_stack *top = block->top.present && block->top.value < block->stack_count
						 ? &block->stacks[block->top.value]
						 : NULL;
	const char *symbol = top && top->frame_count ? top->frames[0].symbol : NULL;
	char name[256], where[128];

	print_time(table, record->t_boot_ns);
	fprintf(table->out, "  BLOCK %s %.1f ms%s%s  run %.0f wait %.0f sleep %.0f D %.0f %%\n",
		classes[block->class], ms(block->wall_ns), states[block->state],
		block->merged ? " (merged)" : "", 100 * (double)block->ledger.running_ns / wall_ns,
		100 * (double)block->ledger.runnable_ns / wall_ns,
		100 * (double)block->ledger.sleeping_ns / wall_ns,
		100 * (double)block->ledger.uninterruptible_ns / wall_ns);
	fprintf(table->out, "    %s %d: %s%s%s\n",
		tail(name, sizeof(name), block->process ? block->process : "-", 26), block->pid,
		symbol ? tail(where, sizeof(where), symbol, 30) : "no stack",
		block->reason_count ? ", " : "",
		block->reason_count ? block->reasons[0].reason : "");
}

static void print_event(struct table_sink *table, const struct record *record)
{
	const struct record_event *event = record->event;
	char text[128];

	print_time(table, record->t_boot_ns);
	fprintf(table->out, "  * %s", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		if (!strcmp(event->keys[i].name, "start_boot_ns"))
			continue;
		if (event->keys[i].text)
			fprintf(table->out, " %s",
				tail(text, sizeof(text), event->keys[i].text, 40));
		else
			fprintf(table->out, " %s=%lld", event->keys[i].name,
				(long long)event->keys[i].value);
	}
	fputc('\n', table->out);
}

static double total(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return footer->totals[i].value;
	return 0;
}

static void print_footer(struct table_sink *table, const struct record_footer *footer)
{
	double dur_ns = total(footer, "dur_ns");

	fprintf(table->out, "summary: %.0f intervals, %.3f s\n", total(footer, "intervals"),
		dur_ns / 1e9);
	fprintf(table->out,
		"  CPU: busy %.3f s, idle %.3f s, unaccounted %.3f s; %.0f tasks ended\n",
		total(footer, "cpu.busy_ns") / 1e9, total(footer, "cpu.idle_ns") / 1e9,
		total(footer, "cpu.unaccounted_ns") / 1e9, total(footer, "cpu.tasks_exited"));
	fprintf(table->out, "  net: rx %.0f B, tx %.0f B, loopback %.0f B, no uid %.0f B\n",
		total(footer, "net.rx_bytes"), total(footer, "net.tx_bytes"),
		total(footer, "net.loopback.rx_bytes") + total(footer, "net.loopback.tx_bytes"),
		total(footer, "net.unattributed.rx_bytes") +
			total(footer, "net.unattributed.tx_bytes"));
	if (total(footer, "blocks.count") > 0)
		fprintf(table->out, "  blocks: %.0f, %.3f s in all\n",
			total(footer, "blocks.count"), total(footer, "blocks.total_ns") / 1e9);
	fprintf(table->out, "  self: %.1f ms CPU (%.3f %% of a core), %.1f MiB; %.0f stops\n  ",
		total(footer, "self.cpu_ns") / 1e6,
		dur_ns > 0 ? 100 * total(footer, "self.cpu_ns") / dur_ns : 0,
		total(footer, "self.anon_bytes") / 1048576, total(footer, "self.stops"));
	print_losses(table->out, &footer->lost);
	fprintf(table->out, " (%.3g %%)\n", total(footer, "lost_pct"));
	for (size_t i = 0; i < footer->missing.count; i++)
		fprintf(table->out, "  missing %s: %s\n", footer->missing.items[i].key,
			footer->missing.items[i].reason);
}

static int table_write(struct sink *sink, const struct record *record)
{
	struct table_sink *table = (struct table_sink *)sink;

	errno = 0;
	switch (record->type) {
	case RECORD_HEADER:
		print_header(table, record);
		break;
	case RECORD_INTERVAL:
		print_interval(table, record);
		break;
	case RECORD_BLOCK:
		print_block(table, record);
		break;
	case RECORD_EVENT:
		print_event(table, record);
		break;
	case RECORD_FOOTER:
		print_footer(table, record->footer);
		break;
	}
	if (fflush(table->out) || ferror(table->out)) {
		int err = errno ? -errno : -EIO;

		if (err != -EPIPE)
			fprintf(stderr, "jankscope: error: cannot write the table: %s\n",
				strerror(-err));
		return err;
	}
	return 0;
}

static int table_close(struct sink *sink)
{
	free(sink);
	return 0;
}

static const struct sink_ops table_ops = {
	.name = "table",
	.write = table_write,
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
	/* What the fixed columns of a task row leave. */
	table->name_width = (int)table->options.width - 61;
	return &table->base;
}
