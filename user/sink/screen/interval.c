/* SPDX-License-Identifier: BSD-2-Clause */
/* An interval as the screen keeps it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sink/screen/model.h"
#include "sink/table_private.h"
#include "sink/text.h"
#include "util/arena.h"

#define NAME_COLUMNS 120

static const char *keep(struct arena *arena, const char *clean)
{
	size_t size = strlen(clean) + 1;
	char *copy = arena_take(arena, size);

	return copy ? memcpy(copy, clean, size) : "";
}

static const char *keep_name(struct arena *arena, const char *name)
{
	char clean[TABLE_NAME];

	return name ? keep(arena, text_tail(clean, sizeof(clean), name, NAME_COLUMNS)) : "";
}

static const char *keep_process(struct arena *arena, const char *process, const char *package,
				const char *thread)
{
	char clean[TABLE_NAME], cut[TABLE_NAME];

	table_process(clean, process, package, thread);
	return keep(arena, text_tail(cut, sizeof(cut), clean, NAME_COLUMNS));
}

static void __attribute__((format(printf, 2, 3)))
append(char text[SCREEN_TEXT], const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, SCREEN_TEXT - length, format, arguments);
	va_end(arguments);
}

static size_t at_most(size_t count, size_t most)
{
	return count < most ? count : most;
}

static bool take_cpu(struct screen_interval *to, struct arena *arena, const struct record_cpu *cpu)
{
	/* --top cuts the list of the records, not the one of the screen. */
	size_t tasks = cpu->task_count + cpu->cut_count;

	to->has_cpu = cpu->present;
	if (!cpu->present)
		return true;
	to->online_cpus = cpu->online_cpus;
	to->busy_ns = cpu->busy_ns;
	to->task_count = at_most(tasks, SCREEN_TASKS);
	to->left_out = tasks - to->task_count;
	to->process_count = at_most(cpu->process_count, SCREEN_TASKS);
	to->tasks = arena_take(arena, (to->task_count + 1) * sizeof(*to->tasks));
	to->processes = arena_take(arena, (to->process_count + 1) * sizeof(*to->processes));
	if (!to->tasks || !to->processes)
		return false;
	for (size_t i = 0; i < to->task_count; i++) {
		const struct record_task *task = &cpu->tasks[i];

		to->tasks[i] = (struct screen_task){
			.pid = task->pid,
			.tid = task->tid,
			.thread = keep_name(arena, task->thread[0] ? task->thread : "-"),
			.process = keep_process(arena, task->process, task->package, NULL),
			.package = keep_name(arena, task->package),
			.cpu_ns = task->cpu_ns,
			.runnable_ns = task->runnable_ns,
			.voluntary = task->switches_voluntary,
			.involuntary = task->switches_involuntary,
			.exited = task->exited,
		};
	}
	for (size_t i = 0; i < cpu->process_count; i++)
		to->targets_ns += cpu->processes[i].cpu_ns;
	for (size_t i = 0; i < to->process_count; i++) {
		const struct record_process_cpu *process = &cpu->processes[i];
		const char *thread = NULL;

		for (size_t t = 0; t < to->task_count && !process->process && !thread; t++)
			if (to->tasks[t].pid == process->pid)
				thread = to->tasks[t].thread;
		to->processes[i] = (struct screen_task){
			.pid = process->pid,
			.thread = "",
			.process = keep_process(arena, process->process, process->package, thread),
			.package = keep_name(arena, process->package),
			.cpu_ns = process->cpu_ns,
			.runnable_ns = process->runnable_ns,
			.threads = process->threads,
			.exited = process->exited,
		};
	}
	return true;
}

static int more_bytes(const void *a, const void *b)
{
	const struct screen_bytes *x = a, *y = b;
	uint64_t x_bytes = x->rx_bytes + x->tx_bytes, y_bytes = y->rx_bytes + y->tx_bytes;

	return x_bytes < y_bytes ? 1 : x_bytes > y_bytes ? -1 : 0;
}

static bool take_net(struct screen_interval *to, struct arena *arena, const struct record_net *net)
{
	struct screen_bytes *rows;
	size_t count = 0;
	char name[32];

	to->has_net = net->present;
	if (!net->present)
		return true;
	to->rx_bytes = net->unattributed.rx_bytes;
	to->tx_bytes = net->unattributed.tx_bytes;
	rows = arena_take(arena, (net->uid_count + 2) * sizeof(*rows));
	if (!rows)
		return false;
	for (size_t i = 0; i < net->uid_count; i++) {
		const struct record_uid_net *uid = &net->uids[i];

		to->rx_bytes += uid->bytes.rx_bytes;
		to->tx_bytes += uid->bytes.tx_bytes;
		if (!uid->bytes.rx_bytes && !uid->bytes.tx_bytes)
			continue;
		snprintf(name, sizeof(name), "uid %u", uid->uid);
		rows[count++] =
			(struct screen_bytes){keep_name(arena, uid->package ? uid->package : name),
					      uid->bytes.rx_bytes, uid->bytes.tx_bytes};
	}
	if (net->unattributed.rx_bytes || net->unattributed.tx_bytes)
		rows[count++] = (struct screen_bytes){"no uid", net->unattributed.rx_bytes,
						      net->unattributed.tx_bytes};
	qsort(rows, count, sizeof(*rows), more_bytes);
	if (net->loopback.rx_bytes || net->loopback.tx_bytes)
		rows[count++] = (struct screen_bytes){"loopback", net->loopback.rx_bytes,
						      net->loopback.tx_bytes};
	to->bytes = rows;
	to->bytes_count = at_most(count, SCREEN_ROWS);
	return true;
}

static uint64_t weight_of(const struct screen_process *process)
{
	return process->pss_bytes.present   ? process->pss_bytes.value
	       : process->rss_bytes.present ? process->rss_bytes.value
					    : 0;
}

static int more_memory(const void *a, const void *b)
{
	uint64_t x = weight_of(a), y = weight_of(b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static bool take_memory(struct screen_interval *to, struct arena *arena,
			const struct record_memory *memory)
{
	to->has_memory = memory->present;
	if (!memory->present)
		return true;
	to->total_bytes = memory->system.total_bytes;
	to->available_bytes = memory->system.available_bytes;
	to->memories = arena_take(arena, (memory->process_count + 1) * sizeof(*to->memories));
	if (!to->memories)
		return false;
	for (size_t i = 0; i < memory->process_count; i++) {
		const struct record_memory_process *process = &memory->processes[i];

		to->memories[i] = (struct screen_process){
			.pid = process->pid,
			.name = keep_process(arena, process->process, process->package, NULL),
			.pss_bytes = process->pss_bytes,
			.rss_bytes = process->rss_bytes,
			.swap_bytes = process->swap_bytes,
		};
	}
	qsort(to->memories, memory->process_count, sizeof(*to->memories), more_memory);
	to->memory_count = at_most(memory->process_count, SCREEN_ROWS);
	return true;
}

static int hotter(const void *a, const void *b)
{
	const struct record_zone *const *x = a, *const *y = b;
	int64_t x_mc = (*x)->temperature_mc.value, y_mc = (*y)->temperature_mc.value;

	return x_mc < y_mc ? 1 : x_mc > y_mc ? -1 : 0;
}

static void take_zones(struct screen_interval *to, const struct record_power *power)
{
	const struct record_zone *zones[SCREEN_ROWS];
	size_t count = 0;
	char name[48];

	for (size_t i = 0; i < power->zone_count && count < SCREEN_ROWS; i++)
		if (power->zones[i].temperature_mc.present)
			zones[count++] = &power->zones[i];
	qsort(zones, count, sizeof(*zones), hotter);
	for (size_t i = 0; i < count && i < 6; i++)
		append(to->zones, "%s%s %.1f C", i ? ", " : "",
		       text_tail(name, sizeof(name), zones[i]->type ? zones[i]->type : "-", 24),
		       (double)zones[i]->temperature_mc.value / 1e3);
}

static void take_power(struct screen_interval *to, const struct record_power *power)
{
	const struct record_supply *battery = &power->battery;
	char name[48];

	to->has_power = power->present;
	if (!power->present)
		return;
	if (battery->charge_pct.present)
		append(to->power, " %llu %%", (unsigned long long)battery->charge_pct.value);
	if (battery->current_ua.present)
		append(to->power, " %.1f mA", (double)battery->current_ua.value / 1e3);
	if (battery->voltage_uv.present)
		append(to->power, " %.3f V", (double)battery->voltage_uv.value / 1e6);
	if (battery->temperature_mc.present)
		append(to->power, " %.1f C", (double)battery->temperature_mc.value / 1e3);
	if (battery->status)
		append(to->power, " %s", text_tail(name, sizeof(name), battery->status, 24));
	if (power->external)
		append(to->power, " (external power)");
	take_zones(to, power);
	for (size_t i = 0; i < power->policy_count; i++)
		if (power->policies[i].capped)
			append(to->capped, " policy%u %llu of %llu MHz", power->policies[i].policy,
			       (unsigned long long)power->policies[i].limit_khz / 1000,
			       (unsigned long long)power->policies[i].max_khz / 1000);
}

struct screen_interval *screen_interval_new(const struct screen_model *model,
					    const struct record *record)
{
	const struct record_interval *interval = record->interval;
	struct screen_interval *to = calloc(1, sizeof(*to));
	struct arena *arena = calloc(1, sizeof(*arena));
	char name[96];

	if (!to || !arena) {
		free(to);
		free(arena);
		return NULL;
	}
	to->refs = 1;
	to->memory = arena;
	to->dur_ns = interval->dur_ns;
	screen_time(model, record->t_boot_ns, to->time);
	if (!take_cpu(to, arena, &interval->cpu) || !take_net(to, arena, &interval->net) ||
	    !take_memory(to, arena, &interval->memory)) {
		screen_interval_drop(to);
		return NULL;
	}
	take_power(to, &interval->power);
	for (size_t i = 0; i < interval->lost.count; i++)
		append(to->lost, " %s=%llu",
		       text_clean(name, sizeof(name), interval->lost.items[i].name),
		       (unsigned long long)interval->lost.items[i].value);
	to->self_cpu_ns = interval->self.cpu_ns;
	to->self_bytes = interval->self.memory_bytes;
	return to;
}

void screen_interval_drop(struct screen_interval *interval)
{
	if (!interval || --interval->refs)
		return;
	arena_free(interval->memory);
	free(interval->memory);
	free(interval);
}
