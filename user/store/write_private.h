/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the writer of a folder share. */
#pragma once
#include <pthread.h>
#include <stdbool.h>

#include "store/folder.h"
#include "store/store.h"
#include "store/write.h"

struct store_writer {
	struct store_options options;
	struct store_notices *notices;
	int dir_fd, lock_fd, index_fd;
	char boot_id[37];
	uint64_t segment_bytes, segment_ns, total_bytes;

	/* the run: its header without its last key */
	char *header;
	size_t header_length;
	char session[37], run_boot_id[37];
	uint64_t interval_ns;

	/* the segment that is written; fd -1: none is open */
	int fd;
	struct segment_facts facts;
	bool torn; /* half a line lies behind facts.bytes, which could not be cut off yet */
	uint64_t opened_ns, next_number;
	bool unsynced;
	uint64_t unsynced_since_ns;

	/* the disk */
	uint64_t looked_ns, bytes_since_look, disk_bytes, free_bytes;
	int stalled; /* the error, negative; 0: it can be written */
	uint64_t stalled_since_ns, retry_ns;
	struct store_notice dropped; /* records > 0: to be told when it can be written again */
	struct store_notice waiting[8];
	size_t waiting_count;

	/* what the thread that compresses shares with the writer, by this lock */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct store_list closed;
	size_t closed_room;
	uint64_t packing_bytes; /* of the file that it makes */
	bool thread;

	/* merges that wait, by the writer */
	uint64_t begun_ns, keep_looked_ns;
	bool keep_behind; /* it is told */
};

/* Tell the recorder, now or when it has taken what was told before. */
void store_tell(struct store_writer *writer, const struct store_notice *notice);
/* Append a line to the index; where that fails the index is made anew some day. */
void store_index(struct store_writer *writer, const struct segment_facts *facts);
/* Make the index anew, where it holds much of what is gone or what is none. */
void store_shorten_index(struct store_writer *writer);
void store_open_index(struct store_writer *writer);

/* Open the next segment, whose first record has this seq, and write its header. 0 or -errno. */
int segment_begin(struct store_writer *writer, uint64_t first_seq, uint64_t t_boot_ns);
/* Write whole lines, or nothing of them. 0 or -errno. Half a line stays behind what is good where
 * the file cannot be cut now, until the next write or the close of the segment. */
int segment_write(struct store_writer *writer, const char *data, size_t length);
/* Have the disk take what was written. 0, or the error, negative, which is told: what was written
 * since the last time may be lost, but for the kernel's memory of it. */
int segment_sync(struct store_writer *writer);
/* Sync and close, if one is open; taken: it is not in the folder any more. */
void segment_close(struct store_writer *writer, bool taken);

/* Remove what the limits ask for; `more` bytes are about to be written. */
void store_keep_limits(struct store_writer *writer, uint64_t more);
/* Remove the oldest closed segment to make room. False: there is none. */
bool store_make_room(struct store_writer *writer);
/* Start the thread that compresses closed segments and merges old intervals. */
void store_pack_start(struct store_writer *writer);
/* Remove what it has begun. */
void store_pack_clean(struct store_writer *writer);
/* Compress what the file has from its begin on into PACK_NAME, which is on the disk then. The bytes
 * of the new file, or -errno: then there is none. -EBADMSG: its CRC-32C is not crc. */
int64_t store_pack_file(struct store_writer *writer, int from, uint32_t crc);
/* A closed segment by its number, with the lock; NULL: it was removed. */
struct store_segment *store_closed(struct store_writer *writer, uint64_t number);

/* The oldest closed segment whose intervals are to be merged now, and to which resolution, with the
 * lock. NULL: none is; *wait_ns: until one may be, 0: never. */
const struct store_segment *store_keep_due(struct store_writer *writer, uint64_t *resolution_ns,
					   uint64_t *wait_ns);
/* For how long the segment that waits longest for its merge has been due in this run, with the
 * lock; 0: none is. */
uint64_t store_keep_late(const struct store_writer *writer);
/* When that is so much that it is told. */
uint64_t store_keep_patience(const struct store_writer *writer);
/* Merge the intervals of such a segment, a copy of which this is. */
void store_keep_apply(struct store_writer *writer, const struct store_segment *segment,
		      uint64_t resolution_ns);

#define PACK_NAME "pack.tmp"
#define KEEP_NAME "keep.tmp"
