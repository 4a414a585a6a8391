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
	uint64_t segment_bytes, total_bytes;

	/* the run: its header without its last key */
	char *header;
	size_t header_length;
	char session[37], run_boot_id[37];

	/* the segment that is written; fd -1: none is open */
	int fd;
	struct segment_facts facts;
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
};

/* Tell the recorder, now or when it has taken what was told before. */
void store_tell(struct store_writer *writer, const struct store_notice *notice);
/* Append a line to the index; where that fails the index is made anew some day. */
void store_index(struct store_writer *writer, const struct segment_facts *facts);
/* Remove what the limits ask for; `more` bytes are about to be written. */
void store_keep_limits(struct store_writer *writer, uint64_t more);
/* Remove the oldest closed segment to make room. False: there is none. */
bool store_make_room(struct store_writer *writer);
/* Start the thread that compresses closed segments. */
void store_pack_start(struct store_writer *writer);
