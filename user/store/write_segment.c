/* SPDX-License-Identifier: BSD-2-Clause */
/* The segment that is written: from its first line, the header of its run, to its end. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/line.h"
#include "store/write_private.h"
#include "util/clock.h"
#include "util/crc32c.h"

/* To cut a file takes room as well on file systems that write nothing in place (btrfs, with a quota
 * that is used up). */
static int cut_tail(struct store_writer *writer)
{
	off_t good = (off_t)writer->facts.bytes;

	if (writer->torn &&
	    (ftruncate(writer->fd, good) || lseek(writer->fd, good, SEEK_SET) != good))
		return -errno;
	writer->torn = false;
	return 0;
}

int segment_write(struct store_writer *writer, const char *data, size_t length)
{
	size_t done = 0;
	int cut = cut_tail(writer);

	if (cut)
		return cut;
	while (done < length) {
		ssize_t n = write(writer->fd, data + done, length - done);
		int err = n < 0 ? errno : 0;

		if (err == EINTR)
			continue;
		if (err) {
			writer->torn = done > 0;
			cut = cut_tail(writer);
			/* Where it is not for want of room, it is the end of the segment. */
			return !cut || cut == -ENOSPC || cut == -EDQUOT ? -err : -EIO;
		}
		done += (size_t)n;
	}
	writer->facts.bytes += length;
	writer->facts.lines++;
	writer->facts.crc = crc32c(writer->facts.crc, data, length);
	writer->bytes_since_look += length;
	writer->total_bytes += length;
	if (!writer->unsynced)
		writer->unsynced_since_ns = clock_now_ns(CLOCK_MONOTONIC);
	writer->unsynced = true;
	return 0;
}

int segment_sync(struct store_writer *writer)
{
	struct store_notice notice = {.kind = STORE_SYNC_FAILED,
				      .first_segment = writer->facts.number,
				      .last_segment = writer->facts.number};

	if (!writer->unsynced || writer->fd < 0)
		return 0;
	writer->unsynced = false;
	/* EROFS: ext4 gave up its journal, and what it took before may be in no place. */
	if (!fdatasync(writer->fd) || errno == EINVAL)
		return 0;
	notice.error = -errno;
	store_tell(writer, &notice);
	return notice.error;
}

static void add_closed(struct store_writer *writer)
{
	struct store_list *list = &writer->closed;

	if (list->count == writer->closed_room) {
		size_t room = 2 * writer->closed_room + 16;
		struct store_segment *more = realloc(list->items, room * sizeof(*more));

		if (!more)
			return; /* neither compressed nor removed by this run */
		list->items = more;
		writer->closed_room = room;
	}
	list->items[list->count++] = (struct store_segment){.number = writer->facts.number,
							    .plain = true,
							    .known = !writer->torn,
							    .file_bytes = writer->facts.bytes,
							    .facts = writer->facts};
	if (!writer->options.plain && !writer->thread)
		store_pack_start(writer);
	pthread_cond_signal(&writer->more);
}

void segment_close(struct store_writer *writer, bool taken)
{
	int err = 0;

	if (writer->fd < 0)
		return;
	cut_tail(writer);
	/* What the disk did not take is in the memory of the kernel alone: the copy that is
	 * compressed is made from it. */
	if (!segment_sync(writer))
		posix_fadvise(writer->fd, 0, 0, POSIX_FADV_DONTNEED);
	if (close(writer->fd))
		err = -errno;
	writer->fd = -1;
	if (err == -EIO || err == -ENOSPC || err == -EDQUOT)
		store_tell(writer, &(struct store_notice){.kind = STORE_SYNC_FAILED,
							  .error = err,
							  .first_segment = writer->facts.number,
							  .last_segment = writer->facts.number});
	if (taken) {
		writer->torn = false;
		return;
	}
	pthread_mutex_lock(&writer->lock);
	if (!writer->torn)
		store_index(writer, &writer->facts);
	add_closed(writer);
	writer->torn = false;
	pthread_mutex_unlock(&writer->lock);
}

/* Each segment begins with the header of its run, and says which one it is and what follows. */
static int put_header(struct store_writer *writer, uint64_t first_seq)
{
	size_t room = writer->header_length + 128 + LINE_CRC_BYTES;
	char *line = malloc(room);
	int n, err;

	if (!line)
		return -ENOMEM;
	memcpy(line, writer->header, writer->header_length);
	n = snprintf(line + writer->header_length, 128,
		     ",\"segment\":{\"number\":%llu,\"first_seq\":%llu}",
		     (unsigned long long)writer->facts.number, (unsigned long long)first_seq);
	line_put_crc(line + writer->header_length + n, line, writer->header_length + (size_t)n);
	err = segment_write(writer, line, writer->header_length + (size_t)n + LINE_CRC_BYTES + 1);
	free(line);
	return err;
}

int segment_begin(struct store_writer *writer, uint64_t first_seq, uint64_t t_boot_ns)
{
	char name[SEGMENT_NAME];
	int err;

	if (writer->next_number > SEGMENT_MAX)
		return -EOVERFLOW;
	do
		writer->fd =
			openat(writer->dir_fd, segment_name(name, writer->next_number++, false),
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (writer->fd < 0 && errno == EEXIST && writer->next_number <= SEGMENT_MAX);
	if (writer->fd < 0) {
		err = -errno;
		writer->next_number--;
		return err;
	}
	writer->facts = (struct segment_facts){
		.number = writer->next_number - 1,
		.first_seq = first_seq,
		.last_seq = first_seq - 1,
		.first_boot_ns = t_boot_ns,
		.last_boot_ns = t_boot_ns,
	};
	memcpy(writer->facts.session, writer->session, sizeof(writer->session));
	memcpy(writer->facts.boot_id, writer->run_boot_id, sizeof(writer->run_boot_id));
	writer->opened_ns = clock_now_ns(CLOCK_MONOTONIC);
	err = put_header(writer, first_seq);
	if (err) {
		close(writer->fd);
		writer->fd = -1;
		writer->torn = false;
		writer->next_number--;
		unlinkat(writer->dir_fd, name, 0);
		return err;
	}
	/* The name is to outlast a power cut, too. */
	fsync(writer->dir_fd);
	return 0;
}
