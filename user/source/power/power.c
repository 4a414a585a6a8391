/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/declarations.h"
#include "source/power/power.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/power/reader.h"
#include "source/power/rows.h"
#include "source/power/totals.h"
#include "util/clock.h"

/* A fuel gauge on its bus takes milliseconds, and does not measure anew more often. */
#define READ_OUT_NS NSEC_PER_SEC
/* So long before the end of an interval it is read, a quarter of the interval at most: then the
 * answer is there when the interval ends, and nobody waits for it. */
#define LEAD_NS (100 * NSEC_PER_MSEC)
#define LAST_NS (100 * NSEC_PER_MSEC) /* the last read-out of a run is waited for */

static const struct loss_info loss_items[] = {
	{"power_read_late", LOSS_LATE, LOSS_OF_NOTHING},
	{"power_energy_went_back", LOSS_LOST, LOSS_OF_NOTHING}, /* rails of one span */
	{"power_devices_dropped", LOSS_LOST, LOSS_OF_NOTHING},
};

const struct loss_table power_losses = {loss_items, sizeof(loss_items) / sizeof(*loss_items), NULL};

struct power_source {
	struct source base;
	struct source_context context;
	struct power_reader *reader; /* NULL: there is nothing to read */
	bool asked_for;  /* by the user: then it is worth a warning that there is none */
	uint64_t due_ns; /* of the read-out that was asked for last */
	bool asked;      /* one is under way */
	bool waited;     /* there was a sample before the baseline: a target was waited for */
	bool begun;      /* the common baseline was taken */
	struct power_rows rows;
	struct power_caps caps;
	struct power_totals totals;
};

static struct power_source *power_source(struct source *source)
{
	return (struct power_source *)source;
}

/* Only the names of folders: no driver is asked. */
static bool has_entry(const char *folder, const char *prefix)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix));
	if (directory)
		closedir(directory);
	return found;
}

static bool is_any(void)
{
	return has_entry("/sys/class/power_supply", "") ||
	       has_entry("/sys/class/thermal", "thermal_zone") ||
	       has_entry("/sys/devices/system/cpu/cpufreq", "policy") ||
	       has_entry("/sys/bus/iio/devices", "iio:device") ||
	       has_entry("/sys/class/leds", POWER_PANEL);
}

static int power_open(struct source *source, const struct source_context *context)
{
	struct power_source *power = power_source(source);

	power->context = *context;
	if (!is_any() || !context->warden) {
		source->state = SOURCE_ABSENT;
		snprintf(source->reason, sizeof(source->reason),
			 "/sys has no power supply, thermal zone, cpufreq policy or energy meter");
		/* The header says it; on a machine of this kind it is no news. */
		return power->asked_for ? -ENOENT : 0;
	}
	power->reader = power_reader_new(context->warden);
	if (!power->reader)
		return -errno;
	/* The first read-out is what energy counts from. */
	power->due_ns = clock_now_ns(CLOCK_MONOTONIC);
	power->asked = !power_reader_ask(power->reader, power->due_ns);
	return 0;
}

static void on_cap(void *ctx, const struct power_cap *cap, bool begun, uint64_t at_boot_ns)
{
	struct power_source *power = ctx;
	const struct record_event event = {
		.event = "thermal_cap",
		.keys = {{"state", begun ? "begin" : "end", 0},
			 {"policy", NULL, cap->policy},
			 {"limit_khz", NULL, (int64_t)cap->limit_khz},
			 {"max_khz", NULL, (int64_t)cap->max_khz},
			 {"at_boot_ns", NULL, (int64_t)at_boot_ns},
			 {"since_boot_ns", NULL, (int64_t)cap->since_boot_ns},
			 {"reason", "the policy is not told any more", 0}},
		.key_count = begun || !cap->untold ? 6 : 7,
	};
	struct record record = {.type = RECORD_EVENT, .event = &event};

	if (power->context.emit)
		power->context.emit(power->context.emit_ctx, &record);
}

/* Devices that do not answer. A supply among them may give power. */
static void tell_left(struct power_source *power, struct record_interval *interval)
{
	const char *paths[POWER_LEFT];
	size_t count = power_reader_left(power->reader, paths);
	char key[POWER_DEVICE + 16];

	for (size_t i = 0; i < count; i++) {
		const char *name = strrchr(paths[i], '/');

		power->totals.external_untold += strstr(paths[i], "/power_supply/") != NULL;
		snprintf(key, sizeof(key), "power.%s", name ? name + 1 : paths[i]);
		missing_list_set(&interval->missing, key,
				 "its driver did not answer for 2 s: it is left alone for a while");
	}
}

/* An interval of several read-outs (the first one of a run) has their energy together only in the
 * totals; its values are those of the last one. */
static int take_all(struct power_source *power, uint64_t timeout_ns,
		    struct record_interval *interval)
{
	const struct power_reading *reading;
	int err;

	while (!(err = power_reader_take(power->reader, timeout_ns, &reading))) {
		power->asked = reading->serial < power_reader_serial(power->reader);
		err = power_rows_take(&power->rows, reading, interval);
		if (err)
			return err;
		power_totals_add(&power->totals, &interval->power, power->rows.external_untold,
				 reading->cpu_ns);
	}
	if (err == -EPIPE)
		power->asked = false;
	return 0;
}

static void ask_next(struct power_source *power, const struct record_interval *interval)
{
	uint64_t each_ns = power->context.interval_ns;
	uint64_t lead_ns = each_ns / 4 < LEAD_NS ? each_ns / 4 : LEAD_NS;
	uint64_t intervals = each_ns ? (READ_OUT_NS + each_ns - 1) / each_ns : 1;

	if (interval->final)
		return;
	power->due_ns = clock_now_ns(CLOCK_MONOTONIC) + intervals * each_ns - lead_ns;
	power->asked = !power_reader_ask(power->reader, power->due_ns);
}

/* The run begins here. What was read while a target was waited for is no part of it. */
static void begin(struct power_source *power)
{
	power->begun = true;
	if (!power->waited)
		return;
	power->totals = (struct power_totals){0};
	power->rows.before.boot_ns = 0;
	power->rows.before.rail_count = 0;
	if (power->asked)
		power_reader_hurry(power->reader);
	else
		power_reader_ask(power->reader, clock_now_ns(CLOCK_MONOTONIC));
}

static int power_sample(struct source *source, struct record_interval *interval)
{
	struct power_source *power = power_source(source);
	bool begun = power->begun;
	uint64_t untold = power->totals.external_untold;
	bool changed = power->totals.battery_changed;
	int err;

	if (!power->reader)
		return 0;
	if (interval->final)
		power_reader_hurry(power->reader);
	err = take_all(power, interval->final ? LAST_NS : 0, interval);
	tell_left(power, interval);
	if (interval->baseline)
		begin(power);
	power->waited |= !begun;
	if (interval->power.present) {
		if (begun)
			power_caps_take(&power->caps, &interval->power, on_cap, power);
		if (interval->power.external || power->totals.external_untold != untold ||
		    power->totals.battery_changed != changed)
			missing_list_set(&interval->missing, "power.discharge_mean_ua",
					 power_totals_no_discharge(&power->totals));
	} else if (begun && power->asked && clock_now_ns(CLOCK_MONOTONIC) > power->due_ns) {
		counter_list_add(&interval->lost, "power_read_late", 1);
		missing_list_set(&interval->missing, "power",
				 "a driver behind /sys has not answered yet");
	}
	/* At the common baseline the first read-out may still be under way. */
	if (!power->asked || interval->baseline)
		ask_next(power, interval);
	return err;
}

static int power_summarise(struct source *source, struct summary *summary)
{
	return power_totals_tell(&power_source(source)->totals, summary);
}

static void power_close(struct source *source)
{
	if (!source)
		return;
	power_reader_free(power_source(source)->reader);
	free(source);
}

static const struct source_ops power_ops = {
	.name = "power",
	.losses = &power_losses,
	.open = power_open,
	.sample = power_sample,
	.summarise = power_summarise,
	.close = power_close,
};

struct source *power_source_new(bool asked_for)
{
	struct power_source *power = calloc(1, sizeof(*power));

	if (!power)
		return NULL;
	power->base.ops = &power_ops;
	power->asked_for = asked_for;
	return &power->base;
}
