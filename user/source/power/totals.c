/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/power/totals.h"

#include <stdio.h>
#include <string.h>

#include "summary/summary.h"

/* A dot in a name would be a level of the summary's keys. */
static void put_name(char *to, size_t size, const char *name)
{
	snprintf(to, size, "%s", name);
	for (; *to; to++)
		if (*to == '.')
			*to = '_';
}

static void add_row(struct power_totals *totals, const char *folder, const char *name,
		    const char *what, double value, bool highest)
{
	char clean[2 * POWER_NAME], key[sizeof(totals->rows[0].key)];
	struct power_total_row *row;

	put_name(clean, sizeof(clean), name);
	snprintf(key, sizeof(key), "power.%s.%.*s.%s", folder, POWER_NAME + 16, clean, what);
	for (size_t i = 0; i < totals->row_count; i++) {
		row = &totals->rows[i];
		if (strcmp(row->key, key))
			continue;
		if (!highest)
			row->value += value;
		else if (value > row->value)
			row->value = value;
		return;
	}
	if (totals->row_count == POWER_TOTAL_ROWS)
		return;
	row = &totals->rows[totals->row_count++];
	memcpy(row->key, key, sizeof(key));
	row->value = value;
	row->highest = highest;
}

static void look_at_battery(struct power_totals *totals, const struct record_power *power)
{
	const char *name = power->battery.name;

	if (!power->battery_present)
		return;
	if (!totals->battery[0])
		snprintf(totals->battery, sizeof(totals->battery), "%s", name);
	totals->battery_changed |= strcmp(totals->battery, name) != 0;
}

void power_totals_add(struct power_totals *totals, const struct record_power *power,
		      bool external_untold, uint64_t cpu_ns)
{
	const struct record_supply *battery = &power->battery;
	char name[2 * POWER_NAME];

	totals->read_outs++;
	totals->read_ns += power->read_ns;
	totals->cpu_ns += cpu_ns;
	if (power->read_ns > totals->read_max_ns)
		totals->read_max_ns = power->read_ns;
	if (!totals->first_boot_ns)
		totals->first_boot_ns = power->read_boot_ns;
	totals->last_boot_ns = power->read_boot_ns;
	totals->external += power->external;
	totals->external_untold += external_untold;
	look_at_battery(totals, power);
	totals->discharging += battery->status && !strcmp(battery->status, "Discharging");
	if (battery->current_ua.present) {
		totals->current_sum_ua += (double)battery->current_ua.value;
		totals->current_count++;
	}
	if (battery->charge_pct.present) {
		if (!totals->first_pct.present)
			totals->first_pct = battery->charge_pct;
		totals->last_pct = battery->charge_pct;
	}
	if (battery->charge_uah.present) {
		if (!totals->first_uah.present)
			totals->first_uah = battery->charge_uah;
		totals->last_uah = battery->charge_uah;
	}
	if (battery->temperature_mc.present &&
	    (!totals->hottest_mc.present ||
	     battery->temperature_mc.value > totals->hottest_mc.value))
		totals->hottest_mc = battery->temperature_mc;
	for (size_t i = 0; i < power->rail_count; i++) {
		const struct record_rail *rail = &power->rails[i];

		snprintf(name, sizeof(name), "%s", rail->rail);
		if (rail->energy_uj.present)
			add_row(totals, "rails", name, "energy_uj", (double)rail->energy_uj.value,
				false);
	}
	for (size_t i = 0; i < power->policy_count; i++) {
		snprintf(name, sizeof(name), "policy%u", power->policies[i].policy);
		if (power->policies[i].capped)
			add_row(totals, "policies", name, "capped_ns", (double)power->span_ns,
				false);
	}
	for (size_t i = 0; i < power->zone_count; i++)
		if (power->zones[i].type[0])
			add_row(totals, "zones", power->zones[i].type, "max_mc",
				(double)power->zones[i].temperature_mc.value, true);
}

const char *power_totals_no_discharge(const struct power_totals *totals)
{
	if (totals->external)
		return "power comes from outside: the battery's current is not what the device "
		       "uses";
	if (totals->battery_changed)
		return "another battery took the first one's place";
	if (totals->external_untold)
		return "a supply does not say whether power comes from outside";
	return NULL;
}

int power_totals_tell(const struct power_totals *totals, struct summary *summary)
{
	bool discharge =
		totals->discharging == totals->read_outs && !power_totals_no_discharge(totals);
	bool same = !totals->battery_changed;
	const struct {
		const char *key;
		bool there;
		double value;
	} parts[] = {
		{"power.read_outs", true, (double)totals->read_outs},
		{"power.read_ns", true, (double)totals->read_ns},
		{"power.read_max_ns", true, (double)totals->read_max_ns},
		{"power.read_cpu_ns", totals->cpu_ns > 0, (double)totals->cpu_ns},
		{"power.external_read_outs", true, (double)totals->external},
		{"power.charge_begin_pct", same && totals->first_pct.present,
		 (double)totals->first_pct.value},
		{"power.charge_end_pct", same && totals->last_pct.present,
		 (double)totals->last_pct.value},
		{"power.temperature_max_mc", totals->hottest_mc.present,
		 (double)totals->hottest_mc.value},
		/* What the device took out of its battery: nothing of it is said where power came
		 * from outside, for one read-out only. */
		{"power.discharge_mean_ua", discharge && totals->current_count,
		 totals->current_count ? totals->current_sum_ua / (double)totals->current_count
				       : 0},
		{"power.discharge_uah",
		 discharge && totals->first_uah.present && totals->read_outs > 1,
		 (double)(totals->first_uah.value - totals->last_uah.value)},
		{"power.discharge_ns", discharge && totals->read_outs > 1,
		 (double)(totals->last_boot_ns - totals->first_boot_ns)},
	};
	int err = 0;

	if (!totals->read_outs)
		return 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !err; i++)
		if (parts[i].there)
			err = summary_set_total(summary, parts[i].key, parts[i].value);
	for (size_t i = 0; i < totals->row_count && !err; i++)
		err = summary_set_total(summary, totals->rows[i].key, totals->rows[i].value);
	return err;
}
