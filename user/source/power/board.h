/* SPDX-License-Identifier: BSD-2-Clause */
/* What the process that reads /sys tells the recorder: one struct in memory that both map. The
 * recorder copies it when it is told that a read-out is whole, and takes each byte for hostile. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define POWER_NAME     48
#define POWER_SUPPLIES 16
#define POWER_ZONES    160
#define POWER_COOLINGS 96
#define POWER_POLICIES 64
#define POWER_RAILS    64
#define POWER_LEFT     8  /* devices that did not answer and are left alone */
#define POWER_DEVICE   96 /* bytes of such a device's path */
/* What old kernels have in /sys/class/leds in place of a backlight. */
#define POWER_PANEL "lcd-backlight"

/* Why a file gave no value; a negative errno: it could not be read. */
enum power_value_error {
	POWER_VALUE_FINE = 0,
	POWER_VALUE_EMPTY = 1,
	POWER_VALUE_NO_NUMBER = 2,
	POWER_VALUE_OUT_OF_RANGE = 3,     /* of what the file's documentation allows */
	POWER_VALUE_NO_FILE_OF_SYSFS = 4, /* a pipe or the like stands in its place */
	POWER_VALUE_UNASKED = 5,
};

struct power_value {
	int64_t value; /* in the unit of the file */
	int32_t error; /* enum power_value_error, or a negative errno */
	uint32_t reserved;
};

/* The files of a supply that are read at each read-out, and their units
 * (Documentation/ABI/testing/sysfs-class-power). */
enum power_file {
	POWER_FILE_ONLINE = 0,
	POWER_FILE_CURRENT = 1,     /* current_now, uA */
	POWER_FILE_VOLTAGE = 2,     /* voltage_now, uV */
	POWER_FILE_CAPACITY = 3,    /* % */
	POWER_FILE_CHARGE = 4,      /* charge_counter, uAh */
	POWER_FILE_TEMPERATURE = 5, /* temp, 0.1 degrees */
	POWER_FILES = 6,
};

struct power_supply_row {
	char name[POWER_NAME], type[POWER_NAME], status[POWER_NAME];
	uint32_t of_device; /* scope Device: the battery of a mouse or a pen */
	uint32_t reserved;
	struct power_value values[POWER_FILES];
};

struct power_zone_row {
	uint32_t number, reserved;
	char type[POWER_NAME];
	struct power_value temperature; /* 0.001 degrees */
};

struct power_cooling_row {
	uint32_t number, reserved;
	char type[POWER_NAME];
	struct power_value state, max_state;
};

struct power_policy_row {
	uint32_t number, reserved;
	char cpus[POWER_NAME];
	struct power_value limit_khz, max_khz; /* scaling_max_freq, cpuinfo_max_freq */
};

struct power_rail_row {
	char device[POWER_NAME], rail[POWER_NAME], subsystem[POWER_NAME];
	uint64_t energy_uj; /* since boot */
};

struct power_reading {
	uint64_t serial; /* of the request that it answers */
	uint64_t begin_boot_ns, end_boot_ns, cpu_ns;
	uint32_t supply_count, zone_count, cooling_count, policy_count, rail_count;
	uint32_t dropped;         /* devices beyond the room here */
	struct power_value panel; /* brightness of leds/lcd-backlight; -ENOENT: there is none */
	struct power_value rails; /* whether meters could be read: the last error */
	struct power_supply_row supplies[POWER_SUPPLIES];
	struct power_zone_row zones[POWER_ZONES];
	struct power_cooling_row coolings[POWER_COOLINGS];
	struct power_policy_row policies[POWER_POLICIES];
	struct power_rail_row rail_rows[POWER_RAILS];
};

struct power_board {
	/* The device that is being read, so that the recorder knows which one hangs; empty: none.
	 */
	char at[POWER_DEVICE];
	/* Written by the recorder before the process begins: it does not touch these. */
	char left[POWER_LEFT][POWER_DEVICE];
	/* Answers go to the places in turn, by the lowest bit of their serial: the first of a run
	 * is there when the second is made. */
	struct power_reading readings[2];
};

/* What the recorder asks for. */
struct power_request {
	uint64_t serial;
	uint64_t due_mono_ns; /* read then, or at once when another message comes before */
};

struct power_answer {
	uint64_t serial;
	int32_t error;
	uint32_t reserved;
};
