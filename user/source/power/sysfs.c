/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/power/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/power/parse.h"
#include "util/clock.h"

#define LOOK_NS     (60 * NSEC_PER_SEC)
#define MAX_METERS  8
#define MAX_DEVICES 160 /* of a kind */
#define METER_BYTES 8192
#define NOT_OPEN    -1
#define NOT_THERE   -2 /* not looked for again before the next look at the folders */
#define ZERO_KELVIN -273150

enum device_kind {
	KIND_SUPPLY = 0,
	KIND_ZONE = 1,
	KIND_COOLING = 2,
	KIND_POLICY = 3,
	KIND_METER = 4,
	KIND_PANEL = 5,
	KINDS = 6,
};

static const struct kind {
	const char *folder, *prefix;
	size_t room;
} kinds[KINDS] = {
	[KIND_SUPPLY] = {"sys/class/power_supply", "", POWER_SUPPLIES},
	[KIND_ZONE] = {"sys/class/thermal", "thermal_zone", POWER_ZONES},
	[KIND_COOLING] = {"sys/class/thermal", "cooling_device", POWER_COOLINGS},
	[KIND_POLICY] = {"sys/devices/system/cpu/cpufreq", "policy", POWER_POLICIES},
	[KIND_METER] = {"sys/bus/iio/devices", "iio:device", MAX_METERS},
	[KIND_PANEL] = {"sys/class/leds", POWER_PANEL, 1},
};

#define DEVICE_FILES (POWER_FILES + 1)
#define FILE_STATUS  POWER_FILES

struct device {
	char name[POWER_NAME];
	int number;
	int folder; /* -1: it could not be opened; error says why */
	int error;
	int files[DEVICE_FILES];
	char type[POWER_NAME]; /* what does not change: its type, a policy's CPUs, a meter's name */
	bool of_device;
	struct power_value fixed; /* max_state, cpuinfo_max_freq */
};

struct power_sysfs {
	char root[256];
	uint64_t looked_ns;
	uint32_t dropped;
	struct device *devices[KINDS];
	size_t counts[KINDS];
};

struct power_sysfs *power_sysfs_new(const char *root)
{
	struct power_sysfs *sysfs = calloc(1, sizeof(*sysfs));

	if (sysfs)
		snprintf(sysfs->root, sizeof(sysfs->root), "%s", root);
	return sysfs;
}

static void forget(struct power_sysfs *sysfs)
{
	for (int kind = 0; kind < KINDS; kind++) {
		for (size_t i = 0; i < sysfs->counts[kind]; i++) {
			struct device *device = &sysfs->devices[kind][i];

			for (int file = 0; file < DEVICE_FILES; file++)
				if (device->files[file] >= 0)
					close(device->files[file]);
			if (device->folder >= 0)
				close(device->folder);
		}
		free(sysfs->devices[kind]);
		sysfs->devices[kind] = NULL;
		sysfs->counts[kind] = 0;
	}
	sysfs->dropped = 0;
}

void power_sysfs_free(struct power_sysfs *sysfs)
{
	if (!sysfs)
		return;
	forget(sysfs);
	free(sysfs);
}

/* A descriptor, or a value error. A pipe in a file's place is opened without a wait and refused. */
static int open_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		return fd;
	close(fd);
	return -EMEDIUMTYPE;
}

static int32_t value_error(int err)
{
	return err == -EMEDIUMTYPE ? POWER_VALUE_NO_FILE_OF_SYSFS : err;
}

/* Its length, or a negative errno. The file stays open in *kept. */
static ssize_t read_kept(int folder, const char *name, int *kept, char *text, size_t size)
{
	ssize_t n;

	if (*kept == NOT_THERE)
		return -ENOENT;
	if (*kept == NOT_OPEN) {
		int fd = open_file(folder, name);

		if (fd < 0) {
			*kept = fd == -ENOENT ? NOT_THERE : NOT_OPEN;
			return fd;
		}
		*kept = fd;
	}
	n = pread(*kept, text, size, 0);
	if (n >= 0)
		return n;
	n = -errno;
	/* The device may be another one by now, under the same name. */
	if (n == -ENODEV || n == -EBADF) {
		close(*kept);
		*kept = NOT_OPEN;
	}
	return n;
}

static struct power_value number_of(const char *text, ssize_t n, size_t room, int64_t lowest,
				    int64_t highest)
{
	if (n < 0)
		return (struct power_value){.error = value_error((int)n)};
	if ((size_t)n == room)
		return (struct power_value){.error = POWER_VALUE_NO_NUMBER};
	return power_parse_number(text, (size_t)n, lowest, highest);
}

static struct power_value read_number(int folder, const char *name, int *kept, int64_t lowest,
				      int64_t highest)
{
	char text[64];
	ssize_t n = read_kept(folder, name, kept, text, sizeof(text));

	return number_of(text, n, sizeof(text), lowest, highest);
}

/* Read once: what does not change while the device is there. */
static ssize_t read_once(int folder, const char *name, char *text, size_t size)
{
	int fd = NOT_OPEN;
	ssize_t n = read_kept(folder, name, &fd, text, size);

	if (fd >= 0)
		close(fd);
	return n;
}

static void word_once(int folder, const char *name, char word[POWER_NAME])
{
	char text[256];
	ssize_t n = read_once(folder, name, text, sizeof(text));

	memset(word, 0, POWER_NAME);
	if (n > 0)
		power_parse_word(text, (size_t)n, word);
}

static struct power_value number_once(int folder, const char *name, int64_t lowest, int64_t highest)
{
	char text[64];
	ssize_t n = read_once(folder, name, text, sizeof(text));

	return number_of(text, n, sizeof(text), lowest, highest);
}

/* ---- devices ---- */

static void begin(struct power_board *board, const struct device *device, enum device_kind kind)
{
	snprintf(board->at, sizeof(board->at), "%s/%s", kinds[kind].folder, device->name);
	/* The recorder may look at it at any time from here on. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static bool is_left(const struct power_board *board, const struct device *device,
		    enum device_kind kind)
{
	char path[POWER_DEVICE];

	snprintf(path, sizeof(path), "%s/%s", kinds[kind].folder, device->name);
	for (int i = 0; i < POWER_LEFT; i++)
		if (!strncmp(board->left[i], path, sizeof(path)))
			return true;
	return false;
}

static void open_device(const struct power_sysfs *sysfs, struct device *device,
			enum device_kind kind)
{
	char text[64], path[512];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s/%s", sysfs->root, kinds[kind].folder, device->name);
	device->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (device->folder < 0) {
		device->error = -errno;
		return;
	}
	switch (kind) {
	case KIND_SUPPLY:
		word_once(device->folder, "type", device->type);
		n = read_once(device->folder, "scope", text, sizeof(text));
		device->of_device = n >= 6 && !memcmp(text, "Device", 6);
		break;
	case KIND_ZONE:
		word_once(device->folder, "type", device->type);
		break;
	case KIND_COOLING:
		word_once(device->folder, "type", device->type);
		device->fixed = number_once(device->folder, "max_state", 0, INT32_MAX);
		break;
	case KIND_POLICY:
		word_once(device->folder, "related_cpus", device->type);
		device->fixed = number_once(device->folder, "cpuinfo_max_freq", 1, UINT32_MAX);
		break;
	case KIND_METER:
		word_once(device->folder, "name", device->type);
		break;
	case KIND_PANEL:
	case KINDS:
		break;
	}
}

static int by_number(const void *a, const void *b)
{
	const struct device *one = a, *two = b;

	return one->number != two->number
		       ? (one->number > two->number) - (one->number < two->number)
		       : strcmp(one->name, two->name);
}

static void look(struct power_sysfs *sysfs, enum device_kind kind)
{
	size_t prefix = strlen(kinds[kind].prefix);
	struct dirent *entry;
	char path[512];
	DIR *folder;

	snprintf(path, sizeof(path), "%s/%s", sysfs->root, kinds[kind].folder);
	folder = opendir(path);
	if (!folder)
		return;
	sysfs->devices[kind] = calloc(kinds[kind].room, sizeof(struct device));
	while (sysfs->devices[kind] && (entry = readdir(folder))) {
		struct device *device = &sysfs->devices[kind][sysfs->counts[kind]];

		if (entry->d_name[0] == '.' || strncmp(entry->d_name, kinds[kind].prefix, prefix) ||
		    strlen(entry->d_name) >= POWER_NAME)
			continue;
		if (sysfs->counts[kind] == kinds[kind].room) {
			sysfs->dropped++;
			continue;
		}
		strcpy(device->name, entry->d_name);
		device->number = prefix ? (int)strtoul(entry->d_name + prefix, NULL, 10) : 0;
		device->folder = -1;
		for (int file = 0; file < DEVICE_FILES; file++)
			device->files[file] = NOT_OPEN;
		sysfs->counts[kind]++;
	}
	if (sysfs->counts[kind])
		qsort(sysfs->devices[kind], sysfs->counts[kind], sizeof(struct device), by_number);
	closedir(folder);
}

/* ---- one read-out ---- */

static void read_supply(struct device *device, struct power_supply_row *row)
{
	/* An int of the kernel is what each of these can be; charge and temperature may be below 0.
	 */
	static const struct {
		const char *name;
		int64_t lowest, highest;
	} files[POWER_FILES] = {
		[POWER_FILE_ONLINE] = {"online", 0, 2},
		[POWER_FILE_CURRENT] = {"current_now", INT32_MIN, INT32_MAX},
		[POWER_FILE_VOLTAGE] = {"voltage_now", 0, INT32_MAX},
		[POWER_FILE_CAPACITY] = {"capacity", 0, 100},
		[POWER_FILE_CHARGE] = {"charge_counter", INT32_MIN, INT32_MAX},
		[POWER_FILE_TEMPERATURE] = {"temp", ZERO_KELVIN / 100, INT32_MAX / 100},
	};
	char text[64];
	ssize_t n;

	memcpy(row->type, device->type, POWER_NAME);
	row->of_device = device->of_device;
	for (int i = 0; i < POWER_FILES; i++)
		row->values[i] = read_number(device->folder, files[i].name, &device->files[i],
					     files[i].lowest, files[i].highest);
	n = read_kept(device->folder, "status", &device->files[FILE_STATUS], text, sizeof(text));
	if (n > 0)
		power_parse_word(text, (size_t)n, row->status);
}

static void read_meter(struct device *device, struct power_reading *reading)
{
	char text[METER_BYTES], rails[METER_BYTES], *line = text, *end;
	ssize_t n =
		read_kept(device->folder, "energy_value", &device->files[0], text, sizeof(text));
	ssize_t rails_length;
	bool any = false;

	if (n == -ENOENT)
		return; /* another kind of iio device */
	if (n <= 0 || (size_t)n == sizeof(text)) {
		reading->rails.error = n < 0 ? value_error((int)n)
				       : n   ? POWER_VALUE_NO_NUMBER
					     : POWER_VALUE_EMPTY;
		return;
	}
	rails_length = read_once(device->folder, "enabled_rails", rails, sizeof(rails));
	for (end = text + n; line < end;) {
		char *line_end = memchr(line, '\n', (size_t)(end - line));
		size_t length = (size_t)((line_end ? line_end : end) - line);
		struct power_rail_row row = {0};

		if (power_parse_rail(line, length, row.rail, &row.energy_uj)) {
			memcpy(row.device, device->name, POWER_NAME);
			if (rails_length > 0)
				power_parse_subsystem(rails, (size_t)rails_length, row.rail,
						      row.subsystem);
			if (reading->rail_count < POWER_RAILS)
				reading->rail_rows[reading->rail_count++] = row;
			else
				reading->dropped++;
			any = true;
		} else if (length && *line == 'C') {
			reading->rails.error = POWER_VALUE_NO_NUMBER; /* a channel's line */
		}
		line += length + 1;
	}
	if (!any)
		reading->rails.error = POWER_VALUE_NO_NUMBER;
}

static void read_device(struct device *device, enum device_kind kind, struct power_reading *reading)
{
	switch (kind) {
	case KIND_SUPPLY: {
		struct power_supply_row *row = &reading->supplies[reading->supply_count++];

		memcpy(row->name, device->name, POWER_NAME);
		read_supply(device, row);
		break;
	}
	case KIND_ZONE: {
		struct power_zone_row *row = &reading->zones[reading->zone_count++];

		row->number = (uint32_t)device->number;
		memcpy(row->type, device->type, POWER_NAME);
		row->temperature = read_number(device->folder, "temp", &device->files[0],
					       ZERO_KELVIN, INT32_MAX);
		break;
	}
	case KIND_COOLING: {
		struct power_cooling_row *row = &reading->coolings[reading->cooling_count++];

		row->number = (uint32_t)device->number;
		memcpy(row->type, device->type, POWER_NAME);
		row->max_state = device->fixed;
		row->state =
			read_number(device->folder, "cur_state", &device->files[0], 0, INT32_MAX);
		break;
	}
	case KIND_POLICY: {
		struct power_policy_row *row = &reading->policies[reading->policy_count++];

		row->number = (uint32_t)device->number;
		memcpy(row->cpus, device->type, POWER_NAME);
		row->max_khz = device->fixed;
		row->limit_khz = read_number(device->folder, "scaling_max_freq", &device->files[0],
					     1, UINT32_MAX);
		break;
	}
	case KIND_METER:
		read_meter(device, reading);
		break;
	case KIND_PANEL:
		reading->panel =
			read_number(device->folder, "brightness", &device->files[0], 0, INT32_MAX);
		break;
	case KINDS:
		break;
	}
}

void power_sysfs_read(struct power_sysfs *sysfs, struct power_board *board,
		      struct power_reading *reading)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	uint64_t cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID);

	memset(reading, 0, sizeof(*reading));
	reading->panel.error = -ENOENT;
	reading->begin_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	if (!sysfs->looked_ns || now_ns - sysfs->looked_ns >= LOOK_NS) {
		forget(sysfs);
		for (int kind = 0; kind < KINDS; kind++)
			look(sysfs, (enum device_kind)kind);
		sysfs->looked_ns = now_ns;
	}
	reading->dropped = sysfs->dropped;
	for (int kind = 0; kind < KINDS; kind++) {
		for (size_t i = 0; i < sysfs->counts[kind]; i++) {
			struct device *device = &sysfs->devices[kind][i];

			if (is_left(board, device, (enum device_kind)kind))
				continue;
			begin(board, device, (enum device_kind)kind);
			if (device->folder < 0 && !device->error)
				open_device(sysfs, device, (enum device_kind)kind);
			if (device->folder >= 0)
				read_device(device, (enum device_kind)kind, reading);
		}
	}
	memset(board->at, 0, sizeof(board->at));
	reading->end_boot_ns = clock_now_ns(CLOCK_BOOTTIME);
	reading->cpu_ns = clock_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}
