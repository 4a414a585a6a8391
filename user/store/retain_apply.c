/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits of a folder, kept by removing its oldest closed segments. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/retain.h"
#include "store/write_private.h"
#include "util/clock.h"

#define LOOK_NS    NSEC_PER_SEC
#define LOOK_BYTES (64u << 10)

/* The note in the index stands before the removal: a recorder that dies between the two has not
 * removed it without a word. */
static bool remove_oldest(struct store_writer *writer, enum store_reason reason)
{
	struct store_segment *oldest = &writer->closed.items[0];
	struct segment_facts note = oldest->facts;
	char name[SEGMENT_NAME];
	bool gone = true;

	note.number = oldest->number;
	note.removed = reason;
	store_index(writer, &note);
	for (int packed = 0; packed < 2; packed++)
		if (unlinkat(writer->dir_fd, segment_name(name, oldest->number, packed), 0) &&
		    errno != ENOENT)
			gone = false;
	if (!gone)
		return false;
	writer->free_bytes += oldest->file_bytes;
	writer->closed.count--;
	memmove(writer->closed.items, writer->closed.items + 1,
		writer->closed.count * sizeof(*writer->closed.items));
	return true;
}

/* One notice for neighbours of one run. */
static void note_removed(struct store_notice *notice, const struct store_segment *segment)
{
	const struct segment_facts *facts = &segment->facts;

	notice->last_segment = segment->number;
	notice->bytes += segment->file_bytes;
	if (!segment->known)
		return;
	if (!notice->has_seq)
		notice->first_seq = facts->first_seq;
	notice->has_seq = true;
	notice->last_seq = facts->last_seq;
	notice->records += facts->lines - 1;
	memcpy(notice->session, facts->session, sizeof(notice->session));
}

static bool goes_on(const struct store_notice *notice, const struct store_segment *segment)
{
	return segment->number == notice->last_segment + 1 && segment->known == notice->has_seq &&
	       (!segment->known || !strcmp(segment->facts.session, notice->session));
}

/* With the lock. */
static bool remove_some(struct store_writer *writer, size_t count, enum store_reason reason)
{
	struct store_notice notice = {.kind = STORE_REMOVED, .reason = reason};
	bool any = false;

	while (count--) {
		struct store_segment oldest = writer->closed.items[0];

		if (!remove_oldest(writer, reason))
			break;
		if (any && !goes_on(&notice, &oldest)) {
			store_tell(writer, &notice);
			notice = (struct store_notice){.kind = STORE_REMOVED, .reason = reason};
			any = false;
		}
		if (!any)
			notice.first_segment = oldest.number;
		note_removed(&notice, &oldest);
		any = true;
	}
	if (any)
		store_tell(writer, &notice);
	return any;
}

bool store_make_room(struct store_writer *writer)
{
	bool any = false;

	pthread_mutex_lock(&writer->lock);
	if (writer->closed.count)
		any = remove_some(writer, 1, STORE_FOR_FREE_SPACE);
	pthread_mutex_unlock(&writer->lock);
	return any;
}

/* How full the disk is, once a second or once in so many bytes. */
static void look(struct store_writer *writer, uint64_t now_ns)
{
	struct statvfs disk;

	if (writer->looked_ns && now_ns - writer->looked_ns < LOOK_NS &&
	    writer->bytes_since_look < LOOK_BYTES)
		return;
	writer->looked_ns = now_ns;
	writer->bytes_since_look = 0;
	if (fstatvfs(writer->dir_fd, &disk))
		return;
	writer->disk_bytes = (uint64_t)disk.f_blocks * disk.f_frsize;
	writer->free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
}

void store_keep_limits(struct store_writer *writer, uint64_t more)
{
	struct retain_state state = {
		.now_boot_ns = clock_now_ns(CLOCK_BOOTTIME),
		.boot_id = writer->boot_id,
	};
	enum store_reason reason;
	size_t count;

	look(writer, clock_now_ns(CLOCK_MONOTONIC));
	pthread_mutex_lock(&writer->lock);
	do {
		state.disk_bytes = writer->disk_bytes;
		state.free_bytes = writer->free_bytes;
		state.other_bytes = (writer->fd >= 0 ? writer->facts.bytes : 0) + more +
				    writer->packing_bytes + writer->closed.index_bytes;
		count = retain_count(&writer->closed, &writer->options, &state, &reason);
	} while (count && remove_some(writer, count, reason));
	pthread_mutex_unlock(&writer->lock);
}
