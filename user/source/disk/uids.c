/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/disk/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <uthash.h>

#include "jankscope/target.h"
#include "proc/uid_io.h"
#include "util/clock.h"

#define PATH "/proc/uid_io/stats"
/* The kernel walks all threads for it. */
#define EVERY_NS (10 * NSEC_PER_SEC)
/* 4,096 uids; with lines of tasks more than that is cut off. */
#define TEXT_BYTES (1u << 20)
#define MAX_UIDS   8192

struct known_uid {
	uint32_t uid;
	struct proc_uid_io now;
	bool met;
	UT_hash_handle hh;
};

struct disk_uids {
	int fd;
	uint64_t read_ns; /* CLOCK_MONOTONIC; 0: never */
	struct known_uid *known;
	struct record_disk_uid *rows;
	char text[TEXT_BYTES];
};

/* Of another file system it might never be opened. */
static int open_kernels(const char *path)
{
	int place = open(path ?: PATH, O_PATH | O_CLOEXEC), fd;
	struct statfs fs;
	char name[48];

	if (place < 0)
		return -errno;
	if (!path && (fstatfs(place, &fs) || fs.f_type != PROC_SUPER_MAGIC)) {
		close(place);
		return -EXDEV;
	}
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = -errno;
	close(place);
	return fd;
}

struct disk_uids *disk_uids_new(const char *path)
{
	struct disk_uids *uids = calloc(1, sizeof(*uids));

	if (!uids)
		return NULL;
	uids->fd = open_kernels(path);
	if (uids->fd >= 0)
		return uids;
	errno = -uids->fd;
	free(uids);
	return NULL;
}

void disk_uids_free(struct disk_uids *uids)
{
	struct known_uid *known, *next;

	if (!uids)
		return;
	HASH_ITER (hh, uids->known, known, next) {
		HASH_DEL(uids->known, known);
		free(known);
	}
	close(uids->fd);
	free(uids->rows);
	free(uids);
}

static ssize_t read_all(struct disk_uids *uids)
{
	size_t have = 0;
	ssize_t n;

	if (lseek(uids->fd, 0, SEEK_SET) < 0)
		return -errno;
	while (have < sizeof(uids->text)) {
		n = read(uids->fd, uids->text + have, sizeof(uids->text) - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		/* The kernel has root in it at least: that nobody is there would have all of them
		 * begin at 0 in the next one. */
		if (!n)
			return have ? (ssize_t)have : -EBADMSG;
		have += (size_t)n;
	}
	return -EFBIG;
}

static uint64_t grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static struct record_disk_ground part(const struct proc_uid_io_ground *now,
				      const struct proc_uid_io_ground *before)
{
	return (struct record_disk_ground){
		.read_bytes = grown(now->read_bytes, before->read_bytes),
		.write_bytes = grown(now->write_bytes, before->write_bytes),
		.rchar_bytes = grown(now->rchar_bytes, before->rchar_bytes),
		.wchar_bytes = grown(now->wchar_bytes, before->wchar_bytes),
		.fsyncs = grown(now->fsyncs, before->fsyncs),
	};
}

static bool is_nothing(const struct record_disk_ground *ground)
{
	return !(ground->read_bytes | ground->write_bytes | ground->rchar_bytes |
		 ground->wchar_bytes | ground->fsyncs);
}

static bool is_asked_for(const struct target_set *targets, uid_t uid)
{
	const struct target_process *process;

	if (!targets || target_set_is_all(targets) || target_set_has_uid(targets, uid))
		return true;
	for (size_t n = 0; (process = target_set_at(targets, n)); n++)
		if (process->uid == uid)
			return true;
	return false;
}

static int take_uid(struct disk_uids *uids, const struct proc_uid_io *io,
		    struct target_set *targets, struct record_disk *disk)
{
	struct record_disk_uid row = {.uid = io->uid};
	struct known_uid *known;

	HASH_FIND(hh, uids->known, &io->uid, sizeof(uint32_t), known);
	if (known && known->met)
		return -EBADMSG;
	if (!known) {
		if (HASH_COUNT(uids->known) == MAX_UIDS)
			return -EFBIG;
		known = calloc(1, sizeof(*known));
		if (!known)
			return -ENOMEM;
		known->uid = io->uid;
		HASH_ADD(hh, uids->known, uid, sizeof(known->uid), known);
	}
	row.foreground = part(&io->foreground, &known->now.foreground);
	row.background = part(&io->background, &known->now.background);
	known->now = *io;
	known->met = true;
	if (!uids->read_ns || (is_nothing(&row.foreground) && is_nothing(&row.background)) ||
	    !is_asked_for(targets, row.uid))
		return 0;
	row.package = targets ? target_package_of_uid(targets, row.uid) : NULL;
	uids->rows[disk->uid_count++] = row;
	return 0;
}

static int take_text(struct disk_uids *uids, size_t length, struct target_set *targets,
		     struct record_disk *disk)
{
	const char *line = uids->text, *end = line + length, *newline;
	struct known_uid *known, *next;
	struct proc_uid_io io;
	int err = 0;

	for (; !err && line < end; line = newline + 1) {
		newline = memchr(line, '\n', (size_t)(end - line));
		if (!newline)
			return -EBADMSG;
		if (proc_parse_uid_io(line, newline, &io))
			err = take_uid(uids, &io, targets, disk);
		else if (!proc_is_uid_io_task(line, newline))
			err = -EBADMSG;
	}
	/* A uid that is removed with its app begins at 0 where it comes again. */
	HASH_ITER (hh, uids->known, known, next) {
		if (known->met) {
			known->met = false;
			continue;
		}
		if (err)
			continue;
		HASH_DEL(uids->known, known);
		free(known);
	}
	return err;
}

int disk_uids_read(struct disk_uids *uids, struct target_set *targets, uint64_t now_ns, bool final,
		   struct record_disk *disk)
{
	ssize_t n;
	int err;

	if (!final && uids->read_ns && now_ns < uids->read_ns + EVERY_NS)
		return 0;
	if (!uids->rows)
		uids->rows = calloc(MAX_UIDS, sizeof(*uids->rows));
	if (!uids->rows)
		return -ENOMEM;
	n = read_all(uids);
	disk->uid_count = 0;
	err = n < 0 ? (int)n : take_text(uids, (size_t)n, targets, disk);
	disk->uids = uids->rows;
	disk->uids_present = !err && uids->read_ns;
	disk->uids_span_ns = disk->uids_present ? now_ns - uids->read_ns : 0;
	if (err)
		disk->uid_count = 0;
	/* What was read of a text that makes no sense is no beginning for the next one. */
	uids->read_ns = err ? 0 : now_ns;
	return err;
}
