/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/power/rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/power/parse.h"

#define MAX_MISSING 24 /* an interval tells so many values; the others by their number */
#define TENTHS_MC   100

struct telling {
	struct missing_list *missing;
	unsigned told, more;
	int err;
};

static void tell(struct telling *telling, const char *key, const char *reason)
{
	if (telling->told == MAX_MISSING) {
		telling->more++;
		return;
	}
	telling->told++;
	if (!telling->err)
		telling->err = missing_list_set(telling->missing, key, reason);
}

static struct opt_i64 optional(struct telling *telling, const struct power_value *value,
			       const char *folder, const char *name, const char *key)
{
	char path[160];

	if (!value->error)
		return SOME_I64(value->value);
	/* A supply has the files that it has: what is not there is not missing. */
	if (value->error != -ENOENT && value->error != POWER_VALUE_UNASKED) {
		snprintf(path, sizeof(path), "power.%s.%s.%s", folder, name, key);
		tell(telling, path, power_value_reason(value->error));
	}
	return (struct opt_i64){0};
}

static struct opt_u64 not_below_0(struct opt_i64 value)
{
	return value.present && value.value >= 0 ? SOME_U64((uint64_t)value.value)
						 : (struct opt_u64){0};
}

static const char *text_or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void make_supply(struct telling *telling, const struct power_supply_row *row,
			struct record_supply *out)
{
	static const char *const keys[POWER_FILES] = {
		[POWER_FILE_ONLINE] = "online",      [POWER_FILE_CURRENT] = "current_ua",
		[POWER_FILE_VOLTAGE] = "voltage_uv", [POWER_FILE_CAPACITY] = "charge_pct",
		[POWER_FILE_CHARGE] = "charge_uah",  [POWER_FILE_TEMPERATURE] = "temperature_mc",
	};
	struct opt_i64 values[POWER_FILES];

	for (int i = 0; i < POWER_FILES; i++)
		values[i] = optional(telling, &row->values[i], "supplies", row->name, keys[i]);
	*out = (struct record_supply){
		.name = row->name,
		.type = text_or_null(row->type),
		.status = text_or_null(row->status),
		.online = not_below_0(values[POWER_FILE_ONLINE]),
		.current_ua = values[POWER_FILE_CURRENT],
		.voltage_uv = not_below_0(values[POWER_FILE_VOLTAGE]),
		.charge_pct = not_below_0(values[POWER_FILE_CAPACITY]),
		.charge_uah = values[POWER_FILE_CHARGE],
		.temperature_mc = values[POWER_FILE_TEMPERATURE],
	};
	out->temperature_mc.value *= TENTHS_MC;
}

static bool is_battery(const struct record_supply *supply)
{
	return supply->type && !strcmp(supply->type, "Battery");
}

/* Of several the one that Android's own health service takes, by its name; else the first. */
static void find_battery(struct power_rows *rows, struct record_power *power)
{
	const struct record_supply *found = NULL;

	rows->external_untold = false;
	for (size_t i = 0; i < power->supply_count; i++) {
		const struct record_supply *supply = &rows->supplies[i];
		int32_t error = rows->now.supplies[i].values[POWER_FILE_ONLINE].error;

		if (is_battery(supply) && !rows->now.supplies[i].of_device &&
		    (!found || !strcmp(supply->name, "battery")))
			found = supply;
		power->external |=
			!is_battery(supply) && supply->online.present && supply->online.value;
		rows->external_untold |= !is_battery(supply) && error && error != -ENOENT;
	}
	power->battery_present = found;
	if (!found)
		return;
	power->battery = *found;
	power->external |= found->status &&
			   (!strcmp(found->status, "Charging") || !strcmp(found->status, "Full"));
}

static void tell_battery(struct telling *telling, const struct record_power *power,
			 const struct power_rows *rows)
{
	const struct record_supply *battery = &power->battery;
	const struct {
		const char *key;
		bool there;
	} parts[] = {
		{"power.current_ua", battery->current_ua.present},
		{"power.voltage_uv", battery->voltage_uv.present},
		{"power.charge_pct", battery->charge_pct.present},
		{"power.temperature_mc", battery->temperature_mc.present},
		{"power.status", battery->status},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!parts[i].there)
			tell(telling, parts[i].key,
			     power->battery_present ? "the battery's driver does not tell it"
						    : "the kernel knows no battery");
}

static void make_zones(struct telling *telling, struct power_rows *rows, struct record_power *power)
{
	for (size_t i = 0; i < rows->now.zone_count; i++) {
		const struct power_zone_row *row = &rows->now.zones[i];
		struct record_zone *zone = &rows->zones[power->zone_count];
		char name[16];

		snprintf(name, sizeof(name), "%u", row->number);
		*zone = (struct record_zone){row->number, row->type, {0}};
		zone->temperature_mc = optional(telling, &row->temperature, "zones",
						row->type[0] ? row->type : name, "temperature_mc");
		power->zone_count += zone->temperature_mc.present;
	}
}

static void make_coolings(struct telling *telling, struct power_rows *rows,
			  struct record_power *power)
{
	for (size_t i = 0; i < rows->now.cooling_count; i++) {
		const struct power_cooling_row *row = &rows->now.coolings[i];
		struct opt_i64 state =
			optional(telling, &row->state, "coolings", row->type, "state");

		if (!state.present || state.value <= 0)
			continue;
		rows->coolings[power->cooling_count++] = (struct record_cooling){
			.device = row->number,
			.type = row->type,
			.state = (uint64_t)state.value,
			.max_state = row->max_state.error || row->max_state.value < 0
					     ? 0
					     : (uint64_t)row->max_state.value,
		};
	}
}

static void make_policies(struct telling *telling, struct power_rows *rows,
			  struct record_power *power)
{
	for (size_t i = 0; i < rows->now.policy_count; i++) {
		const struct power_policy_row *row = &rows->now.policies[i];
		struct record_policy *policy = &rows->policies[power->policy_count];
		struct opt_i64 limit, max;
		char name[16];

		snprintf(name, sizeof(name), "policy%u", row->number);
		limit = optional(telling, &row->limit_khz, "policies", name, "limit_khz");
		max = optional(telling, &row->max_khz, "policies", name, "max_khz");
		if (!limit.present || !max.present || limit.value <= 0 || max.value <= 0)
			continue;
		*policy = (struct record_policy){row->number, row->cpus, (uint64_t)limit.value,
						 (uint64_t)max.value, limit.value < max.value};
		power->policy_count++;
	}
}

static const struct power_rail_row *rail_before(const struct power_rows *rows,
						const struct power_rail_row *row)
{
	for (size_t i = 0; i < rows->before.rail_count; i++) {
		const struct power_rail_row *before = &rows->before.rails[i];

		if (!strcmp(before->device, row->device) && !strcmp(before->rail, row->rail))
			return before;
	}
	return NULL;
}

/* What the next read-out's energy counts from. A meter that could not be read keeps what it had, so
 * that what it counts meanwhile is in the row of its next reading. */
static void keep_rails(struct power_rows *rows)
{
	bool whole = !rows->now.rails.error;
	size_t count = whole ? 0 : rows->before.rail_count;

	for (size_t i = 0; i < rows->now.rail_count; i++) {
		const struct power_rail_row *row = &rows->now.rail_rows[i];
		const struct power_rail_row *before = whole ? NULL : rail_before(rows, row);

		if (before)
			rows->before.rails[before - rows->before.rails] = *row;
		else if (count < POWER_RAILS)
			rows->before.rails[count++] = *row;
	}
	rows->before.rail_count = count;
}

static void make_rails(struct telling *telling, struct power_rows *rows,
		       struct record_interval *interval)
{
	struct record_power *power = &interval->power;
	uint64_t back = 0;
	char key[160];

	if (rows->now.rails.error)
		tell(telling, "power.rails", power_value_reason(rows->now.rails.error));
	for (size_t i = 0; i < rows->now.rail_count; i++) {
		const struct power_rail_row *row = &rows->now.rail_rows[i];
		const struct power_rail_row *before = rail_before(rows, row);
		struct record_rail *rail = &rows->rails[i];

		*rail = (struct record_rail){
			row->device, row->rail, text_or_null(row->subsystem), {0}};
		if (before && row->energy_uj >= before->energy_uj) {
			rail->energy_uj = SOME_U64(row->energy_uj - before->energy_uj);
		} else if (before) {
			back++;
			snprintf(key, sizeof(key), "power.rails.%s.energy_uj", row->rail);
			tell(telling, key, "the meter's counter went back");
		} else if (power->span_ns) {
			snprintf(key, sizeof(key), "power.rails.%s.energy_uj", row->rail);
			tell(telling, key, "its meter was not read before");
		}
	}
	power->rail_count = rows->now.rail_count;
	if (back && !telling->err)
		telling->err = counter_list_add(&interval->lost, "power_energy_went_back", back);
	keep_rails(rows);
}

#define CLAMP(count, room) ((count) < (room) ? (count) : (room))
#define END(text)          ((text)[sizeof(text) - 1] = 0)

/* No file has such a number (sysfs.c); sums and products of what is left do not overflow. */
static void tame_value(struct power_value *value)
{
	if (!value->error && (value->value < INT32_MIN || value->value > UINT32_MAX))
		*value = (struct power_value){.error = POWER_VALUE_OUT_OF_RANGE};
}

/* Counts within their rooms, numbers within what a file can have, and texts that end. */
static void tame(struct power_reading *reading)
{
	reading->supply_count = CLAMP(reading->supply_count, POWER_SUPPLIES);
	reading->zone_count = CLAMP(reading->zone_count, POWER_ZONES);
	reading->cooling_count = CLAMP(reading->cooling_count, POWER_COOLINGS);
	reading->policy_count = CLAMP(reading->policy_count, POWER_POLICIES);
	reading->rail_count = CLAMP(reading->rail_count, POWER_RAILS);
	for (size_t i = 0; i < POWER_SUPPLIES; i++) {
		END(reading->supplies[i].name);
		END(reading->supplies[i].type);
		END(reading->supplies[i].status);
		for (int file = 0; file < POWER_FILES; file++)
			tame_value(&reading->supplies[i].values[file]);
	}
	for (size_t i = 0; i < POWER_ZONES; i++) {
		END(reading->zones[i].type);
		tame_value(&reading->zones[i].temperature);
	}
	for (size_t i = 0; i < POWER_COOLINGS; i++) {
		END(reading->coolings[i].type);
		tame_value(&reading->coolings[i].state);
		tame_value(&reading->coolings[i].max_state);
	}
	for (size_t i = 0; i < POWER_POLICIES; i++) {
		END(reading->policies[i].cpus);
		tame_value(&reading->policies[i].limit_khz);
		tame_value(&reading->policies[i].max_khz);
	}
	tame_value(&reading->panel);
	for (size_t i = 0; i < POWER_RAILS; i++) {
		END(reading->rail_rows[i].device);
		END(reading->rail_rows[i].rail);
		END(reading->rail_rows[i].subsystem);
	}
}

int power_rows_take(struct power_rows *rows, const struct power_reading *reading,
		    struct record_interval *interval)
{
	struct record_power *power = &interval->power;
	struct telling telling = {.missing = &interval->missing};
	char more[64];

	rows->now = *reading;
	tame(&rows->now);
	*power = (struct record_power){
		.present = true,
		.read_boot_ns = rows->now.end_boot_ns,
		.read_ns = rows->now.end_boot_ns - rows->now.begin_boot_ns,
		.span_ns = rows->before.boot_ns ? rows->now.end_boot_ns - rows->before.boot_ns : 0,
		.supplies = rows->supplies,
		.zones = rows->zones,
		.coolings = rows->coolings,
		.policies = rows->policies,
		.rails = rows->rails,
	};
	rows->before.boot_ns = rows->now.end_boot_ns;
	for (size_t i = 0; i < rows->now.supply_count; i++)
		make_supply(&telling, &rows->now.supplies[i], &rows->supplies[i]);
	power->supply_count = rows->now.supply_count;
	find_battery(rows, power);
	tell_battery(&telling, power, rows);
	make_zones(&telling, rows, power);
	make_coolings(&telling, rows, power);
	make_policies(&telling, rows, power);
	make_rails(&telling, rows, interval);
	if (!rows->now.panel.error && rows->now.panel.value >= 0)
		power->panel_brightness = SOME_U64((uint64_t)rows->now.panel.value);
	if (telling.more) {
		snprintf(more, sizeof(more), "%u more values could not be read", telling.more);
		telling.told = 0;
		tell(&telling, "power", more);
	}
	if (rows->now.dropped && !telling.err)
		telling.err = counter_list_add(&interval->lost, "power_devices_dropped",
					       rows->now.dropped);
	return telling.err;
}

/* ---- caps ---- */

static struct power_cap *cap_of(struct power_caps *caps, uint32_t policy)
{
	for (size_t i = 0; i < caps->count; i++)
		if (caps->policies[i].policy == policy)
			return &caps->policies[i];
	if (caps->count == POWER_POLICIES)
		return NULL;
	caps->policies[caps->count] = (struct power_cap){.policy = policy};
	return &caps->policies[caps->count++];
}

/* A policy without a row (its last CPU went offline, its file gives no number) limits nobody that
 * can be told: its cap ends there, and begins anew where the row comes back with it. */
static void end_untold(struct power_caps *caps, const struct record_power *power, power_cap_fn told,
		       void *ctx)
{
	for (size_t i = 0; i < caps->count; i++) {
		struct power_cap *cap = &caps->policies[i];
		bool has_row = false;

		for (size_t n = 0; n < power->policy_count; n++)
			has_row |= power->policies[n].policy == cap->policy;
		if (has_row || !cap->capped)
			continue;
		cap->capped = false;
		cap->untold = true;
		told(ctx, cap, false, power->read_boot_ns);
	}
}

void power_caps_take(struct power_caps *caps, const struct record_power *power, power_cap_fn told,
		     void *ctx)
{
	end_untold(caps, power, told, ctx);
	for (size_t i = 0; i < power->policy_count; i++) {
		const struct record_policy *policy = &power->policies[i];
		struct power_cap *cap = cap_of(caps, policy->policy);

		if (!cap)
			continue;
		if (policy->capped && !cap->capped) {
			cap->capped = true;
			cap->untold = false;
			cap->since_boot_ns = power->read_boot_ns;
			cap->limit_khz = policy->limit_khz;
			cap->max_khz = policy->max_khz;
			told(ctx, cap, true, power->read_boot_ns);
		} else if (policy->capped) {
			if (policy->limit_khz < cap->limit_khz)
				cap->limit_khz = policy->limit_khz;
		} else if (cap->capped) {
			cap->capped = false;
			told(ctx, cap, false, power->read_boot_ns);
		}
	}
}
