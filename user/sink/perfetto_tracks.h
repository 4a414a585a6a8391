/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of a Perfetto trace, and the tracks that their events are on. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "perfetto_trace.pb-c.h"

typedef PerfettoTrace__CounterDescriptor__Unit counter_unit;

#define COUNTER_NS    PERFETTO_TRACE__COUNTER_DESCRIPTOR__UNIT__UNIT_TIME_NS
#define COUNTER_COUNT PERFETTO_TRACE__COUNTER_DESCRIPTOR__UNIT__UNIT_COUNT
#define COUNTER_BYTES PERFETTO_TRACE__COUNTER_DESCRIPTOR__UNIT__UNIT_SIZE_BYTES
#define COUNTER_OTHER PERFETTO_TRACE__COUNTER_DESCRIPTOR__UNIT__UNIT_UNSPECIFIED

struct perfetto_tracks;

/* At most `limit` tracks. `to` stays the caller's. NULL: no memory. */
struct perfetto_tracks *perfetto_tracks_new(FILE *to, size_t limit);
void perfetto_tracks_free(struct perfetto_tracks *tracks);
/* Write a packet. Errors are kept, and perfetto_tracks_error() gives the first: -errno. */
void perfetto_put(struct perfetto_tracks *tracks, PerfettoTrace__TracePacket *packet);
int perfetto_tracks_error(const struct perfetto_tracks *tracks);
/* Requests for a track that had no room, since the last call. */
uint64_t perfetto_tracks_refused(struct perfetto_tracks *tracks);

/* A process, or a thread of one; start_boot_ns tells owners of one pid apart, 0 is the newest of
 * them. The track's uuid, made when it is asked for the first time; 0: there is no room. name may
 * be NULL. */
uint64_t perfetto_process(struct perfetto_tracks *tracks, pid_t pid, uint64_t start_boot_ns,
			  const char *name);
uint64_t perfetto_thread(struct perfetto_tracks *tracks, pid_t pid, pid_t tid,
			 uint64_t start_boot_ns, const char *name);
/* A track for slices and instants, below no process. */
uint64_t perfetto_track(struct perfetto_tracks *tracks, const char *name);
/* A track below a process or thread for a slice of that time: of those of this name the first on
 * which no slice ends behind its begin, because slices of one track may not overlap. 0: there is no
 * room. */
uint64_t perfetto_lane(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		       uint64_t begin_ns, uint64_t end_ns);
/* The id of a new flow. */
uint64_t perfetto_flow(struct perfetto_tracks *tracks);
/* The value of a counter at a time. parent: the uuid of a process or thread, or 0. */
void perfetto_count(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		    counter_unit unit, uint64_t t_boot_ns, int64_t value);
/* Add to a counter of sums; perfetto_end_sums() writes what they came to in an interval that began
 * at t_boot_ns, and that those to which nothing was added are 0 from there on. */
void perfetto_sum(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		  counter_unit unit, uint64_t value);
void perfetto_end_sums(struct perfetto_tracks *tracks, uint64_t t_boot_ns);
/* What another program called something, fit for a string of a protocol buffer: UTF-8 without
 * control characters. Valid until the second next call. */
char *perfetto_text(struct perfetto_tracks *tracks, const char *text);
