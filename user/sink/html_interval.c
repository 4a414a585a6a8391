/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/html_interval.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define THREADS_HELD 64 /* candidates for the threads that are shown */

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

	if (battery->current_ua.present)
		add(adder, GROUP_POWER, SERIES_LEVEL, "ua", "battery current", 0,
		    (double)battery->current_ua.value);
	if (battery->temperature_mc.present)
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

int html_interval_add(struct thinned *thinned, const struct record_interval *interval,
		      bool judges_frames)
{
	struct adder adder = {thinned, 0};

	if (interval->cpu.present)
		add_cpu(&adder, &interval->cpu);
	if (interval->net.present)
		add_net(&adder, &interval->net);
	if (interval->frames.present)
		add_frames(&adder, &interval->frames);
	/* No late frame is 0 ms of lateness. */
	if (interval->frames.present && judges_frames)
		thinned_measured(thinned, GROUP_LATE);
	if (interval->memory.present)
		add_memory(&adder, &interval->memory);
	if (interval->power.present)
		add_power(&adder, &interval->power);
	add_losses(&adder, interval);
	return adder.err;
}
