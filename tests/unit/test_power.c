/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of /sys become rows: numbers at the edges of their units, what is no number, counters that
 * go back, and readings whose every byte is hostile. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/machine.h"
#include "source/cpu/stat.h"
#include "source/power/parse.h"
#include "source/power/rows.h"
#include "source/power/sysfs.h"
#include "source/power/totals.h"

static struct power_value number(const char *text, int64_t lowest, int64_t highest)
{
	return power_parse_number(text, strlen(text), lowest, highest);
}

Test(power, numbers)
{
	static const struct {
		const char *text;
		int64_t value;
		int error;
	} rows[] = {
		{"-1600\n", -1600, 0},
		{"0", 0, 0},
		{" +42 \n", 42, 0},
		{"2147483647\n", INT32_MAX, 0},
		{"-2147483648\n", INT32_MIN, 0},
		{"2147483648\n", 0, POWER_VALUE_OUT_OF_RANGE},
		{"18446744073709551616\n", 0, POWER_VALUE_OUT_OF_RANGE},
		{"11529215046068469769999999999", 0, POWER_VALUE_OUT_OF_RANGE},
		{"", 0, POWER_VALUE_EMPTY},
		{"\n\n", 0, POWER_VALUE_EMPTY},
		{"-", 0, POWER_VALUE_NO_NUMBER},
		{"12 34", 0, POWER_VALUE_NO_NUMBER},
		{"0x10", 0, POWER_VALUE_NO_NUMBER},
		{"1.5", 0, POWER_VALUE_NO_NUMBER},
		{"\xff\xfe\x01", 0, POWER_VALUE_NO_NUMBER},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct power_value value = number(rows[i].text, INT32_MIN, INT32_MAX);

		cr_expect_eq(value.error, rows[i].error, "%s: %d", rows[i].text, value.error);
		cr_expect_eq(value.value, rows[i].value, "%s", rows[i].text);
	}
	cr_expect_eq(number("9223372036854775807", 0, INT64_MAX).error, 0);
	cr_expect_eq(number("9223372036854775808", 0, INT64_MAX).error, POWER_VALUE_OUT_OF_RANGE);
	cr_expect_eq(power_parse_number("1\0002", 3, 0, 9).error, POWER_VALUE_NO_NUMBER);
	cr_expect_eq(number("101\n", 0, 100).error, POWER_VALUE_OUT_OF_RANGE);
	cr_expect_eq(number("-1\n", 0, 100).error, POWER_VALUE_OUT_OF_RANGE);
}

Test(power, rails)
{
	static const char enabled[] = "CH0[S10M_VDD_TPU]:TPU\nCH1[VSYS_PWR_MODEM]:Modem\nCH2[X]\n";
	char rail[POWER_NAME], subsystem[POWER_NAME];
	uint64_t energy = 0;

#define RAIL(text) power_parse_rail(text, strlen(text), rail, &energy)
	cr_expect(RAIL("CH0(T=358356)[S10M_VDD_TPU], 761330"));
	cr_expect_str_eq(rail, "S10M_VDD_TPU");
	cr_expect_eq(energy, 761330);
	cr_expect(RAIL("CH12[VSYS], 18"));
	cr_expect_eq(energy, 18);
	cr_expect_not(RAIL("t=12345"));
	cr_expect_not(RAIL("CH0(T=1)[], 5"));
	cr_expect_not(RAIL("CH0(T=1[A], 5"));
	cr_expect_not(RAIL("CH0(T=1)[A] 5"));
	cr_expect_not(RAIL("CH0(T=1)[A],"));
	cr_expect_not(RAIL("CH0(T=1)[A], -5"));
	cr_expect_not(RAIL("CH(T=1)[A], 5"));
	cr_expect_not(RAIL("CH0"));
	cr_expect_not(RAIL(""));
	cr_expect(RAIL("CH0(T=1)[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa], 5"));
	cr_expect_eq(strlen(rail), POWER_NAME - 1);
	cr_expect(power_parse_subsystem(enabled, strlen(enabled), "VSYS_PWR_MODEM", subsystem));
	cr_expect_str_eq(subsystem, "Modem");
	cr_expect_not(power_parse_subsystem(enabled, strlen(enabled), "X", subsystem));
	cr_expect_not(power_parse_subsystem(enabled, strlen(enabled), "Y", subsystem));
	cr_expect_not(power_parse_subsystem("", 0, "Y", subsystem));
}

/* ---- a folder of files ---- */

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/power-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

static void put_bytes(const char *path, const void *bytes, size_t size)
{
	char whole[256], *slash;
	int fd;

	snprintf(whole, sizeof(whole), "%s/sys/%s", root, path);
	for (slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(whole, 0755);
		*slash = '/';
	}
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	close(fd);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static const char *missing(const struct record_interval *interval, const char *key)
{
	for (size_t i = 0; i < interval->missing.count; i++)
		if (!strcmp(interval->missing.items[i].key, key))
			return interval->missing.items[i].reason;
	return NULL;
}

#define BATTERY "class/power_supply/battery/"

static void put_phone(void)
{
	put(BATTERY "type", "Battery\n");
	put(BATTERY "status", "Discharging\n");
	put(BATTERY "current_now", "-512000\n");
	put(BATTERY "voltage_now", "3912000\n");
	put(BATTERY "capacity", "83\n");
	put(BATTERY "charge_counter", "2900000\n");
	put(BATTERY "temp", "312\n");
	put("class/power_supply/usb/type", "USB\n");
	put("class/power_supply/usb/online", "0\n");
	put("class/power_supply/pen/type", "Battery\n");
	put("class/power_supply/pen/scope", "Device\n");
	put("class/power_supply/pen/capacity", "7\n");
	put("class/thermal/thermal_zone0/type", "cpu-big\n");
	put("class/thermal/thermal_zone0/temp", "62000\n");
	put("class/thermal/thermal_zone10/type", "skin\n");
	put("class/thermal/thermal_zone10/temp", "-1500\n");
	put("class/thermal/cooling_device0/type", "cpufreq-cpu4\n");
	put("class/thermal/cooling_device0/cur_state", "3\n");
	put("class/thermal/cooling_device0/max_state", "17\n");
	put("class/thermal/cooling_device1/type", "idle\n");
	put("class/thermal/cooling_device1/cur_state", "0\n");
	put("devices/system/cpu/cpufreq/policy4/related_cpus", "4 5 6 7\n");
	put("devices/system/cpu/cpufreq/policy4/cpuinfo_max_freq", "2841600\n");
	put("devices/system/cpu/cpufreq/policy4/scaling_max_freq", "2841600\n");
	put("bus/iio/devices/iio:device0/name", "s2mpg10-odpm\n");
	put("bus/iio/devices/iio:device0/energy_value",
	    "t=100\nCH0(T=100)[VSYS], 1000\nCH1(T=100)[CPU], 700\n");
	put("bus/iio/devices/iio:device0/enabled_rails", "CH0[VSYS]:System\nCH1[CPU]:CPU\n");
	put("class/leds/lcd-backlight/brightness", "77\n");
}

struct taken {
	struct power_board board;
	struct power_rows rows;
	struct record_interval interval;
};

static void take(struct power_sysfs *sysfs, struct taken *taken)
{
	missing_list_free(&taken->interval.missing);
	counter_list_free(&taken->interval.lost);
	power_sysfs_read(sysfs, &taken->board, &taken->board.readings[0]);
	cr_assert_eq(taken->board.at[0], 0);
	cr_assert_eq(power_rows_take(&taken->rows, &taken->board.readings[0], &taken->interval), 0);
}

static void free_taken(struct taken *taken)
{
	missing_list_free(&taken->interval.missing);
	counter_list_free(&taken->interval.lost);
	free(taken);
}

Test(power, phone, .init = make_root, .fini = remove_root)
{
	struct taken *taken = calloc(1, sizeof(*taken));
	const struct record_power *power = &taken->interval.power;
	struct power_sysfs *sysfs;

	put_phone();
	sysfs = power_sysfs_new(root);
	take(sysfs, taken);
	cr_expect(power->present && power->battery_present && !power->external);
	cr_expect_eq(power->battery.current_ua.value, -512000);
	cr_expect_eq(power->battery.voltage_uv.value, 3912000);
	cr_expect_eq(power->battery.charge_pct.value, 83);
	cr_expect_eq(power->battery.charge_uah.value, 2900000);
	cr_expect_eq(power->battery.temperature_mc.value, 31200);
	cr_expect_str_eq(power->battery.status, "Discharging");
	cr_expect(power->panel_brightness.present && power->panel_brightness.value == 77);
	cr_expect_eq(power->supply_count, 3);
	cr_assert_eq(power->zone_count, 2);
	cr_expect_str_eq(power->zones[0].type, "cpu-big");
	cr_expect_eq(power->zones[0].temperature_mc.value, 62000);
	cr_expect_eq(power->zones[1].zone, 10);
	cr_expect_eq(power->zones[1].temperature_mc.value, -1500);
	cr_assert_eq(power->cooling_count, 1);
	cr_expect_eq(power->coolings[0].state, 3);
	cr_expect_eq(power->coolings[0].max_state, 17);
	cr_assert_eq(power->policy_count, 1);
	cr_expect_str_eq(power->policies[0].cpus, "4 5 6 7");
	cr_expect_not(power->policies[0].capped);
	cr_assert_eq(power->rail_count, 2);
	cr_expect_not(power->rails[0].energy_uj.present);
	cr_expect_str_eq(power->rails[0].subsystem, "System");
	cr_expect_eq(taken->interval.missing.count, 0);

	/* The files that are open show what is in them now; one counter goes back. */
	put(BATTERY "current_now", "430000\n");
	put(BATTERY "status", "Charging\n");
	put("class/power_supply/usb/online", "1\n");
	put("devices/system/cpu/cpufreq/policy4/scaling_max_freq", "1766400\n");
	put("bus/iio/devices/iio:device0/energy_value",
	    "t=200\nCH0(T=200)[VSYS], 1750\nCH1(T=200)[CPU], 20\n");
	take(sysfs, taken);
	cr_expect(power->external);
	cr_expect_eq(power->battery.current_ua.value, 430000);
	cr_expect(power->policies[0].capped);
	cr_expect_eq(power->rails[0].energy_uj.value, 750);
	cr_expect_not(power->rails[1].energy_uj.present);
	cr_expect(missing(&taken->interval, "power.rails.CPU.energy_uj"));
	cr_expect_eq(counter_list_get(&taken->interval.lost, "power_energy_went_back"), 1);

	/* What a meter counts while it cannot be read is in the row of its next reading. */
	put("bus/iio/devices/iio:device0/energy_value", "");
	take(sysfs, taken);
	cr_expect_eq(power->rail_count, 0);
	cr_expect(missing(&taken->interval, "power.rails"));
	put("bus/iio/devices/iio:device0/energy_value",
	    "t=400\nCH0(T=400)[VSYS], 2000\nCH1(T=400)[CPU], 25\n");
	take(sysfs, taken);
	cr_assert_eq(power->rail_count, 2);
	cr_expect_eq(power->rails[0].energy_uj.value, 250);
	cr_expect_eq(power->rails[1].energy_uj.value, 5);
	power_sysfs_free(sysfs);
	free_taken(taken);
}

/* Each value file holds something else that is no value of its unit. */
Test(power, hostile_files, .init = make_root, .fini = remove_root)
{
	struct taken *taken = calloc(1, sizeof(*taken));
	const struct record_power *power = &taken->interval.power;
	char *megabyte = malloc(1 << 20), path[128];
	struct power_sysfs *sysfs;

	put_phone();
	memset(megabyte, '9', 1 << 20);
	put(BATTERY "current_now", "18446744073709551616\n");
	put(BATTERY "voltage_now", "-1\n");
	put(BATTERY "capacity", "101\n");
	put_bytes(BATTERY "temp", megabyte, 1 << 20);
	put_bytes(BATTERY "status", "\xff\x1b[31m\0x", 8);
	put(BATTERY "charge_counter", "");
	put_bytes("class/thermal/thermal_zone0/temp", "\0\1\2\3", 4);
	put_bytes("class/thermal/thermal_zone10/type", megabyte, 1 << 20);
	put("class/thermal/thermal_zone10/temp", "-274000\n");
	put_bytes("bus/iio/devices/iio:device0/energy_value", megabyte, 1 << 20);
	snprintf(path, sizeof(path), "%s/sys/class/thermal/cooling_device0/cur_state", root);
	unlink(path);
	cr_assert_eq(mkfifo(path, 0644), 0);
	snprintf(path, sizeof(path), "%s/sys/class/thermal/thermal_zone3", root);
	cr_assert_eq(symlink("thermal_zone3", path), 0);
	sysfs = power_sysfs_new(root);
	take(sysfs, taken);
	cr_expect_not(power->battery.current_ua.present);
	cr_expect_not(power->battery.voltage_uv.present);
	cr_expect_not(power->battery.charge_pct.present);
	cr_expect_not(power->battery.temperature_mc.present);
	cr_expect_not(power->battery.charge_uah.present);
	cr_expect_str_eq(power->battery.status, "??[31m?x");
	cr_expect_eq(power->zone_count, 0);
	cr_expect_eq(power->cooling_count, 0);
	cr_expect_eq(power->rail_count, 0);
	cr_expect_str_eq(missing(&taken->interval, "power.supplies.battery.current_ua"),
			 "its file holds a number outside of its unit's range");
	cr_expect_str_eq(missing(&taken->interval, "power.supplies.battery.charge_uah"),
			 "its file is empty");
	cr_expect_str_eq(missing(&taken->interval, "power.supplies.battery.temperature_mc"),
			 "its file holds no number");
	cr_expect(missing(&taken->interval, "power.current_ua"));
	cr_expect(missing(&taken->interval, "power.zones.cpu-big.temperature_mc"));
	cr_expect_str_eq(missing(&taken->interval, "power.coolings.cpufreq-cpu4.state"),
			 "what stands in its file's place is no ordinary file");
	cr_expect(missing(&taken->interval, "power.rails"));
	power_sysfs_free(sysfs);
	free_taken(taken);
	free(megabyte);
}

/* A discharge is told of a battery only while nothing gives it power. */
Test(power, discharge, .init = make_root, .fini = remove_root)
{
	struct taken *taken = calloc(1, sizeof(*taken));
	struct power_totals totals = {0}, swapped;
	struct power_sysfs *sysfs;
	char path[128], other[128];

	put_phone();
	sysfs = power_sysfs_new(root);
	take(sysfs, taken);
	power_totals_add(&totals, &taken->interval.power, taken->rows.external_untold, 0);
	cr_expect_null(power_totals_no_discharge(&totals));

	/* The driver of the plug does not say whether it is in. */
	swapped = totals;
	put("class/power_supply/usb/online", "yes\n");
	take(sysfs, taken);
	cr_expect_not(taken->interval.power.external);
	power_totals_add(&totals, &taken->interval.power, taken->rows.external_untold, 0);
	cr_assert_not_null(power_totals_no_discharge(&totals));
	cr_expect(strstr(power_totals_no_discharge(&totals), "does not say"));
	put("class/power_supply/usb/online", "0\n");
	power_sysfs_free(sysfs);

	/* Another battery in the place of the first. */
	snprintf(path, sizeof(path), "%s/sys/class/power_supply/battery", root);
	snprintf(other, sizeof(other), "%s/sys/class/power_supply/dock", root);
	cr_assert_eq(rename(path, other), 0);
	sysfs = power_sysfs_new(root);
	take(sysfs, taken);
	power_totals_add(&swapped, &taken->interval.power, taken->rows.external_untold, 0);
	cr_assert_not_null(power_totals_no_discharge(&swapped));
	cr_expect(strstr(power_totals_no_discharge(&swapped), "another battery"));
	power_sysfs_free(sysfs);
	free_taken(taken);
}

/* A device that the recorder wants to be left alone is not touched; the others are. */
Test(power, left_alone, .init = make_root, .fini = remove_root)
{
	struct taken *taken = calloc(1, sizeof(*taken));
	struct power_sysfs *sysfs;

	put_phone();
	sysfs = power_sysfs_new(root);
	strcpy(taken->board.left[3], "sys/class/power_supply/battery");
	take(sysfs, taken);
	cr_expect_not(taken->interval.power.battery_present);
	cr_expect_eq(taken->interval.power.supply_count, 2);
	cr_expect_eq(taken->interval.power.zone_count, 2);
	memset(taken->board.left, 0, sizeof(taken->board.left));
	take(sysfs, taken);
	cr_expect(taken->interval.power.battery_present);
	power_sysfs_free(sysfs);
	free_taken(taken);
}

Test(power, hostile_reading)
{
	struct taken *taken = calloc(1, sizeof(*taken));
	struct power_reading *reading = &taken->board.readings[0];

	memset(reading, 0xff, sizeof(*reading));
	cr_expect_eq(power_rows_take(&taken->rows, reading, &taken->interval), 0);
	cr_expect_eq(taken->interval.power.supply_count, POWER_SUPPLIES);
	cr_expect_leq(taken->interval.missing.count, 26);
	memset(reading, 'x', sizeof(*reading));
	for (int i = 0; i < POWER_ZONES; i++)
		reading->zones[i].temperature = (struct power_value){.value = 7};
	/* Numbers that no file can have, and that no product of them may overflow. */
	for (int i = 0; i < POWER_FILES; i++)
		reading->supplies[0].values[i] = (struct power_value){.value = INT64_MAX};
	for (int i = 0; i < POWER_FILES; i++)
		reading->supplies[1].values[i] = (struct power_value){.value = INT64_MIN};
	cr_expect_eq(power_rows_take(&taken->rows, reading, &taken->interval), 0);
	cr_expect_eq(taken->interval.power.zone_count, POWER_ZONES);
	for (int i = 0; i < 2; i++)
		cr_expect(!taken->interval.power.supplies[i].temperature_mc.present &&
			  !taken->interval.power.supplies[i].charge_uah.present);
	cr_expect_eq(strlen(taken->interval.power.zones[7].type), POWER_NAME - 1);
	free_taken(taken);
}

/* ---- caps ---- */

struct told {
	unsigned begun, ended;
	struct power_cap last;
};

static void on_cap(void *ctx, const struct power_cap *cap, bool begun, uint64_t at_boot_ns)
{
	struct told *told = ctx;

	told->begun += begun;
	told->ended += !begun;
	told->last = *cap;
}

Test(power, caps)
{
	static const uint64_t limits[] = {2000, 2000, 1500, 1200, 1800, 2000, 1000};
	struct power_caps caps = {0};
	struct told told = {0};

	for (size_t i = 0; i < 7; i++) {
		struct record_policy policies[2] = {
			{0, "0", 1000, 1000, false},
			{4, "4", limits[i], 2000, limits[i] < 2000},
		};
		const struct record_power power = {
			.read_boot_ns = 100 + i, .policies = policies, .policy_count = 2};

		power_caps_take(&caps, &power, on_cap, &told);
		cr_expect_eq(told.begun, (i >= 2) + (i == 6));
		cr_expect_eq(told.ended, i >= 5);
		if (i == 5)
			cr_expect(told.last.policy == 4 && told.last.limit_khz == 1200 &&
				  told.last.since_boot_ns == 102);
	}
}

/* The folder of a policy goes with its last CPU, and comes back. */
Test(power, cap_of_a_policy_that_vanishes)
{
	struct record_policy policy = {4, "4", 1200, 2000, true};
	struct record_power power = {.read_boot_ns = 100, .policies = &policy, .policy_count = 1};
	struct power_caps caps = {0};
	struct told told = {0};

	power_caps_take(&caps, &power, on_cap, &told);
	power.policy_count = 0;
	power_caps_take(&caps, &power, on_cap, &told);
	cr_expect(told.begun == 1 && told.ended == 1 && told.last.untold);
	power_caps_take(&caps, &power, on_cap, &told);
	cr_expect_eq(told.ended, 1, "told once");
	power.policy_count = 1;
	power.read_boot_ns = 200;
	power_caps_take(&caps, &power, on_cap, &told);
	cr_expect(told.begun == 2 && !told.last.untold && told.last.since_boot_ns == 200);
	policy = (struct record_policy){4, "4", 2000, 2000, false};
	power_caps_take(&caps, &power, on_cap, &told);
	cr_expect(told.ended == 2 && !told.last.untold);
}

/* ---- /proc/stat ---- */

#define STAT(idle, irq, softirq, steal)                              \
	"cpu  10 1 2 " idle " 5 " irq " " softirq " " steal " 0 0\n" \
	"cpu0 10 1 2 " idle " 5 " irq " " softirq " " steal " 0 0\n" \
	"cpu7 10 1 2 100 5 0 0 0 0 0\nintr 1 2 3\n"

Test(power, kernel_account)
{
	static const char one[] = STAT("100", "4", "3", "2"), two[] = STAT("200", "6", "2", "9");
	struct cpu_stat *stat = cpu_stat_new();
	struct record_cpu cpu = {0};

	cr_assert_eq(cpu_stat_book(stat, one, strlen(one), false, NULL, 0, &cpu), 0);
	cr_expect_not(cpu.stat_present);
	cr_assert_eq(cpu_stat_book(stat, two, strlen(two), true, NULL, 0, &cpu), 0);
	cr_assert(cpu.stat_present);
	cr_expect_eq(cpu.stat_by, CPU_STAT_ROUNDED);
	cr_expect_eq(cpu.stat.irq_ns.value, 20000000);
	cr_expect_not(cpu.stat.softirq_ns.present, "it went back");
	cr_expect_eq(cpu.stat.steal_ns.value, 70000000);
	cr_assert_eq(cpu.stat_cpu_count, 1);
	cr_expect_eq(cpu.stat_cpus[0].cpu, 0);
	for (size_t n = 0; n < strlen(one); n++)
		cpu_stat_book(stat, one, n, false, NULL, 0, &cpu);
	cr_expect_eq(cpu_stat_book(stat, "", 0, false, NULL, 0, &cpu), -EBADMSG);
	cr_expect_eq(cpu_stat_book(stat, "cpu \n", 5, false, NULL, 0, &cpu), -EBADMSG);
	cr_expect_eq(cpu_stat_book(stat, "cpu  1 2 3 4 5 6 7 -8\n", 22, false, NULL, 0, &cpu),
		     -EBADMSG);
	cr_expect_eq(cpu_stat_book(stat, "cpu  99999999999999999999 2 3 4 5 6 7 8\n", 40, false,
				   NULL, 0, &cpu),
		     -EBADMSG);
	cpu_stat_free(stat);
}

/* Where the kernel's own sums are read, they stand in the place of the rounded ones; a CPU that
 * /proc/stat does not list (it is offline) has them too. */
Test(power, kernel_account_exact)
{
	static const char one[] = STAT("100", "4", "3", "2"), two[] = STAT("200", "6", "3", "9");
	struct cpu_stat_sums sums[8] = {[0] = {1000, 2000, 3000}, [3] = {5, 5, 5}};
	struct cpu_stat *stat = cpu_stat_new();
	struct record_cpu cpu = {0};

	cr_assert_eq(cpu_stat_book(stat, one, strlen(one), true, sums, 8, &cpu), 0);
	sums[0] = (struct cpu_stat_sums){1017, 2001, 3000};
	sums[3].softirq_ns = 9;
	cr_assert_eq(cpu_stat_book(stat, two, strlen(two), true, sums, 8, &cpu), 0);
	cr_expect_eq(cpu.stat_by, CPU_STAT_EXACT);
	cr_expect_eq(cpu.stat_resolution_ns, 1);
	cr_expect_eq(cpu.stat.irq_ns.value, 17);
	cr_expect_eq(cpu.stat.softirq_ns.value, 5);
	cr_expect(cpu.stat.steal_ns.present && !cpu.stat.steal_ns.value);
	cr_assert_eq(cpu.stat_cpu_count, 2);
	cr_expect_eq(cpu.stat_cpus[0].stat.irq_ns.value, 17);
	cr_expect_eq(cpu.stat_cpus[1].cpu, 3);
	cr_expect_eq(cpu.stat_cpus[1].stat.softirq_ns.value, 4);
	/* One sum went back: what is known of it is nothing. */
	sums[3].irq_ns = 0;
	cr_assert_eq(cpu_stat_book(stat, two, strlen(two), true, sums, 8, &cpu), 0);
	cr_expect_not(cpu.stat.irq_ns.present);
	cr_expect(cpu.stat.softirq_ns.present);
	/* Without them it is as before, also for one interval. */
	cr_assert_eq(cpu_stat_book(stat, two, strlen(two), true, NULL, 0, &cpu), 0);
	cr_expect_eq(cpu.stat_by, CPU_STAT_ROUNDED);
	cr_assert_eq(cpu_stat_book(stat, two, strlen(two), true, sums, 8, &cpu), 0);
	cr_expect_eq(cpu.stat_by, CPU_STAT_ROUNDED);
	cpu_stat_free(stat);
}
