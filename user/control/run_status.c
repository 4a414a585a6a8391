/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/run_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/json_buffer.h"
#include "util/clock.h"

#define HOUR_NS      (3600 * NSEC_PER_SEC)
#define SETTLE_NS    (600 * NSEC_PER_SEC)
#define LEAST_POINTS 10
#define STRIDE_NS    NSEC_PER_SEC
#define PAIRS        (RUN_POINTS * (RUN_POINTS - 1) / 2)

static void copy_text(char to[RUN_TEXT], const char *first, const char *second)
{
	snprintf(to, RUN_TEXT, "%s%s%s", first, second && *second ? ": " : "",
		 second ? second : "");
}

/* ---- the fold ---- */

static const struct event_key *find_key(const struct record_event *event, const char *name)
{
	for (size_t i = 0; i < event->key_count; i++)
		if (!strcmp(event->keys[i].name, name))
			return &event->keys[i];
	return NULL;
}

static uint64_t number_of(const struct record_event *event, const char *name)
{
	const struct event_key *key = find_key(event, name);

	return key && !key->text && key->value > 0 ? (uint64_t)key->value : 0;
}

static const char *text_of(const struct record_event *event, const char *name)
{
	const struct event_key *key = find_key(event, name);

	return key && key->text ? key->text : "";
}

/* A gap that names its begin is one between two recorders; the others are long intervals, whose
 * length their own record has. */
static void take_gap(struct run_status *status, const struct record_event *event)
{
	if (!find_key(event, "from_boot_ns")) {
		status->overlong++;
		return;
	}
	status->gaps++;
	status->gap_ns += number_of(event, "dur_ns");
	status->recorder_restarts = number_of(event, "recorder_restarts");
	if (!status->error[0])
		copy_text(status->error, text_of(event, "reason"), NULL);
}

static void take_event(struct run_status *status, const struct record_event *event)
{
	if (!strcmp(event->event, "gap")) {
		take_gap(status, event);
	} else if (!strcmp(event->event, "suspend")) {
		status->suspends++;
		status->suspended_ns += number_of(event, "dur_ns");
	} else if (!strcmp(event->event, "clock_jump")) {
		status->clock_jumps++;
	} else if (!strcmp(event->event, "target_exit")) {
		status->target_exits++;
		status->awaited_exits++;
	} else if (!strcmp(event->event, "target_start") && status->awaited_exits) {
		status->awaited_exits--;
		status->target_restarts++;
	} else if (!strcmp(event->event, "degraded") && !strcmp(text_of(event, "state"), "end")) {
		status->warning[0] = 0;
	} else if (!strcmp(event->event, "degraded")) {
		status->degraded++;
		copy_text(status->warning, text_of(event, "source"), text_of(event, "reason"));
	}
}

/* One counter: the last row takes those that find no row of their own. */
static void add_lost(struct run_status *status, const char *name, uint64_t value)
{
	size_t i = 0;

	while (i < status->lost_count && strcmp(status->lost[i].name, name))
		i++;
	if (i >= RUN_LOSSES - 1) {
		i = RUN_LOSSES - 1;
		name = "other";
	}
	if (i >= status->lost_count) {
		status->lost_count = i + 1;
		snprintf(status->lost[i].name, sizeof(status->lost[i].name), "%s", name);
	}
	status->lost[i].value += value;
}

/* Every second point goes when there is no room for more: they lie evenly over the whole run,
 * however long it is. */
static void add_point(struct run_status *status, uint64_t t_boot_ns, uint64_t anon_bytes)
{
	uint64_t n = status->point_count;

	/* Of another boot, whose memory has nothing to do with this one's. */
	if (n && t_boot_ns < status->points[n - 1].t_boot_ns)
		n = status->point_stride_ns = 0;
	if (!status->point_stride_ns)
		status->point_stride_ns = STRIDE_NS;
	if (n && t_boot_ns - status->points[n - 1].t_boot_ns < status->point_stride_ns)
		return;
	if (n >= RUN_POINTS) {
		for (n = 0; n < RUN_POINTS / 2; n++)
			status->points[n] = status->points[2 * n];
		status->point_stride_ns *= 2;
	}
	status->points[n].t_boot_ns = t_boot_ns;
	status->points[n].anon_bytes = anon_bytes;
	status->point_count = n + 1;
}

static void take_interval(struct run_status *status, const struct record *record)
{
	const struct record_interval *interval = record->interval;
	const struct record_self *self = &interval->self;

	status->intervals++;
	status->covered_ns += interval->dur_ns;
	status->last_interval_boot_ns = record->t_boot_ns;
	for (size_t i = 0; i < interval->lost.count; i++)
		add_lost(status, interval->lost.items[i].name, interval->lost.items[i].value);
	status->self_cpu_ns += self->cpu_ns;
	status->stops += self->stops;
	if (self->stop_max_ns > status->stop_max_ns)
		status->stop_max_ns = self->stop_max_ns;
	if (self->memory_bytes.present)
		status->memory_bytes = self->memory_bytes;
	if (self->unwinder_cache_bytes.present)
		status->unwinder_cache_bytes = self->unwinder_cache_bytes;
	if (!self->anon_bytes.present)
		return;
	status->anon_bytes = self->anon_bytes;
	add_point(status, record->t_boot_ns, self->anon_bytes.value);
}

static void take_header(struct run_status *status, const struct record *record)
{
	const struct record_header *header = record->header;

	status->interval_ns = header->interval_ns;
	if (!status->begun_boot_ns)
		status->begun_boot_ns = record->t_boot_ns;
	for (size_t i = 0; i < header->source_count; i++) {
		const struct header_source *source = &header->sources[i];

		if (source->state && strcmp(source->state, "ok"))
			snprintf(status->warning, RUN_TEXT, "%s is %s%s%s", source->name,
				 source->state, source->reason ? ": " : "",
				 source->reason ? source->reason : "");
	}
}

void run_status_take(struct run_status *status, const struct record *record)
{
	status->last_record_boot_ns = record->t_boot_ns;
	status->last_seq = record->seq;
	status->footer = record->type == RECORD_FOOTER;
	switch (record->type) {
	case RECORD_HEADER:
		take_header(status, record);
		break;
	case RECORD_INTERVAL:
		take_interval(status, record);
		break;
	case RECORD_EVENT:
		take_event(status, record->event);
		break;
	case RECORD_BLOCK:
		status->blocks += record->block->state != BLOCK_OPEN;
		break;
	default:
		break;
	}
}

uint64_t run_status_expected(const struct run_status *status)
{
	uint64_t ns = status->covered_ns + status->gap_ns;

	return status->interval_ns ? (ns + status->interval_ns / 2) / status->interval_ns : 0;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

struct opt_i64 run_status_slope(const struct run_status *status)
{
	uint64_t count = status->point_count < RUN_POINTS ? status->point_count : RUN_POINTS;
	uint64_t first = 0, pairs = 0, to_ns = count ? status->points[count - 1].t_boot_ns : 0;
	double *slopes;
	struct opt_i64 slope;

	if (count && to_ns - status->points[0].t_boot_ns > 2 * SETTLE_NS)
		while (first < count &&
		       status->points[first].t_boot_ns < status->points[0].t_boot_ns + SETTLE_NS)
			first++;
	if (count < first + LEAST_POINTS)
		return (struct opt_i64){0};
	slopes = malloc(PAIRS * sizeof(*slopes));
	if (!slopes)
		return (struct opt_i64){0};
	for (uint64_t i = first; i < count; i++) {
		for (uint64_t k = i + 1; k < count; k++) {
			double ns = (double)status->points[k].t_boot_ns -
				    (double)status->points[i].t_boot_ns;
			double bytes = (double)status->points[k].anon_bytes -
				       (double)status->points[i].anon_bytes;

			if (ns > 0)
				slopes[pairs++] = bytes / ns * (double)HOUR_NS;
		}
	}
	qsort(slopes, pairs, sizeof(*slopes), compare);
	slope = pairs ? SOME_I64((int64_t)slopes[pairs / 2]) : (struct opt_i64){0};
	free(slopes);
	return slope;
}

/* ---- JSON ---- */

static void put_u64(struct json_buffer *to, const char *key, uint64_t value)
{
	json_put_key(to, key);
	json_put_u64(to, value);
}

static void put_opt(struct json_buffer *to, const char *key, struct opt_u64 value)
{
	if (value.present)
		put_u64(to, key, value.value);
}

static void put_text(struct json_buffer *to, const char *key, const char *text)
{
	json_put_key(to, key);
	json_put_text(to, text, strlen(text));
}

static void put_self(const struct run_status *status, struct json_buffer *to)
{
	struct opt_i64 slope = run_status_slope(status);

	json_put_key(to, "self");
	json_put_mark(to, '{');
	put_u64(to, "cpu_ns", status->self_cpu_ns);
	if (status->covered_ns) {
		json_put_key(to, "cpu_pct");
		json_put_double(to,
				100.0 * (double)status->self_cpu_ns / (double)status->covered_ns);
	}
	put_opt(to, "anon_bytes", status->anon_bytes);
	put_opt(to, "memory_bytes", status->memory_bytes);
	put_opt(to, "unwinder_cache_bytes", status->unwinder_cache_bytes);
	if (slope.present) {
		json_put_key(to, "anon_slope_bytes_per_h");
		json_put_i64(to, slope.value);
	}
	put_u64(to, "stops", status->stops);
	put_u64(to, "stop_max_ns", status->stop_max_ns);
	json_put_mark(to, '}');
}

void run_status_write(const struct run_status *status, const struct run_live *live,
		      struct json_buffer *to)
{
	uint64_t to_ns = live->pid ? live->now_boot_ns : status->last_record_boot_ns;

	json_put_mark(to, '{');
	put_text(to, "state", live->state);
	if (live->pid)
		put_u64(to, "pid", (uint64_t)live->pid);
	put_u64(to, "interval_ns", status->interval_ns);
	put_u64(to, "begun_boot_ns", status->begun_boot_ns);
	if (status->end_boot_ns)
		put_u64(to, "end_boot_ns", status->end_boot_ns);
	if (status->begun_boot_ns && to_ns > status->begun_boot_ns)
		put_u64(to, "age_ns", to_ns - status->begun_boot_ns);
	put_u64(to, "intervals", status->intervals);
	put_u64(to, "intervals_expected", run_status_expected(status));
	put_u64(to, "intervals_overlong", status->overlong);
	put_u64(to, "target_restarts", status->target_restarts);
	put_u64(to, "recorder_restarts", status->recorder_restarts);
	put_u64(to, "gaps", status->gaps);
	put_u64(to, "gap_ns", status->gap_ns);
	put_u64(to, "suspends", status->suspends);
	put_u64(to, "suspended_ns", status->suspended_ns);
	put_u64(to, "clock_jumps", status->clock_jumps);
	put_u64(to, "blocks", status->blocks);
	json_put_key(to, "lost");
	json_put_mark(to, '{');
	for (size_t i = 0; i < status->lost_count && i < RUN_LOSSES; i++)
		put_u64(to, status->lost[i].name, status->lost[i].value);
	json_put_mark(to, '}');
	if (status->disk_limit_bytes)
		put_u64(to, "disk_limit_bytes", status->disk_limit_bytes);
	put_self(status, to);
	if (status->last_interval_boot_ns && live->now_boot_ns >= status->last_interval_boot_ns)
		put_u64(to, "last_interval_age_ns",
			live->now_boot_ns - status->last_interval_boot_ns);
	if (status->error[0])
		put_text(to, "last_error", status->error);
	json_put_key(to, "warnings");
	json_put_mark(to, '[');
	if (status->warning[0])
		json_put_text(to, status->warning, strlen(status->warning));
	json_put_mark(to, ']');
	json_put_mark(to, '}');
}
