/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/read.h"
#include "record/json_read.h"
#include "store/line.h"
#include "store/retain.h"
#include "store/scan.h"
#include "store/write_private.h"
#include "util/clock.h"
#include "util/crc32c.h"

#define SYNC_NS  (60 * NSEC_PER_SEC)
#define RETRY_NS NSEC_PER_SEC
/* An old segment can be removed by its age alone if it is not too long in time either. */
#define SEGMENT_NS      (3600 * NSEC_PER_SEC)
#define SEGMENTS_A_DISK 16

/* ---- notices ---- */

static void tell_waiting(struct store_writer *writer)
{
	size_t told = 0;

	while (told < writer->waiting_count &&
	       store_notice_put(writer->notices, &writer->waiting[told]))
		told++;
	writer->waiting_count -= told;
	memmove(writer->waiting, writer->waiting + told,
		writer->waiting_count * sizeof(*writer->waiting));
}

void store_tell(struct store_writer *writer, const struct store_notice *notice)
{
	const size_t room = sizeof(writer->waiting) / sizeof(*writer->waiting);

	tell_waiting(writer);
	if (!writer->waiting_count && store_notice_put(writer->notices, notice))
		return;
	/* A recorder that takes none for so long is dead: the index has what was removed. */
	if (writer->waiting_count < room)
		writer->waiting[writer->waiting_count++] = *notice;
}

/* ---- the index ---- */

void store_index(struct store_writer *writer, const struct segment_facts *facts)
{
	char line[INDEX_MAX_LINE];
	size_t length = index_format(line, facts);

	/* Part of a line on a full disk is none to the reader, but would take the next one along.
	 */
	if (writer->index_fd < 0)
		return;
	if (write(writer->index_fd, line, length) != (ssize_t)length) {
		if (ftruncate(writer->index_fd, (off_t)writer->closed.index_bytes))
			writer->index_fd = -1;
		return;
	}
	writer->closed.index_bytes += length;
}

/* The index anew, where it holds much of what is gone or what is none. */
static void shorten_index(struct store_writer *writer)
{
	const struct store_list *list = &writer->closed;
	char line[INDEX_MAX_LINE];
	int fd;

	unlinkat(writer->dir_fd, INDEX_NAME ".tmp", 0);
	if (!list->index_refused && list->index_lines < 2 * list->count + 64)
		return;
	fd = openat(writer->dir_fd, INDEX_NAME ".tmp",
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (list->last_removed) {
		struct segment_facts note = {.number = list->last_removed,
					     .removed = STORE_FOR_FREE_SPACE};
		size_t length = index_format(line, &note);

		if (write(fd, line, length) != (ssize_t)length)
			goto fail;
	}
	for (size_t i = 0; i < list->count; i++) {
		size_t length;

		if (!list->items[i].known)
			continue;
		length = index_format(line, &list->items[i].facts);
		if (write(fd, line, length) != (ssize_t)length)
			goto fail;
	}
	if (fdatasync(fd) ||
	    renameat(writer->dir_fd, INDEX_NAME ".tmp", writer->dir_fd, INDEX_NAME))
		goto fail;
	close(fd);
	return;
fail:
	close(fd);
	unlinkat(writer->dir_fd, INDEX_NAME ".tmp", 0);
}

static void open_index(struct store_writer *writer)
{
	struct stat status;

	writer->index_fd =
		openat(writer->dir_fd, INDEX_NAME,
		       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (writer->index_fd < 0 || fstat(writer->index_fd, &status) || !S_ISREG(status.st_mode))
		return;
	writer->closed.index_bytes = (uint64_t)status.st_size;
	/* Half a line of a recorder that died ends here. */
	if (writer->closed.index_refused && write(writer->index_fd, "\n", 1) == 1)
		writer->closed.index_bytes++;
}

/* ---- opening ---- */

/* The last run was not written to its end: what is known of its end, from its last whole line. */
static void tell_resumed(struct store_writer *writer)
{
	const struct store_list *list = &writer->closed;
	struct store_notice notice = {.kind = STORE_RESUMED};
	struct segment_facts facts = {0};
	int err = 0;

	if (!list->count)
		return;
	facts = list->items[list->count - 1].facts;
	if (!list->items[list->count - 1].known)
		err = store_scan(writer->dir_fd, list->items[list->count - 1].number, &facts);
	if (!err && facts.footer)
		return;
	notice.first_segment = notice.last_segment = list->items[list->count - 1].number;
	notice.has_seq = facts.last_seq >= facts.first_seq;
	notice.last_seq = facts.last_seq;
	notice.error = err == -EBADMSG ? err : 0;
	if (!strcmp(facts.boot_id, writer->boot_id))
		notice.boot_ns = facts.last_boot_ns;
	memcpy(notice.session, facts.session, sizeof(notice.session));
	store_tell(writer, &notice);
}

static int look_around(struct store_writer *writer)
{
	struct store_list *list = &writer->closed;
	int err = store_list_read(list, writer->dir_fd);

	if (err)
		return err;
	writer->closed_room = list->count;
	writer->next_number = list->last_removed + 1;
	if (list->count && list->items[list->count - 1].number >= writer->next_number)
		writer->next_number = list->items[list->count - 1].number + 1;
	shorten_index(writer);
	open_index(writer);
	return 0;
}

struct store_writer *store_writer_open(const char *path, const struct store_options *options,
				       struct store_notices *notices, char *why, size_t why_size)
{
	struct store_writer *writer = calloc(1, sizeof(*writer));
	int err;

	*why = 0;
	if (!writer)
		return NULL;
	writer->options = *options;
	writer->notices = notices;
	writer->fd = writer->dir_fd = writer->lock_fd = writer->index_fd = -1;
	writer->segment_bytes = options->segment_bytes;
	if (!writer->segment_bytes) {
		writer->segment_bytes = STORE_SEGMENT_BYTES;
		if (options->max_disk_bytes &&
		    options->max_disk_bytes / SEGMENTS_A_DISK < STORE_SEGMENT_BYTES)
			writer->segment_bytes = options->max_disk_bytes / SEGMENTS_A_DISK;
	}
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->more, NULL);
	proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", writer->boot_id,
		  sizeof(writer->boot_id));
	writer->boot_id[strcspn(writer->boot_id, "\n")] = 0;
	err = store_folder_open(path, &writer->dir_fd, why, why_size);
	if (!err)
		err = store_folder_lock(writer->dir_fd, (int)getppid(), &writer->lock_fd, why,
					why_size);
	if (!err)
		err = look_around(writer);
	if (err) {
		free(writer);
		errno = -err;
		return NULL;
	}
	tell_resumed(writer);
	store_keep_limits(writer, 0);
	return writer;
}

size_t store_writer_fds(const struct store_writer *writer, int fds[4])
{
	size_t count = 0;

	for (size_t i = 0; i < 3; i++) {
		int fd = (int[]){writer->dir_fd, writer->lock_fd, writer->index_fd}[i];

		if (fd >= 0)
			fds[count++] = fd;
	}
	return count;
}

/* ---- the segment ---- */

static int write_whole(struct store_writer *writer, const char *data, size_t length)
{
	off_t good = (off_t)writer->facts.bytes;
	size_t done = 0;

	while (done < length) {
		ssize_t n = write(writer->fd, data + done, length - done);
		int err = n < 0 ? errno : 0;

		if (err == EINTR)
			continue;
		if (err) {
			/* Half a line stays only where the file cannot be cut: then it is the end
			 * of its segment. */
			if (done && (ftruncate(writer->fd, good) ||
				     lseek(writer->fd, good, SEEK_SET) != good))
				return -EIO;
			return -err;
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

static void sync_segment(struct store_writer *writer)
{
	struct store_notice notice = {.kind = STORE_SYNC_FAILED,
				      .first_segment = writer->facts.number,
				      .last_segment = writer->facts.number};

	if (!writer->unsynced || writer->fd < 0)
		return;
	writer->unsynced = false;
	if (!fdatasync(writer->fd) || errno == EINVAL || errno == EROFS)
		return;
	notice.error = -errno;
	store_tell(writer, &notice);
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
							    .known = true,
							    .file_bytes = writer->facts.bytes,
							    .facts = writer->facts};
	if (!writer->options.plain && !writer->thread)
		store_pack_start(writer);
	pthread_cond_signal(&writer->more);
}

/* taken: it is not in the folder any more. */
static void close_segment(struct store_writer *writer, bool taken)
{
	int err = 0;

	if (writer->fd < 0)
		return;
	sync_segment(writer);
	posix_fadvise(writer->fd, 0, 0, POSIX_FADV_DONTNEED);
	if (close(writer->fd))
		err = -errno;
	writer->fd = -1;
	if (err == -EIO || err == -ENOSPC || err == -EDQUOT)
		store_tell(writer, &(struct store_notice){.kind = STORE_SYNC_FAILED,
							  .error = err,
							  .first_segment = writer->facts.number,
							  .last_segment = writer->facts.number});
	if (taken)
		return;
	pthread_mutex_lock(&writer->lock);
	store_index(writer, &writer->facts);
	add_closed(writer);
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
	err = write_whole(writer, line, writer->header_length + (size_t)n + LINE_CRC_BYTES + 1);
	free(line);
	return err;
}

static int open_segment(struct store_writer *writer, uint64_t first_seq, uint64_t t_boot_ns)
{
	char name[SEGMENT_NAME];
	int err;

	do
		writer->fd =
			openat(writer->dir_fd, segment_name(name, writer->next_number++, false),
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (writer->fd < 0 && errno == EEXIST);
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
		writer->next_number--;
		unlinkat(writer->dir_fd, name, 0);
		return err;
	}
	/* The name is to outlast a power cut, too. */
	fsync(writer->dir_fd);
	return 0;
}

/* ---- the run ---- */

static int keep_header(struct store_writer *writer, const char *line, size_t length)
{
	struct parsed_record *parsed = NULL;
	char why[64];
	int err = record_parse(line, length - 1, &parsed, why, sizeof(why));

	if (!err && parsed->known && parsed->record.type == RECORD_HEADER) {
		memcpy(writer->session, parsed->record.header->session, sizeof(writer->session));
		memcpy(writer->run_boot_id, parsed->record.header->boot_id,
		       sizeof(writer->run_boot_id));
	}
	parsed_record_free(parsed);
	free(writer->header);
	writer->header_length = length - 1 - LINE_CRC_BYTES;
	writer->header = malloc(writer->header_length);
	if (!writer->header)
		return -ENOMEM;
	memcpy(writer->header, line, writer->header_length);
	return 0;
}

static int take_header(struct store_writer *writer, const char *line, size_t length,
		       const struct line_look *look)
{
	int err = keep_header(writer, line, length);

	if (err)
		return err;
	/* What an earlier run left. */
	if (writer->closed.count && !writer->thread)
		store_pack_start(writer);
	return open_segment(writer, look->seq + 1, look->t_boot_ns);
}

static int put_line(struct store_writer *writer, const char *line, size_t length,
		    const struct line_look *look)
{
	int err = 0;

	if (!strcmp(look->type, "header")) {
		close_segment(writer, false);
		return take_header(writer, line, length, look);
	}
	if (writer->fd < 0)
		err = open_segment(writer, look->seq, look->t_boot_ns);
	if (!err)
		err = write_whole(writer, line, length);
	if (err)
		return err;
	if (writer->facts.last_seq < writer->facts.first_seq)
		writer->facts.first_boot_ns = look->t_boot_ns;
	writer->facts.last_seq = look->seq;
	writer->facts.last_boot_ns = look->t_boot_ns;
	writer->facts.footer = !strcmp(look->type, "footer");
	return 0;
}

static bool is_full(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* What stays free is not for us either. */
static int check_reserve(struct store_writer *writer, size_t length)
{
	store_keep_limits(writer, length);
	return writer->disk_bytes && writer->free_bytes < retain_reserve(writer->disk_bytes)
		       ? -ENOSPC
		       : 0;
}

static void stall(struct store_writer *writer, int err)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	writer->retry_ns = now_ns + RETRY_NS;
	if (writer->stalled)
		return;
	writer->stalled = err;
	writer->stalled_since_ns = now_ns;
	store_tell(writer, &(struct store_notice){
				   .kind = STORE_FULL, .error = err, .bytes = writer->free_bytes});
	/* Behind an error of the device nothing is appended to what was written before. */
	if (!is_full(err))
		close_segment(writer, false);
}

static void go_on(struct store_writer *writer)
{
	store_tell(writer, &(struct store_notice){.kind = STORE_WRITABLE,
						  .dur_ns = clock_now_ns(CLOCK_MONOTONIC) -
							    writer->stalled_since_ns});
	if (writer->dropped.records)
		store_tell(writer, &writer->dropped);
	writer->dropped = (struct store_notice){0};
	writer->stalled = 0;
}

int store_writer_put(struct store_writer *writer, const char *line, size_t length)
{
	struct line_look look;
	int err;

	if (writer->stalled && clock_now_ns(CLOCK_MONOTONIC) < writer->retry_ns)
		return -EAGAIN;
	if (!line_look(line, length, &look))
		return 0; /* no record: nobody writes one */
	err = check_reserve(writer, length);
	if (!err)
		err = put_line(writer, line, length, &look);
	while (is_full(err) && store_make_room(writer))
		err = put_line(writer, line, length, &look);
	if (err) {
		stall(writer, err);
		return -EAGAIN;
	}
	if (writer->stalled)
		go_on(writer);
	if (writer->facts.bytes >= writer->segment_bytes ||
	    clock_now_ns(CLOCK_MONOTONIC) - writer->opened_ns >= SEGMENT_NS)
		close_segment(writer, false);
	return 0;
}

void store_writer_drop(struct store_writer *writer, const char *line, size_t length)
{
	struct store_notice *dropped = &writer->dropped;
	struct line_look look;

	if (!line_look(line, length, &look))
		return;
	/* Each segment begins with it: it is not lost. */
	if (!strcmp(look.type, "header") && !keep_header(writer, line, length))
		return;
	if (!dropped->records)
		*dropped = (struct store_notice){.kind = STORE_DROPPED,
						 .has_seq = true,
						 .error = writer->stalled,
						 .first_seq = look.seq};
	dropped->last_seq = look.seq;
	dropped->records++;
	dropped->bytes += length;
}

/* Somebody else removed the segment or gave it another name: what it held is told, and what follows
 * goes into a new one. */
static void check_taken(struct store_writer *writer)
{
	struct stat named, open;
	char name[SEGMENT_NAME];

	if (writer->fd < 0 || fstat(writer->fd, &open))
		return;
	if (!fstatat(writer->dir_fd, segment_name(name, writer->facts.number, false), &named,
		     AT_SYMLINK_NOFOLLOW) &&
	    named.st_ino == open.st_ino && named.st_dev == open.st_dev)
		return;
	store_tell(writer, &(struct store_notice){
				   .kind = STORE_TAKEN,
				   .has_seq = writer->facts.last_seq >= writer->facts.first_seq,
				   .first_segment = writer->facts.number,
				   .last_segment = writer->facts.number,
				   .first_seq = writer->facts.first_seq,
				   .last_seq = writer->facts.last_seq,
				   .records = writer->facts.lines - 1,
				   .bytes = writer->facts.bytes,
			   });
	close_segment(writer, true);
}

void store_writer_tick(struct store_writer *writer)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);

	tell_waiting(writer);
	check_taken(writer);
	if (writer->unsynced && now_ns - writer->unsynced_since_ns >= SYNC_NS)
		sync_segment(writer);
}

int store_writer_timeout_ms(const struct store_writer *writer)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC), due_ns = 0;

	if (writer->stalled)
		due_ns = writer->retry_ns;
	else if (writer->unsynced)
		due_ns = writer->unsynced_since_ns + SYNC_NS;
	else
		return -1;
	return due_ns > now_ns ? (int)((due_ns - now_ns) / NSEC_PER_MSEC) + 1 : 0;
}

void store_writer_retry(struct store_writer *writer)
{
	writer->retry_ns = 0;
}

int store_writer_end(struct store_writer *writer)
{
	close_segment(writer, false);
	unlinkat(writer->dir_fd, "pack.tmp", 0);
	return writer->stalled;
}

uint64_t store_writer_bytes(const struct store_writer *writer)
{
	return writer->total_bytes;
}
