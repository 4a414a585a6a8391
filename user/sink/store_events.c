/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/store_events.h"

#include <string.h>

#include "store/index.h"
#include "util/clock.h"

static void add_number(struct record_event *event, const char *name, uint64_t value)
{
	event->keys[event->key_count++] = (struct event_key){name, NULL, (int64_t)value};
}

static void add_text(struct record_event *event, const char *name, const char *text)
{
	event->keys[event->key_count++] = (struct event_key){name, text, 0};
}

static void add_records(struct record_event *event, const struct store_notice *notice)
{
	if (!notice->has_seq)
		return;
	add_number(event, "records", notice->records);
	add_number(event, "first_seq", notice->first_seq);
	add_number(event, "last_seq", notice->last_seq);
}

static void add_resumed(struct record_event *event, const struct store_notice *notice)
{
	uint64_t now_ns = clock_now_ns(CLOCK_BOOTTIME);

	event->event = "recording_resumed";
	add_number(event, "segment", notice->last_segment);
	if (notice->session[0])
		add_text(event, "of_session", notice->session);
	if (notice->has_seq)
		add_number(event, "last_seq", notice->last_seq);
	/* Up to the begin of the run that followed, where that was not this one. */
	if (notice->dur_ns)
		add_number(event, "gap_ns", notice->dur_ns);
	else if (notice->boot_ns && notice->boot_ns <= now_ns)
		add_number(event, "gap_ns", now_ns - notice->boot_ns);
	if (notice->error)
		add_text(event, "end", "torn");
}

void store_event_make(const struct store_notice *notice, struct record_event *event)
{
	*event = (struct record_event){.event = "disk_ok"};
	switch (notice->kind) {
	case STORE_RESUMED:
		add_resumed(event, notice);
		break;
	case STORE_FULL:
		event->event = "disk_full";
		add_text(event, "reason", strerror(-notice->error));
		add_number(event, "free_bytes", notice->bytes);
		break;
	case STORE_WRITABLE:
		add_number(event, "dur_ns", notice->dur_ns);
		break;
	case STORE_DROPPED:
		event->event = "records_dropped";
		add_records(event, notice);
		add_number(event, "bytes", notice->bytes);
		if (notice->error)
			add_text(event, "reason", strerror(-notice->error));
		break;
	case STORE_REMOVED:
	case STORE_TAKEN:
		event->event = notice->kind == STORE_REMOVED ? "segments_removed" : "segment_taken";
		add_number(event, "first_segment", notice->first_segment);
		add_number(event, "last_segment", notice->last_segment);
		add_records(event, notice);
		add_number(event, "bytes", notice->bytes);
		if (notice->kind == STORE_REMOVED)
			add_text(event, "reason", store_reason_name(notice->reason));
		break;
	case STORE_SYNC_FAILED:
		event->event = "sync_failed";
		add_number(event, "segment", notice->last_segment);
		add_text(event, "reason", strerror(-notice->error));
		break;
	case STORE_BEHIND:
	case STORE_CAUGHT_UP:
		event->event = "degraded";
		add_text(event, "source", "store");
		add_text(event, "state", notice->kind == STORE_BEHIND ? "begin" : "end");
		add_text(event, "reason",
			 notice->kind == STORE_BEHIND ? "old intervals are merged late: too little "
							"CPU time is left for it"
						      : "old intervals are merged in time again");
		add_number(event, "late_ns", notice->dur_ns);
		break;
	}
}

uint64_t store_notice_lost(const struct store_notice *notice)
{
	return notice->kind == STORE_DROPPED || notice->kind == STORE_TAKEN ? notice->records : 0;
}
