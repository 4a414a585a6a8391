/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink/line.h"
#include "util/clock.h"
#include "util/units.h"

/* Of the summary's paths: how many, and how much of each. */
#define TABLE_PATHS       5
#define TABLE_PATH_FRAMES 4

struct table_sink {
	struct sink base;
	FILE *out;
	struct table_options options;
	uint64_t first_boot_ns;
	uint64_t unix_minus_boot_ns;
};

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static struct line new_line(const struct table_sink *table)
{
	return (struct line){table->out, (int)table->options.width, 0};
}

static struct line begin_at(struct table_sink *table, uint64_t boot_ns)
{
	struct line line = new_line(table);
	time_t seconds = (time_t)((boot_ns + table->unix_minus_boot_ns) / NSEC_PER_SEC);
	struct tm tm;

	if (table->options.wall_clock && gmtime_r(&seconds, &tm))
		line_put(&line, "%02d:%02d:%02dZ", tm.tm_hour, tm.tm_min, tm.tm_sec);
	else
		line_put(&line, "%8.3f", (double)(boot_ns - table->first_boot_ns) / 1e9);
	return line;
}

static void print_header(struct table_sink *table, const struct record *record)
{
	const struct record_header *header = record->header;
	struct line line = new_line(table);
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

		column = fprintf(table->out, "  %9.1f ", ms(task->cpu_ns));
		column += task->runnable_ns.present
				  ? fprintf(table->out, "%9.1f ", ms(task->runnable_ns.value))
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
		fprintf(table->out, "  %9.1f  in other tasks\n", ms(rest_ns));
	}
	if (cpu->overflow_ns)
		fprintf(table->out, "  %9.1f  in tasks that found no room in the map\n",
			ms(cpu->overflow_ns));
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

static void put_losses(struct line *line, const struct counter_list *lost)
{
	line_put(line, lost->count ? "  LOST:" : "  lost: none");
	for (size_t i = 0; i < lost->count; i++)
		line_put(line, " %s=%llu", lost->items[i].name,
			 (unsigned long long)lost->items[i].value);
}

static void print_interval(struct table_sink *table, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	const struct record_cpu *cpu = &interval->cpu;
	double capacity_ns = (double)cpu->online_cpus * (double)interval->dur_ns;
	struct line line;

	line = begin_at(table, record->t_boot_ns);
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
	put_losses(&line, &interval->lost);
	if (interval->self.memory_bytes.present)
		line_put(&line, "  self: %.2f ms CPU, %.1f MiB", ms(interval->self.cpu_ns),
			 (double)interval->self.memory_bytes.value / 1048576);
	else
		line_put(&line, "  self: %.2f ms CPU", ms(interval->self.cpu_ns));
	line_end(&line);
}

/* The innermost function that has a name: what is below it are nameless parts of libraries. */
static const char *top_function(const struct record_stack *stack)
{
	if (!stack)
		return NULL;
	for (size_t i = 0; i < stack->frame_count; i++)
		if (stack->frames[i].symbol)
			return stack->frames[i].symbol;
	return stack->frame_count ? "nameless code" : NULL;
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
	const char *symbol = top_function(top);
	struct line line = begin_at(table, record->t_boot_ns);
	char name[256], where[128];

	line_put(&line, "  BLOCK %s %.1f ms%s%s", classes[block->class], ms(block->wall_ns),
		 states[block->state], block->merged ? " (merged)" : "");
	line_put(&line, "  run %.0f wait %.0f sleep %.0f D %.0f %%",
		 100 * (double)block->ledger.running_ns / wall_ns,
		 100 * (double)block->ledger.runnable_ns / wall_ns,
		 100 * (double)block->ledger.sleeping_ns / wall_ns,
		 100 * (double)block->ledger.uninterruptible_ns / wall_ns);
	line_end(&line);
	line_put(&line, "    %s %d:",
		 text_tail(name, sizeof(name), block->process ? block->process : "-", 26),
		 block->pid);
	line_put(&line, " %s%s", symbol ? text_tail(where, sizeof(where), symbol, 40) : "no stack",
		 block->reason_count ? "," : "");
	if (block->reason_count)
		line_put(&line, " %s", block->reasons[0].reason);
	if (block->owner.present)
		line_put(&line, " held by %s",
			 text_clean(where, sizeof(where),
				    block->owner.thread[0] ? block->owner.thread : "?"));
	else if (block->waker.present)
		line_put(&line, " until %s", text_clean(where, sizeof(where), block->waker.thread));
	else if (block->ledger.runnable_ns * 5 > block->wall_ns && block->preemptor_count)
		line_put(&line, "%s after %s", symbol || block->reason_count ? "," : "",
			 text_clean(where, sizeof(where), block->preemptors[0].thread));
	line_end(&line);
}

static void print_event(struct table_sink *table, const struct record *record)
{
	const struct record_event *event = record->event;
	struct line line = begin_at(table, record->t_boot_ns);
	char text[128];

	line_put(&line, "  * %s", event->event);
	for (size_t i = 0; i < event->key_count; i++) {
		if (!strcmp(event->keys[i].name, "start_boot_ns"))
			continue;
		if (event->keys[i].text)
			line_put(&line, " %s",
				 text_tail(text, sizeof(text), event->keys[i].text, 40));
		else
			line_put(&line, " %s=%lld", event->keys[i].name,
				 (long long)event->keys[i].value);
	}
	line_end(&line);
}

static const struct summary_total *find_total(const struct record_footer *footer, const char *key)
{
	for (size_t i = 0; i < footer->total_count; i++)
		if (!strcmp(footer->totals[i].key, key))
			return &footer->totals[i];
	return NULL;
}

static double total(const struct record_footer *footer, const char *key)
{
	const struct summary_total *found = find_total(footer, key);

	return found ? found->value : 0;
}

/* The innermost functions of a folded path tell what was done, so they come first. */
static void print_path(struct table_sink *table, const struct footer_path *path)
{
	const char *end = path->path + strlen(path->path);
	struct line line = new_line(table);
	char name[256], text[256];

	line_put(&line, "  %9.1f ms in %llu: ", ms(path->weight_ns),
		 (unsigned long long)path->blocks);
	for (int i = 0; i < TABLE_PATH_FRAMES && end > path->path; i++) {
		const char *begin = end;
		size_t length;

		while (begin > path->path && begin[-1] != ';')
			begin--;
		length = (size_t)(end - begin);
		if (length > sizeof(name) - 1)
			length = sizeof(name) - 1;
		memcpy(name, begin, length);
		name[length] = 0;
		/* Without the arguments, which C++ names have too many of. */
		if (name[0] != '(')
			name[strcspn(name, "(")] = 0;
		line_put(&line, "%s%s", i ? " < " : "", text_tail(text, sizeof(text), name, 36));
		if (begin == path->path)
			break;
		end = begin - 1;
	}
	line_end(&line);
}

static void print_footer(struct table_sink *table, const struct record_footer *footer)
{
	double dur_ns = total(footer, "dur_ns");
	struct line line = new_line(table);
	char text[256];

	fprintf(table->out, "summary: %.0f intervals, %.3f s\n", total(footer, "intervals"),
		dur_ns / 1e9);
	/* What no source measured has no total, and no 0 here. */
	if (find_total(footer, "cpu.busy_ns")) {
		line_put(&line, "  CPU: busy %.3f s", total(footer, "cpu.busy_ns") / 1e9);
		if (find_total(footer, "cpu.idle_ns"))
			line_put(&line, ", idle %.3f s", total(footer, "cpu.idle_ns") / 1e9);
		if (find_total(footer, "cpu.unaccounted_ns"))
			line_put(&line, ", unaccounted %.3f s",
				 total(footer, "cpu.unaccounted_ns") / 1e9);
		if (find_total(footer, "cpu.tasks_exited"))
			line_put(&line, "; %.0f tasks ended", total(footer, "cpu.tasks_exited"));
		line_end(&line);
	}
	if (find_total(footer, "net.rx_bytes")) {
		line_put(&line, "  net: rx %.0f B,", total(footer, "net.rx_bytes"));
		line_put(&line, " tx %.0f B,", total(footer, "net.tx_bytes"));
		line_put(&line, " loopback %.0f B,",
			 total(footer, "net.loopback.rx_bytes") +
				 total(footer, "net.loopback.tx_bytes"));
		line_put(&line, " no uid %.0f B",
			 total(footer, "net.unattributed.rx_bytes") +
				 total(footer, "net.unattributed.tx_bytes"));
		line_end(&line);
	}
	if (total(footer, "blocks.count") > 0)
		fprintf(table->out, "  blocks: %.0f, %.3f s in all\n",
			total(footer, "blocks.count"), total(footer, "blocks.total_ns") / 1e9);
	for (size_t i = 0; i < footer->path_count && i < TABLE_PATHS; i++)
		print_path(table, &footer->paths[i]);
	if (find_total(footer, "captures.snapshot")) {
		line_put(&line, "  captures: %.0f snapshot,", total(footer, "captures.snapshot"));
		line_put(&line, " %.0f perf,", total(footer, "captures.perf"));
		line_put(&line, " %.0f ptrace,", total(footer, "captures.ptrace"));
		line_put(&line, " %.0f kernel;", total(footer, "captures.kernel"));
		line_put(&line, " %.0f stops", total(footer, "captures.stops"));
		if (total(footer, "captures.stops") > 0) {
			line_put(&line, " of p50 %.0f,",
				 total(footer, "captures.stop_p50_ns") / 1e3);
			line_put(&line, " p99 %.0f,", total(footer, "captures.stop_p99_ns") / 1e3);
			line_put(&line, " max %.0f us",
				 total(footer, "captures.stop_max_ns") / 1e3);
		}
		line_put(&line, "; EINTR risk %.0f", total(footer, "captures.eintr_risk"));
		line_end(&line);
	}
	line_put(&line, "  self: %.1f ms CPU (%.3f %% of a core)",
		 total(footer, "self.cpu_ns") / 1e6,
		 dur_ns > 0 ? 100 * total(footer, "self.cpu_ns") / dur_ns : 0);
	if (find_total(footer, "self.memory_bytes"))
		line_put(&line, ", %.1f MiB", total(footer, "self.memory_bytes") / 1048576);
	line_put(&line, "; %.0f stops", total(footer, "self.stops"));
	line_end(&line);
	put_losses(&line, &footer->lost);
	line_put(&line, " (%.3g %%)", total(footer, "lost_pct"));
	line_end(&line);
	for (size_t i = 0; i < footer->missing.count; i++) {
		line_put(&line, "  missing %s:", footer->missing.items[i].key);
		text[0] = ' ';
		text_clean(text + 1, sizeof(text) - 1, footer->missing.items[i].reason);
		line_put_words(&line, text);
		line_end(&line);
	}
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
	return &table->base;
}
