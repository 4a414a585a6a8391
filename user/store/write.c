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

#define SYNC_NS      (60 * NSEC_PER_SEC)
#define RETRY_NS     NSEC_PER_SEC
#define KEEP_LOOK_NS NSEC_PER_SEC
/* An old segment can be removed or merged by its age if it is not too long in time either. */
#define SEGMENT_NS      (3600 * NSEC_PER_SEC)
#define MIN_SEGMENT_NS  NSEC_PER_SEC
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

/* ---- opening ---- */

/* Runs that were killed one behind the other before they could tell of the one before. */
#define MAX_RESUMED 16
/* A run that has written more has had its first interval, and with that it tells. */
#define BRIEF_BYTES (1u << 20)

static int facts_of(const struct store_writer *writer, size_t index, bool scan,
		    struct segment_facts *facts)
{
	const struct store_segment *segment = &writer->closed.items[index];

	*facts = segment->facts;
	return segment->known && !scan ? 0 : store_scan(writer->dir_fd, segment->number, facts);
}

/* What is known of the end of a run, from its last whole line. */
static void tell_end(struct store_writer *writer, uint64_t number,
		     const struct segment_facts *facts, int err, uint64_t next_boot_ns)
{
	struct store_notice notice = {.kind = STORE_RESUMED,
				      .first_segment = number,
				      .last_segment = number,
				      .has_seq = facts->last_seq >= facts->first_seq,
				      .last_seq = facts->last_seq,
				      .error = err == -EBADMSG ? err : 0};

	if (!strcmp(facts->boot_id, writer->boot_id))
		notice.boot_ns = facts->last_boot_ns;
	if (notice.boot_ns && next_boot_ns > notice.boot_ns)
		notice.dur_ns = next_boot_ns - notice.boot_ns;
	memcpy(notice.session, facts->session, sizeof(notice.session));
	store_tell(writer, &notice);
}

/* The last run was not written to its end. The one before it has told of its own predecessor, or
 * was killed before it could: then that one is told of as well, and so on. */
static void tell_resumed(struct store_writer *writer)
{
	size_t at = writer->closed.count;
	uint64_t next_boot_ns = 0;

	for (int runs = 0; at && runs < MAX_RESUMED; runs++) {
		struct segment_facts facts = {0}, before;
		int err = facts_of(writer, --at, false, &facts);

		if (!err && facts.footer)
			return;
		tell_end(writer, writer->closed.items[at].number, &facts, err, next_boot_ns);
		/* Where it has more than a segment it has told. */
		if (!at || facts.bytes > BRIEF_BYTES ||
		    facts_of(writer, at - 1, false, &before) == -ENOMEM ||
		    !strcmp(before.session, facts.session))
			return;
		facts_of(writer, at, true, &facts);
		if (facts.resumed)
			return;
		next_boot_ns = strcmp(facts.boot_id, writer->boot_id) ? 0 : facts.first_boot_ns;
	}
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
	store_pack_clean(writer);
	store_shorten_index(writer);
	store_open_index(writer);
	return 0;
}

struct store_writer *store_writer_open(const char *path, const struct store_options *options,
				       struct store_notices *notices, char *why, size_t why_size)
{
	struct store_writer *writer = calloc(1, sizeof(*writer));
	pthread_condattr_t monotonic;
	int err;

	*why = 0;
	if (!writer)
		return NULL;
	writer->options = *options;
	writer->notices = notices;
	writer->fd = writer->dir_fd = writer->lock_fd = writer->index_fd = -1;
	writer->begun_ns = clock_now_ns(CLOCK_MONOTONIC);
	writer->segment_bytes = options->segment_bytes;
	if (!writer->segment_bytes) {
		writer->segment_bytes = STORE_SEGMENT_BYTES;
		if (options->max_disk_bytes &&
		    options->max_disk_bytes / SEGMENTS_A_DISK < STORE_SEGMENT_BYTES)
			writer->segment_bytes = options->max_disk_bytes / SEGMENTS_A_DISK;
	}
	writer->segment_ns = SEGMENT_NS;
	if (options->keep_count && options->keep[0].age_ns < SEGMENT_NS)
		writer->segment_ns = options->keep[0].age_ns;
	if (writer->segment_ns < MIN_SEGMENT_NS)
		writer->segment_ns = MIN_SEGMENT_NS;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", writer->boot_id,
		  sizeof(writer->boot_id));
	writer->boot_id[strcspn(writer->boot_id, "\n")] = 0;
	err = store_folder_open(path, &writer->dir_fd, why, why_size);
	if (!err)
		err = store_folder_lock(writer->dir_fd, (int)getppid(), &writer->lock_fd, why,
					why_size);
	if (!err)
		err = look_around(writer);
	if (!err && writer->next_number > SEGMENT_MAX) {
		snprintf(why, why_size,
			 "no number is left behind that of its last segment: name another folder");
		err = -EOVERFLOW;
	}
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
		writer->interval_ns = parsed->record.header->interval_ns;
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
	return segment_begin(writer, look->seq + 1, look->t_boot_ns);
}

static int put_line(struct store_writer *writer, const char *line, size_t length,
		    const struct line_look *look)
{
	int err = 0;

	if (!strcmp(look->type, "header")) {
		segment_close(writer, false);
		return take_header(writer, line, length, look);
	}
	if (writer->fd < 0)
		err = segment_begin(writer, look->seq, look->t_boot_ns);
	if (!err)
		err = segment_write(writer, line, length);
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
		segment_close(writer, false);
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
	/* No file may be longer (RLIMIT_FSIZE, or the file system): the next segment takes it. */
	if (err == -EFBIG && writer->facts.lines > 1) {
		segment_close(writer, false);
		err = put_line(writer, line, length, &look);
	}
	while (is_full(err) && store_make_room(writer))
		err = put_line(writer, line, length, &look);
	if (err) {
		stall(writer, err);
		return -EAGAIN;
	}
	if (writer->stalled)
		go_on(writer);
	if (writer->facts.bytes >= writer->segment_bytes ||
	    clock_now_ns(CLOCK_MONOTONIC) - writer->opened_ns >= writer->segment_ns)
		segment_close(writer, false);
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
	segment_close(writer, true);
}

/* A machine without a free moment leaves the thread that merges none either: then the folder has
 * more than --keep asked for, and that is told. */
static void check_keep(struct store_writer *writer, uint64_t now_ns)
{
	uint64_t late_ns, patience_ns = store_keep_patience(writer);

	if (!writer->options.keep_count || now_ns - writer->keep_looked_ns < KEEP_LOOK_NS)
		return;
	writer->keep_looked_ns = now_ns;
	pthread_mutex_lock(&writer->lock);
	late_ns = store_keep_late(writer);
	pthread_mutex_unlock(&writer->lock);
	/* Between the two nothing changes. */
	if (writer->keep_behind ? late_ns > patience_ns / 2 : late_ns <= patience_ns)
		return;
	writer->keep_behind = !writer->keep_behind;
	store_tell(writer, &(struct store_notice){.kind = writer->keep_behind ? STORE_BEHIND
									      : STORE_CAUGHT_UP,
						  .dur_ns = late_ns});
}

int store_writer_tick(struct store_writer *writer)
{
	uint64_t now_ns = clock_now_ns(CLOCK_MONOTONIC);
	struct stat folder;

	if (!fstat(writer->dir_fd, &folder) && !folder.st_nlink)
		return -ENOENT;
	store_folder_keep_lock(writer->dir_fd, &writer->lock_fd);
	check_keep(writer, now_ns);
	tell_waiting(writer);
	check_taken(writer);
	/* As in stall(). */
	if (writer->unsynced && now_ns - writer->unsynced_since_ns >= SYNC_NS &&
	    segment_sync(writer))
		segment_close(writer, false);
	return 0;
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
	segment_close(writer, false);
	store_pack_clean(writer);
	return writer->stalled;
}

uint64_t store_writer_bytes(const struct store_writer *writer)
{
	return writer->total_bytes;
}
