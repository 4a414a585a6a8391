/* SPDX-License-Identifier: BSD-2-Clause */
/* What the power source adds to an interval. */
#include "jankscope/field.h"
#include "source/declarations.h"

#define UA_MEANING                                                                           \
	"current_now in uA, with the sign of the kernel's driver: mostly below 0 while the " \
	"battery is discharged"

/* Of the battery, beside the rows of all supplies. */
static const struct field battery_rows[] = {
	FIELD(struct record_supply, current_ua, OPTIONAL, NONE, UA_MEANING, MERGED(MEAN)),
	FIELD(struct record_supply, voltage_uv, OPTIONAL, NONE, "voltage_now in uV", MERGED(MEAN)),
	FIELD(struct record_supply, charge_pct, OPTIONAL, NONE, "capacity: how full it is, in %",
	      MERGED(LAST)),
	FIELD(struct record_supply, charge_uah, OPTIONAL, NONE,
	      "charge_counter in uAh: what is in it, or what went through it; differences count",
	      MERGED(LAST)),
	FIELD(struct record_supply, status, OPTIONAL, NAME,
	      "Charging, Discharging, Not charging, Full or Unknown", TEXT_IS(WORD)),
	FIELD(struct record_supply, temperature_mc, OPTIONAL, NONE,
	      "temp, in 0.001 degrees Celsius (the file has tenths)", MERGED(MAX)),
};
static const struct field_type battery_type =
	FIELD_TYPE("battery", struct record_supply, battery_rows);

static const struct field supply_rows[] = {
	FIELD(struct record_supply, name, REQUIRED, NAME, "its folder in /sys/class/power_supply",
	      MERGED(KEY), TEXT_IS(WORD)),
	FIELD(struct record_supply, type, OPTIONAL, NAME, "Battery, USB, Mains, Wireless, ...",
	      TEXT_IS(WORD)),
	FIELD(struct record_supply, online, OPTIONAL, NONE,
	      "power comes from here: 0 no, 1 yes, 2 yes and at a voltage that is set",
	      MERGED(MAX)),
	{.kind = FIELD_INLINE, .of = &battery_type},
};
static const struct field_type supply_type =
	FIELD_TYPE("supply", struct record_supply, supply_rows);

static const struct field zone_rows[] = {
	FIELD(struct record_zone, zone, REQUIRED, ID, "number of the thermal zone", MERGED(KEY)),
	FIELD(struct record_zone, type, REQUIRED, NAME, "what it measures, in the vendor's words",
	      TEXT_IS(WORD)),
	FIELD(struct record_zone, temperature_mc, OPTIONAL, NONE,
	      "temperature in 0.001 degrees Celsius", MERGED(MAX)),
};
static const struct field_type zone_type = FIELD_TYPE("zone", struct record_zone, zone_rows);

static const struct field cooling_rows[] = {
	FIELD(struct record_cooling, device, REQUIRED, ID, "number of the cooling device",
	      MERGED(KEY)),
	FIELD(struct record_cooling, type, REQUIRED, NAME, "what it slows down or turns on",
	      TEXT_IS(WORD)),
	FIELD(struct record_cooling, state, REQUIRED, COUNT, "how much it cools: above 0",
	      MERGED(MAX)),
	FIELD(struct record_cooling, max_state, NONZERO, COUNT, "the most that it can",
	      MERGED(LAST)),
};
static const struct field_type cooling_type =
	FIELD_TYPE("cooling", struct record_cooling, cooling_rows);

static const struct field policy_rows[] = {
	FIELD(struct record_policy, policy, REQUIRED, ID, "number of the cpufreq policy",
	      MERGED(KEY)),
	FIELD(struct record_policy, cpus, REQUIRED, NAME, "its CPUs", TEXT_IS(WORD)),
	FIELD(struct record_policy, limit_khz, REQUIRED, NONE,
	      "scaling_max_freq: the highest frequency that it may use now, in kHz", MERGED(MIN)),
	FIELD(struct record_policy, max_khz, REQUIRED, NONE,
	      "cpuinfo_max_freq: the highest that the hardware has, in kHz", MERGED(LAST)),
	FIELD(struct record_policy, capped, NONZERO, NONE, "limit_khz is below max_khz"),
};
static const struct field_type policy_type =
	FIELD_TYPE("policy", struct record_policy, policy_rows);

static const struct field rail_rows[] = {
	FIELD(struct record_rail, device, REQUIRED, NAME, "the meter: a folder of iio devices",
	      MERGED(KEY), TEXT_IS(WORD)),
	FIELD(struct record_rail, rail, REQUIRED, NAME, "what is measured", MERGED(KEY),
	      TEXT_IS(WORD)),
	FIELD(struct record_rail, subsystem, OPTIONAL, NAME, "whose rail it is", TEXT_IS(WORD)),
	FIELD(struct record_rail, energy_uj, OPTIONAL, NONE,
	      "energy in uJ (uWs) that went through it since the read-out before", MERGED(SUM)),
};
static const struct field_type rail_type = FIELD_TYPE("rail", struct record_rail, rail_rows);

static const struct field power_rows[] = {
	FIELD_SAME_LEVEL(struct record_power, battery, &battery_type),
	FIELD(struct record_power, external, NONZERO, NONE,
	      "power comes from outside (USB, mains): the current is not what the device uses"),
	FIELD(struct record_power, read_boot_ns, REQUIRED, NS, "when the values were read",
	      MERGED(LAST)),
	FIELD(struct record_power, read_ns, REQUIRED, NS, "how long it took to read them",
	      MERGED(MAX)),
	FIELD(struct record_power, span_ns, NONZERO, NS,
	      "since the read-out before: the time that the energy of rails is of", MERGED(SUM)),
	FIELD_ROWS("supplies", struct record_power, supplies, supply_count, NONZERO, &supply_type,
		   "what gives power to the device, batteries too"),
	FIELD_ROWS("zones", struct record_power, zones, zone_count, REQUIRED, &zone_type,
		   "thermal zones that told a temperature"),
	FIELD_ROWS("coolings", struct record_power, coolings, cooling_count, NONZERO, &cooling_type,
		   "cooling devices that cool now"),
	FIELD_ROWS("policies", struct record_power, policies, policy_count, NONZERO, &policy_type,
		   "how fast CPUs may run"),
	FIELD_ROWS("rails", struct record_power, rails, rail_count, NONZERO, &rail_type,
		   "energy that was measured on the device's power rails (ODPM)"),
};
static const struct field_type power_type = FIELD_TYPE("power", struct record_power, power_rows);

const struct field power_part =
	FIELD_STRUCT_IF("power", struct record_interval, power, power.present, &power_type,
			"battery, heat and what they allow, as /sys tells them");
