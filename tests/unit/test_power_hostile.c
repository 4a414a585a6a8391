/* SPDX-License-Identifier: BSD-2-Clause */
/* Each file of /sys that the power source reads holds each thing that is none of its values: it has
 * no number then, the record says why, and the files beside it are read as ever. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/power/rows.h"
#include "source/power/sysfs.h"

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void begin(void)
{
	strcpy(root, "/tmp/jankscope-sys.XXXXXX");
	cr_assert(mkdtemp(root));
}

static void end(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const void *bytes, size_t size)
{
	char whole[256], *slash;
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/sys/%s", root, path);
	for (slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		mkdir(whole, 0755);
	}
	remove(whole);
	if (!bytes) {
		cr_assert_eq(mkfifo(whole, 0644), 0);
		return;
	}
	file = fopen(whole, "we");
	cr_assert(file && fwrite(bytes, 1, size, file) == size);
	fclose(file);
}

#define BATTERY "class/power_supply/battery/"
#define POLICY  "devices/system/cpu/cpufreq/policy4/"
#define METER   "bus/iio/devices/iio:device0/"

static const struct value_file {
	const char *path, *good, *key;
	bool is_signed; /* -1 is a value of it */
} files[] = {
	{"class/power_supply/usb/online", "0\n", "power.supplies.usb.online", false},
	{BATTERY "current_now", "-512000\n", "power.supplies.battery.current_ua", true},
	{BATTERY "voltage_now", "3912000\n", "power.supplies.battery.voltage_uv", false},
	{BATTERY "capacity", "83\n", "power.supplies.battery.charge_pct", false},
	{BATTERY "charge_counter", "2900000\n", "power.supplies.battery.charge_uah", true},
	{BATTERY "temp", "312\n", "power.supplies.battery.temperature_mc", true},
	{"class/thermal/thermal_zone0/temp", "62000\n", "power.zones.cpu-big.temperature_mc", true},
	{"class/thermal/cooling_device0/cur_state", "3\n", "power.coolings.cpufreq-cpu4.state",
	 false},
	{POLICY "cpuinfo_max_freq", "2841600\n", "power.policies.policy4.max_khz", false},
	{POLICY "scaling_max_freq", "1766400\n", "power.policies.policy4.limit_khz", false},
	{METER "energy_value", "t=1\nCH0(T=1)[VSYS], 1000\n", "power.rails", false},
};
#define FILES (sizeof(files) / sizeof(*files))

/* What the record has of each file, in the same order. */
static size_t present_of(const struct record_power *power, bool present[FILES])
{
	const struct record_supply *battery = &power->battery;
	const bool all[FILES] = {
		power->supply_count > 1 && power->supplies[1].online.present,
		battery->current_ua.present,
		battery->voltage_uv.present,
		battery->charge_pct.present,
		battery->charge_uah.present,
		battery->temperature_mc.present,
		power->zone_count == 1,
		power->cooling_count == 1,
		power->policy_count == 1,
		power->policy_count == 1,
		power->rail_count == 1,
	};
	size_t count = 0;

	memcpy(present, all, sizeof(all));
	for (size_t i = 0; i < FILES; i++)
		count += all[i];
	return count;
}

static void put_all(void)
{
	for (size_t i = 0; i < FILES; i++)
		put(files[i].path, files[i].good, strlen(files[i].good));
	put(BATTERY "type", "Battery\n", 8);
	put(BATTERY "status", "Discharging\n", 12);
	put("class/power_supply/usb/type", "USB\n", 4);
	put("class/thermal/thermal_zone0/type", "cpu-big\n", 8);
	put("class/thermal/cooling_device0/type", "cpufreq-cpu4\n", 13);
	put("class/thermal/cooling_device0/max_state", "17\n", 3);
	put(POLICY "related_cpus", "4 5 6 7\n", 8);
	put(METER "name", "odpm\n", 5);
}

/* A folder that is looked at for the first time, so that files are opened anew. */
static size_t read_all(bool present[FILES], struct record_interval *interval)
{
	struct power_sysfs *sysfs = power_sysfs_new(root);
	struct power_board *board = calloc(1, sizeof(*board));
	struct power_rows *rows = calloc(1, sizeof(*rows));
	size_t count;

	power_sysfs_read(sysfs, board, &board->readings[0]);
	cr_assert_eq(power_rows_take(rows, &board->readings[0], interval), 0);
	count = present_of(&interval->power, present);
	power_sysfs_free(sysfs);
	free(board);
	free(rows);
	return count;
}

Test(power_hostile, each_file_with_each_content, .init = begin, .fini = end)
{
	static char megabyte[1 << 20];
	const struct {
		const char *name;
		const void *bytes; /* NULL: a FIFO that never answers */
		size_t size;
		bool is_minus;
	} contents[] = {
		{"empty", "", 0, false},
		{"-1", "-1\n", 3, true},
		{"2^64", "18446744073709551616\n", 21, false},
		{"2^63", "9223372036854775808\n", 20, false},
		{"hex", "0x10\n", 5, false},
		{"a fraction", "1.5\n", 4, false},
		{"two numbers", "1 2\n", 4, false},
		{"binary", "\0\1\xff\xfe\n", 5, false},
		{"1 MB", megabyte, sizeof(megabyte), false},
		{"a name", ") R 1 2\n", 8, false},
		{"FIFO", NULL, 0, false},
	};
	struct record_interval interval = {0};
	bool present[FILES];

	memset(megabyte, '7', sizeof(megabyte));
	put_all();
	cr_assert_eq(read_all(present, &interval), FILES);
	cr_assert_eq(interval.missing.count, 0);
	for (size_t f = 0; f < FILES; f++) {
		for (size_t c = 0; c < sizeof(contents) / sizeof(*contents); c++) {
			bool is_value = contents[c].is_minus && files[f].is_signed;
			bool of_policy = strstr(files[f].path, "cpufreq/policy") != NULL;
			size_t others;

			put(files[f].path, contents[c].bytes, contents[c].size);
			interval.power = (struct record_power){0};
			others = read_all(present, &interval);
			cr_expect_eq(present[f], is_value, "%s: %s", files[f].path,
				     contents[c].name);
			/* Both numbers of a policy make its row. */
			cr_expect_eq(others,
				     FILES - (is_value    ? 0
					      : of_policy ? 2
							  : 1),
				     "%s: %s", files[f].path, contents[c].name);
			cr_expect_eq(missing_reason(&interval.missing, files[f].key) != NULL,
				     !is_value, "%s: %s", files[f].path, contents[c].name);
			missing_list_free(&interval.missing);
			counter_list_free(&interval.lost);
		}
		put(files[f].path, files[f].good, strlen(files[f].good));
	}
}

/* 0 is a value where its unit has one: a battery that is empty is no missing one; a CPU of 0 kHz is
 * none. */
Test(power_hostile, zero, .init = begin, .fini = end)
{
	struct record_interval interval = {0};
	bool present[FILES];

	put_all();
	for (size_t f = 0; f < FILES - 1; f++)
		put(files[f].path, "0\n", 2);
	read_all(present, &interval);
	for (size_t f = 0; f < 7; f++)
		cr_expect(present[f], "%s", files[f].path);
	cr_expect(!present[7] && !missing_reason(&interval.missing, files[7].key),
		  "a cooling device that does nothing has no row");
	cr_expect(!present[8] && missing_reason(&interval.missing, files[8].key) &&
		  missing_reason(&interval.missing, files[9].key));
	missing_list_free(&interval.missing);
	counter_list_free(&interval.lost);
}

/* A line of one rail that makes no sense: that is said, and the rail goes on from what it had. */
Test(power_hostile, one_rail_of_two, .init = begin, .fini = end)
{
	static const char *const texts[] = {
		"t=1\nCH0(T=1)[VSYS], 1000\nCH1(T=1)[CPU], 700\n",
		"t=2\nCH0(T=2)[VSYS], 1100\nCH1(T=2)[CPU], x\n",
		"t=3\nCH0(T=3)[VSYS], 1300\nCH1(T=3)[CPU], 760\n",
	};
	struct power_sysfs *sysfs = power_sysfs_new(root);
	struct power_board *board = calloc(1, sizeof(*board));
	struct power_rows *rows = calloc(1, sizeof(*rows));
	struct record_interval interval = {0};

	put_all();
	for (size_t i = 0; i < 3; i++) {
		FILE *file;
		char path[128];

		if (!i) {
			put(METER "energy_value", texts[i], strlen(texts[i]));
		} else { /* the file that is open */
			snprintf(path, sizeof(path), "%s/sys/" METER "energy_value", root);
			file = fopen(path, "we");
			cr_assert(file && fputs(texts[i], file) >= 0);
			fclose(file);
		}
		power_sysfs_read(sysfs, board, &board->readings[0]);
		cr_assert_eq(power_rows_take(rows, &board->readings[0], &interval), 0);
		cr_expect_eq(interval.power.rail_count, i == 1 ? 1 : 2);
		cr_expect_eq(missing_reason(&interval.missing, "power.rails") != NULL, i == 1);
		missing_list_free(&interval.missing);
	}
	cr_expect_eq(interval.power.rails[0].energy_uj.value, 200);
	cr_expect(interval.power.rails[1].energy_uj.present);
	cr_expect_eq(interval.power.rails[1].energy_uj.value, 60);
	power_sysfs_free(sysfs);
	free(board);
	free(rows);
}
