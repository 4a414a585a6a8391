/* SPDX-License-Identifier: BSD-2-Clause */
/* Old segments are written anew with merged intervals, in the thread that compresses. The new file
 * is whole and on the disk before it takes the name of the old one in a rename, so that there is
 * always one of the two; the index follows, and is wrong about the segment until then, which its
 * readers see by its length. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/keep.h"
#include "store/line.h"
#include "store/retain.h"
#include "store/thin.h"
#include "store/write_private.h"
#include "util/clock.h"
#include "util/crc32c.h"

/* Ages go by CLOCK_BOOTTIME, which runs on in a suspend that a wait does not see. */
#define MAX_WAIT_NS (600 * NSEC_PER_SEC)
#define MIN_WAIT_NS (100 * NSEC_PER_MSEC)
/* A merge that is late by the first AGE is told, and by this at the least. */
#define MIN_PATIENCE_NS (10 * NSEC_PER_SEC)

const struct store_segment *store_keep_due(struct store_writer *writer, uint64_t *resolution_ns,
					   uint64_t *wait_ns)
{
	const struct retain_state state = {
		.now_boot_ns = clock_now_ns(CLOCK_BOOTTIME),
		.boot_id = writer->boot_id,
	};
	const struct store_list *closed = &writer->closed;

	*wait_ns = 0;
	for (size_t i = 0; i < closed->count && writer->options.keep_count; i++) {
		const struct store_segment *segment = &closed->items[i];
		uint64_t age_ns = retain_age_ns(closed, i, &state), next_ns, left_ns;
		bool ours = !strcmp(segment->facts.session, writer->session);

		if (!segment->known || !segment->packed || segment->plain || segment->kept)
			continue;
		*resolution_ns = keep_resolution(&writer->options, age_ns, &next_ns);
		if (*resolution_ns > segment->facts.resolution_ns &&
		    !(ours && *resolution_ns <= writer->interval_ns))
			return segment;
		left_ns = next_ns > age_ns ? next_ns - age_ns + 1 : MAX_WAIT_NS;
		if (next_ns && (!*wait_ns || left_ns < *wait_ns))
			*wait_ns = left_ns;
	}
	*resolution_ns = 0;
	if (*wait_ns > MAX_WAIT_NS)
		*wait_ns = MAX_WAIT_NS;
	if (*wait_ns && *wait_ns < MIN_WAIT_NS)
		*wait_ns = MIN_WAIT_NS;
	return NULL;
}

uint64_t store_keep_late(const struct store_writer *writer)
{
	const struct retain_state state = {
		.now_boot_ns = clock_now_ns(CLOCK_BOOTTIME),
		.boot_id = writer->boot_id,
	};
	const struct store_keep *keep = writer->options.keep;
	uint64_t late_ns = 0, run_ns = clock_now_ns(CLOCK_MONOTONIC) - writer->begun_ns;

	for (size_t i = 0; i < writer->closed.count; i++) {
		const struct store_segment *segment = &writer->closed.items[i];
		uint64_t age_ns = retain_age_ns(&writer->closed, i, &state);
		bool ours = !strcmp(segment->facts.session, writer->session);

		/* Damaged, or not to be compressed: it will not be merged. */
		if (segment->kept ||
		    (segment->tried && (!segment->known || !segment->packed || segment->plain)))
			continue;
		for (size_t k = 0; k < writer->options.keep_count; k++) {
			uint64_t due_ns = k ? keep[k - 1].age_ns : 0;

			if (age_ns <= due_ns ||
			    keep[k].resolution_ns <= segment->facts.resolution_ns ||
			    (ours && keep[k].resolution_ns <= writer->interval_ns))
				continue;
			if (age_ns - due_ns > late_ns)
				late_ns = age_ns - due_ns;
			break;
		}
	}
	/* What an earlier run left is due since this one began. */
	return late_ns < run_ns ? late_ns : run_ns;
}

uint64_t store_keep_patience(const struct store_writer *writer)
{
	uint64_t age_ns = writer->options.keep_count ? writer->options.keep[0].age_ns : 0;

	return age_ns > MIN_PATIENCE_NS ? age_ns : MIN_PATIENCE_NS;
}

struct rewriting {
	struct store_writer *writer;
	FILE *out;
	struct segment_facts facts;
};

static int put_line(void *ctx, const char *line, size_t length)
{
	struct rewriting *rewriting = ctx;

	if (fwrite(line, 1, length, rewriting->out) != length)
		return errno ? -errno : -EIO;
	rewriting->facts.bytes += length;
	rewriting->facts.lines++;
	rewriting->facts.crc = crc32c(rewriting->facts.crc, line, length);
	__atomic_fetch_add(&rewriting->writer->packing_bytes, length, __ATOMIC_RELAXED);
	return 0;
}

/* 0: all of it was taken. */
static int read_lines(FILE *in, struct thinner *thinner)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t length = 0;
	int err = 0;

	while (!err && (length = line_read(in, &line, &room)) > 0)
		err = thinner_line(thinner, line, (size_t)length);
	if (!err && length < 0)
		err = (int)length;
	free(line);
	return err ? err : thinner_end(thinner);
}

static FILE *make_file(const struct store_writer *writer)
{
	int fd;
	FILE *file;

	unlinkat(writer->dir_fd, KEEP_NAME, 0);
	fd = openat(writer->dir_fd, KEEP_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	file = fd >= 0 ? fdopen(fd, "w+") : NULL;
	if (fd >= 0 && !file)
		close(fd);
	return file;
}

/* The plain text of the new segment, in KEEP_NAME. *merged: intervals that went into others. */
static int rewrite(struct rewriting *rewriting, uint64_t number, uint64_t resolution_ns,
		   uint64_t *merged)
{
	struct thinner *thinner = thinner_new(resolution_ns, put_line, rewriting);
	bool packed;
	FILE *in = thinner ? segment_open(rewriting->writer->dir_fd, number, &packed) : NULL;
	int err = !thinner ? -ENOMEM : in ? 0 : -errno;

	if (!err)
		err = read_lines(in, thinner);
	if (!err && fflush(rewriting->out))
		err = -errno;
	if (!err)
		*merged = thinner_merged(thinner);
	if (in)
		fclose(in);
	thinner_free(thinner);
	return err;
}

/* With the lock. A segment that was removed meanwhile stays so. */
static int take_place(struct store_writer *writer, uint64_t number,
		      const struct segment_facts *facts, uint64_t file_bytes)
{
	struct store_segment *segment = store_closed(writer, number);
	char name[SEGMENT_NAME];

	if (!segment)
		return -ENOENT;
	if (renameat(writer->dir_fd, PACK_NAME, writer->dir_fd, segment_name(name, number, true)))
		return -errno;
	fsync(writer->dir_fd);
	segment->file_bytes = file_bytes;
	segment->facts = *facts;
	store_index(writer, facts);
	return 0;
}

/* Nothing was to be merged: that is worth a line of the index, and no rewriting. */
static void note(struct store_writer *writer, uint64_t number, uint64_t resolution_ns)
{
	struct store_segment *segment = store_closed(writer, number);

	if (!segment)
		return;
	segment->facts.resolution_ns = resolution_ns;
	store_index(writer, &segment->facts);
}

void store_keep_apply(struct store_writer *writer, const struct store_segment *segment,
		      uint64_t resolution_ns)
{
	struct rewriting rewriting = {
		.writer = writer, .out = make_file(writer), .facts = segment->facts};
	uint64_t number = segment->number, merged = 0;
	struct store_segment *found;
	int64_t bytes = 0;
	int err = rewriting.out ? 0 : -errno;

	rewriting.facts.bytes = rewriting.facts.lines = rewriting.facts.crc = 0;
	rewriting.facts.resolution_ns = resolution_ns;
	if (!err)
		err = rewrite(&rewriting, number, resolution_ns, &merged);
	if (!err && merged && lseek(fileno(rewriting.out), 0, SEEK_SET))
		err = -errno;
	if (!err && merged)
		bytes = store_pack_file(writer, fileno(rewriting.out), rewriting.facts.crc);
	if (!err && bytes < 0)
		err = (int)bytes;
	if (rewriting.out)
		fclose(rewriting.out);
	pthread_mutex_lock(&writer->lock);
	if (!err && merged)
		err = take_place(writer, number, &rewriting.facts, (uint64_t)bytes);
	else if (!err)
		note(writer, number, resolution_ns);
	/* It stays as it is for this run: a full disk, or what cannot be read. */
	found = store_closed(writer, number);
	if (err && found)
		found->kept = true;
	writer->packing_bytes = 0;
	pthread_mutex_unlock(&writer->lock);
	store_pack_clean(writer);
}
