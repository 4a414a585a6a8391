/* SPDX-License-Identifier: BSD-2-Clause */
/* What an interval adds to the summary. */
#include <stdio.h>
#include <string.h>

#include "record/histogram.h"
#include "summary/disk.h"
#include "summary/interfaces.h"
#include "summary/memory.h"
#include "summary/summary_private.h"
#include "summary/tcp.h"
#include "summary/usage.h"

static int add_stat(struct summary *summary, const struct record_cpu_stat *stat)
{
	const struct {
		const char *key;
		struct opt_u64 value;
	} parts[] = {{"cpu.irq_ns", stat->irq_ns},
		     {"cpu.softirq_ns", stat->softirq_ns},
		     {"cpu.steal_ns", stat->steal_ns},
		     {"cpu.iowait_ns", stat->iowait_ns}};
	int err = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !err; i++)
		if (parts[i].value.present)
			err = summary_add_to(summary, parts[i].key, (double)parts[i].value.value);
	return err;
}

static int add_total(void *summary, const char *key, double value)
{
	return summary_add_to(summary, key, value);
}

static int add_cpu(struct summary *summary, const struct record_cpu *cpu, bool sees_exits)
{
	uint64_t exits = 0;
	int err = summary_add_to(summary, "cpu.busy_ns", (double)cpu->busy_ns);

	if (!err)
		err = summary_add_to(summary, "cpu.other_ns", (double)cpu->other_ns);
	if (!err)
		err = summary_add_to(summary, "cpu.overflow_ns", (double)cpu->overflow_ns);
	if (!err && cpu->idle_ns.present)
		err = summary_add_to(summary, "cpu.idle_ns", (double)cpu->idle_ns.value);
	if (!err)
		err = summary_add_to(summary, "cpu.online_ns", (double)cpu->online_ns);
	if (!err && cpu->stat_present)
		err = add_stat(summary, &cpu->stat);
	if (!err && cpu->unaccounted_ns.present)
		err = summary_add_to(summary, "cpu.unaccounted_ns",
				     (double)cpu->unaccounted_ns.value);
	for (size_t i = 0; i < cpu->task_count + cpu->cut_count; i++)
		exits += cpu->tasks[i].exited;
	summary->exits += exits;
	/* The footer has their sum, unless they were not seen. */
	if (!err && sees_exits)
		err = scenes_add(summary->scenes, "cpu.tasks_exited", (double)exits);
	if (!err)
		err = clusters_add(&summary->other_tools.clusters, cpu, add_total, summary);
	if (!err)
		err = summary_add_value(summary, DISTRIBUTION_BUSY, cpu->busy_ns);
	return err;
}

static int add_bytes(struct summary *summary, const char *prefix, const struct record_bytes *bytes)
{
	const struct {
		const char *name;
		uint64_t value;
	} parts[] = {
		{"rx_bytes", bytes->rx_bytes},
		{"rx_packets", bytes->rx_packets},
		{"tx_bytes", bytes->tx_bytes},
		{"tx_packets", bytes->tx_packets},
	};
	size_t length = strlen(prefix);
	char key[64];
	int err = 0;

	memcpy(key, prefix, length); /* each is one of ours, and short */
	key[length] = '.';
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !err; i++) {
		strcpy(key + length + 1, parts[i].name);
		err = summary_add_to(summary, key, (double)parts[i].value);
	}
	return err;
}

static int add_net(struct summary *summary, const struct record_net *net)
{
	struct record_bytes sum = {0};
	int err;

	for (size_t i = 0; i < net->uid_count; i++) {
		sum.rx_bytes += net->uids[i].bytes.rx_bytes;
		sum.rx_packets += net->uids[i].bytes.rx_packets;
		sum.tx_bytes += net->uids[i].bytes.tx_bytes;
		sum.tx_packets += net->uids[i].bytes.tx_packets;
	}
	err = add_bytes(summary, "net", &sum);
	if (!err)
		err = add_bytes(summary, "net.loopback", &net->loopback);
	if (!err && net->netd_present)
		err = add_bytes(summary, "net.netd", &net->netd);
	if (!err)
		err = interface_sums_add(summary->interfaces, net);
	return err ? err : add_bytes(summary, "net.unattributed", &net->unattributed);
}

struct rtt_adder {
	struct summary *summary;
	int err;
};

static void add_rtt_bucket(void *ctx, uint64_t low, uint64_t high, uint64_t count)
{
	struct rtt_adder *adder = ctx;

	if (!adder->err)
		adder->err =
			summary_add_bucket(adder->summary, DISTRIBUTION_TCP_RTT, low, high, count);
}

static int add_rtt(struct summary *summary, const struct record_uid_tcp *row)
{
	struct rtt_adder adder = {summary, 0};

	if (row->rtt_hist)
		histogram_each(row->rtt_hist, add_rtt_bucket, &adder);
	return adder.err;
}

static int add_tcp(struct summary *summary, const struct record_tcp *tcp)
{
	struct summary_part parts[TCP_PARTS];
	int err = 0;

	for (size_t i = 0; i < tcp->uid_count && !err; i++) {
		tcp_parts(&tcp->uids[i], parts);
		for (size_t j = 0; j < TCP_PARTS && !err; j++)
			err = summary_add_to(summary, parts[j].key, (double)parts[j].value);
		if (!err)
			err = add_rtt(summary, &tcp->uids[i]);
	}
	return err;
}

static int add_row(struct scenes *scenes, const char *folder, const char *name, const char *what,
		   double value)
{
	char key[160];
	int n = snprintf(key, sizeof(key), "power.%s.%.100s", folder, name);

	/* A dot in a name would be a level of the summary's keys. */
	for (char *c = key + strlen("power.") + strlen(folder) + 1; *c; c++)
		if (*c == '.')
			*c = '_';
	snprintf(key + n, sizeof(key) - (size_t)n, ".%s", what);
	return scenes_add(scenes, key, value);
}

/* What only the source sums up of the whole run, scenes have from read-out to read-out, by when
 * these were: they are not at the ends of intervals. */
static int add_power_of_scenes(struct summary *summary, const struct record_interval *interval)
{
	const struct record_power *power = &interval->power;
	const struct record_supply *battery = &power->battery;
	struct scenes *scenes = summary->scenes;
	struct opt_i64 before = summary->charge_uah;
	char policy[24];
	int err = 0;

	summary->charge_uah = (struct opt_i64){0};
	/* The source says so where power may come from outside, or the battery is another one. */
	if (!missing_reason(&interval->missing, "power.discharge_mean_ua") && !power->external &&
	    battery->status && !strcmp(battery->status, "Discharging"))
		summary->charge_uah = battery->charge_uah;
	scenes_select(scenes, power->read_boot_ns - power->span_ns, power->read_boot_ns);
	if (power->span_ns && before.present && summary->charge_uah.present) {
		err = scenes_add(scenes, "power.discharge_uah",
				 (double)(before.value - battery->charge_uah.value));
		if (!err)
			err = scenes_add(scenes, "power.discharge_ns", (double)power->span_ns);
	}
	for (size_t i = 0; i < power->rail_count && !err; i++)
		if (power->rails[i].energy_uj.present)
			err = add_row(scenes, "rails", power->rails[i].rail, "energy_uj",
				      (double)power->rails[i].energy_uj.value);
	for (size_t i = 0; i < power->policy_count && !err; i++) {
		snprintf(policy, sizeof(policy), "policy%u", power->policies[i].policy);
		if (power->policies[i].capped)
			err = add_row(scenes, "policies", policy, "capped_ns",
				      (double)power->span_ns);
	}
	return err;
}

/* Of the thermal zones at each reading; below 0 C is as cold as 0. */
static int add_power(struct summary *summary, const struct record_power *power)
{
	int64_t hottest_mc = 0;
	bool any = false;

	for (size_t i = 0; i < power->zone_count; i++) {
		const struct opt_i64 *temperature = &power->zones[i].temperature_mc;

		if (temperature->present && temperature->value > hottest_mc)
			hottest_mc = temperature->value;
		any |= temperature->present;
	}
	return any ? summary_add_value(summary, DISTRIBUTION_HOTTEST, (uint64_t)hottest_mc) : 0;
}

/* Of all processes of the targets at one time. */
static int add_targets_memory(struct summary *summary, const struct record_memory *memory)
{
	uint64_t rss_bytes = 0;
	struct opt_u64 pss_bytes = memory_runs_sum_pss(summary->memory, memory);
	size_t with_rss = 0;
	int err = 0;

	for (size_t i = 0; i < memory->process_count; i++) {
		rss_bytes += memory->processes[i].rss_bytes.value;
		with_rss += memory->processes[i].rss_bytes.present;
	}
	if (memory->process_count && with_rss == memory->process_count)
		err = summary_add_value(summary, DISTRIBUTION_TARGETS_RSS, rss_bytes);
	if (!err && pss_bytes.present)
		err = summary_add_value(summary, DISTRIBUTION_TARGETS_PSS, pss_bytes.value);
	return err;
}

static int add_memory(struct summary *summary, const struct record_memory *memory,
		      uint64_t end_boot_ns)
{
	const struct record_memory_system *system = &memory->system;
	int err = 0;

	if (system->available_bytes.present)
		err = summary_add_value(summary, DISTRIBUTION_AVAILABLE,
					system->available_bytes.value);
	if (!err && system->total_bytes.present)
		err = summary_set_total(summary, "memory.total_bytes",
					(double)system->total_bytes.value);
	if (!err && system->pressure_some_ns.present)
		err = summary_add_to(summary, "memory.pressure_some_ns",
				     (double)system->pressure_some_ns.value);
	if (!err && system->pressure_full_ns.present)
		err = summary_add_to(summary, "memory.pressure_full_ns",
				     (double)system->pressure_full_ns.value);
	if (!err)
		err = memory_runs_add(summary->memory, memory, end_boot_ns);
	return err ? err : add_targets_memory(summary, memory);
}

static int add_disk(struct summary *summary, const struct record_disk *disk)
{
	const struct {
		const char *key;
		uint64_t value;
	} parts[] = {{"disk.read_bytes", disk->sums.read_bytes},
		     {"disk.write_bytes", disk->sums.write_bytes},
		     {"disk.cancelled_write_bytes", disk->sums.cancelled_write_bytes},
		     {"targets.disk_read_bytes", disk->targets.read_bytes},
		     {"targets.disk_write_bytes", disk->targets.write_bytes},
		     {"targets.syncs", disk->targets_sync.count + disk->targets_sync.failed},
		     {"targets.sync_ns", disk->targets_sync.time_ns}};
	size_t count = !disk->has_targets ? 3 : !disk->has_targets_sync ? 5 : 7;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = summary_add_to(summary, parts[i].key, (double)parts[i].value);
	return err ? err : disk_runs_add(summary->disk, disk);
}

static int add_part(struct summary *summary, const char *key, struct opt_u64 before,
		    struct opt_u64 after)
{
	return after.present
		       ? scenes_add(summary->scenes, key, (double)(after.value - before.value))
		       : 0;
}

/* What only the footer has of the whole run, scenes have by its growth. */
static int add_usage(struct summary *summary, const struct record_interval *interval,
		     uint64_t end_boot_ns)
{
	struct usage_targets before = usage_targets(summary->usage), after;
	struct scenes *scenes = summary->scenes;
	int err = usage_add(summary->usage, interval, end_boot_ns);

	after = usage_targets(summary->usage);
	if (!err)
		err = add_part(summary, "targets.cpu_ns", before.cpu_ns, after.cpu_ns);
	if (!err)
		err = add_part(summary, "targets.runnable_ns", before.runnable_ns,
			       after.runnable_ns);
	if (!err)
		err = add_part(summary, "targets.rx_bytes", before.rx_bytes, after.rx_bytes);
	if (!err)
		err = add_part(summary, "targets.tx_bytes", before.tx_bytes, after.tx_bytes);
	for (size_t i = 0; i < interval->frames.layer_count && !err; i++) {
		const struct record_layer *layer = &interval->frames.layers[i];

		err = scenes_add(scenes, "frames.shown", (double)layer->shown);
		if (!err)
			err = scenes_add(scenes, "frames.dropped", (double)layer->dropped);
		if (!err)
			err = scenes_add(scenes, "frames.janky", (double)layer->janky);
	}
	if (!err && summary->watches_blocks)
		err = scenes_add(scenes, "blocks.count", 0);
	if (!err)
		err = scenes_add(scenes, "intervals",
				 interval->merged.present ? (double)interval->merged.intervals : 1);
	return err ? err : scenes_add(scenes, "dur_ns", (double)interval->dur_ns);
}

int summary_add_interval(struct summary *summary, const struct record_interval *interval,
			 uint64_t end_boot_ns)
{
	uint64_t begin_boot_ns = summary->end_boot_ns;
	int err = counter_list_merge(&summary->footer.lost, &interval->lost);

	if (!begin_boot_ns)
		begin_boot_ns = end_boot_ns - interval->dur_ns;
	summary->end_boot_ns = end_boot_ns;
	scenes_select(summary->scenes, begin_boot_ns, end_boot_ns);

	if (!err)
		err = counter_list_merge(&summary->footer.late, &interval->late);
	if (!err)
		err = counter_list_merge(&summary->footer.repaired, &interval->repaired);
	for (size_t i = 0; i < interval->frames.layer_count; i++)
		summary->frames += interval->frames.layers[i].shown;
	summary_follow_frames(summary, interval);
	summary->intervals += interval->merged.present ? interval->merged.intervals : 1;
	summary->dur_ns += (double)interval->dur_ns;
	for (size_t i = 0; i < interval->missing.count && !err; i++)
		err = missing_list_set(&summary->footer.missing, interval->missing.items[i].key,
				       interval->missing.items[i].reason);
	if (!err)
		err = summary_add_value(summary, DISTRIBUTION_DUR, interval->dur_ns);
	if (!err)
		err = summary_add_value(summary, DISTRIBUTION_SELF, interval->self.cpu_ns);
	if (!err)
		err = summary_add_to(summary, "self.cpu_ns", (double)interval->self.cpu_ns);
	if (!err)
		err = summary_add_to(summary, "self.stops", (double)interval->self.stops);
	if (!err && (double)interval->self.stop_max_ns > summary_get(summary, "self.stop_max_ns"))
		err = summary_set_total(summary, "self.stop_max_ns",
					(double)interval->self.stop_max_ns);
	if (!err && interval->self.anon_bytes.present)
		err = summary_set_total(summary, "self.anon_bytes",
					(double)interval->self.anon_bytes.value);
	if (!err && interval->self.memory_bytes.present)
		err = summary_set_total(summary, "self.memory_bytes",
					(double)interval->self.memory_bytes.value);
	if (!err && interval->cpu.present)
		err = add_cpu(summary, &interval->cpu,
			      !missing_reason(&interval->missing, "cpu.tasks_exited"));
	if (!err && interval->net.present)
		err = add_net(summary, &interval->net);
	if (!err && interval->tcp.present)
		err = add_tcp(summary, &interval->tcp);
	if (!err && interval->power.present)
		err = add_power(summary, &interval->power);
	if (!err && interval->memory.present)
		err = add_memory(summary, &interval->memory, end_boot_ns);
	if (!err && interval->disk.present)
		err = add_disk(summary, &interval->disk);
	if (!err && interval->power.present) {
		err = add_power_of_scenes(summary, interval);
		scenes_select(summary->scenes, begin_boot_ns, end_boot_ns);
	}
	if (!err)
		err = split_interval(summary->split, interval, begin_boot_ns, end_boot_ns,
				     summary->watches_blocks);
	return err ? err : add_usage(summary, interval, end_boot_ns);
}
