/* SPDX-License-Identifier: BSD-2-Clause */
#include "sink/perfetto_tracks.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "sink/text.h"

#define TEXT_BYTES  4096 /* what is longer is cut */
#define NAME_BYTES  200  /* of a track, as far as it tells tracks apart */
#define LANES       16   /* of one name and parent */
#define TICK_NS     10000000
#define SEQUENCE_ID 1 /* all packets come from one writer */

enum track_kind { TRACK_PLAIN, TRACK_PROCESS, TRACK_THREAD, TRACK_COUNTER, TRACK_LANE };

struct track_key {
	uint64_t parent, start_boot_ns;
	int32_t kind, pid, tid;
	char name[NAME_BYTES];
};

struct track {
	struct track_key key;
	uint64_t uuid;
	/* of a counter of sums: the value that was written last, and that of this interval so far
	 */
	uint64_t written, sum;
	bool listed;       /* in `sums` */
	uint64_t end_ns;   /* of a lane: of its last slice */
	uint64_t start_ns; /* of the newest of a pid: its start */
	UT_hash_handle hh;
};

struct perfetto_tracks {
	FILE *to;
	struct track *tracks;
	size_t limit, newest_count;
	/* Counters of sums that have something to be written, or had in the interval before, in
	 * the order of their uuids where sums_sorted is set. */
	struct track **sums;
	size_t sum_count, sum_room;
	bool sums_sorted;
	uint64_t refused;
	int err;
	uint8_t *packed;
	size_t packed_room;
	char texts[2][TEXT_BYTES];
	unsigned text;
	uint64_t flows;
};

struct perfetto_tracks *perfetto_tracks_new(FILE *to, size_t limit)
{
	struct perfetto_tracks *tracks = calloc(1, sizeof(*tracks));

	if (!tracks)
		return NULL;
	tracks->to = to;
	tracks->limit = limit;
	return tracks;
}

void perfetto_tracks_free(struct perfetto_tracks *tracks)
{
	struct track *track, *next;

	if (!tracks)
		return;
	HASH_ITER (hh, tracks->tracks, track, next) {
		HASH_DEL(tracks->tracks, track);
		free(track);
	}
	free(tracks->packed);
	free(tracks->sums);
	free(tracks);
}

int perfetto_tracks_error(const struct perfetto_tracks *tracks)
{
	return tracks->err;
}

uint64_t perfetto_tracks_refused(struct perfetto_tracks *tracks)
{
	uint64_t refused = tracks->refused;

	tracks->refused = 0;
	return refused;
}

char *perfetto_text(struct perfetto_tracks *tracks, const char *text)
{
	char *clean = tracks->texts[tracks->text++ % 2];

	text_clean(clean, TEXT_BYTES, text ? text : "");
	return clean;
}

/* ---- packets ---- */

void perfetto_put(struct perfetto_tracks *tracks, PerfettoTrace__TracePacket *packet)
{
	PerfettoTrace__Trace trace = PERFETTO_TRACE__TRACE__INIT;
	size_t size;

	if (tracks->err)
		return;
	packet->has_trusted_packet_sequence_id = 1;
	packet->trusted_packet_sequence_id = SEQUENCE_ID;
	/* Messages that stand behind each other are one message with the fields of all. */
	trace.n_packet = 1;
	trace.packet = &packet;
	size = perfetto_trace__trace__get_packed_size(&trace);
	if (size > tracks->packed_room) {
		uint8_t *more = realloc(tracks->packed, 2 * size);

		if (!more) {
			tracks->err = -ENOMEM;
			return;
		}
		tracks->packed = more;
		tracks->packed_room = 2 * size;
	}
	perfetto_trace__trace__pack(&trace, tracks->packed);
	errno = 0;
	if (fwrite(tracks->packed, 1, size, tracks->to) != size)
		tracks->err = errno ? -errno : -EIO;
}

/* Names are short: what is behind one says nothing, and is not hashed. */
static unsigned key_bytes(const struct track_key *key)
{
	return (unsigned)(offsetof(struct track_key, name) + strlen(key->name));
}

static void describe(struct perfetto_tracks *tracks, PerfettoTrace__TrackDescriptor *descriptor)
{
	PerfettoTrace__TracePacket packet = PERFETTO_TRACE__TRACE_PACKET__INIT;

	packet.track_descriptor = descriptor;
	perfetto_put(tracks, &packet);
}

/* ---- tracks ---- */

/* The track of that key; *made: it has no descriptor yet. NULL: there is no room. */
static struct track *find(struct perfetto_tracks *tracks, const struct track_key *key, bool *made)
{
	struct track *track;

	*made = false;
	HASH_FIND(hh, tracks->tracks, key, key_bytes(key), track);
	if (track)
		return track;
	if (HASH_COUNT(tracks->tracks) - tracks->newest_count >= tracks->limit) {
		tracks->refused++;
		return NULL;
	}
	track = calloc(1, sizeof(*track));
	if (!track) {
		tracks->err = tracks->err ? tracks->err : -ENOMEM;
		return NULL;
	}
	memcpy(&track->key, key, key_bytes(key));
	track->uuid = HASH_COUNT(tracks->tracks) + 1;
	HASH_ADD(hh, tracks->tracks, key, key_bytes(&track->key), track);
	*made = true;
	return track;
}

static void set_key(struct track_key *key, enum track_kind kind, uint64_t parent, const char *name)
{
	size_t length = name ? strnlen(name, sizeof(key->name) - 1) : 0;

	/* Its bytes are compared, up to the end of the name. */
	memset(key, 0, offsetof(struct track_key, name));
	key->kind = kind;
	key->parent = parent;
	if (length)
		memcpy(key->name, name, length);
	key->name[length] = 0;
}

/* Who asks for a pid without its start means the newest owner: a second track would be a second
 * process to the reader. */
static void keep_newest(struct perfetto_tracks *tracks, const struct track_key *of, uint64_t uuid)
{
	struct track_key key;
	struct track *track;

	if (!of->start_boot_ns)
		return;
	set_key(&key, of->kind, of->parent, of->name);
	key.pid = of->pid;
	key.tid = of->tid;
	HASH_FIND(hh, tracks->tracks, &key, key_bytes(&key), track);
	if (!track) {
		track = calloc(1, sizeof(*track));
		if (!track) {
			tracks->err = tracks->err ? tracks->err : -ENOMEM;
			return;
		}
		memcpy(&track->key, &key, key_bytes(&key));
		tracks->newest_count++;
		HASH_ADD(hh, tracks->tracks, key, key_bytes(&track->key), track);
	}
	track->uuid = uuid;
	track->start_ns = of->start_boot_ns;
}

/* /proc tells a start by the tick: where the newest one of a pid began less than a tick apart it is
 * the same. 0: it is another one. */
static uint64_t of_same_tick(struct perfetto_tracks *tracks, const struct track_key *of)
{
	struct track_key key;
	struct track *track;

	set_key(&key, of->kind, of->parent, of->name);
	key.pid = of->pid;
	key.tid = of->tid;
	HASH_FIND(hh, tracks->tracks, &key, key_bytes(&key), track);
	if (!track || !track->start_ns || !of->start_boot_ns)
		return 0;
	return of->start_boot_ns + TICK_NS > track->start_ns &&
			       track->start_ns + TICK_NS > of->start_boot_ns
		       ? track->uuid
		       : 0;
}

uint64_t perfetto_process(struct perfetto_tracks *tracks, pid_t pid, uint64_t start_boot_ns,
			  const char *name)
{
	PerfettoTrace__TrackDescriptor descriptor = PERFETTO_TRACE__TRACK_DESCRIPTOR__INIT;
	PerfettoTrace__ProcessDescriptor process = PERFETTO_TRACE__PROCESS_DESCRIPTOR__INIT;
	struct track_key key;
	struct track *track;
	uint64_t same;
	bool made;

	set_key(&key, TRACK_PROCESS, 0, NULL);
	key.pid = pid;
	key.start_boot_ns = start_boot_ns;
	same = of_same_tick(tracks, &key);
	if (same)
		return same;
	track = find(tracks, &key, &made);
	if (!made)
		return track ? track->uuid : 0;
	process.has_pid = 1;
	process.pid = pid;
	process.process_name = name ? perfetto_text(tracks, name) : NULL;
	descriptor.has_uuid = 1;
	descriptor.uuid = track->uuid;
	descriptor.process = &process;
	describe(tracks, &descriptor);
	keep_newest(tracks, &key, track->uuid);
	return track->uuid;
}

uint64_t perfetto_thread(struct perfetto_tracks *tracks, pid_t pid, pid_t tid,
			 uint64_t start_boot_ns, const char *name)
{
	PerfettoTrace__TrackDescriptor descriptor = PERFETTO_TRACE__TRACK_DESCRIPTOR__INIT;
	PerfettoTrace__ThreadDescriptor thread = PERFETTO_TRACE__THREAD_DESCRIPTOR__INIT;
	struct track_key key;
	struct track *track;
	bool made;

	set_key(&key, TRACK_THREAD, 0, NULL);
	key.pid = pid;
	key.tid = tid;
	key.start_boot_ns = start_boot_ns;
	track = find(tracks, &key, &made);
	if (!made)
		return track ? track->uuid : 0;
	thread.has_pid = thread.has_tid = 1;
	thread.pid = pid;
	thread.tid = tid;
	thread.thread_name = name ? perfetto_text(tracks, name) : NULL;
	descriptor.has_uuid = 1;
	descriptor.uuid = track->uuid;
	descriptor.thread = &thread;
	describe(tracks, &descriptor);
	keep_newest(tracks, &key, track->uuid);
	return track->uuid;
}

uint64_t perfetto_track(struct perfetto_tracks *tracks, const char *name)
{
	PerfettoTrace__TrackDescriptor descriptor = PERFETTO_TRACE__TRACK_DESCRIPTOR__INIT;
	struct track_key key;
	struct track *track;
	bool made;

	set_key(&key, TRACK_PLAIN, 0, name);
	track = find(tracks, &key, &made);
	if (!made)
		return track ? track->uuid : 0;
	descriptor.has_uuid = 1;
	descriptor.uuid = track->uuid;
	descriptor.name = perfetto_text(tracks, name);
	describe(tracks, &descriptor);
	return track->uuid;
}

uint64_t perfetto_lane(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		       uint64_t begin_ns, uint64_t end_ns)
{
	PerfettoTrace__TrackDescriptor descriptor = PERFETTO_TRACE__TRACK_DESCRIPTOR__INIT;
	struct track_key key;
	struct track *track = NULL;
	bool made = false;

	set_key(&key, TRACK_LANE, parent, name);
	while (key.tid < LANES) {
		track = find(tracks, &key, &made);
		if (!track)
			return 0;
		if (track->end_ns <= begin_ns)
			break;
		key.tid++;
	}
	if (key.tid == LANES) {
		tracks->refused++;
		return 0;
	}
	track->end_ns = end_ns;
	if (!made)
		return track->uuid;
	descriptor.has_uuid = descriptor.has_parent_uuid = 1;
	descriptor.uuid = track->uuid;
	descriptor.parent_uuid = parent;
	descriptor.name = perfetto_text(tracks, name);
	describe(tracks, &descriptor);
	return track->uuid;
}

uint64_t perfetto_flow(struct perfetto_tracks *tracks)
{
	return ++tracks->flows;
}

static struct track *find_counter(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
				  counter_unit unit)
{
	PerfettoTrace__TrackDescriptor descriptor = PERFETTO_TRACE__TRACK_DESCRIPTOR__INIT;
	PerfettoTrace__CounterDescriptor counter = PERFETTO_TRACE__COUNTER_DESCRIPTOR__INIT;
	struct track_key key;
	struct track *track;
	bool made;

	set_key(&key, TRACK_COUNTER, parent, name);
	track = find(tracks, &key, &made);
	if (!made)
		return track;
	counter.has_unit = 1;
	counter.unit = unit;
	descriptor.has_uuid = 1;
	descriptor.uuid = track->uuid;
	descriptor.name = perfetto_text(tracks, name);
	descriptor.counter = &counter;
	descriptor.has_parent_uuid = parent != 0;
	descriptor.parent_uuid = parent;
	describe(tracks, &descriptor);
	return track;
}

/* A field of a number with at most 11 + 1 bytes. Field numbers here are below 256. */
static uint8_t *put_number(uint8_t *at, unsigned field, uint64_t value)
{
	uint64_t parts[] = {field << 3, value};

	for (size_t i = 0; i < 2; i++) {
		for (; parts[i] >= 0x80; parts[i] >>= 7)
			*at++ = (uint8_t)(parts[i] | 0x80);
		*at++ = (uint8_t)parts[i];
	}
	return at;
}

/* Nearly all packets are values of counters: they are put together here, by the field numbers of
 * perfetto_trace.proto and in their order, as the library does it in three times the time. Each
 * message has fewer than 128 bytes, so that its length has one. */
static void put_value(struct perfetto_tracks *tracks, struct track *track, uint64_t t_boot_ns,
		      int64_t value)
{
	uint8_t packet[64], event[32], *at = event;
	size_t event_bytes, length;

	if (tracks->err)
		return;
	*at++ = 9 << 3; /* type */
	*at++ = PERFETTO_TRACE__TRACK_EVENT__TYPE__TYPE_COUNTER;
	at = put_number(at, 11, track->uuid);
	at = put_number(at, 30, (uint64_t)value);
	event_bytes = (size_t)(at - event);
	at = put_number(packet + 2, 8, t_boot_ns);
	at = put_number(at, 10, SEQUENCE_ID);
	*at++ = 11 << 3 | 2; /* a message, and its bytes */
	*at++ = (uint8_t)event_bytes;
	memcpy(at, event, event_bytes);
	length = (size_t)(at - packet) + event_bytes;
	packet[0] = 1 << 3 | 2;
	packet[1] = (uint8_t)(length - 2);
	errno = 0;
	if (fwrite(packet, 1, length, tracks->to) != length)
		tracks->err = errno ? -errno : -EIO;
}

void perfetto_count(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		    counter_unit unit, uint64_t t_boot_ns, int64_t value)
{
	struct track *track = find_counter(tracks, parent, name, unit);

	if (track)
		put_value(tracks, track, t_boot_ns, value);
}

/* False: no memory. */
static bool list(struct perfetto_tracks *tracks, struct track *track)
{
	if (tracks->sum_count == tracks->sum_room) {
		size_t room = 2 * tracks->sum_room + 64;
		struct track **more = realloc(tracks->sums, room * sizeof(*more));

		if (!more) {
			tracks->err = tracks->err ? tracks->err : -ENOMEM;
			return false;
		}
		tracks->sums = more;
		tracks->sum_room = room;
	}
	if (tracks->sum_count && tracks->sums[tracks->sum_count - 1]->uuid > track->uuid)
		tracks->sums_sorted = false;
	tracks->sums[tracks->sum_count++] = track;
	track->listed = true;
	return true;
}

void perfetto_sum(struct perfetto_tracks *tracks, uint64_t parent, const char *name,
		  counter_unit unit, uint64_t value)
{
	struct track *track = value ? find_counter(tracks, parent, name, unit) : NULL;

	if (track && (track->listed || list(tracks, track)))
		track->sum += value;
}

static int by_uuid(const void *a, const void *b)
{
	const struct track *const *x = a, *const *y = b;

	return (*x)->uuid < (*y)->uuid ? -1 : (*x)->uuid > (*y)->uuid;
}

void perfetto_end_sums(struct perfetto_tracks *tracks, uint64_t t_boot_ns)
{
	size_t kept = 0;

	if (!tracks->sums_sorted && tracks->sum_count)
		qsort(tracks->sums, tracks->sum_count, sizeof(struct track *), by_uuid);
	tracks->sums_sorted = true;
	for (size_t i = 0; i < tracks->sum_count; i++) {
		struct track *track = tracks->sums[i];

		put_value(tracks, track, t_boot_ns,
			  (int64_t)(track->sum < INT64_MAX ? track->sum : INT64_MAX));
		track->written = track->sum;
		track->sum = 0;
		track->listed = track->written;
		if (track->listed)
			tracks->sums[kept++] = track;
	}
	tracks->sum_count = kept;
}
