/* SPDX-License-Identifier: BSD-2-Clause */
/* What a record says of power and heat; a part of record.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts and rows belong to the source and live until its next sample. */
struct record_supply {
	const char *name, *type,
		*status;           /* type and status in the kernel's words; NULL: not told */
	struct opt_u64 online;     /* power comes from here: 0 no, 1 and 2 yes */
	struct opt_i64 current_ua; /* with the kernel's sign */
	struct opt_u64 voltage_uv, charge_pct;
	struct opt_i64 charge_uah, temperature_mc;
};

struct record_zone {
	uint32_t zone;
	const char *type;
	struct opt_i64 temperature_mc;
};

struct record_cooling {
	uint32_t device;
	const char *type;
	uint64_t state, max_state;
};

struct record_policy {
	uint32_t policy;
	const char *cpus;
	uint64_t limit_khz, max_khz; /* what it may run at now, and what the hardware can */
	bool capped;
};

struct record_rail {
	const char *device, *rail, *subsystem; /* subsystem NULL: not told */
	struct opt_u64 energy_uj;              /* since the read-out before */
};

struct record_power {
	bool present;
	uint64_t read_boot_ns; /* when it was read */
	uint64_t read_ns;      /* how long that took */
	uint64_t span_ns;      /* since the read-out before; 0: this is the first */
	bool external;         /* power comes from outside, or the battery is being charged */
	/* Of the battery that runs the device. */
	struct record_supply battery;
	bool battery_present;
	struct record_supply *supplies;
	size_t supply_count;
	struct record_zone *zones;
	size_t zone_count;
	struct record_cooling *coolings; /* those that cool now */
	size_t cooling_count;
	struct record_policy *policies;
	size_t policy_count;
	struct record_rail *rails;
	size_t rail_count;
	/* Of leds/lcd-backlight. In no record: the context source tells the screen by it. */
	struct opt_u64 panel_brightness;
};
