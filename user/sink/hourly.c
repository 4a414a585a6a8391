/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/hourly.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sink/hole.h"
#include "util/clock.h"
#include "util/units.h"

#define NSEC_PER_HOUR (3600 * NSEC_PER_SEC)
#define MAX_HOURS     20000 /* two years */

struct hour {
	uint64_t number; /* since 1970; without a wall clock since the device was started */
	uint64_t dur_ns;
	bool has_cpu, has_targets, has_frames;
	double busy_ns, capacity_ns, targets_ns, targets_dur_ns;
	uint64_t judged, janky;
	uint64_t blocks, blocked_ns, longest_ns;
	struct opt_u64 rss_bytes, available_bytes; /* the most of the targets, the least */
	uint64_t lost, holes, hole_ns;
};

struct hourly {
	struct sink base;
	FILE *to;
	struct hour *hours; /* by number */
	size_t count, room;
	uint64_t boot_ns, unix_ns;
	uint64_t end_boot_ns; /* of the interval before; 0: there was none in this run */
	bool has_targets, any_wall;
};

/* The row of an hour, made in its place: mostly it is the last one. NULL with errno. */
static struct hour *find(struct hourly *hourly, uint64_t t_boot_ns)
{
	uint64_t ns = hourly->unix_ns ? hourly->unix_ns + (t_boot_ns - hourly->boot_ns) : t_boot_ns;
	/* What ends with the hour is of it. */
	uint64_t number = (ns ? ns - 1 : 0) / NSEC_PER_HOUR;
	size_t place = hourly->count;
	struct hour *more;

	while (place && hourly->hours[place - 1].number > number)
		place--;
	if (place && hourly->hours[place - 1].number == number)
		return &hourly->hours[place - 1];
	if (hourly->count == MAX_HOURS) {
		errno = ENOSPC;
		return NULL;
	}
	if (hourly->count == hourly->room) {
		more = reallocarray(hourly->hours, hourly->room ? 2 * hourly->room : 128,
				    sizeof(*more));
		if (!more)
			return NULL;
		hourly->hours = more;
		hourly->room = hourly->room ? 2 * hourly->room : 128;
	}
	memmove(&hourly->hours[place + 1], &hourly->hours[place],
		(hourly->count++ - place) * sizeof(*hourly->hours));
	hourly->hours[place] = (struct hour){.number = number};
	return &hourly->hours[place];
}

static void add_memory(struct hour *hour, const struct record_memory *memory)
{
	uint64_t rss_bytes = 0;
	bool whole = memory->process_count > 0;

	for (size_t i = 0; i < memory->process_count; i++) {
		rss_bytes += memory->processes[i].rss_bytes.value;
		whole &= memory->processes[i].rss_bytes.present;
	}
	if (whole && (!hour->rss_bytes.present || rss_bytes > hour->rss_bytes.value))
		hour->rss_bytes = SOME_U64(rss_bytes);
	if (memory->system.available_bytes.present &&
	    (!hour->available_bytes.present ||
	     memory->system.available_bytes.value < hour->available_bytes.value))
		hour->available_bytes = memory->system.available_bytes;
}

static void add_cpu(struct hour *hour, const struct record_interval *interval, bool has_targets)
{
	const struct record_cpu *cpu = &interval->cpu;

	hour->has_cpu = true;
	hour->busy_ns += (double)cpu->busy_ns;
	hour->capacity_ns += cpu->online_ns ? (double)cpu->online_ns
					    : (double)cpu->online_cpus * (double)interval->dur_ns;
	hour->has_targets |= has_targets;
	hour->targets_dur_ns += (double)interval->dur_ns;
	for (size_t i = 0; i < cpu->process_count; i++)
		hour->targets_ns += (double)cpu->processes[i].cpu_ns;
}

static int take_interval(struct hourly *hourly, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	struct hour *hour = find(hourly, record->t_boot_ns);
	uint64_t hole_ns, begin_ns;

	if (!hour)
		return -errno;
	hole_ns = hole_before(hourly->end_boot_ns, interval, record->t_boot_ns, &begin_ns);
	hour->holes += hole_ns > 0;
	hour->hole_ns += hole_ns;
	hourly->end_boot_ns = record->t_boot_ns;
	hour->dur_ns += interval->dur_ns;
	if (interval->cpu.present)
		add_cpu(hour, interval, hourly->has_targets);
	hour->has_frames |= interval->frames.present;
	for (size_t i = 0; i < interval->frames.layer_count; i++) {
		hour->judged += record_layer_judged(&interval->frames.layers[i]);
		hour->janky += interval->frames.layers[i].janky;
	}
	if (interval->memory.present)
		add_memory(hour, &interval->memory);
	for (size_t i = 0; i < interval->lost.count; i++)
		hour->lost += interval->lost.items[i].value;
	return 0;
}

static int take_block(struct hourly *hourly, const struct record_block *block)
{
	struct hour *hour = find(hourly, block->start_boot_ns + block->wall_ns);

	if (!hour)
		return -errno;
	hour->blocks++;
	hour->blocked_ns += block->wall_ns;
	if (block->wall_ns > hour->longest_ns)
		hour->longest_ns = block->wall_ns;
	return 0;
}

static int hourly_write(struct sink *sink, const struct record *record)
{
	struct hourly *hourly = (struct hourly *)sink;
	int err = 0;

	if (record->type == RECORD_HEADER) {
		hourly->boot_ns = record->header->clock.boot_ns;
		hourly->unix_ns = record->header->clock.unix_ns;
		hourly->has_targets = record->header->target_count > 0;
		hourly->any_wall |= hourly->unix_ns > 0;
		hourly->end_boot_ns = 0;
	} else if (record->type == RECORD_INTERVAL) {
		err = take_interval(hourly, record);
	} else if (record->type == RECORD_BLOCK) {
		err = take_block(hourly, record->block);
	}
	sink->dropped += err == -ENOSPC;
	return err == -ENOSPC ? 0 : err;
}

static void put_number(FILE *to, int width, int digits, bool known, double value)
{
	if (known)
		fprintf(to, " %*.*f", width, digits, value);
	else
		fprintf(to, " %*s", width, "-");
}

static void put_bytes(FILE *to, struct opt_u64 bytes)
{
	char text[32];

	fprintf(to, " %10s", bytes.present ? format_bytes(text, sizeof(text), bytes.value) : "-");
}

static void put_hour(const struct hourly *hourly, const struct hour *hour)
{
	time_t seconds = (time_t)(hour->number * 3600);
	char when[40], text[32];
	FILE *to = hourly->to;
	struct tm tm;

	if (hourly->any_wall && gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%m-%d %H:00Z", &tm);
	else
		snprintf(when, sizeof(when), "hour %" PRIu64, hour->number);
	fprintf(to, "%-12s", when);
	put_number(to, 6, 0, true, (double)hour->dur_ns / 1e9);
	put_number(to, 5, 1, hour->has_cpu && hour->capacity_ns > 0,
		   100 * hour->busy_ns / hour->capacity_ns);
	put_number(to, 6, 1, hour->has_targets && hour->targets_dur_ns > 0,
		   100 * hour->targets_ns / hour->targets_dur_ns);
	put_number(to, 5, 1, hour->judged > 0, 100 * (double)hour->janky / (double)hour->judged);
	fprintf(to, " %6" PRIu64, hour->blocks);
	put_number(to, 7, 2, hour->blocks > 0, (double)hour->longest_ns / 1e9);
	put_bytes(to, hour->rss_bytes);
	put_bytes(to, hour->available_bytes);
	fprintf(to, " %4" PRIu64, hour->lost);
	if (hour->holes)
		fprintf(to, " %" PRIu64 ", %s", hour->holes,
			format_duration(text, sizeof(text), hour->hole_ns));
	else
		fputs(" -", to);
	fputc('\n', to);
}

static int hourly_finish(struct sink *sink, uint64_t deadline_mono_ns)
{
	struct hourly *hourly = (struct hourly *)sink;

	errno = 0;
	fputs("HOUR         REC s  CPU TARGET  JANK BLOCKS LONGEST        RSS  AVAILABLE LOST "
	      "GAPS\n"
	      "                     %  %core     %              s       most      least\n",
	      hourly->to);
	for (size_t i = 0; i < hourly->count; i++)
		put_hour(hourly, &hourly->hours[i]);
	if (!ferror(hourly->to))
		return 0;
	return errno ? -errno : -EIO;
}

static void hourly_close(struct sink *sink)
{
	free(((struct hourly *)sink)->hours);
	free(sink);
}

struct sink *hourly_sink_new(FILE *to)
{
	static const struct sink_ops ops = {.name = "hourly",
					    .write = hourly_write,
					    .finish = hourly_finish,
					    .close = hourly_close};
	struct hourly *hourly = calloc(1, sizeof(*hourly));

	if (!hourly)
		return NULL;
	hourly->base.ops = &ops;
	hourly->to = to;
	return &hourly->base;
}
